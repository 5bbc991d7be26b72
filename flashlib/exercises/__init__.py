"""Exercises that check themselves: `ex.update.check(my_update)`, `.hint()`, `.solution()`.

    from flashlib import exercises as ex

A check says "not attempted", "wrong" or "right". When the answer is wrong, it shows the smallest
input that it found and, if it knows the mistake, its name. `ex.ALL` maps names to exercises,
`ex.progress()` draws what is done. `python -m flashlib.exercises report DIR` is for lecturers.

NumPy is enough; `kernel_update` of notebook 06 needs PyTorch and Triton, and says so.
"""

from flashlib.exercises import records as _records
from flashlib.exercises.backward import dS, row_D, weights_from_L, whole_backward
from flashlib.exercises.bug_hunt import find_bug
from flashlib.exercises.causal import computed_tiles, kind_of_tile, mask_tile
from flashlib.exercises.gpu import kernel_update, masked_load, tile_start, waves
from flashlib.exercises.inner_loop import causal_row_tile, row_tile
from flashlib.exercises.online import merge_finished, update
from flashlib.exercises.production import cache_gigabytes, possible_backends
from flashlib.exercises.sizes import largest_tile, q_outer_bytes
from flashlib.exercises.softmax import S_gigabytes, default_scale, stable_softmax
from flashlib.exercises.verdicts import show as _show

ALL = {
    exercise.name: exercise
    for exercise in (
        default_scale,  # 00
        stable_softmax,  # 01
        S_gigabytes,
        update,  # 02
        merge_finished,
        find_bug,
        row_tile,  # 03
        q_outer_bytes,
        largest_tile,
        computed_tiles,  # 04
        kind_of_tile,
        mask_tile,
        causal_row_tile,
        row_D,  # 05
        weights_from_L,
        dS,
        whole_backward,
        tile_start,  # 06
        masked_load,
        kernel_update,
        waves,
        possible_backends,  # 07
        cache_gigabytes,
    )
}


def progress():
    """Show which exercises are done, a line a notebook."""
    title = f"Progress: {_records.count(ALL)} of {len(ALL)} right"
    _show(title, _records.lines(ALL))
