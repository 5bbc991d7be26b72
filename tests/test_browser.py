"""What `make lab` opens works in a real browser: JupyterLab runs notebook 03 from top to bottom."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

if not os.environ.get("CI"):  # in CI a missing tool is a failure
    pytest.importorskip("jupyterlab")
    pytest.importorskip("playwright")

ROOT = Path(__file__).parents[1]
LAB = [
    "--no-browser", "--allow-root", "--expose-app-in-browser", "--ServerApp.port_retries=0",
    # JupyterLab asks the network for news, updates and extensions: not from a test.
    "--LabApp.news_url=None", "--LabApp.extension_manager=readonly",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]  # fmt: skip
LOCAL = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
START_S, RUN_S = 60, 120

IDLE = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return panel?.context?.isReady && panel.sessionContext.session?.kernel?.status === 'idle';
}"""
ALL_RAN = """() => {
    const model = window.jupyterapp.shell.currentWidget.content.model;
    const code = [...model.cells].filter(cell => cell.type === 'code');
    const failed = cell => !cell.getMetadata('tags')?.includes('raises-exception')
        && cell.toJSON().outputs.some(output => output.output_type === 'error');
    return code.some(failed) || code.every(cell => cell.executionCount !== null);
}"""
CELLS = "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(c => c.toJSON())"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the notebooks with outputs cleared, and a notebook that fails."""
    import nbformat

    folder = tmp_path_factory.mktemp("course") / "notebooks"
    shutil.copytree(ROOT / "notebooks", folder)
    for path in folder.glob("*.ipynb"):
        nb = nbformat.read(path, as_version=4)
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.update(outputs=[], execution_count=None)
        nbformat.write(nb, path)
    code = [
        "from IPython.display import HTML\nHTML('<img src=\"http://elsewhere.invalid/a.png\">')",
        "1 / 0",
    ]
    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in code])
    broken.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(broken, folder / "broken.ipynb")
    return folder


@pytest.fixture(scope="module")
def lab(folder):
    """JupyterLab on `folder`, without the settings of whoever runs the test; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token, home = secrets.token_hex(16), folder.parent / "jupyter"
    env = os.environ | {f"JUPYTER_{kind}_DIR": str(home) for kind in ("CONFIG", "DATA", "RUNTIME")}
    env["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "jupyterlab", str(folder), f"--port={port}", *LAB]
    with open(folder.parent / "lab.log", "wb") as log:
        server = subprocess.Popen(
            [*command, f"--IdentityProvider.token={token}"], env=env, stdout=log, stderr=log
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/api?token={token}", server, Path(log.name))
            yield f"http://127.0.0.1:{port}/lab/tree/{{}}?token={token}&reset"
        finally:
            server.terminate()
            server.wait(timeout=20)


def _wait_for(url, server, log):
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')}")


def run_all(chromium, lab, name):
    """Open `name`, press Run All; the cells, what the console complained of, strange requests."""
    page = chromium.new_page()
    complaints, strangers = [], []
    page.on("console", lambda m: m.type == "error" and complaints.append(f"{m.text} {m.location}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: r.url.startswith(LOCAL) or strangers.append(r.url))
    page.route(lambda url: not url.startswith(LOCAL), lambda route: route.abort())
    page.goto(lab.format(name))
    page.wait_for_function(IDLE, timeout=START_S * 1000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.wait_for_function(ALL_RAN, timeout=RUN_S * 1000)
    page.wait_for_function(IDLE, timeout=RUN_S * 1000)
    cells = page.evaluate(CELLS)
    page.close()
    return [cell for cell in cells if cell["cell_type"] == "code"], complaints, strangers


def failures(cells):
    """Outputs that are errors, but for those that a cell announces."""
    return [
        output
        for cell in cells
        if "raises-exception" not in cell["metadata"].get("tags", [])
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]


def test_jupyterlab_runs_notebook_03_from_top_to_bottom(chromium, lab, folder):
    (notebook,) = folder.glob("03_*.ipynb")
    cells, complaints, strangers = run_all(chromium, lab, notebook.name)
    assert failures(cells) == []
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert any("image/png" in o.get("data", {}) for cell in cells for o in cell["outputs"])
    assert complaints == []
    assert strangers == []


def test_a_failing_cell_a_complaint_and_a_strange_request_are_seen(chromium, lab):
    cells, complaints, strangers = run_all(chromium, lab, "broken.ipynb")
    assert complaints
    assert strangers == ["http://elsewhere.invalid/a.png"]
    assert [output["ename"] for output in failures(cells)] == ["ZeroDivisionError"]
