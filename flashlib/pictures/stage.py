"""Two parts that the sweeps share: the grid of tiles, and SRAM above HBM with the arrow between."""

import matplotlib
import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle

from flashlib.pictures.frames import ALARM
from flashlib.pictures.recordings import ITEMSIZE_BYTES
from flashlib.plots import COLORS, draw_tiles

VIRIDIS = matplotlib.colormaps["viridis"]
HIDDEN = matplotlib.colors.to_rgba_array(COLORS["skipped"])[0] * 255
DONE = (*matplotlib.colors.to_rgba_array(COLORS["done"])[0, :3] * 255, 190)  # lets hatches through
SCORES_COLOR = "#440154"  # the dark end of viridis


def axes_at(figure, left, bottom, width, height):
    """Axes placed in pixels, so that every frame of every picture lies alike."""
    w, h = figure.get_size_inches() * figure.dpi
    return figure.add_axes((left / w, bottom / h, width / w, height / h))


def place(figure, x, y, text, **style):
    """A text placed in pixels, its middle at height y. Returns the artist."""
    w, h = figure.get_size_inches() * figure.dpi
    return figure.text(x / w, y / h, text, **{"fontsize": 12, "va": "center", **style})


def bytes_text(n_bytes):
    """At most four digits and a unit: 256 B, 12.3 kB, 1.5 MB, 8.6 GB, 2.1 TB."""
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} B"


class Grid:
    """The score matrix as tiles: done ones filled, the current one outlined, with its numbers.

    tiles: the current tile's numbers at each step, list of (rows, cols) arrays, −inf where hidden.
    """

    def __init__(self, figure, run, N_q, N_k, Br, Bc, tiles, label="S"):
        self.run, self.Br, self.Bc, self.tiles = run, Br, Bc, tiles
        self.ax = axes_at(figure, 75, 268, 300, 300)
        draw_tiles(self.ax, run.kinds)
        low, high = N_k / Bc, N_q / Br
        self.ax.set(xlim=(0, low), ylim=(high, 0), aspect="auto")
        for patch in self.ax.patches:  # a ragged last tile is smaller than its square
            patch.set_clip_on(True)
        for axis, end in ((self.ax.xaxis, low), (self.ax.yaxis, high)):
            ticks = [int(tick) for tick in axis.get_ticklocs()]
            axis.set_ticks([(tick + min(tick + 1, end)) / 2 for tick in ticks], ticks)
        self.step_of = np.full(run.kinds.shape, len(run.events))
        for t, event in enumerate(run.events):
            self.step_of[event.i, event.j] = t
        self.pixels = np.zeros((N_q, N_k, 4), np.uint8)
        self.image = self.ax.imshow(
            self.pixels, extent=(0, low, high, 0), interpolation="nearest", aspect="auto"
        )
        self.outline = Rectangle((0, 0), 1, 1, fill=False, edgecolor="black", linewidth=4)
        self.ax.add_patch(self.outline)
        finite = np.concatenate([tile[np.isfinite(tile)] for tile in tiles] or [np.zeros(1)])
        self.norm = matplotlib.colors.Normalize(finite.min(), finite.max())
        self.moving = [self.image, self.outline]
        self._bar(figure, label)

    def mark(self, row):
        """Point at one query from the left edge of the grid."""
        at = [0.015 * self.ax.get_xlim()[1]], [(row + 0.5) / self.Br]
        self.moving += self.ax.plot(*at, ">", color="black", markeredgecolor="white", ms=11)

    def _bar(self, figure, label):
        ax = axes_at(figure, 390, 268, 10, 300)
        ax.imshow(np.linspace(1, 0, 64)[:, None], cmap="viridis", aspect="auto",
                  extent=(0, 1, self.norm.vmin, self.norm.vmax))  # fmt: skip
        ax.set_xticks([])
        ends = [self.norm.vmin, self.norm.vmax]
        ax.yaxis.tick_right()
        ax.set_yticks(ends, [f"{value:.1f}" for value in ends])
        place(figure, 395, 583, label, ha="center", weight="bold")

    def set(self, t):
        """Show step t: −1 before the first, len(events) after the last."""
        done = np.repeat(np.repeat(self.step_of < t, self.Br, axis=0), self.Bc, axis=1)
        N_q, N_k = self.pixels.shape[:2]
        self.pixels[:] = 0
        self.pixels[done[:N_q, :N_k]] = DONE
        running = 0 <= t < len(self.run.events)
        self.outline.set_visible(running)
        if running:
            event, tile = self.run.events[t], self.tiles[t]
            hidden = ~np.isfinite(tile)
            colors = VIRIDIS(self.norm(np.where(hidden, 0, tile)), bytes=True)
            colors[hidden] = HIDDEN
            self.pixels[event.rows, event.cols] = colors
            self.outline.set_xy((event.cols.start / self.Bc, event.rows.start / self.Br))
            self.outline.set_width((event.cols.stop - event.cols.start) / self.Bc)
            self.outline.set_height((event.rows.stop - event.rows.start) / self.Br)
        self.image.set_data(self.pixels)


class Stage:
    """SRAM (yellow, as wide as its budget) above HBM (grey), one arrow with the bytes of this step.

    needs: for every step a list of (name, elements) held on chip at that moment.
    """

    def __init__(self, figure, needs, sram_bytes, run, name, color):
        self.needs, self.budget, self.run = needs, sram_bytes, run
        self.load = [dict(move["load"]) for move in run.moves]
        self.store = [dict(move["store"]) for move in run.moves]
        per_step = [sum(move["load"].values()) + sum(move["store"].values()) for move in run.moves]
        self.moved = np.append(0, np.cumsum(per_step))
        self.need_bytes = [ITEMSIZE_BYTES * sum(n for _, n in need) for need in needs]
        self.ax = axes_at(figure, 0, 0, 900, 215)
        self.ax.set(xlim=(0, 900), ylim=(0, 215))
        self.ax.axis("off")
        self._draw_hbm(name, color)
        self._draw_sram()

    def _text(self, x, y, text, **style):
        return self.ax.text(x, y, text, **{"fontsize": 12, "va": "center", **style})

    def _draw_hbm(self, name, color):
        self.ax.add_patch(Rectangle((20, 8), 860, 78, facecolor=COLORS["hbm"]))
        self._text(30, 47, "HBM", weight="bold", fontsize=14)
        largest = max(self.run.total_bytes, self.run.naive_bytes or 0)
        self.bar_scale = 470 / largest
        naive = self.run.naive_bytes or self.run.total_bytes
        label = "naive" if self.run.naive_bytes else "all of it"
        whole = {"facecolor": "white", "edgecolor": "black", "linewidth": 2}
        self.ax.add_patch(Rectangle((100, 51), naive * self.bar_scale, 24, **whole))
        self._text(585, 63, f"{label}: {bytes_text(naive)}")
        self.bar = self.ax.add_patch(
            Rectangle((100, 18), 0, 24, facecolor=color, edgecolor="black")
        )
        self._text(585, 30, f"{name}:")
        self.bar_text = self._text(596 + 10 * len(name), 30, "")

    def _draw_sram(self):
        self.scale = 600 / max([self.budget, *self.need_bytes])
        sram = {"facecolor": COLORS["sram"], "edgecolor": "black"}
        self.ax.add_patch(Rectangle((270, 146), self.budget * self.scale, 56, **sram))
        self._text(30, 188, "SRAM", weight="bold", fontsize=14)
        self.need_text = self._text(30, 163, "")
        arrow = {"arrowstyle": "<|-|>", "mutation_scale": 18, "lw": 3, "color": "black"}
        self.ax.add_patch(FancyArrowPatch((290, 84), (290, 148), **arrow))
        self.move_text = self._text(306, 117, "")
        names = [name for name, _ in self.needs[0]] if self.needs else []
        self.blocks = [
            self.ax.add_patch(
                Rectangle((0, 152), 1, 44, facecolor=_block_color(name), edgecolor="white")
            )
            for name in names
        ]
        white = {"color": "white", "ha": "center", "weight": "bold"}
        self.names = [self._text(0, 174, name, **white) for name in names]
        self.moving = [
            self.bar, self.bar_text, self.need_text, self.move_text, *self.blocks, *self.names
        ]  # fmt: skip

    def set(self, t):
        """Show step t: −1 before the first, len(events) after the last."""
        running = 0 <= t < len(self.needs)
        x = 270
        sizes = self.needs[t] if running else [("", 0)] * len(self.blocks)
        for block, name, (_, elements) in zip(self.blocks, self.names, sizes, strict=True):
            width = elements * ITEMSIZE_BYTES * self.scale
            block.set(x=x, width=width, visible=running)
            name.set(x=x + width / 2, visible=running and width > 5 + 9 * len(name.get_text()))
            x += width
        need = self.need_bytes[t] if running else 0
        fits = need <= self.budget
        words = f"{bytes_text(need)} of {bytes_text(self.budget)}"
        self.need_text.set_text(words if fits else words + ": too much")
        self.need_text.set_color("black" if fits else ALARM)
        self.move_text.set_text(self._moves(t))
        self.bar.set_width(self.moved[t + 1] * self.bar_scale)
        self.bar_text.set_text(bytes_text(self.moved[t + 1]) + " so far")

    def _moves(self, t):
        if t < 0:
            return ""
        parts = []
        for verb, move in (("load", self.load[t]), ("store", self.store[t])):
            if move:
                parts.append(f"{verb} {bytes_text(sum(move.values()))}: {' '.join(move)}")
        return "    ".join(parts)

    def sentence(self, t):
        """The same as the picture says, in words."""
        running = 0 <= t < len(self.needs)
        need = self.need_bytes[t] if running else 0
        against = f", naive {bytes_text(self.run.naive_bytes)}" if self.run.naive_bytes else ""
        return (
            f"On chip {bytes_text(need)} of {bytes_text(self.budget)}; moved so far "
            f"{bytes_text(self.moved[t + 1])} of {bytes_text(self.run.total_bytes)}{against}."
        )


def _block_color(name):
    if name in ("S", "P", "dS"):
        return SCORES_COLOR
    return COLORS.get(name.removeprefix("d"), "black")
