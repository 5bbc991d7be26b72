"""The loops with one fault switched on: what a known mistake computes.

Two-dimensional arrays, shapes as in the exercises. Without a known fault they are right.
"""

import numpy as np

from flashlib.tiles import causal_visible, tile_slices


def broken_update(m, l, o, S, V, fault):
    """The update with one fault, for many rows; shapes as in the exercise."""
    m_new = np.maximum(m, S.max(axis=1))
    if fault == "tile maximum":
        m_new = S.max(axis=1)
    m_safe = np.where(np.isneginf(m_new), 0, m_new)
    alpha, P = np.exp(m - m_safe), np.exp(S - m_safe[:, None])
    if fault == "upside down":
        alpha = np.exp(m_new - m)
    if fault == "-inf unguarded":
        alpha, P = np.exp(m - m_new), np.exp(S - m_new[:, None])
    if fault == "old maximum":
        P = np.exp(S - np.where(np.isneginf(m), 0, m)[:, None])
    if fault == "no maximum":
        P = np.exp(S)
    keep = 1 if fault == "l" else alpha
    old = o * (1 if fault == "o" else alpha[:, None])
    if fault == "kept divided":
        old = old * l[:, None]
    if fault == "o upside down":
        old = o / alpha[:, None]
    l_new = keep * l + P.sum(axis=1)
    l_column = np.where(l_new == 0, 1, l_new)[:, None]
    o_new = old + P @ V
    if fault in ("divided", "kept divided"):
        o_new = o_new / l_column
    if fault == "weights divided":
        o_new = old + (P / l_column) @ V
    return (m if fault == "m kept" else m_new), l_new, o_new


def _visible(rows, cols, N_q, N_k, fault):
    """The causal mask of a tile, right or with a fault."""
    if fault == "strict":
        rows = slice(rows.start - 1, rows.stop - 1)
    if fault == "top-left":
        N_q = N_k
    if fault == "row tile":
        rows = slice(0, rows.stop - rows.start)
    return causal_visible(rows, cols, N_q, N_k)


def broken_row_tile(Q_i, K, V, Bc, fault, row_start=None, N_q=None):
    """The loop over column tiles with one fault; causal when row_start is given."""
    N_k, d = K.shape
    scale = {"no scale": 1, "scale twice": 1 / d, "scale d": 1 / d}.get(fault, d**-0.5)
    if fault == "padded":
        pad = ((0, -N_k % Bc), (0, 0))
        K, V = np.pad(K, pad), np.pad(V, pad)
    m, l = np.full(len(Q_i), -np.inf), np.zeros(len(Q_i))
    o = np.zeros((len(Q_i), V.shape[1]))
    tiles = tile_slices(len(K), Bc)
    if fault == "dropped":
        tiles = [cols for cols in tiles if cols.stop - cols.start == Bc]
    for cols in tiles:
        S = scale * (Q_i @ K[cols].T)
        if row_start is not None:
            rows = slice(row_start, row_start + len(Q_i))
            visible = _visible(rows, cols, N_q, N_k, fault)
            masked = np.where(visible, S, -1e4 if fault == "finite" else -np.inf)
            if fault == "padded":
                masked = np.where(np.arange(cols.start, cols.stop) >= N_k, S, masked)
            if fault == "mask after":
                m, l, o = _mask_after_the_maximum(m, l, o, S, V[cols], visible)
                continue
            S = masked
        m, l, o = broken_update(m, l, o, S, V[cols], fault)
    divided = fault in ("undivided", "divided", "kept divided")
    O = o if divided else o / np.where(l == 0, 1, l)[:, None]
    return O, _logsumexp(m, l, fault)


def _logsumexp(m, l, fault):
    """L of a finished state, right or with a fault; -inf where nothing was seen."""
    known = {"base 2": m + np.log2(l), "m alone": m, "l alone": l, "log l": np.log(l)}
    known["L overflows"] = np.log(np.exp(m) * l)
    return known.get(fault, np.where(l == 0, -np.inf, m + np.log(l)))


def _mask_after_the_maximum(m, l, o, S, V, visible):
    m_new = np.maximum(m, S.max(axis=1))
    alpha, P = np.exp(m - m_new), np.exp(S - m_new[:, None]) * visible
    return m_new, alpha * l + P.sum(axis=1), alpha[:, None] * o + P @ V


def _tile_P(S, L, fault):
    """P of a tile from its masked scores, with a fault."""
    if fault == "tile softmax":
        m = S.max(axis=1, keepdims=True)
        P = np.exp(S - np.where(np.isneginf(m), 0, m))
        return P / np.where(P.sum(axis=1) == 0, 1, P.sum(axis=1))[:, None]
    L = L if fault == "empty" else np.where(np.isneginf(L), np.inf, L)
    return np.exp2(S - L[:, None]) if fault == "base 2" else np.exp(S - L[:, None])


def broken_backward(Q, K, V, O, L, dO, Br, Bc, causal, fault=""):
    """Algorithm 2 with one fault, two-dimensional arrays."""
    N_q, N_k, scale = len(Q), len(K), Q.shape[1] ** -0.5
    score_scale = 1 if fault == "no scale" else scale
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    D = np.zeros(N_q) if fault == "no D" else (dO * O).sum(axis=1)
    for cols in tile_slices(N_k, Bc):
        for rows in tile_slices(N_q, Br):
            if fault == "dropped" and (cols.stop - cols.start < Bc or rows.stop - rows.start < Br):
                continue
            S = score_scale * Q[rows] @ K[cols].T
            if causal and fault != "no mask":
                S = np.where(_visible(rows, cols, N_q, N_k, fault), S, -np.inf)
            P = _tile_P(S, L[rows], fault)
            dP = dO[rows] @ V[cols].T
            grad = P * (dP - D[rows, None])
            factor = {"no scale in dQ, dK": 1, "scale twice": scale**2}.get(fault, scale)
            overwrite = fault == "overwritten"
            dV[cols] = (0 if overwrite else dV[cols]) + P.T @ dO[rows]
            dQ[rows] = (0 if overwrite else dQ[rows]) + factor * grad @ K[cols]
            dK[cols] = (0 if overwrite else dK[cols]) + factor * grad.T @ Q[rows]
    return dQ, dK, dV
