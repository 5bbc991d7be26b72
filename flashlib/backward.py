"""The recompute backward: gradients from L alone, without the stored N_q × N_k weights.

With S = scale · Q Kᵀ, P = softmax(S) and O = P V, and dX short for the gradient of the loss with
respect to X:

    dV = Pᵀ dO,   dP = dO Vᵀ,   dS = P ∘ (dP − D),   dQ = scale · dS K,   dK = scale · dSᵀ Q.

Two facts make it fit on chip. P is recomputed a tile at a time as exp(S − L), and the row sum that
the softmax gradient needs is D = rowsum(P ∘ dP) = rowsum(O ∘ dO), over d_v numbers instead of N_k.
(FlashAttention-2, Algorithm 2.)
"""

from typing import NamedTuple

import numpy as np

from flashlib.checks import (
    check_causal,
    check_positive_int,
    check_qkv,
    check_same_shape,
    check_scale,
    compute_dtype,
)
from flashlib.forward import tile_scores
from flashlib.memory import Memory
from flashlib.tiles import masked_product, tile_mask, tile_slices


class BackwardTileEvent(NamedTuple):
    """What `observe` is told after each tile of the backward pass."""

    i: int  # row tile
    j: int  # column tile
    rows: slice  # the queries of row tile i
    cols: slice  # the keys of column tile j
    kind: str  # "full" or "diagonal"
    P: np.ndarray  # (..., rows, cols) weights recomputed from L
    dS: np.ndarray  # (..., rows, cols) gradient of the scaled scores
    dQ: np.ndarray  # (..., rows, d) this row tile's dQ so far
    dK: np.ndarray  # (..., cols, d) the resident dK tile so far
    dV: np.ndarray  # (..., cols, d_v) the resident dV tile so far
    moved_bytes: int  # HBM bytes so far, as counted by `memory`


def flash_attention_backward(
    Q, K, V, O, L, dO, Br=512, Bc=512, causal=False, *, scale=None, memory=None, observe=None
):
    """Gradients of attention, tile by tile, K-outer (FlashAttention-2, Algorithm 2).

    Args:
        Q: (..., N_q, d). K: (..., N_k, d). V: (..., N_k, d_v). The forward pass's inputs.
        O: (..., N_q, d_v), L: (..., N_q). Its results, with `return_lse=True`.
        dO: (..., N_q, d_v) gradient of the loss with respect to O.
        Br, Bc, causal, scale, memory: as in `flash_attention_forward`; the tile sizes are free,
            causal and scale must be those of the forward pass.
        observe: called with a `BackwardTileEvent` after every computed tile.

    Returns:
        dQ (..., N_q, d), dK (..., N_k, d), dV (..., N_k, d_v) in the promoted dtype of Q, K, V.
        Rows that see no key (L = −inf) take and give no gradient.

    Raises:
        ValueError, TypeError: see `flashlib.checks`.
    """
    Q, K, V, L, dO, D, scale, memory = _prepare(Q, K, V, O, L, dO, Br, Bc, causal, scale, memory)
    N_q, N_k, dtype = Q.shape[-2], K.shape[-2], D.dtype
    dQ, dK, dV = np.zeros(Q.shape, dtype), np.empty(K.shape, dtype), np.empty(V.shape, dtype)
    memory.store("dQ", dQ, 0)  # line 3
    row_tiles, col_tiles = tile_slices(N_q, Br), tile_slices(N_k, Bc)

    for j, cols in enumerate(col_tiles):  # line 5
        K_j = memory.load("K", K[..., cols, :]).astype(dtype, copy=False)  # line 6
        V_j = memory.load("V", V[..., cols, :]).astype(dtype, copy=False)
        dK_j, dV_j = np.zeros_like(K_j), np.zeros_like(V_j)  # line 7
        for i, rows in enumerate(row_tiles):  # line 8
            kind, visible = tile_mask(rows, cols, N_q, N_k, causal)
            if kind == "skipped":
                continue
            # line 9; the paper loads O_i as well, which nothing needs
            Q_i = memory.load("Q", Q[..., rows, :]).astype(dtype, copy=False)
            dO_i = memory.load("dO", dO[..., rows, :])
            L_i, D_i = memory.load("L", L[..., rows]), memory.load("D", D[..., rows])

            S = tile_scores(Q_i, K_j, scale, visible, dtype)  # line 10
            P = np.exp(S - L_i[..., None])  # line 11
            dV_j += P.swapaxes(-1, -2) @ dO_i  # line 12
            dS = softmax_gradient(P, dO_i, V_j, D_i, visible)  # lines 13-14
            dQ_i = memory.load("dQ", dQ[..., rows, :])  # line 15
            dQ_i = dQ_i + scale * masked_product(dS, K_j, visible)
            memory.store("dQ", dQ[..., rows, :], dQ_i)
            dK_j += scale * (dS.swapaxes(-1, -2) @ Q_i)  # line 16
            if observe is not None:
                so_far = dQ_i, dK_j.copy(), dV_j.copy()
                observe(BackwardTileEvent(i, j, rows, cols, kind, P, dS, *so_far, memory.bytes))
        memory.store("dK", dK[..., cols, :], dK_j)  # line 18
        memory.store("dV", dV[..., cols, :], dV_j)
    return tuple(x.astype(Q.dtype, copy=False) for x in (dQ, dK, dV))


def softmax_gradient(P, dO, V, D, visible=None):
    """dS = P ∘ (dP − D) with dP = dO Vᵀ, for one tile; hidden entries are 0 (lines 13–14).

    Args:
        P: (..., R, C) weights. dO: (..., R, d_v). V: (..., C, d_v). D: (..., R).
        visible: bool (R, C), or None when every entry is visible.

    Returns:
        (..., R, C).
    """
    with np.errstate(invalid="ignore"):  # hidden values may hold inf
        dS = P * (dO @ V.swapaxes(-1, -2) - D[..., None])
    return dS if visible is None else np.where(visible, dS, 0)


def row_dot(dO, O):
    """D = rowsum(dO ∘ O), (..., N_q): the only thing the softmax gradient needs of a whole row."""
    return (dO * O).sum(axis=-1)


def _prepare(Q, K, V, O, L, dO, Br, Bc, causal, scale, memory):
    """Check everything, silence the rows that see no key, and compute D (line 4)."""
    Q, K, V = check_qkv(Q, K, V)
    check_positive_int(Br=Br, Bc=Bc)
    check_causal(causal)
    dtype = compute_dtype(Q.dtype)
    scale = check_scale(scale, Q.shape[-1], dtype)
    o_shape = (*Q.shape[:-1], V.shape[-1])
    O = check_same_shape("O", O, o_shape, dtype)
    dO = check_same_shape("dO", dO, o_shape, dtype)
    L = check_same_shape("L", L, Q.shape[:-1], dtype)

    empty = np.isneginf(L)
    if empty.any():  # their dO may be anything, even NaN; exp(S − inf) makes their P zero
        dO = np.where(empty[..., None], 0, dO)
        L = np.where(empty, np.inf, L)
    memory = Memory() if memory is None else memory
    D = np.empty(L.shape, dtype)
    memory.store("D", D, row_dot(memory.load("dO", dO), memory.load("O", O)))
    return Q, K, V, L, dO, D, scale, memory
