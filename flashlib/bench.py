"""`python -m flashlib.bench cpu | gpu | traffic | widgets`: speed is measured here, not in tests.

cpu      naive, tiled (several tile sizes), causal and PyTorch's SDPA over N, with peak extra memory
gpu      the Triton kernel against SDPA's backends on an NVIDIA GPU
traffic  DRAM and L2 bytes by the hardware counters of an NVIDIA GPU
widgets  frames a second and redraw times of the widgets, in a headless Chromium
"""

import argparse
import csv
import statistics
import sys
import time
import tracemalloc

import numpy as np

from flashlib.forward import flash_attention_forward
from flashlib.naive import naive_attention

COLUMNS = ("N", "variant", "median_s", "low_s", "high_s", "of_naive", "peak_extra_bytes")


def measure(run, repeats):
    """Time `run()` after one warm-up; return (median, lowest, highest) in seconds."""
    run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), min(seconds), max(seconds)


def peak_extra_bytes(run):
    """Most bytes that NumPy held at once during `run()`, above what was there before."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def cpu_variants(N, d, tile_sizes, seed=0):
    """The competitors on one set of float32 inputs (N, d): {name: function of no arguments}."""
    rng = np.random.default_rng(seed)
    Q, K, V = (rng.standard_normal((N, d)).astype(np.float32) for _ in range(3))

    def tiled(Br, Bc):
        return lambda: flash_attention_forward(Q, K, V, Br, Bc)

    variants = {"naive": lambda: naive_attention(Q, K, V)}
    variants |= {f"tiled {Br}x{Bc}": tiled(Br, Bc) for Br, Bc in tile_sizes}
    variants["causal, default tile"] = lambda: flash_attention_forward(Q, K, V, causal=True)
    try:
        import torch
        from torch.nn.functional import scaled_dot_product_attention as sdpa
    except ImportError:
        print("PyTorch is not installed, so its column is missing: pip install torch")
    else:
        q, k, v = (torch.from_numpy(x)[None, None] for x in (Q, K, V))
        variants["PyTorch SDPA"] = lambda: sdpa(q, k, v)
        variants["PyTorch SDPA causal"] = lambda: sdpa(q, k, v, is_causal=True)
    return variants


def bench_cpu(seq_lengths, d, tile_sizes, repeats):
    """Measure every variant at every N. Returns a list of dicts with the keys COLUMNS.

    `peak_extra_bytes` is what NumPy allocates; for PyTorch, whose memory NumPy can't see, it is
    None. `of_naive` is the time divided by naive's at the same N, in the same run.
    """
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("flashlib.bench needs tqdm: pip install tqdm") from error

    rows = []
    variants = {N: cpu_variants(N, d, tile_sizes) for N in seq_lengths}
    with tqdm(total=sum(map(len, variants.values())), file=sys.stderr) as progress:
        for N, named in variants.items():
            naive_s = None
            for name, run in named.items():
                progress.set_description(f"N={N} {name}")
                median, low, high = measure(run, repeats)
                naive_s = median if name == "naive" else naive_s
                peak = None if "PyTorch" in name else peak_extra_bytes(run)
                values = (N, name, median, low, high, median / naive_s, peak)
                rows.append(dict(zip(COLUMNS, values, strict=True)))
                progress.update()
    return rows


def print_cpu_table(rows):
    """Print the rows of `bench_cpu`, one line a variant."""
    print(f"{'N':>6}  {'variant':<20}{'ms':>9}{'spread':>17}{'/ naive':>9}{'peak extra MB':>15}")
    for row in rows:
        spread = f"{row['low_s'] * 1e3:.1f}..{row['high_s'] * 1e3:.1f}"
        peak = row["peak_extra_bytes"]
        peak = "" if peak is None else f"{peak / 1e6:.2f}"
        line = f"{row['N']:>6}  {row['variant']:<20}{row['median_s'] * 1e3:>9.1f}{spread:>17}"
        print(f"{line}{row['of_naive']:>9.2f}{peak:>15}")


def tile_size(text):
    """Parse "256x128" into (256, 128)."""
    try:
        Br, Bc = (int(part) for part in text.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected BrxBc such as 256x128, got {text!r}") from None
    if min(Br, Bc) < 1:
        raise argparse.ArgumentTypeError(f"tile sizes must be at least 1, got {text!r}")
    return Br, Bc


def main_cpu(argv):
    """Parse the arguments of `cpu`, measure, print the table and write the CSV if asked."""
    parser = argparse.ArgumentParser(prog="python -m flashlib.bench cpu")
    parser.add_argument("--N", type=int, nargs="+", default=[1024, 2048, 4096, 8192])
    parser.add_argument("--d", type=int, default=64)
    tiles = [(64, 64), (128, 128), (256, 256), (512, 512), (1024, 1024), (256, 1024)]
    parser.add_argument("--tiles", type=tile_size, nargs="+", default=tiles, metavar="BrxBc")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--csv", help="also write the rows to this file")
    options = parser.parse_args(argv)
    if min(*options.N, options.d, options.repeats) < 1:
        parser.error("--N, --d and --repeats must be at least 1")

    rows = bench_cpu(options.N, options.d, options.tiles, options.repeats)
    print(f"float32, one head, d = {options.d}, NumPy {np.__version__}")
    print_cpu_table(rows)
    if options.csv:
        with open(options.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {options.csv}")
    return 0


def main(argv=None):
    """Choose the benchmark by the first argument; return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    name, rest = (argv[0], argv[1:]) if argv else ("", [])
    try:
        if name == "cpu":
            return main_cpu(rest)
        if name in ("gpu", "traffic"):
            from flashlib import bench_gpu

            return {"gpu": bench_gpu.main_gpu, "traffic": bench_gpu.main_traffic}[name](rest)
        if name == "widgets":
            from flashlib.bench_widgets import main_widgets

            return main_widgets(rest)
    except ImportError as error:  # a sentence that names the package and the command
        print(error, file=sys.stderr)
        return 1
    print(__doc__)
    return 0 if name in ("-h", "--help") else 2


if __name__ == "__main__":
    sys.exit(main())
