"""The GPU half of `python -m flashlib.bench`: speed of the Triton kernel and its peers, and bytes.

gpu      TFLOP/s forward and backward against PyTorch's attention backends and a large product
traffic  DRAM and L2 bytes of one forward pass by the GPU's counters, read with Nsight Compute

Both print a table and write JSON with the card, the versions, the date and the command.
"""

import argparse
import csv
import datetime
import functools
import itertools
import json
import pathlib
import shutil
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from flashlib import attention_flops, memory_work, triton_kernels
from flashlib.triton_kernels import triton  # so that it is imported there first

DATA = pathlib.Path(__file__).parent / "data"
TOKENS, WIDTH = 16384, 2048  # batch · N and heads · d of every cell: the work only grows by N
UNFUSED_LIMIT_BYTES = 16e9  # no unfused attention whose scores alone are larger
QUANTILES = (0.5, 0.2, 0.8)
OURS = "flashlib_triton"
COUNTERS = {
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_bytes": "lts__t_bytes.sum",
    "gpu_time_ns": "gpu__time_duration.sum",
}
TRAFFIC_TILE = {"Br": 128, "Bc": 128}


def provenance(command):
    """Where and when: a dict for the JSON files."""
    card = torch.cuda.get_device_properties(0)
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True).stdout.split()[:1]
    return {
        "gpu": f"{card.name} ({card.multi_processor_count} SMs, {card.L2_cache_size >> 20} MiB L2, "
        f"{card.total_memory / 1e9:.0f} GB)",
        "driver": driver[0] if driver else "unknown",
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "command": command,
    }


def unfused_pytorch(q, k, v, causal):
    """Attention as one would write it: N × N scores written, read, written as weights, read."""
    S = (q * q.shape[-1] ** -0.5) @ k.mT
    if causal:
        S = S.masked_fill(torch.ones_like(S[0, 0], dtype=torch.bool).triu(1), -torch.inf)
    return torch.softmax(S, -1) @ v


def sdpa(backend, q, k, v, causal):
    """PyTorch's scaled_dot_product_attention with one backend and no other."""
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


IMPLEMENTATIONS = {
    OURS: triton_kernels.triton_attention,
    "sdpa_flash": functools.partial(sdpa, SDPBackend.FLASH_ATTENTION),
    "sdpa_cudnn": functools.partial(sdpa, SDPBackend.CUDNN_ATTENTION),
    "sdpa_mem_efficient": functools.partial(sdpa, SDPBackend.EFFICIENT_ATTENTION),
    "unfused_pytorch": unfused_pytorch,
}


def timed(run):
    """Milliseconds: median, 20th and 80th percentile of many calls, with L2 flushed in between."""
    ms, low, high = triton.testing.do_bench(run, warmup=50, rep=200, quantiles=QUANTILES)
    return {"ms": round(ms, 4), "ms_low": round(low, 4), "ms_high": round(high, 4)}


def relative_error(got, expected):
    """‖got − expected‖ / ‖expected‖, the largest of all pairs."""
    pairs = zip(got, expected, strict=True)
    return max(((a.double() - b).norm() / b.norm()).item() for a, b in pairs)


def first_head(q, k, v, dO, causal):
    """(O,), (dQ, dK, dV) of the first head of the first batch in float64."""
    q, k, v = (x[:1, :1].double().requires_grad_() for x in (q, k, v))
    O = unfused_pytorch(q, k, v, causal)
    return (O.detach(),), torch.autograd.grad(O, (q, k, v), dO[:1, :1].double())


def measure(attention, q, k, v, dO, causal, exact):
    """Two dicts, forward and backward: times and the error against `exact` (of `first_head`)."""
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    O = attention(q, k, v, causal)
    gradients = torch.autograd.grad(O, (q, k, v), dO, retain_graph=True)
    errors = [
        relative_error([x[:1, :1] for x in got], expected)
        for got, expected in zip(((O.detach(),), gradients), exact, strict=True)
    ]
    del gradients

    def forward():
        with torch.no_grad():
            attention(q, k, v, causal)

    def backward():
        torch.autograd.grad(O, (q, k, v), dO, retain_graph=True)

    return [timed(run) | {"error": e} for run, e in zip((forward, backward), errors, strict=True)]


def compiled_tiles(q, k, v, dO, causal):
    """Tile, warps, stages, registers, spills and shared memory of our three kernels as tuned."""
    launch, rows = triton_kernels._launch, []

    def spy(*args):
        kernel = launch(*args)
        names = kernel.src.fn.arg_names
        tile = {names[i]: c for (i, *_), c in kernel.src.constants.items()}
        rows.append(
            {
                "kernel": kernel.metadata.name.strip("_"),
                "Br": tile["Br"],
                "Bc": tile["Bc"],
                "warps": kernel.metadata.num_warps,
                "stages": kernel.metadata.num_stages,
                "registers": kernel.n_regs,
                "spills": kernel.n_spills,
                "shared_bytes": kernel.metadata.shared,
            }
        )
        return kernel

    triton_kernels._launch = spy
    try:
        q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
        torch.autograd.grad(triton_kernels.triton_attention(q, k, v, causal), (q, k, v), dO)
    finally:
        triton_kernels._launch = launch
    return rows


def measure_cell(dtype, d, causal, N):
    """Rows of throughput for every implementation, and of tiles for ours."""
    cell = {"dtype": dtype, "d": d, "causal": causal, "N": N}
    heads, shape = TOKENS // N * WIDTH // d, (TOKENS // N, WIDTH // d, N, d)
    options = {"device": "cuda", "dtype": getattr(torch, dtype)}
    tensors = [torch.randn(shape, **options) for _ in range(4)]  # q, k, v, dO
    exact, throughput = first_head(*tensors, causal), []
    for impl, attention in IMPLEMENTATIONS.items():
        if impl == "unfused_pytorch" and heads * N * N * 2 > UNFUSED_LIMIT_BYTES:
            continue
        rows = measure(attention, *tensors, causal, exact)
        for direction, row in zip(("fwd", "bwd"), rows, strict=True):
            flops = attention_flops(N, d, causal=causal, heads=heads, backward=direction == "bwd")
            rate = {"tflops": round(flops / row["ms"] / 1e9, 1)}
            throughput.append({"impl": impl, "direction": direction} | cell | row | rate)
    print_cell(throughput)
    return throughput, [cell | row for row in compiled_tiles(*tensors, causal)]


def gpu(lengths=(1024, 4096, 16384), head_sizes=(64, 128), dtypes=("float16", "bfloat16")):
    """Measure every cell: {"ceilings", "throughput", "tiles"}.

    A cell has TOKENS / N batches and WIDTH / d heads. FLOPs are those of `attention_flops`.
    """
    peak = ceilings()
    cells = itertools.product(dtypes, head_sizes, (False, True), lengths)
    measured = [measure_cell(*cell) for cell in cells]
    throughput, tiles = (sum(rows, []) for rows in zip(*measured, strict=True))
    return {"ceilings": peak, "throughput": throughput, "tiles": tiles}


def ceilings():
    """What the card reaches: a large bf16 product, and a copy (bytes read and written)."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    x, y = (torch.empty(2**30, device="cuda", dtype=torch.int32) for _ in range(2))
    product, copy = timed(lambda: a @ b)["ms"], timed(lambda: y.copy_(x))["ms"]
    return {
        "matmul_8192_bf16_tflops": round(2 * 8192**3 / product / 1e9, 1),
        "copy_tb_per_s": round(2 * x.nbytes / copy / 1e9, 3),
    }


def print_cell(throughput):
    """One line a direction: our TFLOP/s, and how many times as fast as each peer that is."""
    for direction in ("fwd", "bwd"):
        rows = [row for row in throughput if row["direction"] == direction]
        ours, *peers = rows
        ratios = "  ".join(f"{ours['tflops'] / x['tflops']:5.2f} x {x['impl']}" for x in peers)
        where = f"{ours['dtype']:8} d {ours['d']:3} {'causal' if ours['causal'] else 'full':6}"
        print(f"{where} N {ours['N']:5} {direction} {ours['tflops']:5.0f} TFLOP/s = {ratios}")


@triton.jit
def _section():
    """Nothing: its name in the profiler's list says that the next measurement begins."""


def traffic_child(lengths):
    """What Nsight Compute watches: each implementation once for each N, after a warm-up."""
    names = "unfused_pytorch", "sdpa_flash", OURS
    ours = functools.partial(triton_kernels.triton_attention, **TRAFFIC_TILE)
    for N in lengths:
        shape = 1, WIDTH // 128, N, 128
        q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
        for impl in names:
            run = ours if impl == OURS else IMPLEMENTATIONS[impl]
            run(q, k, v, False)
            _section[(1,)]()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            _section[(1,)]()
            run(q, k, v, False)
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
    return [(impl, N) for N in lengths for impl in names]


def traffic(lengths=(1024, 2048, 4096, 8192, 16384)):
    """Count the bytes of one forward pass, full attention, one batch, 16 heads, d = 128, fp16."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise RuntimeError("`ncu`, Nsight Compute's command line, is not on the PATH.")
    child = [sys.executable, "-m", "flashlib.bench_gpu", "traffic-child", *map(str, lengths)]
    options = ["--clock-control", "none", "--profile-from-start", "off", "--csv"]
    metrics = ["--metrics", ",".join(COUNTERS.values()), "--print-units", "base"]
    done = subprocess.run([ncu, *options, *metrics, *child], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ncu failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    names = "unfused_pytorch", "sdpa_flash", OURS
    cells = [(impl, N) for N in lengths for impl in names]
    return {"traffic": sum_sections(done.stdout, cells)}


def sum_sections(text, cells):
    """Add up ncu's CSV, kernel by kernel, between two `_section` kernels; a row for each cell."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows, launch = [], None
    for line in csv.DictReader(lines):
        if line["Kernel Name"].startswith("_section"):
            if line["ID"] != launch:
                impl, N = cells[len(rows)]
                rows.append({"impl": impl, "N": N, "kernels": 0} | dict.fromkeys(COUNTERS, 0))
                rows[-1] |= TRAFFIC_TILE if impl == OURS else {}
        else:
            name = next(n for n, m in COUNTERS.items() if m == line["Metric Name"])
            rows[-1][name] += int(float(line["Metric Value"].replace(",", "")))
            rows[-1]["kernels"] += line["ID"] != launch
        launch = line["ID"]
    if len(rows) != len(cells):
        raise RuntimeError(f"ncu saw {len(rows)} of {len(cells)} measurements.")
    return rows


def print_traffic(rows):
    """Counted bytes beside the model's: every byte once, and every request of the tile loop."""
    print("     N  implementation     DRAM MB   model   L2 MB   model (no cache)")
    for row in rows:
        N, kind = row["N"], "naive" if row["impl"] == "unfused_pytorch" else "flash"
        once = getattr(memory_work(N, 128, heads=16), kind)
        requested = getattr(memory_work(N, 128, heads=16, **TRAFFIC_TILE), kind)
        dram = row["dram_read_bytes"] + row["dram_write_bytes"]
        print(f"{N:6}  {row['impl']:16} {dram / 1e6:9.1f} {once / 1e6:7.1f} ", end="")
        print(f"{row['l2_bytes'] / 1e6:7.0f} {requested / 1e6:7.0f}")


def _main(name, run, report, argv):
    """Parse --out, measure, print, write."""
    parser = argparse.ArgumentParser(prog=f"python -m flashlib.bench {name}")
    card = torch.cuda.get_device_name(0).split()[-1].lower() if torch.cuda.is_available() else "gpu"
    default = DATA / f"{card}-{name}.json"
    parser.add_argument("--out", type=pathlib.Path, default=default, help="JSON file to write")
    parser.add_argument("--lengths", type=int, nargs="+", help="values of N")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available():
        parser.error("this measures an NVIDIA GPU, and there is none here")
    lengths = ["--lengths", *map(str, options.lengths)] if options.lengths else []
    result = {"provenance": provenance(" ".join(["python -m flashlib.bench", name, *lengths]))}
    result |= run(tuple(options.lengths)) if options.lengths else run()
    report(result)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {options.out}")


def main_gpu(argv=()):
    """`python -m flashlib.bench gpu [--out FILE] [--lengths N ...]`."""
    _main("gpu", gpu, lambda result: print(result["ceilings"]), list(argv))


def main_traffic(argv=()):
    """`python -m flashlib.bench traffic [--out FILE] [--lengths N ...]`."""
    _main("traffic", traffic, lambda result: print_traffic(result["traffic"]), list(argv))


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or [""]
    if command == "traffic-child":
        traffic_child([int(N) for N in rest])
    elif command in ("gpu", "traffic"):
        {"gpu": main_gpu, "traffic": main_traffic}[command](rest)
    else:
        sys.exit("usage: python -m flashlib.bench_gpu gpu | traffic [--out FILE] [--lengths N ...]")
