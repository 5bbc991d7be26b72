"""An exercise: cases to try an answer on, a reference, hints, and the mistakes that people make."""

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flashlib.exercises import answers, compare, records, sandbox, words
from flashlib.exercises.naming import Trial, explanations, upcast
from flashlib.exercises.verdicts import NOT_ATTEMPTED, RIGHT, WRONG, Verdict, show


class Stop(Exception):  # noqa: N818 - no error, like StopIteration
    """The check ends here, with this state and these lines."""

    def __init__(self, state, *lines, mistakes=()):
        super().__init__(state)
        self.state, self.lines, self.mistakes = state, lines, mistakes


@dataclass(eq=False, repr=False)
class Exercise:
    """A function to write.

    name: what it is called here, `exercises.<name>`. answer: what the notebook calls the function.
    cases: given a random generator, the argument tuples to try, small ones first.
    parts: names of the results when there are several.
    mistakes, patterns: see these classes. Earlier ones are preferred.
    probe: given a runner of the answer, a Mistake (seen, not named after a function) or None.
    solution_of: the objects whose source is shown as the solution; default, the reference.
    """

    name: str
    notebook: str
    answer: str
    task: str
    reference: object
    cases: Callable = None
    hints: tuple = ()
    parts: tuple = ()
    mistakes: tuple = ()
    patterns: tuple = ()
    probe: Callable = None
    solution_of: tuple = ()
    seconds: float = 5  # for one call
    _hints_shown: int = 0

    def __repr__(self):
        return f"<exercise {self.name}: {self.task}>"

    def check(self, answer):
        """Try an answer, show what came of it, and return the Verdict. Raises nothing."""
        try:
            self._judge(answer)
            verdict = Verdict(self.name, RIGHT, self._praise())
        except Stop as stop:
            verdict = Verdict(self.name, stop.state, tuple(stop.lines), tuple(stop.mistakes))
        except Exception as error:  # an answer so odd that even looking at it fails
            text = f"This answer can't be judged: {type(error).__name__} when it was looked at."
            verdict = Verdict(self.name, WRONG, (text,))
        records.record(verdict)
        verdict.show()
        return verdict

    def hint(self):
        """Show a hint; each call shows the next of three."""
        k = min(self._hints_shown, len(self.hints) - 1)
        self._hints_shown += 1
        lines = textwrap.dedent(self.hints[k]).strip().splitlines()
        if k == len(self.hints) - 1:
            lines.append(f"(The last hint. ex.{self.name}.solution() shows the answer.)")
        show(f"{self.name}: hint {k + 1} of {len(self.hints)}", lines)

    def solution(self):
        """Show the solution: source of the library where the library has it."""
        try:
            text = self.solution_text()
        except ImportError as error:  # a kernel, and no Triton
            text = str(error)
        show(f"{self.name}: solution", text.splitlines())

    def solution_text(self):
        """The source that `solution` shows, under names that a notebook may use."""
        functions = map(answers.plain_function, self.solution_of or (self.reference,))
        text = "\n\n".join(textwrap.dedent(inspect.getsource(f)).rstrip() for f in functions)
        for name in re.findall(r"^def _(\w+)\(", text, flags=re.MULTILINE):
            text = re.sub(rf"(?<![\w.])_{name}\b", name, text)
        return text

    def function_of(self, answer):
        """The function that the cases are tried on; here, the answer itself."""
        if not callable(answer):
            given = compare.kind_of(answer)
            raise Stop(WRONG, f"check wants the function itself, got {given}: check({self.answer})")
        return answer

    def tolerance(self, got, args):
        """How far `got`, one part of a result, may be off, relative to the largest entry."""
        return compare.tolerance_of(got, *args)

    # ------------------------------------------------------------ the check

    def _judge(self, answer):
        """Return if the answer is right, otherwise raise Stop."""
        if answer is None or answer is Ellipsis:
            raise self._not_attempted()
        function, trials, end = self.function_of(answer), [], None
        for args in self.cases(np.random.default_rng()):  # fresh numbers every time
            try:
                trials.append(self._try(answer, function, args))
            except Stop as stop:  # no result here; perhaps a smaller case has failed already
                end = stop
                break
        failed = [trial for trial in trials if trial.failed]
        if failed:
            raise self._wrong(failed[0], trials, end)
        if end:
            raise end
        found = self.probe and self.probe(lambda *args: self._call(answer, function, args).value)
        if found:
            raise Stop(WRONG, *words.mistake_lines(found), mistakes=(found.name,))

    def _try(self, answer, function, args):
        """Run one case on copies of its arguments."""
        expected = self._expected(args)
        copies = tuple(_copy(x) for x in args)
        outcome = self._call(answer, function, copies, expected)
        for name, before, after in zip(self.arguments(), args, copies, strict=True):
            if isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=True):
                raise Stop(
                    WRONG,
                    f"Your function overwrote its argument {name}.",
                    "Work on a new array: x = x * 2, not x *= 2.",
                    mistakes=("input overwritten",),
                )
        got, models = outcome.value, list(expected) if isinstance(expected, tuple) else [expected]
        tolerances = [self.tolerance(part, args) for part in got]
        wrong = [
            compare.wrong_entries(a, b, t) for a, b, t in zip(got, models, tolerances, strict=True)
        ]
        return Trial(args, models, got, wrong, words.printed_lines(outcome))

    def _expected(self, args):
        """What the reference makes of the arguments, in float64."""
        with np.errstate(all="ignore"):
            return self.function_of(self.reference)(*(upcast(x) for x in args))

    def _call(self, answer, function, args, expected=None):
        """Run the answer: an Outcome whose value is a list of parts. Stop when there is none."""

        def run():
            value = function(*args)
            if value is None or value is Ellipsis or expected is None:
                return value
            return compare.read(value, expected, self.parts)

        outcome = sandbox.call(run, (), self.seconds)
        if outcome.time_up or outcome.error is not None:
            raise self._no_result(outcome, answer, args)
        if outcome.value is not None and outcome.value is not Ellipsis:
            return outcome
        if answers.does_something(answer):
            text = f"It returned {outcome.value}. Is the `return` missing?"
            lines = words.printed_lines(outcome)
            raise Stop(WRONG, text, *lines, mistakes=("the return is missing",))
        raise self._not_attempted()

    def _no_result(self, outcome, answer, args):
        """The Stop for a call that raised something or took too long."""
        error = outcome.error
        if isinstance(error, NotImplementedError):
            return self._not_attempted()
        line = sandbox.own_line(error, answers.filename_of(answer))
        if outcome.time_up:
            where = f"; it was in line {line[0]}: {line[1]}" if line else ""
            text = [f"No result after {self.seconds:g} s{where}. Does a loop never end?"]
            if outcome.still_runs:
                text.append("It could not be stopped and goes on running: restart the kernel.")
        elif isinstance(error, compare.AnswerError):
            text = [str(error)]
        else:
            text = words.error_lines(error, line)
            if isinstance(error, TypeError) and not line:
                text.append(f"It is called as {self.answer}({', '.join(self.arguments())}).")
        return Stop(WRONG, *text, *self._input(args), *words.printed_lines(outcome))

    # ------------------------------------------------------------ what is said

    def arguments(self):
        """Names of the arguments of a case."""
        return list(inspect.signature(self.reference).parameters)

    def _not_attempted(self):
        return Stop(
            NOT_ATTEMPTED,
            f"Put your code in place of the dots and run the cell. Stuck? ex.{self.name}.hint()",
        )

    def _praise(self):
        return ()

    def _input(self, args):
        largest = 12 if sum(np.size(x) for x in args) <= 24 else 4
        pairs = zip(self.arguments(), args, strict=True)
        return ["Input:    " + ", ".join(compare.shown(name, x, largest) for name, x in pairs)]

    def _wrong(self, trial, trials, end):
        """The Stop for a wrong result; `end` is the Stop of a later case without one, or None."""
        known = explanations(self, trials, complete=end is None)
        lines, names = self._explain(trial, trials, known), [mistake.name for mistake in known]
        if end and end.state == WRONG:
            lines += ["A later case:", *("  " + line for line in end.lines)]
            names += end.mistakes
        return Stop(WRONG, *lines, mistakes=names)

    def _explain(self, trial, trials, known):
        """What a wrong answer gets to read; `known` are the mistakes that were recognized."""
        lines = [line for mistake in known for line in words.mistake_lines(mistake)]
        lines += self._input(trial.args)
        names = self.parts or ("",) * len(trial.got)
        for name, got, expected, wrong in zip(
            names, trial.got, trial.expected, trial.wrong, strict=True
        ):
            if np.any(wrong):
                lines += words.difference_lines(name, got, expected, wrong)
        good = [n for n, w in zip(names, trial.wrong, strict=True) if not np.any(w)]
        if good:
            lines.append(f"Right:    {', '.join(good)}")
        return [*lines, *trial.notes]


def _copy(x):
    return x.copy(order="K") if isinstance(x, np.ndarray) else x
