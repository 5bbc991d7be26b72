"""A learner's answer to every exercise: exercise name -> the text of the cell.

Written for the names that the notebooks import, without a look at `flashlib.exercises`.
"""

ANSWERS = {
    "default_scale": """
def default_scale(d):
    return d**-0.5
""",
    "stable_softmax": """
def stable_softmax(S):
    m = S.max(axis=-1, keepdims=True)
    P = np.exp(S - np.where(np.isinf(m), 0, m))
    total = P.sum(axis=-1, keepdims=True)
    return np.divide(P, total, out=np.zeros_like(P), where=total > 0)
""",
    "S_gigabytes": "S_gigabytes = 17.2",
    "update": """
def my_update(m, l, o, S, V):
    m_new = np.maximum(m, S.max(axis=-1))
    shift = np.where(m_new == -np.inf, 0.0, m_new)
    alpha = np.exp(m - shift)
    P = np.exp(S - shift[:, None])
    l = l * alpha + P.sum(axis=-1)
    o = o * alpha[:, None] + P @ V
    return m_new, l, o
""",
    "merge_finished": """
def merge_finished(O_a, L_a, O_b, L_b):
    L = np.logaddexp(L_a, L_b)
    L_safe = np.where(L == -np.inf, 0, L)
    w_a, w_b = np.exp(L_a - L_safe), np.exp(L_b - L_safe)
    return O_a * w_a[:, None] + O_b * w_b[:, None], L
""",
    "find_bug": """
def is_right_update(update):
    S = np.array([[-3.0, 4.0, -2000.0, 1.0]])
    V = np.array([[1.0, 2], [3, 4], [5, 6], [7, 8]])
    m, l, o = np.array([-np.inf]), np.zeros(1), np.zeros((1, 2))
    for j in range(4):
        m, l, o = update(m, l, o, S[:, j : j + 1], V[j : j + 1])
    return np.allclose(o / l[:, None], softmax(S) @ V)
""",
    "row_tile": """
def attend_row_tile(Q_i, K, V, Bc):
    state = SoftmaxState.empty((Q_i.shape[0],), V.shape[1])
    for start in range(0, K.shape[0], Bc):
        K_j, V_j = K[start : start + Bc], V[start : start + Bc]
        state = update(state, Q_i @ K_j.T / Q_i.shape[1] ** 0.5, V_j)
    return state.finish()
""",
    "q_outer_bytes": """
def q_outer_bytes(N, d, Br, itemsize):
    row_tiles = int(np.ceil(N / Br))
    return (N * d + N * d + N + row_tiles * 2 * N * d) * itemsize
""",
    "largest_tile": """
def largest_tile(sram_bytes, d):
    fits = [B for B in range(16, 2048, 16) if on_chip_bytes(B, B, d) <= sram_bytes]
    return fits[-1]
""",
    "computed_tiles": """
def computed_tiles(N_q, N_k, Br, Bc):
    total = 0
    for rows in tile_slices(N_q, Br):
        for cols in tile_slices(N_k, Bc):
            total += cols.start <= rows.stop - 1 + N_k - N_q
    return total
""",
    "kind_of_tile": """
def kind_of_tile(row_start, row_stop, col_start, col_stop, N_q, N_k):
    first, last = row_start + N_k - N_q, row_stop - 1 + N_k - N_q
    if col_stop - 1 <= first:
        return "full"
    return "skipped" if col_start > last else "diagonal"
""",
    "mask_tile": """
def mask_tile(S, row_start, col_start, N_q, N_k):
    masked = np.array(S, dtype=float)
    for r in range(S.shape[0]):
        for c in range(S.shape[1]):
            if col_start + c > row_start + r + N_k - N_q:
                masked[r, c] = -np.inf
    return masked
""",
    "causal_row_tile": """
def causal_row_tile(Q_i, K, V, row_start, N_q, Bc):
    rows = slice(row_start, row_start + len(Q_i))
    state = SoftmaxState.empty((len(Q_i),), V.shape[1])
    for cols in tile_slices(len(K), Bc):
        kind = tile_kind(rows, cols, N_q, len(K), causal=True)
        if kind == "skipped":
            break
        S = Q_i @ K[cols].T / np.sqrt(Q_i.shape[1])
        if kind == "diagonal":
            S = np.where(causal_visible(rows, cols, N_q, len(K)), S, -np.inf)
        state = update(state, S, V[cols])
    return state.finish()
""",
    "row_D": """
def my_D(O, dO):
    return np.einsum("...d,...d->...", O, dO)
""",
    "weights_from_L": """
def weights_from_L(S, L):
    nothing = np.isneginf(L)
    P = np.exp(S - np.where(nothing, 0, L)[:, None])
    P[nothing] = 0
    return P
""",
    "dS": """
def my_dS(P, dP, D):
    return P * dP - P * D.reshape(-1, 1)
""",
    "whole_backward": """
def whole_backward(Q, K, V, O, L, dO, Br, Bc, causal):
    scale, N_q, N_k = 1 / np.sqrt(Q.shape[1]), len(Q), len(K)
    dQ, dK, dV = np.zeros(Q.shape), np.zeros(K.shape), np.zeros(V.shape)
    D, L = (O * dO).sum(1), np.where(np.isneginf(L), np.inf, L)
    for rows in tile_slices(N_q, Br):
        for cols in tile_slices(N_k, Bc):
            S = scale * Q[rows] @ K[cols].T
            if causal:
                i, j = np.arange(N_q)[rows, None], np.arange(N_k)[None, cols]
                S[j > i + N_k - N_q] = -np.inf
            P = np.exp(S - L[rows, None])
            dS = P * (dO[rows] @ V[cols].T - D[rows, None]) * scale
            dV[cols] += P.T @ dO[rows]
            dQ[rows] += dS @ K[cols]
            dK[cols] += dS.T @ Q[rows]
    return dQ, dK, dV
""",
    "tile_start": """
def tile_start(program, B, H, N, d, Br):
    row_tiles = (N + Br - 1) // Br
    i, h, b = program % row_tiles, program // row_tiles % H, program // row_tiles // H
    return b, h, i * Br, b * H * N * d + h * N * d + i * Br * d
""",
    "masked_load": """
def masked_load(X, offsets, mask, other):
    return np.where(mask, X[np.where(mask, offsets, 0)], other)
""",
    "kernel_update": """
def kernel_update(q, k, v, m, l, o, scale2):
    s = scale2 * tl.dot(q, tl.trans(k), input_precision="ieee")
    m_old, m = m, tl.maximum(m, tl.max(s, 1))
    p, alpha = tl.exp2(s - m[:, None]), tl.exp2(m_old - m)
    l = l * alpha + tl.sum(p, 1)
    o = tl.dot(p, v, o * alpha[:, None], input_precision="ieee")
    return m, l, o
""",
    "waves": """
def waves(batch, heads, N, Br, sms, programs_per_sm):
    programs = batch * heads * int(np.ceil(N / Br))
    places = sms * programs_per_sm
    full, rest = divmod(programs, places)
    return (full + 1, rest / places) if rest else (full, 1.0)
""",
    "possible_backends": """
def possible_backends(dtype, d, mask, device):
    if device == "cpu":
        return {"MATH", "FLASH_ATTENTION"}
    flash = dtype != "float32" and d <= 256 and mask in (None, "causal")
    more = {"FLASH_ATTENTION", "CUDNN_ATTENTION"} if flash else set()
    return {"MATH", "EFFICIENT_ATTENTION"} | more
""",
    "cache_gigabytes": "cache_gigabytes = 80 * 8 * 128 * 100_000 * 2 * 2 / 1e9",
}
