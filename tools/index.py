"""The front page of `_site/`: it lists what `make slides site lite` have built so far."""

from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[1]
SITE = ROOT / "_site"
WHY_NOT = "runs where PyTorch and Triton are installed, so not in a browser"


def title(nb):
    """The question that a notebook asks."""
    return nb.cells[0].source.splitlines()[0].lstrip("# ")


def write_index(site=SITE):
    """Write `site/index.html` with links to everything that is there."""
    items = []
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        name = path.stem
        links = [
            f'<a href="{target}">{word}</a>'
            for word, target in {
                "page": f"pages/{name}.html",
                "slides": f"slides/{name}.html",
                "handout (PDF)": f"handouts/{name}.pdf",
            }.items()
            if (site / target).exists()
        ]
        if (site / "lite").exists():
            lab = f"lite/lab/index.html?path=notebooks/{name}.ipynb"
            links.append(WHY_NOT if name >= "06" else f'<a href="{lab}">run it in this browser</a>')
        question = title(nbformat.read(path, as_version=4))
        items.append(f"<li><b>{question}</b>{' · '.join(links)}</li>")
    template = (Path(__file__).parent / "web" / "site.html").read_text(encoding="utf-8")
    page = template.replace("<!-- notebooks -->", "\n".join(items))
    (site / "index.html").write_text(page, encoding="utf-8")
