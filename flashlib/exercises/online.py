"""Exercises of notebook 02: the update of (m, l, o), and merging finished results."""

from functools import partial

import numpy as np

from flashlib import online
from flashlib.exercises.core import Exercise
from flashlib.exercises.mistakes import broken_update
from flashlib.exercises.naming import Mistake, row_pattern

# ---------------------------------------------------------------- the update


def _update(m, l, o, S, V):
    return tuple(online.update(online.SoftmaxState(m, l, o), S, V))


def _state(rng, rows, d_v):
    S, V = rng.standard_normal((rows, 3)), rng.standard_normal((3, d_v))
    return _update(*online.SoftmaxState.empty((rows,), d_v), S, V)


def _update_cases(rng):
    one = np.array([[1.0, 2.0]])
    yield np.array([-np.inf]), np.zeros(1), np.zeros((1, 2)), np.log([[1.0]]), one
    yield np.zeros(1), np.ones(1), one, np.log([[2.0]]), 3 * one
    two = np.array([[1.0, 2, 3], [4, 5, 6]])
    yield np.zeros(2), np.ones(2), two, np.log([[2.0], [1.0]]), np.array([[1.0, 0, 1]])
    yield np.log([4.0]), np.full(1, 1.5), one, np.log([[2.0, 1.0]]), np.array([[1.0, 0], [0, 1]])
    yield np.zeros(1), np.ones(1), one, np.array([[-1000.0]]), 3 * one
    yield np.zeros(1), np.ones(1), one, np.array([[1000.0]]), 3 * one
    empty = online.SoftmaxState.empty((2,), 3)
    yield *empty, np.array([[-np.inf], [1.0]]), rng.standard_normal((1, 3))
    yield *_state(rng, 5, 3), rng.standard_normal((5, 4)), rng.standard_normal((4, 3))
    case = *_state(rng, 4, 2), rng.integers(-3, 4, (4, 7)), rng.standard_normal((7, 2))
    yield tuple(x.astype(np.float32) for x in case)


def _one_maximum(m, l, o, S, V):
    """One maximum for all the rows; otherwise right."""
    m_new = np.maximum(m, S.max())
    m_safe = np.where(np.isneginf(m_new), 0, m_new)
    alpha, P = np.exp(m - m_safe), np.exp(S - m_safe[:, None])
    return m_new, alpha * l + P.sum(axis=1), alpha[:, None] * o + P @ V


def _wrong_update(name, fault, advice):
    return Mistake(name, partial(broken_update, fault=fault), advice)


UPDATE_MISTAKES = (
    _wrong_update("l is not rescaled", "l", "Old sums shrink by alpha: l = alpha * l + ..."),
    _wrong_update("o is not rescaled", "o", "Old sums shrink by alpha, o as well as l."),
    _wrong_update(
        "alpha is upside down",
        "upside down",
        "alpha = exp(m_old - m_new), at most 1: old sums shrink when the maximum rises.",
    ),
    _wrong_update(
        "alpha is upside down, in o only",
        "o upside down",
        "That is the misprint of Algorithm 1: no inverse. o shrinks by alpha, as l does.",
    ),
    _wrong_update(
        "the maximum of this tile only",
        "tile maximum",
        "m_new = maximum(m, row maximum of S): the old maximum counts as well.",
    ),
    Mistake("one maximum for the whole tile", _one_maximum, "Each row has its own: S.max(axis=1)."),
    _wrong_update("the old m is returned", "m kept", "Return the new maximum."),
    _wrong_update("weights relative to the old m", "old maximum", "P = exp(S - m_new)."),
    _wrong_update("S is exponentiated as it is", "no maximum", "P = exp(S - m_new)."),
    _wrong_update(
        "o is divided by l in every step",
        "divided",
        "o stays undivided; the division comes once, at the very end.",
    ),
    _wrong_update(
        "o is kept divided by l",
        "kept divided",
        "That is FlashAttention-1's way. Here o stays undivided until the very end.",
    ),
    _wrong_update(
        "this tile's weights are divided by l",
        "weights divided",
        "o stays undivided; the division comes once, at the very end.",
    ),
    _wrong_update(
        "-inf - (-inf) where nothing has been seen",
        "-inf unguarded",
        "Where m_new is -inf, subtract 0 instead (for alpha and for P).",
    ),
)

update = Exercise(
    name="update",
    notebook="02",
    answer="my_update",
    task="Take one more tile of scores and values into the state (m, l, o).",
    reference=_update,
    cases=_update_cases,
    parts=("m", "l", "o"),
    hints=(
        """
        Five lines, those of the table in "The state and its update": m_new, alpha, P, l, o.
        m and l hold one number a row, S and o a line of numbers a row.
        """,
        """
        m_new takes the old m and the row maxima of S, S.max(axis=1).
        alpha = exp(m - m_new) multiplies everything old, l and o.
        A number a row meets a matrix as a column: m_new[:, None].
        """,
        """
        m_new = np.maximum(m, S.max(axis=1))
        m_safe = np.where(np.isneginf(m_new), 0, m_new)   # rows that have seen nothing
        alpha, P = np.exp(m - m_safe), np.exp(S - m_safe[:, None])
        return m_new, alpha * l + P.sum(axis=1), alpha[:, None] * o + P @ V
        """,
    ),
    solution_of=(online.update, online.rescale_factor),
    mistakes=UPDATE_MISTAKES,
    patterns=(
        row_pattern(
            "right, except for rows that have seen nothing yet",
            lambda m, l, o, S, V: np.isneginf(np.maximum(m, S.max(axis=1))),
            "Where m_new is -inf, m - m_new is NaN. Subtract 0 there instead.",
            sees_nothing=True,
        ),
        row_pattern(
            "right only while the maximum stays where it is",
            lambda m, l, o, S, V: S.max(axis=1) > m,
            "What happens to l and o when the maximum rises?",
        ),
    ),
)

# ---------------------------------------------------------------- merging finished results


def _merge(O_a, L_a, O_b, L_b):
    m = np.maximum(L_a, L_b)
    m = np.where(np.isneginf(m), 0, m)  # both sides saw nothing
    w_a, w_b = np.exp(L_a - m), np.exp(L_b - m)  # (R,)
    total = w_a + w_b
    safe = np.where(total == 0, 1, total)
    O = (w_a[:, None] * O_a + w_b[:, None] * O_b) / safe[:, None]
    return O, np.where(total == 0, -np.inf, m + np.log(safe))


def _finished(rng, rows, d_v, shift=0.0):
    S, V = rng.standard_normal((rows, 3)) + shift, rng.standard_normal((3, d_v))
    return online.update(online.SoftmaxState.empty((rows,), d_v), S, V).finish()


def _merge_cases(rng):
    yield np.array([[3.0, 0]]), np.log([1.0]), np.array([[0, 3.0]]), np.log([2.0])
    two = np.array([[1.0, 2, 3], [4, 5, 6]])
    yield two, np.log([1.0, 3.0]), 2 * two, np.log([3.0, 1.0])
    yield np.array([[1.0, 2]]), np.array([1000.0]), np.array([[5.0, 6]]), np.array([1000.0])
    yield np.array([[1.0, 2]]), np.array([-900.0]), np.array([[5.0, 6]]), np.array([900.0])
    yield np.array([[1.0, 2]]), np.array([0.0]), np.zeros((1, 2)), np.array([-np.inf])
    yield np.zeros((1, 2)), np.array([-np.inf]), np.zeros((1, 2)), np.array([-np.inf])
    yield *_finished(rng, 5, 3), *_finished(rng, 5, 3, shift=2)
    case = *_finished(rng, 3, 2), *_finished(rng, 3, 2)
    yield tuple(x.astype(np.float32) for x in case)


def _merge_base_2(O_a, L_a, O_b, L_b):
    ln2 = np.log(2)
    O, L = _merge(O_a, L_a * ln2, O_b, L_b * ln2)
    return O, L / ln2


def _merge_unshifted(O_a, L_a, O_b, L_b):
    w_a, w_b = np.exp(L_a), np.exp(L_b)
    return (w_a[:, None] * O_a + w_b[:, None] * O_b) / (w_a + w_b)[:, None], np.log(w_a + w_b)


def _merge_undivided(O_a, L_a, O_b, L_b):
    m = np.maximum(np.maximum(L_a, L_b), -1e300)
    w_a, w_b = np.exp(L_a - m), np.exp(L_b - m)
    return w_a[:, None] * O_a + w_b[:, None] * O_b, _merge(O_a, L_a, O_b, L_b)[1]


def _merge_unguarded(O_a, L_a, O_b, L_b):
    L = np.logaddexp(L_a, L_b)
    return np.exp(L_a - L)[:, None] * O_a + np.exp(L_b - L)[:, None] * O_b, L


merge_finished = Exercise(
    name="merge_finished",
    notebook="02",
    answer="merge_finished",
    task="Merge (O, L) of two disjoint sets of keys.",
    reference=_merge,
    cases=_merge_cases,
    parts=("O", "L"),
    hints=(
        """
        L is the log of a sum of exponentials. Over all keys the sum is exp(L_a) + exp(L_b).
        Each side's O counts with its share of that sum.
        """,
        """
        L = log(exp(L_a) + exp(L_b)) overflows at 1000: take the larger of the two out first.
        The weights exp(L_a - L) and exp(L_b - L) add up to 1.
        If both sides saw nothing, L is -inf: then O is 0, and L - L must not be computed.
        """,
        """
        L = np.logaddexp(L_a, L_b)
        safe = np.where(np.isneginf(L), 0, L)
        w_a, w_b = np.exp(L_a - safe), np.exp(L_b - safe)
        return w_a[:, None] * O_a + w_b[:, None] * O_b, L
        """,
    ),
    mistakes=(
        Mistake("base-2 logarithm", _merge_base_2, "L is a natural logarithm: np.exp and np.log."),
        Mistake(
            "exp(L) overflows or underflows",
            _merge_unshifted,
            "Take the larger L out before you exponentiate, as softmax does with its maximum.",
        ),
        Mistake(
            "both sides saw nothing: -inf - (-inf)",
            _merge_unguarded,
            "There O is 0 and L is -inf. Subtract 0 instead of -inf.",
        ),
        Mistake(
            "O is not divided by the sum of the weights",
            _merge_undivided,
            "O_a and O_b are finished averages: their weights must add up to 1.",
        ),
        Mistake(
            "a plain average",
            lambda O_a, L_a, O_b, L_b: ((O_a + O_b) / 2, _merge(O_a, L_a, O_b, L_b)[1]),
            "The side with the larger sum counts more: weights exp(L_a - L) and exp(L_b - L).",
        ),
        Mistake(
            "O_a + O_b",
            lambda O_a, L_a, O_b, L_b: (O_a + O_b, L_a + L_b),
            "O is an average, and L is a logarithm: neither of them adds up.",
        ),
        Mistake(
            "the larger L is taken for L",
            lambda O_a, L_a, O_b, L_b: (_merge(O_a, L_a, O_b, L_b)[0], np.maximum(L_a, L_b)),
            "L = log(exp(L_a) + exp(L_b)) is larger than both.",
        ),
        Mistake(
            "the sides are swapped",
            lambda O_a, L_a, O_b, L_b: (_merge(O_b, L_a, O_a, L_b)[0], L_b),
            "O_a goes with L_a.",
        ),
    ),
    patterns=(
        row_pattern(
            "right, except where a side saw nothing (L = -inf)",
            lambda O_a, L_a, O_b, L_b: np.isneginf(np.minimum(L_a, L_b)),
            "Its weight is 0; and if both saw nothing, O is 0 and L is -inf.",
            sees_nothing=True,
        ),
    ),
)
