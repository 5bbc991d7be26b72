"""The tile sweeps, forward and backward: one frame a tile of a real run."""

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from flashlib.pictures.frames import MAX_FRAMES, Picture, coarse_note, new_figure, styled_picture
from flashlib.pictures.recordings import chosen_steps, record_backward, record_forward
from flashlib.pictures.stage import Grid, Stage, axes_at, place
from flashlib.plots import COLORS


@styled_picture
def tile_sweep(
    N=48, d=16, Br=8, Bc=8, causal=False, order="Q-outer", row=4, seed=0, sram_bytes=2000
):
    """The tiled forward pass, one frame a tile: what is on chip, what moved, what one row knows.

    Args:
        N, d: rows and columns of random Q, K, V. Br, Bc: tile sizes.
        order: "Q-outer" (FlashAttention-2) or "K-outer" (FlashAttention-1).
        row: the query whose m, l, α and O are shown; beyond the last one, the last.
        sram_bytes: the toy budget that the tiles are compared with, 2 bytes a number.

    Returns:
        Picture: frame 0 before the first tile, then the tiles, then the end.
    """
    run, row = record_forward(N, d, Br, Bc, causal, order, seed), min(row, N - 1)
    steps, note = _frames_of(run)
    figure = new_figure()
    color = COLORS["flash" if order == "Q-outer" else "k_outer"]
    needs = [[("Q", d * R), ("K", d * C), ("V", d * C), ("S", R * C), ("O", d * R), ("m, l", 2 * R)]
             for R, C in map(_tile_shape, run.events)]  # fmt: skip
    stage = Stage(figure, needs, sram_bytes, run, order, color)
    grid = Grid(figure, run, N, N, Br, Bc, [event.S for event in run.events])
    grid.mark(row)
    side = _RowSide(figure, run, row)
    place(figure, 20, 603, order, fontsize=14, weight="bold")
    title = place(figure, 120, 603, "", fontsize=14, weight="bold")

    def update(k):
        t = steps[k]
        title.set_text(_headline(run, t))
        stage.set(t), grid.set(t), side.set(t)

    def text(k):
        t = steps[k]
        return f"{order}, {_headline(run, t)}. {stage.sentence(t)} {side.sentence(t)}"

    moving = [title, *stage.moving, *grid.moving, *side.moving]
    poster = int(np.searchsorted(steps, side.at[len(side.at) // 2]))  # the row half way
    many = {"frames": len(steps), "poster": poster, "note": note}
    return Picture(figure, text, moving=moving, update=update, **many)


@styled_picture
def backward_sweep(N=48, d=16, Br=8, Bc=8, causal=False, seed=0, sram_bytes=3000):
    """The recompute backward, one frame a tile: P again, dK and dV resident, dQ through HBM.

    Arguments as in `tile_sweep`. Returns a Picture.
    """
    run = record_backward(N, d, Br, Bc, causal, seed)
    steps, note = _frames_of(run)
    figure = new_figure()
    needs = [[("Q", d * R), ("dO", d * R), ("dQ", d * R), ("K", d * C), ("V", d * C),
              ("dK", d * C), ("dV", d * C), ("P", R * C), ("dS", R * C), ("L, D", 2 * R)]
             for R, C in map(_tile_shape, run.events)]  # fmt: skip
    stage = Stage(figure, needs, sram_bytes, run, "backward", COLORS["flash"])
    grid = Grid(figure, run, N, N, Br, Bc, [event.P for event in run.events], "P")
    side = _GradientSide(figure, run, N, d)
    place(figure, 20, 603, "K-outer", fontsize=14, weight="bold")
    title = place(figure, 120, 603, "", fontsize=14, weight="bold")

    def update(k):
        title.set_text(_headline(run, steps[k]))
        stage.set(steps[k]), grid.set(steps[k]), side.set(steps[k])

    def text(k):
        t = steps[k]
        return f"K-outer, {_headline(run, t)}. {stage.sentence(t)} {side.sentence(t)}"

    moving = [title, *stage.moving, *grid.moving, *side.moving]
    many = {"frames": len(steps), "poster": len(steps) // 2, "note": note}
    return Picture(figure, text, moving=moving, update=update, **many)


def _frames_of(run):
    """Steps with a frame (−1 is the start, T the end) and the note that says what is left out."""
    T = len(run.events)
    chosen = chosen_steps(T, MAX_FRAMES - 2)
    return np.concatenate([[-1], chosen, [T]]), coarse_note(T, len(chosen))


def _tile_shape(event):
    return event.rows.stop - event.rows.start, event.cols.stop - event.cols.start


def _headline(run, t):
    T = len(run.events)
    if t < 0:
        return f"before the first of {T} tiles"
    if t == T:
        return f"all {T} tiles done, {int((run.kinds == 'skipped').sum())} skipped"
    event = run.events[t]
    return f"tile {t + 1} of {T}: i = {event.i}, j = {event.j}, {event.kind}"


class _RowSide:
    """m, l, α and O of one row against the tiles it has seen."""

    def __init__(self, figure, run, row):
        self.row, self.final = row, run.results[0][row]
        self.at = [t for t, e in enumerate(run.events) if e.rows.start <= row < e.rows.stop]
        mine = [run.events[t] for t in self.at]
        k = row - mine[0].rows.start
        self.m, self.l, self.alpha = (
            np.array([getattr(e, name)[k] for e in mine]) for name in ("m", "l", "alpha")
        )
        self.O = np.array([e.O[k] for e in mine])
        self._draw(figure)

    def _draw(self, figure):
        step = -(-len(self.at) // 5)
        left, right = axes_at(figure, 480, 458, 165, 100), axes_at(figure, 712, 458, 165, 100)
        for ax in (left, right):
            ax.set(xlim=(0.7, len(self.at) + 0.3), xlabel="tiles seen")
            ax.set_xticks(range(1, len(self.at) + 1, step))
        span = np.ptp(self.m) or 1
        left.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        left.set(ylim=(self.m.min() - 0.25 * span, self.m.max() + 0.25 * span))
        right.set(ylim=(0, 1.15 * max(1, self.l.max())))
        bottom = axes_at(figure, 480, 268, 397, 92)
        columns = np.arange(len(self.final))
        both = np.concatenate([self.O.ravel(), self.final, [0]])
        pad = 0.15 * np.ptp(both)
        bottom.set(ylim=(both.min() - pad, both.max() + pad), xlabel="column of O")
        bottom.set_xticks(range(0, len(columns), -(-len(columns) // 8)))
        bottom.axhline(0, color="#BBBBBB", lw=1)
        bottom.plot(columns, self.final, "o", color="black", markerfacecolor="none", ms=8)
        place(figure, 480, 378, f"row {self.row}: O so far    (circles: final O)")
        (self.m_line,) = left.plot([], [], "k-", marker=".")
        (self.l_line,) = right.plot([], [], "--", marker=".", color=COLORS["Q"])
        (self.alpha_line,) = right.plot([], [], ":", marker=".", color=COLORS["K"])
        (self.O_line,) = bottom.plot([], [], "-", marker=".", color=COLORS["O"])
        place(figure, 480, 576, f"row {self.row}:")
        self.m_text = place(figure, 550, 576, "")
        self.l_text = place(figure, 700, 576, "", color=COLORS["Q"])
        self.alpha_text = place(figure, 795, 576, "", color=COLORS["K"])
        self.moving = [
            self.m_line, self.l_line, self.alpha_line, self.O_line,
            self.m_text, self.l_text, self.alpha_text,
        ]  # fmt: skip

    def set(self, t):
        """Show step t: −1 before the first, len(events) after the last."""
        n = np.searchsorted(self.at, t, side="right")
        seen = np.arange(1, n + 1)
        for line, values in (
            (self.m_line, self.m), (self.l_line, self.l), (self.alpha_line, self.alpha),
        ):  # fmt: skip
            line.set_data(seen, values[:n])
        O = self.O[n - 1] if n else []
        self.O_line.set_data(np.arange(len(O)), O)
        self.m_text.set_text(f"m = {self.m[n - 1]:.2f}" if n else "m = −∞")
        self.l_text.set_text(f"l = {self.l[n - 1]:.2f}" if n else "l = 0")
        self.alpha_text.set_text(f"α = {self.alpha[n - 1]:.2f}" if n else "")

    def sentence(self, t):
        """The same as the picture says, in words."""
        n = np.searchsorted(self.at, t, side="right")
        if not n:
            return f"Row {self.row} has seen no tile: m is minus infinity, l is 0."
        m, l, alpha = self.m[n - 1], self.l[n - 1], self.alpha[n - 1]
        away = np.abs(self.O[n - 1] - self.final).max()
        return (
            f"Row {self.row} has seen {n} of {len(self.at)} tiles: m {m:.2f}, l {l:.2f}, "
            f"alpha {alpha:.2f}; its O is at most {away:.2f} away from the final O."
        )


class _GradientSide:
    """dQ, dK and dV so far, each (N, d): dQ through HBM, one tile of dK and dV on chip."""

    def __init__(self, figure, run, N, d):
        self.run, self.images, self.outlines, shown = run, [], [], run.results
        for k, (name, final) in enumerate(zip(("dQ", "dK", "dV"), shown, strict=True)):
            ax = axes_at(figure, 480 + 142 * k, 268, 104, 270)
            top = np.abs(final).max()
            style = {"cmap": "viridis", "vmin": -top, "vmax": top, "aspect": "auto"}
            ax.set_facecolor("white")
            blank = np.ma.array(np.zeros((N, d)), mask=True)
            self.images.append(
                ax.imshow(blank, extent=(0, d, N, 0), interpolation="nearest", **style)
            )
            ax.set_xticks([0, d])
            ax.set_yticks([0, N])
            ax.set_xlabel("column", labelpad=-8)
            bold = {"color": COLORS[name[1]], "weight": "bold"}
            place(figure, 480 + 142 * k, 553, f"{name} so far", **bold)
            outline = Rectangle((0, 0), d, 1, fill=False, edgecolor="black", linewidth=3)
            self.outlines.append(ax.add_patch(outline))
        place(figure, 480, 580, "dQ passes through HBM, dK and dV tiles stay")
        self.moving = [*self.images, *self.outlines]

    def set(self, t):
        """Show step t: −1 before the first, len(events) after the last."""
        values = [np.full(final.shape, np.nan) for final in self.run.results]
        for event in self.run.events[: t + 1]:
            for value, part, at in zip(
                values,
                (event.dQ, event.dK, event.dV),
                (event.rows, event.cols, event.cols),
                strict=True,
            ):
                value[at] = part
        now = self.run.events[t] if 0 <= t < len(self.run.events) else None
        for k, (image, outline, value) in enumerate(
            zip(self.images, self.outlines, values, strict=True)
        ):
            image.set_data(np.ma.masked_invalid(value))
            outline.set_visible(now is not None)
            if now is not None:
                at = now.cols if k else now.rows
                outline.set_y(at.start)
                outline.set_height(at.stop - at.start)

    def sentence(self, t):
        """The same as the picture says, in words."""
        if t < 0:
            return "dQ is 0 everywhere; dK and dV have not been started."
        if t == len(self.run.events):
            return "dQ, dK and dV are complete."
        event = self.run.events[t]
        return (
            f"dQ of rows {event.rows.start} to {event.rows.stop - 1} was loaded, added to and "
            f"stored; dK and dV of keys {event.cols.start} to {event.cols.stop - 1} stay on chip."
        )
