"""The pictures behind the widgets: plain numbers in, a `Picture` out, which shows itself as a PNG.

Where widgets don't run, use these: `pictures.tile_sweep(N=32).png(5)` is the frame that
`widgets.tile_sweep(N=32)` shows at step 5. `plots` is imported first: it says what to install.
"""

from flashlib import plots  # noqa: F401
from flashlib.pictures.causal import ALIGNMENTS, causal_kinds, causal_tiles
from flashlib.pictures.frames import ITEMSIZES_BYTES, MAX_FRAMES, Picture
from flashlib.pictures.recordings import SCORE_ORDERS
from flashlib.pictures.row import running_max
from flashlib.pictures.sizes import memory_explorer
from flashlib.pictures.sweeps import backward_sweep, tile_sweep
from flashlib.pictures.traffic import traffic_curves
from flashlib.pictures.waves import sm_waves, waves

__all__ = [
    "ALIGNMENTS",
    "ITEMSIZES_BYTES",
    "MAX_FRAMES",
    "SCORE_ORDERS",
    "Picture",
    "backward_sweep",
    "causal_kinds",
    "causal_tiles",
    "memory_explorer",
    "running_max",
    "sm_waves",
    "tile_sweep",
    "traffic_curves",
    "waves",
]
