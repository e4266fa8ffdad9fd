"""Tensors that are kept for long, side by side in few large blocks of memory. Knows no state.

Small tensors that outlive larger ones would leave holes in the C heap, which the larger ones do not fit into: a server
that caches 2 KB per prompt would grow by many times as much.
"""

from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes; every tensor starts at a multiple of it."""


class Slab:
    """A block of memory, and the number of tensors that are held in it."""

    def __init__(self, size: int, device: torch.device):
        with torch.inference_mode(False):
            self.memory = torch.empty(size, dtype=torch.uint8, device=device)
        self.used = 0
        self.held = 0


class Place(NamedTuple):
    """The place of a tensor in a slab."""

    slab: Slab
    start: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def tensor(self) -> Tensor:
        """The tensor, which shares memory with the slab."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return self.slab.memory[self.start : self.start + size].view(self.dtype).view(self.shape)


class Slabs:
    """Copies of tensors in slabs of `size` bytes; a tensor of more than a quarter of that has its own. A slab is freed
    when nothing is held in it."""

    def __init__(self, size: int):
        self.size = size
        self.bytes = 0
        """The bytes of all slabs."""
        self.open: dict[torch.device, Slab] = {}
        """The slab of each device that has room."""

    def put(self, tensor: Tensor) -> Place:
        """Hold a copy of a tensor."""
        size = -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
        slab = self._slab_for(size, tensor.device)
        place = Place(slab, slab.used, tensor.dtype, tuple(tensor.shape))
        slab.used += size
        slab.held += 1
        with torch.no_grad():
            place.tensor.copy_(tensor)
        return place

    def drop(self, place: Place) -> None:
        """Hold a tensor no longer."""
        slab = place.slab
        slab.held -= 1
        if slab.held == 0:
            slab.used = 0
            if self.open.get(slab.memory.device) is not slab:
                self.bytes -= slab.memory.nbytes

    def _slab_for(self, size: int, device: torch.device) -> Slab:
        if size > self.size // 4:
            return self._new_slab(size, device)
        slab = self.open.get(device)
        if slab is None or slab.used + size > self.size:
            if slab is not None and slab.held == 0:
                self.bytes -= slab.memory.nbytes
            slab = self.open[device] = self._new_slab(self.size, device)
        return slab

    def _new_slab(self, size: int, device: torch.device) -> Slab:
        self.bytes += size
        return Slab(size, device)
