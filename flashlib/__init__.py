"""FlashAttention-2 from scratch: the algorithms of the papers in NumPy, short enough to be read.

Arrays are (..., N, d): any leading batch and head axes, then tokens, then the head size.
NumPy alone is enough to import this package; plots, widgets and the GPU kernel need more.
"""

from flashlib.backward import flash_attention_backward
from flashlib.forward import flash_attention_forward, flash_attention_forward_k_outer
from flashlib.hardware import GPUS
from flashlib.memory import Memory
from flashlib.naive import naive_attention, softmax, unsafe_softmax
from flashlib.online import SoftmaxState, merge, online_softmax, update
from flashlib.tiles import causal_limit, tile_grid, tile_kind, tile_slices
from flashlib.traffic import attention_flops, memory_work, print_traffic_table, roofline

__version__ = "0.1.0"

__all__ = [
    "GPUS",
    "Memory",
    "SoftmaxState",
    "attention_flops",
    "causal_limit",
    "flash_attention_backward",
    "flash_attention_forward",
    "flash_attention_forward_k_outer",
    "memory_work",
    "merge",
    "naive_attention",
    "online_softmax",
    "print_traffic_table",
    "roofline",
    "softmax",
    "tile_grid",
    "tile_kind",
    "tile_slices",
    "unsafe_softmax",
    "update",
]
