"""`python -m flashlib`: four demonstrations in a few seconds, each line of them computed.

Exit code 0 when every claim holds, 1 when one fails.
"""

import sys

import numpy as np

from flashlib.forward import flash_attention_forward, flash_attention_forward_k_outer
from flashlib.memory import Memory
from flashlib.naive import naive_attention, unsafe_softmax
from flashlib.traffic import memory_work, print_traffic_table

FORWARDS = {"Q-outer": flash_attention_forward, "K-outer": flash_attention_forward_k_outer}


def random_qkv(N, d, dtype=np.float64, seed=0):
    """Three standard normal arrays (N, d) of `dtype`, the same for the same seed."""
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((N, d)).astype(dtype) for _ in range(3))


def error_in_epsilons(got, expected):
    """Largest |got − expected|, in units of got's machine epsilon times the largest |expected|."""
    size = np.finfo(got.dtype).eps * max(np.abs(expected).max(), np.finfo(got.dtype).tiny)
    return float(np.abs(got - expected).max() / size)


def exact_qkv(N, causal):
    """Inputs whose attention needs no rounding: every weight is 0 or 1 / 2^k, V holds integers.

    Full: all scores are equal, so with N a power of two each weight is 1 / N. Causal: each query
    matches its own key by a margin of 2000, so its weight is 1 and all others are exactly 0.
    """
    V = np.arange(N * 4, dtype=np.float64).reshape(N, 4)
    return (np.eye(N) * 2000, np.eye(N), V) if causal else (np.zeros((N, 1)), np.zeros((N, 1)), V)


def agreement():
    """Tiled equals naive: yield (claim, holds) for both loops, dtypes and masks, ragged tiles."""
    for name, forward in FORWARDS.items():
        for causal in (False, True):
            mask = "causal" if causal else "full"
            errors = []
            for dtype in (np.float64, np.float32):
                Q, K, V = random_qkv(300, 64, dtype)
                got = forward(Q, K, V, 64, 48, causal)
                errors.append(error_in_epsilons(got, naive_attention(Q, K, V, causal)))
            text = f"float64 {errors[0]:.1f} eps, float32 {errors[1]:.1f} eps"
            yield f"{name} {mask:<6} N=300, tiles 64x48: {text}", max(errors) < 64
            Q, K, V = exact_qkv(64, causal)
            expected = naive_attention(Q, K, V, causal, scale=1)
            tiles = [(1, 1), (7, 5), (16, 16), (64, 3), (99, 99)]
            same = [
                np.array_equal(forward(Q, K, V, Br, Bc, causal, scale=1), expected)
                for Br, Bc in tiles
            ]
            text = f"the same bits for {sum(same)} of {len(tiles)} tile sizes"
            yield f"{name} {mask:<6} exact arithmetic: {text}", all(same)


def traffic():
    """The loops move what the closed forms say: yield (claim, holds)."""
    for name, forward in FORWARDS.items():
        counted, predicted = 0, 0
        for N, Br, Bc, causal in [(128, 64, 64, False), (200, 64, 48, False), (200, 64, 48, True)]:
            memory = Memory(itemsize=2)
            forward(*random_qkv(N, 128), Br, Bc, causal, memory=memory)
            work = memory_work(N, 128, Br=Br, Bc=Bc, causal=causal)
            counted += memory.bytes
            predicted += work.flash if name == "Q-outer" else work.k_outer
        text = f"counted {counted:,} bytes, predicted {predicted:,}"
        yield f"{name} ragged and causal: {text}", counted == predicted


def shift():
    """Scores around +500: yield (claim, holds) for the unsafe and for the online softmax."""
    Q, K, V = random_qkv(64, 16, np.float32)
    Q = np.concatenate([Q, np.full((64, 1), 500, np.float32)], axis=1)  # adds 500 to every score
    K = np.concatenate([K, np.ones((64, 1), np.float32)], axis=1)
    unsafe = unsafe_softmax(Q @ K.T) @ V
    yield f"unsafe softmax, float32: {np.isnan(unsafe).mean():.0%} NaN", np.isnan(unsafe).all()
    got = flash_attention_forward(Q, K, V, 16, 16, scale=1)
    wide = (x.astype(np.float64) for x in (Q[:, :-1], K[:, :-1], V))
    expected = naive_attention(*wide, scale=1)  # a shift changes no weight
    error = float(np.abs(got - expected).max())
    finite = bool(np.isfinite(got).all())
    text = f"online softmax, float32: {'finite' if finite else 'not finite'}"
    # a score of 500 is rounded to 2^-15 or so, and that is what remains
    yield f"{text}, {error:.0e} from the unshifted float64 result", finite and error < 1e-3


def causal_invariant():
    """What a row may not see cannot reach it: yield (claim, holds)."""
    Q, K, V = random_qkv(96, 32)
    cut = 40
    K_nan, V_nan = K.copy(), V.copy()
    K_nan[cut:] = V_nan[cut:] = np.nan
    for name, forward in FORWARDS.items():
        before = forward(Q, K, V, 16, 16, causal=True)
        after = forward(Q, K_nan, V_nan, 16, 16, causal=True)
        same = np.array_equal(before[:cut], after[:cut])
        reached = int(np.isnan(after[cut:]).any(axis=1).sum())
        text = f"rows 0-{cut - 1} keep {'every bit' if same else 'not every bit'}"
        claim = f"{name} NaN in keys {cut}-95: {text}, {reached} later rows see it"
        yield claim, same and reached == 96 - cut


def main():
    """Print the demonstrations; return 0 when every claim holds, otherwise 1."""
    demonstrations = {
        "1. Tiled attention is exact attention": agreement,
        "2. Bytes: what the loops load and store": traffic,
        "3. All scores shifted by +500": shift,
        "4. Causal: no row sees its future": causal_invariant,
    }
    failed = 0
    for title, demonstrate in demonstrations.items():
        print(title)
        for claim, holds in demonstrate():
            print(f"  {'ok  ' if holds else 'FAIL'} {claim}")
            failed += not holds
        if demonstrate is traffic:
            print()
            print_traffic_table()
        print()
    print("All claims hold." if not failed else f"{failed} claim(s) failed.")
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:]:  # there are no options
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    sys.exit(main())
