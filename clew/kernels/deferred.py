"""Lazy tensors: computed when their numbers are needed, so that one kernel can also do the following operations. Knows
no kernel.

A norm, a product, an activation and a sum are otherwise four kernels, each of which waits for the one before. A
`Deferred` stands for the result of such an operation. A following operation may take its plan instead of its numbers;
any other use computes the numbers and sees an ordinary tensor.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only


class Plan(Protocol):
    """A computation that has not run yet."""

    @property
    def reads(self) -> Sequence[Tensor]:
        """The tensors, other than weights, that the computation reads."""
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
"""Functions that read properties of a tensor, not its numbers."""


class Deferred(Tensor):
    """The result of a plan, which runs at most once."""

    plan: Plan
    made: Tensor | None

    @staticmethod
    def __new__(cls, plan: Plan, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> "Deferred":
        new: Deferred = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        new.plan, new.made = plan, None
        return new

    def __init__(self, *given: Any) -> None:
        """Do nothing: `__new__` sets everything."""

    def numbers(self) -> Tensor:
        if self.made is None:
            with torch._C.DisableTorchFunction():  # or an active mode would defer it again
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
    """Replace every Deferred of a tree by its computed tensor."""
    return tree_map_only(Deferred, Deferred.numbers, tree)


def plan_of(x: Any, kind: type) -> Any:
    """Return the plan of x if it has this type and has not run, else None."""
    return x.plan if isinstance(x, Deferred) and x.made is None and isinstance(x.plan, kind) else None
