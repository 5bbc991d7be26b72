"""Exercises of notebook 07: which of PyTorch's backends can run, and what a K/V cache takes."""

from flashlib.exercises.compare import AnswerError, kind_of
from flashlib.exercises.core import Exercise
from flashlib.exercises.naming import Mistake, Pattern
from flashlib.exercises.predictions import Prediction

FLASH, EFFICIENT, MATH = "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"
CUDNN = "CUDNN_ATTENTION"  # its rules change with its version: not judged on a GPU


def _possible_backends(dtype, d, mask, device):
    """Verified against PyTorch itself by a test, for the device that it runs on."""
    if device == "cpu":
        return {FLASH, MATH}
    possible = {EFFICIENT, MATH}
    if dtype in ("float16", "bfloat16") and d <= 256 and mask != "tensor":
        possible.add(FLASH)
    return possible


def _backend_cases(rng):
    yield "float16", 64, None, "cuda"
    yield "float32", 64, None, "cuda"
    yield "float16", 64, "causal", "cuda"
    yield "float16", 64, "tensor", "cuda"
    yield "bfloat16", 256, None, "cuda"
    yield "bfloat16", 512, None, "cuda"
    yield "float32", 64, None, "cpu"
    yield "float16", 64, "tensor", "cpu"
    yield "float32", 512, "causal", "cpu"


class PossibleBackends(Exercise):
    """The answer returns a set of names; it is compared as a sorted text."""

    def function_of(self, answer):
        """The answer, with its set as one string."""
        function = super().function_of(answer)

        def names(dtype, d, mask, device):
            value = function(dtype, d, mask, device)
            return value if value is None or value is ... else _as_text(value, device)

        return names


def _as_text(names, device):
    if not isinstance(names, (set, frozenset, list, tuple)):
        raise AnswerError(f"It returned {kind_of(names)}, expected a set of names.")
    known = (FLASH, EFFICIENT, MATH, CUDNN)
    if not all(isinstance(name, str) and name in known for name in names):
        raise AnswerError(f"Unknown name. The four are {', '.join(known)}.")
    ignored = {CUDNN} if device == "cuda" else set()
    return ", ".join(sorted(set(names) - ignored)) or "none"


def _backends_with(change):
    """possible_backends with another rule: change(names, dtype, d, mask, device)."""

    def possible_backends(*args):
        return change(_possible_backends(*args), *args)

    return possible_backends


def _flash_without(rule):
    """Flash on a GPU whenever rule(dtype, d, mask) says so."""

    def change(names, dtype, d, mask, device):
        return names | {FLASH} if rule(dtype, d, mask) else names

    return _backends_with(change)


def _on_cpu(change):
    return _backends_with(
        lambda names, dtype, d, mask, device: change(names) if device == "cpu" else names
    )


HALF = ("float16", "bfloat16")

possible_backends = PossibleBackends(
    name="possible_backends",
    notebook="07",
    answer="possible_backends",
    task="Which of PyTorch's attention backends can run a case.",
    reference=_possible_backends,
    cases=_backend_cases,
    hints=(
        "Begin with the one that takes everything, everywhere.",
        """
        On a GPU the memory-efficient kernel takes float32 and mask tensors as well; flash wants
        fp16 or bf16, no mask tensor (causal is a flag), d up to 256. A CPU has flash and MATH.
        cuDNN is not judged on a GPU; there is none on a CPU.
        """,
        """
        if device == "cpu":
            return {"FLASH_ATTENTION", "MATH"}
        names = {"EFFICIENT_ATTENTION", "MATH"}
        if dtype in ("float16", "bfloat16") and d <= 256 and mask != "tensor":
            names.add("FLASH_ATTENTION")
        return names
        """,
    ),
    mistakes=(
        Mistake("flash takes float32", _flash_without(
                lambda dtype, d, mask: d <= 256 and mask != "tensor"),
                "On a GPU its tensor-core kernels want fp16 or bf16."),
        Mistake("flash takes mask tensors", _flash_without(
                lambda dtype, d, mask: dtype in HALF and d <= 256),
                "On a GPU it knows causal as a flag, but no mask tensor."),
        Mistake("flash takes any head size", _flash_without(
                lambda dtype, d, mask: dtype in HALF and mask != "tensor"),
                "On a GPU, up to 256."),
        Mistake("flash refuses causal", _backends_with(lambda names, dtype, d, mask, device:
                names - {FLASH} if mask == "causal" and device == "cuda" else names),
                "Causal is a flag, not a mask tensor."),
        Mistake("MATH is forgotten", _backends_with(lambda names, *args: names - {MATH}),
                "The unfused three lines take everything."),
        Mistake("a CPU runs the memory-efficient kernel",
                _on_cpu(lambda names: names | {EFFICIENT}),
                "It is a CUDA kernel."),
        Mistake("a CPU runs cuDNN", _on_cpu(lambda names: names | {CUDNN}), "It is NVIDIA's."),
        Mistake("a CPU runs MATH only", _on_cpu(lambda names: {MATH}),
                "PyTorch has a tiled flash kernel in C++ for it."),
        Mistake("the GPU's rules on a CPU", lambda dtype, d, mask, device:
                _possible_backends(dtype, d, mask, "cuda"), "A CPU has flash and MATH."),
        Mistake("the memory-efficient kernel refuses float32", _backends_with(
                lambda names, dtype, d, mask, device:
                names - {EFFICIENT} if dtype == "float32" else names), "It takes float32."),
    ),
    patterns=(
        Pattern("right only on a GPU", lambda dtype, d, mask, device: device == "cpu",
                "Which kernels does PyTorch have for a CPU?"),
        Pattern("right only on a CPU", lambda dtype, d, mask, device: device != "cpu",
                "What does flash refuse on a GPU?"),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- the size of a K/V cache

# of the exercise: layers, K/V heads, head size, tokens, bytes an element
CACHE = 80, 8, 128, 100_000, 2


def _cache_gigabytes():
    layers, kv_heads, d, tokens, itemsize = CACHE
    return 2 * layers * kv_heads * d * tokens * itemsize / 1e9  # 2: K and V


cache_gigabytes = Prediction(
    name="cache_gigabytes",
    notebook="07",
    answer="cache_gigabytes",
    task="The K/V cache of 100 000 tokens: 80 layers, 8 K/V heads, d = 128, bf16.",
    reference=_cache_gigabytes,
    hints=(
        "The cache keeps one row of K and one row of V for each token, K/V head and layer.",
        "2 (K and V) x 80 layers x 8 heads x 128 numbers x 100 000 tokens, 2 bytes each.",
        "cache_gigabytes = 2 * 80 * 8 * 128 * 100_000 * 2 / 1e9",
    ),
    mistakes=(
        Mistake("half of it: one of K and V, or one byte a number",
                lambda: _cache_gigabytes() / 2, "K and V are kept, in 2 bytes a number."),
        Mistake("one layer only", lambda: _cache_gigabytes() / CACHE[0], "There are 80 layers."),
        Mistake("one head only", lambda: _cache_gigabytes() / CACHE[1], "There are 8 K/V heads."),
        Mistake("fp32", lambda: 2 * _cache_gigabytes(), "A number in bf16 takes 2 bytes."),
        Mistake("GiB instead of GB", lambda: _cache_gigabytes() * 1e9 / 2**30, "1 GB = 1e9 bytes."),
        Mistake("megabytes", lambda: _cache_gigabytes() * 1e3, "1 GB is 1000 MB."),
        Mistake("bytes", lambda: _cache_gigabytes() * 1e9, "1 GB is 1e9 bytes."),
    ),
)  # fmt: skip
