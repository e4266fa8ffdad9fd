"""Run one decoding step repeatedly: eagerly, from a tape on a CPU, or captured as a CUDA graph. Knows no model and no
algorithm.

The work before the steps, such as reading a prompt or a source, is captured too when it is called again with the same
shapes (`called`).

Greedy decoding, sampling and beam search are such steps (`repeated`): choosing tokens, finding ends and scoring stay on
the device, and the host looks every few steps. A graph or tape is kept, and reused by a later call whose step has the
same `signature` and whose frame has the same shapes. Everything else runs eagerly, and `--debug` says why. On a GPU
these are: a prompt read by a sliding window and the steps in which a row of it restarts, the first state of filters
that look back, a padded prompt under a recurrent layer whose kernel reads lengths on the host, coverage in beam search,
and drafts.
"""

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from threading import RLock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from clew.core.pauses import pause_before
from clew.core.state import leaves, map_tree
from clew.core.taps import is_watching
from clew.core.types import Tree
from clew.decoding.graphs import Captured, CapturedCall, TooLarge
from clew.decoding.repeated import Advance, Eager, Interrupted, Repeated
from clew.decoding.stepper import ASKS_THE_HOST, names
from clew.decoding.taped import WAITS, Taped
from clew.kernels import runs_equations
from clew.kernels.capture import FAILURES
from clew.kernels.step_mode import reading_mode

LEAST_STEPS = 24
"""Fewer steps than this are not captured: a capture costs about as much as this many eager steps."""
MOST_GRAPHS, MOST_TAPES = 8, 64
"""The most graphs and tapes kept. A graph holds a frame, and with it an attention cache; a tape holds neither."""
MOST_CALLS = 12
"""The most calls kept as graphs, and the most call shapes remembered: a shape that returns after more other calls is
not worth a capture."""
MOST_BYTES = 2**30
"""The most bytes of arguments and of results of a captured call. In larger calls the GPU does not wait for launches."""
MOST_FAILURES = 3
"""Failed captures of a call, in any shapes, after which it is no longer tried."""

NUM_INHERITED = len(nn.Module().__dict__)
"""Number of attributes that every module has; they come first in its `__dict__`."""
PLAIN = {bool, int, float, str}

log = logging.getLogger("clew.decoding")


class Standing(NamedTuple):
    """Properties of the models that a signature names, from one walk through their modules."""

    reason: str | None  # why every step of these models runs eagerly, or None
    facts: list[Hashable]  # see `facts_of`


@contextmanager
def repeating(
    advance: Advance,
    frame: Tree,
    *,
    steps: int,
    fed: bool = False,
    apart: bool = False,
    signature: Hashable = None,
    standing: Standing | None = None,
    calm: Callable[[Tree], int] | None = None,
) -> Iterator[Repeated]:
    """Give the step in its fastest available form, starting from a frame, for about `steps` steps.

    `fed` says that every step is fed numbers, `apart` that successive calls do not simply continue each other.
    `signature` names everything that a step depends on besides its frame (see `Stepper`): steps with equal signatures
    may share a graph, a step without one runs eagerly. `standing` is that of the signature, if already known. For a
    step that sometimes asks the host, `calm` returns the number of steps after a frame that do not; these can be
    captured.
    """
    standing = standing or standing_of(signature)
    if standing.reason is not None:
        log.debug("decoding runs eagerly: %s", standing.reason)
        yield Eager(advance, frame)
        return
    calm = calm if names(signature, ASKS_THE_HOST) else None
    repeated = take_repeated(advance, frame, steps, fed, apart, signature, standing.facts, calm is not None)
    if repeated is None:
        yield Eager(advance, frame)
        return
    try:
        yield Interrupted(repeated, advance, calm) if calm is not None and isinstance(repeated, Captured) else repeated
    finally:
        repeated.release()
        repeated.is_taken = False  # last: now another call may take it


def standing_of(signature: Hashable) -> Standing:
    if signature is None:
        return Standing("a part of the step does not say what it depends on", [])
    facts = None if is_watching() or are_all_watched() else facts_of(signature)
    if facts is None:
        return Standing("the model is watched", [])
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return Standing("the stream is being captured already", [])
    return Standing(None, facts)


def are_all_watched() -> bool:
    """Whether a global forward hook other than our own is registered."""
    return any(
        hook is not pause_before for hook in (*_global_forward_hooks.values(), *_global_forward_pre_hooks.values())
    )


Kept = Captured | Taped | CapturedCall
Store = OrderedDict[Hashable, list[Any]]
_graphs: Store = OrderedDict()
_calls: Store = OrderedDict()
_met: OrderedDict[Hashable, None] = OrderedDict()
"""Recently seen calls, by their shapes."""
_failures: dict[Hashable, int] = {}
"""Number of failed captures by signature, and MOST_FAILURES for single calls that are not worth a capture."""
_lock = RLock()
"""Held while a graph is looked up or stored: several threads may decode with one model."""


def take_repeated(
    advance: Advance,
    frame: Tree,
    steps: int,
    fed: bool,
    apart: bool,
    signature: Hashable,
    facts: list[Hashable],
    is_calm: bool,
) -> Captured | Taped | None:
    """Take a kept or new graph or tape of the step, positioned at the frame, for exclusive use until its release. None
    if the step cannot be captured or is not worth it."""
    key = (signature, fed, shapes_of(frame), modes())
    if (free := free_one(_graphs, key, facts)) is not None:
        free.restart(advance, frame)
        return free  # type: ignore[no-any-return]
    repeated = made_for(advance, frame, steps, fed, apart, signature, is_calm)
    if repeated is not None:
        keep(_graphs, key, repeated, facts, MOST_TAPES if isinstance(repeated, Taped) else MOST_GRAPHS)
    return repeated


def free_one(store: Store, key: Hashable, facts: list[Hashable]) -> Any:
    """Take a free entry stored under the key, or return None."""
    with _lock:
        free = next((kept for kept in store.get(key, ()) if not kept.is_taken and kept.facts == facts), None)
        if free is not None:
            free.is_taken = True
            store.move_to_end(key)
    return free


def called(function: Callable[..., Tree], arguments: tuple[Tree, ...], signature: Hashable) -> Tree:
    """Return `function(*arguments)`, a function from tensors to tensors that consumes its arguments, as states are
    consumed.

    On a GPU, and without gradients, it is captured as a graph when it is called again with the same shapes. `signature`
    names everything else that it depends on.
    """
    call = call_taken(function, arguments, signature)
    if call is None:
        return read(function, arguments)
    try:
        return map_tree(torch.clone, call(arguments))
    finally:
        call.is_taken = False


@contextmanager
def calling(
    function: Callable[..., Tree],
    arguments: tuple[Tree, ...],
    signature: Hashable,
    numbers: tuple[Hashable, ...] = (),
    standing: Standing | None = None,
) -> Iterator[Tree]:
    """Like `called`, but the result of a graph is not copied: it stays valid until the context exits. `numbers` are
    numbers that the function depends on besides its signature."""
    call = call_taken(function, arguments, signature, numbers, standing)
    if call is None:
        yield read(function, arguments)
        return
    try:
        yield call(arguments)
    finally:
        call.is_taken = False


def read(function: Callable[..., Tree], arguments: tuple[Tree, ...]) -> Tree:
    """Call the function eagerly."""
    try:
        tensors = leaves(arguments)
    except TypeError:  # inputs that are more than tensors
        tensors = []
    with reading_mode(tensors[0].device) if tensors else nullcontext():
        return function(*arguments)


def call_taken(
    function: Callable[..., Tree],
    arguments: tuple[Tree, ...],
    signature: Hashable,
    numbers: tuple[Hashable, ...] = (),
    standing: Standing | None = None,
) -> CapturedCall | None:
    """Take a kept or new graph of a call for exclusive use; None if it cannot be captured or is not worth it."""
    try:
        tensors = leaves(arguments)
    except TypeError:  # inputs that are more than tensors
        return None
    if (
        signature is None
        or not tensors
        or torch.is_grad_enabled()
        or names(signature, ASKS_THE_HOST)
        or not on_current_gpu(tensors)
    ):
        return None
    if sum(leaf.nbytes for leaf in tensors) > MOST_BYTES or _failures.get(signature, 0) >= MOST_FAILURES:
        return None
    standing = standing or standing_of(signature)
    key = ("call", signature, numbers, outline(arguments), modes())
    if standing.reason is not None or key in _failures or not is_met(key):
        return None
    call: CapturedCall | None = free_one(_calls, key, standing.facts)
    if call is None:
        try:
            call = CapturedCall(function, arguments, MOST_BYTES)
        except TooLarge as error:
            log.debug("a call is not captured: %s", error)
            _failures[key] = MOST_FAILURES
        except FAILURES as error:
            log.debug("a call is not captured: %s", str(error).split("\n")[0])
            torch.cuda.synchronize()
            _failures[signature] = _failures.get(signature, 0) + 1
        else:
            keep(_calls, key, call, standing.facts, MOST_CALLS)
    return call  # not in the handler: its error keeps the memory of the failed capture alive


def is_met(key: Hashable) -> bool:
    """Whether this call was seen recently; remember it."""
    with _lock:
        is_known = key in _met
        _met[key] = None
        _met.move_to_end(key)
        while len(_met) > MOST_CALLS:
            _met.popitem(last=False)
    return is_known


def made_for(
    advance: Advance, frame: Tree, steps: int, fed: bool, apart: bool, signature: Hashable, is_calm: bool
) -> Captured | Taped | None:
    device = leaves(frame)[0].device.type
    if device == "cpu":
        return Taped(advance, frame, WAITS, apart)
    if device != "cuda" or steps < LEAST_STEPS or not on_current_gpu(leaves(frame)[:1]):
        return None
    if names(signature, ASKS_THE_HOST) and not is_calm:
        log.debug("decoding runs eagerly: a part of the step asks the host")
        return None
    try:
        captured = Captured(advance, frame, fed, is_calm)
    except FAILURES as error:
        # Changing shapes, or a step that asks the host; the error says which.
        log.debug("decoding runs eagerly: %s", str(error).split("\n")[0])
        torch.cuda.synchronize()
        return None
    captured.restart(advance, frame)
    return captured


def keep(store: Store, key: Hashable, entry: Kept, facts: list[Hashable], most: int) -> None:
    """Store a graph or tape, taken by the present call, for later calls. Drop the oldest, and those of models that are
    gone or changed."""
    entry.facts, entry.is_taken = facts, True
    with _lock:
        for old in [old for old in store if any(place() is None for place in references(old))]:
            del store[old]
        same = store.setdefault(key, [])
        same[:] = [other for other in same if other.facts == facts]
        same.append(entry)
        store.move_to_end(key)
        while sum(map(len, store.values())) > most:
            store.popitem(last=False)


def on_current_gpu(tensors: list[Tensor]) -> bool:
    """Whether all tensors are on the current GPU, where graphs are captured."""
    return all(tensor.is_cuda for tensor in tensors) and all(
        tensor.get_device() == torch.cuda.current_device() for tensor in tensors
    )


def forget_graphs() -> None:
    """Free every kept graph and tape, and the memory of their frames."""
    with _lock:
        _graphs.clear()
        _calls.clear()
        _met.clear()
        _failures.clear()


def shapes_of(frame: Tree) -> tuple[Hashable, ...]:
    return tuple((tuple(leaf.shape), leaf.dtype, leaf.device) for leaf in leaves(frame))


def outline(tree: Tree) -> Hashable:
    """Return the structure of a tree and the shapes of its leaves."""
    if isinstance(tree, Tensor):
        return (tuple(tree.shape), tree.dtype, tree.device)
    if isinstance(tree, dict):
        return tuple((name, outline(part)) for name, part in tree.items())
    return None if tree is None else (type(tree), *map(outline, tree))


def modes() -> tuple[Hashable, ...]:
    """Return the global settings that change which kernels the same code runs."""
    return (
        *(mode(device) for device in ("cpu", "cuda") for mode in (torch.is_autocast_enabled, torch.get_autocast_dtype)),
        torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
        runs_equations(),
    )


def references(signature: Any) -> Iterator["weakref.ref[Any]"]:
    """Yield the models that a signature names, as weak references."""
    if isinstance(signature, weakref.ref):
        yield signature
    elif isinstance(signature, tuple):
        for part in signature:
            yield from references(part)


def models_of(signature: Hashable) -> list[nn.Module]:
    return [model for place in references(signature) if isinstance(model := place(), nn.Module)]


def facts_of(signature: Hashable) -> list[Hashable] | None:
    """Return what a graph assumes about its models: addresses of weights, training modes, and every attribute that a
    user may set (numbers and strings by value, other objects by identity). None if a module has forward hooks, which a
    graph would not call."""
    facts: list[Hashable] = []
    for model in models_of(signature):
        # Shared modules are visited twice. `modules()` and torch's attribute lookup would cost milliseconds in every
        # call.
        modules = [model]
        for module in modules:
            own = module.__dict__
            if own["_forward_hooks"] or own["_forward_pre_hooks"]:
                return None
            facts += [
                value if type(value) in PLAIN else id(value) for value in islice(own.values(), NUM_INHERITED, None)
            ]
            facts.append(own["training"])
            if weights := own["_parameters"]:
                facts += [None if tensor is None else tensor.data_ptr() for tensor in weights.values()]
            if weights := own["_buffers"]:
                facts += [None if tensor is None else tensor.data_ptr() for tensor in weights.values()]
            if parts := own["_modules"]:
                modules += [part for part in parts.values() if part is not None]
        facts += map(id, modules)
    return facts
