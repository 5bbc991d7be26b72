"""Every checker knows right from wrong and names the mistakes that it claims to know.

The answers in `exercise_answers.py` share no code with the checkers.
"""

import contextlib
import importlib.util
import warnings

import numpy as np
import pytest
from exercise_answers import ANSWERS

import flashlib
from flashlib import exercises as ex
from flashlib import tiles
from flashlib.exercises.kernel_exercise import KernelUpdate
from flashlib.exercises.predictions import Prediction
from flashlib.exercises.sizes import on_chip_bytes

HAS_TRITON = all(importlib.util.find_spec(name) for name in ("torch", "triton"))
KERNELS = [e for e in ex.ALL.values() if isinstance(e, KernelUpdate)]
NUMBERS = [e for e in ex.ALL.values() if isinstance(e, Prediction)]
FUNCTIONS = [e for e in ex.ALL.values() if e not in KERNELS and e not in NUMBERS]
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="needs PyTorch and Triton")
RUNNABLE = FUNCTIONS + NUMBERS + (KERNELS if HAS_TRITON else [])


def by_name(exercise):
    return getattr(exercise, "name", None)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """The progress file is written here."""
    monkeypatch.chdir(tmp_path)


def right_answer(exercise):
    return exercise.reference() if exercise in NUMBERS else exercise.reference


def learner_names():
    """What the notebooks have imported or defined by the end."""
    names = {"np": np, "causal_visible": tiles.causal_visible, "on_chip_bytes": on_chip_bytes}
    return names | {name: getattr(flashlib, name) for name in flashlib.__all__}


def from_text(exercise, tmp_path):
    """The learner's answer, from a file, since Triton wants to read its source."""
    path = tmp_path / f"{exercise.name}.py"
    path.write_text(ANSWERS[exercise.name], encoding="utf-8")
    space = learner_names()
    if exercise in KERNELS:
        from flashlib.exercises import kernels

        space["tl"] = kernels.tl
    code = compile(ANSWERS[exercise.name], str(path), "exec")
    exec(code, space)
    return space[exercise.answer]


# ---------------------------------------------------------------- the catalogue


def test_there_are_about_twenty_exercises_one_to_four_a_notebook():
    assert len(ex.ALL) == 23
    assert all(getattr(ex, name) is exercise for name, exercise in ex.ALL.items())
    a_notebook = [e.notebook for e in ex.ALL.values()]
    assert set(a_notebook) == {f"{k:02}" for k in range(8)}
    assert a_notebook == sorted(a_notebook)
    assert a_notebook.count("00") == 1
    assert all(2 <= a_notebook.count(f"{k:02}") <= 4 for k in range(1, 8))
    assert len({e.answer for e in ex.ALL.values()}) == len(ex.ALL)


@pytest.mark.parametrize("exercise", ex.ALL.values(), ids=by_name)
def test_each_exercise_has_three_hints_each_call_the_next_and_the_last_is_the_answer(
    exercise, capsys, monkeypatch
):
    monkeypatch.setattr(exercise, "_hints_shown", 0)
    assert len(exercise.hints) == 3
    for _ in range(4):
        exercise.hint()
    shown = [line for line in capsys.readouterr().out.splitlines() if ": hint " in line]
    assert shown == [f"{exercise.name}: hint {k} of 3" for k in (1, 2, 3, 3)]


@pytest.mark.parametrize("exercise", RUNNABLE, ids=by_name)
def test_the_solution_is_source_code_and_texts_are_ascii(exercise, capsys):
    exercise.solution()
    assert "def " in capsys.readouterr().out
    texts = [exercise.task, *exercise.hints, *(m.name + m.advice for m in exercise.mistakes)]
    assert all(text.isascii() for text in texts)


# ---------------------------------------------------------------- right answers


@pytest.mark.parametrize("exercise", RUNNABLE, ids=by_name)
def test_the_reference_is_right(exercise):
    assert exercise.check(right_answer(exercise)).state == "right"


@pytest.mark.parametrize("exercise", RUNNABLE, ids=by_name)
def test_a_learners_own_answer_is_right(exercise, tmp_path):
    verdict = exercise.check(from_text(exercise, tmp_path))
    assert verdict.state == "right", str(verdict)


def converted(value, convert):
    if isinstance(value, tuple):
        return tuple(converted(x, convert) for x in value)
    is_float = isinstance(value, float) or getattr(value, "dtype", None) == np.float64
    return convert(value) if is_float else value


FORMS = {
    "float32": np.float32,
    "a list": lambda x: x.tolist() if isinstance(x, np.ndarray) else x,
    "Fortran order": lambda x: np.asfortranarray(x) if np.ndim(x) else x,
    "every second": lambda x: np.repeat(x, 2, axis=0)[::2] if np.ndim(x) else x,
}


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=by_name)
def test_a_right_answer_is_right_in_any_form(exercise):
    for name, form in FORMS.items():

        def answer(*args, name=name, form=form):
            args = [converted(x, np.float32) if name == "float32" else x for x in args]
            return converted(exercise.reference(*args), form)

        assert exercise.check(answer), name


@pytest.mark.parametrize("exercise", NUMBERS, ids=by_name)
def test_a_prediction_is_right_within_its_stated_tolerance(exercise, capsys):
    right, near = exercise.reference(), 0.9 * exercise.tolerance
    assert all(exercise.check(right * factor) for factor in (1 - near, 1 + near))
    assert (
        exercise.check(np.float64(right)) and f"{exercise.tolerance:.0%}" in capsys.readouterr()[0]
    )
    assert not exercise.check(right * (1 + 1.2 * exercise.tolerance))


# ---------------------------------------------------------------- wrong answers


MISTAKES = [(e, m) for e in FUNCTIONS + NUMBERS for m in e.mistakes]


def mistake_id(value):
    return getattr(value, "name", None)


@pytest.mark.parametrize("exercise, mistake", MISTAKES, ids=mistake_id)
def test_a_known_mistake_is_named(exercise, mistake):
    answer = mistake.answer() if exercise in NUMBERS else mistake.answer
    verdict = exercise.check(answer)
    assert (verdict.state, verdict.mistakes) == ("wrong", (mistake.name,))
    assert mistake.name in str(verdict) or exercise is ex.find_bug


FAULTS = [(e, *fault[:2]) for e in KERNELS for fault in e.faults]


@needs_triton
@pytest.mark.parametrize("exercise, name, fault", FAULTS, ids=mistake_id)
def test_a_known_mistake_in_a_kernel_is_named(exercise, name, fault):
    from flashlib.exercises import kernels

    verdict = exercise.check(kernels.broken(fault))
    assert (verdict.state, verdict.mistakes) == ("wrong", (name,))


PATTERNS = [(e, p) for e in FUNCTIONS for p in e.patterns]


@pytest.mark.parametrize("exercise, pattern", PATTERNS, ids=mistake_id)
def test_an_answer_that_fails_in_some_cases_only_is_told_in_which(exercise, pattern):
    def spoilt(x):
        if isinstance(x, (str, set)):
            return set() if isinstance(x, set) else "none"
        return x + 1 if isinstance(x, int) else np.where(np.isfinite(x), x * 3 + 7, 5)

    def answer(*args):
        value = exercise.reference(*args)
        if not pattern.where(*args):
            return value
        if pattern.rows is None:
            return tuple(map(spoilt, value)) if isinstance(value, tuple) else spoilt(value)
        parts = value if isinstance(value, tuple) else (value,)
        masks = pattern.rows(*args)
        masks = masks if isinstance(masks, tuple) else (masks,) * len(parts)
        for part, mask in zip(parts, masks, strict=True):
            part[mask] = spoilt(part[mask])
        return parts if isinstance(value, tuple) else parts[0]

    assert exercise.check(answer).mistakes == (pattern.name,)


# ---------------------------------------------------------------- first tries


def unguarded_softmax(m_axis=-1, l_axis=-1, m_column=True, l_column=True):
    def stable_softmax(S):
        P = np.exp(S - S.max(axis=m_axis, keepdims=m_column))
        return P / P.sum(axis=l_axis, keepdims=l_column)

    return stable_softmax


FIRST_TRIES = {
    "keepdims is missing in the sum": unguarded_softmax(l_column=False),
    "keepdims is missing in the maximum": unguarded_softmax(m_column=False),
    "keepdims is missing in the maximum and the sum": unguarded_softmax(-1, -1, False, False),
    "one maximum for the whole array": unguarded_softmax(m_axis=None),
    "the whole array shares one sum": unguarded_softmax(l_axis=None),
    "one maximum and one sum for the whole array": unguarded_softmax(None, None),
    "the wrong axis": unguarded_softmax(0, 0),
    "axis=1 instead of the last axis": unguarded_softmax(1, 1),
}


@pytest.mark.parametrize("name, answer", FIRST_TRIES.items(), ids=FIRST_TRIES)
def test_a_first_softmax_without_a_guard_has_its_mistake_named(name, answer):
    assert ex.stable_softmax.check(answer).mistakes == (name,)


def test_without_keepdims_the_later_error_is_shown_and_no_pattern_claimed():
    def stable_softmax(S):
        S = S - S.max(axis=-1, keepdims=True)
        return np.exp(S) / np.exp(S).sum(axis=-1)

    text = str(ex.stable_softmax.check(stable_softmax))
    assert "A later case:" in text and "ValueError" in text and "shape (3, 5)" in text
    assert "keepdims is missing in the sum" in text and "second point" in text
    assert "right, except" not in text


def test_a_pattern_of_rows_is_not_claimed_when_other_rows_are_wrong_or_a_case_is_missing():
    def other_rows_too(S):
        P = ex.stable_softmax.reference(S)
        return P + np.isneginf(S).all(axis=-1).any()

    def square_only(S):
        P = ex.stable_softmax.reference(S)
        P[np.isneginf(S).all(axis=-1)] = 7
        return P if S.ndim == 2 else 1 / 0

    for answer in (other_rows_too, square_only):
        verdict = ex.stable_softmax.check(answer)
        assert verdict.state == "wrong" and verdict.mistakes == ()
    assert "ZeroDivisionError" in str(verdict)


def unguarded_update(l_scaled, o_scaled):
    def my_update(m, l, o, S, V):
        m_new = np.maximum(m, S.max(axis=1))
        alpha, P = np.exp(m - m_new), np.exp(S - m_new[:, None])
        l_new = (alpha if l_scaled else 1) * l + P.sum(axis=1)
        return m_new, l_new, (alpha[:, None] if o_scaled else 1) * o + P @ V

    return my_update


def test_a_first_update_without_a_guard_has_its_mistakes_named():
    no_l, no_o = "l is not rescaled", "o is not rescaled"
    cases = {(False, False): (no_l, no_o), (True, False): (no_o,), (False, True): (no_l,)}
    for scaled, names in cases.items():
        verdict = ex.update.check(unguarded_update(*scaled))
        assert verdict.mistakes == names and str(verdict).count("second point") == 1
    verdict = ex.update.check(unguarded_update(True, True))
    assert verdict.mistakes == ("-inf - (-inf) where nothing has been seen",)
    assert "second point" not in str(verdict)


# ---------------------------------------------------------------- small print


@pytest.mark.parametrize("exercise", RUNNABLE, ids=by_name)
def test_a_solution_defines_no_private_name(exercise):
    assert "\ndef _" not in "\n" + exercise.solution_text()
    assert ex.default_scale.solution_text().startswith("def default_scale(d):")


def test_a_string_has_no_dtype_and_a_number_of_bytes_is_named():
    text = str(ex.find_bug.check(lambda update: "yes"))
    assert "It returned a string, expected True or False." in text and "dtype" not in text
    assert ex.S_gigabytes.check(17179869184).mistakes == ("bytes",)


def wrong_functions(exercise):
    """Wrong whatever the exercise is; and its known mistakes."""

    def changed(change):
        def answer(*args):
            value = exercise.reference(*args)
            return tuple(map(change, value)) if isinstance(value, tuple) else change(value)

        return answer

    yield changed(lambda x: x * 0 if isinstance(x, (int, float, np.ndarray)) else "")
    yield changed(lambda x: not x if isinstance(x, (bool, set)) else x + x)
    yield changed(lambda x: np.nan)
    yield lambda *args: args[0]
    yield from (mistake.answer for mistake in exercise.mistakes)


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=by_name)
def test_at_least_five_wrong_functions_are_refused(exercise):
    states = [exercise.check(answer).state for answer in wrong_functions(exercise)]
    assert len(states) >= 5 and set(states) == {"wrong"}


@pytest.mark.parametrize("exercise", NUMBERS, ids=by_name)
def test_at_least_five_wrong_values_are_refused(exercise):
    wrong = [0, -1.0, np.nan, np.inf, 10**400, "17", "", [17.2], True, 2j, np.ones(2), print, {}]
    wrong += [exercise.reference() * 1.5, exercise.reference() / 1.5]
    assert {exercise.check(value).state for value in wrong} == {"wrong"}


def test_two_mistakes_in_different_results_are_both_named():
    no_l, no_o = (mistake.answer for mistake in ex.update.mistakes[:2])

    def answer(*args):
        return *no_l(*args)[:2], no_o(*args)[2]

    assert ex.update.check(answer).mistakes == ("l is not rescaled", "o is not rescaled")


# ---------------------------------------------------------------- what values can't tell


def test_a_naive_solution_is_refused_where_a_tiled_one_is_asked():
    def row(Q_i, K, V, Bc):
        return flashlib.naive_attention(Q_i, K, V, return_lse=True)

    def causal(Q_i, K, V, row_start, N_q, Bc):
        visible = tiles.causal_visible(
            slice(row_start, row_start + len(Q_i)), slice(0, len(K)), N_q, len(K)
        )
        S = np.where(visible, Q_i @ np.nan_to_num(K).T / np.sqrt(Q_i.shape[1]), -np.inf)
        O = flashlib.softmax(S) @ np.nan_to_num(V)
        return O, np.logaddexp.reduce(S, axis=1, initial=-np.inf)

    def backward(Q, K, V, O, L, dO, Br, Bc, causal):
        return flashlib.flash_attention_backward(Q, K, V, O, L, dO, 10**6, 10**6, causal)

    pairs = (ex.row_tile, row), (ex.causal_row_tile, causal), (ex.whole_backward, backward)
    for exercise, answer in pairs:
        (name,) = exercise.check(answer).mistakes
        assert name.startswith("a naive solution")


def test_tiles_of_another_size_than_asked_are_noticed():
    def fixed(tile):
        def answer(Q_i, K, V, Bc):
            state = flashlib.SoftmaxState.empty((len(Q_i),), V.shape[1])
            for cols in flashlib.tile_slices(len(K), tile):
                S = Q_i @ K[cols].T / np.sqrt(Q_i.shape[1])
                state = flashlib.update(state, S, V[cols])
            return state.finish()

        return answer

    for tile in (1, 2, 16):
        assert ex.row_tile.check(fixed(tile)).mistakes == ("the tile size is ignored",)


def test_skipped_tiles_must_not_be_touched():
    def answer(Q_i, K, V, row_start, N_q, Bc):
        rows = slice(row_start, row_start + len(Q_i))
        state = flashlib.SoftmaxState.empty((len(Q_i),), V.shape[1])
        for cols in flashlib.tile_slices(len(K), Bc):
            visible = tiles.causal_visible(rows, cols, N_q, len(K))
            S = np.where(visible, Q_i @ K[cols].T / np.sqrt(Q_i.shape[1]), -np.inf)
            state = flashlib.update(state, S, V[cols])
        return state.finish()

    assert ex.causal_row_tile.check(answer).mistakes == ("skipped tiles are computed",)


@needs_triton
def test_a_jitted_kernel_is_as_good_as_a_plain_function_and_dots_are_not_attempted(
    tmp_path, monkeypatch
):
    from flashlib.exercises import kernels

    exercise = ex.kernel_update
    answer = from_text(exercise, tmp_path)
    assert exercise.check(kernels.triton.jit(answer))
    head = "".join(line + "\n" for line in ANSWERS[exercise.name].splitlines()[:2])
    monkeypatch.setitem(ANSWERS, exercise.name, head + '    """Doc."""\n    ...\n')
    assert exercise.check(from_text(exercise, tmp_path)).state == "not attempted"


def test_possible_backends_agree_with_pytorch_on_this_machine():
    torch = pytest.importorskip("torch")
    attention = pytest.importorskip("torch.nn.attention")
    devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    for dtype, d, mask, device in ex.possible_backends.cases(None):
        if device not in devices:
            continue
        x = torch.zeros(1, 1, 16, d, dtype=getattr(torch, dtype), device=device)
        options = {None: {}, "causal": {"is_causal": True}}.get(mask)
        if options is None:
            options = {"attn_mask": torch.ones(16, 16, dtype=torch.bool, device=device)}
        found = set()
        for name in ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
            with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
                warnings.simplefilter("ignore")  # the reasons for a refusal
                with attention.sdpa_kernel(getattr(attention.SDPBackend, name)):
                    torch.nn.functional.scaled_dot_product_attention(x, x, x, **options)
                    found.add(name)
        assert found == ex.possible_backends.reference(dtype, d, mask, device)
