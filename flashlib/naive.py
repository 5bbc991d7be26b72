"""The reference: exact attention that writes the whole N_q × N_k score matrix.

    S = scale · Q Kᵀ,   P = softmax(S),   O = P V          (Vaswani et al. 2017, equation 1)

Simple, right, and the thing every other module is compared with.
"""

import numpy as np

from flashlib.checks import as_float_array, check_causal, check_qkv, check_scale, compute_dtype
from flashlib.tiles import causal_visible, masked_product


def unsafe_softmax(S):
    """Softmax over the last axis exactly as the formula reads, without subtracting the maximum.

    It overflows: exp(89) is inf in float32, and inf/inf is NaN. Kept to show why nobody does it.

    Args:
        S: (..., N) floating scores.

    Returns:
        (..., N) weights, NaN where the exponential overflowed; no warning is raised.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        P = np.exp(as_float_array("S", S))
        return P / P.sum(axis=-1, keepdims=True)


def softmax(S):
    """Softmax over the last axis, shifted by the row maximum so that no exponential overflows.

    Args:
        S: (..., N) floating scores; −inf means "not visible".

    Returns:
        (..., N) weights that sum to 1. A row without any visible score is all zeros.
    """
    return _softmax_lse(as_float_array("S", S))[0]


def naive_attention(Q, K, V, causal=False, *, scale=None, return_lse=False):
    """Attention with the whole score matrix in memory.

    Args:
        Q: (..., N_q, d) queries.
        K: (..., N_k, d) keys.
        V: (..., N_k, d_v) values.
        causal: row i sees keys j ≤ i + N_k − N_q (aligned bottom-right).
        scale: factor on the scores; None means 1/√d. Zero and negative factors are legal.
        return_lse: also return L.

    Returns:
        O (..., N_q, d_v) in the promoted dtype of the inputs (integers: float64), or (O, L) with
        L (..., N_q), the natural log of Σ exp(scores); L is float32 for float16 inputs. A row
        that sees no key has O = 0 and L = −inf.

    Raises:
        ValueError, TypeError: see `flashlib.checks`; MemoryError from NumPy if S doesn't fit.
    """
    Q, K, V = check_qkv(Q, K, V)
    check_causal(causal)
    out_dtype, dtype = Q.dtype, compute_dtype(Q.dtype)
    scale = check_scale(scale, Q.shape[-1], dtype)
    Q, K, V = (x.astype(dtype, copy=False) for x in (Q, K, V))
    N_q, N_k = Q.shape[-2], K.shape[-2]

    visible = None
    with np.errstate(invalid="ignore"):  # hidden keys may hold inf
        S = (Q * Q.dtype.type(scale)) @ K.swapaxes(-1, -2)  # (..., N_q, N_k)
    if causal:
        visible = causal_visible(slice(0, N_q), slice(0, N_k), N_q, N_k)
        S = np.where(visible, S, -np.inf)
    P, L = _softmax_lse(S)
    O = masked_product(P, V, visible)  # (..., N_q, d_v)
    O = O.astype(out_dtype, copy=False)
    return (O, L) if return_lse else O


def _softmax_lse(S):
    """Weights (..., N) and logsumexp (...) of scores (..., N); an empty row gives 0 and −inf."""
    m = S.max(axis=-1, keepdims=True, initial=-np.inf)
    m_finite = np.where(np.isneginf(m), 0, m)  # avoids −inf − (−inf)
    P = S - m_finite
    np.exp(P, out=P)
    l = P.sum(axis=-1, keepdims=True)
    l_nonzero = np.where(l == 0, 1, l)
    P /= l_nonzero
    return P, np.where(l == 0, -np.inf, m_finite + np.log(l_nonzero))[..., 0]
