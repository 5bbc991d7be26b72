"""The frame of every widget: controls, a picture that they redraw, words beside it.

Playing needs no kernel: every frame is in the page, and `Play`, slider and `Stack` are linked in
the browser. Where no widget can be shown, the poster is.
"""

import base64
import html
import struct

try:
    import ipywidgets
except ImportError as error:
    raise ImportError("flashlib.widgets needs ipywidgets: pip install ipywidgets") from error

NARROW = {"style": {"description_width": "80px"}, "layout": {"width": "185px"}}
ROW = {"flex_flow": "row wrap", "max_width": "900px"}
NO_KERNEL = "On a page without a kernel, play, frame, step and speed still work."


class Board(ipywidgets.VBox):
    """A picture with its controls.

    Args:
        make: function of the controls' values that returns a `pictures.Picture`.
        controls: {argument name: control}.
        title: the constant text of the output where nothing else can be shown.
        limit: function of {name: control} that narrows a control's range to what another allows.

    Attributes:
        picture: the `Picture` now shown. controls: as given. error: HTML, empty when all is well.
    """

    def __init__(self, make, controls, title, limit=None):
        self._make, self._limit, self._title, self._busy = make, limit, title, False
        self.controls = controls
        self.error = ipywidgets.HTML()
        self.note = ipywidgets.HTML(layout={"max_width": "900px"})
        self.frames = []  # HTML widgets, one a frame
        self._shared = {"layout": ipywidgets.Layout(), "style": self.error.style}
        self.stack = ipywidgets.Stack(layout={"max_width": "900px"})
        self.picture = self._made()
        self._poster = self.picture.png()
        self.player, player_row = self._player() if self.picture.frames > 1 else (None, [])
        self._show()
        for control in controls.values():
            control.observe(self._changed, "value")
        row = ipywidgets.HBox(list(controls.values()), layout=ROW)
        super().__init__([row, *player_row, self.error, self.note, self.stack])

    @property
    def values(self):
        """{argument name: value} as the controls stand."""
        return {name: control.value for name, control in self.controls.items()}

    def seek(self, frame):
        """Show frame `frame` (0 … picture.frames − 1), from Python. Raises IndexError."""
        self.picture.text(frame)
        for slave in self._followers:
            slave.value = frame
        self.stack.selected_index = frame

    def _player(self):
        """Play, slider, a number to step with, speed; all linked in the browser."""
        end = {"min": 0, "max": self.picture.frames - 1, "value": 0}
        thin = {"style": {"description_width": "42px"}}
        wide = {"style": {"description_width": "80px"}}
        player = ipywidgets.Play(**end, interval=250)
        slider = ipywidgets.IntSlider(
            **end, description="frame", readout=False, layout={"width": "240px"}, **thin
        )
        number = ipywidgets.BoundedIntText(
            **end, description="step", layout={"width": "115px"}, **thin
        )
        self.speed = ipywidgets.IntSlider(
            250, 20, 1000, 10, description="ms a frame", layout={"width": "235px"}, **wide
        )
        self._followers = (player, slider, number)
        self.links = [
            ipywidgets.jslink((player, "value"), (slider, "value")),
            ipywidgets.jslink((slider, "value"), (number, "value")),
            ipywidgets.jslink((slider, "value"), (self.stack, "selected_index")),
            ipywidgets.jslink((self.speed, "value"), (player, "interval")),
        ]
        return player, [ipywidgets.HBox([player, slider, number, self.speed], layout=ROW)]

    def _made(self):
        if self._limit is not None:
            self._limit(self.controls)
        return self._make(**self.values)

    def _changed(self, _):
        """Draw again; what goes wrong is shown, not lost in a log."""
        if self._busy:  # a control moved by `limit`
            return
        self._busy = True
        try:
            self.picture = self._made()
            self._show()
            self.error.value = ""
        except Exception as error:
            words = html.escape(f"{type(error).__name__}: {error}")
            self.error.value = f'<p role="alert" style="color:#B00020"><b>{words}</b></p>'
        finally:
            self._busy = False

    def _show(self):
        """Put every frame of the picture into the stack, the one in view first."""
        picture, last = self.picture, self.picture.frames - 1
        frame = min(self.stack.selected_index or 0, last)
        while len(self.frames) <= last:
            self.frames.append(ipywidgets.HTML(**self._shared))
        self.frames[frame].value = figure_html(picture.png(frame), picture.text(frame))
        if len(self.stack.children) > picture.frames:
            self._set_frame(frame, last)
        self.stack.children = self.frames[: picture.frames]
        self._set_frame(frame, last)
        lines = [f"<b>{html.escape(picture.note)}</b>"] if picture.note else []
        lines += [NO_KERNEL] if self.player else []
        self.note.value = "<br>".join(lines)
        for k, png in enumerate(picture.pngs() if last else ()):
            self.frames[k].value = figure_html(png, picture.text(k))

    def _set_frame(self, frame, last):
        self.stack.selected_index = frame
        for follower in self._followers if self.player else ():
            follower.max = last
            follower.value = frame

    def _repr_mimebundle_(self, **kwargs):
        """The live view, and for pages without widgets the poster and one constant line."""
        bundle = super()._repr_mimebundle_(**kwargs) or {}
        png = base64.b64encode(self._poster).decode("ascii")
        return bundle | {"image/png": png, "text/plain": self._title}


def figure_html(png, text):
    """A picture with its words below it, and as its alternative text: HTML.

    The browser decodes the picture before it shows it, so that nothing flickers.
    """
    width, height = struct.unpack(">II", png[16:24])  # from the PNG's header
    words, data = html.escape(text), base64.b64encode(png).decode("ascii")
    return (
        f'<figure style="margin:0"><img alt="{words}" width="{width}" height="{height}" '
        f'style="max-width:100%;height:auto" decoding="sync" src="data:image/png;base64,{data}">'
        f'<figcaption style="line-height:1.4;min-height:4.2em">{words}</figcaption></figure>'
    )


def pick(name, options, value):
    """One of a few numbers; a value that isn't among them is added in its place."""
    ready = [(f"{option:,}", option) for option in sorted({*options, value})]
    return ipywidgets.Dropdown(options=ready, value=value, description=name, **NARROW)


def choose(name, options, value):
    """One of a few names. Raises ValueError for another."""
    if value not in options:
        raise ValueError(f"{name} must be one of {list(options)}, got {value!r}")
    return ipywidgets.Dropdown(options=list(options), value=value, description=name, **NARROW)


def count(name, value, lowest, highest):
    """A whole number in a range. Raises ValueError for a value outside."""
    if not lowest <= value <= highest:
        raise ValueError(f"{name} must be between {lowest} and {highest}, got {value!r}")
    return ipywidgets.BoundedIntText(value, lowest, highest, description=name, **NARROW)


def tick(name, value):
    """A box to tick."""
    return ipywidgets.Checkbox(value, description=name, indent=True, **NARROW)
