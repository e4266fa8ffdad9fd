"""Tensors that are computed when their numbers are asked for, so that one kernel may do what is done to them, too. Knows no kernel.

Written one after the other, a norm, a product, an activation and a sum are four kernels, each of which waits for the one before. A
`Deferred` stands for the result of such a step. Another step may take its plan instead of its numbers; everything else asks for the
numbers, and sees an ordinary tensor.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


class Plan(Protocol):
    """What is still to be computed."""

    @property
    def reads(self) -> Sequence[Tensor]:
        """The tensors that it will be computed from, other than weights."""
        ...

    def run(self) -> Tensor: ...


ABOUT = {
    torch.Tensor.shape.__get__,  # type: ignore[attr-defined]
    torch.Tensor.dtype.__get__,  # type: ignore[attr-defined]
    torch.Tensor.device.__get__,
    torch.Tensor.is_cuda.__get__,  # type: ignore[attr-defined]
    torch.Tensor.ndim.__get__,  # type: ignore[attr-defined]
    torch.Tensor.requires_grad.__get__,  # type: ignore[attr-defined]
    torch.Tensor.size,
    torch.Tensor.dim,
    torch.Tensor.numel,
    torch.Tensor.__len__,
}
"""Functions that ask about a tensor and not for its numbers."""


class Deferred(Tensor):
    """The result of a plan, which runs once at most."""

    plan: Plan
    made: Tensor | None

    @staticmethod
    def __new__(cls, plan: Plan, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> "Deferred":
        new: Deferred = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        new.plan, new.made = plan, None
        return new

    def __init__(self, *given: Any) -> None:
        """Everything is in `__new__`."""

    def numbers(self) -> Tensor:
        if self.made is None:
            with torch._C.DisableTorchFunction():  # or a mode would defer it again
                self.made = self.plan.run()
        return self.made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        return func(*made(args), **made(kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return func(*made(args), **made(kwargs or {}))


def made(tree: Any) -> Any:
    """The same with ordinary tensors."""
    return tree_map_only(Deferred, Deferred.numbers, tree)


def plan_of(x: Any, kind: type) -> Any:
    """The plan of x where it is of this kind and has not run; else None."""
    return x.plan if isinstance(x, Deferred) and x.made is None and isinstance(x.plan, kind) else None
