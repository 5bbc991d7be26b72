"""Programs on multiprocessors: waves, and how full they are."""

from math import ceil

import numpy as np

from flashlib.pictures.frames import Picture, new_figure, styled_picture
from flashlib.pictures.stage import axes_at, place
from flashlib.plots import COLORS, LABELS


def waves(programs, sms):
    """(waves, utilisation) of `programs` equal programs on `sms` multiprocessors, one each."""
    n_waves = ceil(programs / sms)
    return n_waves, programs / (n_waves * sms)


@styled_picture
def sm_waves(batch=1, heads=16, N=4096, Br=128, sms=132):
    """Programs, waves and utilisation: one program a row tile, beside one a head.

    FlashAttention-1 starts batch × heads programs, FlashAttention-2 ⌈N/Br⌉ times as many, each that
    much shorter. One program a multiprocessor at a time, all of one kind equally long. Returns a
    Picture; areas of equal work are equal.
    """
    T_r = ceil(N / Br)
    plans = {"k_outer": (batch * heads, T_r, "head"), "flash": (batch * heads * T_r, 1, "row tile")}
    end = max(waves(programs, sms)[0] * length for programs, length, _ in plans.values())
    figure = new_figure(4.9)
    sentences = []
    for bottom, (name, (programs, length, what)) in zip((285, 65), plans.items(), strict=True):
        n_waves, used = waves(programs, sms)
        ax = axes_at(figure, 75, bottom, 560, 145)
        ax.set(xlim=(0, end * 1.02), ylim=(0, sms * 1.2), ylabel="busy SMs")
        ax.set_yticks([0, sms])
        _draw_waves(ax, programs, sms, length, name)
        heading = f"{LABELS[name]}: one program a {what}"
        place(figure, 75, bottom + 160, heading, weight="bold")
        words = (
            f"{programs:,} program{'s' * (programs > 1)}",
            f"{n_waves:,} wave{'s' * (n_waves > 1)}",
            f"{used:.0%} of the SMs used",
            f"time: {n_waves * length:,}",
        )
        for k, line in enumerate(words):
            weight = "bold" if "used" in line else "normal"
            place(figure, 655, bottom + 125 - 30 * k, line, fontsize=13, weight=weight)
        sentences.append(f"{LABELS[name]}: {', '.join(words)} row tiles long.")
    ax.set_xlabel("time, in row tiles of one head")
    title = f"{batch} × {heads} heads, N = {N:,}, Br = {Br}: ⌈N/Br⌉ = {T_r} row tiles, {sms} SMs"
    place(figure, 20, 473, title, weight="bold", fontsize=14)
    return Picture(figure, " ".join(sentences))


def _draw_waves(ax, programs, sms, length, name):
    n_waves, _ = waves(programs, sms)
    full = n_waves - 1  # the last wave may not fill the card
    style = {"facecolor": COLORS[name], "edgecolor": "white", "hatch": "//" * (name == "k_outer")}
    ax.bar([0], [sms], [full * length], align="edge", **style)
    ax.bar([full * length], [programs - full * sms], [length], align="edge", **style)
    if n_waves <= 40:
        ax.vlines(np.arange(1, n_waves) * length, 0, sms, color="white", lw=1)
    ax.axhline(sms, color="black", linestyle="--", lw=1.5)
