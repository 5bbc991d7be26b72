"""The GPUs the course speaks of: sizes in bytes, rates in bytes/s and FLOP/s, each with its source.

Peak rates are the vendor's, dense, for fp16 with fp32 accumulation. `sram_bytes_per_sm` is the
shared memory an SM has for kernels, the paper's "SRAM" (the paper counts the A100's whole 192 KB,
L1 cache included).
"""

import importlib.resources
import json
from dataclasses import dataclass

KIB, MIB = 1024, 1024**2


@dataclass(frozen=True)
class GPU:
    """One GPU's numbers; `source` says where they come from."""

    name: str
    sms: int  # streaming multiprocessors
    sram_bytes_per_sm: int
    l2_bytes: int
    hbm_bytes: int
    hbm_bytes_per_s: float
    fp16_flops_per_s: float
    source: str

    @property
    def ridge_flops_per_byte(self):
        """Arithmetic intensity above which the tensor cores, not HBM, are the limit."""
        return self.fp16_flops_per_s / self.hbm_bytes_per_s


GPUS = {
    gpu.name: gpu
    for gpu in (
        GPU(
            "A100", 108, 164 * KIB, 40 * MIB, 80 * 10**9, 2.039e12, 312e12,
            "NVIDIA A100 datasheet (SXM, 80 GB); shared memory: CUDA C++ Programming Guide, "
            "compute capability 8.0; L2: NVIDIA Ampere architecture whitepaper",
        ),
        GPU(
            "H100", 132, 228 * KIB, 50 * MIB, 80 * 10**9, 3.35e12, 989.4e12,
            "NVIDIA H100 datasheet (SXM5); shared memory: CUDA C++ Programming Guide, compute "
            "capability 9.0; L2: NVIDIA Hopper architecture whitepaper",
        ),
        GPU(
            "H200", 132, 228 * KIB, 60 * MIB, 141 * 10**9, 4.8e12, 989.4e12,
            "NVIDIA H200 datasheet (SXM); shared memory: CUDA C++ Programming Guide, compute "
            "capability 9.0; SMs and L2: read off the card measured for this course",
        ),
    )
}  # fmt: skip


def measurements(name="h200-peers-2026-11-29"):
    """Recorded measurements (`flashlib/data/<name>.json`) as a dict; "provenance" says how."""
    path = importlib.resources.files("flashlib") / "data" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def select(rows, **where):
    """The rows (dicts) whose values equal those given: select(rows, impl="sdpa_flash", d=128)."""
    return [row for row in rows if all(row[key] == value for key, value in where.items())]
