"""Recording and changing values inside a model, by module path or tap; works on any torch module.

Paths are those of `model.named_modules()`, with the wildcards `*` and `?`: `*.gates.forget`, `body.layers.layers.0`. A
tap shows a value inside a layer, any other module its output. A compiled model is unwrapped and runs eagerly, since it
would silently skip hooks.
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
"""The watched modules that are not taps, and the owner of each one's hook."""


class Recording:
    """Recorded values by path: one tensor per call of the model."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Tensor]] = {}

    def __getitem__(self, path: str) -> Tensor:
        """Return the value at a path, or at the only path that a pattern matches, in a recording of one call."""
        calls = self.calls(path)
        if len(calls) != 1:
            raise UserError(f"{path} was passed {len(calls)} times while recording; calls({path!r}) gives each")
        return calls[0]

    def calls(self, path: str) -> list[Tensor]:
        matches = [name for name in self.seen if name == path] or [
            name for name in self.seen if fnmatchcase(name, path)
        ]
        if len(matches) != 1:
            reason = (
                f"several match: {', '.join(matches)}"
                if matches
                else f"recorded: {', '.join(self.seen) or 'nothing yet'}"
            )
            raise UserError(f"no single recording at '{path}'; {reason}")
        return self.seen[matches[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.seen)

    def __len__(self) -> int:
        return len(self.seen)

    def __repr__(self) -> str:
        lines = [
            f"  {path}: {' '.join(str(tuple(value.shape)) for value in values)}" for path, values in self.seen.items()
        ]
        return "\n".join([f"Recording of {len(self)} places", *lines])


@contextmanager
def record(model: Any, *patterns: str) -> Iterator[Recording]:
    """Record every matching place of a model in this context, detached, in order of calls.

        with clew.record(run, "*.gates.forget") as seen:
            run.score("to be or not to be")
        seen["*.gates.forget"]                          # (batch, length, dim)

    The recording can be read after the context has ended.
    """
    recording = Recording()
    places = find_places(model, patterns)
    for path in places:
        recording.seen[path] = []
    with _watching({module: Watch(observers=(_keep(recording.seen[path]),)) for path, module in places.items()}):
        yield recording


@contextmanager
def intervene(model: Any, changes: dict[str, Change]) -> Iterator[None]:
    """Replace the value at every place that a pattern matches by the pattern's function of it, in this context.

    Inside a loop over time the function is called at every step.
    """
    watches: Watches = {}
    for pattern, change in changes.items():
        for module in find_places(model, [pattern]).values():
            watches[module] = Watch((*watches.get(module, Watch()).changes, change))
    with _watching(watches):
        yield


def _keep(seen: list[Tensor]) -> Callable[[Tensor], None]:
    def keep(value: Tensor) -> None:
        with torch.inference_mode(False):  # copies of inference tensors are usable in training
            is_window = value.untyped_storage().nbytes() > value.numel() * value.element_size()
            seen.append(value.detach().clone() if value.is_inference() or is_window else value.detach())

    return keep


def find_places(model: Any, patterns: Any) -> dict[str, nn.Module]:
    """Return the modules whose paths match; for a pattern without a match, the error names the nearest path."""
    module = plain_module(model)
    paths = {path: part for path, part in module.named_modules() if path}
    places: dict[str, nn.Module] = {}
    for pattern in patterns:
        matches = {path: part for path, part in paths.items() if fnmatchcase(path, pattern)}
        if not matches:
            near = did_you_mean(pattern, paths)
            listed = "`clew look taps RUN pattern=*`, or model.named_modules(), lists its paths"
            raise UserError(f"nothing in the model matches '{pattern}'{near} {listed}")
        places.update(matches)
    return places


def plain_module(model: Any) -> nn.Module:
    """Return the eager module of a run, a task, or a compiled or replicated module."""
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
    """Watch taps directly and other modules by hooks, which are always removed.

    Both count as watched, so that a layer that contains one runs its equation. A module has one hook for all nested
    contexts, that of the outermost, and hooks of other threads ignore it.
    """
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
    """Run compiled code eagerly, since it would skip hooks and taps. If dynamo was never loaded, nothing is
    compiled."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _hook(owner: object, module: nn.Module, arguments: Any, output: Any) -> Any:
    """Show and change a module's output, or its first tensor if it is a tuple such as (y, state)."""
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
