"""What the real loops did, kept for drawing: one run, its tiles in order, and what each one moved.

The pictures show these recordings and compute no attention of their own.
"""

from typing import NamedTuple

import numpy as np

from flashlib.backward import flash_attention_backward
from flashlib.forward import flash_attention_forward, flash_attention_forward_k_outer
from flashlib.memory import Memory
from flashlib.naive import unsafe_softmax
from flashlib.tiles import tile_grid
from flashlib.traffic import memory_work

ITEMSIZE_BYTES = 2  # fp16, as on a GPU, whatever NumPy computes in
SCORE_ORDERS = ("random", "ascending", "descending", "late spike", "+500")


class Recording(NamedTuple):
    """One run of a tiled loop."""

    kinds: np.ndarray  # (T_r, T_c) "full", "diagonal" or "skipped"
    events: list  # TileEvent or BackwardTileEvent, T of them
    moves: list  # T + 1 dicts {"load": Counter, "store": Counter}, bytes since the event before
    results: tuple  # what the loop returned
    total_bytes: int  # moved by the whole run
    naive_bytes: int | None  # what naive attention moves, None for the backward pass


class _Recorder:
    """Collects events for `observe`, each with the bytes that `memory` counted since the last."""

    def __init__(self):
        self.memory, self.events, self.moves = Memory(ITEMSIZE_BYTES), [], []
        self._mark()

    def _mark(self):
        self._loaded = self.memory.loaded_bytes.copy()
        self._stored = self.memory.stored_bytes.copy()

    def since_last(self):
        load = self.memory.loaded_bytes - self._loaded
        store = self.memory.stored_bytes - self._stored
        self._mark()
        return {"load": load, "store": store}

    def observe(self, event):
        self.events.append(event)
        self.moves.append(self.since_last())


def record_forward(N, d, Br, Bc, causal=False, order="Q-outer", seed=0):
    """Run a tiled forward pass on random Q, K, V (N, d) and record it.

    Args:
        order: "Q-outer" (FlashAttention-2) or "K-outer" (FlashAttention-1).

    Returns:
        Recording with results (O (N, d), L (N,)). Raises ValueError for an unknown order.
    """
    loops = {"Q-outer": flash_attention_forward, "K-outer": flash_attention_forward_k_outer}
    if order not in loops:
        raise ValueError(f"order must be one of {list(loops)}, got {order!r}")
    Q, K, V = np.random.default_rng(seed).standard_normal((3, N, d))
    recorder = _Recorder()
    watched = {"memory": recorder.memory, "observe": recorder.observe}
    results = loops[order](Q, K, V, Br, Bc, causal, return_lse=True, **watched)
    recorder.moves.append(recorder.since_last())
    kinds = tile_grid(N, N, Br, Bc, causal)
    naive_bytes = memory_work(N, d, itemsize=ITEMSIZE_BYTES).naive
    moved_bytes = recorder.memory.bytes
    return Recording(kinds, recorder.events, recorder.moves, results, moved_bytes, naive_bytes)


def record_backward(N, d, Br, Bc, causal=False, seed=0):
    """Run the recompute backward on random Q, K, V, dO (N, d); results are (dQ, dK, dV)."""
    Q, K, V, dO = np.random.default_rng(seed).standard_normal((4, N, d))
    O, L = flash_attention_forward(Q, K, V, Br, Bc, causal, return_lse=True)
    recorder = _Recorder()
    watched = {"memory": recorder.memory, "observe": recorder.observe}
    results = flash_attention_backward(Q, K, V, O, L, dO, Br, Bc, causal, **watched)
    recorder.moves.append(recorder.since_last())
    kinds = tile_grid(N, N, Br, Bc, causal)
    return Recording(kinds, recorder.events, recorder.moves, results, recorder.memory.bytes, None)


class RowRecording(NamedTuple):
    """One row of scores taken in tile by tile, T tiles; float32."""

    scores: np.ndarray  # (n,)
    ends: np.ndarray  # (T,) keys seen after each tile
    m: np.ndarray  # (T,) running maximum
    l: np.ndarray  # (T,) running sum
    alpha: np.ndarray  # (T,) rescale factor of the step
    weights: np.ndarray  # (T, n) normalised weights so far, 0 for keys not seen
    unsafe: np.ndarray  # (T, n) the same without subtracting the maximum; NaN where it overflows

    @property
    def records(self):
        """(T,) True where the maximum moved after the first tile: α ≠ 1."""
        return self.alpha[1:] != 1


def row_scores(n, order="random", seed=0):
    """Scores (n,) float32 of one row, 2 × standard normal, in one of `SCORE_ORDERS`.

    "late spike" adds 8 to a key near the end, "+500" adds 500 to all. Raises ValueError otherwise.
    """
    scores = 2 * np.random.default_rng(seed).standard_normal(n)
    if order not in SCORE_ORDERS:
        raise ValueError(f"order must be one of {SCORE_ORDERS}, got {order!r}")
    if order in ("ascending", "descending"):
        scores = np.sort(scores)[:: 1 if order == "ascending" else -1]
    if order == "late spike":
        scores[-1 - n // 8] += 8
    return (scores + (500 if order == "+500" else 0)).astype(np.float32)


def record_row(n, Bc, order="random", seed=0):
    """Send one row through the tiled forward: d = 1, Q = 1, K = scores, V = I, so O = weights."""
    scores = row_scores(n, order, seed)
    events = []
    one, eye = np.ones((1, 1), np.float32), np.eye(n, dtype=np.float32)
    flash_attention_forward(one, scores[:, None], eye, 1, Bc, scale=1, observe=events.append)
    unsafe = np.zeros((len(events), n), np.float32)
    for t, event in enumerate(events):
        unsafe[t, : event.cols.stop] = unsafe_softmax(scores[: event.cols.stop])
    m, l, alpha = (np.array([getattr(e, name)[0] for e in events]) for name in ("m", "l", "alpha"))
    weights = np.array([event.O[0] for event in events])
    return RowRecording(
        scores, np.array([e.cols.stop for e in events]), m, l, alpha, weights, unsafe
    )


def chosen_steps(T, most):
    """Which of T steps get a frame: all, or every k-th and the last, at most `most`. (n,) ints."""
    stride = -(-T // most)
    steps = np.arange(stride - 1, T, stride)
    return steps if T and steps[-1] == T - 1 else np.append(steps[: most - 1], T - 1)
