"""The tile sweep in real pages: JupyterLab, Notebook 7, Voilà, and an export without a kernel."""

import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright")
pytest.importorskip("ipywidgets")
nbclient = pytest.importorskip("nbclient")
nbconvert = pytest.importorskip("nbconvert")
nbformat = pytest.importorskip("nbformat")

from flashlib.bench_widgets import (  # noqa: E402
    PICTURE,
    chromium,
    open_notebook,
    open_page,
    play,
    redraw_seconds,
    serve,
    write_notebook,
)

ROOT = Path(__file__).parents[1]
IN_CI = os.environ.get("CI", "").lower() == "true"
HTML_MANAGER = "@jupyter-widgets/html-manager@1.0.15"
NOT_OURS = {  # Notebook 7.6.5 says this of any notebook, an empty one too
    "Cannot read properties of undefined (reading 'schema')"
}
CELLS = ("from flashlib import widgets", "sweep = widgets.tile_sweep()\nsweep")

pytestmark = pytest.mark.skipif(
    chromium() is None and not IN_CI, reason="no Chromium here: apt-get install chromium"
)


def notebook_03():
    """The notebook that holds the sweep, or None while it isn't written."""
    found = [p for p in (ROOT / "notebooks").glob("03*.ipynb")
             if "widgets.tile_sweep(" in p.read_text(encoding="utf-8")]  # fmt: skip
    return found[0] if found else None


def is_quiet(page):
    assert page.strays == [], "requests that leave the machine"
    assert set(page.faults) <= NOT_OURS, "errors on the console"


def animates(page):
    counted = play(page, seconds=3)
    assert counted["distinct"] >= 10, counted
    return counted


@pytest.mark.parametrize("kind", ["lab", "notebook"])
def test_run_all_play_and_redraw(kind, tmp_path):
    write_notebook(tmp_path / "sweep.ipynb", *CELLS)
    with serve(kind, tmp_path) as address, open_page(address) as page:
        open_notebook(page, address, kind, "sweep.ipynb")
        animates(page)
        page.wait_for_timeout(1000)
        assert len(redraw_seconds(page, 2)) == 2  # waits until the picture is another one
        step = page.locator(".widget-text", has_text="step").locator("input")
        step.fill("5")
        step.press("Enter")
        page.wait_for_selector('figure img[alt*="tile 5 of 36"]')
        step.press("ArrowUp")
        page.wait_for_selector('figure img[alt*="tile 6 of 36"]')
        step.press("ArrowDown")
        page.wait_for_selector('figure img[alt*="tile 5 of 36"]')
        is_quiet(page)


@pytest.mark.parametrize("kind", ["lab", "notebook"])
@pytest.mark.skipif(notebook_03() is None, reason="notebook 03 has no tile_sweep yet")
def test_notebook_03_runs_and_plays(kind, tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path, dirs_exist_ok=True)
    with serve(kind, tmp_path) as address, open_page(address) as page:
        open_notebook(page, address, kind, notebook_03().name)
        animates(page)
        is_quiet(page)


def test_voila_animates_the_sweep(tmp_path):
    pytest.importorskip("voila")
    write_notebook(tmp_path / "sweep.ipynb", *CELLS)
    with serve("voila", tmp_path) as address, open_page(address) as page:
        open_notebook(page, address, "voila", "sweep.ipynb")
        animates(page)
        assert all("fontawesome" in url for url in page.strays)  # Voilà's own template asks for it


def export(folder, **urls):
    """Execute the two cells and export them with the widgets' state: index.html in `folder`."""
    write_notebook(folder / "sweep.ipynb", *CELLS)
    notebook = nbformat.read(folder / "sweep.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, kernel_name="python3", store_widget_state=True)
    client.execute(cwd=str(ROOT))
    html, _ = nbconvert.HTMLExporter(**urls).from_notebook_node(notebook)
    (folder / "index.html").write_text(html, encoding="utf-8")
    return notebook


def html_manager(folder):
    """Unpack html-manager beside the page with npm's own client; without it, skip (not in CI)."""
    npm = shutil.which("npm")
    if npm is None and not IN_CI:
        pytest.skip("no npm here to fetch html-manager with")
    done = subprocess.run(
        [npm, "pack", HTML_MANAGER], cwd=folder, capture_output=True, encoding="utf-8"
    )
    if done.returncode and not IN_CI:
        pytest.skip(f"npm pack {HTML_MANAGER} failed: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
    place = folder / "@jupyter-widgets" / "html-manager"  # where it looks for its fonts
    place.parent.mkdir()
    (folder / "package").rename(place)
    return "@jupyter-widgets/html-manager/dist/"


def test_an_exported_page_animates_without_kernel_and_offline(tmp_path):
    manager = html_manager(tmp_path)
    voila = pytest.importorskip("voila")
    require = next(Path(voila.__file__).parents[4].glob("share/jupyter/voila/**/require.min.js"))
    shutil.copy(require, tmp_path / "require.js")
    export(
        tmp_path,
        widget_renderer_url=f"{manager}embed-amd.js",
        require_js_url="require.js",
        mathjax_url="data:text/javascript,",
    )
    with serve("static", tmp_path) as address, open_page(address) as page:
        open_notebook(page, address, "static", "index.html")
        animates(page)
        assert page.strays == []


def test_without_widget_state_an_exported_page_shows_the_poster(tmp_path):
    notebook = export(tmp_path)
    notebook.metadata.pop("widgets")
    bundle = notebook.cells[1].outputs[0].data
    bundle.pop("application/vnd.jupyter.widget-view+json")  # as `make notebooks` does
    html, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert re.search(r'<img[^>]*src="data:image/png;base64,', html)
    assert bundle["text/plain"] == "Widget: the tile sweep"
    assert "widget-view" not in json.dumps(notebook)


def test_the_picture_is_found_by_its_words():
    assert PICTURE.count("img[alt^=") == 2
