"""Which known mistake is it?

A known mistake is a function that makes it. If a wrong answer agrees with that function wherever
both were tried, the mistake has a name. Nothing is guessed from the source of an answer.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flashlib.exercises import compare


@dataclass(frozen=True)
class Mistake:
    """A mistake with a name: `answer` makes it, `advice` says what to do about it."""

    name: str
    answer: object
    advice: str = ""


@dataclass(frozen=True)
class Pattern:
    """`advice` fits when an answer fails in exactly the cases where `where(*args)` is true."""

    name: str
    where: Callable
    advice: str = ""


@dataclass
class Trial:
    """One case tried: its arguments, what was expected, what came, and where the two differ."""

    args: tuple
    expected: list
    got: list
    wrong: list  # a boolean array (or one bool) a part
    notes: tuple  # what was printed or warned of

    @property
    def failed(self):
        """Whether anything differs."""
        return any(np.any(w) for w in self.wrong)


def explanations(exercise, trials):
    """The known mistakes that explain an answer; failing that, a pattern in the cases.

    One mistake for everything, if possible. Otherwise one for each wrong part, among those
    that spoil nothing else.
    """
    found = {}  # part -> the first mistake that explains it alone
    for mistake in exercise.mistakes:
        same, right = _compared(exercise, mistake, trials)
        if all(same):
            return [mistake]
        for part, fits in enumerate(same):
            if fits and not right[part] and all(right[:part] + right[part + 1 :]):
                found.setdefault(part, mistake)
    if found:
        return [found[part] for part in sorted(found)]
    if all(trial.failed for trial in trials):
        return []
    fits = [p for p in exercise.patterns if all(t.failed == p.where(*t.args) for t in trials)]
    return fits[:1]


def _compared(exercise, mistake, trials):
    """For each part: does the mistake give what the answer gave? Does it give what is right?"""
    function, parts = exercise.function_of(mistake.answer), range(len(trials[0].got))
    same, right = [True for _ in parts], [True for _ in parts]
    for trial in trials:
        model = tuple(trial.expected) if exercise.parts else trial.expected[0]
        try:
            with np.errstate(all="ignore"):
                value = function(*(upcast(x) for x in trial.args))
            made = compare.read(value, model, exercise.parts)
        except Exception:  # the mistaken function can't even run here
            return [False for _ in parts], right
        for p in parts:
            tolerance = exercise.tolerance(trial.got[p], trial.args)
            same[p] &= compare.alike(trial.got[p], made[p], tolerance)
            right[p] &= not np.any(compare.wrong_entries(made[p], trial.expected[p], tolerance))
    return same, right


def upcast(x):
    """A copy in float64, so that a float32 case is judged against the exact result."""
    if isinstance(x, np.ndarray):
        return x.astype(np.float64) if x.dtype.kind == "f" else x.copy()
    return x
