"""The widgets of the course: one function each, every argument with a default.

A widget only wires controls to the function of `flashlib.pictures` with the same name and the same
arguments, which gives the picture alone: use that where widgets don't run.
"""

from flashlib import pictures
from flashlib.board import Board, choose, count, pick, tick
from flashlib.hardware import GPUS

ROWS = (16, 24, 32, 48, 64)
TILES = (4, 6, 8, 12, 16, 24, 32, 64)
LENGTHS = tuple(2**k for k in range(7, 18))  # 128 … 131 072
BUDGETS_BYTES = (1000, 2000, 3000, 4000, 8000)
ORDERS = ("Q-outer", "K-outer")


def memory_explorer(N=4096, d=128, heads=16, batch=1, dtype="fp16", gpu="H200"):
    """How large S and P are beside a GPU's SRAM, L2 and HBM."""
    controls = {
        "N": pick("N", LENGTHS, N),
        "d": pick("d", (32, 64, 128, 256), d),
        "heads": pick("heads", (1, 8, 16, 32, 64), heads),
        "batch": pick("batch", (1, 2, 4, 8, 16, 32), batch),
        "dtype": choose("dtype", pictures.ITEMSIZES_BYTES, dtype),
        "gpu": choose("GPU", GPUS, gpu),
    }
    return Board(pictures.memory_explorer, controls, "Widget: S and P against a GPU's memories")


def running_max(n=48, Bc=4, order="random", seed=0):
    """One row of scores, tile by tile: m, l, α, the weights."""
    controls = {
        "n": pick("keys n", (8, 16, 24, 48, 96), n),
        "Bc": pick("Bc", (1, 2, 4, 8, 16, 48), Bc),
        "order": choose("scores", pictures.SCORE_ORDERS, order),
        "seed": count("seed", seed, 0, 99),
    }
    return Board(pictures.running_max, controls, "Widget: the running maximum of one row")


def tile_sweep(
    N=48, d=16, Br=8, Bc=8, causal=False, order="Q-outer", row=4, seed=0, sram_bytes=2000
):
    """The tiled forward pass, tile by tile."""
    controls = {
        "N": pick("N", ROWS, N),
        "Br": pick("Br", TILES, Br),
        "Bc": pick("Bc", TILES, Bc),
        "d": pick("d", (8, 16, 32), d),
        "sram_bytes": pick("SRAM bytes", BUDGETS_BYTES, sram_bytes),
        "order": choose("loop", ORDERS, order),
        "row": count("row shown", min(row, N - 1), 0, N - 1),
        "seed": count("seed", seed, 0, 99),
        "causal": tick("causal", causal),
    }
    return Board(pictures.tile_sweep, controls, "Widget: the tile sweep", limit=_row_below_n)


def _row_below_n(controls):
    controls["row"].max = controls["N"].value - 1


def traffic_curves(N=4096, d=128, heads=16, dtype="fp16", Br=64, gpu="H200"):
    """Bytes moved against N at three levels."""
    controls = {
        "N": pick("N", LENGTHS, N),
        "d": pick("d", (32, 64, 128, 256), d),
        "Br": pick("Br = Bc", (16, 32, 64, 128, 256), Br),
        "heads": pick("heads", (1, 8, 16, 32, 64), heads),
        "dtype": choose("dtype", pictures.ITEMSIZES_BYTES, dtype),
        "gpu": choose("GPU", GPUS, gpu),
    }
    return Board(pictures.traffic_curves, controls, "Widget: bytes moved against N")


def causal_tiles(N_q=64, N_k=64, Br=8, Bc=8, alignment="bottom-right"):
    """Which tiles a causal mask leaves."""
    lengths = (1, 4, 8, 16, 24, 32, 48, 64, 96)
    controls = {
        "N_q": pick("N_q", lengths, N_q),
        "N_k": pick("N_k", lengths, N_k),
        "alignment": choose("aligned", pictures.ALIGNMENTS, alignment),
        "Br": pick("Br", TILES, Br),
        "Bc": pick("Bc", TILES, Bc),
    }
    return Board(pictures.causal_tiles, controls, "Widget: tiles under a causal mask")


def backward_sweep(N=48, d=16, Br=8, Bc=8, causal=False, seed=0, sram_bytes=3000):
    """The recompute backward, tile by tile."""
    controls = {
        "N": pick("N", ROWS, N),
        "Br": pick("Br", TILES, Br),
        "Bc": pick("Bc", TILES, Bc),
        "d": pick("d", (8, 16, 32), d),
        "sram_bytes": pick("SRAM bytes", BUDGETS_BYTES, sram_bytes),
        "seed": count("seed", seed, 0, 99),
        "causal": tick("causal", causal),
    }
    return Board(pictures.backward_sweep, controls, "Widget: the backward sweep")


def sm_waves(batch=1, heads=16, N=4096, Br=128, sms=132):
    """Programs, waves and how full they are."""
    controls = {
        "batch": pick("batch", (1, 2, 4, 8, 16, 32), batch),
        "heads": pick("heads", (1, 8, 12, 16, 32, 64), heads),
        "N": pick("N", LENGTHS, N),
        "Br": pick("Br", (16, 32, 64, 128, 256), Br),
        "sms": pick("SMs", sorted({gpu.sms for gpu in GPUS.values()} | {1, 16, 64}), sms),
    }
    return Board(pictures.sm_waves, controls, "Widget: waves of programs on the SMs")
