"""The Triton side of the exercise `kernel_update`: a right update, broken ones, and a harness.

Needs PyTorch and Triton.
"""

import functools

import numpy as np

from flashlib import triton_kernels  # before triton: it chooses between GPU and interpreter

import torch  # isort: skip
import triton  # isort: skip
import triton.language as tl  # isort: skip


@triton.jit
def kernel_update(q, k, v, m, l, o, scale2):
    """q: (Br, d), k, v: (Bc, d) tiles, m, l: (Br,), o: (Br, d). Returns (m, l, o)."""
    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale2
    m_new = tl.maximum(m, tl.max(s, 1))
    alpha, p = tl.exp2(m - m_new), tl.exp2(s - m_new[:, None])
    l = alpha * l + tl.sum(p, 1)
    o = alpha[:, None] * o + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    return m_new, l, o


@triton.jit
def kernel_update_with_fault(q, k, v, m, l, o, scale2, FAULT: tl.constexpr):
    """`kernel_update` with one fault."""
    s = tl.dot(q, tl.trans(k), input_precision="ieee")
    if FAULT != "no scale":
        s *= scale2
    m_new = tl.maximum(m, tl.max(s, 1))
    if FAULT == "tile maximum":
        m_new = tl.max(s, 1)
    alpha, p = tl.exp2(m - m_new), tl.exp2(s - m_new[:, None])
    if FAULT == "exp":
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
    if FAULT == "upside down":
        alpha = tl.exp2(m_new - m)
    l = l + tl.sum(p, 1) if FAULT == "l" else alpha * l + tl.sum(p, 1)
    kept = o if FAULT == "o" else alpha[:, None] * o
    o = kept + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    if FAULT == "divided":
        o = o / l[:, None]
    if FAULT == "m kept":
        m_new = m
    return m_new, l, o


@triton.jit
def _harness(
    Q, K, V, M, L, O, scale2, d: tl.constexpr, Br: tl.constexpr, Bc: tl.constexpr,
    STEP: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    """Load the tiles, take one step, and store the new state where the old one was."""
    rows, cols, dims = tl.arange(0, Br), tl.arange(0, Bc), tl.arange(0, d)
    q = tl.load(Q + rows[:, None] * d + dims[None, :])
    k = tl.load(K + cols[:, None] * d + dims[None, :])
    v = tl.load(V + cols[:, None] * d + dims[None, :])
    m, l = tl.load(M + rows), tl.load(L + rows)
    o = tl.load(O + rows[:, None] * d + dims[None, :])
    if FAULT is None:
        m, l, o = STEP(q, k, v, m, l, o, scale2)
    else:
        m, l, o = STEP(q, k, v, m, l, o, scale2, FAULT)
    tl.store(M + rows, m)
    tl.store(L + rows, l)
    tl.store(O + rows[:, None] * d + dims[None, :], o)


def broken(fault):
    """`kernel_update` with that fault, as an answer to check."""
    return functools.partial(kernel_update_with_fault, FAULT=fault)


def run_update(step, q, k, v, m, l, o, scale2):
    """One step of a learner's update, a plain or a jitted function, on NumPy tiles."""
    fault = None
    if isinstance(step, functools.partial):
        step, fault = step.func, step.keywords["FAULT"]
    if not hasattr(step, "fn"):
        step = triton.jit(step)
    device = "cpu" if triton_kernels.INTERPRETED else "cuda"
    tensors = [torch.tensor(np.ascontiguousarray(x), device=device) for x in (q, k, v, m, l, o)]
    (Br, d), Bc = q.shape, len(k)
    _harness[(1,)](*tensors, scale2, d=d, Br=Br, Bc=Bc, STEP=step, FAULT=fault)
    return tuple(x.cpu().numpy() for x in tensors[3:])
