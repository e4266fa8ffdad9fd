"""Steps and calls captured as CUDA graphs. A graph replays the same kernels on the same addresses; a new frame, or new
arguments, are copied there first."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor

from clew.core.pauses import pause
from clew.core.state import leaves, map_tree
from clew.core.types import Tree
from clew.decoding.looks import LOOK, without_host_reads
from clew.decoding.repeated import Advance, Outputs
from clew.kernels.ahead import starting_ahead
from clew.kernels.capture import capture
from clew.kernels.deferred import computed
from clew.kernels.few_rows import few_rows
from clew.kernels.moving import copy_all, write_columns


class Captured:
    """A step as a CUDA graph. Every replay reads and writes `frame`; `column` is the one of the LOOK columns of
    `outputs` that the next step writes."""

    owns_frame = True

    def __init__(self, advance: Advance, frame: Tree, fed: bool, is_calm: bool = False):
        """`is_calm` says that the graph is run only for steps that do not ask the host."""
        first = leaves(frame)[0]
        self.frame = map_tree(torch.clone, frame)
        self.column = torch.zeros(1, dtype=torch.long, device=first.device)
        self.mode = few_rows(first.device, fuses=True)
        self.fed = torch.zeros(LOOK, len(first), dtype=torch.float64, device=first.device) if fed else None
        self.outputs: Outputs | None = None
        self.is_taken = False
        self.facts: list[Hashable] = []
        self.graph = self.capture(advance, is_calm)

    def capture(self, advance: Advance, is_calm: bool) -> torch.cuda.CUDAGraph:
        with side_stream():
            for _ in range(2):  # compile kernels and create constants before the capture
                self.step(advance)
        with without_host_reads() if is_calm else nullcontext():
            return capture(lambda: self.step(advance))

    def step(self, advance: Advance) -> None:
        fed = None if self.fed is None else self.fed.index_select(0, self.column)[0]
        with starting_ahead(self.column.device):
            with self.mode or nullcontext():
                new, outputs = map_tree(computed, advance(self.frame, fed))
            if self.outputs is None:
                self.outputs = tuple(output.new_zeros(len(output), LOOK, *output.shape[1:]) for output in outputs)
                self.column.zero_()
            # First the outputs: they may be parts of the frame, which is overwritten next.
            if not write_columns(self.outputs, outputs, self.column):
                for kept, output in zip(self.outputs, outputs, strict=True):
                    kept.index_copy_(1, self.column, output[:, None])
                self.column.add_(1)
            overwrite(self.frame, new)

    def restart(self, advance: Advance, frame: Tree) -> None:
        """Continue from another frame of the same shapes, with the current weights; the captured step equals
        `advance`."""
        if self.mode is not None:
            self.mode.refresh()
        copy_leaves(self.frame, frame)

    def continue_from(self, frame: Tree) -> None:
        """Continue from a frame that an eager step has made from this one."""
        overwrite(self.frame, frame)

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
        """Do nothing: only the graph's own frame is held."""


class TooLarge(RuntimeError):
    """The result of a call is too large for a graph to be worth its memory."""


class CapturedCall:
    """A function call on tensors as a CUDA graph. Arguments are copied in; the next call overwrites the result."""

    def __init__(self, function: Callable[..., Tree], arguments: Tree, most_bytes: int):
        self.arguments = map_tree(torch.clone, arguments)
        self.is_taken = False
        self.facts: list[Hashable] = []
        with side_stream():
            size = sum(leaf.nbytes for leaf in leaves(function(*map_tree(torch.clone, arguments))))
        if size > most_bytes:
            raise TooLarge(f"its result has {size} bytes")
        results: list[Tree] = []
        self.graph = capture(lambda: results.append(function(*self.arguments)))
        [self.result] = results

    def __call__(self, arguments: Tree) -> Tree:
        copy_leaves(self.arguments, arguments)
        self.graph.replay()
        return self.result


@contextmanager
def side_stream() -> Iterator[None]:
    """Run on a separate stream, to warm up before a capture: memory cached for the current stream would be in the
    way."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)


def copy_leaves(kept: Tree, new: Tree) -> None:
    """Copy the leaves of a tree into another of the same shapes."""
    by_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for target, source in zip(leaves(kept), leaves(new), strict=True):
        targets, sources = by_type.setdefault(target.dtype, ([], []))
        targets.append(target)
        sources.append(source)
    for targets, sources in by_type.values():
        torch._foreach_copy_(targets, sources)


def overwrite(frame: Tree, new: Tree) -> None:
    """Write a new frame over the frame it was made from. A new leaf that is another leaf of the old frame is copied
    first."""
    pairs = [
        (kept, leaf)
        for kept, leaf in zip(leaves(frame), leaves(new), strict=True)
        if kept.data_ptr() != leaf.data_ptr()
    ]
    places = {kept.data_ptr() for kept, _ in pairs}
    copy_all([kept for kept, _ in pairs], [leaf.clone() if leaf.data_ptr() in places else leaf for _, leaf in pairs])
