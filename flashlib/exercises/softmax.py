"""Exercises of notebooks 00 and 01: the scale, a softmax that survives, the size of S."""

from functools import partial

import numpy as np

from flashlib import naive
from flashlib.exercises.core import Exercise
from flashlib.exercises.naming import Mistake, row_pattern
from flashlib.exercises.predictions import Prediction


def _default_scale(d):
    return 1 / d**0.5


default_scale = Exercise(
    name="default_scale",
    notebook="00",
    answer="default_scale",
    task="The score scale for head size d.",
    reference=_default_scale,
    cases=lambda rng: [(1,), (4,), (64,), (int(rng.integers(5, 300)),)],
    hints=(
        "The square root of d, and one divided by it.",
        "In Python a square root is d**0.5 or np.sqrt(d).",
        "return 1 / d**0.5",
    ),
    mistakes=(
        Mistake("the root is not inverted", lambda d: d**0.5, "Scores are divided by sqrt(d)."),
        Mistake("divided by d, not by its root", lambda d: 1 / d, "Take sqrt(d)."),
        Mistake("d is ignored", lambda d: 0.125, "0.125 is right for d = 64 only."),
    ),
)


def _softmax_cases(rng):
    yield (np.array([[0.0, 1.0]]),)
    yield (np.log([[1.0, 3.0], [2.0, 2.0]]),)
    yield (np.array([[1000.0, 1001.0, 998.0]]),)
    yield (np.array([[0.0, 1.0], [-2000.0, -2003.0]]),)
    yield (np.array([[-np.inf, 0.0], [-np.inf, -np.inf]]),)
    yield (np.array([[-2000.0, -2001.0]]),)
    yield (rng.standard_normal((3, 5)) * 3,)
    yield (rng.standard_normal((2, 3, 4)),)
    yield (rng.integers(-9, 9, (2, 7)).astype(np.float32),)


def _shifted(S, m):
    P = np.exp(S - m)
    return P / P.sum(axis=-1, keepdims=True)


def _sum_of_everything(S):
    m = np.maximum(S.max(axis=-1, keepdims=True), -1e300)
    P = np.exp(S - m)
    return P / P.sum()


def _one_maximum(S, guarded=False, one_sum=False):
    P = np.exp(S - S.max())
    l = P.sum() if one_sum else P.sum(axis=-1, keepdims=True)
    return P / (np.where(l == 0, 1, l) if guarded else l)


def _without_keepdims(S, m_column=True, l_column=True):
    m = S.max(axis=-1, keepdims=m_column)
    P = np.exp(S - np.where(np.isneginf(m), 0, m))
    l = P.sum(axis=-1, keepdims=l_column)
    return P / np.where(l == 0, 1, l)


def _axis_1(S):
    return naive.softmax(S.swapaxes(1, -1)).swapaxes(1, -1)


def _wrong_axis(S):
    return naive.softmax(S.swapaxes(0, -1)).swapaxes(0, -1)


stable_softmax = Exercise(
    name="stable_softmax",
    notebook="01",
    answer="stable_softmax",
    task="A softmax that survives scores of 1000 and rows of -inf.",
    reference=naive.softmax,
    cases=_softmax_cases,
    hints=(
        "Subtract the largest score of each row before you exponentiate. Which axis is a row?",
        """
        m = S.max(axis=-1, keepdims=True) works for any leading axes.
        In a row of only -inf, m is -inf and -inf - (-inf) is NaN: put 0 in the place of such an m.
        The sum of such a row is 0: divide by 1 instead.
        """,
        """
        m = S.max(axis=-1, keepdims=True)
        m = np.where(np.isneginf(m), 0, m)
        P = np.exp(S - m)
        l = P.sum(axis=-1, keepdims=True)
        return P / np.where(l == 0, 1, l)
        """,
    ),
    solution_of=(naive._softmax_lse,),
    mistakes=(
        Mistake(
            "the maximum is not subtracted",
            naive.unsafe_softmax,
            "exp(1000) is inf, and inf/inf is NaN.",
        ),
        Mistake(
            "a row of only -inf gives NaN",
            lambda S: _shifted(S, S.max(axis=-1, keepdims=True)),
            "There the maximum is -inf, -inf - (-inf) is NaN, and 0/0 as well. Its weights are 0.",
        ),
        Mistake(
            "finite stand-in for -inf",
            lambda S: naive.softmax(np.maximum(S, -1e9)),
            "A row that sees nothing gets equal weights. Keep -inf, and treat its sum of 0.",
        ),
        Mistake(
            "the whole array shares one sum",
            _sum_of_everything,
            "Each row has its own: axis=-1, keepdims=True.",
        ),
        Mistake("the wrong axis", _wrong_axis, "Rows run along the last axis: axis=-1."),
        Mistake(
            "axis=1 instead of the last axis",
            _axis_1,
            "With leading axes (batch, heads) the rows run along axis=-1, not along axis 1.",
        ),
        *(
            Mistake(
                "one maximum for the whole array",
                partial(_one_maximum, guarded=guarded),
                "A row far below it underflows to 0: each row needs its own maximum.",
            )
            for guarded in (False, True)
        ),
        Mistake(
            "one maximum and one sum for the whole array",
            partial(_one_maximum, one_sum=True),
            "Each row has its own: axis=-1, keepdims=True, for both.",
        ),
        *(
            Mistake(
                f"keepdims is missing in the {where}",
                partial(_without_keepdims, m_column=m_column, l_column=l_column),
                "One number a row must stay a column, or it meets the wrong axis of S: "
                "keepdims=True.",
            )
            for where, m_column, l_column in (
                ("sum", True, False),
                ("maximum", False, True),
                ("maximum and the sum", False, False),
            )
        ),
        Mistake(
            "not divided by the sum",
            lambda S: np.exp(S - np.maximum(S.max(axis=-1, keepdims=True), -1e300)),
            "The weights of a row must sum to 1.",
        ),
    ),
    patterns=(
        row_pattern(
            "right, except in rows of only -inf",
            lambda S: np.isneginf(S).all(axis=-1),
            "Their weights are 0, all of them.",
            sees_nothing=True,
        ),
        row_pattern(
            "right for small scores only",
            lambda S: (np.isfinite(S) & (np.abs(S) > 500)).any(axis=-1),
            "What does exp do with 1000? And with -2000?",
        ),
    ),
)

# the layer of the exercise: batch, heads, tokens, bytes an element
LAYER = 4, 32, 8192, 2


def _score_gigabytes():
    batch, heads, N, itemsize = LAYER
    return batch * heads * N * N * itemsize / 1e9


S_gigabytes = Prediction(
    name="S_gigabytes",
    notebook="01",
    answer="S_gigabytes",
    task="Gigabytes of S: 4 sequences of 8192 tokens, 32 heads, fp16.",
    reference=_score_gigabytes,
    hints=(
        "S has one entry for each pair of tokens, in each head of each sequence.",
        "4 sequences, 32 heads, 8192 x 8192 scores, 2 bytes each.",
        "8192**2 is 67 million. Times 4 * 32 * 2 bytes, over 1e9.",
    ),
    mistakes=(
        Mistake("one sequence only", lambda: _score_gigabytes() / LAYER[0], "The batch has 4."),
        Mistake("one head only", lambda: _score_gigabytes() / LAYER[1], "There are 32 heads."),
        Mistake(
            "one byte an element",
            lambda: _score_gigabytes() / LAYER[3],
            "A number in fp16 takes 2 bytes.",
        ),
        Mistake("fp32", lambda: _score_gigabytes() * 2, "A number in fp16 takes 2 bytes."),
        Mistake(
            "GiB instead of GB",
            lambda: _score_gigabytes() * 1e9 / 2**30,
            "The course counts in powers of ten: 1 GB = 1e9 bytes.",
        ),
        Mistake("megabytes", lambda: _score_gigabytes() * 1e3, "1 GB is 1000 MB."),
        Mistake("bytes", lambda: _score_gigabytes() * 1e9, "1 GB is 1e9 bytes."),
    ),
)
