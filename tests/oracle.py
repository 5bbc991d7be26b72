"""Oracles and comparisons for the tests; they share no code with flashlib."""

import numpy as np


def oracle(Q, K, V, causal=False, scale=None):
    """Float64 attention, one row at a time, with log-sum-exp. Returns O and L.

    Only what the row may see is touched, so NaN and inf elsewhere cannot matter.
    """
    Q, K, V = (np.asarray(x, np.float64) for x in (Q, K, V))
    N_q, N_k = Q.shape[-2], K.shape[-2]
    scale = Q.shape[-1] ** -0.5 if scale is None else scale
    O = np.zeros((*Q.shape[:-1], V.shape[-1]))
    L = np.full(Q.shape[:-1], -np.inf)
    for index in np.ndindex(*Q.shape[:-1]):
        batch, i = index[:-1], index[-1]
        seen = max(0, i + 1 + N_k - N_q) if causal else N_k
        if seen:
            s = scale * (K[batch][:seen] @ Q[index])
            L[index] = np.logaddexp.reduce(s)
            O[index] = np.exp(s - L[index]) @ V[batch][:seen]
    return O, L


def assert_close(got, expected, tolerance):
    """Compare so that NaN never passes; equal infinities do."""
    assert got.shape == expected.shape, f"shape {got.shape}, expected {expected.shape}"
    infinite = np.isinf(expected)
    assert np.array_equal(got[infinite], expected[infinite])
    difference = np.abs(got[~infinite].astype(np.float64) - expected[~infinite])
    assert np.isfinite(expected[~infinite]).all(), "the oracle itself is not finite"
    bad = ~(difference <= tolerance * (1 + np.abs(expected[~infinite])))
    assert not bad.any(), f"largest error {difference.max()}, allowed {tolerance}"
