"""Exercises of notebook 04: count tiles, name their kind, and mask one."""

import numpy as np

from flashlib import forward, tiles
from flashlib.exercises.core import Exercise
from flashlib.exercises.naming import Mistake, Pattern

TOP_LEFT = "Row i sees keys j <= i + N_k - N_q: the LAST query sees every key (bottom-right)."
STRICT = "A row sees its own token: j <= i + N_k - N_q, not j < ..."


def _top_left(function):
    """The answer of `function`, whose last arguments are N_q and N_k, with the other alignment."""
    return lambda *args: function(*args[:-2], args[-1], args[-1])


# ---------------------------------------------------------------- count


def _computed_tiles(N_q, N_k, Br, Bc):
    return int((tiles.tile_grid(N_q, N_k, Br, Bc, causal=True) != "skipped").sum())


def _count(kind):
    """How many tiles are not of `kind`."""
    return lambda N_q, N_k, Br, Bc: int(
        (tiles.tile_grid(N_q, N_k, Br, Bc, causal=True) != kind).sum()
    )


def _count_cases(rng):
    yield 1, 1, 1, 1
    yield 2, 2, 1, 1
    yield 8, 8, 2, 2
    yield 3, 5, 1, 1
    yield 5, 3, 2, 2
    yield 7, 7, 3, 2
    yield 1, 9, 4, 4
    yield 9, 1, 2, 4
    yield 4096, 4096, 128, 128
    N_q, N_k = (int(x) for x in rng.integers(20, 90, 2))
    yield N_q, N_k, 7, 5


def _square(N_q, N_k, Br, Bc):
    T = -(-N_q // Br)
    return T * (T + 1) // 2


def _whole_tiles(N_q, N_k, Br, Bc):
    return _computed_tiles(N_q // Br * Br, N_k // Bc * Bc, Br, Bc) if N_q >= Br and N_k >= Bc else 0


computed_tiles = Exercise(
    name="computed_tiles",
    notebook="04",
    answer="computed_tiles",
    task="How many tiles are full or diagonal.",
    reference=_computed_tiles,
    cases=_count_cases,
    hints=(
        "A tile is needed when its LAST row sees its FIRST key. Count row tile by row tile.",
        """
        The last row of a row tile is stop - 1. It sees causal_limit(stop - 1, N_q, N_k) keys.
        Those keys take ceil(limit / Bc) column tiles.
        """,
        """
        total = 0
        for rows in tile_slices(N_q, Br):
            limit = causal_limit(rows.stop - 1, N_q, N_k)
            total += -(-int(limit) // Bc)
        return total
        """,
    ),
    solution_of=(tiles.tile_grid, tiles.tile_kind),
    mistakes=(
        Mistake("top-left alignment", lambda N_q, N_k, Br, Bc: int(sum(
                -(-min(rows.stop, N_k) // Bc) for rows in tiles.tile_slices(N_q, Br))), TOP_LEFT),
        Mistake("T (T + 1) / 2, for square grids only", _square,
                "It holds for N_q = N_k and Br = Bc. Count row tile by row tile."),
        Mistake("every tile is counted", lambda N_q, N_k, Br, Bc: _count("")(N_q, N_k, Br, Bc),
                "Tiles above the diagonal are skipped."),
        Mistake("diagonal tiles are not counted", lambda N_q, N_k, Br, Bc: int(
                (tiles.tile_grid(N_q, N_k, Br, Bc, causal=True) == "full").sum()),
                "They are computed, and then masked."),
        Mistake("full tiles are not counted", lambda N_q, N_k, Br, Bc: int(
                (tiles.tile_grid(N_q, N_k, Br, Bc, causal=True) == "diagonal").sum()),
                "Computed tiles are the full AND the diagonal ones."),
        Mistake("skipped tiles are counted", lambda N_q, N_k, Br, Bc: int(
                (tiles.tile_grid(N_q, N_k, Br, Bc, causal=True) == "skipped").sum()),
                "These are the others."),
        Mistake("strict mask", lambda N_q, N_k, Br, Bc: int(sum(
                -(-max(0, min(rows.stop - 1 + N_k - N_q, N_k)) // Bc)
                for rows in tiles.tile_slices(N_q, Br))), STRICT),
        Mistake("ragged tiles are dropped", _whole_tiles, "The last tiles are shorter, and count."),
        Mistake("half of all tiles", lambda N_q, N_k, Br, Bc:
                -(-N_q // Br) * -(-N_k // Bc) // 2, "Diagonal tiles are computed whole."),
    ),
    patterns=(
        Pattern("right only for N_q = N_k", lambda N_q, N_k, Br, Bc: N_q != N_k, TOP_LEFT),
        Pattern("right only when N_q <= N_k", lambda N_q, N_k, Br, Bc: N_q > N_k,
                "The first rows see nothing: their count is 0, not negative."),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- kind of a tile


def _kind_of_tile(row_start, row_stop, col_start, col_stop, N_q, N_k):
    rows, cols = slice(row_start, row_stop), slice(col_start, col_stop)
    return tiles.tile_kind(rows, cols, N_q, N_k, causal=True)


def _kind_cases(rng):
    for N_q, N_k, Br, Bc in [(2, 2, 1, 1), (4, 4, 2, 2), (3, 5, 2, 2), (5, 3, 2, 3)]:
        for rows in tiles.tile_slices(N_q, Br):
            for cols in tiles.tile_slices(N_k, Bc):
                yield rows.start, rows.stop, cols.start, cols.stop, N_q, N_k
    N_q, N_k = (int(x) for x in rng.integers(10, 40, 2))
    for rows in tiles.tile_slices(N_q, 5):
        for cols in tiles.tile_slices(N_k, 4):
            yield rows.start, rows.stop, cols.start, cols.stop, N_q, N_k


def _swapped_kind(first, second):
    """Call tiles of the first kind by the second name."""

    def kind(*args):
        found = _kind_of_tile(*args)
        return second if found == first else found

    return kind


def _kind_by(first_row_sees, last_row_sees):
    """Decide with the number of keys that the first and the last row see, given as functions."""

    def kind(row_start, row_stop, col_start, col_stop, N_q, N_k):
        if col_stop <= first_row_sees(row_start, row_stop, N_q, N_k):
            return "full"
        return (
            "skipped" if col_start >= last_row_sees(row_start, row_stop, N_q, N_k) else "diagonal"
        )

    return kind


kind_of_tile = Exercise(
    name="kind_of_tile",
    notebook="04",
    answer="kind_of_tile",
    task='"full", "diagonal" or "skipped".',
    reference=_kind_of_tile,
    cases=_kind_cases,
    hints=(
        "Ask two rows: what does the first row of the tile see, and what does the last one see?",
        """
        Row i sees i + 1 + N_k - N_q keys (not below 0, not above N_k): causal_limit.
        Full: the FIRST row sees the tile's last key. Skipped: the LAST row doesn't see its first.
        The stops are one past the end: the last row is row_stop - 1.
        """,
        """
        if col_stop <= row_start + 1 + N_k - N_q:
            return "full"
        if col_start >= row_stop + N_k - N_q:
            return "skipped"
        return "diagonal"
        """,
    ),
    solution_of=(tiles.tile_kind, tiles.causal_limit),
    mistakes=(
        Mistake("top-left alignment", _top_left(_kind_of_tile), TOP_LEFT),
        Mistake("strict mask", _kind_by(lambda a, b, N_q, N_k: a + N_k - N_q,
                lambda a, b, N_q, N_k: b - 1 + N_k - N_q), STRICT),
        Mistake("no tile is full", _swapped_kind("full", "diagonal"),
                "Full: even the first row sees the tile's last key."),
        Mistake("no tile is skipped", _swapped_kind("skipped", "diagonal"),
                "Skipped: not even the last row sees the tile's first key."),
        Mistake("the first row decides alone", _kind_by(
                lambda a, b, N_q, N_k: a + 1 + N_k - N_q, lambda a, b, N_q, N_k: a + 1 + N_k - N_q),
                "For skipped, ask the LAST row: it sees most."),
        Mistake("the last row decides alone", _kind_by(
                lambda a, b, N_q, N_k: b + N_k - N_q, lambda a, b, N_q, N_k: b + N_k - N_q),
                "For full, ask the FIRST row: it sees least."),
        Mistake("the last row is row_stop - 1", _kind_by(
                lambda a, b, N_q, N_k: a + 1 + N_k - N_q, lambda a, b, N_q, N_k: b + 1 + N_k - N_q),
                "row_stop is one past the last row."),
        Mistake("full and skipped are swapped", lambda *args: {
                "full": "skipped", "skipped": "full"}.get(_kind_of_tile(*args), "diagonal"),
                "Above the diagonal nothing is seen."),
    ),
    patterns=(
        Pattern("right only for N_q = N_k", lambda *args: args[4] != args[5], TOP_LEFT),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- mask a tile


def _mask_tile(S, row_start, col_start, N_q, N_k):
    R, C = S.shape
    rows, cols = slice(row_start, row_start + R), slice(col_start, col_start + C)
    return np.where(tiles.causal_visible(rows, cols, N_q, N_k), S, -np.inf)


def _mask_with(visible, hidden=-np.inf):
    """Mask by a rule: visible(rows as a column, cols as a row, N_q, N_k)."""

    def mask_tile(S, row_start, col_start, N_q, N_k):
        rows = row_start + np.arange(S.shape[0])[:, None]
        cols = col_start + np.arange(S.shape[1])
        return np.where(visible(rows, cols, N_q, N_k), S, hidden)

    return mask_tile


def _bottom_right(rows, cols, N_q, N_k):
    return cols <= rows + N_k - N_q


def _mask_cases(rng):
    yield np.ones((2, 2)), 0, 0, 2, 2
    yield np.array([[3.0, 4.0]]), 1, 0, 2, 2
    yield np.ones((2, 3)), 0, 0, 2, 3
    yield np.ones((2, 2)), 2, 1, 5, 4
    yield np.ones((2, 2)), 0, 0, 4, 2
    yield rng.standard_normal((4, 5)), 4, 5, 9, 11
    yield rng.standard_normal((3, 4)).astype(np.float32), 6, 4, 9, 9


mask_tile = Exercise(
    name="mask_tile",
    notebook="04",
    answer="mask_tile",
    task="-inf where a row of the tile may not see the key.",
    reference=_mask_tile,
    cases=_mask_cases,
    hints=(
        "Which row and which key of the whole matrix is entry (r, c) of the tile?",
        """
        rows = row_start + np.arange(R), as a column; cols = col_start + np.arange(C).
        Row i sees keys j <= i + N_k - N_q. np.where(visible, S, -np.inf) replaces the rest.
        """,
        """
        rows = row_start + np.arange(S.shape[0])[:, None]
        cols = col_start + np.arange(S.shape[1])
        return np.where(cols <= rows + N_k - N_q, S, -np.inf)
        """,
    ),
    solution_of=(tiles.causal_visible, forward.tile_scores),
    mistakes=(
        Mistake("top-left alignment", _mask_with(lambda i, j, N_q, N_k: j <= i), TOP_LEFT),
        Mistake("strict mask", _mask_with(lambda i, j, N_q, N_k: j < i + N_k - N_q), STRICT),
        Mistake("finite stand-in for -inf", _mask_with(_bottom_right, -1e9),
                "A hidden score is -inf. A row that sees nothing would average over all keys."),
        Mistake("finite stand-in for -inf", _mask_with(_bottom_right, -1e4),
                "A hidden score is -inf. A row that sees nothing would average over all keys."),
        Mistake("hidden scores are 0", _mask_with(_bottom_right, 0.0),
                "A score of 0 is a perfectly good score: exp(0) = 1. Hidden means -inf."),
        Mistake("hidden scores are NaN", _mask_with(_bottom_right, np.nan),
                "0 * -inf is NaN, and so is inf - inf. Replace with np.where."),
        Mistake("the mask is inverted", _mask_with(lambda *a: ~_bottom_right(*a)),
                "Visible scores stay, hidden ones become -inf."),
        Mistake("the place of the tile is ignored", lambda S, row_start, col_start, N_q, N_k:
                _mask_tile(S, 0, 0, N_q, N_k),
                "Entry (r, c) of the tile is row row_start + r, key col_start + c."),
        Mistake("nothing is masked", lambda S, row_start, col_start, N_q, N_k: S, ""),
        Mistake("N_q and N_k are swapped", _mask_with(
                lambda i, j, N_q, N_k: j <= i + N_q - N_k), TOP_LEFT),
    ),
    patterns=(
        Pattern("right only for N_q = N_k", lambda *args: args[3] != args[4], TOP_LEFT),
    ),
)  # fmt: skip
