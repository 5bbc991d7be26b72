"""Bytes moved against sequence length, at the three levels of `flashlib.traffic`."""

import functools

import numpy as np

from flashlib.hardware import GPUS, measurements, select
from flashlib.pictures.frames import ALARM, ITEMSIZES_BYTES, Picture, new_figure, styled_picture
from flashlib.pictures.stage import axes_at, bytes_text, place
from flashlib.plots import COLORS, LINES
from flashlib.traffic import memory_work

LENGTHS = 2 ** np.arange(7, 18)  # 128 … 131 072
_work = functools.cache(memory_work)  # the same numbers come back with every control
MEASURED = {"heads": 16, "d": 128, "dtype": "fp16"}  # the recorded run


@functools.cache
def _measured():
    """The recorded H200 counters: {implementation: (N, dram bytes, l2 bytes), each (n,)}."""
    rows, table = measurements()["traffic"], {}
    for name in ("unfused_pytorch", "sdpa_flash"):
        mine = select(rows, impl=name)
        dram = [row["dram_read_bytes"] + row["dram_write_bytes"] for row in mine]
        table[name] = [row["N"] for row in mine], dram, [row["l2_bytes"] for row in mine]
    return table


@styled_picture
def traffic_curves(N=4096, d=128, heads=16, dtype="fp16", Br=64, gpu="H200"):
    """Bytes of one forward pass against N at levels 2 and 3, and where the saving vanishes.

    Args:
        N: the length at which the right panel and the text are evaluated. Br = Bc: tile size.
        gpu: its HBM bandwidth gives the seconds on the right-hand axis.

    Returns:
        Picture. The recorded H200 counters are drawn only for 16 heads, d = 128, fp16.
    """
    card, shared = GPUS[gpu], {"itemsize": ITEMSIZES_BYTES[dtype], "heads": heads}
    figure = new_figure(5.6)
    ax = axes_at(figure, 75, 165, 410, 345)
    _draw_curves(ax, d, Br, shared)
    same = {"heads": heads, "d": d, "dtype": dtype} == MEASURED
    if same:
        _draw_measured(ax)
    ax.axvline(N, color="#BBBBBB", lw=1, zorder=0)
    _add_seconds(ax, card)
    spacing = {"columnspacing": 1.2, "handlelength": 2.4, "frameon": False}
    handles = ax.get_legend_handles_labels()
    figure.legend(*handles, loc="lower left", bbox_to_anchor=(0.02, 0.005), ncols=3, **spacing)
    here = _work(N, d, **shared), _work(N, d, Br=Br, **shared)
    _draw_savings(figure, N, d, Br, here[1].saving, shared)
    title = f"d = {d}, {heads} heads, {dtype}, Br = Bc = {Br}"
    place(figure, 20, 540, title, weight="bold", fontsize=14)
    note = "" if same else "The measured points are for 16 heads, d = 128, fp16: not shown here."
    return Picture(figure, _traffic_text(N, d, Br, here, card), note=note)


def _draw_curves(ax, d, Br, shared):
    cached = [_work(int(n), d, **shared) for n in LENGTHS]
    asked = [_work(int(n), d, Br=Br, **shared) for n in LENGTHS]
    for label, name, dash, works in (
        ("naive, levels 2 and 3", "naive", "-", cached),
        ("K-outer, level 3", "k_outer", "-.", asked),
        ("Q-outer, level 3", "flash", "--", asked),
        ("both loop orders, level 2", "flash", ":", cached),
    ):
        moved_bytes = [getattr(work, name) for work in works]
        ax.plot(LENGTHS, moved_bytes, dash, color=COLORS[name], label=label)
    ax.set(xscale="log", yscale="log", xlabel="sequence length N (tokens)", ylabel="bytes moved")
    ax.set_xticks(LENGTHS[1::3], [f"{n:,}" for n in LENGTHS[1::3]])
    ticks = 10.0 ** np.arange(5, 15, 2)
    ax.set_yticks(ticks, [bytes_text(b) for b in ticks])
    ax.minorticks_off()


def _draw_measured(ax):
    unfused, flash = _measured()["unfused_pytorch"], _measured()["sdpa_flash"]
    for label, name, marker, n, counted_bytes in (
        ("H200 DRAM, unfused", "naive", "s", unfused[0], unfused[1]),
        ("H200 DRAM, flash", "flash", "o", flash[0], flash[1]),
        ("H200 L2, flash", "flash", "D", flash[0], flash[2]),
    ):
        edge = {"markeredgecolor": COLORS[name], "markeredgewidth": 2, "markerfacecolor": "white"}
        ax.plot(n, counted_bytes, marker, linestyle="none", zorder=3, label=label, **edge)


def _add_seconds(ax, card):
    """A second scale: how long the bytes take at the card's HBM bandwidth."""
    rate = card.hbm_bytes_per_s
    seconds = ax.secondary_yaxis("right", functions=(lambda b: b / rate, lambda s: s * rate))
    seconds.set_yticks([1e-6, 1e-3, 1], ["1 µs", "1 ms", "1 s"])
    seconds.minorticks_off()
    seconds.set_ylabel(f"at {rate / 1e12:.2f} TB/s ({card.name})", labelpad=8)


def _draw_savings(figure, N, d, Br, saving, shared):
    """naive / tiled at level 3 against Br, its limit 2·Br/d, and the Br at which it is 1."""
    sizes = 2 ** np.arange(4, 9)
    ax = axes_at(figure, 692, 165, 188, 345)
    for name in ("flash", "k_outer"):
        works = [_work(N, d, Br=int(b), **shared) for b in sizes]
        savings = [work.naive / getattr(work, name) for work in works]
        ax.plot(sizes, savings, LINES[name], color=COLORS[name], marker=".")
    ax.plot(sizes, 2 * sizes / d, color="#777777", lw=1, label="2·Br/d")
    ax.axhline(1, color=ALARM, lw=1.5)
    crossover = f"saves nothing:\nBr = d/2 = {d // 2}"
    ax.plot(d / 2, 1, "*", color=ALARM, ms=15, label=crossover, linestyle="none")
    ring = {"markerfacecolor": "none", "markeredgewidth": 2.5, "ms": 11}
    ax.plot(Br, saving, "o", color=COLORS["flash"], **ring)
    ax.set(xscale="log", yscale="log", xlabel="Br", xlim=(13, 310), ylim=(0.05, 40))
    ax.set_xticks(sizes, [str(b) for b in sizes])
    ax.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.minorticks_off()
    ax.set_title(f"naive / tiled, level 3\nat N = {N:,}", fontsize=12)
    ax.legend(loc="lower right", frameon=False, handlelength=1.2, borderpad=0, handletextpad=0.5)


def _traffic_text(N, d, Br, here, card):
    cached, asked = here
    naive_ms, flash_ms = (1e3 * n / card.hbm_bytes_per_s for n in (asked.naive, cached.flash))
    return (
        f"At N = {N:,}. Level 1, N×N elements touched: naive "
        f"{cached.naive_nxn_touches_elements:,}, tiled 0. Level 2, re-reads cached: naive "
        f"{bytes_text(cached.naive)}, tiled {bytes_text(cached.flash)}, {cached.saving:.1f} times "
        f"less. Level 3, bytes requested with Br = {Br}: Q-outer {bytes_text(asked.flash)} "
        f"({asked.saving:.2f} times less than naive; 2·Br/d = {2 * Br / d:.2f}), "
        f"K-outer {bytes_text(asked.k_outer)}. At the {card.name}'s HBM bandwidth: naive "
        f"{naive_ms:.3g} ms, tiled at level 2 {flash_ms:.3g} ms."
    )
