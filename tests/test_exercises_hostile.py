"""Answers that mean harm, or are just unlucky: always a clear verdict, never an escape."""

import builtins
import random
import signal
import sys
import threading
import time
import unittest.mock

import numpy as np
import pytest
from test_exercises import FUNCTIONS, KERNELS, NUMBERS, by_name, from_text, needs_triton

from flashlib import exercises as ex
from flashlib.exercises import sandbox


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def wait_for(condition):
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def each(change):
    """The right answer, with every part changed."""

    def make(exercise):
        def answer(*args):
            value = exercise.reference(*args)
            return tuple(map(change, value)) if isinstance(value, tuple) else change(value)

        return answer

    return make


def instead(do):
    """Do something, then return the right answer."""

    def make(exercise):
        def answer(*args):
            result = do(*args)
            return exercise.reference(*args) if result is None else result

        return answer

    return make


def one_nan(x):
    x = np.array(x, float) if not isinstance(x, str) else np.array(np.nan)
    x[(0,) * x.ndim] = np.nan
    return x


def overwrite(*args):
    for x in args:
        if isinstance(x, np.ndarray):
            x[...] = x * 2 + 1


def forever(*args):
    while True:
        pass


def recursion(*args):
    return recursion(*args)


def exits(*args):
    sys.exit(3)


def interrupts(*args):
    raise KeyboardInterrupt


def raises(*args):
    raise ValueError("no\nsuch thing " + "x" * 1000)


def not_implemented(*args):
    raise NotImplementedError


def odd_error(*args):
    class OddError(Exception):
        def __str__(self):
            raise RuntimeError

    raise OddError


def prints(*args):
    for _ in range(10_000):
        print("spam " * 20)
    print("more", file=sys.stderr)


def closes_stdout(*args):
    sys.stdout.close()


def unsettles(*args):
    np.random.seed(1)
    random.seed(1)
    np.seterr(under="warn")


def generator(*args):
    yield 1


class Trap:
    """Fails at whatever it is asked."""

    def __array__(self, *args, **kwargs):
        raise SystemExit

    def __len__(self):
        raise KeyboardInterrupt


# name -> (how to make it, the states that are allowed)
HOSTILE = {
    "None": (lambda e: lambda *args: None, {"not attempted"}),
    "Ellipsis": (lambda e: lambda *args: ..., {"not attempted"}),
    "no return": (lambda e: lambda *args: np.zeros(3).fill(0), {"wrong"}),
    "not implemented": (instead(not_implemented), {"not attempted"}),
    "flat": (each(lambda x: np.ravel(x)), {"wrong"}),
    "a NaN": (each(one_nan), {"wrong"}),
    "a column": (each(lambda x: np.asarray(x)[..., None]), {"wrong"}),
    "x 1.001": (each(lambda x: x * 1.001), {"wrong"}),
    "integers": (each(lambda x: np.nan_to_num(np.floor(x), neginf=-9).astype(int)), {"wrong"}),
    "complex": (each(lambda x: np.asarray(x, complex)), {"wrong"}),
    "objects": (each(lambda x: np.asarray(x, object)), {"wrong"}),
    "text": (each(lambda x: str(x) + " "), {"wrong"}),
    "half": (each(lambda x: np.asarray(x, np.float16)), {"wrong"}),
    "too many": (lambda e: lambda *args: (1,) * 7, {"wrong"}),
    "a dict": (instead(lambda *args: {}), {"wrong"}),
    "a generator": (lambda e: generator, {"wrong"}),
    "a trap": (instead(lambda *args: Trap()), {"wrong"}),
    "a mock": (lambda e: unittest.mock.MagicMock(), {"wrong"}),
    "no arguments": (lambda e: lambda: 1, {"wrong"}),
    "overwrites": (instead(overwrite), {"wrong"}),
    "raises": (instead(raises), {"wrong"}),
    "odd error": (instead(odd_error), {"wrong"}),
    "exits": (instead(exits), {"wrong"}),
    "interrupts": (instead(interrupts), {"wrong"}),
    "recursion": (instead(recursion), {"wrong"}),
    "prints": (instead(prints), {"right"}),
    "closes stdout": (instead(closes_stdout), {"right"}),
    "unsettles": (instead(unsettles), {"right"}),
}  # fmt: skip
WHOLE = {"q_outer_bytes", "largest_tile", "computed_tiles", "tile_start"}  # integers are right
NO_ARRAYS = WHOLE | {"default_scale", "find_bug", "kind_of_tile", "waves", "possible_backends"}


def allowed(exercise, name, states):
    if name == "integers" and exercise.name in WHOLE:
        return {"right"}
    if name == "overwrites" and exercise.name in NO_ARRAYS:
        return {"right"}
    return states


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=by_name)
def test_a_hostile_answer_gets_a_verdict_and_the_right_one_passes_after_it(exercise, capsys):
    before = np.random.get_state()[1].copy(), random.getstate(), np.geterr()
    for name, (make, states) in HOSTILE.items():
        verdict = exercise.check(make(exercise))
        assert verdict.state in allowed(exercise, name, states), f"{name}: {verdict}"
        assert verdict.state != "wrong" or verdict.lines, name
        assert exercise.check(exercise.reference), name
    assert "spam" not in capsys.readouterr().out
    assert np.array_equal(before[0], np.random.get_state()[1])
    assert before[1:] == (random.getstate(), np.geterr())


@pytest.mark.parametrize("exercise", FUNCTIONS, ids=by_name)
def test_an_endless_loop_is_stopped_and_its_line_shown(exercise, monkeypatch):
    threads = threading.active_count()
    with monkeypatch.context() as short:
        short.setattr(exercise, "seconds", 0.1)
        verdict = exercise.check(forever)
    assert verdict.state == "wrong" and "No result after 0.1 s" in str(verdict)
    assert "while True:" in str(verdict) or "pass" in str(verdict)
    assert wait_for(lambda: threading.active_count() <= threads)
    assert exercise.check(exercise.reference)


def test_a_loop_that_catches_everything_is_left_behind_and_the_learner_told(monkeypatch):
    released = threading.Event()

    def stubborn(*args):
        while not released.is_set():
            try:
                while not released.is_set():
                    pass
            except BaseException:
                pass

    monkeypatch.setattr(sandbox, "GRACE_S", 0.1)
    monkeypatch.setattr(ex.update, "seconds", 0.1)
    verdict = ex.update.check(stubborn)
    released.set()
    assert verdict.state == "wrong"
    assert "restart the kernel" in str(verdict) or "while not" in str(verdict)  # it may give in


def test_a_function_that_sleeps_in_c_code_is_left_behind(monkeypatch):
    monkeypatch.setattr(sandbox, "GRACE_S", 0.1)
    monkeypatch.setattr(ex.update, "seconds", 0.1)
    start = time.monotonic()
    assert "No result" in str(ex.update.check(lambda *args: time.sleep(1.5)))
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("exercise", FUNCTIONS + NUMBERS, ids=by_name)
def test_what_is_no_answer_at_all_is_refused(exercise):
    for value in ("a", [], {}, np.ones(3), Trap(), object(), -1):
        assert exercise.check(value).state == "wrong"
    assert exercise.check(...).state == exercise.check(None).state == "not attempted"


@pytest.mark.parametrize("exercise", NUMBERS, ids=by_name)
def test_the_right_number_passes_after_a_hostile_one(exercise):
    class Number(float):
        def __float__(self):
            raise SystemExit

    for value in (lambda: 1, Trap(), unittest.mock.MagicMock(), "x" * 10**6, range(10)):
        assert exercise.check(value).state == "wrong"
        assert exercise.check(exercise.reference())


HOSTILE_KERNELS = {
    "loops": "    while True:\n        pass",
    "raises": "    x = tl.arange(0, 4) + undefined",
    "exits": "    raise SystemExit",
    "interrupts": "    raise KeyboardInterrupt",
    "no return": "    x = 1 + q",
    "too few": "    return m, l",
    "a column": "    return m, l[:, None], o",
    "blank": '    """Doc."""\n    ...',
}


@needs_triton
@pytest.mark.parametrize("exercise", KERNELS, ids=by_name)
def test_a_hostile_kernel_gets_a_verdict(exercise, tmp_path, monkeypatch):
    from exercise_answers import ANSWERS

    assert exercise.check(exercise.reference)  # Triton is imported now
    head = ANSWERS[exercise.name].partition("):\n")[0] + "):\n"
    monkeypatch.setattr(exercise, "seconds", 2)
    for name, body in HOSTILE_KERNELS.items():
        monkeypatch.setitem(ANSWERS, exercise.name, head + body + "\n")
        verdict = exercise.check(from_text(exercise, tmp_path))
        assert verdict.state == ("not attempted" if name == "blank" else "wrong"), name
        assert name != "raises" or "undefined" in verdict.lines[1]
    for value in (lambda *args: None, 3, "x", Trap(), unittest.mock.MagicMock(), print):
        assert exercise.check(value).state in ("wrong", "not attempted")
    monkeypatch.setattr(exercise, "seconds", 60)
    assert exercise.check(exercise.reference)


# ---------------------------------------------------------------- messages


def test_an_error_is_shown_with_the_learners_own_line():
    def my_update(m, l, o, S, V):
        m_new = np.maximum(m, S.max(axis=1))
        return m_new, l, o + undefined  # noqa: F821

    text = str(ex.update.check(my_update))
    assert "NameError" in text and "return m_new, l, o + undefined" in text


def test_a_number_a_row_that_meets_a_matrix_gets_a_tip():
    def answer(m, l, o, S, V):
        m_new, l_new, _ = ex.update.reference(m, l, o, S, V)
        return m_new, l_new, np.exp(m - m_new) * np.ones((len(m), 7)) + o

    assert "x[:, None]" in str(ex.update.check(answer))


def test_a_return_that_was_forgotten_is_wrong_not_blank():
    def my_update(m, l, o, S, V):
        m = np.maximum(m, S.max(axis=1))

    assert ex.update.check(my_update).mistakes == ("the return is missing",)


def test_what_was_printed_is_shown_apart_when_the_answer_is_wrong():
    def my_D(O, dO):
        print("look: here")
        return (O + dO).sum(axis=-1)

    text = str(ex.row_D.check(my_D))
    assert "It printed:" in text and "look: here" in text


def test_the_smallest_failing_input_is_shown_with_got_and_expected():
    text = str(ex.default_scale.check(lambda d: d / 64 if d == 64 else 1 / d**0.5))
    assert "Input:    d = 64" in text and "Got:      1.0" in text and "Expected: 0.125" in text


def test_a_prediction_that_is_wrong_does_not_give_the_answer_away():
    text = str(ex.S_gigabytes.check(25))
    assert "Too large" in text and "17" not in text


def test_a_learners_own_interrupt_stops_the_check():
    threads = threading.active_count()
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ex.update.check(forever)
    timer.join()
    assert wait_for(lambda: threading.active_count() <= threads)
    assert ex.update.check(ex.update.reference)


def test_a_terminal_that_knows_only_ascii_gets_the_message(monkeypatch):
    import io

    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    ex.kind_of_tile.check(lambda *args: "völlig")
    assert b"v\\xf6llig" in raw.getvalue()
    assert builtins.print is print
