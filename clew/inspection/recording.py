"""Watching and changing what passes through a model, by module path and tap; works on any torch module.

A path is as `model.named_modules()` gives it, with `*` and `?` as in file names: `*.gates.forget`, `body.layers.layers.0`. A tap
shows the value inside a layer, any other module its output. A compiled model is unwrapped and runs eagerly, since hooks are
silently passed over inside it.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError, did_you_mean
from clew.core.taps import Change, Tap, Watch, Watches, passed, watched

_hooked: ContextVar[Mapping[nn.Module, object]] = ContextVar("hooked", default={})  # noqa: B039  never written to
"""Modules that are no taps and are watched, and whose hook serves them."""


class Recording:
    """What was seen, by path: one tensor a call of the model."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Tensor]] = {}

    def __getitem__(self, path: str) -> Tensor:
        """The value at a path (or at the only path that a pattern matches) in a recording of one call."""
        calls = self.calls(path)
        if len(calls) != 1:
            raise UserError(f"{path} was passed {len(calls)} times while recording; calls({path!r}) gives each")
        return calls[0]

    def calls(self, path: str) -> list[Tensor]:
        found = [name for name in self.seen if name == path] or [name for name in self.seen if fnmatchcase(name, path)]
        if len(found) != 1:
            reason = f"several match: {', '.join(found)}" if found else f"recorded: {', '.join(self.seen) or 'nothing yet'}"
            raise UserError(f"no single recording at '{path}'; {reason}")
        return self.seen[found[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.seen)

    def __len__(self) -> int:
        return len(self.seen)

    def __repr__(self) -> str:
        lines = [f"  {path}: {' '.join(str(tuple(value.shape)) for value in values)}" for path, values in self.seen.items()]
        return "\n".join([f"Recording of {len(self)} places", *lines])


@contextmanager
def record(model: Any, *patterns: str) -> Iterator[Recording]:
    """Within this context every matching place of the model is recorded, detached, in the order of the calls.

    with clew.record(run, "*.gates.forget") as seen:
        run.score("to be or not to be")
    seen["*.gates.forget"]                          # (batch, length, dim)
    """
    recording = Recording()
    places = find_places(model, patterns)
    for path in places:
        recording.seen[path] = []
    with _watching({module: Watch(observers=(_keep(recording.seen[path]),)) for path, module in places.items()}):
        yield recording


@contextmanager
def intervene(model: Any, changes: dict[str, Change]) -> Iterator[None]:
    """Within this context the value at every place that a pattern matches is what the pattern's function makes of it.

    Inside a loop over time the function is called once a step.
    """
    watches: Watches = {}
    for pattern, change in changes.items():
        for module in find_places(model, [pattern]).values():
            watches[module] = Watch((*watches.get(module, Watch()).changes, change))
    with _watching(watches):
        yield


def _keep(seen: list[Tensor]) -> Callable[[Tensor], None]:
    def keep(value: Tensor) -> None:
        with torch.inference_mode(False):  # what decoding made could not be used in training without a copy, and a window holds all of it
            is_window = value.untyped_storage().nbytes() > value.numel() * value.element_size()
            seen.append(value.detach().clone() if value.is_inference() or is_window else value.detach())

    return keep


def find_places(model: Any, patterns: Any) -> dict[str, nn.Module]:
    """The modules whose paths match; a pattern that matches none names the nearest path."""
    module = plain_module(model)
    paths = {path: part for path, part in module.named_modules() if path}
    found: dict[str, nn.Module] = {}
    for pattern in patterns:
        matches = {path: part for path, part in paths.items() if fnmatchcase(path, pattern)}
        if not matches:
            near = did_you_mean(pattern, paths)
            listed = "`clew look taps RUN pattern=*`, or model.named_modules(), lists its paths"
            raise UserError(f"nothing in the model matches '{pattern}'{near} {listed}")
        found.update(matches)
    return found


def plain_module(model: Any) -> nn.Module:
    """The eager module of a run, a task, or a compiled or replicated module."""
    model = getattr(model, "task", model)
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


@contextmanager
def _watching(watches: Watches) -> Iterator[None]:
    """Taps show themselves; other modules through a hook, always removed. Both count as watched, so that a layer which has one inside runs
    its equation. A module has one hook for all contexts that nest, the outermost's, and the hooks of other threads leave it alone."""
    outer, owner = _hooked.get(), object()
    own = [module for module in watches if not isinstance(module, Tap) and module not in outer]
    hooks = [module.register_forward_hook(partial(_hook, owner)) for module in own]
    token = _hooked.set({**outer, **dict.fromkeys(own, owner)})
    try:
        with watched(watches), _eager():
            yield
    finally:
        _hooked.reset(token)
        for hook in hooks:
            hook.remove()


def _eager() -> AbstractContextManager[Any]:
    """Compiled code runs as it was written, since it would pass over hooks and taps; nothing is compiled where dynamo was never loaded."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _hook(owner: object, module: nn.Module, arguments: Any, output: Any) -> Any:
    """Shows and changes the output, or the first tensor of one such as (y, state)."""
    if _hooked.get().get(module) is not owner:
        return None
    if isinstance(output, Tensor):
        return passed(module, output)
    if not isinstance(output, tuple) or not output:
        return None
    first = _hook(owner, module, arguments, output[0])
    if first is None:
        return None
    return type(output)(first, *output[1:]) if hasattr(output, "_fields") else (first, *output[1:])
