"""Lazy tensors: they are computed when their values are needed, so that one kernel can also do the following
operations. This file knows no kernel.

Otherwise a norm, a product, an activation and a sum are four kernels, each of which waits for the previous one. A
`Deferred` represents the result of such an operation. A following operation may take over its plan instead of its
values; any other use computes the values and sees an ordinary tensor.
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
"""Functions that read properties of a tensor, not its values."""


class Deferred(Tensor):
    """The result of a plan, which runs at most once."""

    plan: Plan
    result: Tensor | None

    @staticmethod
    def __new__(cls, plan: Plan, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> "Deferred":
        new: Deferred = Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=device)
        new.plan, new.result = plan, None
        return new

    def __init__(self, *arguments: Any) -> None:
        """Do nothing: `__new__` sets everything."""

    def numbers(self) -> Tensor:
        if self.result is None:
            with torch._C.DisableTorchFunction():  # otherwise an active mode would defer it again
                self.result = self.plan.run()
        return self.result

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        return func(*computed(args), **computed(kwargs))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return func(*computed(args), **computed(kwargs or {}))


def computed(tree: Any) -> Any:
    """Replace every Deferred in a tree by its computed tensor."""
    return tree_map_only(Deferred, Deferred.numbers, tree)


def deferred_plan(x: Any, kind: type) -> Any:
    """Return the plan of x if it has this type and has not run, else None."""
    return x.plan if isinstance(x, Deferred) and x.result is None and isinstance(x.plan, kind) else None
