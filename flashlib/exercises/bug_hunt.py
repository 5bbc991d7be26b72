"""Exercise of notebook 02: write the test that finds three broken updates."""

from functools import partial

import numpy as np

from flashlib import online
from flashlib.exercises import words
from flashlib.exercises.core import Exercise
from flashlib.exercises.mistakes import broken_update
from flashlib.exercises.naming import Mistake
from flashlib.exercises.online import update as update_exercise

_update = update_exercise.reference


def _right_in_another_order(m, l, o, S, V):
    """Right, and rounds otherwise: key by key, the last one first."""
    for k in reversed(range(S.shape[1])):
        m, l, o = _update(m, l, o, S[:, k : k + 1], V[k : k + 1])
    return m, l, o


UPDATES = {
    "the right update": _update,
    "a right update that sums in another order": _right_in_another_order,
    "l = l + P.sum(axis=1)": partial(broken_update, fault="l"),
    "o = o + P @ V": partial(broken_update, fault="o"),
    "m_new = S.max(axis=1)": partial(broken_update, fault="tile maximum"),
}


def _is_right_update(update):
    empty = online.SoftmaxState.empty((1,), 1)
    S, V = np.array([[0.0, 1.0, -1000.0]]), np.array([[1.0], [2.0], [3.0]])
    m, l, o = empty
    for k in range(3):  # one key at a time: the maximum rises, then the scores drop
        m, l, o = update(m, l, o, S[:, k : k + 1], V[k : k + 1])
    expected = (1 + 2 * np.e) / (1 + np.e)  # the key at -1000 weighs nothing
    return bool(np.abs(o / l[:, None] - expected).max() < 1e-9)  # False for NaN


class FindBug(Exercise):
    """The answer is a test; it is tried on updates whose faults are known."""

    def function_of(self, answer):
        """A function of an update's description: what the learner's test says of that update."""
        test = super().function_of(answer)

        def says(description):
            def update(m, l, o, S, V):
                with np.errstate(all="ignore"):
                    return UPDATES[description](m, l, o, S, V)

            update.line = description
            try:
                return test(update)
            except AssertionError:
                return False

        return says

    def arguments(self):
        """One: the update that the test was tried on."""
        return ["update"]

    def _explain(self, trial, trials, known):
        (description,) = trial.args
        if trial.expected[0]:
            text = f"Your test refuses {description}, which is right."
            tip = "Rounding depends on the order of the sums: allow 1e-9 or so."
            return [text, tip] if "order" in description else [text]
        missed = [t.args[0] for t in trials if t.failed and t.got[0]]
        seen = "Your test accepts a broken update. This line went unnoticed:"
        if len(missed) > 1:
            seen = "Your test accepts broken updates. These lines went unnoticed:"
        names = [line for m in known for line in words.mistake_lines(m)]
        return [seen, *("  " + line for line in missed), *names]


def _says(*accepted):
    """A mistaken test: it accepts the updates with these numbers."""
    names = list(UPDATES)

    def test(update):
        return names.index(update.line) in accepted

    return test


find_bug = FindBug(
    name="find_bug",
    notebook="02",
    answer="is_right_update",
    task="Write a test that accepts right updates and refuses three broken ones.",
    reference=_is_right_update,
    cases=lambda rng: [(description,) for description in UPDATES],
    hints=(
        """
        With one tile all three pass: the old state is empty, so nothing is there to be spoilt.
        Use two tiles or more, and compare o / l with a softmax over all the scores.
        """,
        """
        The first two show when the maximum RISES from one tile to the next.
        The third is the same number in exact arithmetic. When the scores DROP by 1000,
        alpha = exp(1000) overflows. Compare so that NaN is refused: return error < 1e-9.
        """,
        """
        m, l, o = np.full(1, -np.inf), np.zeros(1), np.zeros((1, 1))
        S, V = np.array([[0.0, 1.0, -1000.0]]), np.array([[1.0], [2.0], [3.0]])
        for k in range(3):
            m, l, o = update(m, l, o, S[:, k : k + 1], V[k : k + 1])
        return bool(np.abs(o / l[:, None] - softmax(S) @ V).max() < 1e-9)
        """,
    ),
    mistakes=(
        Mistake("everything passes", _says(0, 1, 2, 3, 4), "Is there a second tile?"),
        Mistake(
            "the scores never rise",
            _says(0, 1, 2, 3),
            "Rescaling only matters when a later tile raises the maximum.",
        ),
        Mistake(
            "the scores never drop far",
            _says(0, 1, 4),
            "m_new = S.max(axis=1) is the same in exact arithmetic. When does it overflow?",
        ),
        Mistake(
            "only l is looked at", _says(0, 1, 3), "o has its own rescaling: compare O = o / l."
        ),
        Mistake(
            "only o is looked at", _says(0, 1, 2), "l has its own rescaling: compare O = o / l."
        ),
        Mistake("nothing passes", _says(), "Try your test on the library's update first."),
    ),
)
