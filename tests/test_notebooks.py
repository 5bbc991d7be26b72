"""The committed notebooks keep the frame, the rhythm and the file format that the course promises.

A guard takes a `Page` and returns the faults that it found. Each guard is tried on every notebook
and on a planted fault, so that none of them can pass by looking at nothing.
"""

import base64
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

tools = pytest.importorskip(
    "notebooks"
)  # tools/notebooks.py; pyproject.toml puts tools on the path
nbformat = pytest.importorskip("nbformat")
Image = pytest.importorskip("PIL.Image")
rejoin_lines = pytest.importorskip("nbformat.v4.rwbase").rejoin_lines

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "notebooks"
FILES = sorted(NOTEBOOKS.glob("*.ipynb"))
TAGS = {"exercise", "hide-input", "raises-exception", "nbval-ignore-output"}
MACHINE_PATH = r"(?<![\w.])/(?:home|root|tmp|work|Users|opt)/|\b[A-Z]:\\Users"


@dataclass
class Page:
    """A notebook, where it lies, and the bytes it takes there."""

    nb: dict
    folder: Path = NOTEBOOKS
    size_bytes: int = 0

    @property
    def cells(self):
        return self.nb["cells"]

    @property
    def code(self):
        return [(k, cell) for k, cell in enumerate(self.cells) if cell["cell_type"] == "code"]

    @property
    def markdown(self):
        return [(k, cell) for k, cell in enumerate(self.cells) if cell["cell_type"] == "markdown"]

    @property
    def outputs(self):
        return [(k, cell, output) for k, cell in self.code for output in cell["outputs"]]

    @property
    def pngs(self):
        found = [(k, output.get("data", {}).get("image/png")) for k, _, output in self.outputs]
        return [(k, base64.b64decode(png)) for k, png in found if png]


def load(path):
    """Read as plain JSON: nbformat's own reader would mend faults that we want to see."""
    raw = path.read_bytes()
    return Page(rejoin_lines(nbformat.from_dict(json.loads(raw))), path.parent, len(raw))


# ---------------------------------------------------------------- guards: the file


def valid(page):
    try:
        nbformat.validate(page.nb)
    except (nbformat.ValidationError, Warning) as error:
        return [f"not a valid notebook: {error}"]
    return []


def ids(page):
    names = [cell.get("id") for cell in page.cells]
    bad = [k for k, name in enumerate(names) if not name or names.count(name) > 1]
    return [f"cell {k}: id missing or used twice" for k in bad]


def kernel(page):
    metadata = page.nb["metadata"]
    faults = (
        [] if metadata.get("kernelspec", {}).get("name") == "python3" else ["kernel not python3"]
    )
    return faults + (["widget state stored"] if "widgets" in metadata else [])


def executed(page):
    counts = [cell["execution_count"] for _, cell in page.code]
    if counts != list(range(1, len(counts) + 1)):
        return [f"execution counts are not 1…{len(counts)}: {counts}"]
    return [] if page.outputs else ["no output anywhere"]


def errors(page):
    return [
        f"cell {k}: error output without the tag raises-exception"
        for k, cell, output in page.outputs
        if output["output_type"] == "error"
        and "raises-exception" not in cell["metadata"].get("tags", [])
    ]


def stderr(page):
    return [
        f"cell {k}: wrote to stderr" for k, _, out in page.outputs if out.get("name") == "stderr"
    ]


def widget_views(page):
    return [
        f"cell {k}: a stored widget view (give the widget a PNG, then run make notebooks)"
        for k, _, out in page.outputs
        if tools.WIDGET_VIEW in out.get("data", {})
    ]


def pngs(page):
    faults = []
    for k, raw in page.pngs:
        if len(raw) > 100_000:
            faults.append(f"cell {k}: PNG of {len(raw) / 1000:.0f} kB, above 100")
        image = Image.open(io.BytesIO(raw)).convert("RGBA")
        right, bottom = image.width - 1, image.height - 1
        corners = [(0, 0), (right, 0), (0, bottom), (right, bottom)]
        if any(image.getpixel(corner)[3] < 255 for corner in corners):
            faults.append(f"cell {k}: PNG with a transparent corner")
    return faults


def size(page):
    return [f"{page.size_bytes / 1e6:.2f} MB, above 1"] if page.size_bytes > 1_000_000 else []


def tags(page):
    return [
        f"cell {k}: unknown tag {tag}"
        for k, cell in enumerate(page.cells)
        for tag in cell["metadata"].get("tags", [])
        if tag not in TAGS
    ]


def output_text(page):
    """Addresses, NumPy scalars and machine paths differ from machine to machine."""
    pattern = rf"np\.float\d+\(| at 0x[0-9a-f]|{MACHINE_PATH}"
    faults = []
    for k, _, output in page.outputs:
        data = output.get("data", {})
        texts = [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
        texts += output.get("traceback", [])
        found = re.search(pattern, "\n".join("".join(text) for text in texts))
        if found:
            faults.append(f"cell {k}: output holds {found[0]!r}")
    return faults


def normal_form(page):
    return (
        []
        if tools.normalise(page.nb) == page.nb
        else ["not in its normal form: run make notebooks"]
    )


# ---------------------------------------------------------------- guards: the course


def code_cells(page):
    faults = []
    for k, cell in page.code:
        lines = cell["source"].splitlines()
        if not 1 <= len(lines) <= 20:
            faults.append(f"cell {k}: {len(lines)} lines of code, wanted 1 to 20")
    return faults


def rhythm(page):
    kinds = [cell["cell_type"] for cell in page.cells]
    return [
        f"cell {k}: a third code cell in a row"
        for k in range(2, len(kinds))
        if kinds[k - 2 : k + 1] == ["code"] * 3
    ]


def forbidden_code(page):
    """What hides work, breaks strict nbval, or belongs into flashlib.plots."""
    widgets = r"%%capture|\bOutput\(|\binteract\w*\(|\bclear_output\("
    pattern = rf"{widgets}|\bplt\.|^\s*(?:import|from) matplotlib"
    found = [(k, re.search(pattern, cell["source"], re.M)) for k, cell in page.code]
    return [f"cell {k}: {match[0].strip()!r} in a cell" for k, match in found if match]


def frame(page):
    first = page.cells[0]
    title = first["source"].splitlines()[0] if first["cell_type"] == "markdown" else ""
    faults = [] if re.fullmatch(r"# .+\?", title) else ["cell 0: no title that is a question"]
    head = [cell["source"] for k, cell in page.markdown if k < 4]
    wanted = ("You will do", "You will learn", "You will need")
    if not any(all(w in text for w in wanted) and re.search(r"\d minutes", text) for text in head):
        faults.append(f"no cell near the top with {', '.join(wanted)} and the minutes")
    text = "\n".join(cell["source"] for _, cell in page.markdown)
    close = ("On your own", "In practice", "Further reading")
    at = [text.rfind(f"\n## {heading}\n") for heading in close]
    if min(at) < 0 or at != sorted(at):
        faults.append(f"wanted, in this order: {', '.join('## ' + heading for heading in close)}")
    return faults


def captions(page):
    """A figure has a description in metadata.alt, or `**What you saw` opens the next text cell."""
    faults = []
    for k, _ in page.pngs:
        following = next((cell["source"] for j, cell in page.markdown if j > k), "")
        alt = page.cells[k]["metadata"].get("alt", "")
        if not following.startswith("**What you saw") and len(alt) < 20:
            faults.append(f"cell {k}: a figure without **What you saw** after it or metadata.alt")
    return faults


def anchors(page):
    """The ids that Jupyter and nbconvert give to headings."""
    text = "\n".join(cell["source"] for _, cell in page.markdown)
    headings = re.findall(r"^#{1,6} +(.+?) *$", text, re.M)
    return {re.sub(r"[*`]", "", heading).replace(" ", "-") for heading in headings}


def links(page):
    text = "\n".join(cell["source"] for _, cell in page.markdown)
    faults = []
    for target in re.findall(r"\]\(([^)\s]+)\)|(?:href|src)=\"([^\"]+)\"", text):
        name, _, anchor = unquote("".join(target)).partition("#")
        if re.match(r"https?://", name):
            continue
        other = page.folder / name
        if name and not other.exists():
            faults.append(f"link to {name}, which does not exist")
        elif anchor and anchor not in anchors(load(other) if name else page):
            faults.append(f"link to {name}#{anchor}: no such heading")
    return faults


GUARDS = [
    valid, ids, kernel, executed, errors, stderr, widget_views, pngs, size, tags, output_text,
    normal_form, code_cells, rhythm, forbidden_code, frame, captions, links,
]  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_notebook_keeps(guard, path):
    assert guard(load(path)) == []


def test_the_notebooks_are_there_and_numbered_without_gaps():
    numbers = [path.name[:3] for path in FILES]
    assert numbers == [f"{k:02}_" for k in range(len(FILES))]
    assert len(FILES) >= 6


# ---------------------------------------------------------------- the guards themselves


def png(size=(8, 8), colour=(255, 255, 255, 255), noise=False):
    image = Image.new("RGBA", size, colour)
    if noise:
        image = Image.effect_noise(size, 200).convert("RGBA")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode() + "\n"


def good():
    """The smallest page that keeps every rule."""
    new = nbformat.v4
    close = "## On your own\n\nTry.\n\n## In practice\n\nDo.\n\n## Further reading\n\nRead."
    figure = new.new_output("display_data", {"image/png": png(), "text/plain": "<Figure>"})
    cells = [
        new.new_markdown_cell("# 01 · Why?"),
        new.new_markdown_cell("You will do a. You will learn b. You will need 10 minutes."),
        new.new_code_cell("1 + 1", execution_count=1, outputs=[
            new.new_output("execute_result", {"text/plain": "2"}, execution_count=1)]),
        new.new_code_cell("draw()", execution_count=2, outputs=[figure]),
        new.new_markdown_cell("**What you saw.** A dot. See [above](#01-·-Why?)."),
        new.new_markdown_cell(close),
    ]  # fmt: skip
    for k, cell in enumerate(cells):
        cell.id = f"cell-{k}"
    return Page(new.new_notebook(cells=cells, metadata=tools.METADATA))


def _set(path, value):
    """A fault: at `path`, keys joined by dots, put `value`."""

    def plant(page):
        *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        place = page.nb
        for key in keys:
            place = place[key]
        place[last] = nbformat.from_dict(value)

    return plant


def _stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def _add_code(page):
    page.cells.insert(2, nbformat.v4.new_code_cell("2", execution_count=1))


FAULTS = [
    (valid, _set("cells.2.outputs", "none")),
    (ids, _set("cells.3.id", "cell-2")),
    (ids, _set("cells.3.id", "")),
    (kernel, _set("metadata.kernelspec.name", "conda-env-x")),
    (kernel, _set("metadata.widgets", {})),
    (executed, _set("cells.3.execution_count", None)),
    (executed, _set("cells.3.execution_count", 7)),
    (errors, _set("cells.2.outputs.0", nbformat.v4.new_output("error", ename="E", evalue=""))),
    (stderr, _set("cells.2.outputs.0", _stream("careful", "stderr"))),
    (widget_views, _set("cells.3.outputs.0.data", {tools.WIDGET_VIEW: {}, "image/png": png()})),
    (widget_views, _set("cells.2.outputs.0.data", {tools.WIDGET_VIEW: {}})),
    (pngs, _set("cells.3.outputs.0.data.image/png", png((400, 400), noise=True))),
    (pngs, _set("cells.3.outputs.0.data.image/png", png(colour=(255, 255, 255, 0)))),
    (size, lambda page: setattr(page, "size_bytes", 1_000_001)),
    (tags, _set("cells.2.metadata.tags", ["skip"])),
    (output_text, _set("cells.2.outputs.0", _stream("np.float64(0.5)"))),
    (output_text, _set("cells.2.outputs.0.data", {"text/plain": "<object at 0x7f00>"})),
    (output_text, _set("cells.2.outputs.0.data", {"text/html": "in /home" + "/ada/x.py"})),
    (normal_form, _set("cells.2.metadata.collapsed", False)),
    (code_cells, _set("cells.2.source", "\n".join(["x = 1"] * 21))),
    (code_cells, _set("cells.2.source", "")),
    (rhythm, _add_code),
    (forbidden_code, _set("cells.2.source", "%%capture\n1")),
    (forbidden_code, _set("cells.2.source", "widgets.Output()")),
    (forbidden_code, _set("cells.2.source", "interact(f, x=1)")),
    (forbidden_code, _set("cells.2.source", "import numpy\nimport matplotlib.pyplot as plt")),
    (frame, _set("cells.0.source", "# 01 · Why.")),
    (frame, _set("cells.1.source", "You will do, You will learn, You will need")),
    (frame, _set("cells.5.source", "## In practice\n\n## On your own\n\n## Further reading\n")),
    (captions, _set("cells.4.source", "So.")),
    (links, _set("cells.4.source", "**What you saw.** [a](99_none.ipynb)")),
    (links, _set("cells.4.source", "**What you saw.** [a](#Nowhere)")),
]


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.__name__)
def test_every_guard_accepts_a_good_page(guard):
    assert guard(good()) == []


@pytest.mark.parametrize("guard, plant", FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_guard_finds_a_planted_fault(guard, plant):
    page = good()
    plant(page)
    assert guard(page)


def test_every_guard_has_a_planted_fault():
    assert {guard for guard, _ in FAULTS} == set(GUARDS)


def test_links_to_another_notebook_are_followed_to_the_heading(tmp_path):
    (tmp_path / "02_b.ipynb").write_text(tools.dumps(good().nb), encoding="utf-8")
    page = Page(good().nb, tmp_path)
    page.cells[4].source = "[a](02_b.ipynb#In-practice) [b](02_b.ipynb)"
    assert links(page) == []
    page.cells[4].source = "[a](02_b.ipynb#Nowhere)"
    assert links(page)


def test_a_page_read_from_its_file_is_the_page(tmp_path):
    path = tmp_path / "00_a.ipynb"
    path.write_text(tools.dumps(good().nb), encoding="utf-8")
    assert load(path).nb == good().nb
    assert tools.is_normal(path)


def test_alt_text_replaces_the_caption():
    page = good()
    page.cells[4].source = "So."
    page.cells[3].metadata["alt"] = "A dot in the middle of a white square"
    assert captions(page) == []


# ---------------------------------------------------------------- tools/notebooks.py


def test_normalise_drops_what_changes_from_run_to_run():
    page = good()
    want = nbformat.from_dict(json.loads(json.dumps(page.nb)))
    nb = page.nb
    nb.metadata.widgets = {}
    nb.metadata.language_info.version = "3.12.1"
    nb.cells[2].metadata.execution = {"iopub.execute_input": "2026-01-01"}
    nb.cells[2].execution_count = nb.cells[2].outputs[0].execution_count = 5
    nb.cells[3].execution_count = 9
    nb.cells[3].outputs[0].data[tools.WIDGET_VIEW] = {"model_id": "0"}
    before = json.dumps(nb)
    assert tools.normalise(nb) == want
    assert json.dumps(nb) == before  # the argument is left alone
    assert tools.normalise(want) == want


def test_normalise_merges_adjacent_pieces_of_one_stream_only():
    page = good()
    page.cells[2].outputs = [
        _stream("a\n"),
        _stream("b\n"),
        _stream("c\n", "stderr"),
        _stream("d\n"),
    ]
    texts = [output.text for output in tools.normalise(page.nb).cells[2].outputs]
    assert texts == ["a\nb\n", "c\n", "d\n"]


def test_normalise_takes_this_machine_out_of_a_traceback():
    page = good()
    lines = ["File ~/a/flashlib/naive.py:3, in f", "File \x1b[32m/b/lib/site-packages/numpy/x.py:1"]
    page.cells[2].outputs = [nbformat.v4.new_output("error", ename="E", traceback=lines)]
    (output,) = tools.normalise(page.nb).cells[2].outputs
    assert output.traceback[0] == "File flashlib/naive.py:3, in f"
    assert output.traceback[1] == "File \x1b[32msite-packages/numpy/x.py:1"


def test_normalise_gives_missing_and_repeated_ids_the_same_names_every_time():
    page = good()
    del page.cells[0]["id"]
    page.cells[3].id = page.cells[2].id
    first, second = tools.normalise(page.nb), tools.normalise(page.nb)
    assert ids(Page(first)) == []
    assert first == second
    assert [first.cells[k].id for k in (1, 2, 4, 5)] == [f"cell-{k}" for k in (1, 2, 4, 5)]


def test_smaller_png_keeps_the_picture_and_stops_at_the_second_call():
    image = Image.linear_gradient("L").resize((300, 200)).convert("RGBA")
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=0)
    before = base64.b64encode(buffer.getvalue()).decode()
    after = tools.smaller_png(before)
    assert len(after) < 0.2 * len(before)
    assert tools.smaller_png(after) == after
    shown = Image.open(io.BytesIO(base64.b64decode(after))).convert("RGB")
    difference = np.asarray(shown, np.int16) - np.asarray(image.convert("RGB"), np.int16)
    assert np.abs(difference).max() <= 16


def test_smaller_png_leaves_a_transparent_picture_to_its_guard():
    clear = png(colour=(0, 0, 0, 0))
    assert tools.smaller_png(clear) == clear
