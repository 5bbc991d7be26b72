"""Call a function that nobody vouches for, and come back.

The function runs in a thread of its own. When its time is up, an exception is raised inside it,
again and again until it gives in. One that doesn't, because it catches everything or is stuck in C
code, is left behind and the learner is told. No signals: this works in a notebook, on every system,
and the learner's own Ctrl-C still stops the check. Nothing here stops `os._exit`, or a C call that
never lets go of the interpreter.
"""

import contextlib
import contextvars
import ctypes
import io
import linecache
import random
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field

import numpy as np

GRACE_S = 2  # how long a function may resist after its time is up
PRINTED_CHARACTERS = 2000


class TimeUp(BaseException):
    """Raised inside a function whose time is up."""


@dataclass
class Outcome:
    """How a call went: `value`, or `error`, or neither when the time was up."""

    value: object = None
    error: BaseException | None = None
    time_up: bool = False
    still_runs: bool = False
    printed: str = ""
    warned: list = field(default_factory=list)


def call(function, args, seconds):
    """Run function(*args) for at most `seconds` and return an Outcome, whatever happens.

    What it prints and what NumPy warns of is caught; NumPy's and Python's random state, and the
    error settings of the caller, are afterwards what they were.
    """
    outcome = Outcome()
    context, done = contextvars.copy_context(), threading.Event()

    def work():
        with contextlib.suppress(TimeUp):
            try:
                outcome.value = context.run(function, *args)
            except BaseException as error:
                outcome.error = error
            done.set()

    thread = threading.Thread(target=work, daemon=True)
    with _caught_output(outcome), _random_state_kept():
        if sys.platform == "emscripten":  # a browser's Python has no threads: no time limit
            work()
            return outcome
        try:
            thread.start()
            outcome.time_up = not _ended(thread, done, seconds, 0.05)
        finally:  # also when the learner presses Ctrl-C
            outcome.still_runs = not _stopped(thread, done)
    return outcome


def _ended(thread, done, seconds, step_s):
    """Wait for the thread, `seconds` at most; in short steps, so that Ctrl-C gets through.

    Not by `join`: interrupted, it takes a running thread for a finished one (until Python 3.12).
    """
    end = time.monotonic() + seconds
    while thread.is_alive() and not done.is_set() and time.monotonic() < end:
        done.wait(step_s)
    return done.is_set() or not thread.is_alive()


def _stopped(thread, done):
    """Raise TimeUp in the thread, again and again: a function may catch the first ones."""
    end = time.monotonic() + GRACE_S
    while not _ended(thread, done, 0.01, 0.01) and time.monotonic() < end:
        ident, error = ctypes.c_ulong(thread.ident), ctypes.py_object(TimeUp)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, error)
    return done.is_set() or not thread.is_alive()


class _FirstCharacters(io.StringIO):
    """Keeps the beginning of what is written."""

    def write(self, text):
        room = PRINTED_CHARACTERS - self.tell()
        super().write(text[: max(room, 0)])
        return len(text)

    def close(self):
        """Stays open, whoever closes it."""


@contextlib.contextmanager
def _caught_output(outcome):
    printed = _FirstCharacters()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            yield
    outcome.printed = printed.getvalue()
    outcome.warned = [w for w in caught if issubclass(w.category, RuntimeWarning)]


@contextlib.contextmanager
def _random_state_kept():
    torch = sys.modules.get("torch")
    states = np.random.get_state(), random.getstate(), torch and torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(states[0])
        random.setstate(states[1])
        if torch:
            torch.set_rng_state(states[2])


def own_line(error, filename):
    """(number, text) of the deepest line in `filename` that an exception went through, or None.

    Looks into the causes as well: Triton's interpreter wraps what a kernel raises.
    """
    found = None
    while error is not None:
        step = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == filename:
                found = step.tb_lineno, linecache.getline(filename, step.tb_lineno).strip()
            step = step.tb_next
        error = error.__cause__
    return found
