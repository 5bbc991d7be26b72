"""What counts as valid input: one place for every check, one sentence for every refusal."""

import math
import numbers
import operator

import numpy as np


def as_real_array(name, value):
    """Return `value` as a real NumPy array (any shape) without copying it.

    Integers and booleans are let through; the caller promotes them to float64.

    Raises TypeError for complex, object or string data, masked arrays, and torch tensors that
    live on a GPU or carry a gradient.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be ignored: pass a plain one")
    device = getattr(value, "device", "cpu")
    if str(getattr(device, "type", device)) != "cpu":
        raise TypeError(f"{name} is on {device}: pass {name}.cpu(), or use triton_attention")
    if getattr(value, "requires_grad", False):
        raise TypeError(f"{name} is a torch tensor that requires grad: pass {name}.detach()")
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}: expected real numbers (float or int)")
    return array


def as_float_array(name, value):
    """Like `as_real_array`, with integers and booleans promoted to float64."""
    array = as_real_array(name, value)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def check_qkv(Q, K, V):
    """Check the shapes of Q, K, V and return them as arrays of one floating dtype.

    Args:
        Q: (..., N_q, d).
        K: (..., N_k, d).
        V: (..., N_k, d_v).

    Returns:
        The three arrays in their promoted dtype (integers and booleans: float64). Nothing is
        copied where the dtype is right already.

    Raises:
        TypeError: not real numbers (see `as_real_array`).
        ValueError: wrong rank, unequal batch axes, lengths or head sizes, or d = 0.
    """
    Q, K, V = (as_real_array(name, x) for name, x in (("Q", Q), ("K", K), ("V", V)))
    shapes = f"Q {Q.shape}, K {K.shape}, V {V.shape}"
    if min(Q.ndim, K.ndim, V.ndim) < 2:
        raise ValueError(f"Q, K and V need two axes or more, (..., N, d), got {shapes}")
    if not Q.shape[:-2] == K.shape[:-2] == V.shape[:-2]:
        raise ValueError(f"Q, K and V need the same leading (batch, head) axes, got {shapes}")
    if K.shape[-2] != V.shape[-2]:
        raise ValueError(f"K and V need the same number of keys N_k, got {shapes}")
    if Q.shape[-1] != K.shape[-1]:
        raise ValueError(f"Q and K need the same head size d, got {shapes}")
    if Q.shape[-1] == 0:
        raise ValueError(f"the head size d must be at least 1, got {shapes}")
    dtype = np.result_type(Q, K, V)
    if dtype.kind != "f":
        dtype = np.dtype(np.float64)
    return tuple(x.astype(dtype, copy=False) for x in (Q, K, V))


def compute_dtype(dtype):
    """The dtype to compute in: float32 for float16, otherwise the input's own."""
    return np.dtype(np.float32) if dtype == np.float16 else np.dtype(dtype)


def check_scale(scale, d, dtype):
    """Return the score scale as a Python float; None means 1/sqrt(d).

    Raises TypeError when it is no real number, ValueError when it is not finite in `dtype`.
    """
    if scale is None:
        return 1 / math.sqrt(d)
    if not isinstance(scale, numbers.Real):
        raise TypeError(f"scale must be a real number or None, got {scale!r}")
    if not abs(float(scale)) <= float(np.finfo(dtype).max):  # also catches NaN
        raise ValueError(f"scale must be finite in {dtype}, got {scale!r}")
    return float(scale)


def check_causal(causal):
    """Raise TypeError unless `causal` is True or False (a mask array is no flag)."""
    if not isinstance(causal, (bool, np.bool_)):
        raise TypeError(f"causal must be True or False, got {type(causal).__name__}")


def check_positive_int(**sizes):
    """Raise unless every named size is an integer of at least 1: ValueError, or TypeError."""
    for name, size in sizes.items():
        try:
            whole = operator.index(size)
        except TypeError:
            whole = None
        if whole is None or isinstance(size, (bool, np.bool_)):
            raise TypeError(f"{name} must be a positive integer, got {size!r}")
        if whole < 1:
            raise ValueError(f"{name} must be at least 1, got {size!r}")


def check_same_shape(name, value, shape, dtype):
    """Return `value` as an array of `dtype`; raise ValueError unless it has `shape`."""
    array = as_real_array(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} to match Q, K and V, got {array.shape}")
    return array.astype(dtype, copy=False)
