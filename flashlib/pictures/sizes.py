"""S and P beside the memories of a GPU."""

from flashlib.hardware import GPUS
from flashlib.pictures.frames import ALARM, ITEMSIZES_BYTES, Picture, new_figure, styled_picture
from flashlib.pictures.stage import axes_at, bytes_text, place
from flashlib.plots import COLORS


@styled_picture
def memory_explorer(N=4096, d=128, heads=16, batch=1, dtype="fp16", gpu="H200"):
    """S and P of naive attention, and Q, K, V, O, against the memories of a GPU (log scale).

    Returns a Picture. Raises KeyError for an unknown dtype or GPU.
    """
    card, size = GPUS[gpu], ITEMSIZES_BYTES[dtype]
    needs = {  # bytes, colour, hatch
        "S + P, all heads": (2 * N * N * heads * batch * size, COLORS["naive"], "//"),
        "S + P, one head": (2 * N * N * size, "#777777", "//"),
        "Q, K, V, O, all heads": (4 * N * d * heads * batch * size, COLORS["Q"], ""),
        "one 64 × 64 tile of S": (64 * 64 * size, COLORS["V"], ""),
    }
    holds = {  # bytes, colour, dash
        "SRAM of one SM": (card.sram_bytes_per_sm, COLORS["k_outer"], "-"),
        "SRAM of all SMs": (card.sms * card.sram_bytes_per_sm, COLORS["k_outer"], "--"),
        "L2 cache": (card.l2_bytes, COLORS["K"], "-."),
        "HBM": (card.hbm_bytes, ALARM, ":"),
    }
    figure = new_figure(4.6)
    ax = axes_at(figure, 205, 65, 555, 290)
    for y, (n_bytes, color, hatch) in enumerate(needs.values()):
        ax.barh(y, n_bytes, 0.62, color=color, edgecolor="white", hatch=hatch)
        ax.text(n_bytes * 1.25, y, bytes_text(n_bytes), va="center", fontsize=12, weight="bold")
    for name, (n_bytes, color, dash) in holds.items():
        label = f"{name}: {bytes_text(n_bytes)}"
        ax.axvline(n_bytes, color=color, linestyle=dash, label=label, zorder=0)
    ax.set_yticks(range(len(needs)), list(needs))
    ax.set(xscale="log", xlim=(1e3, 1e16), ylim=(3.6, -0.6), xlabel="bytes (log scale)")
    ax.set_xticks([1e3, 1e6, 1e9, 1e12, 1e15], ["1 kB", "1 MB", "1 GB", "1 TB", "1 PB"])
    ax.minorticks_off()
    figure.legend(loc="upper left", bbox_to_anchor=(0.01, 0.995), ncols=2, frameon=False)
    place(figure, 560, 438, f"{gpu}, N = {N:,}, {dtype}", weight="bold", fontsize=14)
    place(figure, 560, 414, f"{batch} × {heads} heads, d = {d}")
    scores = needs["S + P, all heads"][0]
    fits = [name for name, (n_bytes, *_) in holds.items() if scores <= n_bytes]
    where = f"fit into {fits[0]} at the earliest" if fits else "fit nowhere on this card"
    text = (
        f"S and P of all heads take {bytes_text(scores)} and {where}; "
        f"Q, K, V and O take {bytes_text(needs['Q, K, V, O, all heads'][0])}."
    )
    return Picture(figure, text)
