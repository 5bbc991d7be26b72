"""Claims about geometry and bytes: what the loops count is what the closed forms say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flashlib
from flashlib import GPUS, Memory, memory_work, tile_grid, tile_slices

sizes = st.integers(1, 40)


@given(N=sizes, N_k=sizes, d=st.integers(1, 5), Br=st.integers(1, 50), Bc=st.integers(1, 50),
       causal=st.booleans(), heads=st.integers(1, 3))  # fmt: skip
@settings(max_examples=120)
def test_counted_bytes_equal_closed_forms(N, N_k, d, Br, Bc, causal, heads):
    rng = np.random.default_rng(0)
    Q, dO = rng.standard_normal((2, heads, N, d))
    K, V = rng.standard_normal((2, heads, N_k, d))
    work = memory_work(N, d, Br=Br, Bc=Bc, itemsize=8, causal=causal, heads=heads, N_k=N_k)
    for forward, predicted in [
        (flashlib.flash_attention_forward, work.flash),
        (flashlib.flash_attention_forward_k_outer, work.k_outer),
    ]:
        memory = Memory()
        O, L = forward(Q, K, V, Br, Bc, causal, return_lse=True, memory=memory)
        assert memory.bytes == predicted == memory.elements * 8
    memory = Memory(itemsize=2)
    flashlib.flash_attention_backward(Q, K, V, O, L, dO, Br, Bc, causal, memory=memory)
    assert memory.bytes * 4 == work.flash_backward


def test_known_values_at_4096_by_128():
    """Recomputed by hand from the three definitions, in elements."""
    N, d = 4096, 128
    cached = memory_work(N, d, itemsize=1)
    assert cached.naive == 4 * N**2 + 4 * N * d == 69_206_016
    assert cached.flash == cached.k_outer == 4 * N * d + N
    assert cached.naive_nxn_touches_elements == 4 * N**2
    assert cached.flash_nxn_touches_elements == 0
    asked = {Br: memory_work(N, d, Br=Br, itemsize=1) for Br in (32, 64)}
    assert asked[64].flash == 68_161_536 and asked[64].naive == 69_206_016
    assert asked[32].flash == 135_270_400 and asked[32].saving < 1
    assert (cached.level, asked[64].level) == (2, 3)


@pytest.mark.parametrize("Br,d", [(64, 128), (128, 128), (128, 64), (256, 64)])
def test_saving_tends_to_twice_br_over_d(Br, d):
    savings = [memory_work(N, d, Br=Br).saving for N in (2**12, 2**16, 2**21)]
    gaps = [abs(saving - 2 * Br / d) for saving in savings]
    assert gaps[0] > gaps[1] > gaps[2] and gaps[2] < 1e-4 * 2 * Br / d


def test_sixteen_heads_at_4096_move_67_megabytes_when_caches_absorb_re_reads():
    work = memory_work(4096, 128, heads=16)
    assert round(work.flash / 1e6, 1) == 67.2  # 67.1 without L
    assert round(work.naive / 1e6) == 2215


@given(N_q=sizes, N_k=sizes, Br=sizes, Bc=sizes, causal=st.booleans())
@settings(max_examples=150)
def test_tile_kinds_agree_with_the_mask_looked_at_element_by_element(N_q, N_k, Br, Bc, causal):
    visible = np.ones((N_q, N_k), bool)
    if causal:
        visible = np.arange(N_k)[None] <= np.arange(N_q)[:, None] + N_k - N_q
    grid = tile_grid(N_q, N_k, Br, Bc, causal)
    for (i, j), kind in np.ndenumerate(grid):
        tile = visible[i * Br : (i + 1) * Br, j * Bc : (j + 1) * Bc]
        expected = "full" if tile.all() else "diagonal" if tile.any() else "skipped"
        assert kind == expected


@given(n=st.integers(0, 100), size=st.integers(1, 120))
def test_tile_slices_cut_the_range_into_consecutive_pieces(n, size):
    pieces = tile_slices(n, size)
    assert [i for piece in pieces for i in range(n)[piece]] == list(range(n))
    assert all(0 < piece.stop - piece.start <= size for piece in pieces)


@pytest.mark.parametrize("N,B,needed,tiles", [(8, 2, 10, 16), (4096, 128, 528, 1024)])
def test_causal_tile_counts(N, B, needed, tiles):
    grid = tile_grid(N, N, B, B, causal=True)
    assert grid.size == tiles and (grid != "skipped").sum() == needed


def test_memory_prints_what_it_counted():
    memory = Memory(itemsize=2)
    destination = np.zeros((3, 4))
    memory.store("O", destination, memory.load("Q", np.ones((3, 4))))
    assert destination.sum() == 12
    lines = str(memory).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["Q", "12", "0", "24"], ["O", "0", "12", "24"], ["all", "12", "12", "48"],
    ]  # fmt: skip


def test_roofline_has_two_roofs_and_meets_at_the_ridge():
    for gpu in GPUS.values():
        ridge = gpu.ridge_flops_per_byte
        assert flashlib.roofline(ridge / 2, gpu) == pytest.approx(gpu.fp16_flops_per_s / 2)
        assert flashlib.roofline(ridge * 2, gpu) == gpu.fp16_flops_per_s
        assert gpu.source


def test_flop_convention():
    assert flashlib.attention_flops(10, 3) == 4 * 100 * 3
    assert flashlib.attention_flops(10, 3, causal=True, heads=2) == 4 * 100 * 3
    assert flashlib.attention_flops(10, 3, backward=True) == 2.5 * 4 * 100 * 3


@pytest.mark.parametrize("bad", [{"N": 0}, {"d": -1}, {"Br": 0}, {"Bc": 4}, {"itemsize": 0},
                                 {"heads": 0}, {"N": 2.5}, {"Br": 1.5}, {"causal": 3}])  # fmt: skip
def test_memory_work_refuses_sizes_that_are_no_positive_integers(bad):
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        memory_work(**{"N": 8, "d": 4, **bad})
