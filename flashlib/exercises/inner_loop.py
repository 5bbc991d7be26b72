"""Exercises of notebooks 03 and 04: the loop over column tiles, without and with a mask."""

import numpy as np

from flashlib import forward, online, tiles
from flashlib.exercises import probes
from flashlib.exercises.causal import STRICT, TOP_LEFT
from flashlib.exercises.core import Exercise
from flashlib.exercises.mistakes import broken_row_tile
from flashlib.exercises.naming import Mistake, Pattern, row_pattern

# ---------------------------------------------------------------- the inner loop


def _attend_row_tile(Q_i, K, V, Bc):
    return forward.flash_attention_forward(Q_i, K, V, len(Q_i), Bc, return_lse=True)


def wrong_row_tile(name, fault, advice):
    """A Mistake of the loop over column tiles, with or without a mask."""

    def answer(*args):
        if len(args) == 4:
            return broken_row_tile(*args, fault)
        Q_i, K, V, row_start, N_q, Bc = args
        return broken_row_tile(Q_i, K, V, Bc, fault, row_start, N_q)

    return Mistake(name, answer, advice)


SHRINK = "The old sums shrink by alpha when the maximum rises, l and o alike."
ROW_TILE_MISTAKES = (
    wrong_row_tile("l is not rescaled", "l", SHRINK),
    wrong_row_tile("o is not rescaled", "o", SHRINK),
    wrong_row_tile("alpha is upside down", "upside down", "alpha = exp(m_old - m_new)."),
    wrong_row_tile(
        "the maximum of this tile only", "tile maximum", "m_new = maximum(m, row maximum of S)."
    ),
    wrong_row_tile("the scale is forgotten", "no scale", "S = Q K^T / sqrt(d)."),
    wrong_row_tile("the scale is applied twice", "scale twice", "Divide by sqrt(d) once."),
    wrong_row_tile(
        "padded keys count",
        "padded",
        "The last tile is shorter. A key of zeros has score 0, not -inf: cut, don't pad.",
    ),
    wrong_row_tile(
        "the last, shorter tile is dropped",
        "dropped",
        "Loop to N_k, also when Bc doesn't divide it.",
    ),
    wrong_row_tile("division in the loop", "divided", "Divide o by l once, after the loop."),
    wrong_row_tile(
        "division in the loop", "weights divided", "Divide o by l once, after the loop."
    ),
    wrong_row_tile("the division by l is missing", "undivided", "O = o / l after the loop."),
    wrong_row_tile("base-2 logarithm in L", "base 2", "L = m + log(l), the natural logarithm."),
    wrong_row_tile(
        "the maximum is not subtracted in L",
        "L overflows",
        "exp(1000) is inf. L = m + log(l), with l relative to m.",
    ),
    wrong_row_tile("L is only m", "m alone", "L = m + log(l)."),
    wrong_row_tile("L is only l", "l alone", "L = m + log(l)."),
    wrong_row_tile("L is only log(l)", "log l", "L = m + log(l)."),
)


def _row_tile_cases(rng):
    def case(rows, keys, d, d_v, Bc, spread=1.0):
        Q_i, K = rng.standard_normal((rows, d)) * spread, rng.standard_normal((keys, d))
        return Q_i, K, rng.standard_normal((keys, d_v)), Bc

    yield np.ones((1, 1)), np.log([[1.0], [3.0]]), np.array([[4.0], [8.0]]), 2
    yield np.ones((1, 4)), np.zeros((3, 4)), np.array([[1.0], [2.0], [6.0]]), 2
    yield np.ones((1, 4)), np.array([[0.0] * 4, [1.0] * 4]), np.array([[1.0], [2.0]]), 1
    yield np.full((1, 1), 100.0), np.array([[10.0], [-10.0]]), np.array([[1.0], [2.0]]), 1
    yield case(2, 6, 4, 3, 3)
    yield case(3, 7, 4, 2, 3, spread=3)
    yield case(4, 5, 8, 3, 16)
    yield case(5, 23, 4, 6, 5, spread=3)
    yield *(x.astype(np.float32) for x in case(3, 20, 4, 2, 8)[:3]), 8


def _row_tile_probe(run):
    """Many keys and small tiles: a row of all scores would be seen in the memory held."""
    rng, (rows, keys, d, Bc) = np.random.default_rng(0), (64, 8192, 2, 64)
    Q_i, K, V = (rng.standard_normal((n, d)) for n in (rows, keys, keys))
    found = probes.holds_too_much(lambda: run(Q_i, K, V, Bc), rows * keys * 8)
    pieces = []
    if found is None:
        run(Q_i[:2], probes.Watched(K[:40], pieces), V[:40], 7)
        found = probes.tile_fault(pieces, 7)
    return found


row_tile = Exercise(
    name="row_tile",
    notebook="03",
    answer="attend_row_tile",
    task="The loop over column tiles for one row tile.",
    reference=_attend_row_tile,
    cases=_row_tile_cases,
    parts=("O_i", "L_i"),
    hints=(
        """
        It is the inner loop of my_forward above: start from the state that has seen nothing,
        take in one tile of keys after the other, finish at the end.
        """,
        """
        state = SoftmaxState.empty((len(Q_i),), V.shape[1])
        For each slice in tile_slices(len(K), Bc): S of this tile (scaled!), then update.
        state.finish() gives O and L.
        """,
        """
        state = SoftmaxState.empty((len(Q_i),), V.shape[1])
        for cols in tile_slices(len(K), Bc):
            S = Q_i @ K[cols].T / np.sqrt(Q_i.shape[1])
            state = update(state, S, V[cols])
        return state.finish()
        """,
    ),
    solution_of=(forward.flash_attention_forward,),
    mistakes=ROW_TILE_MISTAKES,
    patterns=(
        Pattern(
            "right only when Bc divides the number of keys",
            lambda Q_i, K, V, Bc: len(K) % Bc != 0 and len(K) > Bc,
            "The last tile is shorter.",
        ),
        Pattern(
            "right only when one tile holds all keys",
            lambda Q_i, K, V, Bc: len(K) > Bc,
            "What must happen to m, l and o between two tiles?",
        ),
        Pattern(
            "right only when there are as many keys as Bc, or a multiple",
            lambda Q_i, K, V, Bc: len(K) % Bc != 0,
            "A tile may be shorter than Bc.",
        ),
    ),
    probe=_row_tile_probe,
)


# ---------------------------------------------------------------- the causal inner loop


def _causal_row_tile(Q_i, K, V, row_start, N_q, Bc):
    rows, N_k = slice(row_start, row_start + len(Q_i)), len(K)
    scale = 1 / np.sqrt(Q_i.shape[1])
    state = online.SoftmaxState.empty((len(Q_i),), V.shape[1], Q_i.dtype)
    for cols in tiles.tile_slices(N_k, Bc):
        kind, visible = tiles.tile_mask(rows, cols, N_q, N_k, causal=True)
        if kind == "skipped":
            break  # so are all tiles to its right
        S = forward.tile_scores(Q_i, K[cols], scale, visible, Q_i.dtype)
        state = online.update(state, S, V[cols], visible)
    return state.finish()


def _causal_cases(rng):
    def case(rows, row_start, N_q, N_k, Bc, spread=1.0):
        Q_i, K = rng.standard_normal((rows, 4)) * spread, rng.standard_normal((N_k, 4))
        return Q_i, K, rng.standard_normal((N_k, 3)), row_start, N_q, Bc

    eye, column = np.eye(2), np.array([[1.0], [3.0]])
    yield eye, eye, column, 0, 2, 2
    yield eye, eye, column, 0, 3, 1
    yield case(2, 2, 4, 4, 2, spread=3)
    yield case(3, 3, 6, 6, 4)
    yield case(2, 1, 3, 8, 3, spread=3)
    yield np.full((1, 1), 100.0), np.array([[10.0], [-10.0]]), column, 1, 2, 1
    loud = case(2, 0, 4, 4, 2)  # a hidden score so large that all the visible weights underflow
    loud[0][0], loud[1][1] = 40.0, 40.0
    yield loud
    yield case(3, 0, 6, 5, 2)
    yield case(3, 0, 9, 4, 2)
    yield case(4, 5, 9, 23, 5, spread=3)
    yield *(x.astype(np.float32) for x in case(3, 4, 7, 7, 2)[:3]), 4, 7, 2


def _causal_probe(run):
    """Hidden NaN must not reach the result, and no row of all scores may exist."""
    rng, (rows, keys, d, Bc) = np.random.default_rng(0), (64, 8192, 2, 64)
    Q_i, K, V = (rng.standard_normal((n, d)) for n in (rows, keys, keys))
    K[-keys // 2 :] = V[-keys // 2 :] = np.nan
    start = keys // 2 - rows
    found = probes.holds_too_much(lambda: run(Q_i, K, V, start, keys, Bc), rows * keys * 4)
    if found is None and not all(np.isfinite(np.asarray(x)).all() for x in run(
        Q_i, K, V, start, keys, Bc
    )):  # fmt: skip
        return SKIPPED_LOADED
    pieces = []
    if found is None:
        run(Q_i[:2], probes.Watched(K[:40], pieces), V[:40], 38, 40, 7)
        found = probes.tile_fault(pieces, 7)
    return found


SKIPPED_LOADED = Mistake(
    "skipped tiles are computed",
    None,
    "NaN in keys that no row sees reached the result: 0 * NaN is NaN. Don't touch those tiles.",
)

causal_row_tile = Exercise(
    name="causal_row_tile",
    notebook="04",
    answer="causal_row_tile",
    task="The loop over column tiles for one row tile, with the causal mask.",
    reference=_causal_row_tile,
    cases=_causal_cases,
    parts=("O_i", "L_i"),
    hints=(
        """
        Notebook 03's loop and two more lines, as in my_causal_forward above. The row tile is
        slice(row_start, row_start + len(Q_i)) of N_q rows.
        """,
        """
        For each column tile: its kind; "skipped" ends the loop; S; on "diagonal" tiles the mask,
        BEFORE update takes the maximum; then update. state.finish() treats rows without keys.
        """,
        """
        rows = slice(row_start, row_start + len(Q_i))
        state = SoftmaxState.empty((len(Q_i),), V.shape[1])
        for cols in tile_slices(len(K), Bc):
            if tile_kind(rows, cols, N_q, len(K), causal=True) == "skipped":
                break
            S = Q_i @ K[cols].T / np.sqrt(Q_i.shape[1])
            S = np.where(causal_visible(rows, cols, N_q, len(K)), S, -np.inf)
            state = update(state, S, V[cols])
        return state.finish()
        """,
    ),
    mistakes=(
        wrong_row_tile("mask after the maximum", "mask after",
                       "Replace hidden scores by -inf first, then take the maximum."),
        wrong_row_tile("strict mask", "strict", STRICT),
        wrong_row_tile("top-left alignment", "top-left", TOP_LEFT),
        wrong_row_tile("finite stand-in for -inf", "finite", "A hidden score is -inf."),
        wrong_row_tile("row_start is ignored", "row tile",
                       "Row r of the tile is row row_start + r of the matrix."),
        Mistake("no mask at all", lambda Q_i, K, V, row_start, N_q, Bc:
                forward.flash_attention_forward(Q_i, K, V, len(Q_i), Bc, return_lse=True),
                "Row i sees keys j <= i + N_k - N_q only."),
        *ROW_TILE_MISTAKES,
    ),
    patterns=(
        row_pattern("right, except for rows that see nothing",
                    lambda Q_i, K, V, row_start, N_q, Bc:
                    row_start + np.arange(len(Q_i)) + 1 + len(K) - N_q <= 0,
                    "There O = 0 and L = -inf.", sees_nothing=True),
        Pattern("right only for N_q = N_k",
                lambda Q_i, K, V, row_start, N_q, Bc: N_q != len(K), TOP_LEFT),
    ),
    probe=_causal_probe,
)  # fmt: skip
