"""Slides, pages and the browser version in a real browser, with the network cut off.

JupyterLite with 00 to 05 takes minutes: LITE=all python -m pytest tests/test_share_browser.py
"""

import os
import subprocess
import time
from pathlib import Path

import offline
import pytest

pytest.importorskip("nbconvert")
pytest.importorskip("playwright")

ROOT = Path(__file__).parents[1]
NAMES = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
TILED = "03_tiled_forward"
LITE_PYTHON = ROOT / ".venv-lite" / "bin" / "python"
SCREEN = {"viewport": {"width": 1280, "height": 720}}
READY = "() => window.Reveal?.isReady() && window.MathJax?.startup?.promise"
# Of the slide in view: does it spill over, and which text is set below 24 px = 18 pt?
FAULTS = """() => {
    const slide = Reveal.getCurrentSlide(), faults = [];
    const name = slide.innerText.slice(0, 60);
    for (const fragment of slide.querySelectorAll('.fragment')) fragment.classList.add('visible');
    if (slide.scrollHeight > slide.clientHeight + 2) faults.push(`spills over: ${name}`);
    const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode, style = getComputedStyle(node.parentElement);
        const seen = node.parentElement.checkVisibility() && node.textContent.trim();
        const sign = node.parentElement.closest('mjx-container, sub, sup, button');
        if (seen && !sign && parseFloat(style.fontSize) < 24)
            faults.push(`${style.fontSize}: ${node.textContent.slice(0, 40)}`);
    }
    return faults;
}"""
MATHS = """() => [document.querySelectorAll('mjx-container svg').length,
               document.querySelectorAll('[data-mjx-error], mjx-merror').length]"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Slides and pages of all notebooks; in 03 the widgets carry their state."""
    import pages

    folder = tmp_path_factory.mktemp("share")
    found = {}
    for name in NAMES:
        nb = pages.read(name)
        found[name] = pages.prepared(pages.animated(nb, pages.CACHE) if name == TILED else nb)
    pages.write_slides(found, folder / "slides")
    pages.write_pages(found, folder / "pages")
    return folder


def opened(page, path):
    """Open a file; what goes wrong in it is collected in the list returned."""
    complaints = []
    page.on("console", lambda m: m.type == "error" and complaints.append(m.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    return complaints


def frames_seen(page, place, seconds=3):
    """The different frame numbers that a widget shows after Play is pressed."""
    player = page.locator(f"{place} .widget-hbox:has(> .widget-play)").first
    player.locator("button").first.click()
    seen, end = set(), time.monotonic() + seconds
    while time.monotonic() < end:
        seen.add(player.locator("input[type=number]").first.input_value())
        page.wait_for_timeout(50)
    return seen


# ---------------------------------------------------------------- slides


@pytest.mark.parametrize("name", NAMES)
def test_slides_advance_to_the_end_nothing_spills_over_and_text_has_18_points(name, chromium, site):
    with offline.offline_page(chromium, **SCREEN) as (page, strangers):
        complaints = opened(page, site / "slides" / f"{name}.html")
        page.wait_for_function(READY)
        page.evaluate("() => MathJax.startup.promise")
        faults, count = [], 0
        while not page.evaluate("() => Reveal.isLastSlide()"):
            faults += page.evaluate(FAULTS)
            page.evaluate("() => Reveal.availableFragments().next && Reveal.nextFragment()")
            before = page.evaluate("() => Reveal.getSlidePastCount()")
            while page.evaluate("() => Reveal.getSlidePastCount()") == before:
                page.keyboard.press("Space")
            count += 1
        mathematics, errors = page.evaluate(MATHS)
    assert count + 1 >= 10
    assert faults == []
    assert mathematics > 0 and errors == 0
    assert complaints == []
    assert strangers == []


def test_the_tile_sweep_moves_on_a_slide(chromium, site):
    with offline.offline_page(chromium, **SCREEN) as (page, strangers):
        complaints = opened(page, site / "slides" / f"{TILED}.html")
        page.wait_for_selector(".jupyter-widgets button", state="attached")
        page.evaluate("""() => {
            const slide = document.querySelector('.jupyter-widgets').closest('section');
            const {h, v} = Reveal.getIndices(slide);
            Reveal.slide(h, v);
        }""")
        assert len(frames_seen(page, "section.present")) >= 5
        assert page.evaluate(FAULTS) == []
        assert complaints == []
        assert strangers == []


# ---------------------------------------------------------------- pages


def test_a_page_sets_its_mathematics_and_its_tile_sweep_moves(chromium, site):
    with offline.offline_page(chromium) as (page, strangers):
        complaints = opened(page, site / "pages" / f"{TILED}.html")
        page.wait_for_selector(".jupyter-widgets button")
        page.evaluate("() => MathJax.startup.promise")
        mathematics, errors = page.evaluate(MATHS)
        assert mathematics > 20 and errors == 0
        assert len(frames_seen(page, "main")) >= 5
        assert page.evaluate("() => [...document.images].every(image => image.alt)")
        assert complaints == []
        assert strangers == []


def test_a_request_for_another_host_is_refused_and_seen(chromium, tmp_path):
    path = tmp_path / "a.html"
    path.write_text('<img src="https://elsewhere.invalid/a.png">', encoding="utf-8")
    with offline.offline_page(chromium) as (page, strangers):
        complaints = opened(page, path)
        assert strangers == ["https://elsewhere.invalid/a.png"]
        offline.wait_until(lambda: complaints, 5, "no complaint")


def test_small_text_and_a_slide_too_full_are_seen(chromium, site):
    with offline.offline_page(chromium, **SCREEN) as (page, _):
        opened(page, site / "slides" / f"{NAMES[0]}.html")
        page.wait_for_function(READY)
        page.evaluate("""() => Reveal.getCurrentSlide().insertAdjacentHTML(
            'beforeend', '<p style="font-size: 20px">x</p><p style="height: 900px">y</p>')""")
        faults = page.evaluate(FAULTS)
    assert len(faults) == 2 and faults[0].startswith("spills") and faults[1] == "20px: x"


# ---------------------------------------------------------------- JupyterLite

KERNEL_IDLE = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return panel?.context?.isReady && panel.sessionContext.session?.kernel?.status === 'idle';
}"""
START = """() => {
    const app = window.jupyterapp;
    const run = () => app.commands.execute('notebook:run-all-cells').then(() => window.ran = true);
    app.commands.execute('notebook:clear-all-cell-outputs').then(run);
}"""
SECOND_STARTED = """() => window.ran || window.jupyterapp.shell.currentWidget.content.widgets
    .filter(cell => cell.model.type === 'code')[1].model.executionCount"""
CELLS = "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(c => c.toJSON())"
SHOW_SWEEP = """() => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const k = notebook.widgets.findIndex(w => w.model.sharedModel.source.includes('tile_sweep('));
    notebook.activeCellIndex = k;
    return notebook.scrollToItem(k, 'start');
}"""
EXECUTE = """async code => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
    const future = kernel.requestExecute({code});
    let said = '';
    future.onIOPub = message => said += message.content.text ?? message.content.evalue ?? '';
    await future.done;
    return said;
}"""
CHECK = """
from flashlib import exercises as ex
print(ex.default_scale.check(lambda d: d**-0.5).state, "and", ex.default_scale.check(abs).state)
"""


@pytest.fixture(scope="module")
def lite_address(tmp_path_factory):
    """A self-contained JupyterLite site below a subpath; skips where its parts can't be had."""
    import lite

    if not LITE_PYTHON.exists() and not os.environ.get("CI"):
        pytest.skip("make lite has not been run: no .venv-lite")
    folder = tmp_path_factory.mktemp("lite")
    made = subprocess.run(
        [LITE_PYTHON, ROOT / "tools" / "lite.py", "--make-dist", folder / "pyodide"],
        capture_output=True, text=True,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(
            f"no Pyodide release: {lite.WHEELS_FROM} or npm's pyodide: {made.stderr[-300:]}"
        )
    out = folder / "host" / "some" / "path" / "lite"
    subprocess.run(
        [LITE_PYTHON, ROOT / "tools" / "lite.py", "--out", out],
        env=os.environ | {"PYODIDE_DIST": str(folder / "pyodide")},
        check=True, capture_output=True,
    )  # fmt: skip
    with offline.served(folder / "host") as address:
        yield f"{address}/some/path/lite"


def run_all(page, address, name, seconds):
    """Run a notebook; (cells, seconds to the end of the first cell)."""
    start = time.monotonic()
    page.goto(f"{address}/lab/index.html?path=notebooks/{name}.ipynb")
    page.wait_for_function(KERNEL_IDLE, timeout=1000 * seconds)
    page.evaluate(START)
    page.wait_for_function(SECOND_STARTED, timeout=1000 * seconds)
    first_cell_s = time.monotonic() - start
    page.wait_for_function("() => window.ran", timeout=1000 * seconds)
    return page.evaluate(CELLS), first_cell_s


def failures(cells):
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    errors = [
        f"{output['ename']}: {output['evalue']}"
        for cell in code
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]
    return errors + [cell["source"] for cell in code if cell["execution_count"] is None]


def test_jupyterlite_runs_00_offline_below_a_subpath_and_checks_an_exercise(chromium, lite_address):
    with offline.offline_page(chromium) as (page, strangers):
        cells, first_cell_s = run_all(page, lite_address, NAMES[0], 180)
        print(f"time to first cell: {first_cell_s:.0f} s")
        assert failures(cells) == []
        assert any("image/png" in o.get("data", {}) for c in cells for o in c.get("outputs", []))
        assert "right and wrong" in page.evaluate(EXECUTE, CHECK)
        assert strangers == []


@pytest.mark.skipif(os.environ.get("LITE") != "all", reason="minutes: set LITE=all")
@pytest.mark.parametrize("name", [name for name in NAMES if "01" <= name < "06"])
def test_jupyterlite_runs_every_numpy_notebook(name, chromium, lite_address):
    with offline.offline_page(chromium) as (page, strangers):
        cells, first_cell_s = run_all(page, lite_address, name, 400)
        print(f"{name}: time to first cell {first_cell_s:.0f} s")
        assert failures(cells) == []
        if name == TILED:
            page.evaluate(SHOW_SWEEP)
            assert len(frames_seen(page, ".jp-OutputArea")) >= 5
        assert strangers == []


@pytest.mark.skipif(os.environ.get("LITE") != "all", reason="minutes: set LITE=all")
def test_jupyterlite_opens_06_as_a_page_that_says_why(chromium, lite_address):
    with offline.offline_page(chromium) as (page, strangers):
        (name,) = [name for name in NAMES if name.startswith("06")]
        page.goto(f"{lite_address}/lab/index.html?path=notebooks/{name}.ipynb")
        why = page.locator(".jp-RenderedMarkdown").get_by_text("needs PyTorch and Triton")
        why.wait_for(timeout=60_000)
        assert {cell["cell_type"] for cell in page.evaluate(CELLS)} == {"markdown"}
        assert strangers == []
