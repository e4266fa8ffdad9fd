"""Runs one decoding step again and again: eagerly, from a tape on a CPU, or captured as a CUDA graph. Knows no model and no algorithm.

What comes before the steps, a prompt or a source that is read, is captured too when it comes in the same shapes again (`called`).

Greedy decoding, sampling and beam search are such steps (`repeated`), so that the choice of a token, ends and scores stay on the device and
the host looks every few steps. A graph or a tape is kept, and taken again by a later call whose step has the same `signature` and whose
frame has the same shapes. What has neither runs eagerly, and `--debug` says why.
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
"""A capture costs about as much as so many eager steps."""
MOST_GRAPHS, MOST_TAPES = 8, 64
"""Graphs that are kept, of which each holds a frame and with it an attention cache, and tapes, which hold neither."""
MOST_CALLS = 12
"""Calls that are kept as graphs, and calls that are remembered: one whose shapes come back after more others is not worth a capture."""
MOST_BYTES = 2**30
"""Of the arguments of a call that is captured, and of what it gives: with more the GPU is not waiting for its kernels to be launched."""
MOST_FAILURES = 3
"""Shapes of a call whose capture fails before it is no longer tried."""

NUM_INHERITED = len(nn.Module().__dict__)
"""Attributes that every module has, which come first."""
PLAIN = {bool, int, float, str}

log = logging.getLogger("clew.decoding")


class Standing(NamedTuple):
    """What was found of the models that a signature names, all of which are walked through once."""

    reason: str | None  # why a step runs eagerly, whatever it does and wherever it runs
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
    """The step in the fastest form that it has here, from a frame on, for about `steps` steps; `fed` says that every step is fed numbers,
    `apart` that this is one step of many that do not simply follow each other.

    `signature` says all that a step depends on besides its frame (see `Stepper`): what has an equal one may share a graph. What has none
    runs eagerly. `standing` is that of the signature, where it was found out a moment ago. `calm` tells of a frame how many steps from it
    on need not ask the host, of a step that asks it now and then: these can be captured.
    """
    standing = standing or standing_of(signature)
    if standing.reason is not None:
        log.debug("decoding runs eagerly: %s", standing.reason)
        yield Eager(advance, frame)
        return
    calm = calm if names(signature, ASKS_THE_HOST) else None
    repeated = taken(advance, frame, steps, fed, apart, signature, standing.facts, calm is not None)
    if repeated is None:
        yield Eager(advance, frame)
        return
    try:
        yield Interrupted(repeated, advance, calm) if calm is not None and isinstance(repeated, Captured) else repeated
    finally:
        repeated.release()
        repeated.is_taken = False  # last: from here on it is another's


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
    """Whether something looks on as any module is called."""
    return any(hook is not pause_before for hook in (*_global_forward_hooks.values(), *_global_forward_pre_hooks.values()))


Kept = Captured | Taped | CapturedCall
Store = OrderedDict[Hashable, list[Any]]
_graphs: Store = OrderedDict()
_calls: Store = OrderedDict()
_met: OrderedDict[Hashable, None] = OrderedDict()
"""Calls that were met, by their shapes."""
_failures: dict[Hashable, int] = {}
"""How often calls could not be captured, by their signatures; and single calls that are not worth it."""
_lock = RLock()
"""Held while a graph is looked for or kept: threads may decode with one model."""


def taken(
    advance: Advance, frame: Tree, steps: int, fed: bool, apart: bool, signature: Hashable, facts: list[Hashable], is_calm: bool
) -> Captured | Taped | None:
    """A graph or a tape of the step, standing at the frame, that nobody else takes until it is released; None where there is none, or it is
    not worth it."""
    key = (signature, fed, shapes_of(frame), modes())
    if (free := free_one(_graphs, key, facts)) is not None:
        free.restart(advance, frame)
        return free  # type: ignore[no-any-return]
    made = made_for(advance, frame, steps, fed, apart, signature, is_calm)
    if made is not None:
        keep(_graphs, key, made, facts, MOST_TAPES if isinstance(made, Taped) else MOST_GRAPHS)
    return made


def free_one(store: Store, key: Hashable, facts: list[Hashable]) -> Any:
    """What is kept under the key and nobody else takes, taken from now on; or None."""
    with _lock:
        free = next((kept for kept in store.get(key, ()) if not kept.is_taken and kept.facts == facts), None)
        if free is not None:
            free.is_taken = True
            store.move_to_end(key)
    return free


def called(function: Callable[..., Tree], arguments: tuple[Tree, ...], signature: Hashable) -> Tree:
    """`function(*arguments)`, which gives tensors of tensors alone; its arguments are used up, as a state is. On a GPU it becomes a graph
    when it comes in the same shapes again, where no gradient is asked for. `signature` says all else that it depends on."""
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
    """What `called` gives, but of a graph it is lent: it lies where the graph has written it, until this context is left. `numbers` are
    those that the function depends on besides its signature."""
    call = call_taken(function, arguments, signature, numbers, standing)
    if call is None:
        yield read(function, arguments)
        return
    try:
        yield call(arguments)
    finally:
        call.is_taken = False


def read(function: Callable[..., Tree], arguments: tuple[Tree, ...]) -> Tree:
    """The call as it was written."""
    try:
        given = leaves(arguments)
    except TypeError:  # inputs that are more than tensors
        given = []
    with reading_mode(given[0].device) if given else nullcontext():
        return function(*arguments)


def call_taken(
    function: Callable[..., Tree],
    arguments: tuple[Tree, ...],
    signature: Hashable,
    numbers: tuple[Hashable, ...] = (),
    standing: Standing | None = None,
) -> CapturedCall | None:
    """A graph of a call, which nobody else takes; None where there is none, or it is not worth it."""
    try:
        given = leaves(arguments)
    except TypeError:  # inputs that are more than tensors
        return None
    if signature is None or not given or torch.is_grad_enabled() or names(signature, ASKS_THE_HOST) or not on_current_gpu(given):
        return None
    if sum(leaf.nbytes for leaf in given) > MOST_BYTES or _failures.get(signature, 0) >= MOST_FAILURES:
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
    return call  # outside of the handler, whose error holds on to the memory of what failed


def is_met(key: Hashable) -> bool:
    """Whether a call of this kind came before; from now on it did."""
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
        # Shapes that change, or a step that asks the host: what it was says which.
        log.debug("decoding runs eagerly: %s", str(error).split("\n")[0])
        torch.cuda.synchronize()
        return None
    captured.restart(advance, frame)
    return captured


def keep(store: Store, key: Hashable, made: Kept, facts: list[Hashable], most: int) -> None:
    """Keeps a graph or a tape for later calls, taken by this one; the oldest go, and those of models that are gone or have changed."""
    made.facts, made.is_taken = facts, True
    with _lock:
        for old in [old for old in store if any(place() is None for place in references(old))]:
            del store[old]
        same = store.setdefault(key, [])
        same[:] = [other for other in same if other.facts == facts]
        same.append(made)
        store.move_to_end(key)
        while sum(map(len, store.values())) > most:
            store.popitem(last=False)


def on_current_gpu(tensors: list[Tensor]) -> bool:
    """Whether all lie on the GPU that graphs are captured on."""
    return all(tensor.is_cuda for tensor in tensors) and all(tensor.get_device() == torch.cuda.current_device() for tensor in tensors)


def forget_graphs() -> None:
    """Frees every graph that is kept, and the memory of its frame."""
    with _lock:
        _graphs.clear()
        _calls.clear()
        _met.clear()
        _failures.clear()


def shapes_of(frame: Tree) -> tuple[Hashable, ...]:
    return tuple((tuple(leaf.shape), leaf.dtype, leaf.device) for leaf in leaves(frame))


def outline(tree: Tree) -> Hashable:
    """What a tree is made of, and the shapes of its leaves."""
    if isinstance(tree, Tensor):
        return (tuple(tree.shape), tree.dtype, tree.device)
    if isinstance(tree, dict):
        return tuple((name, outline(part)) for name, part in tree.items())
    return None if tree is None else (type(tree), *map(outline, tree))


def modes() -> tuple[Hashable, ...]:
    """What changes the kernels that the same code runs."""
    return (
        *(mode(device) for device in ("cpu", "cuda") for mode in (torch.is_autocast_enabled, torch.get_autocast_dtype)),
        torch.get_float32_matmul_precision(),
        torch.is_inference_mode_enabled(),
        runs_equations(),
    )


def references(signature: Any) -> Iterator["weakref.ref[Any]"]:
    """The models that a signature names."""
    if isinstance(signature, weakref.ref):
        yield signature
    elif isinstance(signature, tuple):
        for part in signature:
            yield from references(part)


def models_of(signature: Hashable) -> list[nn.Module]:
    return [model for place in references(signature) if isinstance(model := place(), nn.Module)]


def facts_of(signature: Hashable) -> list[Hashable] | None:
    """What a graph takes for granted of its models: where the weights lie, whether a module trains, and each attribute that a user may set:
    a number or a word as it is, any other object by its identity. None where something looks on as a module is called, which a graph does
    not do."""
    facts: list[Hashable] = []
    for model in models_of(signature):
        # Modules that it has twice are walked through twice. `modules()`, and torch's look-up of attributes, take milliseconds, which every
        # call would pay.
        found = [model]
        for module in found:
            own = module.__dict__
            if own["_forward_hooks"] or own["_forward_pre_hooks"]:
                return None
            facts += [value if type(value) in PLAIN else id(value) for value in islice(own.values(), NUM_INHERITED, None)]
            facts.append(own["training"])
            if weights := own["_parameters"]:
                facts += [None if tensor is None else tensor.data_ptr() for tensor in weights.values()]
            if weights := own["_buffers"]:
                facts += [None if tensor is None else tensor.data_ptr() for tensor in weights.values()]
            if parts := own["_modules"]:
                found += [part for part in parts.values() if part is not None]
        facts += map(id, found)
    return facts
