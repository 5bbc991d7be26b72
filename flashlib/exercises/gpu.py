"""Exercises of notebook 06: where a program's tile starts, a masked load, the update, waves."""

import numpy as np

from flashlib.exercises.core import Exercise
from flashlib.exercises.kernel_exercise import KernelUpdate, update_in_base_2
from flashlib.exercises.naming import Mistake, Pattern
from flashlib.hardware import GPUS


def _ceil(N, Br):
    return -(-N // Br)


# ---------------------------------------------------------------- where a program's tile starts


def _tile_start(program, B, H, N, d, Br):
    head, tile = divmod(program, -(-N // Br))
    return head // H, head % H, tile * Br, (head * N + tile * Br) * d


def _start_cases(rng):
    yield from ((program, 1, 1, 4, 1, 2) for program in range(2))
    yield from ((program, 2, 2, 4, 3, 2) for program in range(8))
    yield from ((program, 2, 3, 5, 4, 2) for program in range(18))
    B, H, N, Br = 4, int(rng.integers(3, 9)), int(rng.integers(100, 900)), 64
    yield from ((int(p), B, H, N, 16, Br) for p in rng.integers(0, B * H * _ceil(N, Br), 8))
    yield 8 * 32 * 1024 - 1, 8, 32, 131_072, 128, 128  # beyond 32 bits


def _start_with(row_tiles=_ceil, split=None, element=None):
    """tile_start with one step done otherwise."""

    def tile_start(program, B, H, N, d, Br):
        tiles = max(row_tiles(N, Br), 1)
        head, tile = divmod(program, tiles)
        b, h, row = split(program, B, H, tiles, Br) if split else (head // H, head % H, tile * Br)
        start = element or (lambda b, h, row, H, N, d: ((b * H + h) * N + row) * d)
        return b, h, row, start(b, h, row, H, N, d)

    return tile_start


def _wrapped(b, h, row, H, N, d):
    return (((b * H + h) * N + row) * d + 2**31) % 2**32 - 2**31


tile_start = Exercise(
    name="tile_start",
    notebook="06",
    answer="tile_start",
    task="Batch, head, first row and first element of a program's tile.",
    reference=_tile_start,
    cases=_start_cases,
    parts=("b", "h", "row", "element"),
    hints=(
        "Like a clock: seconds within minutes within hours. Row tiles are the seconds.",
        """
        There are row_tiles = ceil(N / Br) row tiles in a head. program % row_tiles is the row
        tile, program // row_tiles counts heads through all batches. Its first row is tile * Br.
        In a row-major (B, H, N, d) array, element (b, h, row, 0) is number ((b*H + h)*N + row)*d.
        """,
        """
        row_tiles = -(-N // Br)
        head, tile = divmod(program, row_tiles)
        return head // H, head % H, tile * Br, (head * N + tile * Br) * d
        """,
    ),
    mistakes=(
        Mistake("row tiles are rounded down", _start_with(lambda N, Br: N // Br),
                "The last, shorter row tile has a program too: -(-N // Br)."),
        Mistake("the tile's number instead of its first row", _start_with(
                split=lambda p, B, H, tiles, Br: (p // tiles // H, p // tiles % H, p % tiles)),
                "Row tile 3 begins at row 3 * Br."),
        Mistake("batch and head are swapped", _start_with(
                split=lambda p, B, H, tiles, Br: (p // tiles % H, p // tiles // H, p % tiles * Br)),
                "Heads count faster than batches: h = head % H."),
        Mistake("heads count fastest", _start_with(
                split=lambda p, B, H, tiles, Br: (p // H // tiles, p % H, p // H % tiles * Br)),
                "Neighbouring programs are row tiles of the SAME head: they share K and V in L2."),
        Mistake("the head is not taken modulo H", _start_with(
                split=lambda p, B, H, tiles, Br: (p // tiles // H, p // tiles, p % tiles * Br)),
                "head % H: heads start again at 0 in each batch."),
        Mistake("the row is not taken modulo the row tiles", _start_with(
                split=lambda p, B, H, tiles, Br: (p // tiles // H, p // tiles % H, p * Br)),
                "program % row_tiles is the row tile within its head."),
        Mistake("the element is counted in rows", _start_with(
                element=lambda b, h, row, H, N, d: (b * H + h) * N + row),
                "A row has d elements: times d."),
        Mistake("the element is counted within its head", _start_with(
                element=lambda b, h, row, H, N, d: row * d),
                "The heads before it take N * d elements each."),
        Mistake("the offset wraps at 32 bits", _start_with(element=_wrapped),
                "Compute it in 64 bits, here and in a kernel."),
    ),
    patterns=(
        Pattern("right only when Br divides N", lambda program, B, H, N, d, Br: N % Br != 0,
                "How many row tiles are there when the last one is shorter?"),
        Pattern("right only for one batch and one head",
                lambda program, B, H, N, d, Br: B * H > 1, "Row tiles, then heads, then batches."),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- a masked load


def _masked_load(X, offsets, mask, other):
    loaded = np.full(np.shape(offsets), other, X.dtype)
    loaded[mask] = X[offsets[mask]]  # nothing else is touched
    return loaded


def _load_cases(rng):
    X = np.array([5.0, 6.0, 7.0])
    yield X, np.array([0, 2]), np.array([True, True]), 0.0
    yield X, np.array([1, 2]), np.array([True, False]), 0.0
    yield X, np.array([1, 2]), np.array([True, False]), -1.0
    yield np.array([5.0, 6.0, np.nan]), np.array([1, 2]), np.array([True, False]), 0.0
    yield X, np.array([2, 3, 4]), np.array([True, False, False]), 0.0
    yield X, np.array([-2, -1, 0]), np.array([False, False, True]), -np.inf
    rows, dims = np.arange(4)[:, None], np.arange(8)
    inside = (rows < 3) & (dims < 5)
    yield rng.standard_normal(15), rows * 5 + dims, inside, 0.0
    yield rng.standard_normal(15).astype(np.float32), rows * 5 + dims, inside, 2.0


def _clipped(X, offsets):
    return X[np.clip(offsets, 0, len(X) - 1)]


masked_load = Exercise(
    name="masked_load",
    notebook="06",
    answer="masked_load",
    task="What tl.load(X + offsets, mask=mask, other=other) returns, in NumPy.",
    reference=_masked_load,
    cases=_load_cases,
    hints=(
        "Where mask is False, the offset may point anywhere: outside X, or at a NaN.",
        "Fill an array of the offsets' shape with other. Then load where mask is True only.",
        """
        loaded = np.full(offsets.shape, other, X.dtype)
        loaded[mask] = X[offsets[mask]]
        return loaded
        """,
    ),
    mistakes=(
        Mistake("the mask is ignored", lambda X, offsets, mask, other: _clipped(X, offsets),
                "Where mask is False, the result is other."),
        Mistake("other is ignored", lambda X, offsets, mask, other: _masked_load(
                X, offsets, mask, 0.0), "Where mask is False, the result is other, not 0."),
        Mistake("the mask is inverted", lambda X, offsets, mask, other: np.where(
                mask, other, _clipped(X, offsets)), "True means: load it."),
        Mistake("multiplied by the mask", lambda X, offsets, mask, other:
                _clipped(X, offsets) * mask + np.where(mask, 0, other),
                "0 * NaN is NaN: what is masked must not be read at all."),
        Mistake("multiplied by the mask", lambda X, offsets, mask, other:
                _clipped(X, offsets) * mask + other * (1 - mask),
                "0 * NaN is NaN, and so is 0 * inf: choose, don't multiply."),
        Mistake("the offsets are returned", lambda X, offsets, mask, other: np.where(
                mask, offsets, other), "Load from X at these offsets."),
        Mistake("X is read from its beginning", lambda X, offsets, mask, other: np.where(
                mask, np.resize(X, offsets.shape), other), "Load X[offsets], not X."),
    ),
    patterns=(
        Pattern("right only when everything is inside", lambda X, offsets, mask, other:
                not mask.all(), "What comes where mask is False?"),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- the update, in Triton


def _kernel_cases(rng):
    def case(Br, Bc, d, rise=0.0):
        q, k, v = (rng.standard_normal((n, d)).astype(np.float32) for n in (Br, Bc, Bc))
        old = rng.standard_normal((3, Bc, d)).astype(np.float32)
        m, l, o = np.full(Br, -np.inf), np.zeros(Br), np.zeros((Br, d))
        if rise is not None:
            m, l, o = update_in_base_2(q, old[0], old[1], m, l, o, 0.5)
        state = (x.astype(np.float32) for x in (m - (rise or 0), l, o))
        return q, k, v, *state, 0.5

    yield case(16, 16, 16, rise=None)  # the first tile
    yield case(16, 16, 16)
    yield case(16, 32, 16, rise=3.0)  # the maximum rises in every row
    yield case(32, 16, 16, rise=-30.0)  # in none


kernel_update = KernelUpdate(
    name="kernel_update",
    notebook="06",
    answer="kernel_update",
    task="The update of one tile in Triton's language, in base 2.",
    reference=None,
    cases=_kernel_cases,
    parts=("m", "l", "o"),
    hints=(
        "It is `update` of notebook 02 with tl.dot for @ and tl.exp2 for exp; scores come first.",
        """
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale2, (Br, Bc).
        tl.max(s, 1) and tl.sum(p, 1) reduce a row; x[:, None] makes a column, as in NumPy.
        """,
        """
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale2
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp2(m - m_new), tl.exp2(s - m_new[:, None])
        l = alpha * l + tl.sum(p, 1)
        o = alpha[:, None] * o + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        return m_new, l, o
        """,
    ),
    faults=(
        ("l is not rescaled", "l", "l = alpha * l + ..."),
        ("o is not rescaled", "o", "o = alpha[:, None] * o + ..."),
        ("alpha is upside down", "upside down", "alpha = exp2(m - m_new), at most 1."),
        ("the maximum of this tile only", "tile maximum", "m_new = tl.maximum(m, tl.max(s, 1))."),
        ("exp instead of exp2", "exp", "scale2 holds log2(e): the kernel works in base 2."),
        ("the scale is forgotten", "no scale", "s = tl.dot(...) * scale2."),
        ("division in the loop", "divided", "o stays undivided until the loop has ended."),
        ("the old m is returned", "m kept", "Return the new maximum."),
    ),
    seconds=60,
)

# ---------------------------------------------------------------- waves


def _waves(batch, heads, N, Br, sms, programs_per_sm):
    programs, places = batch * heads * -(-N // Br), sms * programs_per_sm
    waves = -(-programs // places)
    return waves, (programs - (waves - 1) * places) / places


def _waves_cases(rng):
    yield 1, 1, 4, 1, 4, 1
    yield 1, 1, 5, 1, 4, 1
    yield 1, 1, 5, 2, 4, 1
    yield 2, 2, 4, 1, 4, 1
    yield 1, 3, 4, 1, 4, 2
    for gpu in GPUS.values():
        yield int(rng.integers(1, 9)), 16, int(rng.integers(1000, 9000)), 128, gpu.sms, 2
    yield 1, 1, 128, 128, 132, 1


def _waves_with(programs=None, places=None, count=None, share=None):
    """waves with one step done otherwise."""

    def waves(batch, heads, N, Br, sms, programs_per_sm):
        n = programs(batch, heads, N, Br) if programs else batch * heads * _ceil(N, Br)
        room = places(sms, programs_per_sm) if places else sms * programs_per_sm
        k = count(n, room) if count else _ceil(n, room)
        return k, share(n, room, k) if share else (n - (_ceil(n, room) - 1) * room) / room

    return waves


waves = Exercise(
    name="waves",
    notebook="06",
    answer="waves",
    task="How many waves a launch needs, and how full the last one is.",
    reference=_waves,
    cases=_waves_cases,
    parts=("waves", "share"),
    hints=(
        "How many programs are launched? And how many run at the same time on the whole chip?",
        """
        programs = batch * heads * ceil(N / Br); places = sms * programs_per_sm.
        The number of waves is rounded up. All waves but the last are full.
        """,
        """
        programs, places = batch * heads * -(-N // Br), sms * programs_per_sm
        waves = -(-programs // places)
        return waves, (programs - (waves - 1) * places) / places
        """,
    ),
    mistakes=(
        Mistake("row tiles are rounded down", _waves_with(lambda b, h, N, Br: b * h * (N // Br)),
                "The last, shorter row tile has a program too: -(-N // Br)."),
        Mistake("one program a head", _waves_with(lambda b, h, N, Br: b * h),
                "That is FlashAttention-1. Here each row tile has a program."),
        Mistake("the batch is forgotten", _waves_with(lambda b, h, N, Br: h * _ceil(N, Br)),
                "batch * heads * row tiles."),
        Mistake("one program an SM", _waves_with(places=lambda sms, per_sm: sms),
                "sms * programs_per_sm run at the same time."),
        Mistake("waves are rounded down", _waves_with(count=lambda n, room: n // room),
                "A last, partly filled wave is a wave: round up."),
        Mistake("waves are not whole", _waves_with(count=lambda n, room: n / room),
                "Round up: -(-programs // places)."),
        Mistake("a full last wave counts as empty",
                _waves_with(share=lambda n, room, k: n % room / room),
                "When the programs fill all waves, programs % places is 0 and the share is 1."),
        Mistake("the share of all waves", _waves_with(share=lambda n, room, k: n / (k * room)),
                "Only the last wave is asked for."),
    ),
    patterns=(
        Pattern("right only when Br divides N", lambda batch, heads, N, Br, *rest: N % Br != 0,
                "How many row tiles are there when the last one is shorter?"),
    ),
)  # fmt: skip
