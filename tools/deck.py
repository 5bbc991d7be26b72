"""A notebook as a deck of slides: a notebook whose every cell is a piece that fits on a slide.

Cells too long for a slide are cut, questions stand on slides of their own, and what the notebook
says next is the lecturer's notes. Where slides begin is said by `slideshow.slide_type`.
"""

import copy
import re

import nbformat

from slides import FOLD, assign

PREDICT = "**Predict"
# A slide is 1280 × 720 px with text of 26 px (19.5 pt) and code of 24 px (18 pt).
ROOM_PX = 590
CHARS, CODE_CHARS, CODE_LINES = 88, 96, 12
TEXT_PX, CODE_PX = 37, 31


# ---------------------------------------------------------------- text into blocks


def blocks(text):
    """Cut Markdown at blank lines, but never inside code, display mathematics or a fold."""
    found, piece, close = [], [], None
    openings = {"```": "```", "$$": "$$", "<details": "</details>"}
    for line in text.splitlines():
        stripped = line.strip()
        if close is None and not stripped:
            found.append("\n".join(piece))
            piece = []
            continue
        piece.append(line)
        if close is None:
            start = next((s for s in openings if stripped.startswith(s)), None)
            rest = stripped[len(start) :] if start else ""
            if start and openings[start] not in rest:
                close = openings[start]
        elif close in stripped:
            close = None
    found.append("\n".join(piece))
    return [block for block in found if block.strip()]


def height_px(block):
    """About how high a block is on a slide."""
    lines = block.splitlines()
    if block.startswith("#"):
        return 95
    if block.startswith("$$"):
        return 80 + 45 * block.count("\\\\")
    if block.startswith("```"):
        return 30 + CODE_PX * (len(lines) - 2)
    if block.startswith("|"):
        return sum(_row_px(row) for row in lines if not re.fullmatch(r"[|:\- ]+", row))
    return 18 + sum(
        110 if line.startswith("$$") else TEXT_PX * -(-len(_plain(line)) // CHARS) for line in lines
    )


def _row_px(row):
    """A table row, if its columns share the width as well as they can."""
    cells = [len(_plain(cell)) for cell in row.strip().strip("|").split("|")]
    return 14 + 33 * max(-(-sum(cells) // (CHARS - 8)), -(-max(cells) // (CHARS // 2)))


def _plain(text):
    """Without link targets and mark-up: about what is seen."""
    return re.sub(r"\]\([^)]*\)|\\[a-z]+|[*`$\\{}\[]", "", text)


def fitting(block, room=ROOM_PX - 60):
    """The block as pieces of at most `room`: long tables and lists are cut between rows."""
    if height_px(block) <= room:
        return [block]
    lines = block.splitlines()
    head, rows = (lines[:2], lines[2:]) if block.startswith("|") else ([], lines)
    pieces, piece = [], list(head)
    for row in rows:
        if len(piece) > len(head) and height_px("\n".join([*piece, row])) > room:
            pieces.append("\n".join(piece))
            piece = list(head)
        piece.append(row)
    return [*pieces, "\n".join(piece)]


# ---------------------------------------------------------------- the deck


class _Deck:
    """Cells of a deck in the making, and how full the slide at its end is."""

    def __init__(self, page):
        self.cells, self.used_px, self.page = [], 0, page

    def add(self, cell, kind, height):
        """Put a cell on this slide if `kind` allows and there is room, else on a new one."""
        fresh = kind in ("slide", "subslide")
        if not fresh and self.cells and self.used_px + height > ROOM_PX:
            kind, fresh = "subslide", True
        self.used_px = height if fresh else self.used_px + height
        cell.metadata["slideshow"] = {"slide_type": kind}
        self.cells.append(cell)

    def text(self, text, kind, height):
        self.add(nbformat.v4.new_markdown_cell(text), kind, height)

    def notes(self, text):
        cell = nbformat.v4.new_markdown_cell(text)
        cell.metadata["slideshow"] = {"slide_type": "notes"}
        self.cells.append(cell)


def deck(nb, page=""):
    """The notebook as a notebook of slides: every cell a piece that fits, every slide_type set.

    page: address of the notebook as a page, for what is too large for a slide.
    """
    result = _Deck(page)
    cells = assign(nb).cells
    for k, cell in enumerate(cells):
        kind = cell.metadata["slideshow"]["slide_type"]
        if kind == "skip":
            continue
        if kind == "notes":
            fold = FOLD.fullmatch(cell.source.strip())
            result.notes(fold[2].strip() if fold else cell.source)
            continue
        said_next = next((c.source for c in cells[k + 1 :] if c.cell_type == "markdown"), "")
        said_next = "" if said_next.startswith("#") else FOLD.sub(r"\2", said_next).strip()
        if cell.cell_type == "markdown":
            _add_markdown(result, cell.source, kind, said_next)
        elif cell.cell_type == "code":
            _add_code(result, cell, kind, said_next)
    new = copy.deepcopy(nb)
    new.cells = result.cells
    for k, cell in enumerate(new.cells):
        cell.id = f"piece-{k}"
    return new


def _add_markdown(result, text, kind, said_next):
    """Blocks, packed; a question and what was folded start slides of their own."""
    only_heading = False
    for block in blocks(text):
        fold = FOLD.search(block)
        if fold and re.match("Solution|Answer", fold[1]):
            result.notes(fold[2].strip())
            continue
        if PREDICT in block:
            question = f'<div class="question">\n\n{block}\n\n</div>'
            result.text(question, "-" if only_heading else "subslide", height_px(block))
            result.notes(f"Let everybody write down an answer first.\n\n{said_next}")
            result.used_px, kind = ROOM_PX, "-"
            continue
        if fold:  # on the slide after its question: open
            block, kind = FOLD.sub(r"\2", block), "subslide"
        for piece in fitting(block, ROOM_PX - (160 if only_heading else 60)):
            result.text(piece, kind, height_px(piece))
            only_heading = kind == "slide" and piece.startswith("## ") and "\n" not in piece
            kind = "-"


def _add_code(result, cell, kind, said_next):
    """The source, at most 12 lines a slide, and its outputs: short text below, the rest apart."""
    source_px = 0
    if "hide-input" not in cell.metadata.get("tags", []):
        for part in code_parts(cell.source):
            piece = nbformat.v4.new_code_cell(part)
            lines = [-(-max(1, len(line)) // CODE_CHARS) for line in part.splitlines()]
            source_px = 34 + CODE_PX * sum(lines)
            result.add(piece, kind, source_px)
            kind = "subslide"
    kind = "fragment" if source_px else kind
    for output in cell.outputs:
        _add_output(result, output, cell, kind, said_next)


def _add_output(result, output, cell, kind, said_next):
    text, data = _text_of(output), output.get("data", {})
    if not text and "text/html" in data and "image/png" not in data:
        link = f"{result.page}#cell-id={cell.id}"
        return result.text(f"[Too large for a slide: open it on the page.]({link})", "subslide", 60)
    piece = nbformat.v4.new_code_cell("", outputs=[copy.deepcopy(output)])
    piece.metadata["transient"] = {"remove_source": True}
    piece.metadata["alt"] = cell.metadata.get("alt") or caption(said_next)
    if text:
        return result.add(piece, kind, 24 + CODE_PX * len(text.splitlines()))
    result.add(piece, "subslide", ROOM_PX)
    return result.notes(said_next)


def _text_of(output):
    """What an output says in plain text; nothing for a picture, a widget or a large table."""
    data = output.get("data", {})
    plain = data.get("text/plain", "")
    if "image/png" in data or ("text/html" in data and plain.startswith("<")):
        return ""
    return output.get("text") or plain


def code_parts(source):
    """Cut code into parts of at most 12 lines, at a blank line or the least indented one."""
    lines = source.splitlines()
    if len(lines) <= CODE_LINES:
        return [source]
    count = -(-len(lines) // CODE_LINES)
    middle = len(lines) / count
    places = range(max(1, len(lines) - CODE_LINES * (count - 1)), CODE_LINES + 1)

    def cost(k):
        indent = len(lines[k]) - len(lines[k].lstrip())
        return (0 if not lines[k].strip() else 1 + indent, abs(k - middle))

    k = min(places, key=cost)
    rest = "\n".join(lines[k:]).lstrip("\n")
    return ["\n".join(lines[:k]).rstrip(), *code_parts(rest)]


def caption(text):
    """Alternative text from `**What you saw.** Figure: …`: its first sentence, without mark-up."""
    match = re.match(r"\*\*What you saw\.?\*\*\s*(?:Figure: )?(.+?[.!?])(?:\s|$)", text, re.S)
    return _plain(match[1]).strip() if match else ""
