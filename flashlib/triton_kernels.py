"""The loops of `forward.py` and `backward.py` as GPU kernels, in Triton.

A *program* is one run of a kernel. What NumPy does one after another in its outer loop, a GPU does
at once: the forward kernel is the body of `for i, rows in ...` of `flash_attention_forward`,
launched once for each row tile of each head. A comment "NumPy: ..." names the line it mirrors.

The kernels work in base 2, since a GPU has an instruction for 2^x: exp(x) = 2^(x log2 e), so log2 e
goes into the scale, once. L is in base 2 as well, until `triton_attention` returns it.

Without a GPU the same kernels run on CPU tensors in Triton's interpreter, line by line. Triton
makes that choice when it is first imported; so import this module before anything that does.

Source: Dao, FlashAttention-2 (2023), Algorithm 1 (forward) and Algorithm 2 (backward).
"""

import importlib.util
import math
import os
import sys

if sys.platform != "linux" and importlib.util.find_spec("triton") is None:
    raise ImportError(
        f"Triton is published for Linux only and this is {sys.platform}: "
        "use flash_attention_forward, the same algorithm in NumPy."
    )
try:
    import torch

    if not torch.cuda.is_available() and "triton" not in sys.modules:
        os.environ.setdefault("TRITON_INTERPRET", "1")
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError(
        f"flashlib.triton_kernels needs PyTorch and Triton ({error}): pip install torch triton"
    ) from error

INTERPRETED = not isinstance(tl.max, triton.JITFunction)  # as Triton's own functions became
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
TILE_SIZES = (16, 32, 64, 128, 256)  # powers of two; tensor cores multiply nothing below 16
MAX_HEAD_SIZE = 256
MAX_LENGTHS = 2**31 - 1024  # rows and columns are counted in int32, offsets in int64
LOG2_E = math.log2(math.e)

# (Br, Bc, warps, stages) for the autotuner to choose from, by padded head size; 0 is float32, whose
# exact products don't run on tensor cores. Those for 64 and 128 are the fastest of some hundred
# tried on an H200; those for 256 and float32 are right, and not tuned.
FORWARD_TILES = {
    64: ((128, 64, 8, 3), (64, 128, 4, 2), (64, 64, 4, 3)),
    128: ((128, 128, 8, 3), (128, 64, 8, 3), (64, 64, 4, 3)),
    256: ((128, 64, 8, 2), (64, 64, 4, 2)),
    0: ((32, 32, 8, 1),),
}
BACKWARD_Q_TILES = {
    64: ((128, 64, 8, 3), (64, 64, 4, 2)),
    128: ((128, 64, 8, 3), (64, 64, 4, 2)),
    256: ((64, 64, 8, 1), (64, 32, 4, 1)),
    0: ((32, 32, 8, 1),),
}
BACKWARD_KV_TILES = {
    64: ((64, 64, 4, 3), (32, 64, 4, 3), (32, 128, 4, 3)),
    128: ((64, 64, 4, 2), (64, 128, 8, 3), (32, 64, 4, 3)),
    256: ((64, 64, 8, 1), (32, 64, 8, 1)),
    0: ((32, 32, 8, 1),),
}
INTERPRETED_TILES = ((64, 64, 4, 1),)
FASTEST_TILES = {}  # found by the autotuner, for each class of problems


@triton.jit
def _addresses(X, strides, b, h, rows, dims):
    """Addresses of X[b, h, rows, dims]: rows down, dims across. In int64: int32 wraps at 2^31."""
    start = X + b.to(tl.int64) * strides[0] + h.to(tl.int64) * strides[1]
    row_offsets, dim_offsets = rows.to(tl.int64) * strides[2], dims.to(tl.int64) * strides[3]
    return start + row_offsets[:, None] + dim_offsets[None, :]


@triton.jit
def _load(X, strides, b, h, rows, N, dims, d: tl.constexpr, MASK: tl.constexpr):
    """The tile X[b, h, rows, dims], with 0 past column d and, if MASK, past row N."""
    pointers = _addresses(X, strides, b, h, rows, dims)
    if MASK:
        return tl.load(pointers, mask=(rows[:, None] < N) & (dims[None, :] < d), other=0.0)
    elif dims.shape[0] > d:
        return tl.load(pointers, mask=dims[None, :] < d, other=0.0)
    else:
        return tl.load(pointers)


@triton.jit
def _load_vector(X, head, rows, N, MASK: tl.constexpr):
    """X[head, rows] of an X stored as (heads, N), with 0 past N if MASK."""
    pointers = X + head.to(tl.int64) * N + rows
    return tl.load(pointers, mask=rows < N, other=0.0) if MASK else tl.load(pointers)


@triton.jit
def _store(X, strides, b, h, rows, N, dims, d: tl.constexpr, tile):
    """Write what exists of the tile to X[b, h, rows, dims]."""
    inside = (rows[:, None] < N) & (dims[None, :] < d)
    tl.store(_addresses(X, strides, b, h, rows, dims), tile.to(X.dtype.element_ty), mask=inside)


@triton.jit
def _forward_kernel(
    Q, K, V, O, L, q_strides, k_strides, v_strides, o_strides, H, group, N_q, N_k, scale2,
    d: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    Br: tl.constexpr, Bc: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Algorithm 1 for one tile of Br rows of Q. scale2 is scale·log2 e and must be positive.

    D is the head size d, padded to a power of two. RAGGED says that the end of the matrix
    cuts the last tile of the inner loop; it is known when compiling, as all constexpr are, so that
    the usual case has no masked loads.
    """
    # NumPy: for i, rows in ...  Causal tiles far down have most to do, so they start first.
    row_tiles = tl.cdiv(N_q, Br)
    i = (row_tiles - 1 - tl.program_id(0) % row_tiles) * Br
    head = tl.program_id(0) // row_tiles
    b, h = head // H, head % H
    rows, dims = i + tl.arange(0, Br), tl.arange(0, D)
    q = _load(Q, q_strides, b, h, rows, N_q, dims, d, True)  # NumPy: Q_i = Q[..., rows, :]

    # NumPy: state = SoftmaxState.empty(...)
    m = tl.full([Br], float("-inf"), tl.float32)
    l = tl.zeros([Br], tl.float32)
    o = tl.zeros([Br, D], tl.float32)

    # Row i sees the keys j <= i + shift: whole tiles of keys before `full` are seen by every row
    # here, keys from `end` on by none.
    shift = N_k - N_q if CAUSAL else N_k
    full = tl.minimum(N_k, tl.maximum(i + 1 + shift, 0)) // Bc * Bc
    end = tl.minimum(N_k, i + Br + shift)
    last = tl.minimum(N_k - 1, rows + shift)  # the last key each row sees

    # NumPy: for j, cols in ...  Two loops: over the full tiles, then over those that are CUT.
    for CUT in tl.static_range(2 if CAUSAL or RAGGED else 1):
        for j in tl.range(full if CUT else 0, end if CUT else full, Bc):
            cols = j + tl.arange(0, Bc)
            k = _load(K, k_strides, b, h // group, cols, N_k, dims, d, CUT and RAGGED)
            # NumPy: S = Q_i @ K_j.T, where(visible, S, -inf)
            s = tl.dot(q, tl.trans(k), input_precision="ieee")
            if CUT:
                s = tl.where(cols[None, :] <= last[:, None], s, float("-inf"))
            # NumPy: m = maximum(state.m, S.max()).  A positive scale may wait for the maximum.
            m_new = tl.maximum(m, tl.max(s, 1) * scale2)
            # NumPy: alpha = rescale_factor(state.m, m); P = exp(S - where(isneginf(m), 0, m))
            m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)
            alpha = tl.exp2(m - m_safe)
            p = tl.exp2(s * scale2 - m_safe[:, None])
            # NumPy: l = alpha * state.l + P.sum(); o = alpha * state.o + P @ V_j
            l = alpha * l + tl.sum(p, 1)
            v = _load(V, v_strides, b, h // group, cols, N_k, dims, d, CUT and RAGGED)
            o = tl.dot(p.to(v.dtype), v, alpha[:, None] * o, input_precision="ieee")
            m = m_new

    # NumPy: O_i, L_i = state.finish().  A row that saw no key: l = 0, m = -inf, O = 0, L = -inf.
    l = tl.where(l == 0.0, 1.0, l)
    _store(O, o_strides, b, h, rows, N_q, dims, d, o * (1.0 / l)[:, None])
    tl.store(L + head.to(tl.int64) * N_q + rows, m + tl.log2(l), mask=rows < N_q)


@triton.jit
def _backward_q_kernel(
    Q, K, V, O, dO, L, dL, delta, dQ,
    q_strides, k_strides, v_strides, o_strides, do_strides, dq_strides,
    H, group, N_q, N_k, scale, scale2,
    d: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    Br: tl.constexpr, Bc: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Algorithm 2 for one tile of dQ, its loops turned round; and delta, the paper's D."""
    row_tiles = tl.cdiv(N_q, Br)
    i = (row_tiles - 1 - tl.program_id(0) % row_tiles) * Br
    head = tl.program_id(0) // row_tiles
    b, h = head // H, head % H
    rows, dims = i + tl.arange(0, Br), tl.arange(0, D)
    q = _load(Q, q_strides, b, h, rows, N_q, dims, d, True)
    do = _load(dO, do_strides, b, h, rows, N_q, dims, d, True)
    l = _load_vector(L, head, rows, N_q, True)

    # NumPy: D = row_dot(dO, O).  A gradient dL of L adds P ∘ dL to dS, so it goes in here.
    o = _load(O, o_strides, b, h, rows, N_q, dims, d, True)
    D_i = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1)
    if dL is not None:
        D_i -= _load_vector(dL, head, rows, N_q, True)
    tl.store(delta + head.to(tl.int64) * N_q + rows, D_i, mask=rows < N_q)

    # The keys these rows see, as in the forward pass.
    shift = N_k - N_q if CAUSAL else N_k
    full = tl.minimum(N_k, tl.maximum(i + 1 + shift, 0)) // Bc * Bc
    end = tl.minimum(N_k, i + Br + shift)
    last = tl.minimum(N_k - 1, rows + shift)

    dq = tl.zeros([Br, D], tl.float32)
    for CUT in tl.static_range(2 if CAUSAL or RAGGED else 1):
        for j in tl.range(full if CUT else 0, end if CUT else full, Bc):
            cols = j + tl.arange(0, Bc)
            k = _load(K, k_strides, b, h // group, cols, N_k, dims, d, CUT and RAGGED)
            v = _load(V, v_strides, b, h // group, cols, N_k, dims, d, CUT and RAGGED)
            # NumPy: P = exp(S - L)
            x = tl.dot(q, tl.trans(k), input_precision="ieee") * scale2 - l[:, None]
            if CUT:
                x = tl.where(cols[None, :] <= last[:, None], x, float("-inf"))
            p = tl.exp2(x)
            # NumPy: dS = P * (dO @ V.T - D)
            dp = tl.dot(do, tl.trans(v), input_precision="ieee")
            ds = p * (dp - D_i[:, None])
            # NumPy: dQ_i = dQ_i + scale * dS @ K_j
            dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    _store(dQ, dq_strides, b, h, rows, N_q, dims, d, dq * scale)


@triton.jit
def _backward_kv_kernel(
    Q, K, V, dO, L, delta, dK, dV,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides,
    H, group: tl.constexpr, N_q, N_k, scale, scale2,
    d: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    Br: tl.constexpr, Bc: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Algorithm 2 for one tile of Bc rows of dK and dV. Scores are transposed: keys down."""
    # NumPy: for j, cols in ...  H counts the heads of K and V here.
    col_tiles = tl.cdiv(N_k, Bc)
    j = tl.program_id(0) % col_tiles * Bc
    head = tl.program_id(0) // col_tiles
    b, h = head // H, head % H
    cols, dims = j + tl.arange(0, Bc), tl.arange(0, D)
    k = _load(K, k_strides, b, h, cols, N_k, dims, d, True)
    v = _load(V, v_strides, b, h, cols, N_k, dims, d, True)
    dk = tl.zeros([Bc, D], tl.float32)
    dv = tl.zeros([Bc, D], tl.float32)

    # Rows before `start` see no key of this tile, whole tiles of rows from `full` to `tail` see
    # them all. The diagonal cuts the tiles from start to full, the end of Q the one at tail.
    start, full, tail = 0, 0, N_q // Br * Br
    if CAUSAL:
        first = cols - (N_k - N_q)  # the first row that sees each key
        start = tl.minimum(tl.maximum(j - (N_k - N_q), 0) // Br * Br, tail)
        full = tl.minimum(tl.cdiv(tl.maximum(j + Bc - 1 - (N_k - N_q), 0), Br) * Br, tail)

    # NumPy: for i, rows in ..., for every Q head that reads these keys
    for g in range(group):
        hq = h * group + g
        for CUT in tl.static_range(2 if CAUSAL or RAGGED else 1):
            for t in tl.range(start if CUT else full, N_q - (tail - full) if CUT else tail, Br):
                i = tl.where(t < full, t, t + tail - full) if CUT else t
                rows = i + tl.arange(0, Br)
                q = _load(Q, q_strides, b, hq, rows, N_q, dims, d, CUT and RAGGED)
                do = _load(dO, do_strides, b, hq, rows, N_q, dims, d, CUT and RAGGED)
                l = _load_vector(L, (b * H + h) * group + g, rows, N_q, CUT and RAGGED)
                D_i = _load_vector(delta, (b * H + h) * group + g, rows, N_q, CUT and RAGGED)
                # NumPy: P = exp(S - L).  Rows past N_q are 0 in q and dO, so they add 0.
                x = tl.dot(k, tl.trans(q), input_precision="ieee") * scale2 - l[None, :]
                dp = tl.dot(v, tl.trans(do), input_precision="ieee")
                if CUT and CAUSAL:
                    x = tl.where(first[:, None] <= rows[None, :], x, float("-inf"))
                p = tl.exp2(x)
                # NumPy: dV_j += P.T @ dO_i
                dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
                # NumPy: dS = P * (dO @ V.T - D); dK_j += scale * dS.T @ Q_i
                ds = p * (dp - D_i[None, :])
                dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    _store(dK, dk_strides, b, h, cols, N_k, dims, d, dk * scale)
    _store(dV, dv_strides, b, h, cols, N_k, dims, d, dv)


def _strides(x):
    """The strides of (B, H, N, d); the last two are compiled in, which makes addresses cheap."""
    batch, head, row, dim = x.stride()
    return batch, head, tl.constexpr(row), tl.constexpr(dim)


def _launch(kernel, table, axis, tensors, strided, scales, q, k, causal, Br, Bc):
    """Launch a program for each tile along `axis`: a tile as asked for, or the table's fastest."""
    (B, H, N_q, d), (H_kv, N_k) = q.shape, k.shape[1:3]
    N, inner, heads = (N_q, N_k, H) if axis == "Br" else (N_k, N_q, H_kv)
    if B * heads * N == 0:  # nothing to compute, and a GPU refuses an empty grid
        return None
    D = max(triton.next_power_of_2(d), TILE_SIZES[0])
    tiles = table[0 if q.dtype == torch.float32 else max(D, 64)]
    tiles = INTERPRETED_TILES if INTERPRETED else tiles
    problem = kernel, tiles, d, q.dtype, causal, *(n.bit_length() for n in (B * H, N_q, N_k))
    if INTERPRETED or Br or Bc:
        Br, Bc = Br or tiles[0][0], Bc or tiles[0][1]
        usual = Br, Bc, 4 if Br * Bc <= 64 * 128 else 8, 2 if D <= 128 else 1
        tile = next((t for t in tiles if t[:2] == (Br, Bc)), usual)
    else:
        tile = FASTEST_TILES.get(problem)

    def constants(Br, Bc, warps, stages):
        ragged = inner % (Bc if axis == "Br" else Br) != 0
        return {"Br": Br, "Bc": Bc, "RAGGED": ragged}, {"num_warps": warps, "num_stages": stages}

    args = *tensors, *map(_strides, strided), heads, H // H_kv, N_q, N_k, *scales
    grid = lambda meta: (triton.cdiv(N, meta[axis]) * B * heads,)  # noqa: E731
    same = {"d": d, "D": D, "CAUSAL": causal}
    with torch.cuda.device_of(q):
        if tile is None:  # the first problem of this class: time every tile
            configs = [triton.Config(c, **options) for c, options in (constants(*t) for t in tiles)]
            tuner = triton.autotune(configs, key=[])(kernel)
            compiled = tuner[grid](*args, **same)
            FASTEST_TILES[problem] = tiles[configs.index(tuner.best_config)]
            return compiled
        sizes, options = constants(*tile)
        try:
            return kernel[grid](*args, **same, **sizes, **options)
        except triton.OutOfResources as error:
            raise ValueError(f"{sizes} is too large a tile for d = {d} here ({error}).") from None


@torch.library.custom_op("flashlib::attention_forward", mutates_args=())
def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float,
    Br: int | None, Bc: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """O like q, L (B, H, N_q) float32 in base 2. A custom op: torch.compile leaves it whole."""
    _check_device(q)
    o, L = _forward_outputs(q, k, v, causal, scale, Br, Bc)
    if scale <= 0:  # the kernel takes the maximum before it scales: the sign goes into q, exactly
        q, scale = q * (-1 if scale < 0 else 0), -scale or 1.0
    tensors, strided, scales = (q, k, v, o, L), (q, k, v, o), (scale * LOG2_E,)
    options = q, k, causal, Br, Bc
    _launch(_forward_kernel, FORWARD_TILES, "Br", tensors, strided, scales, *options)
    return o, L


@_forward.register_fake
def _forward_outputs(q, k, v, causal, scale, Br, Bc):
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("flashlib::attention_backward", mutates_args=())
def _backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor, L: torch.Tensor,
    do: torch.Tensor, dL: torch.Tensor | None, causal: bool, scale: float,
    Br: int | None, Bc: int | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """dQ, dK, dV, like q, k, v. The dQ kernel goes first, since it also computes delta."""
    dq, dk, dv = _backward_outputs(q, k, v, o, L, do, dL, causal, scale, Br, Bc)
    delta = torch.empty_like(L)
    scales, options = (scale, scale * LOG2_E), (q, k, causal, Br, Bc)
    tensors, strided = (q, k, v, o, do, L, dL, delta, dq), (q, k, v, o, do, dq)
    _launch(_backward_q_kernel, BACKWARD_Q_TILES, "Br", tensors, strided, scales, *options)
    tensors, strided = (q, k, v, do, L, delta, dk, dv), (q, k, v, do, dk, dv)
    _launch(_backward_kv_kernel, BACKWARD_KV_TILES, "Bc", tensors, strided, scales, *options)
    return dq, dk, dv


@_backward.register_fake
def _backward_outputs(q, k, v, o, L, do, dL, causal, scale, Br, Bc):
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _save(ctx, inputs, output):
    q, k, v, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, do, dL):
    q, k, v, o, L = ctx.saved_tensors
    do = torch.zeros_like(o) if do is None else do
    dL = None if dL is None else (dL * LOG2_E).contiguous()  # L is in base 2
    return *_backward(q, k, v, o, L, do, dL, *ctx.options), None, None, None, None


_forward.register_autograd(_differentiate, setup_context=_save)


def _check_device(q):
    if not INTERPRETED and not q.is_cuda:
        raise RuntimeError(
            f"Triton compiles for a GPU in this process, but q is on {q.device}: use 'cuda', or "
            "start anew with TRITON_INTERPRET=1, or with flashlib.triton_kernels imported first."
        )
    if q.is_cuda and torch.cuda.get_device_capability(q.device) < (8, 0):
        raise RuntimeError(
            f"Triton {triton.__version__} needs compute capability 8.0 or higher; this GPU, "
            f"{torch.cuda.get_device_name(q.device)}, is older."
        )


def _check(q, k, v):
    """Refuse, in one sentence each, what the kernels would get wrong."""
    qkv = q, k, v
    if not all(isinstance(x, torch.Tensor) for x in qkv):
        raise TypeError(f"q, k, v must be torch tensors; got {[type(x).__name__ for x in qkv]}.")
    got = "got q {}, k {}, v {}".format(*(tuple(x.shape) for x in qkv))
    if {x.ndim for x in qkv} != {4}:
        raise ValueError(f"q, k, v must be (batch, heads, length, head size); {got}.")
    if k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        raise ValueError(f"k and v must be alike and share q's batch and head size; {got}.")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"q's heads must be a multiple of those of k and v; {got}.")
    if not 1 <= q.shape[3] <= MAX_HEAD_SIZE:
        raise ValueError(f"the head size must be from 1 to {MAX_HEAD_SIZE}; {got}.")
    if q.shape[2] + k.shape[2] > MAX_LENGTHS:
        raise ValueError(f"the two lengths must add up to {MAX_LENGTHS} at most; {got}.")
    if len({x.dtype for x in qkv}) > 1 or q.dtype not in DTYPES:
        dtypes = ", ".join(str(x.dtype) for x in qkv)
        raise TypeError(f"q, k, v must all be float16, bfloat16 or float32; got {dtypes}.")
    if len({x.device for x in qkv}) > 1:
        raise ValueError(f"q, k, v must be on one device; got {[str(x.device) for x in qkv]}.")


def _check_tile(**sizes):
    for name, size in sizes.items():
        if size is not None and size not in TILE_SIZES:
            raise ValueError(f"{name} must be one of {TILE_SIZES} or None; got {size!r}.")


def triton_attention(
    q, k, v, causal=False, *, scale=None, return_lse=False, Br=None, Bc=None
):  # fmt: skip
    """Exact attention in one kernel, differentiable (FlashAttention-2, Algorithms 1 and 2).

    Args:
        q: (B, H, N_q, d). k, v: (B, H_kv, N_k, d), H a multiple of H_kv: head h of q reads head
            h // (H / H_kv). Torch tensors of any strides, all float16, bfloat16 or float32, on one
            device; d from 1 to 256. Sums and the softmax are float32.
        causal: row i sees keys j ≤ i + N_k − N_q. Tiles that no row sees are never loaded; in a
            tile that the diagonal cuts, hidden NaN or inf in k and v does reach the other rows.
        scale: number that multiplies the scores; None means 1/√d.
        return_lse: also return L.
        Br, Bc: rows and keys of a tile, 16, 32, 64, 128 or 256, for every kernel; None lets the
            autotuner choose on a GPU, which makes the first call of a kind take some seconds.

    Returns:
        O like q, or (O, L) with L (B, H, N_q) float32, the natural log of Σ exp(scores). A row that
        sees no key has O = 0, L = −inf and no gradient. Gradients flow through O and L, and with
        the same tiles they are the same bits every run.

    Raises:
        TypeError, ValueError: inputs that don't fit together. RuntimeError: the device.
    """
    _check(q, k, v)
    _check_tile(Br=Br, Bc=Bc)
    scale, dtype = q.shape[-1] ** -0.5 if scale is None else float(scale), q.dtype
    if INTERPRETED and dtype == torch.bfloat16:  # the interpreter would multiply its bit patterns
        q, k, v = q.float(), k.float(), v.float()
    o, L = _forward(q, k, v, bool(causal), scale, Br, Bc)
    return (o.to(dtype), L / LOG2_E) if return_lse else o.to(dtype)
