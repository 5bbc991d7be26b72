"""The moving picture at the top of the README: one tile sweep as an animated WebP.

python tools/readme_animation.py [FILE]     (make animation)
"""

import io
import sys
from pathlib import Path

from PIL import Image

from flashlib import pictures

TARGET = Path(__file__).parents[1] / "tile_sweep.webp"
FRAME_MS, PAUSE_MS = 450, 2500
LARGEST_BYTES = 1_000_000


def animation(picture):
    """Every frame of a `Picture` as the bytes of an endless animated WebP; the last frame stays."""
    images = [Image.open(io.BytesIO(png)).convert("RGB") for png in picture.pngs()]
    times = [FRAME_MS] * (len(images) - 1) + [PAUSE_MS]
    buffer = io.BytesIO()
    options = {"save_all": True, "append_images": images[1:], "duration": times, "loop": 0}
    images[0].save(buffer, "WEBP", lossless=True, quality=60, method=4, **options)
    return buffer.getvalue()


def main(argv):
    """Write the animation and say how large it is; 1 if it is too large."""
    target = Path(argv[0]) if argv else TARGET
    picture = pictures.tile_sweep(causal=True, row=36)
    data = animation(picture)
    target.write_bytes(data)
    print(f"{target.name}: {picture.frames} frames, {len(data) / 1000:.0f} kB")
    return int(len(data) > LARGEST_BYTES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
