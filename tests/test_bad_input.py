"""Every refusal is one sentence that names what is wrong, with the shapes or values."""

import numpy as np
import pytest

from flashlib import (
    flash_attention_backward,
    flash_attention_forward,
    flash_attention_forward_k_outer,
    naive_attention,
    online_softmax,
    softmax,
    tile_slices,
)

FORWARDS = [naive_attention, flash_attention_forward, flash_attention_forward_k_outer]
X = np.ones((4, 3))


class OnGpu:
    """What NumPy sees of a torch tensor on a GPU."""

    device = type("device", (), {"type": "cuda", "__str__": lambda self: "cuda:0"})()


BAD_QKV = [
    ((np.ones(3), X, X), ValueError, r"two axes.*Q \(3,\)"),
    ((np.ones((2, 4, 3)), X, X), ValueError, r"leading.*Q \(2, 4, 3\)"),
    ((np.ones((1, 4, 3)), np.ones((2, 4, 3)), np.ones((2, 4, 3))), ValueError, "leading"),
    ((X, X, np.ones((5, 3))), ValueError, r"keys.*V \(5, 3\)"),
    ((X, np.ones((4, 2)), X), ValueError, r"head size.*K \(4, 2\)"),
    ((np.ones((4, 0)), np.ones((4, 0)), X), ValueError, r"at least 1.*\(4, 0\)"),
    ((X * 1j, X, X), TypeError, "Q has dtype complex128"),
    ((X, X.astype(object), X), TypeError, "K has dtype object"),
    ((X, X, X.astype(str)), TypeError, "V has dtype <U"),
    ((OnGpu(), X, X), TypeError, r"Q is on cuda:0.*triton_attention"),
    ((np.ma.masked_array(X), X, X), TypeError, "masked array"),
]


@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.parametrize("qkv,error,message", BAD_QKV)
def test_bad_arrays_are_refused(forward, qkv, error, message):
    with pytest.raises(error, match=message) as raised:
        forward(*qkv)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("forward", FORWARDS)
@pytest.mark.parametrize(
    "scale,error",
    [(np.nan, ValueError), (np.inf, ValueError), ("1", TypeError), (1j, TypeError), (X, TypeError)],
)
def test_bad_scale_is_refused(forward, scale, error):
    with pytest.raises(error, match="scale must be"):
        forward(X, X, X, scale=scale)


@pytest.mark.parametrize("forward", FORWARDS)
def test_a_scale_beyond_float32_is_refused_for_float32_only(forward):
    with pytest.raises(ValueError, match="finite in float32"):
        forward(X.astype("f"), X.astype("f"), X.astype("f"), scale=1e39)
    assert np.isfinite(forward(X, X, X, scale=1e39)).all()


@pytest.mark.parametrize("forward", FORWARDS)
def test_a_mask_in_place_of_the_causal_flag_is_refused(forward):
    with pytest.raises(TypeError, match="causal must be True or False, got ndarray"):
        forward(X, X, X, causal=np.tril(np.ones((4, 4), bool)))


@pytest.mark.parametrize("forward", FORWARDS[1:])
@pytest.mark.parametrize("name", ["Br", "Bc"])
@pytest.mark.parametrize("size,error", [(0, ValueError), (-3, ValueError), (2.0, TypeError),
                                        (1.5, TypeError), (True, TypeError), ("4", TypeError),
                                        (None, TypeError)])  # fmt: skip
def test_bad_tile_sizes_are_refused(forward, name, size, error):
    with pytest.raises(error, match=f"{name} must be"):
        forward(X, X, X, **{name: size})


def test_numpy_integers_are_tile_sizes():
    got = flash_attention_forward(X, X, X, np.int64(2), np.uint8(3))
    assert np.array_equal(got, X)


def test_backward_names_the_array_that_does_not_match():
    O, L = naive_attention(X, X, X, return_lse=True)
    good = {"O": O, "L": L, "dO": O}
    for name, bad in [("O", np.ones((4, 2))), ("L", np.ones((4, 1))), ("dO", np.ones((3, 3)))]:
        with pytest.raises(ValueError, match=rf"^{name} must have shape.*got"):
            flash_attention_backward(X, X, X, **{**good, name: bad})
    with pytest.raises(TypeError, match="dO has dtype complex"):
        flash_attention_backward(X, X, X, O, L, O * 1j)


def test_torch_tensors_work_on_the_cpu_and_refuse_to_lose_a_gradient():
    torch = pytest.importorskip("torch")
    t = torch.ones(4, 3)
    assert flash_attention_forward(t, t, t).dtype == np.float32
    with pytest.raises(TypeError, match=r"requires grad: pass Q.detach"):
        flash_attention_forward(t.requires_grad_(), X, X)


def test_lists_are_accepted():
    assert np.array_equal(naive_attention([[0.0]], [[1.0]], [[5]]), [[5.0]])


def test_helpers_refuse_too():
    with pytest.raises(ValueError, match="size must be at least 1"):
        tile_slices(5, 0)
    with pytest.raises(TypeError, match="S has dtype complex"):
        softmax(np.ones(3) * 1j)
    with pytest.raises(ValueError, match="size must be"):
        online_softmax(np.ones(3), 0)


def test_an_n_by_n_matrix_beyond_memory_is_numpys_own_error():
    huge = np.broadcast_to(np.ones((1, 1)), (10**8, 1))
    with pytest.raises(MemoryError):
        naive_attention(huge, huge, huge)
