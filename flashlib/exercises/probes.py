"""What the values can't tell: was it done tile by tile, and with the tiles that were asked for?"""

import tracemalloc

import numpy as np

from flashlib.exercises.naming import Mistake


class Watched(np.ndarray):
    """An array that notes the length of every piece cut from its rows, and of pieces of pieces.

    What is computed from it is not watched any more.
    """

    def __new__(cls, array, pieces):
        """View `array`; lengths are appended to the list `pieces`."""
        view = array.view(cls)
        view.pieces = pieces
        return view

    def __array_finalize__(self, source):
        self.pieces = None  # set in __new__ only

    def __getitem__(self, key):
        piece = np.asarray(self)[key]
        if self.pieces is None:
            return piece
        whole_rows = np.ndim(piece) == self.ndim
        self.pieces.append(len(piece) if whole_rows else 1)  # K[3] is a piece of one row
        return Watched(piece, self.pieces) if whole_rows else piece


def peak_bytes(run):
    """(result, bytes): the most that `run` held at one time, above what was there before."""
    running = tracemalloc.is_tracing()
    if not running:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        result = run()
        return result, tracemalloc.get_traced_memory()[1] - before
    finally:
        if not running:
            tracemalloc.stop()


NAIVE = Mistake(
    "a naive solution: the scores of all keys at once",
    None,
    "It is right, but not tiled. Only one tile of scores may exist at a time.",
)


def tile_fault(pieces, Bc):
    """A Mistake if no piece was a tile of Bc rows; None if nothing was seen being cut."""
    if not pieces or Bc in pieces:
        return None
    text = f"With Bc = {Bc}, K was cut into pieces of {min(pieces)} to {max(pieces)} keys."
    return Mistake("the tile size is ignored", None, text)


def holds_too_much(run, limit_bytes):
    """NAIVE if `run` held `limit_bytes` or more at one time."""
    _, held_bytes = peak_bytes(run)
    return NAIVE if held_bytes >= limit_bytes else None
