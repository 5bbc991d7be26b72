"""Claims about the recompute backward: finite differences, torch, and rows that see nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_close, oracle

from flashlib import flash_attention_backward, flash_attention_forward, naive_attention, tile_grid


def gradients(Q, K, V, dO, Br, Bc, causal=False, scale=None):
    O, L = flash_attention_forward(Q, K, V, Br, Bc, causal, scale=scale, return_lse=True)
    return flash_attention_backward(Q, K, V, O, L, dO, Br, Bc, causal, scale=scale)


@st.composite
def problems(draw):
    batch = draw(st.sampled_from([(), (2,), (2, 2)]))
    N_q, N_k = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    d, d_v = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shapes = [(N_q, d), (N_k, d), (N_k, d_v), (N_q, d_v)]
    arrays = [rng.standard_normal((*batch, *shape)) for shape in shapes]
    tiles = [draw(st.sampled_from([1, 2, 5, 32])) for _ in range(2)]
    scale = draw(st.sampled_from([None, 0.0, -0.7, 1.0]))
    return (*arrays, *tiles, draw(st.booleans()), scale)


@given(problem=problems())
@settings(max_examples=60)
def test_gradients_equal_finite_differences_of_the_oracle(problem):
    Q, K, V, dO, Br, Bc, causal, scale = problem
    rng = np.random.default_rng(0)
    analytic = gradients(Q, K, V, dO, Br, Bc, causal, scale)
    for which, gradient in enumerate(analytic):
        step = rng.standard_normal(gradient.shape)
        step *= 1e-5 / np.linalg.norm(step)
        loss = []
        for sign in (1, -1):
            moved = [Q, K, V]
            moved[which] = moved[which] + sign * step
            loss.append((oracle(*moved, causal, scale)[0] * dO).sum())
        numeric = (loss[0] - loss[1]) / 2e-5
        exact = (gradient * step).sum() / 1e-5
        assert abs(numeric - exact) <= 1e-7 * (1 + abs(exact) + np.abs(dO).sum())


@given(problem=problems())
@settings(max_examples=60)
def test_gradients_equal_torch_autograd(problem):
    torch = pytest.importorskip("torch")
    Q, K, V, dO, Br, Bc, causal, scale = problem
    q, k, v = (torch.tensor(x, requires_grad=True) for x in (Q, K, V))
    S = q @ k.transpose(-1, -2) * (Q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        N_q, N_k = S.shape[-2:]
        visible = torch.ones(N_q, N_k, dtype=torch.bool).tril(N_k - N_q)
        S = S.masked_fill(~visible, -torch.inf)
        P = torch.where(visible.any(-1, keepdim=True), S, 0).softmax(-1) * visible
    else:
        P = S.softmax(-1)
    (P @ v).backward(torch.tensor(dO))
    got = gradients(Q, K, V, dO, Br, Bc, causal, scale)
    for mine, reference in zip(got, (q, k, v), strict=True):
        assert_close(mine, reference.grad.numpy(), 1e-12)


@pytest.mark.parametrize("dtype,tolerance", [(np.float32, 2e-5), (np.float16, 1e-2)])
def test_lower_precision_keeps_dtype_and_accuracy(dtype, tolerance):
    arrays = np.random.default_rng(0).standard_normal((4, 2, 33, 8)).astype(dtype)
    exact = gradients(*(x.astype(np.float64) for x in arrays), 8, 16, True)
    for got, expected in zip(gradients(*arrays, 8, 16, True), exact, strict=True):
        assert got.dtype == dtype
        assert_close(got, expected, tolerance)


def test_rows_that_see_nothing_take_and_give_no_gradient():
    rng = np.random.default_rng(0)
    Q, K, V, dO = (rng.standard_normal((n, 3)) for n in (4, 2, 2, 4))
    clean = gradients(Q, K, V, dO, 2, 2, causal=True)
    dO[:2] = np.nan  # a loss that ignores these rows may leave anything there
    dQ, dK, dV = gradients(Q, K, V, dO, 2, 2, causal=True)
    assert np.array_equal(dQ[:2], np.zeros((2, 3)))
    assert np.isfinite(dQ).all() and np.isfinite(dK).all() and np.isfinite(dV).all()
    assert np.array_equal(dK, clean[1]) and np.array_equal(dV, clean[2])


def test_hidden_nan_reaches_no_gradient_of_rows_that_do_not_see_it():
    Q, K, V, dO = np.random.default_rng(0).standard_normal((4, 8, 3))
    clean = gradients(Q, K, V, dO, 4, 4, causal=True)[0]
    K[6:], V[6:] = np.nan, np.nan
    for tiles in [(4, 4), (8, 8), (3, 5)]:
        with np.errstate(invalid="ignore"):
            dQ = gradients(Q, K, V, dO, *tiles, causal=True)[0]
        assert_close(dQ[:6], clean[:6], 1e-13)


def test_tile_sizes_of_forward_and_backward_are_free():
    Q, K, V, dO = np.random.default_rng(0).standard_normal((4, 20, 4))
    O, L = naive_attention(Q, K, V, True, return_lse=True)
    expected = flash_attention_backward(Q, K, V, O, L, dO, 20, 20, True)
    for Br, Bc in [(1, 7), (6, 6), (64, 1)]:
        for got, reference in zip(
            flash_attention_backward(Q, K, V, O, L, dO, Br, Bc, True), expected, strict=True
        ):
            assert_close(got, reference, 1e-13)


def test_observe_sees_every_computed_tile_and_ends_on_the_result():
    Q, K, V, dO = np.random.default_rng(0).standard_normal((4, 10, 3))
    O, L = naive_attention(Q, K, V, True, return_lse=True)
    events = []
    dQ, dK, dV = flash_attention_backward(Q, K, V, O, L, dO, 4, 3, True, observe=events.append)
    kinds = tile_grid(10, 10, 4, 3, True)
    assert [(e.j, e.i) for e in events] == [
        tuple(map(int, t)) for t in np.argwhere(kinds.T != "skipped")
    ]
    last_row, last_column = {e.i: e for e in events}, {e.j: e for e in events}
    assert np.array_equal(np.concatenate([last_row[i].dQ for i in sorted(last_row)]), dQ)
    assert np.array_equal(np.concatenate([last_column[j].dK for j in sorted(last_column)]), dK)
    assert np.array_equal(np.concatenate([last_column[j].dV for j in sorted(last_column)]), dV)
