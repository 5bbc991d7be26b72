"""Which known mistake is it?

A known mistake is a function that makes it. If a wrong answer agrees with that function wherever
both were tried, the mistake has a name. Nothing is guessed from the source of an answer.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

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
    """`advice` fits when an answer fails in exactly the cases where `where(*args)` is true.

    rows: given the arguments, a mask of the rows that may be wrong there (or a mask a part).
    sees_nothing: these are the rows of only -inf.
    """

    name: str
    where: Callable
    advice: str = ""
    rows: Callable = None
    sees_nothing: bool = False

    def fits(self, trial):
        """Whether a trial failed where it should, and there only."""
        if trial.failed != self.where(*trial.args):
            return False
        if self.rows is None or not trial.failed:
            return True
        masks = self.rows(*trial.args)
        masks = masks if isinstance(masks, tuple) else (masks,) * len(trial.wrong)
        pairs = zip(trial.wrong, masks, strict=True)
        return not any(np.any(wrong[~mask]) for wrong, mask in pairs)


def row_pattern(name, rows, advice="", sees_nothing=False):
    """A Pattern of rows: wrong where the mask `rows(*args)` is true, right in all other rows."""
    return Pattern(name, lambda *args: bool(np.any(rows(*args))), advice, rows, sees_nothing)


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


SECOND_POINT = "(Rows that see only -inf are a second point: this one first.)"


def explanations(exercise, trials, complete=True):
    """The known mistakes that explain an answer; failing that, a pattern in the cases.

    complete: whether every case gave a result; a pattern is claimed only then.
    """
    found = _mistakes(exercise, trials) or _mistakes_elsewhere(exercise, trials)
    if found or not complete or all(trial.failed for trial in trials):
        return found
    return [p for p in exercise.patterns if all(p.fits(trial) for trial in trials)][:1]


def _mistakes_elsewhere(exercise, trials):
    """The mistakes found when cases with rows of only -inf, which fail as well, are left out."""
    empty = next((p.where for p in exercise.patterns if p.sees_nothing), None)
    if empty is None:
        return []
    others = [trial for trial in trials if not empty(*trial.args)]
    failed_there = any(trial.failed for trial in trials if empty(*trial.args))
    if not failed_there or not any(trial.failed for trial in others):
        return []
    found = _mistakes(exercise, others)
    if found:
        found[-1] = replace(found[-1], advice=f"{found[-1].advice} {SECOND_POINT}".strip())
    return found


def _mistakes(exercise, trials):
    """One mistake for everything, or one for each wrong part, of those that spoil nothing else."""
    found = {}  # part -> the first mistake that explains it alone
    for mistake in exercise.mistakes:
        same, right = _compared(exercise, mistake, trials)
        if all(same):
            return [mistake]
        for part, fits in enumerate(same):
            if fits and not right[part] and all(right[:part] + right[part + 1 :]):
                found.setdefault(part, mistake)
    return [found[part] for part in sorted(found)]


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
