"""Widgets without a browser: every control moved, every frame reproducible, nothing hidden."""

import base64
import inspect
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ipywidgets = pytest.importorskip("ipywidgets")
plt = pytest.importorskip("matplotlib.pyplot")
Image = pytest.importorskip("PIL.Image")

from matplotlib.text import Text  # noqa: E402

from flashlib import board, memory_work, pictures, softmax, widgets  # noqa: E402
from flashlib.pictures import recordings, sweeps, traffic  # noqa: E402
from flashlib.pictures.frames import Picture, new_figure, palette, palette_indices  # noqa: E402

SMALL = {  # quick enough to be driven through everything
    "memory_explorer": {},
    "running_max": {"n": 8},
    "tile_sweep": {"N": 16, "Br": 16, "row": 5},
    "traffic_curves": {},
    "causal_tiles": {"N_q": 16, "N_k": 16},
    "backward_sweep": {"N": 16, "Br": 16},
    "sm_waves": {},
}
MOVING = ("running_max", "tile_sweep", "backward_sweep")
ROOT = Path(__file__).parents[1]
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
every_widget = pytest.mark.parametrize("name", SMALL)


def plain(name):
    """The function behind a widget that gives the picture alone."""
    return getattr(pictures, name)


def positions(control, most=5):
    """Values from one end of a control to the other, both ends among them."""
    if isinstance(control.value, bool):
        return [True, False]
    values = range(control.min, control.max + 1) if hasattr(control, "min") else control.options
    values = [value[1] if isinstance(value, tuple) else value for value in values]
    spread = np.linspace(0, len(values) - 1, min(most, len(values))).round().astype(int)
    return [values[k] for k in spread]


def in_view(shown):
    return shown.frames[shown.stack.selected_index].value


def drawn_afresh(name, shown):
    """What the frame in view must be, from the plain function and the values of the controls."""
    picture, k = plain(name)(**shown.values), shown.stack.selected_index
    return board.figure_html(picture.png(k), picture.text(k))


def is_sound(shown):
    assert shown.error.value == ""
    assert len(shown.stack.children) == shown.picture.frames > shown.stack.selected_index
    assert plt.get_fignums() == []


# ---------------------------------------------------------------- controls


@every_widget
def test_every_control_goes_through_its_range_and_the_last_value_is_what_is_drawn(name):
    shown = getattr(widgets, name)(**SMALL[name])
    for control in reversed(shown.controls.values()):  # N, which makes the rest dear, comes last
        for value in positions(control):
            control.value = value
            is_sound(shown)
        assert in_view(shown) == drawn_afresh(name, shown)


@every_widget
def test_no_combination_of_values_is_invalid(name):
    rng = np.random.default_rng(1)
    shown = getattr(widgets, name)(**SMALL[name])
    for _ in range(3 if name in MOVING else 6):
        for control in shown.controls.values():  # all but the last without drawing
            choices = positions(control, most=99)
            shown._busy = control is not list(shown.controls.values())[-1]
            control.value = choices[rng.integers(len(choices))]
        shown._changed(None)
        is_sound(shown)
    assert in_view(shown) == drawn_afresh(name, shown)


@every_widget
def test_a_widget_takes_the_arguments_of_its_picture_with_the_same_defaults(name):
    theirs = inspect.signature(getattr(widgets, name)).parameters
    ours = inspect.signature(plain(name)).parameters
    assert {k: p.default for k, p in theirs.items()} == {k: p.default for k, p in ours.items()}
    assert all(parameter.default is not parameter.empty for parameter in theirs.values())
    shown = getattr(widgets, name)(**SMALL[name])
    assert shown.values == {k: p.default for k, p in ours.items()} | SMALL[name]


def test_the_row_shown_stays_below_n():
    shown = widgets.tile_sweep(N=24, Br=8, Bc=8, row=20)
    shown.controls["N"].value = 16
    assert shown.controls["row"].value == shown.controls["row"].max == 15
    shown.controls["row"].value = 99
    assert shown.controls["row"].value == 15
    is_sound(shown)


def test_values_outside_are_refused_and_other_numbers_are_added():
    with pytest.raises(ValueError, match="dtype must be one of"):
        widgets.memory_explorer(dtype="int4")
    with pytest.raises(ValueError, match="seed must be between 0 and 99"):
        widgets.running_max(n=8, seed=100)
    assert widgets.causal_tiles(N_q=10, N_k=10, Br=5, Bc=3).values["Br"] == 5


def test_fewer_frames_than_before_leave_the_last_one_in_view():
    shown = widgets.running_max(n=16, Bc=1)
    shown.seek(16)
    shown.controls["Bc"].value = 8
    assert [f.value for f in shown._followers] == [2, 2, 2] and shown.player.max == 2
    assert shown.stack.selected_index == 2
    shown.controls["Bc"].value = 2
    assert shown.player.max == 8 and shown.stack.selected_index == 2
    with pytest.raises(IndexError, match="frame 9 of 9"):
        shown.seek(9)


def test_after_a_burst_of_changes_the_last_one_is_drawn():
    shown = widgets.sm_waves()
    for k in range(10):
        shown.controls["sms"].value = (1, 16, 64, 108)[k % 4]
    assert in_view(shown) == drawn_afresh("sm_waves", shown)


def test_an_exception_in_a_callback_is_a_red_line_until_the_next_good_value():
    def make(x):
        if x > 3:
            raise ValueError("x > 3 & more")
        return pictures.sm_waves(sms=x)

    shown = board.Board(make, {"x": ipywidgets.BoundedIntText(1, 1, 9)}, "Widget: test")
    before = in_view(shown)
    shown.controls["x"].value = 4
    assert "#B00020" in shown.error.value and "ValueError: x &gt; 3 &amp; more" in shown.error.value
    assert 'role="alert"' in shown.error.value and in_view(shown) == before
    shown.controls["x"].value = 2
    assert shown.error.value == "" and in_view(shown) != before


# ---------------------------------------------------------------- playing


@pytest.mark.parametrize("name", MOVING)
def test_playing_is_linked_in_the_browser_and_needs_no_kernel(name):
    shown = getattr(widgets, name)(**SMALL[name])
    pairs = [(link.source, link.target) for link in shown.links]
    player, slider, number = shown._followers
    assert all(type(link).__name__ == "Link" for link in shown.links)
    assert pairs == [
        ((player, "value"), (slider, "value")),
        ((slider, "value"), (number, "value")),
        ((slider, "value"), (shown.stack, "selected_index")),
        ((shown.speed, "value"), (player, "interval")),
    ]
    assert len(shown.stack.children) == player.max + 1 == slider.max + 1 == number.max + 1


def test_too_many_tiles_are_coarsened_and_it_says_so():
    shown = widgets.tile_sweep(N=64, Br=4, Bc=4)
    assert shown.picture.frames <= pictures.MAX_FRAMES <= 200
    assert "256 tiles are too many to draw" in shown.note.value
    assert sum(len(frame.value) for frame in shown.frames) < 50e6
    assert "too many" not in widgets.tile_sweep(N=16).note.value


@pytest.mark.parametrize("T", [1, 2, 7, 48, 49, 96, 97, 1000])
@pytest.mark.parametrize("most", [1, 2, 48])
def test_chosen_steps_are_few_in_order_and_end_at_the_end(T, most):
    steps = recordings.chosen_steps(T, most)
    assert 1 <= len(steps) <= most and steps[-1] == T - 1 and steps[0] >= 0
    assert (np.diff(steps) > 0).all()
    assert T > most or len(steps) == T


def test_the_state_of_the_sweeps_stays_small():
    for name, kB in (("tile_sweep", 900), ("backward_sweep", 950), ("running_max", 350)):
        shown = getattr(widgets, name)()
        assert sum(len(frame.value) for frame in shown.frames) < kB * 1000


# ---------------------------------------------------------------- pictures


@every_widget
def test_drawing_depends_on_data_and_frame_alone(name):
    picture = plain(name)(**SMALL[name])
    forward = picture.pngs()
    assert picture.pngs() == forward
    for k in np.random.default_rng(0).permutation(picture.frames):
        assert picture.png(k) == forward[k]
    assert plain(name)(**SMALL[name]).png(picture.frames - 1) == forward[-1]
    assert len(set(forward)) == picture.frames
    with pytest.raises(IndexError):
        picture.png(picture.frames)


@every_widget
def test_the_bundle_has_the_live_view_a_poster_and_a_constant_text(name):
    shown, again = (getattr(widgets, name)() for _ in range(2))
    bundle = shown._repr_mimebundle_()
    assert bundle[WIDGET_VIEW]["model_id"] == shown.model_id
    png = base64.b64decode(bundle["image/png"])
    assert png == plain(name)().png() and len(png) < 100_000
    image = Image.open(io.BytesIO(png))
    assert image.width == 900 and image.convert("RGBA").getextrema()[3] == (255, 255)
    assert len(image.convert("RGB").getcolors(image.width * image.height)) > 8  # not a blank
    other = again._repr_mimebundle_()
    assert other["text/plain"] == bundle["text/plain"] and other["image/png"] == bundle["image/png"]
    assert re.fullmatch(r"Widget: [\w ',&]+", bundle["text/plain"])


@every_widget
def test_every_frame_has_its_own_words_as_text_and_as_alternative_text(name):
    shown = getattr(widgets, name)(**SMALL[name])
    texts = [re.search(r'alt="([^"]*)"', frame.value)[1] for frame in shown.stack.children]
    assert all(len(text) > 40 for text in texts) and len(set(texts)) == len(texts)
    for frame, text in zip(shown.stack.children, texts, strict=True):
        assert f">{text}</figcaption>" in frame.value


@every_widget
def test_all_lettering_is_at_least_12_points(name):
    for text in plain(name)(**SMALL[name]).figure.findobj(Text):
        assert text.get_fontsize() >= 12, text


def test_frames_keep_the_colours_of_the_course():
    rgb = palette()
    pixels = np.full((1, len(rgb), 4), 255, np.uint8)
    pixels[0, :, :3] = rgb
    off = np.abs(rgb[palette_indices(pixels)[0]].astype(int) - rgb).max()
    assert len(rgb) <= 256 and off <= 8


def test_a_still_picture_shows_itself_without_widgets():
    assert pictures.sm_waves()._repr_png_().startswith(b"\x89PNG")
    assert Picture(new_figure(1), "nothing").text() == "nothing"


# ---------------------------------------------------------------- the data behind the pictures


@pytest.mark.parametrize("order, field", [("Q-outer", "flash"), ("K-outer", "k_outer")])
@pytest.mark.parametrize("causal", [False, True])
def test_the_bytes_shown_are_those_of_the_closed_form(order, field, causal):
    run = recordings.record_forward(20, 8, 6, 4, causal, order)
    work = memory_work(20, 8, Br=6, Bc=4, causal=causal)
    moved = sum(sum(move[way].values()) for move in run.moves for way in ("load", "store"))
    assert moved == run.total_bytes == getattr(work, field)
    assert run.naive_bytes == work.naive
    assert len(run.events) == (run.kinds != "skipped").sum() == len(run.moves) - 1


def test_the_backward_recording_counts_what_the_closed_form_says():
    run = recordings.record_backward(20, 8, 6, 4, True)
    assert run.total_bytes == memory_work(20, 8, Br=6, Bc=4, causal=True).flash_backward
    last = pictures.backward_sweep(20, 8, 6, 4, True)
    assert "complete" in last.text(last.frames - 1)


def test_one_rows_weights_are_the_softmax_and_the_unsafe_ones_overflow():
    for order in recordings.SCORE_ORDERS:
        run = recordings.record_row(24, 4, order)
        np.testing.assert_allclose(run.weights[-1], softmax(run.scores), rtol=1e-5)
        assert np.isnan(run.unsafe[-1]).any() == (order == "+500")
    assert recordings.record_row(24, 4, "ascending").records.all()
    assert not recordings.record_row(24, 4, "descending").records.any()
    assert recordings.record_row(24, 4, "late spike").records[-1]
    with pytest.raises(ValueError, match="order must be one of"):
        recordings.row_scores(4, "sideways")
    with pytest.raises(ValueError, match="order must be one of"):
        recordings.record_forward(4, 2, 2, 2, order="sideways")


@pytest.mark.parametrize("N_q, N_k", [(8, 8), (1, 8), (6, 10), (10, 6)])
@pytest.mark.parametrize("alignment", pictures.ALIGNMENTS)
def test_causal_kinds_agree_with_the_mask_written_out(N_q, N_k, alignment):
    shift = N_k - N_q if alignment == "bottom-right" else 0
    mask = np.tri(N_q, N_k, shift, dtype=bool)
    kinds = pictures.causal_kinds(N_q, N_k, 2, 3, alignment)
    for (i, j), kind in np.ndenumerate(kinds):
        tile = mask[2 * i : 2 * i + 2, 3 * j : 3 * j + 3]
        assert kind == ("full" if tile.all() else "diagonal" if tile.any() else "skipped")


def test_causal_kinds_refuses_another_alignment():
    with pytest.raises(ValueError, match="alignment must be one of"):
        pictures.causal_kinds(4, 4, 2, 2, "middle")


def test_waves_by_hand():
    assert pictures.waves(132, 132) == (1, 1)
    assert pictures.waves(133, 132) == (2, 133 / 264)
    assert pictures.waves(16, 132) == (1, 16 / 132)


def test_measured_points_are_drawn_only_for_the_shape_they_were_measured_at():
    assert pictures.traffic_curves().note == ""
    assert "not shown" in pictures.traffic_curves(d=64).note
    n, dram, l2 = traffic._measured()["sdpa_flash"]
    assert dict(zip(n, dram, strict=True))[4096] == 51083264 + 9654016
    assert all(b > a for a, b in zip(dram, l2, strict=True))


# ---------------------------------------------------------------- the module


def test_without_ipywidgets_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['ipywidgets'] = None; import flashlib.widgets"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last == "ImportError: flashlib.widgets needs ipywidgets: pip install ipywidgets"


def test_nothing_that_hides_errors_or_breaks_nbval_is_used():
    for module in (board, widgets, pictures, sweeps):
        source = inspect.getsource(module)
        assert not re.search(r"\bOutput\(|\binteract\w*\(|clear_output|pyplot", source)
