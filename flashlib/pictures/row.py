"""One row's running maximum, tile by tile."""

import numpy as np
from matplotlib.patches import Rectangle

from flashlib.pictures.frames import (
    ALARM,
    MAX_FRAMES,
    Picture,
    coarse_note,
    new_figure,
    styled_picture,
)
from flashlib.pictures.recordings import chosen_steps, record_row
from flashlib.pictures.stage import axes_at, place
from flashlib.plots import COLORS


@styled_picture
def running_max(n=48, Bc=4, order="random", seed=0):
    """One row of scores taken in tile by tile: m, l, α, the weights so far, and the unsafe ones.

    Args:
        n: scores. Bc: keys a tile. order: one of `recordings.SCORE_ORDERS`.

    Returns:
        Picture: frame 0 before the first tile, then one frame a tile.
    """
    run = record_row(n, Bc, order, seed)
    T = len(run.ends)
    steps = np.append(-1, chosen_steps(T, MAX_FRAMES - 1))
    panel = _RowPanels(new_figure(), run)

    def text(k):
        return panel.sentence(steps[k])

    def update(k):
        panel.set(steps[k])

    moved = np.flatnonzero(run.records) + 1  # the poster is the tile after which m stays
    poster = int(np.searchsorted(steps, moved[-1] if len(moved) else T - 1))
    many = {"frames": len(steps), "poster": poster, "note": coarse_note(T, len(steps) - 1)}
    return Picture(panel.figure, text, moving=panel.moving, update=update, **many)


class _RowPanels:
    """Three panels over the same keys: scores and m, l and α, weights safe and unsafe."""

    def __init__(self, figure, run):
        self.figure, self.run = figure, run
        self.starts = np.append(0, run.ends)
        self.middles = (self.starts[:-1] + run.ends - 1) / 2
        self._draw(len(run.scores), np.arange(len(run.scores)))
        self.title = place(figure, 85, 598, "", fontsize=14, weight="bold")
        self.texts = {
            name: place(figure, 662, y, "", color=color, va="top")
            for name, y, color in (
                ("m", 555, "black"),
                ("records", 480, COLORS["K"]),
                ("l", 335, COLORS["Q"]),
                ("alpha", 300, COLORS["K"]),
                ("safe", 180, COLORS["flash"]),
                ("unsafe", 130, "black"),
            )
        }
        self.moving += [self.title, *self.texts.values()]

    def _draw(self, n, keys):
        run, figure = self.run, self.figure
        top = axes_at(figure, 85, 415, 560, 160)
        middle = axes_at(figure, 85, 265, 560, 95)
        bottom = axes_at(figure, 85, 60, 560, 140)
        low, high = run.scores.min(), run.scores.max()
        pad = 0.12 * (high - low)
        self.lift = 0.5 * pad
        top.set(ylim=(low - pad, high + 1.5 * pad), ylabel="score")
        middle.set(ylim=(0, 1.15 * max(run.l.max(), 1)), ylabel="l, α")
        bottom.set(ylim=(0, 1.1 * run.weights.max()), ylabel="weight", xlabel="key j")
        for ax in (top, middle, bottom):
            ax.set_xlim(-0.7, n - 0.3)
            ax.vlines(run.ends[:-1] - 0.5, *ax.get_ylim(), color="#DDDDDD", lw=1)
        top.plot(keys, run.scores, "o", color="#777777", markerfacecolor="none", ms=5)
        (self.seen,) = top.plot([], [], "o", color=COLORS["Q"], ms=6)
        (self.m_line,) = top.step([], [], "k-", where="post")
        (self.records,) = top.plot([], [], "v", color=COLORS["K"], ms=11)
        (self.l_line,) = middle.plot([], [], "--", marker=".", color=COLORS["Q"])
        (self.alpha_line,) = middle.plot([], [], ":", marker="o", color=COLORS["K"])
        self.bars = list(bottom.bar(keys, np.zeros(n), 0.8, color=COLORS["flash"]))
        (self.unsafe,) = bottom.plot([], [], "x", color="black", ms=7, markeredgewidth=1.5)
        low, high = top.get_ylim()
        band = Rectangle((0, low), 1, high - low, color=COLORS["sram"], alpha=0.5)
        self.band = top.add_patch(band)
        self.moving = [
            self.band, self.seen, self.m_line, self.records, self.l_line, self.alpha_line,
            *self.bars, self.unsafe,
        ]  # fmt: skip

    def set(self, t):
        """Show the row after tile t; −1 is before the first."""
        run, seen = self.run, self.starts[t + 1]
        fell = np.flatnonzero(run.records[: max(t, 0)]) + 1
        self.title.set_text(self._headline(t))
        self.seen.set_data(np.arange(seen), run.scores[:seen])
        edges, m = self.starts[: t + 2] - 0.5, run.m[: t + 1]
        self.m_line.set_data(edges, np.append(m, m[-1]) if t >= 0 else [np.nan])
        self.records.set_data(self.middles[fell], run.m[fell] + self.lift)
        self.l_line.set_data(self.middles[: t + 1], run.l[: t + 1])
        self.alpha_line.set_data(self.middles[1 : t + 1], run.alpha[1 : t + 1])
        self.band.set_visible(t >= 0)
        self.band.set_x(edges[max(t, 0)])
        self.band.set_width(edges[-1] - edges[max(t, 0)])
        weights = run.weights[t] if t >= 0 else np.zeros(len(run.scores))
        for bar, weight in zip(self.bars, weights, strict=True):
            bar.set_height(weight)
        self.unsafe.set_data(np.arange(seen), run.unsafe[t, :seen])
        self._set_texts(t, len(fell))

    def _set_texts(self, t, falls):
        run = self.run
        if t < 0:
            values = {"m": "m = −∞", "l": "l = 0", "safe": "nothing seen yet"}
        else:
            alpha = f"α = {run.alpha[t]:.3f}" if t else "α: nothing to rescale"
            broken = np.isnan(run.unsafe[t]).any()
            values = {
                "m": f"m = {run.m[t]:.2f}",
                "records": f"▼ α ≠ 1 in {falls} of\n{t} later tiles",
                "l": f"l = {run.l[t]:.2f}",
                "alpha": alpha,
                "safe": "▮ exp(s − m) / l",
                "unsafe": "× exp(s) / Σ exp(s)\n"
                + ("   is NaN: overflow" if broken else "   agrees"),
            }
        for key, artist in self.texts.items():
            artist.set_text(values.get(key, ""))
            if key == "unsafe":
                artist.set_color(ALARM if "NaN" in values.get(key, "") else "black")

    def _headline(self, t):
        if t < 0:
            return f"before the first of {len(self.run.ends)} tiles"
        T, n = len(self.run.ends), len(self.run.scores)
        return f"tile {t + 1} of {T}: {self.run.ends[t]} of {n} keys seen"

    def sentence(self, t):
        """The same as the picture says, in words."""
        if t < 0:
            return f"{self._headline(t)}: m is minus infinity and l is 0."
        run = self.run
        unsafe = "overflow to NaN" if np.isnan(run.unsafe[t]).any() else "agree with them"
        return (
            f"{self._headline(t)}. m is {run.m[t]:.2f}, l is {run.l[t]:.2f}, "
            f"alpha {run.alpha[t]:.3f}; "
            f"the maximum has moved {int(run.records[:t].sum())} times since the first tile. "
            f"The weights without subtracting m {unsafe}."
        )
