"""Run the notebooks in place and bring them to one normal form.

python tools/notebooks.py             run every notebook, store its outputs
python tools/notebooks.py FILE ...    only these
python tools/notebooks.py --check     run nothing; exit 1 if a file is not in its normal form

The normal form keeps what a reader sees and drops what changes from run to run, so that a diff
shows only what changed in the course.
"""

import argparse
import base64
import copy
import hashlib
import io
import os
import re
import sys
import time
from pathlib import Path

import nbformat
import numpy as np
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from PIL import Image

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # quiet curves in the cells that time NumPy
NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
CELL_TIMEOUT_S = 300
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
# Where flashlib or another package lies on this machine: `~/course/flashlib/x.py`
FOLDER_IN_TRACEBACK = r"[~/][^\s:]*/(?=(?:flashlib|site-packages)/)"
CELL_METADATA = ("alt", "jupyter", "slideshow", "tags")  # the rest is an editor's state


def normalise(nb):
    """A copy of the notebook `nb` in its normal form; normalising twice changes nothing more."""
    nb = copy.deepcopy(nb)
    nb.nbformat, nb.nbformat_minor = 4, 5
    nb.metadata = nbformat.from_dict(METADATA)
    seen, count = set(), 0
    for cell in nb.cells:
        cell.id = _cell_id(cell, seen)
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in CELL_METADATA if cell.metadata.get(key)}
        )
        if cell.cell_type == "code" and cell.execution_count is not None:
            count += 1
            cell.execution_count = count
            cell.outputs = _merged_streams(cell.outputs)
            for output in cell.outputs:
                _normalise_output(output, count)
    return nb


def _cell_id(cell, seen):
    """The cell's own id; if it has none, or another cell has it, one made from the text."""
    name, n = cell.get("id") or "", 0
    while not name or name in seen:
        name = hashlib.sha256(f"{n}{cell.source}".encode()).hexdigest()[:8]
        n += 1
    seen.add(name)
    return name


def _merged_streams(outputs):
    """How often a kernel flushes its buffer is chance: adjacent pieces of a stream become one."""
    merged = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def _normalise_output(output, count):
    if output.output_type == "execute_result":
        output.execution_count = count
    if output.output_type == "error":
        output.traceback = [re.sub(FOLDER_IN_TRACEBACK, "", line) for line in output.traceback]
    data = output.get("data", {})
    if "image/png" in data:
        data.pop(WIDGET_VIEW, None)  # without a kernel it would hide the picture
        data["image/png"] = smaller_png(data["image/png"])


def smaller_png(text):
    """A base64 PNG with a palette of 256 colours, if it looks the same and saves a tenth."""
    raw = base64.b64decode(text)
    image = Image.open(io.BytesIO(raw))
    if image.mode == "P" or image.convert("RGBA").getextrema()[3][0] < 255:
        return text  # done before, or transparent: a test complains about that
    image = image.convert("RGB")
    palette = image.quantize(256, dither=Image.Dither.NONE)
    best = image
    if _look_same(image, palette.convert("RGB")):
        best = palette
    buffer = io.BytesIO()
    best.save(buffer, "PNG", optimize=True)
    if buffer.tell() > 0.9 * len(raw):
        return text
    return base64.b64encode(buffer.getvalue()).decode() + "\n"


def _look_same(a, b):
    """Fewer than one pixel in a thousand differs by more than 16 of 255 in any channel."""
    difference = np.abs(np.asarray(a, np.int16) - np.asarray(b, np.int16)).max(axis=-1)
    return (difference > 16).mean() < 1e-3


def execute(nb):
    """Run every cell of `nb` in a fresh kernel, in the notebooks' folder."""
    client = NotebookClient(
        nb,
        kernel_name="python3",
        timeout=CELL_TIMEOUT_S,
        record_timing=False,
        store_widget_state=False,
        extra_arguments=["--log-level=ERROR"],  # not its advice on local sockets
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )
    client.execute()


def dumps(nb):
    """The text of a notebook file."""
    return nbformat.writes(nb) + "\n"


def is_normal(path):
    """Whether the file `path` already is what `normalise` makes of it."""
    text = path.read_text(encoding="utf-8")
    return text == dumps(normalise(nbformat.reads(text, as_version=4)))


def run(path):
    """Run the notebook `path` and store it; False, and the file untouched, if a cell fails."""
    nb = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    start = time.perf_counter()
    try:
        execute(nb)
    except CellExecutionError as error:
        print(f"{path.name}: {error}", file=sys.stderr)
        return False
    path.write_text(dumps(normalise(nb)), encoding="utf-8", newline="\n")
    seconds, size_kB = time.perf_counter() - start, path.stat().st_size / 1000
    print(f"{path.name:36} {seconds:6.1f} s {size_kB:7.0f} kB", flush=True)
    return True


def main(argv=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="notebooks (default: all)")
    parser.add_argument("--check", action="store_true", help="run nothing, only look")
    args = parser.parse_args(argv)
    files = args.files or sorted(NOTEBOOKS.glob("*.ipynb"))
    if not args.check:
        return 0 if all([run(path) for path in files]) else 1
    bad = [path.name for path in files if not is_normal(path)]
    for name in bad:
        print(f"{name}: not in its normal form; `make notebooks` mends it", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
