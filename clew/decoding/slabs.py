"""Tensors that are kept for long, side by side in few large blocks of memory. Knows no state.

Small tensors that outlive larger ones would leave holes in the C heap, which the larger ones do not fit into: a server
that caches 2 KB per prompt would grow by many times as much.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

ALIGNMENT = 64
"""Bytes; every tensor starts at a multiple of it."""


class Slab:
    """A block of memory, and the number of places in use in it."""

    def __init__(self, size: int, device: torch.device):
        with torch.inference_mode(False):
            self.memory = torch.empty(size, dtype=torch.uint8, device=device)
        self.used = 0
        self.num_places = 0


class Part(NamedTuple):
    """A tensor's bytes within a place."""

    start: int
    stop: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Place(NamedTuple):
    """The place of tensors in a slab. Tensors of the same types and shapes share `parts`."""

    slab: Slab
    start: int
    stop: int
    parts: tuple[Part, ...]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors, which share memory with the slab."""
        memory = self.slab.memory[self.start : self.stop]
        typed = {dtype: memory.view(dtype) for dtype in {part.dtype for part in self.parts}}
        return [
            typed[part.dtype].as_strided(part.shape, part.strides, (self.start + part.start) // part.dtype.itemsize)
            for part in self.parts
        ]


class Slabs:
    """Copies of tensors in slabs of `size` bytes; tensors of more than a quarter of that have a slab to themselves. A
    slab is freed when nothing is held in it."""

    def __init__(self, size: int):
        self.size = size
        self.bytes = 0
        """The bytes of all slabs."""
        self.open: dict[torch.device, Slab] = {}
        """The slab of each device that has room."""
        self.parts: dict[tuple[tuple[torch.dtype, tuple[int, ...]], ...], tuple[Part, ...]] = {}
        """The parts of a place, by the types and shapes of its tensors."""

    def put(self, tensors: Sequence[Tensor]) -> Place:
        """Hold copies of tensors of one device side by side."""
        parts = self._parts_for(tensors)
        size = -(-parts[-1].stop // ALIGNMENT) * ALIGNMENT if parts else 0
        slab = self._slab_for(size, tensors[0].device if tensors else torch.device("cpu"))
        place = Place(slab, slab.used, slab.used + size, parts)
        slab.used += size
        slab.num_places += 1
        if parts:
            with torch.no_grad():
                torch._foreach_copy_(place.tensors, list(tensors))
        return place

    def _parts_for(self, tensors: Sequence[Tensor]) -> tuple[Part, ...]:
        key = tuple((tensor.dtype, tuple(tensor.shape)) for tensor in tensors)
        if key not in self.parts:
            parts: list[Part] = []
            for tensor, (dtype, shape) in zip(tensors, key, strict=True):
                start = -(-parts[-1].stop // ALIGNMENT) * ALIGNMENT if parts else 0
                strides = torch.empty(shape, device="meta").stride()
                parts.append(Part(start, start + tensor.nbytes, dtype, shape, strides))
            self.parts[key] = tuple(parts)
        return self.parts[key]

    def drop(self, place: Place) -> None:
        """Hold the tensors of a place no longer."""
        slab = place.slab
        slab.num_places -= 1
        if slab.num_places == 0:
            slab.used = 0
            if self.open.get(slab.memory.device) is not slab:
                self.bytes -= slab.memory.nbytes

    def _slab_for(self, size: int, device: torch.device) -> Slab:
        if size > self.size // 4:
            return self._new_slab(size, device)
        slab = self.open.get(device)
        if slab is None or slab.used + size > self.size:
            if slab is not None and slab.num_places == 0:
                self.bytes -= slab.memory.nbytes
            slab = self.open[device] = self._new_slab(self.size, device)
        return slab

    def _new_slab(self, size: int, device: torch.device) -> Slab:
        self.bytes += size
        return Slab(size, device)
