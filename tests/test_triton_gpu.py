"""Claims about flashlib.triton_kernels that need an NVIDIA GPU: size, speed's side effects, bits.

python -m pytest tests/test_triton.py tests/test_triton_gpu.py
compute-sanitizer python -m pytest tests/test_triton_gpu.py -k sanitizer
"""

import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("triton") is None or not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU and Triton", allow_module_level=True)

from test_triton import exact, lse, oracle, run, tensors, worst_error  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

from flashlib import triton_kernels  # noqa: E402
from flashlib.triton_kernels import triton_attention  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own
HALVES = [torch.float16, torch.bfloat16]
TABLES = ("FORWARD_TILES", "BACKWARD_Q_TILES", "BACKWARD_KV_TILES")
TILES = [
    (name, size, tile)
    for name in TABLES
    for size, tiles in getattr(triton_kernels, name).items()
    for tile in tiles
]


def flash(q, k, v, causal, scale=None):
    """PyTorch's own FlashAttention-2, in the shape `run` wants; its L is the oracle's."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        O = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    return O, oracle(q.float(), k.float(), v.float(), causal, scale)[1]


@pytest.mark.parametrize("table, size, tile", TILES)
def test_every_tile_alone_is_right_on_its_first_call(table, size, tile, monkeypatch):
    """Into memory full of NaN, so that what isn't written shows."""
    monkeypatch.setitem(getattr(triton_kernels, table), size, (tile,))
    empty_like = torch.empty_like
    monkeypatch.setattr(torch, "empty_like", lambda x: empty_like(x).fill_(torch.nan))
    dtype = torch.float16 if size else torch.float32
    for causal in (False, True):
        x = tensors(1, 2, 2, 300, 300, size or 64, dtype)
        got, expected = run(lse, *x, causal), exact(*x, causal)
        for a, b in zip(got, expected, strict=True):
            assert worst_error(a, b) <= (4e-3 if size else 1e-5)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("N", [512, 1000, 2048])
def test_error_within_twice_that_of_flash_attention_2(N, d, causal, dtype):
    x = tensors(2, 2, 2, N, N, d, dtype)
    got, theirs, expected = run(lse, *x, causal), run(flash, *x, causal), exact(*x, causal)
    for name, a, b, c in zip(("O", "L", "dQ", "dK", "dV"), got, theirs, expected, strict=True):
        assert worst_error(a, c) <= 2 * worst_error(b, c) + 1e-5, name


@pytest.mark.parametrize("causal", [False, True])
def test_16k_tokens(causal):
    q, k, v, dO, _ = tensors(1, 1, 1, 2**14, 2**14, 128, torch.float16)
    O = triton_attention(q, k, v, causal)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        theirs = scaled_dot_product_attention(q, k, v, is_causal=causal)
    expected, _ = oracle(q.double(), k.double(), v.double(), causal)
    assert worst_error(O, expected) <= 2 * worst_error(theirs, expected)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_have_the_same_bits_in_10_runs(causal):
    x = tensors(2, 4, 2, 1024, 1024, 64, torch.float16)
    first = run(lse, *x, causal)
    for _ in range(9):
        assert all(torch.equal(a, b) for a, b in zip(first, run(lse, *x, causal), strict=True))


def test_more_than_2_to_the_31_elements_of_q():
    """Row 2^24 and beyond of a (1, 1, 2^24 + 128, 128) tensor, against the oracle."""
    N = 2**24 + 128
    _, k, v, *_ = tensors(1, 1, 1, 16, 64, 128, torch.float16)
    q = torch.randn(1, 1, N, 128, dtype=torch.float16, device="cuda")
    assert q.numel() > 2**31
    q.requires_grad_()
    O = triton_attention(q, k, v)
    (dQ,) = torch.autograd.grad(O, q, O.detach())
    end = slice(N - 256, N)
    x = q[:, :, end].detach(), k, v, O[:, :, end].detach(), torch.zeros(1, 1, 256, device="cuda")
    expected = exact(*x)
    assert worst_error(O[:, :, end], expected[0]) <= 4e-3
    assert worst_error(dQ[:, :, end], expected[2]) <= 4e-3


def test_more_than_2_to_the_31_elements_of_k():
    """Only the last 64 of 2^24 + 64 keys are not orthogonal to q, and they carry all weight."""
    N = 2**24 + 64
    q, k_end, v_end, *_ = tensors(1, 1, 1, 16, 64, 128, torch.float16)
    q[..., 0], k_end[..., 0] = 1, 40 * 128**0.5
    k = torch.zeros(1, 1, N, 128, dtype=torch.float16, device="cuda")
    v = torch.ones(1, 1, N, 128, dtype=torch.float16, device="cuda")
    k[:, :, -64:], v[:, :, -64:] = k_end, v_end
    assert k.numel() > 2**31
    expected, _ = oracle(q.double(), k_end.double(), v_end.double())
    assert worst_error(triton_attention(q, k, v), expected) <= 4e-3


def test_float32_is_not_tensor_float_32():
    x = tensors(1, 2, 2, 512, 512, 64)
    for a, b in zip(run(lse, *x, True), exact(*x, True), strict=True):
        assert worst_error(a, b) <= 1e-5


def test_a_tile_too_large_for_the_gpu_gives_one_sentence():
    q = torch.zeros(1, 1, 512, 256, dtype=torch.float16, device="cuda")
    with pytest.raises(ValueError, match=r"too large a tile.*shared memory"):
        triton_attention(q, q, q, Br=256, Bc=256)


def test_tensors_on_the_cpu_are_refused():
    q = torch.zeros(1, 1, 4, 16)
    with pytest.raises(RuntimeError, match="q is on cpu"):
        triton_attention(q, q, q)


@pytest.mark.parametrize("causal", [False, True])
def test_a_small_case_for_compute_sanitizer(causal):
    x = tensors(1, 2, 1, 70, 90, 40, torch.float16)
    for a, b in zip(run(lse, *x, causal, Br=64, Bc=32), exact(*x, causal), strict=True):
        assert worst_error(a, b) <= 4e-3
