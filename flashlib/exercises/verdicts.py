"""What a check says: plain text on a terminal, a coloured box in a notebook."""

import html
import sys
from dataclasses import dataclass

NOT_ATTEMPTED, WRONG, RIGHT = "not attempted", "wrong", "right"
# left edge of the box; the words carry the meaning, the colour only helps
COLORS = {NOT_ATTEMPTED: "#767676", WRONG: "#D55E00", RIGHT: "#009E73", "info": "#0072B2"}


@dataclass(frozen=True)
class Verdict:
    """The result of a check. True in an `if` when the answer is right.

    exercise: name of the exercise.
    state: "not attempted", "wrong" or "right".
    lines: what else was said, a string a line.
    mistakes: names of the known mistakes that explain a wrong answer.
    """

    exercise: str
    state: str
    lines: tuple = ()
    mistakes: tuple = ()

    def __bool__(self):
        return self.state == RIGHT

    def __repr__(self):
        return f"<{self.exercise}: {self.state}>"

    def __str__(self):
        return _text(self.title, self.lines)

    @property
    def title(self):
        """The first line."""
        yet = " yet" if self.state == NOT_ATTEMPTED else ""
        return f"{self.exercise}: {self.state}{yet}"

    def _ipython_display_(self):
        """Nothing: `check` has shown it already, wherever in the cell it stands."""

    def show(self):
        """Print it, or draw the box in a notebook."""
        show(self.title, self.lines, self.state)


def show(title, lines, kind="info"):
    """Show a title and lines of text: a box in a notebook, otherwise printed."""
    text = _text(title, lines)
    if in_notebook():
        from IPython.display import display

        display({"text/plain": text, "text/html": _box(title, lines, kind)}, raw=True)
    else:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(text.encode(encoding, "backslashreplace").decode(encoding))


def in_notebook():
    """Whether a Jupyter kernel runs this."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and hasattr(get_ipython(), "kernel")


def _text(title, lines):
    return "\n".join([title, *("  " + line for line in lines)])


def _box(title, lines, kind):
    style = f"border-left:6px solid {COLORS[kind]};padding:6px 12px;background:#fff;color:#111"
    pre = "white-space:pre-wrap;background:#fff;color:#111;margin:4px 0 0;font-size:13px"
    body = f'<pre style="{pre}">{html.escape(chr(10).join(lines))}</pre>' if lines else ""
    return f'<div style="{style}"><b>{html.escape(title)}</b>{body}</div>'
