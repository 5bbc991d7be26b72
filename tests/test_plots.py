"""Claims about the figures: the data drawn are the data given, and the look is the course's."""

import subprocess
import sys

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from flashlib import GPUS, plots, tile_grid  # noqa: E402

N = [128, 256, 512]
FIGURES = {
    "matrices": lambda: plots.matrices({"S": [[0, -np.inf], [1, np.nan]], "P": np.eye(2)}),
    "tiles": lambda: plots.tiles({"a": tile_grid(8, 8, 2, 2, True)}, done=[(0, 0)], now=(1, 0)),
    "course_map": lambda: plots.course_map([("title", "line", "formula")] * 6),
    "round_trips": lambda: plots.round_trips([("S", [("Q", "load", "Nd")])], "title"),
    "overflow": lambda: plots.overflow(np.arange(3.0), np.array([1, 2, np.inf]), 3e38),
    "traffic_curves": lambda: plots.traffic_curves(
        N, [("naive", "n", [1e6, 2e6, 4e6])], [("flash", "f", N, [1e6] * 3)]
    ),
    "rooflines": lambda: plots.rooflines(list(GPUS.values()), [("p", "naive", 60, 1e14)]),
    "bars": lambda: plots.bars({"a": 1, "b": 2}, "loop order", "MB", hline=(1.5, "budget")),
    "running_state": lambda: plots.running_state([0, 1], [1, 2], [0, 1], "title"),
    "record_steps": lambda: plots.record_steps(np.array([1, 2, 2]), 1.7),
    "errors_by_length": lambda: plots.errors_by_length(
        N, {"float32": {"naive": [1e-7] * 3, "flash": [2e-7] * 3}}, {"float32": 1e-7}
    ),
    "tile_times": lambda: plots.tile_times(N, [0.1, 0.2, 0.3], 0.2),
    "error_maps": lambda: plots.error_maps({"A": np.eye(3), "B": np.full((3, 3), np.nan)}),
    "throughput": lambda: plots.throughput(
        {"d = 64": {"flashlib_triton": (N, [1, 2, 3]), "sdpa_flash": (N, [1, 1, 2])}}, 4
    ),
    "lines": lambda: plots.lines(N, [("a", "black", "o-", [1, 2, 3])], "N", "GB", log=True),
}


@pytest.fixture(params=FIGURES)
def axes(request):
    drawn = FIGURES[request.param]()
    yield [ax for ax in np.ravel(drawn) if ax.axison]
    plt.close("all")


def test_there_is_a_test_for_every_figure():
    public = {name for name in vars(plots) if hasattr(getattr(plots, name), "__wrapped__")}
    assert public == set(FIGURES)


def test_axes_are_labelled_text_is_large_and_the_ground_opaque(axes):
    for ax in axes:
        figure = ax.figure
        figure.canvas.draw()
        assert np.asarray(figure.canvas.buffer_rgba())[0, 0].tolist() == [255, 255, 255, 255]
        shared_labels = [other.get_xlabel() for other in figure.axes]
        assert ax.get_ylabel() and any(shared_labels)
        texts = [text for text in ax.findobj(matplotlib.text.Text) if text.get_text()]
        assert min(text.get_fontsize() for text in texts) >= 12


def test_drawn_data_are_the_data_given():
    ax = plots.traffic_curves(N, [("naive", "n", [1e6, 2e6, 4e6])], [("flash", "f", N, [3e6] * 3)])
    curve, points = ax.get_lines()
    assert curve.get_ydata().tolist() == [1, 2, 4] and points.get_ydata().tolist() == [3, 3, 3]
    assert points.get_markerfacecolor() == "white"  # counters have open markers
    plt.close("all")


def test_the_callers_settings_are_left_alone():
    before = dict(matplotlib.rcParams)
    plots.bars({"a": 1}, "loop order", "MB")
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


def test_naive_and_both_loop_orders_differ_in_more_than_colour():
    for table in (plots.LINES, plots.MARKERS, plots.COLORS):
        assert len({table[kind] for kind in ("naive", "k_outer", "flash")}) == 3


@pytest.mark.parametrize("module,package", [("plots", "matplotlib")])
def test_a_missing_package_is_one_sentence_with_the_command(module, package):
    code = f"import sys; sys.modules[{package!r}] = None; import flashlib.{module}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"needs {package}: pip install {package}" in result.stderr.splitlines()[-1]
