"""From a matplotlib figure to many small PNG frames.

What doesn't move is drawn once; a frame restores that background, sets the moving artists and draws
only them. A frame depends on (data, frame number) alone, so frames may be asked for in any order.
"""

import functools
import io
import sys
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

from flashlib.plots import COLORS, STYLE

ALARM = "#B00020"  # what doesn't fit, what overflows
ITEMSIZES_BYTES = {"fp16": 2, "fp32": 4}
MAX_FRAMES = 50  # more would take longer than a second to draw
SIZE_INCHES = (9, 6.2)  # 900 × 620 px at 100 dpi


class Picture:
    """A figure with `frames` frames, each with a PNG and a sentence that says what is to see.

    Args:
        figure: from `new_figure`, everything drawn that doesn't move.
        text: frame number → str. A plain str serves every frame.
        moving: artists that change, in drawing order.
        update: frame number → None; sets every moving artist, whatever it was before.
        frames: how many. poster: the frame to show where nothing moves.
        note: what the reader should know of the whole, such as frames left out.
    """

    def __init__(self, figure, text, *, moving=(), update=None, frames=1, poster=0, note=""):
        self.figure, self.frames, self.poster, self.note = figure, frames, poster, note
        self._text, self._moving, self._update = text, moving, update
        self._lettering = {}  # (artist, words, place, colour) → pixels
        for artist in moving:
            artist.set_animated(True)
        with matplotlib.rc_context(STYLE):
            figure.canvas.draw()
        self._background = figure.canvas.copy_from_bbox(figure.bbox)

    def text(self, k=None):
        """What is to see in frame k (default: the poster)."""
        return self._text(self._check(k)) if callable(self._text) else self._text

    def png(self, k=None):
        """Frame k as a palette PNG: bytes. k = None is the poster; IndexError if out of range."""
        return palette_png(self._indices(self._check(k)))

    def pngs(self):
        """Every frame in order: a list of bytes. Drawn here, compressed in two threads."""
        if sys.platform == "emscripten":  # a browser's Python has no threads
            return [self.png(k) for k in range(self.frames)]
        with ThreadPoolExecutor(2) as pool:  # zlib lets go of the GIL
            drawn = (self._indices(k) for k in range(self.frames))
            return list(pool.map(palette_png, drawn))

    def _check(self, k):
        k = self.poster if k is None else k
        if not 0 <= k < self.frames:
            raise IndexError(f"frame {k} of {self.frames}: expected 0 to {self.frames - 1}")
        return k

    def _indices(self, k):
        canvas = self.figure.canvas
        if self._update is not None:
            self._update(k)
        canvas.restore_region(self._background)
        for artist in self._moving:
            if isinstance(artist, Text):
                self._draw_text(artist)
            else:
                self.figure.draw_artist(artist)
        return palette_indices(np.asarray(canvas.buffer_rgba()))

    def _draw_text(self, text):
        """Set every text once and copy its pixels from then on: lettering is half the work."""
        key = text.get_text(), text.get_position(), text.get_color()
        if not text.get_visible() or not key[0]:
            return
        if (text, key) not in self._lettering:
            self._lettering[text, key] = _pixels_of(text, self.figure)
        left, bottom, pixels = self._lettering[text, key]
        renderer = self.figure.canvas.get_renderer()
        renderer.draw_image(renderer.new_gc(), left, bottom, pixels)

    def _repr_png_(self):
        return self.png()


def _pixels_of(text, figure):
    """(left, bottom, RGBA pixels) of a text alone on a transparent sheet."""
    width, height = figure.canvas.get_width_height()
    sheet = RendererAgg(width, height, figure.dpi)
    text.draw(sheet)
    pixels = np.asarray(sheet.buffer_rgba())
    rows, columns = (np.flatnonzero(pixels[..., 3].any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return 0, 0, pixels[:1, :1].copy()
    cut = pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return columns[0], height - 1 - rows[-1], cut[::-1].copy()


def new_figure(height_inches=SIZE_INCHES[1]):
    """An empty figure that pyplot doesn't know (so none stays open). Use it inside STYLE."""
    figure = Figure(figsize=(SIZE_INCHES[0], height_inches), dpi=100, layout="none")
    FigureCanvasAgg(figure)
    return figure


def styled_picture(make):
    """Run a function that builds a Picture under the course's style."""

    @functools.wraps(make)
    def wrapper(*args, **kwargs):
        with matplotlib.rc_context(STYLE):
            return make(*args, **kwargs)

    return wrapper


def coarse_note(tiles, shown):
    """What a picture says when it has frames for some of its tiles only, or ""."""
    if shown == tiles:
        return ""
    return f"{tiles} tiles are too many to draw: {shown} of them have a frame."


@functools.cache
def palette():
    """The course's colours as (n ≤ 256, 3) uint8: greys, viridis, and tints of every accent."""
    greys = np.linspace(0, 1, 6)[:, None].repeat(3, axis=1)
    viridis = matplotlib.colormaps["viridis"](np.linspace(0, 1, 20))[:, :3]
    accents = sorted(to_rgb(c) for c in {*COLORS.values(), ALARM} - {"#000000"})
    tints = [np.add(np.multiply(c, s), 1 - s) for c in accents for s in (1, 0.5)]
    colours = np.concatenate([greys, viridis, tints])
    return (colours * 255).round().astype(np.uint8)


@functools.cache
def _nearest():
    """(32768,) uint8: the palette entry nearest to each colour of 5 bits a channel."""
    levels = np.arange(32) * 255 / 31
    grid = np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1).reshape(-1, 3)
    colours = palette().astype(float)
    distance = (colours**2).sum(axis=1) - 2 * grid @ colours.T
    return distance.argmin(axis=1).astype(np.uint8)


def palette_indices(rgba):
    """(H, W, 4) uint8 → (H, W) uint8, each pixel's place in `palette`."""
    pixels = np.ascontiguousarray(rgba).view("<u4")[..., 0]
    five_bits = ((pixels & 0xF8) << 7) | ((pixels >> 6) & 0x3E0) | ((pixels >> 19) & 0x1F)
    return _nearest()[five_bits]


def palette_png(indices):
    """(H, W) palette indices → PNG bytes. Opaque: a palette without transparency."""
    image = Image.fromarray(indices)  # grey; putpalette makes it a palette image
    image.putpalette(palette().tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=8)
    return buffer.getvalue()
