"""A step that is captured as a CUDA graph. It replays the same kernels on the same addresses; a new frame is copied into its place."""

from collections.abc import Hashable
from contextlib import nullcontext

import torch
from torch import Tensor

from clew.core.pauses import pause
from clew.core.state import leaves, map_tree
from clew.core.types import Tree
from clew.decoding.repeated import Advance, Outputs
from clew.kernels.capture import capture
from clew.kernels.few_rows import few_rows

LOOK = 16
"""Steps between two looks of the host at a GPU."""


class Captured:
    """A step as a CUDA graph. `frame` is what every replay reads and writes; `column` says which of the LOOK columns of `outputs` the next
    step writes."""

    def __init__(self, advance: Advance, frame: Tree, fed: bool):
        first = leaves(frame)[0]
        self.frame = map_tree(torch.clone, frame)
        self.column = torch.zeros(1, dtype=torch.long, device=first.device)
        self.mode = few_rows(first.device)
        self.fed = torch.zeros(LOOK, len(first), dtype=torch.float64, device=first.device) if fed else None
        self.outputs: Outputs | None = None
        self.is_taken = False
        self.facts: list[Hashable] = []
        self.graph = self.capture(advance)

    def capture(self, advance: Advance) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):  # kernels are compiled, and constants made, before the capture
                self.step(advance)
        torch.cuda.current_stream().wait_stream(side)
        return capture(lambda: self.step(advance))

    def step(self, advance: Advance) -> None:
        fed = None if self.fed is None else self.fed.index_select(0, self.column)[0]
        with self.mode or nullcontext():
            new, outputs = advance(self.frame, fed)
        if self.outputs is None:
            self.outputs = tuple(output.new_zeros(len(output), LOOK, *output.shape[1:]) for output in outputs)
            self.column.zero_()
        for kept, output in zip(self.outputs, outputs, strict=True):
            kept.index_copy_(1, self.column, output[:, None])  # before the frame, of which an output may be a part, is overwritten
        overwrite(self.frame, new)
        self.column.add_(1)

    def restart(self, advance: Advance, frame: Tree) -> None:
        """Goes on from another frame of the same shapes, with the weights as they are now; the graph's step equals `advance`."""
        if self.mode is not None:
            self.mode.refresh()
        for kept, leaf in zip(leaves(self.frame), leaves(frame), strict=True):
            kept.copy_(leaf)

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        assert self.outputs is not None and count <= LOOK
        pause()
        self.column.zero_()
        if self.fed is not None:
            assert fed is not None
            self.fed[:count].copy_(fed, non_blocking=True)
        for _ in range(count):
            self.graph.replay()
        return tuple(kept[:, :count].clone() for kept in self.outputs)

    def release(self) -> None:
        """Nothing but the graph's own frame is held."""


def overwrite(frame: Tree, new: Tree) -> None:
    """Writes a new frame over the one that it was made from. A leaf that is another leaf of the old frame is copied before it is lost."""
    pairs = [(kept, leaf) for kept, leaf in zip(leaves(frame), leaves(new), strict=True) if kept.data_ptr() != leaf.data_ptr()]
    places = {kept.data_ptr() for kept, _ in pairs}
    by_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for kept, leaf in pairs:
        olds, news = by_type.setdefault(kept.dtype, ([], []))
        olds.append(kept)
        news.append(leaf.clone() if leaf.data_ptr() in places else leaf)
    for olds, news in by_type.values():
        torch._foreach_copy_(olds, news)  # one kernel for all
