"""Widgets in a real browser: frames a second, and how long a changed control takes to be seen.

python -m flashlib.bench widgets

Needs JupyterLab, Notebook, playwright and Debian's Chromium. The tests use the same servers and the
same page, so what is tested is what is timed.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
PATHS = {
    "lab": "lab/tree/{}",
    "notebook": "notebooks/{}",
    "voila": "voila/render/{}",
    "static": "{}",
}
PICTURE = 'figure img[alt^="Q-outer"], figure img[alt^="K-outer"]'
COUNT_FRAMES = """
([selector, seconds]) => new Promise(done => {
  const seen = new Set(); let changes = 0, last = null; const start = performance.now();
  function look() {
    const picture = document.querySelector(selector), now = picture ? picture.alt : null;
    if (now !== last && last !== null) { changes += 1; }
    seen.add(now); last = now;
    const passed = (performance.now() - start) / 1000;
    if (passed < seconds) { requestAnimationFrame(look); }
    else { done({ changes, distinct: seen.size, seconds: passed }); }
  }
  look();
})
"""


def chromium():
    """The path of the first of `BROWSERS` that is found, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def write_notebook(path, *sources):
    """A notebook with these code cells, not executed, at `path`."""
    cells = [
        {"cell_type": "code", "id": f"cell-{k}", "metadata": {}, "source": source,
         "outputs": [], "execution_count": None}
        for k, source in enumerate(sources)
    ]  # fmt: skip
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")


@contextlib.contextmanager
def serve(kind, folder):
    """Serve `folder` on this machine ("lab", "notebook", "voila" or "static"); yields the address.

    Settings and history go into `folder`, not into the user's own.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *_arguments(kind, folder, port)]
    log = (folder / f"{kind}.log").open("w", encoding="utf-8")
    server = subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, env=_environment(kind, folder), cwd=folder
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/", server, folder / f"{kind}.log")
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.terminate()
        server.wait(timeout=30)
        log.close()


def _arguments(kind, folder, port):
    if kind == "static":
        return ["http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    if kind == "voila":
        return ["voila", str(folder), f"--port={port}", "--no-browser"]
    open_to_all = ["--IdentityProvider.token=", "--ServerApp.password=", "--allow-root"]
    return ["jupyter_server", f"--port={port}", "--no-browser", f"--ServerApp.root_dir={folder}",
            *open_to_all]  # fmt: skip


def _environment(kind, folder):
    """The present environment, with this flashlib importable and Jupyter's files under `folder`."""
    if kind == "lab":  # Notebook has no such setting and would complain
        settings = folder / ".jupyter" / "labconfig"
        settings.mkdir(parents=True, exist_ok=True)
        news = {"fetchNews": "false", "checkForUpdates": False}
        quiet = json.dumps({"@jupyterlab/apputils-extension:notification": news})
        (settings / "default_setting_overrides.json").write_text(quiet, encoding="utf-8")
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {
        "PYTHONPATH": path,
        "JUPYTER_CONFIG_DIR": str(folder / ".jupyter"),
        "JUPYTER_DATA_DIR": str(folder / ".jupyter-data"),
        "IPYTHONDIR": str(folder / ".ipython"),
    }


def _wait_for(address, server, log, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=5).close()
            return
        if server.poll() is not None:
            break
        time.sleep(0.2)
    raise RuntimeError(f"no server at {address}:\n{log.read_text(encoding='utf-8')[-2000:]}")


@contextlib.contextmanager
def open_page(address):
    """A page in headless Chromium that notes `page.strays`, requests off this machine, and
    `page.faults`, errors on the console."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        page = browser.new_page(viewport={"width": 1300, "height": 1150})
        page.set_default_timeout(90_000)
        page.strays, page.faults = [], []
        page.on("request", lambda request: _note_stray(page, request.url, address))
        page.on("console", lambda m: page.faults.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        try:
            yield page
        finally:
            browser.close()


def _note_stray(page, url, address):
    if not url.startswith((address, address.replace("http", "ws", 1), "data:", "blob:", "file:")):
        page.strays.append(url)


def open_notebook(page, address, kind, name):
    """Open `name`, in JupyterLab and Notebook run all cells, and wait for the sweep's picture."""
    page.goto(address + PATHS[kind].format(name))
    if kind in ("lab", "notebook"):
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
        _run_all(page)
    page.wait_for_selector(PICTURE)


def _run_all(page, tries=5):
    """Choose Run All Cells, again if the page wasn't ready for it and no cell has a number yet."""
    numbers = page.locator(".jp-InputPrompt")
    for _ in range(tries):
        page.click('.lm-MenuBar-itemLabel:text-is("Run")')
        page.click('.lm-Menu-itemLabel:text-is("Run All Cells")')
        for _ in range(30):
            if any(text.strip("[] :") for text in numbers.all_inner_texts()):
                return
            page.wait_for_timeout(200)
    raise RuntimeError("Run All Cells did nothing")


def _board(page):
    return page.locator(".widget-vbox", has=page.locator(PICTURE)).first


def play(page, seconds=5.0):
    """Set the highest speed by keyboard, press repeat and play, and count the frames seen.

    Returns {"changes", "distinct", "seconds"}.
    """
    board = _board(page)
    board.locator(".widget-slider", has_text="ms a frame").locator(".noUi-handle").press("Home")
    buttons = board.locator(".widget-play button")
    buttons.nth(2).click()
    buttons.nth(0).click()
    counted = page.evaluate(COUNT_FRAMES, [PICTURE, seconds])
    buttons.nth(0).click()
    return counted


def redraw_seconds(page, times=10):
    """Seconds from a key press in the field of the seed to the new picture, `times` of them."""
    number = _board(page).locator(".widget-text", has_text="seed").locator("input")
    taken = []
    for _ in range(times):
        before = page.locator(PICTURE).first.get_attribute("src")
        start = time.perf_counter()
        number.press("ArrowUp")
        page.wait_for_function(
            "([selector, old]) => (document.querySelector(selector) || {src: old}).src !== old",
            arg=[PICTURE, before],
        )  # fmt: skip
        taken.append(time.perf_counter() - start)
        page.wait_for_timeout(700)  # until the rest of the frames have come
    return taken


def main_widgets(argv=None):
    """Print a table for JupyterLab and Notebook 7; the exit code is 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="python -m flashlib.bench widgets", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to play")
    args = parser.parse_args(argv)
    if chromium() is None:
        print("needs Debian's Chromium: apt-get install chromium", file=sys.stderr)
        return 1
    print("tile_sweep in headless Chromium      frames/s   redraw, median of 10   first picture")
    met = True
    for kind in ("lab", "notebook"):
        with tempfile.TemporaryDirectory() as name, serve(kind, Path(name)) as address:
            write_notebook(
                Path(name) / "sweep.ipynb", "from flashlib import widgets\nwidgets.tile_sweep()"
            )
            with open_page(address) as page:
                start = time.perf_counter()
                open_notebook(page, address, kind, "sweep.ipynb")
                opened_s = time.perf_counter() - start
                counted = play(page, args.seconds)
                page.wait_for_timeout(1000)
                redraw_s = statistics.median(redraw_seconds(page))
        rate = counted["changes"] / counted["seconds"]
        met = met and rate >= 25 and redraw_s <= 1
        print(f"{kind:34} {rate:10.1f} {redraw_s:20.2f} s {opened_s:13.1f} s")
    print("goals: 25 frames/s, 1 s" + ("" if met else ": MISSED"))
    return 0 if met else 1
