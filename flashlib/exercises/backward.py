"""Exercises of notebook 05: D, P from L, dS, and the whole backward pass."""

from functools import partial

import numpy as np

from flashlib import backward, forward
from flashlib.exercises import probes
from flashlib.exercises.core import Exercise
from flashlib.exercises.mistakes import broken_backward
from flashlib.exercises.naming import Mistake, Pattern, row_pattern

# ---------------------------------------------------------------- D


def _row_D(O, dO):
    return backward.row_dot(dO, O)


def _D_cases(rng):
    yield np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
    yield rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    yield rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    yield rng.standard_normal((2, 4, 5)), rng.standard_normal((2, 4, 5))
    yield tuple(rng.standard_normal((4, 6)).astype(np.float32) for _ in range(2))


row_D = Exercise(
    name="row_D",
    notebook="05",
    answer="my_D",
    task="D: one number a row, from O and dO.",
    reference=_row_D,
    cases=_D_cases,
    hints=(
        "D of a row is the dot product of its dO and its O.",
        "Multiply the two arrays element by element, then sum along the last axis.",
        "return (dO * O).sum(axis=-1)",
    ),
    solution_of=(backward.row_dot,),
    mistakes=(
        Mistake("the mean, not the sum", lambda O, dO: (dO * O).mean(axis=-1), "Take the sum."),
        Mistake("O with itself", lambda O, dO: (O * O).sum(axis=-1), "dO times O."),
        Mistake("dO is summed without O", lambda O, dO: dO.sum(axis=-1), "dO times O."),
        Mistake("a matrix product's diagonal is asked for, not its row sums", lambda O, dO:
                (dO @ O.swapaxes(-1, -2)).sum(axis=-1), "Element by element: dO * O."),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- P from L


def _weights_from_L(S, L):
    L = np.where(np.isneginf(L), np.inf, L)  # exp(S - inf) = 0 in rows that see nothing
    return np.exp(S - L[:, None])


def _log_sum(S):
    with np.errstate(divide="ignore"):
        return np.log(np.exp(S).sum(axis=1))


def _weights_cases(rng):
    yield np.log([[1.0, 3.0]]), np.log([4.0])
    yield np.log([[1.0, 2.0]]), np.log([8.0])  # other tiles of the row hold the rest
    yield np.array([[1000.0, 999.0]]), np.array([1001.0])
    yield np.array([[-np.inf, 0.0], [-np.inf, -np.inf]]), np.array([1.0, -np.inf])
    S = rng.standard_normal((4, 3)) * 2
    yield S, _log_sum(S) + 1
    S = rng.standard_normal((3, 5)).astype(np.float32)
    yield S, (_log_sum(S) + 1).astype(np.float32)


weights_from_L = Exercise(
    name="weights_from_L",
    notebook="05",
    answer="weights_from_L",
    task="P of one tile, from its scores and L.",
    reference=_weights_from_L,
    cases=_weights_cases,
    hints=(
        "L already holds the maximum and the sum of the WHOLE row. One exponential is enough.",
        """
        P = exp(S - L), with L as a column. In rows that see nothing L is -inf and so is S:
        which value of L makes exp(S - L) zero there?
        """,
        """
        L = np.where(np.isneginf(L), np.inf, L)
        return np.exp(S - L[:, None])
        """,
    ),
    solution_of=(backward._prepare, backward.flash_attention_backward),
    mistakes=(
        Mistake("the softmax of this tile alone (L is not used)", lambda S, L:
                np.exp(S - S.max(axis=1, keepdims=True))
                / np.exp(S - S.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True),
                "The row goes on outside this tile. L knows its sum: P = exp(S - L)."),
        Mistake("L is not used", lambda S, L: np.exp(S), "P = exp(S - L)."),
        Mistake("base-2 exponential", lambda S, L: np.exp2(S - np.where(
                np.isneginf(L), np.inf, L)[:, None]), "L is a natural logarithm: np.exp."),
        Mistake("rows that see nothing: -inf - (-inf)", lambda S, L: np.exp(S - L[:, None]),
                "That is NaN. Put +inf in the place of such an L: exp(-inf - inf) = 0."),
        Mistake("divided by L", lambda S, L: np.exp(S) / L[:, None],
                "L is a logarithm: exp(S) / exp(L) = exp(S - L)."),
        Mistake("exp(L) overflows", lambda S, L: np.where(np.isneginf(L)[:, None], 0,
                np.exp(S) / np.exp(L[:, None])), "exp(1000) is inf. Subtract first: exp(S - L)."),
        Mistake("the sign is swapped", lambda S, L: np.exp(np.where(
                np.isneginf(L), -np.inf, L)[:, None] - S), "P = exp(S - L)."),
    ),
    patterns=(
        row_pattern("right, except in rows that see nothing", lambda S, L: np.isneginf(L),
                    "There P is 0.", sees_nothing=True),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- dS


def _score_gradient(P, dP, D):
    return P * (dP - D[:, None])


def _dS_cases(rng):
    yield np.array([[0.25, 0.75]]), np.array([[4.0, 8.0]]), np.array([7.0])
    yield np.array([[0.5, 0.5]]), np.array([[3.0, 3.0]]), np.array([3.0])
    yield rng.random((2, 3)), rng.standard_normal((2, 3)), rng.standard_normal(2)
    yield rng.random((3, 3)), rng.standard_normal((3, 3)), rng.standard_normal(3)
    case = rng.random((4, 5)), rng.standard_normal((4, 5)), rng.standard_normal(4)
    yield tuple(x.astype(np.float32) for x in case)


dS = Exercise(
    name="dS",
    notebook="05",
    answer="my_dS",
    task="dS of one tile.",
    reference=_score_gradient,
    cases=_dS_cases,
    hints=(
        "The gradient of the softmax: each dP counts by how much it differs from the row's D.",
        "dS = P times (dP - D), element by element. D is one number a row: as a column D[:, None].",
        "return P * (dP - D[:, None])",
    ),
    solution_of=(backward.softmax_gradient,),
    mistakes=(
        Mistake("D is forgotten", lambda P, dP, D: P * dP,
                "A constant dP must give no gradient: subtract D."),
        Mistake("D is added", lambda P, dP, D: P * (dP + D[:, None]), "dP - D."),
        Mistake("P multiplies dP only", lambda P, dP, D: P * dP - D[:, None],
                "P multiplies the difference: P * (dP - D)."),
        Mistake("P is forgotten", lambda P, dP, D: dP - D[:, None], "P * (dP - D)."),
        Mistake("D from this tile alone", lambda P, dP, D:
                P * (dP - (P * dP).sum(axis=1, keepdims=True)),
                "The row goes on outside this tile: use the D that is given."),
        Mistake("P (1 - P)", lambda P, dP, D: P * (1 - P) * dP,
                "That is only the diagonal of the softmax's Jacobian."),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- the whole backward


def _whole_backward(Q, K, V, O, L, dO, Br, Bc, causal):
    return backward.flash_attention_backward(Q, K, V, O, L, dO, Br, Bc, causal)


def _wrong_backward(name, fault, advice):
    return Mistake(name, partial(broken_backward, fault=fault), advice)


def _backward_case(rng, N_q, N_k, d, d_v, Br, Bc, causal, dtype=np.float64):
    Q, dO = rng.standard_normal((N_q, d)).astype(dtype), rng.standard_normal((N_q, d_v))
    K, V = rng.standard_normal((N_k, d)).astype(dtype), rng.standard_normal((N_k, d_v))
    V, dO = V.astype(dtype), dO.astype(dtype)
    O, L = forward.flash_attention_forward(Q, K, V, causal=causal, return_lse=True)
    return Q, K, V, O, L, dO, Br, Bc, causal


def _backward_cases(rng):
    yield _backward_case(rng, 1, 2, 1, 1, 2, 2, False)
    yield _backward_case(rng, 2, 2, 4, 3, 2, 2, False)
    yield _backward_case(rng, 4, 4, 4, 3, 2, 2, False)
    yield _backward_case(rng, 4, 4, 4, 3, 2, 2, True)
    yield _backward_case(rng, 5, 7, 3, 2, 2, 3, False)
    yield _backward_case(rng, 4, 7, 4, 3, 3, 2, True)
    yield _backward_case(rng, 7, 4, 4, 3, 2, 3, True)  # three rows see nothing
    yield _backward_case(rng, 9, 11, 8, 5, 16, 4, True)
    yield _backward_case(rng, 6, 6, 4, 4, 4, 4, True, np.float32)


def _backward_probe(run):
    rng, N, Br, Bc = np.random.default_rng(0), 256, 16, 16
    case = _backward_case(rng, N, N, 2, 2, Br, Bc, False)
    found = probes.holds_too_much(lambda: run(*case), N * N * 8)
    pieces = []
    if found is None:
        case = _backward_case(rng, 20, 30, 2, 2, 5, 7, False)
        run(case[0], probes.Watched(case[1], pieces), *case[2:])
        found = probes.tile_fault(pieces, 7)
    return found


def _rows_spoilt_by_nothing(Q, K, V, O, L, dO, Br, Bc, causal):
    """Their own rows of dQ; dK and dV sum over all rows."""
    return np.isneginf(L), np.ones(len(K), bool), np.ones(len(V), bool)


whole_backward = Exercise(
    name="whole_backward",
    notebook="05",
    answer="whole_backward",
    task="dQ, dK, dV, tile by tile, causal or not.",
    reference=_whole_backward,
    cases=_backward_cases,
    parts=("dQ", "dK", "dV"),
    hints=(
        """
        my_backward above and two things more: the causal mask, and rows that see nothing.
        D first, then column tiles outside, row tiles inside. The three results start at zero.
        """,
        """
        A tile: S (scaled, masked with -inf), P = exp(S - L), dV += P^T dO, dP = dO V^T,
        dS = P * (dP - D), dQ += scale * dS K, dK += scale * dS^T Q.
        Rows with L = -inf: put +inf there, so that their P is 0.
        """,
        """
        scale, D = Q.shape[1] ** -0.5, (dO * O).sum(axis=1)
        L = np.where(np.isneginf(L), np.inf, L)
        dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
        for cols in tile_slices(len(K), Bc):
            for rows in tile_slices(len(Q), Br):
                S = scale * Q[rows] @ K[cols].T
                if causal:
                    i, j = np.arange(len(Q))[rows, None], np.arange(len(K))[cols]
                    S = np.where(j <= i + len(K) - len(Q), S, -np.inf)
                P = np.exp(S - L[rows, None])
                dV[cols] += P.T @ dO[rows]
                dS = P * (dO[rows] @ V[cols].T - D[rows, None])
                dQ[rows] += scale * dS @ K[cols]
                dK[cols] += scale * dS.T @ Q[rows]
        return dQ, dK, dV
        """,
    ),
    solution_of=(backward.flash_attention_backward, backward.softmax_gradient, backward._prepare),
    mistakes=(
        _wrong_backward("D is forgotten", "no D", "dS = P * (dP - D), with D = rowsum(dO * O)."),
        _wrong_backward("the scale is forgotten in S", "no scale", "S = scale * Q K^T."),
        _wrong_backward("the scale is forgotten in dQ and dK", "no scale in dQ, dK",
                        "S = scale * Q K^T, so the scale comes down once more."),
        _wrong_backward("the scale is applied twice", "scale twice", "dQ = scale * dS K, once."),
        _wrong_backward("P is the softmax of the tile alone", "tile softmax",
                        "Recompute it with the row's own L: P = exp(S - L)."),
        _wrong_backward("base-2 exponential with a natural L", "base 2", "P = exp(S - L)."),
        _wrong_backward("causal is ignored", "no mask", "Hidden scores are -inf."),
        _wrong_backward("top-left alignment", "top-left", "Row i sees j <= i + N_k - N_q."),
        _wrong_backward("strict mask", "strict", "Row i sees j <= i + N_k - N_q, itself included."),
        _wrong_backward("rows that see nothing: -inf - (-inf)", "empty",
                        "Put +inf in the place of such an L: exp(-inf - inf) = 0."),
        _wrong_backward("the last tile overwrites the sums", "overwritten",
                        "dQ, dK and dV are sums over tiles: +=."),
        _wrong_backward("ragged tiles are dropped", "dropped", "The last tiles are shorter."),
    ),
    patterns=(
        Pattern("right only without a mask", lambda *args: args[8], "Look at causal tiles."),
        Pattern("right only when one tile holds everything",
                lambda *args: len(args[0]) > args[6] or len(args[1]) > args[7],
                "dQ, dK and dV are sums over tiles."),
        Pattern("right, except for rows that see nothing",
                lambda *args: bool(np.isneginf(args[4]).any()), "They give and take no gradient.",
                _rows_spoilt_by_nothing, sees_nothing=True),
        Pattern("right only when Br and Bc divide the lengths",
                lambda *args: (len(args[0]) % args[6], len(args[1]) % args[7]) != (0, 0),
                "The last tiles are shorter."),
    ),
    probe=_backward_probe,
)  # fmt: skip
