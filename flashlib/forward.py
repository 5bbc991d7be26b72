"""The tiled forward pass, with either loop outside.

Q-outer is FlashAttention-2: a row tile stays on chip while the K and V tiles stream past it, so m,
l and O never leave. K-outer is FlashAttention-1's order: a K/V tile stays while the row tiles
stream past, so m, l and O travel to HBM and back each time. Same arithmetic, same result, other
traffic. The default tile, 512 × 512, is what `python -m flashlib.bench cpu` found among the fastest
for NumPy; a GPU's tiles are mostly 64 to 192 wide.
"""

from typing import NamedTuple

import numpy as np

from flashlib.checks import check_causal, check_positive_int, check_qkv, check_scale, compute_dtype
from flashlib.memory import Memory
from flashlib.online import SoftmaxState, rescale_factor, update
from flashlib.tiles import tile_kind, tile_mask, tile_slices


class TileEvent(NamedTuple):
    """What `observe` is told after each tile that was computed (never a skipped one)."""

    i: int  # row tile
    j: int  # column tile
    rows: slice  # the queries of row tile i
    cols: slice  # the keys of column tile j
    kind: str  # "full" or "diagonal"
    S: np.ndarray  # (..., rows, cols) scaled, masked scores of this tile
    m: np.ndarray  # (..., rows) running maximum, this tile included
    l: np.ndarray  # (..., rows) running sum, this tile included
    alpha: np.ndarray  # (..., rows) the factor the older sums were multiplied by
    O: np.ndarray  # (..., rows, d_v) the output if no more keys came
    moved_bytes: int  # HBM bytes so far, as counted by `memory`


def flash_attention_forward(
    Q,
    K,
    V,
    Br=512,
    Bc=512,
    causal=False,
    *,
    scale=None,
    return_lse=False,
    memory=None,
    observe=None,
):
    """Exact attention, tile by tile, Q-outer (FlashAttention-2, Algorithm 1).

    Args:
        Q: (..., N_q, d) queries. K: (..., N_k, d) keys. V: (..., N_k, d_v) values.
        Br, Bc: rows and columns of a tile, any positive integers.
        causal: row i sees keys j ≤ i + N_k − N_q; tiles that no row sees are never loaded.
        scale: factor on the scores; None means 1/√d.
        return_lse: also return L.
        memory: a `Memory` that counts the loads and stores.
        observe: called with a `TileEvent` after every computed tile.

    Returns:
        O (..., N_q, d_v) in the promoted dtype of the inputs (integers: float64), or (O, L) with
        L (..., N_q), the natural log of Σ exp(scores); L is float32 for float16 inputs. A row
        that sees no key has O = 0 and L = −inf. Besides these, nothing larger than a tile is held.

    Raises:
        ValueError, TypeError: see `flashlib.checks`.
    """
    Q, K, V, scale, O, L = _prepare(Q, K, V, Br, Bc, causal, scale)
    memory = Memory() if memory is None else memory
    N_q, N_k, dtype = Q.shape[-2], K.shape[-2], L.dtype

    for i, rows in enumerate(tile_slices(N_q, Br)):  # line 3
        Q_i = memory.load("Q", Q[..., rows, :])  # line 4
        state = SoftmaxState.empty(Q_i.shape[:-1], V.shape[-1], dtype)  # line 5
        for j, cols in enumerate(tile_slices(N_k, Bc)):  # line 6
            kind, visible = tile_mask(rows, cols, N_q, N_k, causal)
            if kind == "skipped":
                break  # so are all tiles to its right
            K_j = memory.load("K", K[..., cols, :])  # line 7
            V_j = memory.load("V", V[..., cols, :])
            S = tile_scores(Q_i, K_j, scale, visible, dtype)  # line 8
            m_old = state.m
            state = update(state, S, V_j.astype(dtype, copy=False), visible)  # lines 9–10
            if observe is not None:
                observe(_event(i, j, rows, cols, kind, S, m_old, state, memory))
        O_i, L_i = state.finish()  # lines 12–13
        memory.store("O", O[..., rows, :], O_i)  # lines 14–15
        memory.store("L", L[..., rows], L_i)
    return (O, L) if return_lse else O


def flash_attention_forward_k_outer(
    Q,
    K,
    V,
    Br=512,
    Bc=512,
    causal=False,
    *,
    scale=None,
    return_lse=False,
    memory=None,
    observe=None,
):
    """The same attention with the K/V loop outside (loop order of FlashAttention-1, Algorithm 1).

    Arguments, results and errors are those of `flash_attention_forward`; only the traffic differs:
    Q, O, m and l are loaded, and O, m and l stored, at every visit of a tile. As printed,
    FlashAttention-1 divides by l at every visit; here that happens at a row tile's last one, so
    that both loop orders round alike. The bytes are the same.
    """
    Q, K, V, scale, O, L = _prepare(Q, K, V, Br, Bc, causal, scale)
    memory = Memory() if memory is None else memory
    N_q, N_k, dtype = Q.shape[-2], K.shape[-2], L.dtype
    row_tiles, col_tiles = tile_slices(N_q, Br), tile_slices(N_k, Bc)
    hbm = SoftmaxState.empty(L.shape, V.shape[-1], dtype)
    _store(memory, "mlOL", (*hbm, L), (*hbm, L))  # line 2: the state starts in HBM

    for j, cols in enumerate(col_tiles if N_q else []):  # line 5
        K_j = memory.load("K", K[..., cols, :])  # line 6
        V_j = memory.load("V", V[..., cols, :])
        for i, rows in enumerate(row_tiles):  # line 7
            kind, visible = tile_mask(rows, cols, N_q, N_k, causal)
            if kind == "skipped":
                continue
            Q_i = memory.load("Q", Q[..., rows, :])  # line 8
            views = SoftmaxState(hbm.m[..., rows], hbm.l[..., rows], hbm.o[..., rows, :])
            state = SoftmaxState(*map(memory.load, "mlO", views))
            S = tile_scores(Q_i, K_j, scale, visible, dtype)  # line 9
            m_old = state.m.copy()  # `state` looks into HBM, which is about to be overwritten
            state = update(state, S, V_j.astype(dtype, copy=False), visible)  # lines 10–12
            if _is_last_visit(rows, j, col_tiles, N_q, N_k, causal):
                _store(memory, "OL", (O[..., rows, :], L[..., rows]), state.finish())
            else:
                _store(memory, "mlO", views, state)  # lines 12–13
            if observe is not None:
                observe(_event(i, j, rows, cols, kind, S, m_old, state, memory))
    return (O, L) if return_lse else O


def tile_scores(Q_i, K_j, scale, visible, dtype):
    """Scaled scores (..., Br, Bc) of one tile in `dtype`, −inf where `visible` is False."""
    Q_i, K_j = Q_i.astype(dtype, copy=False), K_j.astype(dtype, copy=False)
    with np.errstate(invalid="ignore"):  # hidden keys may hold inf
        S = (Q_i * dtype.type(scale)) @ K_j.swapaxes(-1, -2)
    return S if visible is None else np.where(visible, S, -np.inf)


def _prepare(Q, K, V, Br, Bc, causal, scale):
    """Check everything; return Q, K, V, scale and the outputs O (zeros) and L (−inf)."""
    Q, K, V = check_qkv(Q, K, V)
    check_positive_int(Br=Br, Bc=Bc)
    check_causal(causal)
    dtype = compute_dtype(Q.dtype)
    scale = check_scale(scale, Q.shape[-1], dtype)
    O = np.zeros((*Q.shape[:-1], V.shape[-1]), Q.dtype)
    return Q, K, V, scale, O, np.full(Q.shape[:-1], -np.inf, dtype)


def _is_last_visit(rows, j, col_tiles, N_q, N_k, causal):
    """Whether row tile `rows` is paired with no column tile after number j."""
    following = col_tiles[j + 1 : j + 2]
    return not following or tile_kind(rows, *following, N_q, N_k, causal) == "skipped"


def _store(memory, names, destinations, tiles):
    for name, destination, tile in zip(names, destinations, tiles, strict=True):
        memory.store(name, destination, tile)


def _event(i, j, rows, cols, kind, S, m_old, state, memory):
    alpha = rescale_factor(m_old, state.m)
    O_so_far, _ = state.finish()
    moved_bytes = memory.bytes
    return TileEvent(i, j, rows, cols, kind, S, state.m, state.l, alpha, O_so_far, moved_bytes)
