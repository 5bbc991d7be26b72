"""Closed forms for the bytes that attention moves, at the three levels that texts mix up.

Level 1, N×N touches: elements of N×N matrices written to or read from HBM. Naive attention writes
S, reads S, writes P, reads P: 4 N². FlashAttention: 0.

Level 2, HBM bytes when caches absorb every re-read: each input read once, each output written
once. Naive 4 N² + 4 N d elements, flash 4 N d + N: linear in N. A GPU's DRAM counters show this.

Level 3, bytes requested past the SM, with no cache in between: what the tile loop itself asks for,
and what `Memory` counts. Flash re-reads K and V once for every row of tiles, so it is quadratic
with a small constant, 2 N² d / Br. Against naive's 4 N² it saves a factor that tends to 2 Br / d.
"""

from dataclasses import dataclass

import numpy as np

from flashlib.checks import check_causal, check_positive_int
from flashlib.tiles import causal_limit, tile_slices


@dataclass(frozen=True)
class MemoryWork:
    """What one attention forward pass moves; bytes except where the name says elements."""

    level: int  # 2, or 3 when tile sizes were given
    naive_nxn_touches_elements: int
    flash_nxn_touches_elements: int
    naive: int  # bytes
    flash: int  # bytes, Q-outer (FlashAttention-2)
    k_outer: int  # bytes, K-outer (FlashAttention-1)
    flash_backward: int  # bytes, recompute backward

    @property
    def saving(self):
        """naive / flash, the factor by which the bytes shrink."""
        return self.naive / self.flash


def memory_work(N, d, *, Br=None, Bc=None, itemsize=2, causal=False, heads=1, N_k=None):
    """Bytes and N×N touches of naive and tiled attention, N queries by N_k keys, d_v = d.

    Without tile sizes: level 2 (every re-read absorbed). With r = N d, k = N_k d, elements:

        naive           2 r + 2 k + 4 N N_k     Q, O · K, V · S and P, written and read
        flash, k_outer  2 r + 2 k + N           Q, O · K, V · L
        flash_backward  4 r + 4 k + N           Q, O, dO, dQ · K, V, dK, dV · L

    With Br (Bc defaults to Br): level 3, what the loops of this library load and store, ragged and
    causal tiles included. With v(i) the column tiles that row tile i of n_i rows visits, and c(i)
    the keys in them:

        naive           as at level 2: the re-reads of its own tiled matrix
                        products, 3 N N_k d / B for B × B tiles, are not counted
        flash           2 r + N + Σ_i 2 d c(i)                 Q, O · L · K and V once a row tile
        k_outer         r + 3 N + 2 k                          O, m, l, L initialised · K, V once
                        + Σ_i n_i v(i) (3 d + 4) − N'          Q, O, m, l read and O, m, l written
                                                               at each visit; at the last, L instead
                                                               of m, l, for the N' rows visited
        flash_backward  2 r + N + r + 4 k                      D: O, dO, D · dQ = 0 · K, V, dK, dV
                        + Σ_i n_i v(i) (4 d + 2)               Q, dO, dQ read, dQ written · L, D

    Args:
        N: queries (and keys, unless N_k is given). d: head size. heads: batch × heads.
        Br, Bc: tile sizes. itemsize: bytes an element, L counted like the rest.
        causal: tiles that no row sees are not loaded (aligned bottom-right).

    Returns:
        MemoryWork. Raises ValueError or TypeError unless all sizes are positive integers.
    """
    N_k = N if N_k is None else N_k
    check_causal(causal)
    check_positive_int(N=N, d=d, itemsize=itemsize, heads=heads, N_k=N_k)
    if Br is None and Bc is not None:
        raise ValueError(f"Bc needs Br: got Bc = {Bc} and Br = None")
    r, k = N * d, N_k * d
    naive = 2 * r + 2 * k + 4 * N * N_k
    flash = k_outer = 2 * r + 2 * k + N
    backward = 4 * r + 4 * k + N
    if Br is not None:
        visits, keys = _visits_and_keys(N, N_k, Br, Br if Bc is None else Bc, causal)
        rows = np.array([s.stop - s.start for s in tile_slices(N, Br)])
        row_visits, visited_rows = int((rows * visits).sum()), int(rows[visits > 0].sum())
        flash = 2 * r + N + 2 * d * int(keys.sum())
        k_outer = r + 3 * N + 2 * k + (3 * d + 4) * row_visits - visited_rows
        backward = 3 * r + N + 4 * k + (4 * d + 2) * row_visits
    to_bytes = itemsize * heads
    return MemoryWork(
        level=2 if Br is None else 3,
        naive_nxn_touches_elements=4 * N * N_k * heads,
        flash_nxn_touches_elements=0,
        naive=naive * to_bytes,
        flash=flash * to_bytes,
        k_outer=k_outer * to_bytes,
        flash_backward=backward * to_bytes,
    )


def _visits_and_keys(N, N_k, Br, Bc, causal):
    """Per row tile: column tiles visited and the keys in them, two int arrays (T_r,)."""
    check_positive_int(Br=Br, Bc=Bc)
    last_rows = np.array([rows.stop - 1 for rows in tile_slices(N, Br)])
    limits = causal_limit(last_rows, N, N_k) if causal else np.full(len(last_rows), N_k)
    visits = -(-limits // Bc)
    return visits, np.minimum(visits * Bc, N_k)


def attention_flops(N, d, *, causal=False, heads=1, backward=False):
    """FLOPs by the convention of the papers: 4 N² d a head forward, half if causal, backward 2.5 ×.

    Two matrix products forward (S, O) and five backward (S again, dV, dP, dQ, dK), 2 N² d each.
    """
    forward = 4 * N * N * d * heads * (0.5 if causal else 1)
    return forward * (2.5 if backward else 1)


def roofline(flops_per_byte, gpu):
    """Attainable FLOP/s at an arithmetic intensity on a `hardware.GPU` (Williams et al. 2009).

    The lower of the two roofs: peak rate, or intensity times HBM bandwidth.
    """
    return np.minimum(gpu.fp16_flops_per_s, flops_per_byte * gpu.hbm_bytes_per_s)


def print_traffic_table(
    seq_lengths=(128, 256, 512, 1024, 2048, 4096), d=128, *, Br=64, Bc=None, itemsize=2
):
    """Print the three levels side by side for one head, a line a sequence length."""
    print(f"One head, d = {d}, {itemsize} bytes an element, MB. Level 3 with Br = {Br}.")
    print("      |  1: NxN touches  | 2: re-reads in a cache |  3: asked for by the SMs")
    print("    N |      naive flash |  naive  flash   saving |  naive  flash   saving")
    for N in seq_lengths:
        cached = memory_work(N, d, itemsize=itemsize)
        asked = memory_work(N, d, Br=Br, Bc=Bc, itemsize=itemsize)
        line = f"{N:5d} |{cached.naive_nxn_touches_elements:>11,}"
        line += f"{cached.flash_nxn_touches_elements:>6}"
        for work in (cached, asked):
            line += f" |{work.naive / 1e6:>7.2f}{work.flash / 1e6:>7.2f}{work.saving:>9.2f}"
        print(line)
