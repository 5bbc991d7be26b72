"""One function a figure: data in, matplotlib axes out. One visual grammar for the whole course.

Q blue, K vermilion, V green, O purple; naive black, K-outer orange, Q-outer blue; what hardware
counters measured has open markers; m solid, l dashed, α dotted. Colours are Okabe and Ito's, told
apart by colour-blind eyes, and marker or dash differ too. About 900 px wide, opaque, 12 pt or more.
"""

import functools

import numpy as np

try:
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle
except ImportError as error:
    raise ImportError("flashlib.plots needs matplotlib: pip install matplotlib") from error

COLORS = {
    "Q": "#0072B2", "K": "#D55E00", "V": "#009E73", "O": "#CC79A7",
    "naive": "#000000", "k_outer": "#E69F00", "flash": "#0072B2",
    "hbm": "#BBBBBB", "sram": "#F0E442", "done": "#9ECAE1", "skipped": "#E5E5E5",
}  # fmt: skip
LABELS = {
    "naive": "naive",
    "k_outer": "K-outer (FlashAttention-1)",
    "flash": "Q-outer (FlashAttention-2)",
}
LINES = {"naive": "-", "k_outer": "-.", "flash": "--"}
MARKERS = {"naive": "s", "k_outer": "^", "flash": "o"}
GPU_LINES = {"A100": (":", "v"), "H100": ("--", "^"), "H200": ("-", "o")}
STYLE = {
    "figure.dpi": 100, "savefig.dpi": 100,
    "figure.facecolor": "white", "savefig.facecolor": "white",
    "axes.facecolor": "white", "font.size": 13, "axes.titlesize": 14, "axes.labelsize": 13,
    "xtick.labelsize": 12, "ytick.labelsize": 12, "legend.fontsize": 12, "axes.grid": False,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 2,
    "lines.markersize": 7, "figure.constrained_layout.use": True,
}  # fmt: skip


def styled(figure_function):
    """Run a figure function under the course's style, without touching the caller's settings."""

    @functools.wraps(figure_function)
    def wrapper(*args, **kwargs):
        with plt.rc_context(STYLE):
            axes = figure_function(*args, **kwargs)
            interactive = plt.isinteractive()  # Jupyter's backend turns it on at the first figure
        plt.interactive(interactive)  # and the end of the context would turn it off again
        return axes

    return wrapper


def _axes(columns=1, height=4.2, **kwargs):
    """One row of axes, 900 px wide in all."""
    return plt.subplots(1, columns, figsize=(9, height), **kwargs)[1]


def draw_matrix(ax, matrix, name, rows="query i", cols="key j", fmt="{:.2f}", **image):
    """A small matrix as a viridis picture with its numbers; −inf and NaN are grey and spelt out."""
    matrix = np.atleast_2d(matrix)
    shown = np.ma.masked_invalid(matrix.astype(float))
    ax.set_facecolor(COLORS["skipped"])
    picture = ax.imshow(shown, aspect="equal", **{"cmap": "viridis", **image})
    for (i, j), value in np.ndenumerate(matrix):
        text = fmt.format(value) if np.isfinite(value) else f"{value:.0f}".replace("-inf", "−∞")
        light = not np.isfinite(value) or picture.norm(value) > 0.6
        ax.text(j, i, text, ha="center", va="center", color="black" if light else "white")
    ax.set(title=f"{name}  {matrix.shape[0]} × {matrix.shape[1]}", xlabel=cols, ylabel=rows)
    ax.set_xticks(range(matrix.shape[1]))
    ax.set_yticks(range(matrix.shape[0]))


@styled
def matrices(named, labels=None, height=3.4, fmt="{:.2f}"):
    """Small matrices in a row. named: {name: (R, C) array}; labels: {name: (rows, cols)}."""
    axes = np.atleast_1d(_axes(len(named), height))
    for ax, (name, matrix) in zip(axes, named.items(), strict=True):
        draw_matrix(ax, matrix, name, *(labels or {}).get(name, ()), fmt=fmt)
    return axes


def draw_tiles(ax, kinds, done=(), now=None):
    """The score matrix as a grid of tiles (see the module's grammar).

    kinds: (T_r, T_c) strings "full", "diagonal", "skipped". done: iterable of (i, j), filled.
    now: (i, j), outlined.
    """
    T_r, T_c = kinds.shape
    done = set(done)
    hatches = {"full": "", "diagonal": "//", "skipped": "xxx"}
    for (i, j), kind in np.ndenumerate(kinds):
        face = COLORS["skipped"] if kind == "skipped" else "white"
        face = COLORS["done"] if (i, j) in done else face
        edge = "#B0B0B0" if kind == "skipped" else "#555555"
        tile = {"hatch": hatches[kind], "facecolor": face, "edgecolor": edge, "linewidth": 0.8}
        ax.add_patch(Rectangle((j, i), 1, 1, clip_on=False, **tile))
    if now is not None:
        outline = {"fill": False, "edgecolor": "black", "linewidth": 4, "clip_on": False}
        ax.add_patch(Rectangle(now[::-1], 1, 1, zorder=3, **outline))
    ax.set(xlim=(0, T_c), ylim=(T_r, 0), aspect="equal")
    ax.set(xlabel="column tile j (keys)", ylabel="row tile i (queries)")
    step = max(1, -(-max(T_r, T_c) // 8))
    ax.set_xticks(np.arange(0, T_c, step) + 0.5, np.arange(0, T_c, step))
    ax.set_yticks(np.arange(0, T_r, step) + 0.5, np.arange(0, T_r, step))


@styled
def tiles(named, height=4.2, **drawing):
    """One or more tile grids side by side. named: {title: kinds (T_r, T_c)}."""
    axes = np.atleast_1d(_axes(len(named), height))
    for ax, (title, kinds) in zip(axes, named.items(), strict=True):
        draw_tiles(ax, kinds, **drawing)
        ax.set_title(title)
    return axes


@styled
def course_map(steps):
    """The steps of the course as one chain. steps: list of (title, one line, formula)."""
    ax = _axes(height=3.3)
    for k, (title, line, formula) in enumerate(steps):
        x, y = 3.4 * (k % 3), -1.5 * (k // 3)
        ax.add_patch(Rectangle((x, y), 2.9, 1.15, facecolor="#EAF2F8", edgecolor=COLORS["Q"], lw=2))
        ax.text(x + 0.1, y + 0.9, f"{k + 1}  {title}", weight="bold", va="center")
        ax.text(x + 0.1, y + 0.56, line, fontsize=12, va="center")
        ax.text(x + 0.1, y + 0.22, formula, fontsize=12, va="center", color=COLORS["K"])
        if k % 3 < 2:
            arrow = {"arrowstyle": "-|>", "lw": 2}
            ax.annotate("", (x + 3.4, y + 0.57), (x + 2.9, y + 0.57), arrowprops=arrow)
    ax.annotate("", (1.45, -0.35), (8.2, 0), arrowprops={"arrowstyle": "-|>", "lw": 2})
    ax.set(xlim=(-0.05, 9.8), ylim=(-1.6, 1.25))
    ax.axis("off")
    return ax


@styled
def round_trips(steps, title):
    """What crosses between HBM (grey, below) and SRAM (yellow, above), step by step in time.

    steps: list of (label on chip, [(tensor, "load" or "store", elements as text), …]).
    """
    ax = _axes(height=3.6)
    n = len(steps)
    ax.add_patch(Rectangle((0, 0), 3 * n, 0.7, facecolor=COLORS["hbm"]))
    ax.text(0.1, 0.35, "HBM", weight="bold", va="center")
    for k, (label, moves) in enumerate(steps):
        ax.add_patch(Rectangle((3 * k + 0.3, 2.5), 2.4, 0.7, facecolor=COLORS["sram"]))
        ax.text(3 * k + 1.5, 2.85, label, ha="center", va="center")
        for t, (tensor, way, amount) in enumerate(moves):
            x = 3 * k + 0.3 + 2.4 * (t + 0.5) / len(moves)
            y = (0.7, 2.5) if way == "load" else (2.5, 0.7)
            arrow = {"arrowstyle": "-|>", "lw": 2.5, "color": COLORS.get(tensor, "#440154")}
            ax.annotate("", (x, y[1]), (x, y[0]), arrowprops=arrow)
            ax.text(x + 0.07, 1.6, f"{tensor}\n{amount}", va="center", fontsize=12)
    ax.text(0.02, 3.42, "SRAM (on chip)", weight="bold", va="center")
    ax.set(xlim=(0, 3 * n), ylim=(0, 3.6), title=title)
    ax.axis("off")
    return ax


def _log_axes(ax, xlabel, ylabel):
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.grid(True, which="major", color="#DDDDDD", linewidth=0.8)


def _powers_of_two(ax, N):
    ax.set_xticks(N, [f"{n // 1024}k" if n >= 1024 else str(n) for n in N])
    ax.minorticks_off()


@styled
def overflow(x, exp_values, largest):
    """exp(x) against x with the largest number of the dtype. x, exp_values: (n,)."""
    ax = _axes(height=3.6)
    finite = np.isfinite(exp_values)
    ax.semilogy(x[finite], exp_values[finite], color=COLORS["naive"], label="exp(x) in float32")
    ax.axhline(largest, color=COLORS["K"], linestyle="--", label=f"largest float32, {largest:.1e}")
    ax.axvspan(x[~finite][0], x[-1], color=COLORS["skipped"], label="inf")
    ax.set(xlabel="score x", ylabel="exp(x)")
    ax.legend()
    return ax


@styled
def traffic_curves(N, curves, measured=(), title=""):
    """Megabytes against sequence length, log–log.

    N: (n,) lengths. curves: list of (kind, label, bytes (n,)), kind in naive, k_outer, flash.
    measured: list of (kind, label, N, bytes), drawn as open markers.
    """
    ax = _axes(height=4.8)
    for kind, label, moved_bytes in curves:
        thin = {"color": COLORS[kind], "linestyle": LINES[kind]}
        thin["linestyle"] = ":" if "requested" in label else thin["linestyle"]
        ax.plot(N, np.asarray(moved_bytes) / 1e6, label=label, **thin)
    for kind, label, at, moved_bytes in measured:
        marker = {"marker": MARKERS[kind], "linestyle": "none", "markerfacecolor": "white"}
        marker["marker"] = "D" if "L2" in label else marker["marker"]
        edge = {"markeredgecolor": COLORS[kind], "markeredgewidth": 2}
        ax.plot(at, np.asarray(moved_bytes) / 1e6, label=label, **marker, **edge)
    _log_axes(ax, "sequence length N (tokens)", "MB moved")
    _powers_of_two(ax, N)
    ax.set_title(title)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return ax


@styled
def rooflines(gpus, points):
    """The roofs of several GPUs and what was measured under one of them.

    gpus: list of `hardware.GPU`. points: list of (label, kind, FLOP per byte, FLOP/s).
    """
    ax = _axes(height=4.8)
    intensity = np.geomspace(4, 20_000, 200)
    for gpu in gpus:
        roof = np.minimum(gpu.fp16_flops_per_s, intensity * gpu.hbm_bytes_per_s) / 1e12
        dash, marker = GPU_LINES[gpu.name]
        ax.plot(intensity, roof, color="#777777", linestyle=dash, label=f"{gpu.name} roof")
        ax.plot(gpu.ridge_flops_per_byte, gpu.fp16_flops_per_s / 1e12, marker, color="#777777")
    for label, kind, x, flops_per_s in points:
        style = {"color": COLORS[kind], "markerfacecolor": "white", "markeredgewidth": 2}
        ax.plot(x, np.asarray(flops_per_s) / 1e12, MARKERS[kind], label=label, **style)
    _log_axes(ax, "arithmetic intensity (FLOP per HBM byte)", "TFLOP/s")
    ax.legend(loc="lower right")
    return ax


@styled
def bars(named, xlabel, ylabel, colors=None, fmt="{:.3g}", hline=None):
    """Labelled bars. named: {label: value}. hline: (value, label) drawn dashed."""
    ax = _axes(height=3.8)
    values = list(named.values())
    drawn = ax.bar(list(named), values, color=colors or "#777777", width=0.6, edgecolor="black")
    ax.bar_label(drawn, [fmt.format(v) for v in values], fontsize=12, padding=2)
    if hline is not None:
        ax.axhline(hline[0], color=COLORS["K"], linestyle="--", label=hline[1])
        ax.legend()
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.margins(y=0.15)
    return ax


@styled
def running_state(m, l, alpha, title):
    """The running maximum m, sum l and rescale factor α of one row after each tile. (T,) each."""
    ax, below = plt.subplots(2, 1, figsize=(9, 4.6), sharex=True)[1]
    steps = np.arange(1, len(m) + 1)
    ax.step(steps, m, where="post", color="black", label="m, running maximum")
    ax.set(ylabel="m", title=title)
    ax.legend(loc="lower right")
    below.plot(steps, l, "--", color=COLORS["Q"], label="l, running sum")
    below.set(xlabel="tiles seen", ylabel="l")
    twin = below.twinx()
    twin.plot(steps, alpha, ":", color=COLORS["K"], label="α, rescale factor")
    twin.set(ylabel="α", ylim=(-0.05, 1.5), yticks=(0, 0.5, 1))
    twin.spines["right"].set_visible(True)
    below.margins(y=0.25)
    below.set_ylim(0, None)
    lines = below.get_lines() + twin.get_lines()
    below.legend(lines, [line.get_label() for line in lines], loc="lower right")
    return ax, below


@styled
def record_steps(moves, expected):
    """How often the maximum moved. moves: (rows,) counts; expected: their mean by theory."""
    ax = _axes(height=3.6)
    ax.hist(moves, bins=np.arange(moves.max() + 2) - 0.5, color=COLORS["done"], edgecolor="black")
    ax.axvline(expected, color=COLORS["K"], linestyle="--", label=f"expected {expected:.2f}")
    ax.set(xlabel="steps with α ≠ 1", ylabel="rows")
    ax.legend()
    return ax


@styled
def errors_by_length(N, errors, epsilons):
    """Error against N, naive beside tiled, one panel a dtype.

    errors: {dtype name: {"naive" or "flash": (n,)}}. epsilons: {dtype name: machine epsilon}.
    """
    axes = np.atleast_1d(_axes(len(errors), 4.0))
    for ax, (dtype, by_kind) in zip(axes, errors.items(), strict=True):
        for kind, error in by_kind.items():
            style = {"color": COLORS[kind], "linestyle": LINES[kind], "marker": MARKERS[kind]}
            ax.plot(N, error, label="tiled" if kind == "flash" else kind, **style)
        ax.axhline(epsilons[dtype], color="#777777", linestyle=":", label="machine epsilon")
        _log_axes(ax, "keys N", "largest error of O")
        _powers_of_two(ax, N)
        drawn = [*by_kind.values(), epsilons[dtype]]
        low, high = min(map(np.min, drawn)), max(map(np.max, drawn))
        ax.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))  # whole decades
        ax.set_title(dtype)
        ax.legend()
    return axes


@styled
def tile_times(sizes, seconds, naive_seconds):
    """Time against tile size on the reader's own CPU, naive as a line. seconds: (n,)."""
    ax = _axes(height=4.0)
    ax.plot(sizes, np.asarray(seconds) * 1e3, "o--", color=COLORS["flash"], label="tiled, Br = Bc")
    ax.axhline(naive_seconds * 1e3, color=COLORS["naive"], label="naive")
    ax.set(xscale="log", xlabel="tile size Br = Bc", ylabel="milliseconds", ylim=(0, None))
    _powers_of_two(ax, sizes)
    ax.legend()
    return ax


@styled
def error_maps(named):
    """Where broken outputs differ from the right one. named: {title: |O − O_ref| (N, d)}."""
    axes = plt.subplots(
        2, -(-len(named) // 2), figsize=(9, 5.4), sharex=True, sharey=True, squeeze=False
    )[1]
    for ax, (title, error) in zip(axes.flat, named.items(), strict=False):
        ax.set_facecolor(COLORS["skipped"])
        shown = np.ma.masked_invalid(np.where(error == 0, 1e-20, error))
        picture = ax.imshow(shown, norm=LogNorm(1e-16, 10), cmap="viridis", aspect="auto")
        ax.set_title(title, fontsize=12)
    for ax in axes.flat[len(named) :]:
        ax.axis("off")
    for ax in axes[:, 0]:
        ax.set_ylabel("query i")
    for ax in axes[-1]:
        ax.set_xlabel("column of O")
    axes[0, 0].figure.colorbar(picture, ax=axes, label="|error|", shrink=0.9)
    return axes


@styled
def lines(x, curves, xlabel, ylabel, hline=None, log=False, height=3.8):
    """Plain curves with marker and dash each. curves: list of (label, color, fmt, y (n,))."""
    ax = _axes(height=height)
    for label, color, fmt, y in curves:
        ax.plot(x, y, fmt, color=color, label=label)
    if hline is not None:
        ax.axhline(hline[0], color="#777777", linestyle=":", label=hline[1])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if log:
        _log_axes(ax, xlabel, ylabel)
        _powers_of_two(ax, x)
    ax.legend()
    return ax


# label, colour, line and marker of each implementation in the benchmark figures
IMPLEMENTATIONS = {
    "flashlib_triton": ("this course's kernel", "#0072B2", "o-"),
    "sdpa_cudnn": ("SDPA cuDNN", "#D55E00", "^--"),
    "sdpa_flash": ("SDPA flash (FlashAttention-2)", "#56B4E9", "s-."),
    "sdpa_mem_efficient": ("SDPA memory-efficient", "#999999", "D:"),
    "unfused_pytorch": ("unfused PyTorch", "#000000", "x:"),
    "flash_attention_3": ("FlashAttention-3", "#F0E442", "v--"),
}


@styled
def throughput(panels, ceiling_tflops=None, height=3.6):
    """TFLOP/s against N. panels: {title: {implementation: (N (n,), TFLOP/s (n,))}}."""
    axes = np.atleast_1d(_axes(len(panels), height, sharey=True))
    for ax, (title, series) in zip(axes, panels.items(), strict=True):
        for implementation, (N, tflops) in series.items():
            label, color, fmt = IMPLEMENTATIONS[implementation]
            ax.plot(N, tflops, fmt, color=color, label=label)
        if ceiling_tflops is not None:
            ax.axhline(ceiling_tflops, color="#777777", linestyle=":", label="large matrix product")
        ax.set(title=title, xlabel="sequence length N (tokens)", xscale="log", ylim=(0, None))
        _powers_of_two(ax, sorted({n for N, _ in series.values() for n in N}))
    axes[0].set_ylabel("TFLOP/s")
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return axes
