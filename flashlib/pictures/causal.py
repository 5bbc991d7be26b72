"""Which tiles a causal mask leaves, for either alignment."""

import numpy as np

from flashlib.pictures.frames import Picture, new_figure, styled_picture
from flashlib.pictures.stage import axes_at, place
from flashlib.plots import COLORS, draw_tiles
from flashlib.tiles import tile_grid, tile_kind, tile_slices

ALIGNMENTS = ("bottom-right", "top-left")


def causal_kinds(N_q, N_k, Br, Bc, alignment="bottom-right"):
    """Kinds (T_r, T_c) of the tiles under a causal mask, for either alignment.

    "bottom-right": row i sees keys j ≤ i + N_k − N_q, as everywhere in this library.
    "top-left": row i sees keys j ≤ i, which is bottom-right in a square of side max(N_q, N_k).
    """
    if alignment not in ALIGNMENTS:
        raise ValueError(f"alignment must be one of {ALIGNMENTS}, got {alignment!r}")
    if alignment == "bottom-right":
        return tile_grid(N_q, N_k, Br, Bc, True)
    side = max(N_q, N_k)
    rows, columns = tile_slices(N_q, Br), tile_slices(N_k, Bc)
    return np.array([[tile_kind(r, c, side, side, True) for c in columns] for r in rows])


@styled_picture
def causal_tiles(N_q=64, N_k=64, Br=8, Bc=8, alignment="bottom-right"):
    """Which tiles a causal mask needs, and how much work that leaves each row tile.

    Returns a Picture. Raises ValueError for an unknown alignment.
    """
    kinds = causal_kinds(N_q, N_k, Br, Bc, alignment)
    count = {kind: int((kinds == kind).sum()) for kind in ("full", "diagonal", "skipped")}
    needed, all_tiles = count["full"] + count["diagonal"], kinds.size
    figure = new_figure(4.9)
    ax = axes_at(figure, 75, 70, 355, 355)
    draw_tiles(ax, kinds, done=[tuple(at) for at in np.argwhere(kinds != "skipped")])
    ax.set_aspect("auto")
    work = axes_at(figure, 500, 70, 165, 355)
    for kind, left, hatch in (("full", 0, ""), ("diagonal", (kinds == "full").sum(axis=1), "//")):
        style = {"color": COLORS["done"], "edgecolor": "#555555", "hatch": hatch, "label": kind}
        work.barh(np.arange(len(kinds)) + 0.5, (kinds == kind).sum(axis=1), 0.8, left=left, **style)
    work.set(ylim=(len(kinds), 0), xlim=(0, kinds.shape[1] * 1.02), xlabel="tiles of row tile i")
    work.set_yticks(ax.get_yticks(), [text.get_text() for text in ax.get_yticklabels()])
    title = f"N_q = {N_q}, N_k = {N_k}, Br = {Br}, Bc = {Bc}, aligned {alignment}"
    place(figure, 20, 470, title, weight="bold", fontsize=14)
    busiest = int((kinds != "skipped").sum(axis=1).max())
    idle = int((kinds == "skipped").all(axis=1).sum())
    share = f"{needed / all_tiles:.1%} of the work"
    lines = (
        f"full: {count['full']}", f"diagonal: {count['diagonal']}", f"skipped: {count['skipped']}",
        "", f"needed: {needed} of {all_tiles}", share,
        "", f"longest row: {busiest}", f"rows without work: {idle}",
    )  # fmt: skip
    for k, line in enumerate(lines):
        place(figure, 688, 405 - 26 * k, line, weight="bold" if "needed" in line else "normal")
    text = (
        f"{title}: {count['full']} full, {count['diagonal']} diagonal and {count['skipped']} "
        f"skipped tiles, so {needed} of {all_tiles} or {share}. The longest row tile has "
        f"{busiest} tiles, {idle} row tiles have none."
    )
    return Picture(figure, text)
