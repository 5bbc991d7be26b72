"""An exercise in Triton. Nothing of Triton is imported before it is asked for."""

import inspect
from dataclasses import dataclass

import numpy as np

from flashlib import online
from flashlib.exercises import answers, compare
from flashlib.exercises.core import Exercise, Stop
from flashlib.exercises.naming import Mistake
from flashlib.exercises.verdicts import NOT_ATTEMPTED

GPU_TOLERANCE = 2e-3  # a float32 tl.dot without input_precision="ieee" keeps ten bits there


@dataclass(eq=False, repr=False)
class KernelUpdate(Exercise):
    """The answer is a function in Triton's language, the update of one tile.

    faults: (name of the mistake, FAULT of `kernels.kernel_update_with_fault`, advice).
    """

    faults: tuple = ()

    @property
    def reference(self):
        """The right function; ImportError with one sentence when PyTorch or Triton is missing."""
        return _kernels().kernel_update

    @reference.setter
    def reference(self, value):
        """Fixed."""

    def function_of(self, answer):
        """The harness that takes one step with this function, given NumPy tiles."""
        kernels = _kernels()
        if not hasattr(answer, "fn"):  # no jitted function
            super().function_of(answer)
        return lambda *args: kernels.run_update(answer, *args)

    def arguments(self):
        """Those of the update."""
        return list(inspect.signature(update_in_base_2).parameters)

    def tolerance(self, got, args):
        """Float32's; on a GPU, TF32's."""
        interpreted = _kernels().triton_kernels.INTERPRETED
        return compare.FLOAT32_TOLERANCE if interpreted else GPU_TOLERANCE

    def _judge(self, answer):
        if inspect.isroutine(answer) and not answers.does_something(answer):
            answer = None  # the same verdict with and without Triton
        if answer is not None:
            self._name_mistakes()
        super()._judge(answer)

    def _name_mistakes(self):
        try:
            kernels = _kernels()
        except ImportError as error:
            raise Stop(NOT_ATTEMPTED, str(error)) from error
        self.mistakes = tuple(
            Mistake(name, kernels.broken(fault), advice) for name, fault, advice in self.faults
        )

    def _expected(self, args):
        return update_in_base_2(*args)


def update_in_base_2(q, k, v, m, l, o, scale2):
    """`online.update` with m and scale2 in base 2, in float64."""
    q, k, v, m, l, o = (x.astype(np.float64) for x in (q, k, v, m, l, o))
    ln2 = np.log(2)
    state = online.update(online.SoftmaxState(m * ln2, l, o), scale2 * ln2 * (q @ k.T), v)
    return state.m / ln2, state.l, state.o


def _kernels():
    from flashlib.exercises import kernels

    return kernels
