"""Tile geometry: which tiles the score matrix falls into, and which of them a causal mask needs.

The score matrix S is N_q rows (queries) by N_k columns (keys). A tile is Br rows by Bc columns;
the last tile of a row or a column may be smaller. Nothing here computes attention.
"""

import numpy as np

from flashlib.checks import check_positive_int


def tile_slices(n, size):
    """Cut range(n) into slices of `size`; the last one may be shorter, n = 0 gives none.

    Raises TypeError or ValueError unless `size` is a positive integer.
    """
    check_positive_int(size=size)
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def causal_limit(row, N_q, N_k):
    """How many keys row `row` sees under a causal mask: keys 0 … limit − 1.

    The mask is aligned bottom-right (FlashAttention 2.1 and later): the last query sees every
    key, so row i sees keys j ≤ i + N_k − N_q. `row` may be an int or an integer array.
    """
    return np.clip(row + 1 + N_k - N_q, 0, N_k)


def causal_visible(rows, cols, N_q, N_k):
    """Boolean tile (rows, cols): True where the row may see the key. `rows`, `cols`: slices."""
    limits = causal_limit(np.arange(rows.start, rows.stop), N_q, N_k)
    return np.arange(cols.start, cols.stop) < limits[:, None]


def tile_kind(rows, cols, N_q, N_k, causal=False):
    """Say what a causal mask leaves of a tile: "full", "diagonal" or "skipped".

    Full tiles need no mask, skipped tiles are never loaded, and only diagonal ones are masked
    element by element (FlashAttention-2, section 3.1.1, "Causal masking").
    """
    if not causal or cols.stop <= causal_limit(rows.start, N_q, N_k):
        return "full"
    if cols.start >= causal_limit(rows.stop - 1, N_q, N_k):
        return "skipped"
    return "diagonal"


def tile_mask(rows, cols, N_q, N_k, causal):
    """The kind of a tile and its mask: (kind, bool (rows, cols) if "diagonal", otherwise None)."""
    kind = tile_kind(rows, cols, N_q, N_k, causal)
    return kind, causal_visible(rows, cols, N_q, N_k) if kind == "diagonal" else None


def tile_grid(N_q, N_k, Br, Bc, causal=False):
    """The kind of every tile, as a string array (T_r, T_c), with T_r = ⌈N_q/Br⌉, T_c = ⌈N_k/Bc⌉."""
    row_tiles, col_tiles = tile_slices(N_q, Br), tile_slices(N_k, Bc)
    grid = np.empty((len(row_tiles), len(col_tiles)), dtype="<U8")
    for i, rows in enumerate(row_tiles):
        for j, cols in enumerate(col_tiles):
            grid[i, j] = tile_kind(rows, cols, N_q, N_k, causal)
    return grid


def masked_product(P, X, visible=None):
    """P @ X for a tile, where a hidden entry contributes nothing, even from NaN or inf in X.

    A zero weight is not enough: 0 · NaN is NaN. So rows of X that aren't finite are taken out of
    the product and given only to the rows of P that may see them.

    Args:
        P: (..., R, C) weights, 0 wherever `visible` is False.
        X: (..., C, d).
        visible: bool (R, C), or None when every entry is visible.

    Returns:
        (..., R, d).
    """
    if visible is None or np.isfinite(X).all():
        return P @ X
    bad = ~np.isfinite(X).all(axis=tuple(i for i in range(X.ndim) if i != X.ndim - 2))  # (C,)
    out = P[..., ~bad] @ X[..., ~bad, :]
    for c in np.flatnonzero(bad):
        rows = visible[:, c]
        with np.errstate(invalid="ignore"):  # 0 · inf in a row that does see it: NaN, as for P @ X
            out[..., rows, :] += P[..., rows, c, None] * X[..., None, c, :]
    return out
