"""Claims about the forward passes: naive, Q-outer and K-outer, against an independent oracle."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from oracle import assert_close, oracle

import flashlib
from flashlib import (
    SoftmaxState,
    flash_attention_forward,
    flash_attention_forward_k_outer,
    merge,
    naive_attention,
    online_softmax,
    softmax,
    update,
)

TILED = [flash_attention_forward, flash_attention_forward_k_outer]
TOLERANCE = {np.float64: 1e-13, np.float32: 3e-5, np.float16: 3e-3}
LAYOUTS = {
    "plain": lambda x: x,
    "Fortran": np.asfortranarray,
    "negative strides": lambda x: x[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
    "every second": lambda x: np.repeat(x, 2, axis=-2)[..., ::2, :],
    "read-only": lambda x: np.require(x.copy(), requirements="W").view() if x.size == 0 else ro(x),
}


def ro(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@st.composite
def problems(draw):
    """Q, K, V, causal, scale, Br, Bc over small ragged, rectangular, batched shapes."""
    batch = draw(st.sampled_from([(), (1,), (2,), (2, 3), (0,)]))
    N_q, N_k = draw(st.integers(0, 21)), draw(st.integers(0, 21))
    d, d_v = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    values = st.floats(-4, 4, width=16)
    layout = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]
    Q, K, V = (
        layout(draw(hnp.arrays(dtype, (*batch, *shape), elements=values)))
        for shape in ((N_q, d), (N_k, d), (N_k, d_v))
    )
    scale = draw(st.sampled_from([None, 0, 0.0, 1, -0.5, 0.25, np.float32(0.7)]))
    Br, Bc = draw(st.sampled_from([1, 2, 3, 8, 64])), draw(st.sampled_from([1, 2, 5, 8, 64]))
    return Q, K, V, draw(st.booleans()), scale, Br, Bc


@pytest.mark.parametrize("forward", TILED)
@given(problem=problems())
@settings(max_examples=150)
def test_tiled_equals_oracle_for_any_shape_tile_mask_scale_dtype_and_layout(forward, problem):
    Q, K, V, causal, scale, Br, Bc = problem
    O_ref, L_ref = oracle(Q, K, V, causal, scale)
    O, L = forward(Q, K, V, Br, Bc, causal, scale=scale, return_lse=True)
    assert O.dtype == Q.dtype
    assert L.dtype == (np.float32 if Q.dtype == np.float16 else Q.dtype)
    assert_close(O, O_ref, TOLERANCE[Q.dtype.type])
    assert_close(L, L_ref, TOLERANCE[L.dtype.type])


@given(problem=problems())
@settings(max_examples=150)
def test_naive_equals_oracle(problem):
    Q, K, V, causal, scale, _, _ = problem
    O_ref, L_ref = oracle(Q, K, V, causal, scale)
    O, L = naive_attention(Q, K, V, causal, scale=scale, return_lse=True)
    assert O.dtype == Q.dtype
    assert_close(O, O_ref, TOLERANCE[Q.dtype.type])
    assert_close(L, L_ref, TOLERANCE[L.dtype.type])


@pytest.mark.parametrize("forward", TILED)
def test_hand_worked_example(forward):
    """One query, two keys: scores ln 3 and 0, so weights 3/4 and 1/4."""
    Q, K, V = np.array([[1.0]]), np.array([[np.log(3)], [0.0]]), np.array([[4.0, 0], [0, 8]])
    O, L = forward(Q, K, V, 1, 1, scale=1, return_lse=True)
    assert_close(O, np.array([[3.0, 2.0]]), 1e-15)
    assert_close(L, np.array([np.log(4)]), 1e-15)


@pytest.mark.parametrize(
    "forward", [*TILED, lambda Q, K, V, Br, Bc, **kw: naive_attention(Q, K, V)]
)
@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled"])
def test_geometric_weights_survive_every_tile_size_and_key_order(forward, order):
    keys = np.arange(10)
    keys = {"ascending": keys, "descending": keys[::-1]}.get(
        order, np.random.default_rng(0).permutation(10)
    )
    K, V = keys[:, None] * np.log(2), np.eye(10)[keys]
    for Br in (1, 2, 3, 64):
        for Bc in (1, 2, 3, 4, 7, 9, 10, 11, 64):
            O = forward(np.ones((1, 1)), K, V, Br, Bc)
            assert_close(O, 2.0 ** np.arange(10)[None] / 1023, 1e-14)


@pytest.mark.parametrize("forward", TILED)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("Br,Bc", [(1, 1), (3, 5), (8, 8), (7, 64), (99, 2), (64, 64)])
def test_tiled_equals_naive_bit_for_bit_where_the_arithmetic_is_exact(forward, causal, Br, Bc):
    rng = np.random.default_rng(3)
    V = rng.integers(-50, 50, (64, 3)).astype(np.float64)
    one_hot = np.eye(64)[rng.integers(0, np.arange(64) + 1)] * 3000  # weights and α are 0 or 1
    inputs = [(one_hot, np.eye(64), V)]
    if not causal:
        inputs.append((np.zeros((64, 2)), np.ones((64, 2)), V))  # every weight is 1/64
    for Q, K, V in inputs:
        expected = naive_attention(Q, K, V, causal, scale=1)
        assert np.array_equal(forward(Q, K, V, Br, Bc, causal, scale=1), expected)


@pytest.mark.parametrize("forward", TILED)
def test_same_inputs_same_bits(forward):
    Q, K, V = np.random.default_rng(0).standard_normal((3, 2, 70, 8)).astype(np.float32)
    first = forward(Q, K, V, 16, 24, True, return_lse=True)
    again = forward(Q, K, V, 16, 24, True, return_lse=True)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("forward", [naive_attention, *TILED])
def test_inputs_are_not_written_and_outputs_do_not_alias(forward):
    Q, K, V = np.random.default_rng(0).standard_normal((3, 6, 4))
    copies = Q.copy(), K.copy(), V.copy()
    O, L = forward(Q, K, V, return_lse=True)
    O_, L_ = forward(V, V, V, return_lse=True)
    O[:], L[:], O_[:], L_[:] = 7, 7, 7, 7
    assert all(np.array_equal(a, b) for a, b in zip((Q, K, V), copies, strict=True))


@pytest.mark.parametrize("forward", [naive_attention, *TILED])
def test_global_state_is_left_alone(forward):
    np.random.seed(5)
    state, err = np.random.get_state()[1].copy(), np.geterr()
    forward(np.ones((3, 2)), np.ones((3, 2)), np.ones((3, 2)), causal=True)
    assert np.array_equal(np.random.get_state()[1], state)
    assert np.geterr() == err


@pytest.mark.parametrize("forward", [naive_attention, *TILED])
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
def test_nothing_hidden_reaches_a_row_not_even_within_a_diagonal_tile(forward, junk):
    Q, K, V = np.random.default_rng(1).standard_normal((3, 12, 4))
    clean = forward(Q, K, V, causal=True)
    K[7:], V[7:] = junk, junk
    tiles = [()] if forward is naive_attention else [(4, 4), (12, 12), (5, 3)]
    for tile in tiles:
        kwargs = dict(zip(("Br", "Bc"), tile, strict=False))
        with np.errstate(invalid="ignore"):  # rows 7–11 do see the junk
            O = forward(Q, K, V, causal=True, **kwargs)
        assert_close(O[:7], clean[:7], 1e-13)
        assert np.isnan(O[7:]).all()


@pytest.mark.parametrize("forward", [naive_attention, *TILED])
def test_rows_that_see_no_key_give_zero_and_minus_infinity(forward):
    Q, K, V = np.ones((4, 3)), np.ones((2, 3)), np.arange(4.0).reshape(2, 2)
    O, L = forward(Q, K, V, causal=True, return_lse=True)
    assert np.array_equal(O[:2], np.zeros((2, 2)))
    assert np.array_equal(L[:2], [-np.inf, -np.inf])
    assert np.array_equal(O[2:], [[0, 1], [1, 2]])
    for N_q, N_k in [(0, 3), (3, 0), (0, 0)]:
        O, L = forward(np.ones((N_q, 2)), np.ones((N_k, 2)), np.ones((N_k, 5)), return_lse=True)
        assert np.array_equal(O, np.zeros((N_q, 5)))
        assert np.array_equal(L, np.full(N_q, -np.inf))


@pytest.mark.parametrize("forward", [naive_attention, *TILED])
def test_decoding_one_query_sees_every_key(forward):
    Q, K, V = (np.random.default_rng(0).standard_normal((n, 4)) for n in (1, 9, 9))
    assert_close(forward(Q, K, V, causal=True), oracle(Q, K, V)[0], 1e-14)


@pytest.mark.parametrize("forward", [naive_attention, *TILED])
def test_dtype_rules(forward):
    ones = np.zeros((2, 1), np.int64)
    assert np.array_equal(forward(ones, ones, np.array([[1], [2]])), [[1.5], [1.5]])
    assert forward(ones > 0, ones, ones).dtype == np.float64
    f16, f32, f64 = (np.zeros((2, 1), t) for t in (np.float16, np.float32, np.float64))
    assert forward(f16, f16, f16).dtype == np.float16
    assert forward(f16, f32, f16).dtype == np.float32
    assert forward(f32, f64, f16).dtype == np.float64
    assert forward(ones, f32, f32).dtype == np.result_type(ones, f32)
    big = np.full((300, 1), 300, np.float16)  # the sums overflow float16 if computed in it
    assert np.array_equal(forward(big, np.zeros_like(big), big), big)


@pytest.mark.parametrize("forward", TILED)
def test_scores_around_500_stay_finite_in_float32(forward):
    Q, K, V = np.random.default_rng(0).standard_normal((3, 40, 8)).astype(np.float32)
    Q, K = np.c_[Q, np.full((40, 1), 500, "f")], np.c_[K, np.ones((40, 1), "f")]
    with np.errstate(all="ignore"):
        assert np.isnan(flashlib.unsafe_softmax(Q @ K.T)).all()
    assert_close(forward(Q, K, V, 8, 8, scale=1), oracle(Q, K, V, scale=1)[0], 2e-4)


@pytest.mark.parametrize("forward", TILED)
def test_tiled_never_holds_anything_n_by_n(forward):
    N = 2048
    Q, K, V = np.random.default_rng(0).standard_normal((3, N, 16)).astype(np.float32)
    forward(Q, K, V, 64, 64)
    tracemalloc.start()
    forward(Q, K, V, 64, 64)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < N * N * 4 / 20


def test_observe_sees_every_computed_tile_and_ends_on_the_result():
    Q, K, V = np.random.default_rng(0).standard_normal((3, 10, 4))
    for forward in TILED:
        events = []
        O = forward(Q, K, V, 4, 3, True, observe=events.append)
        kinds = flashlib.tile_grid(10, 10, 4, 3, True)
        assert {(e.i, e.j): e.kind for e in events} == {
            (int(i), int(j)): kinds[i, j] for i, j in np.argwhere(kinds != "skipped")
        }
        last = {e.i: e for e in events}  # the last event of each row tile
        assert np.array_equal(np.concatenate([last[i].O for i in range(3)]), O)
        first = next(e for e in events if e.i == 1)
        assert np.array_equal(first.alpha, np.zeros(4))  # nothing was summed before
        assert all((e.alpha >= 0).all() and (e.alpha <= 1).all() for e in events)


@given(
    S=hnp.arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(2, 12)),
                 elements=st.one_of(st.floats(-700, 700), st.just(-np.inf))),
    cut=st.integers(1, 11),
)  # fmt: skip
@settings(max_examples=200)
def test_merge_of_any_split_is_the_state_of_the_whole(S, cut):
    cut = min(cut, S.shape[1] - 1)
    V = np.random.default_rng(0).standard_normal((S.shape[1], 3))
    unit = SoftmaxState.empty(S.shape[:1], 3)
    left = update(unit, S[:, :cut], V[:cut])
    right = update(unit, S[:, cut:], V[cut:])
    whole = update(unit, S, V).finish()
    for state in (merge(left, right), merge(right, left), update(left, S[:, cut:], V[cut:])):
        for got, expected in zip(state.finish(), whole, strict=True):
            assert_close(got, expected, 1e-12)
    for state in (merge(left, unit), merge(unit, left)):
        assert all(np.array_equal(a, b) for a, b in zip(state, left, strict=True))


def test_merge_is_associative():
    rng = np.random.default_rng(0)
    unit = SoftmaxState.empty((4,), 2)
    a, b, c = (
        update(unit, rng.standard_normal((4, 5)) * 9, rng.standard_normal((5, 2))) for _ in range(3)
    )
    left, right = merge(merge(a, b), c), merge(a, merge(b, c))
    for got, expected in zip(left, right, strict=True):
        assert_close(got, expected, 1e-14)


@pytest.mark.parametrize("Bc", [1, 3, 7, 50])
def test_online_softmax_equals_softmax(Bc):
    S = np.random.default_rng(0).standard_normal((2, 4, 20)) * 30
    S[0, 0] = -np.inf
    for scores in (S, S[1, 2], S[:, :, :0]):
        assert_close(online_softmax(scores, Bc), softmax(scores), 1e-14)
    assert np.array_equal(softmax(S)[0, 0], np.zeros(20))
    assert_close(softmax(np.array([0, np.log(3)])), np.array([0.25, 0.75]), 1e-15)
