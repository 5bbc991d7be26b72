"""Slides, pages and the browser version are made from the notebooks without losing a word."""

import copy
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbconvert")

import deck  # noqa: E402
import index  # noqa: E402
import lite  # noqa: E402
import npm  # noqa: E402
import pages  # noqa: E402
import slides  # noqa: E402

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
every_notebook = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=[copy.deepcopy(cell) for cell in cells])


def read(path):
    return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)


def picture():
    data = {"image/png": "AAAA", "text/plain": "<Figure>"}
    return nbformat.v4.new_output("display_data", data)


# ---------------------------------------------------------------- slide types


@every_notebook
def test_every_cell_says_where_its_slide_begins(path):
    assert slides.missing(read(path)) == [], "run tools/slides.py"


def test_a_slide_type_is_chosen_by_what_a_cell_holds():
    cells = [
        text("# 01 · Why?"), code("import numpy as np\n\nx = 1"), text("## A\n\nWords."),
        text("More words."), code("1 + 1"),
        text("<details><summary>Solution</summary>x</details>"),
    ]  # fmt: skip
    found = [cell.metadata.slideshow.slide_type for cell in slides.assign(notebook(*cells)).cells]
    assert found == ["slide", "skip", "slide", "fragment", "subslide", "notes"]


def test_a_slide_type_set_by_hand_stays_unless_reset():
    nb = notebook(text("# A?"), text("b"))
    nb.cells[1].metadata["slideshow"] = {"slide_type": "skip"}
    assert slides.assign(nb).cells[1].metadata["slideshow"]["slide_type"] == "skip"
    assert slides.assign(nb, reset=True).cells[1].metadata["slideshow"]["slide_type"] == "fragment"
    assert "slideshow" not in nb.cells[0].metadata  # the argument is left alone


def test_check_finds_a_cell_without_a_slide_type(tmp_path):
    path = tmp_path / "a.ipynb"
    nbformat.write(notebook(text("# A?"), text("b")), path)
    assert slides.main([str(path), "--check"]) == 1
    assert slides.main([str(path)]) == 0
    assert slides.main([str(path), "--check"]) == 0


# ---------------------------------------------------------------- the deck


def slides_of(nb):
    """The deck as a list of slides, each a list of cells without notes."""
    found = []
    for cell in deck.deck(nb).cells:
        kind = cell.metadata["slideshow"]["slide_type"]
        if kind in ("slide", "subslide"):
            found.append([])
        if kind != "notes":
            found[-1].append(cell)
    return found


def words(nb):
    """How often each word stands in the Markdown cells, notes included."""
    found = Counter()
    for cell in nb.cells:
        skipped = cell.metadata["slideshow"]["slide_type"] == "skip"
        if cell.cell_type == "markdown" and not skipped:
            markup = r"<summary>.*?</summary>|<[^>]*>|^\|[-:| ]+\|$"
            found += Counter(re.sub(markup, " ", cell.source, flags=re.M).split())
    return found


@every_notebook
def test_a_deck_keeps_every_word_and_every_line_of_code(path):
    nb = slides.assign(read(path))
    made = deck.deck(nb)
    assert words(nb) - words(made) == Counter()
    for cell in nb.cells:
        shown = cell.cell_type == "code" and cell.metadata["slideshow"]["slide_type"] != "skip"
        if shown and "hide-input" not in cell.metadata.get("tags", []):
            lines = {line for other in made.cells for line in other.source.splitlines()}
            assert set(cell.source.splitlines()) <= lines


@every_notebook
def test_code_is_at_most_twelve_lines_a_slide_and_a_question_has_one_of_its_own(path):
    for slide in slides_of(read(path)):
        lines = sum(len(c.source.splitlines()) for c in slide if c.cell_type == "code")
        assert lines <= 12
        if any('class="question"' in cell.source for cell in slide):
            others = [cell for cell in slide if 'class="question"' not in cell.source]
            assert all(cell.source.startswith("## ") and len(slide) == 2 for cell in others)


def test_the_lecturer_reads_what_comes_after_a_question_and_a_figure():
    nb = notebook(
        text("# A?"), text("## B\n\n**Predict:** how many?"), code("plot()", outputs=[picture()]),
        text("**What you saw.** Figure: a dot. Four."),
    )  # fmt: skip
    notes = [c.source for c in deck.deck(nb).cells if c.metadata.slideshow.slide_type == "notes"]
    assert len(notes) == 2 and all("Four." in note for note in notes)


def test_blocks_are_not_cut_inside_code_mathematics_or_folds():
    pieces = [
        "Words.", "$$\na\n\nb\n$$", "```python\nx\n\ny\n```", "<details>\n\nz\n\n</details>",
        "$$one\\ line$$", "- a\n- b",
    ]  # fmt: skip
    assert deck.blocks("\n\n".join(pieces)) == pieces


def test_a_long_table_is_cut_between_rows_and_keeps_its_head():
    rows = [f"| {k} | words |" for k in range(40)]
    pieces = deck.fitting("\n".join(["| a | b |", "|---|---|", *rows]))
    assert len(pieces) > 1
    assert all(piece.startswith("| a | b |\n|---|---|\n| ") for piece in pieces)
    assert [r for p in pieces for r in p.splitlines()[2:]] == rows


def test_long_code_is_cut_at_a_blank_line():
    source = "\n".join(["x = 1"] * 9 + ["", ""] + ["y = 2"] * 9)
    assert deck.code_parts(source) == ["\n".join(["x = 1"] * 9), "\n".join(["y = 2"] * 9)]


def test_a_caption_is_the_first_sentence_said_of_a_figure():
    assert deck.caption("**What you saw.** Figure: `a` meets $b$. More.") == "a meets b."
    assert deck.caption("Something else.") == ""


# ---------------------------------------------------------------- pages


def exported(template, nb):
    kinds = {"page": pages.HTMLExporter, "deck": pages.SlidesExporter}
    exporter = pages.exporter_of(kinds[template], template)
    return pages.export(exporter, nb, "01_a", ["00_z", "01_a"], "../pages/")


@pytest.mark.parametrize("template", ["page", "deck"])
def test_an_export_loads_nothing_from_elsewhere_and_describes_its_figures(template):
    cells = [
        text("# 01 · A?"), code("plot()", outputs=[picture()]),
        text("**What you saw.** Figure: a dot. [00](00_z.ipynb#B) [x](../flashlib/tiles.py)"),
    ]  # fmt: skip
    html = exported(template, slides.assign(pages.prepared(notebook(*cells))))
    loaded = re.findall(r'(?:src|<link[^>]*href)\s*=\s*"([^"]+)"|url\(([^)]*)\)', html)
    assert loaded and not [found for found in loaded if "//" in "".join(found)]
    assert 'alt="a dot."' in html
    assert 'href="../pages/00_z.html#B"' in html
    assert 'href="../pages/tiles.py.html"' in html


def test_what_is_exported_is_the_committed_output_unless_it_is_a_widget():
    nb = notebook(code("1", outputs=[picture()]))
    assert pages.animated(nb) == nb


def test_the_index_lists_what_is_there(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / f"{FILES[0].stem}.html").write_text("", encoding="utf-8")
    index.write_index(tmp_path)
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall('href="([^"]+)"', html) == [f"pages/{FILES[0].stem}.html"]
    assert all(index.title(read(path)) in html for path in FILES)


# ---------------------------------------------------------------- packages


def pack(folder, name, files):
    """A tarball as npm packs it, under the name that the cache uses."""
    with tarfile.open(folder / name, "w:gz") as archive:
        for path, raw in files.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(raw)
            archive.addfile(entry, io.BytesIO(raw))


def test_a_package_other_than_the_pinned_one_is_refused_and_removed(tmp_path):
    version = npm.PINS["mathjax"]["version"]
    pack(tmp_path, f"mathjax-{version}.tgz", {"a.js": b"1"})
    with pytest.raises(ValueError, match="expected sha512-"):
        npm.extract("mathjax", {"a.js": "."}, tmp_path, cache=tmp_path)
    assert not list(tmp_path.glob("*.tgz"))


def test_files_are_taken_by_pattern_and_a_pattern_that_matches_nothing_is_an_error(
    tmp_path, monkeypatch
):
    pack(tmp_path, "a.tgz", {"dist/a.js": b"1", "b.js": b"2"})
    monkeypatch.setattr(npm, "tarball", lambda name, cache: tmp_path / "a.tgz")
    npm.extract("a", {"dist/*.js": "lib"}, tmp_path)
    assert [path.name for path in (tmp_path / "lib").iterdir()] == ["a.js"]
    with pytest.raises(ValueError, match="no file matches"):
        npm.extract("a", {"c.js": "."}, tmp_path)


# ---------------------------------------------------------------- in a browser tab


def test_a_wheel_that_the_lock_does_not_name_is_refused(tmp_path, monkeypatch):
    wheel, dist = b"wheel", tmp_path / "dist"
    package = {"file_name": "a.whl", "sha256": hashlib.sha256(wheel).hexdigest(), "depends": []}

    def extract(name, patterns, folder):
        folder.mkdir(exist_ok=True)
        lock = json.dumps({"packages": {"a": package}})
        (folder / lite.LOCK).write_text(lock, encoding="utf-8")

    def pip(*arguments):
        with zipfile.ZipFile(Path(arguments[3]) / "b.whl", "w") as archive:
            archive.writestr("deep/a.whl", wheel)

    monkeypatch.setattr(lite, "NEEDED", ("a",))
    monkeypatch.setattr(lite, "pip", pip)
    monkeypatch.setattr(npm, "extract", extract)
    lite.make_dist(dist)
    assert (dist / "a.whl").read_bytes() == wheel
    wheel = b"other"
    with pytest.raises(ValueError, match="not the file"):
        lite.make_dist(dist)


def test_a_lock_is_followed_to_all_that_is_needed():
    packages = {"a": ["B_c"], "b-c": ["d"], "d": ["a"], "e": []}
    lock = {"packages": {name: {"depends": needs} for name, needs in packages.items()}}
    assert lite.closure(lock, ["a"]) == ["a", "b-c", "d"]


@every_notebook
def test_a_notebook_that_cannot_run_in_a_browser_becomes_a_page_with_all_it_shows(path):
    nb = read(path)
    page = lite.as_page(nb)
    nbformat.validate(page)
    assert {cell.cell_type for cell in page.cells} == {"markdown"}
    assert "PyTorch and Triton" in page.cells[1].source
    everything = "\n".join(cell.source for cell in page.cells)
    for cell in nb.cells:
        hidden = "hide-input" in cell.metadata.get("tags", [])
        assert hidden or cell.source in everything
    wanted = sum("image/png" in o.get("data", {}) for c in nb.cells for o in c.get("outputs", []))
    assert sum(len(cell.get("attachments", {})) for cell in page.cells) == wanted


def test_a_notebook_that_runs_in_a_browser_first_brings_the_library():
    nb = lite.with_setup(notebook(text("# A?"), code("1")))
    assert [cell.cell_type for cell in nb.cells] == ["markdown", "code", "code"]
    assert "%pip install -q flash-attention-from-scratch" in nb.cells[1].source
