"""Exercises whose answer is a number, written down before it is computed."""

import math
from dataclasses import dataclass

import numpy as np

from flashlib.exercises import compare
from flashlib.exercises.core import Exercise, Stop
from flashlib.exercises.verdicts import WRONG


@dataclass(eq=False, repr=False)
class Prediction(Exercise):
    """A number to predict; right within `tolerance` (relative), which the verdict states.

    reference: a function without arguments that computes it. mistakes: `answer` is one as well.
    """

    tolerance: float = 0.05

    def _judge(self, answer):
        if answer is None or answer is Ellipsis:
            raise self._not_attempted()
        value = self._number(answer)
        right = self.reference()
        if self._near(value, right):
            return
        for mistake in self.mistakes:
            if self._near(value, mistake.answer()):
                advice = [mistake.advice] if mistake.advice else []
                text = f"It looks like this: {mistake.name}."
                raise Stop(WRONG, text, *advice, mistakes=(mistake.name,))
        raise Stop(WRONG, self._direction(value, right))

    def _near(self, value, right):
        return math.isfinite(value) and abs(value - right) <= self.tolerance * abs(right)

    def _number(self, answer):
        """The answer as a float; Stop when it is something else."""
        is_number = isinstance(answer, (int, float, np.number)) and not isinstance(answer, bool)
        if not is_number:
            given = compare.kind_of(answer)
            raise Stop(WRONG, f"Expected one number, for example {self.answer} = 3, got {given}.")
        try:
            return float(answer)
        except (OverflowError, TypeError):  # 10**400, a complex number
            raise Stop(WRONG, "Expected a real number of ordinary size.") from None

    @staticmethod
    def _direction(value, right):
        """Too large or too small, and by how much; not the answer itself."""
        if not value > 0 or not math.isfinite(value):
            return "Expected a positive, finite number."
        factor = max(value / right, right / value)
        size = f"by a factor of about {factor:.2g}" if factor < 100 else "by more than 100 times"
        return f"Too {'large' if value > right else 'small'}, {size}."

    def _not_attempted(self):
        stop = super()._not_attempted()
        stop.lines = (f"Put your number in place of the dots. Stuck? ex.{self.name}.hint()",)
        return stop

    def _praise(self):
        return (f"Computed: {self.reference():.4g} (accepted within {self.tolerance:.0%}).",)
