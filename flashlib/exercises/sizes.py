"""Exercises of notebook 03 with a number: the bytes of a schedule, the largest tile that fits."""

from flashlib import traffic
from flashlib.exercises.core import Exercise
from flashlib.exercises.naming import Mistake, Pattern
from flashlib.hardware import GPUS

# ---------------------------------------------------------------- bytes of a schedule


def _q_outer_bytes(N, d, Br, itemsize):
    return traffic.memory_work(N, d, Br=Br, itemsize=itemsize).flash


def _elements(kv_reads, L=1, q_and_o=2):
    """Bytes with Q and O counted `q_and_o` times, L `L` times, K and V `kv_reads(N, Br)` times."""

    def q_outer_bytes(N, d, Br, itemsize):
        return itemsize * (q_and_o * N * d + L * N + 2 * N * d * kv_reads(N, Br))

    return q_outer_bytes


def _ceil(N, Br):
    return -(-N // Br)


def _bytes_cases(rng):
    yield 4, 1, 2, 1
    yield 4, 1, 4, 2
    yield 5, 3, 2, 4
    yield 3, 2, 8, 2
    yield 4096, 128, 64, 2
    yield int(rng.integers(100, 900)), 64, int(rng.integers(3, 99)), 2


q_outer_bytes = Exercise(
    name="q_outer_bytes",
    notebook="03",
    answer="q_outer_bytes",
    task="Bytes that Q-outer requests at level 3.",
    reference=_q_outer_bytes,
    cases=_bytes_cases,
    hints=(
        "Count elements tensor by tensor: Q, O, L once; K and V once for every row tile.",
        "There are ceil(N / Br) row tiles; in whole numbers, -(-N // Br). K and V: N * d each.",
        "return itemsize * (2 * N * d + N + 2 * N * d * -(-N // Br))",
    ),
    solution_of=(traffic.memory_work,),
    mistakes=(
        Mistake("the number of row tiles is rounded down", _elements(lambda N, Br: N // Br),
                "A last, shorter row tile loads K and V as well: -(-N // Br)."),
        Mistake("N / Br is not a whole number of tiles", _elements(lambda N, Br: N / Br),
                "A last, shorter row tile loads all of K and V: -(-N // Br)."),
        Mistake("L is forgotten", _elements(_ceil, L=0), "L has N elements."),
        Mistake("K and V are counted once", _elements(lambda N, Br: 1),
                "That is level 2. At level 3 each row tile loads them again."),
        Mistake("only one of K and V is counted", lambda N, d, Br, itemsize:
                itemsize * (2 * N * d + N + N * d * _ceil(N, Br)), "Both are loaded."),
        Mistake("only one of Q and O is counted", _elements(_ceil, q_and_o=1),
                "Q is loaded, O is stored."),
        Mistake("elements, not bytes", lambda N, d, Br, itemsize:
                _q_outer_bytes(N, d, Br, 1), "Multiply by itemsize."),
        Mistake("L has d numbers a row", lambda N, d, Br, itemsize:
                itemsize * (3 * N * d + 2 * N * d * _ceil(N, Br)), "L has one number a row."),
        Mistake("Q is counted for every row tile", lambda N, d, Br, itemsize:
                itemsize * (N * d + N + 3 * N * d * _ceil(N, Br)),
                "Each row tile loads its own rows of Q: together, Q once."),
    ),
    patterns=(
        Pattern("right only when Br divides N", lambda N, d, Br, itemsize: N % Br != 0,
                "How many row tiles are there when the last one is shorter?"),
    ),
)  # fmt: skip

# ---------------------------------------------------------------- the largest tile


def on_chip_bytes(Br, Bc, d, input_bytes=2, state_bytes=4):
    """What one tile needs on chip, as in notebook 03: tiles of Q, K, V; scores; o, m and l."""
    inputs = (Br * d + 2 * Bc * d) * input_bytes  # Q, K, V
    scores = Br * Bc * state_bytes  # S, overwritten by P
    state = (Br * d + 2 * Br) * state_bytes  # o, and m and l
    return inputs + scores + state


def _largest_tile(sram_bytes, d):
    B = 0
    while on_chip_bytes(B + 16, B + 16, d) <= sram_bytes:
        B += 16
    return B


def _tile_cases(rng):
    yield on_chip_bytes(16, 16, 32), 32
    yield on_chip_bytes(32, 32, 64) - 1, 64
    for gpu in GPUS.values():
        yield gpu.sram_bytes_per_sm, 128
    yield 48 * 1024, 64
    yield int(rng.integers(60_000, 400_000)), int(rng.choice([32, 64, 256]))


def _power_of_two(sram_bytes, d):
    B = 16
    while on_chip_bytes(2 * B, 2 * B, d) <= sram_bytes:
        B *= 2
    return B


def _any_size(sram_bytes, d):
    B = 1
    while on_chip_bytes(B + 1, B + 1, d) <= sram_bytes:
        B += 1
    return B


largest_tile = Exercise(
    name="largest_tile",
    notebook="03",
    answer="largest_tile",
    task="The largest square tile, a multiple of 16, that fits.",
    reference=_largest_tile,
    cases=_tile_cases,
    hints=(
        "on_chip_bytes(B, B, d) grows with B. Try B = 16, 32, 48, ... until the next is too large.",
        "Start at B = 16 and add 16 as long as the NEXT tile still fits: <=, not <.",
        """
        B = 16
        while on_chip_bytes(B + 16, B + 16, d) <= sram_bytes:
            B += 16
        return B
        """,
    ),
    solution_of=(_largest_tile, on_chip_bytes),
    mistakes=(
        Mistake(
            "the first tile that no longer fits",
            lambda sram_bytes, d: _largest_tile(sram_bytes, d) + 16,
            "Stop one step earlier: ask whether the next one fits.",
        ),
        Mistake(
            "one step too small",
            lambda sram_bytes, d: _largest_tile(sram_bytes, d) - 16,
            "Return the last tile that fits.",
        ),
        Mistake(
            "a tile that fits exactly is refused",
            lambda sram_bytes, d: _largest_tile(sram_bytes - 1, d),
            "Exactly full is allowed: <=.",
        ),
        Mistake("powers of two only", _power_of_two, "Any multiple of 16 is allowed: 48, 80, ..."),
        Mistake("not a multiple of 16", _any_size, "Step by 16."),
        Mistake(
            "kB and bytes mixed up",
            lambda sram_bytes, d: _largest_tile(sram_bytes * 1000, d),
            "sram_bytes and on_chip_bytes are both in bytes.",
        ),
        Mistake(
            "Br and Bc are not both B",
            lambda sram_bytes, d: max(
                B for B in range(16, 5000, 16) if on_chip_bytes(B, 16, d) <= sram_bytes
            ),
            "A square tile: on_chip_bytes(B, B, d).",
        ),
    ),
)  # fmt: skip
