"""Export the notebooks: slides, pages and handouts that need neither kernel nor network.

python tools/pages.py slides    reveal.js slides      _site/slides/
python tools/pages.py site      pages and handouts    _site/pages/, _site/handouts/

What is exported are the notebooks as committed. Those with widgets are run once more in a copy, to
get the widgets' state: it makes them move. Needs npm for the scripts and fonts they load.
"""

import argparse
import copy
import hashlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter, SlidesExporter

import npm
from deck import caption, deck
from flashlib.bench_widgets import CHROMIUM_FLAGS, chromium
from index import ROOT, SITE, title, write_index
from notebooks import CELL_TIMEOUT_S, NOTEBOOKS

WEB = Path(__file__).parent / "web"
CACHE = SITE / ".cache" / "notebooks"
COMMON = {
    "mathjax": ("es5/tex-svg-full.js",),
    "@jupyter-widgets/html-manager": ("dist/embed.js", "dist/*.woff2"),
    "@fontsource/source-sans-3": (
        "files/source-sans-3-latin-400-normal.woff2",
        "files/source-sans-3-latin-700-normal.woff2",
        "files/source-sans-3-greek-400-normal.woff2",
    ),
    "@fontsource/inconsolata": (
        "files/inconsolata-latin-400-normal.woff2",
        "files/inconsolata-latin-700-normal.woff2",
    ),
}
REVEAL = {
    "reveal.js": ("dist/reset.css", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js")
}


# ---------------------------------------------------------------- widgets that move


def animated(nb, cache=None):
    """A copy of `nb` whose widgets carry their state; all other outputs stay as committed.

    cache: folder for what was run, under a name made from the notebook and the library.
    """
    nb = copy.deepcopy(nb)
    last = max((k for k, cell in enumerate(nb.cells) if _is_widget(cell)), default=None)
    if last is None:
        return nb
    store = cache / f"{_fingerprint(nb)}.ipynb" if cache else None
    if store and store.exists():
        ran = nbformat.read(store, as_version=4)
    else:
        ran = _run(nb, last)
        if store:
            store.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(ran, store)
    for cell, with_state in zip(nb.cells, ran.cells, strict=False):
        if _is_widget(cell):
            cell.outputs = with_state.outputs
    nb.metadata["widgets"] = ran.metadata["widgets"]
    return nb


def _is_widget(cell):
    """Boards say `Widget: …` where nothing else can be shown."""
    outputs = cell.get("outputs", [])
    return any(o.get("data", {}).get("text/plain", "").startswith("Widget:") for o in outputs)


def _fingerprint(nb):
    digest = hashlib.sha256(nbformat.writes(nb).encode())
    for path in sorted((ROOT / "flashlib").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _run(nb, last):
    """The first cells of `nb`, up to number `last`, run in a folder where nothing is lost."""
    ran = copy.deepcopy(nb)
    ran.cells = ran.cells[: last + 1]
    with tempfile.TemporaryDirectory() as below:
        NotebookClient(
            ran,
            kernel_name="python3",
            timeout=CELL_TIMEOUT_S,
            store_widget_state=True,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": below}},
        ).execute()
    return ran


# ---------------------------------------------------------------- HTML


def bundle(folder, packages, styles):
    """Fill `folder` with the scripts and fonts of `packages` and our own `styles`."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, patterns in packages.items():
        npm.extract(name, {pattern: "." for pattern in patterns}, folder)
    for name in styles:
        shutil.copy(WEB / name, folder)


def prepared(nb):
    """A copy of `nb` in which every figure without `alt` gets the sentence said of it."""
    nb = copy.deepcopy(nb)
    for k, cell in enumerate(nb.cells):
        cell.source = re.sub(r" *# fmt: skip$", "", cell.source, flags=re.M)
        if cell.cell_type == "code" and not cell.metadata.get("alt"):
            said = next((c.source for c in nb.cells[k + 1 :] if c.cell_type == "markdown"), "")
            if caption(said):
                cell.metadata["alt"] = caption(said)
    return nb


def export(exporter, nb, name, names, to_pages=""):
    """HTML of a notebook; links to other notebooks become links to pages in `to_pages`."""
    k = names.index(name)
    course = {
        "name": name,
        "title": title(nb),
        "previous": names[k - 1] if k else "",
        "next": names[k + 1] if k + 1 < len(names) else "",
    }
    html, _ = exporter.from_notebook_node(nb, resources={"course": course})
    html = re.sub(r'href="(\d\d_\w+)\.ipynb', rf'href="{to_pages}\1.html', html)
    return re.sub(r'href="\.\./flashlib/(\w+)\.py"', rf'href="{to_pages}\1.py.html"', html)


def exporter_of(kind, template):
    """An exporter with our template and no prompts."""
    exporter = kind(
        template_name=template,
        extra_template_basedirs=[str(WEB)],
        extra_template_paths=[str(WEB)],
    )
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    return exporter


def read(name):
    """The notebook `name` as committed."""
    text = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    return nbformat.reads(text, as_version=4)


def notebooks():
    """{name: notebook} in order, widgets with their state."""
    names = [path.stem for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))]
    return {name: prepared(animated(read(name), CACHE)) for name in names}


def write_slides(found, out):
    """One deck of slides a notebook, in `out`, with everything they load."""
    bundle(out / "lib", COMMON | REVEAL, ("fonts.css", "deck.css", "deck.js"))
    exporter = exporter_of(SlidesExporter, "deck")
    for name, nb in found.items():
        html = export(exporter, deck(nb, f"{name}.ipynb"), name, list(found), "../pages/")
        (out / f"{name}.html").write_text(html, encoding="utf-8")


def write_pages(found, out):
    """One page a notebook, and the sources that they link to."""
    bundle(out / "lib", COMMON, ("fonts.css", "page.css"))
    exporter = exporter_of(HTMLExporter, "page")
    for name, nb in found.items():
        html = export(exporter, nb, name, list(found))
        (out / f"{name}.html").write_text(html, encoding="utf-8")
        for source in re.findall(r'href="(\w+\.py)\.html"', html):
            (out / f"{source}.html").write_text(source_page(source), encoding="utf-8")


def source_page(name):
    """A file of the library as a page."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    text = (ROOT / "flashlib" / name).read_text(encoding="utf-8")
    return highlight(text, PythonLexer(), HtmlFormatter(full=True, title=f"flashlib/{name}"))


# ---------------------------------------------------------------- handouts


def write_handouts(names, pages, out):
    """A PDF of every page, by Chromium; none, and a sentence, where there is no browser."""
    path = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        print("No Chromium or Chrome found: no handouts. Any browser prints the pages as well.")
        return
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        page = browser.new_page()
        for name in names:
            page.goto((pages / f"{name}.html").as_uri())
            page.evaluate("() => MathJax.startup.promise")
            page.pdf(path=out / f"{name}.pdf", prefer_css_page_size=True, tagged=True)
        browser.close()


def main(argv=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("slides", "site"))
    args = parser.parse_args(argv)
    found = notebooks()
    if args.what == "slides":
        write_slides(found, SITE / "slides")
    else:
        write_pages(found, SITE / "pages")
        write_handouts(found, SITE / "pages", SITE / "handouts")
    write_index()
    print(f"{len(found)} notebooks exported")
    return 0


if __name__ == "__main__":
    sys.exit(main())
