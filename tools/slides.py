"""Slideshow metadata for the notebooks: where a slide begins, what is skipped, what is a note.

python tools/slides.py               give every cell without a slide type the one that suits it
python tools/slides.py --reset       the same for every cell, edited by hand or not
python tools/slides.py --check       change nothing; exit 1 if a cell has no slide type

Edit a type by hand where another suits better: it stays. `make slides` follows them, and cuts cells
that are too long for a slide (tools/deck.py).
"""

import argparse
import copy
import re
import sys
from pathlib import Path

import nbformat

from notebooks import NOTEBOOKS, dumps

TYPES = ("slide", "subslide", "fragment", "-", "skip", "notes")
FOLD = re.compile(r"<details>\s*<summary>(.*?)</summary>\s*(.*?)</details>", re.S)


# ---------------------------------------------------------------- metadata


def slide_type(cell):
    """The slide type that suits a cell, from what it holds."""
    text = cell.source.strip()
    if cell.cell_type == "markdown":
        fold = FOLD.fullmatch(text)
        if fold and re.match("Solution|Answer", fold[1]):
            return "notes"
        return "slide" if re.match("##? ", text) else "fragment"
    sets_up = re.match("import |from ", text) and "def " not in text and not cell.outputs
    return "skip" if sets_up else "subslide"


def assign(nb, reset=False):
    """A copy of `nb` in which every cell has a slide type; those it had stay, unless `reset`."""
    nb = copy.deepcopy(nb)
    for cell in nb.cells:
        has = cell.metadata.get("slideshow", {}).get("slide_type")
        if reset or not has:
            cell.metadata["slideshow"] = nbformat.from_dict({"slide_type": slide_type(cell)})
    return nb


def missing(nb):
    """Indices of cells without a valid slide type."""
    types = [cell.metadata.get("slideshow", {}).get("slide_type") for cell in nb.cells]
    return [k for k, name in enumerate(types) if name not in TYPES]


# ---------------------------------------------------------------- command line


def main(argv=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="notebooks (default: all)")
    parser.add_argument("--reset", action="store_true", help="also cells that have a slide type")
    parser.add_argument("--check", action="store_true", help="change nothing, only look")
    args = parser.parse_args(argv)
    faults = 0
    for path in args.files or sorted(NOTEBOOKS.glob("*.ipynb")):
        nb = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        if args.check:
            for k in missing(nb):
                print(f"{path.name}: cell {k} has no slide type", file=sys.stderr)
                faults += 1
        else:
            path.write_text(dumps(assign(nb, args.reset)), encoding="utf-8", newline="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
