"""The rescaling identity, as a value that can be updated and merged.

A softmax-weighted sum over some keys is three numbers a row (the third a vector):

    m = max_j s_j,     l = Σ_j exp(s_j − m),     o = Σ_j exp(s_j − m) v_j.

When more keys come, the maximum may rise from m to m'. Then exp(s − m') = exp(m − m') exp(s − m),
so l and o are multiplied by the rescale factor α = exp(m − m') and the new terms are added. That
is all there is to it (Milakov & Gimelshein 2018, Algorithm 3; Rabe & Staats 2021; FlashAttention-2,
Algorithm 1, lines 9–10).
"""

from typing import NamedTuple

import numpy as np

from flashlib.checks import as_float_array
from flashlib.tiles import masked_product, tile_slices


class SoftmaxState(NamedTuple):
    """What is known of each row after the keys seen so far.

    m: (..., N_q)       running maximum of the scores, −inf before the first visible key
    l: (..., N_q)       running sum of exp(score − m)
    o: (..., N_q, d_v)  running sum of exp(score − m) · value, not yet divided by l
    """

    m: np.ndarray
    l: np.ndarray
    o: np.ndarray

    @classmethod
    def empty(cls, rows_shape, d_v, dtype=np.float64):
        """The state of `rows_shape` rows that have seen nothing: (−inf, 0, 0)."""
        m = np.full(rows_shape, -np.inf, dtype)
        return cls(m, np.zeros(rows_shape, dtype), np.zeros((*rows_shape, d_v), dtype))

    def finish(self):
        """Divide once, at the end: O = o / l (..., N_q, d_v) and L = m + log l (..., N_q).

        FlashAttention-2, Algorithm 1, lines 12–13. A row that saw no key has l = 0; it gives O = 0
        and L = −inf.
        """
        empty = self.l == 0
        l = np.where(empty, 1, self.l)
        return self.o / l[..., None], np.where(empty, -np.inf, self.m + np.log(l))


def rescale_factor(m_old, m_new):
    """α = exp(m_old − m_new), the factor on old sums when the maximum rises. In [0, 1].

    Where both are −inf nothing has been summed yet and α is 0, not NaN.
    """
    return np.exp(m_old - np.where(np.isneginf(m_new), 0, m_new))


def update(state, S, V, visible=None):
    """Take one more tile of keys into the state (FlashAttention-2, Algorithm 1, lines 9–10).

    Args:
        state: SoftmaxState of N_q rows.
        S: (..., N_q, C) scaled scores of C further keys, −inf where hidden; C ≥ 1.
        V: (..., C, d_v) their values.
        visible: bool (N_q, C) or None; needed only to keep hidden NaN or inf in V out.

    Returns:
        A new SoftmaxState; nothing is changed in place.
    """
    m = np.maximum(state.m, S.max(axis=-1))
    alpha = rescale_factor(state.m, m)
    P = S - np.where(np.isneginf(m), 0, m)[..., None]
    np.exp(P, out=P)
    l = alpha * state.l + P.sum(axis=-1)
    o = alpha[..., None] * state.o + masked_product(P, V, visible)
    return SoftmaxState(m, l, o)


def merge(a, b):
    """Combine the states of two disjoint sets of keys. Associative and commutative.

    The state that has seen nothing, (−inf, 0, 0), is its unit.
    """
    m = np.maximum(a.m, b.m)
    alpha_a, alpha_b = rescale_factor(a.m, m), rescale_factor(b.m, m)
    o = alpha_a[..., None] * a.o + alpha_b[..., None] * b.o
    return SoftmaxState(m, alpha_a * a.l + alpha_b * b.l, o)


def online_softmax(S, Bc=1):
    """Softmax over the last axis in two passes instead of three: (m, l) in one, weights in another.

    Args:
        S: (..., N) floating scores, −inf where hidden.
        Bc: keys taken in at a time.

    Returns:
        (..., N) weights; a row without a visible score is all zeros.

    Source: Milakov & Gimelshein 2018, Algorithm 3. Raises ValueError or TypeError for a bad Bc.
    """
    S = as_float_array("S", S)
    state = SoftmaxState.empty(S.shape[:-1], 0, S.dtype)
    for cols in tile_slices(S.shape[-1], Bc):
        no_values = np.empty((*S.shape[:-2], cols.stop - cols.start, 0), S.dtype)
        state = update(state, S[..., cols], no_values)
    m = np.where(np.isneginf(state.m), 0, state.m)
    l = np.where(state.l == 0, 1, state.l)
    return np.exp(S - m[..., None]) / l[..., None]
