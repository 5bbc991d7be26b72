"""Exercises in notebooks, on terminals, in the progress file, and in a lecturer's table."""

import ast
import csv
import html
import io
import json
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from exercise_answers import ANSWERS

from flashlib import exercises as ex
from flashlib.exercises import records, report, sizes, verdicts
from flashlib.exercises.__main__ import main

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
pytest.importorskip("IPython")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ---------------------------------------------------------------- the notebooks of the course


def cells(path):
    """(source, tags) of the code cells."""
    nb = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in nb["cells"] if cell["cell_type"] == "code"]
    return [("".join(cell["source"]), cell["metadata"].get("tags", [])) for cell in code]


def defined(source):
    """Names that a cell defines at its top level or inside an `if`."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def used(source):
    return {n.id for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Name)}


def exercise_of(source):
    """The exercise whose answer a cell is, or None."""
    return next((e for e in ex.ALL.values() if e.answer in defined(source)), None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_exercise_cell_belongs_to_an_exercise_of_its_notebook(path):
    found = [exercise_of(source) for source, tags in cells(path) if "exercise" in tags]
    assert None not in found
    assert {e.notebook for e in found} <= {path.name[:2]}


def test_on_chip_bytes_is_the_one_of_notebook_03():
    (source,) = [s for s, _ in cells(NOTEBOOKS[3]) if "def on_chip_bytes" in s]
    space = {}
    exec(source[: source.index("\n\n\n")], space)
    for args in [(64, 64, 128), (128, 32, 64), (16, 48, 3)]:
        assert space["on_chip_bytes"](*args) == sizes.on_chip_bytes(*args)


def solved(path):
    """The cells of a notebook that its exercises need, with every answer filled in and checked."""
    code = cells(path)
    exercises = [exercise_of(source) for source, tags in code if "exercise" in tags]
    imports = code[0][0] + "\nfrom flashlib import exercises as ex"
    if "check_setup" in imports:  # notebook 00 imports NumPy later
        imports = "import numpy as np\nfrom flashlib import exercises as ex"
    needed = set().union(*(used(ANSWERS[e.name]) for e in exercises)) if exercises else set()
    kept = [
        s for s, tags in code[1:] if "exercise" not in tags and defined(s) & needed and "def " in s
    ]
    answers = [f"{ANSWERS[e.name]}\nex.{e.name}.check({e.answer})" for e in exercises]
    return [imports, *kept, *answers], exercises


def write_notebook(path, sources):
    nb = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
        {"cell_type": "code", "id": f"c{k}", "metadata": {}, "source": source, "outputs": [],
         "execution_count": None} for k, source in enumerate(sources)]}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(nb), encoding="utf-8")


BLANK = "def my_update(m, l, o, S, V):\n    ...\n"
CLASS = {  # learner -> the cells of 02.ipynb
    "blank": [BLANK, "ex.update.check(my_update)"],
    "breaks": ["1 / 0", "import numpy as np", ANSWERS["update"]],
    "cheats": [f"my_update = 1\n{BLANK}my_D = sum", "import os; os._exit(7)"],
    "hangs": ["def default_scale(d):\n    return d**-0.5", "import time\ntime.sleep(600)"],
    "magic": ["%matplotlib inline", "!true", "x = ?", "def my_D(O, dO):\n    return O"],
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handed in")
    for path in NOTEBOOKS:
        write_notebook(folder / "solved" / path.name, solved(path)[0])
    for learner, sources in CLASS.items():
        write_notebook(folder / learner / "02.ipynb", sources)
    (folder / "broken.ipynb").write_text('{"cells": [{"cell_type"', encoding="utf-8")
    (folder / "list.ipynb").write_text("[1]", encoding="utf-8")
    write_notebook(folder / ".ipynb_checkpoints" / "x.ipynb", [])
    slow = folder.rename(folder.parent / "class") / "hangs"
    hanging = slow.rename(folder.parent / "hangs") / "02.ipynb"
    done = slow.parent.joinpath("solved").rename(folder.parent / "solved")
    with ThreadPoolExecutor() as pool:
        stopped = pool.submit(report.run_notebook, hanging, 15)
        solved_rows = pool.submit(report.report, done, 200, 1)
        rows = report.report(slow.parent, 100, 1)
    states, note = stopped.result()
    rows["hangs"] = {"states": states, "notes": [note]}
    rows["solved"] = {"states": {}, "notes": []}
    for row in solved_rows.result().values():
        rows["solved"]["states"] |= row["states"]
        rows["solved"]["notes"] += row["notes"]
    return rows


def test_with_every_solution_filled_in_all_is_right(table):
    expected = {e.name for path in NOTEBOOKS for e in solved(path)[1]}
    if "torch" not in sys.modules and not _has_torch():
        expected -= {"kernel_update"}
    assert len(expected) >= 15
    assert {name for name, s in table["solved"]["states"].items() if s == "right"} >= expected


def _has_torch():
    import importlib.util

    return all(importlib.util.find_spec(name) for name in ("torch", "triton"))


def test_a_notebook_that_breaks_is_a_row_not_a_crash(table):
    states = {learner: row["states"] for learner, row in table.items()}
    notes = {learner: " ".join(row["notes"]) for learner, row in table.items()}
    assert states["blank"] == {"update": "not attempted"}
    assert states["breaks"] == {"update": "right"} and "ZeroDivisionError" in notes["breaks"]
    assert states["cheats"]["row_D"] == "wrong" and "exit code 7" in notes["cheats"]
    assert states["hangs"] == {"default_scale": "right"} and "stopped after 15 s" in notes["hangs"]
    assert states["magic"] == {"row_D": "wrong"} and "SyntaxError" in notes["magic"]
    assert states["broken"] == states["list"] == {} and "no readable" in notes["broken"]
    assert "x" not in table


def test_the_table_as_text_and_as_csv(table):
    text = report.as_text(table)
    assert "x right, ! wrong, . not attempted" in text and " 1 default_scale" in text
    line = next(line for line in text.splitlines() if line.startswith("hangs"))
    assert line.split()[1] == "x"
    rows = list(csv.DictReader(io.StringIO(report.as_csv(table))))
    assert [row["learner"] for row in rows] == list(table)
    by_learner = {row["learner"]: row for row in rows}
    assert by_learner["breaks"]["update"] == "right" and by_learner["breaks"]["right"] == "1"
    assert by_learner["blank"]["update"] == by_learner["list"]["update"] == "not attempted"


def test_the_command_line(tmp_path, capsys):
    write_notebook(tmp_path / "in" / "ada.ipynb", ["default_scale = lambda d: 1 / d**0.5"])
    assert main(["report", str(tmp_path / "in"), "--csv", str(tmp_path / "out.csv")]) == 0
    assert "ada" in capsys.readouterr().out
    text = (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert text.splitlines() == ["learner,default_scale,right,notes", "ada,right,1,"]
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["report", str(tmp_path / "empty")]) == 2


@pytest.mark.parametrize("module, install", [("IPython", "ipython"), ("flashlib", "-e")])
def test_what_the_runs_cannot_import_is_said_before_anything_runs(
    module, install, tmp_path, monkeypatch, capsys
):
    write_notebook(tmp_path / "in" / "ada.ipynb", [])
    stub = tmp_path / "stubs" / module / "__init__.py"
    stub.parent.mkdir(parents=True)
    stub.write_text("raise ImportError('not here')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "stubs"))
    assert main(["report", str(tmp_path / "in")]) == 1
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert f"needs {module} (ImportError: not here)" in err and f"-m pip install {install}" in err


def test_the_last_words_of_a_run_that_failed_are_its_note(tmp_path):
    code = "import os; os.write(2, b'one\\nno more memory\\n'); os._exit(3)"
    write_notebook(tmp_path / "ada.ipynb", [code])
    assert report.run_notebook(tmp_path / "ada.ipynb", 60) == (
        {}, "ended early, exit code 3: no more memory"
    )  # fmt: skip


def test_the_notebooks_of_one_learner_are_noticed_and_still_run(tmp_path, capsys):
    write_notebook(tmp_path / "00_setup.ipynb", ["default_scale = lambda d: 1 / d**0.5"])
    write_notebook(tmp_path / "class" / "ada" / "00_setup.ipynb", [])
    assert not report.looks_like_one_learner(tmp_path)
    (tmp_path / "class" / "ada" / "00_setup.ipynb").unlink()
    assert main(["report", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "these look like one learner's notebooks; give the folder above" in err
    assert "00_setup,right,1," in out


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    write_notebook(tmp_path / "in" / "ada.ipynb", [])
    command = [sys.executable, "-m", "flashlib.exercises", "report", "in", "--csv", "out.csv"]
    run = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    run.stdout.close()
    with run.stderr:
        errors = run.stderr.read().decode()
    assert (run.wait(60), errors) == (0, "")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("learner")


# ---------------------------------------------------------------- how a verdict is shown


def test_a_verdict_is_printed_once_and_returned(capsys):
    verdict = ex.default_scale.check(lambda d: d**0.5)
    out = capsys.readouterr().out
    assert out.startswith("default_scale: wrong\n  It looks like this: the root is not inverted.")
    assert (repr(verdict), bool(verdict)) == ("<default_scale: wrong>", False)
    assert ex.default_scale.check(lambda d: d**-0.5)


def test_in_a_notebook_a_box_and_the_same_text_are_shown_and_no_result(monkeypatch):
    shown = []
    monkeypatch.setattr(verdicts, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    verdict = ex.kind_of_tile.check(lambda *args: "<b>")
    assert shown[0]["text/plain"] == str(verdict)
    assert html.escape("'<b>'") in shown[0]["text/html"] and "<b>'" not in shown[0]["text/html"]
    assert verdict._ipython_display_() is None
    blank = [ex.update.check(lambda *args: None) for _ in range(2)]
    assert shown[1] == shown[2] and blank[0] == blank[1]  # the same every time: nbval compares it
    assert all("background:#fff" in data["text/html"] for data in shown)  # dark themes


def test_progress_is_kept_beside_the_notebook_and_a_blank_answer_leaves_no_trace(capsys, tmp_path):
    ex.update.check(...)
    assert list(tmp_path.iterdir()) == []
    ex.default_scale.check(lambda d: d**-0.5)
    ex.row_D.check(lambda O, dO: O)
    assert [path.name for path in tmp_path.iterdir()] == [".flashlib-progress.json"]
    capsys.readouterr()
    ex.progress()
    out = capsys.readouterr().out
    assert "Progress: 1 of 23 right" in out
    assert "[x] default_scale" in out and "[!] row_D" in out and "[ ] update" in out
    assert records.FILE in (ROOT / ".gitignore").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"update": 7, "row_D": []}', "\x00"])
def test_a_spoilt_progress_file_is_a_fresh_start(text, tmp_path):
    (tmp_path / records.FILE).write_text(text, encoding="utf-8")
    assert records.load() == {}
    assert ex.default_scale.check(lambda d: d**-0.5)
    assert records.load() == {"default_scale": "right"}


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch):
    monkeypatch.setattr(records, "FILE", "no such folder/x.json")
    assert ex.default_scale.check(lambda d: d**-0.5)


def test_numpy_alone_is_enough_and_a_kernel_says_what_is_missing():
    blocked = ["matplotlib", "ipywidgets", "IPython", "torch", "triton", "nbformat"]
    script = f"""
        import sys

        class Blocker:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {blocked}:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Blocker())
        from flashlib import exercises as ex
        assert ex.update.check(ex.update.reference)
        assert ex.kernel_update.check(lambda *args: None).lines[0].startswith("Put your code")
        verdict = ex.kernel_update.check(lambda *args: args[0] * 2)
        assert verdict.state == "not attempted" and len(verdict.lines) == 1
        ex.kernel_update.hint()
        ex.kernel_update.solution()
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "PyTorch and Triton" in done.stdout
    assert np.__name__ not in done.stderr
