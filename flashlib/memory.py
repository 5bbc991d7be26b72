"""A counter between slow and fast memory: the algorithms load and store through it.

In NumPy every array lives in the same RAM. To know what a GPU would move between HBM and SRAM, the
tiled loops pass each tile through `load` and `store`, which count and otherwise do nothing. So the
loop that computes is the loop that is counted.
"""

from collections import Counter


class Memory:
    """Count the elements and bytes that cross between HBM and SRAM, by tensor.

    Args:
        itemsize: bytes an element is counted with, whatever dtype NumPy computes in (2 for a
            kernel that stores fp16 or bf16). None counts each array with its own itemsize.

    Attributes:
        loaded_elements, stored_elements: Counter, tensor name → elements.
        loaded_bytes, stored_bytes: Counter, tensor name → bytes.
    """

    def __init__(self, itemsize=None):
        self.itemsize = itemsize
        self.loaded_elements, self.stored_elements = Counter(), Counter()
        self.loaded_bytes, self.stored_bytes = Counter(), Counter()

    def load(self, name, tile):
        """HBM → SRAM: count `tile` (any shape) under `name` and return it."""
        self.loaded_elements[name] += tile.size
        self.loaded_bytes[name] += tile.size * (self.itemsize or tile.itemsize)
        return tile

    def store(self, name, destination, tile):
        """SRAM → HBM: write `tile` into the view `destination` and count it under `name`."""
        destination[...] = tile
        self.stored_elements[name] += destination.size
        self.stored_bytes[name] += destination.size * (self.itemsize or destination.itemsize)

    @property
    def elements(self):
        """All elements moved, either way."""
        return self.loaded_elements.total() + self.stored_elements.total()

    @property
    def bytes(self):
        """All bytes moved, either way."""
        return self.loaded_bytes.total() + self.stored_bytes.total()

    def __str__(self):
        """A table: one line a tensor, elements loaded and stored, bytes both ways."""
        names = list(dict.fromkeys([*self.loaded_elements, *self.stored_elements]))
        lines = [f"{'tensor':<8}{'loaded':>14}{'stored':>14}{'bytes':>16}"]
        for name in names:
            moved_bytes = self.loaded_bytes[name] + self.stored_bytes[name]
            loaded, stored = self.loaded_elements[name], self.stored_elements[name]
            lines.append(f"{name:<8}{loaded:>14,}{stored:>14,}{moved_bytes:>16,}")
        loaded, stored = self.loaded_elements.total(), self.stored_elements.total()
        lines.append(f"{'all':<8}{loaded:>14,}{stored:>14,}{self.bytes:>16,}")
        return "\n".join(lines)
