"""Runs one decoding step again and again: eagerly, from a tape on a CPU, or captured as a CUDA graph. Knows no model and no algorithm.

A step is a function from a frame, a tree of tensors, to the next frame and what is to be kept of the step. Greedy decoding, sampling and
beam search are such functions, so that the choice of a token, ends and scores stay on the device and the host looks every few steps.

A graph replays the same kernels on the same addresses. It is kept, and taken again by a later call whose step has the same `signature` and
whose frame has the same shapes; the new frame is copied into its place. What cannot be captured runs eagerly, and `--debug` says why.
"""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from threading import RLock
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from clew.core.pauses import pause, pause_before
from clew.core.state import leaves, map_tree, with_leaves
from clew.core.taps import is_watching
from clew.core.types import Tree
from clew.decoding.stepper import ASKS_THE_HOST
from clew.decoding.tape import Recording, Tape
from clew.kernels import runs_equations
from clew.kernels.capture import capture
from clew.kernels.few_rows import few_rows

Outputs = tuple[Tensor, ...]
Advance = Callable[[Tree, Tensor | None], tuple[Tree, Outputs]]
"""(frame, what is fed to this step (rows,) or None) -> (frame, outputs (rows, ...) of this step)."""

LOOK = 16
"""Steps between two looks of the host at a GPU."""
LEAST_STEPS = 24
"""A capture costs about as much as so many eager steps."""
WAITS, TRIES, MISSES = 8, 4, 3
"""Steps that are run before one is noted, where a step of such shapes is met for the first time or a tape no longer fits: noting two and
making a tape of them costs about as much. Steps of a call that are noted in the hope of a tape. Steps in a row that a tape may not fit."""
MOST_GRAPHS, MOST_TAPES = 8, 64
"""Graphs that are kept, of which each holds a frame and with it an attention cache, and tapes, which hold neither."""

NUM_INHERITED = len(nn.Module().__dict__)
"""Attributes that every module has, which come first."""
PLAIN = {bool, int, float, str}

log = logging.getLogger("clew.decoding")


def looks_every(device: torch.device) -> int:
    """How many steps are run before the host looks at what they gave: one where looking costs nothing."""
    return LOOK if device.type == "cuda" else 1


class Repeated(Protocol):
    """A step that can be run any number of times."""

    @property
    def frame(self) -> Tree:
        """Where it stands; overwritten by the next `run`."""
        ...

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        """The outputs of the next `count` steps, stacked on axis 1; `fed` (count, rows) has what each step is fed."""
        ...


class Eager:
    def __init__(self, advance: Advance, frame: Tree):
        self.advance = advance
        self.frame: Tree = frame
        self.mode = few_rows(leaves(frame)[0].device) or nullcontext()

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        found = []
        with self.mode:
            for step in range(count):
                self.frame, outputs = self.advance(self.frame, None if fed is None else fed[step])
                found.append(outputs)
        return stacked(found)


def stacked(outputs: Sequence[Outputs]) -> Outputs:
    """The outputs of several steps, on axis 1."""
    if len(outputs) == 1:
        return tuple(output[:, None] for output in outputs[0])
    return tuple(torch.stack(column, 1) for column in zip(*outputs, strict=True))


class Taped:
    """A step that is run as it was written until two in a row make the same calls, and then from a tape of these.

    `waits` are steps that are run before one is noted: a step that is run only a few times is not worth a tape. Where `apart`, every step
    goes on from a frame of its own, from which any number of others may part it. Once released, it keeps no frame alive, and no model
    where steps are not apart.
    """

    def __init__(self, advance: Advance, frame: Tree, waits: int = 0, apart: bool = False):
        self.tape: Tape | None = None
        self.before: Recording | None = None
        self.waits, self.apart = waits, apart
        self.can_be_taped = True
        self.is_taken = False
        self.facts: list[Hashable] = []
        self.restart(advance, frame)

    def restart(self, advance: Advance, frame: Tree) -> None:
        """Goes on from another frame of the same shapes."""
        self.advance: Advance | None = advance
        self.form, self.leaves = frame, leaves(frame)
        self.replay: Callable[[Sequence[Tensor]], tuple[Tensor, ...]] | None = None
        self.misses, self.tries = 0, TRIES

    def release(self) -> None:
        self.advance = self.replay = self.form = None
        self.leaves = []
        if not self.apart:
            self.before, self.waits = None, 0

    @property
    def frame(self) -> Tree:
        return with_leaves(self.form, self.leaves)

    def run(self, count: int, fed: Tensor | None = None) -> Outputs:
        return stacked([self.step(None if fed is None else fed[step]) for step in range(count)])

    def step(self, fed: Tensor | None) -> Outputs:
        pause()
        if is_watching():
            return self.run_written(fed)
        if self.tape is not None and self.misses < MISSES:
            try:
                self.replay = self.replay or self.tape.begin()
                results = self.replay(self.leaves if fed is None else [*self.leaves, fed])
            except Exception as error:
                # Whatever it was, the step as it was written says it better, or goes another way; the next one may be as before.
                log.debug("a recorded step is left: %s", error)
                self.replay, self.misses, self.waits = None, self.misses + 1, WAITS
                return self.run_written(fed)
            self.leaves = list(results[: len(self.leaves)])
            self.misses = 0
            return results[len(self.leaves) :]
        if self.waits or not self.can_be_taped or not self.tries:
            self.waits = max(self.waits - 1, 0)
            return self.run_written(fed)
        return self.note(fed)

    def run_written(self, fed: Tensor | None) -> Outputs:
        assert self.advance is not None
        self.form, outputs = self.advance(self.frame, fed)
        self.leaves, self.before = leaves(self.form), None
        return outputs

    def note(self, fed: Tensor | None) -> Outputs:
        """Runs the step as it was written, and notes its calls."""
        before, inputs = self.before, distinct(self.leaves if fed is None else [*self.leaves, fed])
        self.leaves = inputs[: len(self.leaves)]
        recording = Recording(inputs, before, unit=None if self.apart else 1)
        with recording:
            outputs = self.run_written(None if fed is None else inputs[-1])
        recording.end([*self.leaves, *outputs])
        self.tries -= 1
        if recording.reason is not None:
            log.debug("a step is not recorded: %s", recording.reason)
            self.can_be_taped = before is not None
        elif before is None:
            self.before = recording
        else:
            self.tape, self.replay, self.misses = Tape(recording), None, 0
            log.debug("decoding runs from a tape of %d calls", len(recording.entries))
        return outputs


def distinct(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors, each as an object of its own, though two may be the same memory."""
    ids = [id(tensor) for tensor in tensors]
    return [tensor.view_as(tensor) if id(tensor) in ids[:place] else tensor for place, tensor in enumerate(tensors)]


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


@contextmanager
def repeating(
    advance: Advance, frame: Tree, *, steps: int, fed: bool = False, apart: bool = False, signature: Hashable = None
) -> Iterator[Repeated]:
    """The step in the fastest form that it has here, from a frame on, for about `steps` steps; `fed` says that every step is fed numbers,
    `apart` that this is one step of many that do not simply follow each other.

    `signature` says all that a step depends on besides its frame (see `Stepper`): what has an equal one may share a graph. What has none
    runs eagerly.
    """
    if (reason := reason_against(signature)) is not None:
        log.debug("decoding runs eagerly: %s", reason)
        yield Eager(advance, frame)
        return
    repeated = taken(advance, frame, steps, fed, apart, signature)
    if repeated is None:
        yield Eager(advance, frame)
        return
    try:
        yield repeated
    finally:
        repeated.release()
        repeated.is_taken = False  # last: from here on it is another's


def reason_against(signature: Hashable) -> str | None:
    """Why a step runs eagerly, whatever it does and wherever it runs."""
    if signature is None:
        return "a part of the step does not say what it depends on"
    if is_watching() or any(has_hooks(model) for model in models_of(signature)):
        return "the model is watched"
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return "the stream is being captured already"
    return None


def has_hooks(model: nn.Module) -> bool:
    """Whether something looks on as modules are called, which a graph does not do."""
    if any(hook is not pause_before for hook in (*_global_forward_hooks.values(), *_global_forward_pre_hooks.values())):
        return True
    return any(module._forward_hooks or module._forward_pre_hooks for module in parts_of(model))


def parts_of(model: nn.Module) -> list[nn.Module]:
    """The modules of a model, those that it has twice named twice. `modules()` takes milliseconds, which every call would pay."""
    found = [model]
    for module in found:
        found += [part for part in module._modules.values() if part is not None]
    return found


_graphs: OrderedDict[Hashable, list[Captured | Taped]] = OrderedDict()
_lock = RLock()
"""Held while a graph is looked for or kept: threads may decode with one model."""


def taken(advance: Advance, frame: Tree, steps: int, fed: bool, apart: bool, signature: Hashable) -> Captured | Taped | None:
    """A graph or a tape of the step, standing at the frame, that nobody else takes until it is released; None where there is none, or it is
    not worth it."""
    key = (signature, fed, shapes_of(frame), modes())
    facts = facts_of(signature)
    with _lock:
        free = next((kept for kept in _graphs.get(key, ()) if not kept.is_taken and kept.facts == facts), None)
        if free is not None:
            free.is_taken = True
            _graphs.move_to_end(key)
    if free is not None:
        free.restart(advance, frame)
        return free
    made = made_for(advance, frame, steps, fed, apart, signature)
    if made is not None:
        made.facts, made.is_taken = facts, True
        with _lock:
            keep(key, made)
    return made


def made_for(advance: Advance, frame: Tree, steps: int, fed: bool, apart: bool, signature: Hashable) -> Captured | Taped | None:
    device = leaves(frame)[0].device.type
    if device == "cpu":
        return Taped(advance, frame, WAITS, apart)
    if device != "cuda" or steps < LEAST_STEPS:
        return None
    if names(signature, ASKS_THE_HOST):
        log.debug("decoding runs eagerly: a part of the step asks the host")
        return None
    try:
        captured = Captured(advance, frame, fed)
    except (RuntimeError, ValueError) as error:
        # Shapes that change, or a step that asks the host: what it was says which.
        log.debug("decoding runs eagerly: %s", str(error).split("\n")[0])
        torch.cuda.synchronize()
        return None
    captured.restart(advance, frame)
    return captured


def keep(key: Hashable, made: Captured | Taped) -> None:
    """Keeps a graph or a tape for later calls; the oldest go, and those of models that are gone or have changed."""
    for old in [old for old in _graphs if any(place() is None for place in references(old))]:
        del _graphs[old]
    same = _graphs.setdefault(key, [])
    same[:] = [other for other in same if other.facts == made.facts]
    same.append(made)
    _graphs.move_to_end(key)
    while sum(map(len, _graphs.values())) > (MOST_TAPES if isinstance(made, Taped) else MOST_GRAPHS):
        _graphs.popitem(last=False)


def forget_graphs() -> None:
    """Frees every graph that is kept, and the memory of its frame."""
    with _lock:
        _graphs.clear()


def shapes_of(frame: Tree) -> tuple[Hashable, ...]:
    return tuple((tuple(leaf.shape), leaf.dtype, leaf.device) for leaf in leaves(frame))


def modes() -> tuple[Hashable, ...]:
    """What changes the kernels that the same code runs."""
    return (
        *(mode(device) for device in ("cpu", "cuda") for mode in (torch.is_autocast_enabled, torch.get_autocast_dtype)),
        torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
        runs_equations(),
    )


def names(signature: Any, part: str) -> bool:
    """Whether a signature has a part at any depth."""
    return signature == part if not isinstance(signature, tuple) else any(names(each, part) for each in signature)


def references(signature: Any) -> Iterator["weakref.ref[Any]"]:
    """The models that a signature names."""
    if isinstance(signature, weakref.ref):
        yield signature
    elif isinstance(signature, tuple):
        for part in signature:
            yield from references(part)


def models_of(signature: Hashable) -> list[nn.Module]:
    return [model for place in references(signature) if isinstance(model := place(), nn.Module)]


def facts_of(signature: Hashable) -> list[Hashable]:
    """What a graph takes for granted of its models: where the weights lie, whether a module trains, and each attribute that a user may set:
    a number or a word as it is, any other object by its identity."""
    facts: list[Hashable] = []
    for model in models_of(signature):
        for module in parts_of(model):
            own = islice(module.__dict__.values(), NUM_INHERITED, None)
            facts += [id(module), module.training, *(value if type(value) in PLAIN else id(value) for value in own)]
            weights = (*module._parameters.values(), *module._buffers.values())
            facts += [tensor.data_ptr() for tensor in weights if tensor is not None]
    return facts
