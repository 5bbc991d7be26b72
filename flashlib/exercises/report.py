"""For lecturers: run a folder of handed-in notebooks and tabulate who has solved what.

Each notebook runs in a process of its own, with a time limit, in an empty folder. Its cells run in
order; one that fails doesn't stop the rest. As soon as a cell defines the answer to an exercise,
the answer is checked by this installation, whatever check lines the notebook has kept.

The time limit and the separate process are for accidents. They are no protection from code that
means harm: run strangers' notebooks in a container.
"""

import contextlib
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flashlib.exercises.verdicts import NOT_ATTEMPTED, RIGHT, WRONG

MARKS = {RIGHT: "x", WRONG: "!", NOT_ATTEMPTED: "."}


def hand_ins(folder):
    """(learner, notebook) pairs: DIR/ada/02.ipynb belongs to ada, DIR/ada.ipynb as well."""
    folder = Path(folder)
    pairs = []
    for path in sorted(folder.rglob("*.ipynb")):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") for part in parts):
            pairs.append((path.stem if len(parts) == 1 else parts[0], path))
    return pairs


def looks_like_one_learner(folder):
    """Whether all notebooks lie in `folder` itself under the course's names, 02_....ipynb."""
    paths = [path.relative_to(folder) for _, path in hand_ins(folder)]
    return bool(paths) and all(re.fullmatch(r"\d\d_[^/\\]*", str(path)) for path in paths)


def what_is_missing():
    """One sentence on what the processes that run notebooks can't import; "" if all is there."""
    root = Path(__file__).parents[2]
    for module, package in (("IPython", "ipython"), ("flashlib.exercises", f'-e "{root}"')):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", f"import {module}"], cwd=folder, env=_environment(folder),
                stdin=subprocess.DEVNULL, capture_output=True,
            )  # fmt: skip
        if done.returncode:
            name = module.partition(".")[0]
            why = _last_line(done.stderr)
            install = f'"{sys.executable}" -m pip install {package}'
            return f"Running notebooks needs {name} ({why}); install it with: {install}"
    return ""


def report(folder, seconds=300, jobs=2):
    """Run every notebook below `folder`.

    Returns learner -> {"states": exercise name -> state, "notes": what went wrong, a list}.
    """
    pairs = hand_ins(folder)
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda pair: run_notebook(pair[1], seconds), pairs))
    table = {}
    for (learner, path), (states, note) in zip(pairs, results, strict=True):
        row = table.setdefault(learner, {"states": {}, "notes": []})
        for name, state in states.items():
            if row["states"].get(name) != RIGHT:
                row["states"][name] = state
        if note:
            row["notes"].append(f"{path.name}: {note}")
    return table


def run_notebook(path, seconds):
    """Run one notebook in another process: (exercise name -> state, note or "")."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "flashlib.exercises", "run", os.path.abspath(path)]
        try:
            note = _run(
                [*command, str(result)], cwd=folder, env=_environment(folder), timeout=seconds
            )
        except subprocess.TimeoutExpired:
            note = f"stopped after {seconds:g} s"
        states, found = {}, ""
        with contextlib.suppress(OSError, ValueError):
            states, found = json.loads(result.read_text(encoding="utf-8"))
    return states, "; ".join(filter(None, [found, note]))


def _environment(folder):
    more = {"MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8", "IPYTHONDIR": folder}
    return os.environ | more


def _run(command, **options):
    """Run a command: "", or how it failed, with the last line that it wrote to stderr."""
    with tempfile.TemporaryFile() as errors:  # no pipe: a grandchild might keep it open
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, **options
        )
        if done.returncode == 0:
            return ""
        errors.seek(max(errors.seek(0, os.SEEK_END) - 4000, 0))
        last = _last_line(errors.read())
    return f"ended early, exit code {done.returncode}" + (f": {last}" if last else "")


def _last_line(stderr):
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""


# ---------------------------------------------------------------- in the other process


def run_cells(path, result):
    """Run the notebook at `path` and keep the file `result` up to date: [states, note]."""
    states, notes = {}, []

    def save():
        temporary = Path(str(result) + ".new")
        temporary.write_text(json.dumps([states, "; ".join(notes[:3])]), encoding="utf-8")
        os.replace(temporary, result)

    try:
        cells = code_cells(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        notes.append(f"no readable notebook ({type(error).__name__})")
        return save()
    shell = _shell()
    save()
    for number, source in enumerate(cells, 1):
        before = dict(shell.user_ns)
        outcome = shell.run_cell(source, store_history=False)
        error = outcome.error_before_exec or outcome.error_in_exec
        if error is not None:
            notes.append(f"code cell {number}: {type(error).__name__}")
        states.update(_check_new(before, shell.user_ns))
        save()


def code_cells(text):
    """The sources of a notebook's code cells. ValueError, KeyError, ... for anything else."""
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return ["".join(cell["source"]) for cell in cells]


def _shell():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    with contextlib.suppress(Exception):
        shell.enable_matplotlib("inline")
    return shell


def _check_new(before, after):
    """Check the answers that a cell has defined or changed: exercise name -> state."""
    from flashlib.exercises import ALL

    states = {}
    for name, exercise in ALL.items():
        if exercise.answer in after:
            value = after[exercise.answer]
            if exercise.answer not in before or before[exercise.answer] is not value:
                states[name] = exercise.check(value).state
    return states


# ---------------------------------------------------------------- tables


def exercise_names(table):
    """The exercises that the notebooks touch, in the order of the course."""
    from flashlib.exercises import ALL

    return [name for name in ALL if any(name in row["states"] for row in table.values())]


def as_text(table):
    """A line a learner, a column an exercise; the names of the columns stand below."""
    names = exercise_names(table)
    width = max([7, *(len(learner) for learner in table)])
    heads = [f"{k:>3}" for k in range(1, len(names) + 1)]
    lines = [f"{'learner':<{width}}" + "".join(heads) + "  right"]
    for learner, row in table.items():
        states = [row["states"].get(name, NOT_ATTEMPTED) for name in names]
        marks = "".join(f"{MARKS[state]:>3}" for state in states)
        notes = f"  {'; '.join(row['notes'])}" if row["notes"] else ""
        lines.append(f"{learner:<{width}}{marks}  {states.count(RIGHT):>5}{notes}")
    lines += ["", "x right, ! wrong, . not attempted"]
    return "\n".join([*lines, *(f"{k:>3} {name}" for k, name in enumerate(names, 1))])


def as_csv(table):
    """The same as CSV, states in full."""
    names = exercise_names(table)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["learner", *names, "right", "notes"])
    for learner, row in table.items():
        states = [row["states"].get(name, NOT_ATTEMPTED) for name in names]
        writer.writerow([learner, *states, states.count(RIGHT), "; ".join(row["notes"])])
    return text.getvalue()
