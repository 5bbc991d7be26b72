"""What has been solved, kept in a file beside the notebooks that git ignores."""

import contextlib
import json
import os
from pathlib import Path

from flashlib.exercises.verdicts import NOT_ATTEMPTED, RIGHT, WRONG

FILE = ".flashlib-progress.json"  # in the folder that the notebook runs in; delete it to begin anew
MARKS = {RIGHT: "[x]", WRONG: "[!]", NOT_ATTEMPTED: "[ ]"}


def load():
    """Exercise name -> "right" or "wrong" at the last check; {} when there is no readable file."""
    try:
        states = json.loads(Path(FILE).read_text(encoding="utf-8"))
        return {name: state for name, state in states.items() if state in MARKS}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def record(verdict):
    """Note a verdict. A blank answer leaves no trace, a folder that can't be written no error."""
    if verdict.state == NOT_ATTEMPTED:
        return
    states = load() | {verdict.exercise: verdict.state}
    with contextlib.suppress(OSError):
        temporary = Path(f"{FILE}.{os.getpid()}")
        temporary.write_text(json.dumps(states, indent=1, sort_keys=True), encoding="utf-8")
        os.replace(temporary, FILE)


def lines(exercises):
    """The progress over `exercises` (name -> Exercise), a line a notebook."""
    states = load()
    table = {}
    for name, exercise in exercises.items():
        mark = MARKS[states.get(name, NOT_ATTEMPTED)]
        table.setdefault(exercise.notebook, []).append(f"{mark} {name}")
    text = [f"{notebook}  " + "  ".join(marks) for notebook, marks in table.items()]
    return [*text, "[x] right, [!] wrong at the last check, [ ] not attempted yet"]


def count(exercises):
    """How many of them are right."""
    states = load()
    return sum(states.get(name) == RIGHT for name in exercises)
