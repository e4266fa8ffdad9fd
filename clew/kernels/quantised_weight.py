"""A matrix in 8 or 4 bits that replaces a parameter.

To a layer it looks like a float tensor, with the shape, dtype and device of the original weight. `F.linear` and
`F.embedding` read the integers; every other torch function gets the weight converted to float for the call. So layers
need no changes, and module paths, weight names and tied weights stay the same.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from clew.core.errors import UserError
from clew.kernels.quantised_products import quantised_product
from clew.kernels.quantising import Integers


class QuantisedWeight(torch.Tensor):
    integers: Integers

    @staticmethod
    def __new__(cls, integers: Integers) -> "QuantisedWeight":
        dtype, device = integers.scales.dtype, integers.codes.device
        weight: Any = torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=dtype, device=device)
        weight.integers = integers
        return weight  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = kwargs or {}, getattr(func, "__name__", "")
        if func in FORMS:
            return FORMS[func](*args, **kwargs)
        if func in ABOUT or (name == "__get__" and func not in MATRICES):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if (name == "__set__" or (name.endswith("_") and not name.endswith("__"))) and isinstance(args[0], cls):
            return refuse_change()  # it would change a temporary copy
        return func(*tree_map(as_float, tuple(args)), **tree_map(as_float, kwargs))

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Handle calls that do not come through torch's Python functions."""
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
            return QuantisedWeight(args[0].integers)
        return func(*tree_map(as_float, tuple(args)), **tree_map(as_float, kwargs or {}))


def stored(weight: Tensor) -> Tensor:
    """Return the tensor that stores a weight's values or codes."""
    return weight.integers.codes if isinstance(weight, QuantisedWeight) else weight


def join_rows(weights: Sequence[Tensor]) -> QuantisedWeight | None:
    """Concatenate the rows of all weights, and make each weight a view of the result; None if they are not all of the
    same kind."""
    forms = [weight.integers for weight in weights if isinstance(weight, QuantisedWeight)]
    if len(forms) < len(weights) or len({len(form.parts) for form in forms}) > 1:
        return None
    block = Integers(*(torch.cat(parts) for parts in zip(*(form.parts for form in forms), strict=True)))
    start = 0
    for weight in weights:
        assert isinstance(weight, QuantisedWeight)
        stop = start + len(weight)
        weight.integers = block.map(lambda part, rows=slice(start, stop): part[rows])  # type: ignore[misc]
        start = stop
    return QuantisedWeight(block)


def refuse_change(*args: Any, **kwargs: Any) -> None:
    raise UserError("weights in int8 or int4 cannot be changed or trained; load the run without a precision")


def as_float(value: Any) -> Any:
    return value.integers.floats(value.dtype) if isinstance(value, QuantisedWeight) else value


def as_empty(value: Any) -> Any:
    """Return an empty tensor of the same dtype and device, for calls that need only those."""
    return value.integers.scales[:0] if isinstance(value, QuantisedWeight) else value


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    if isinstance(weight, QuantisedWeight) and not isinstance(x, QuantisedWeight):
        return quantised_product(x, weight.integers, bias)
    return F.linear(as_float(x), as_float(weight), bias)


def embedding(tokens: Tensor, weight: Any, *args: Any, **kwargs: Any) -> Tensor:
    rows = weight.integers.map(lambda part: part[tokens.flatten()])
    vectors: Tensor = rows.floats(weight.dtype)
    return vectors.reshape(*tokens.shape, weight.shape[1])


def get_item(weight: Any, place: Any) -> Any:
    """Index the weight; a slice of rows stays quantised."""
    if isinstance(weight, QuantisedWeight) and isinstance(place, slice) and place.step is None:
        return QuantisedWeight(weight.integers.map(lambda part: part[place]))
    return as_float(weight)[place]


def to(tensor: Any, *args: Any, **kwargs: Any) -> Tensor:
    if not isinstance(tensor, QuantisedWeight):
        return torch.Tensor.to(tensor, *map(as_empty, args), **kwargs)
    device, dtype, *_ = torch._C._nn._parse_to(*map(as_empty, args), **kwargs)
    if dtype not in (None, tensor.dtype):
        return tensor.integers.floats(dtype).to(device)
    if device is None or device == tensor.device:
        return tensor
    return QuantisedWeight(tensor.integers.map(lambda part: part.to(device)))


def new(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda weight, *args, **kwargs: function(as_empty(weight), *args, **kwargs)


def deep_copy(weight: Any, memo: dict[int, Any]) -> Any:
    memo[id(weight)] = copy = torch.nn.Parameter(QuantisedWeight(weight.integers.map(torch.clone)), requires_grad=False)
    return copy


def ask_gradients(weight: Any, requires_grad: bool = True) -> Any:
    return refuse_change() if requires_grad else weight


def repr_weight(weight: Any, **_: Any) -> str:
    return f"QuantisedWeight({list(weight.shape)}, {'int8' if weight.integers.multipliers is None else 'int4'})"


T = torch.Tensor
FORMS: dict[Callable[..., Any], Callable[..., Any]] = {
    F.linear: linear,
    F.embedding: embedding,
    T.__getitem__: get_item,
    T.to: to,
    **{function: new(function) for function in (T.new_zeros, T.new_ones, T.new_empty, T.new_full, T.new_tensor)},
    T.__deepcopy__: deep_copy,
    T.__repr__: repr_weight,
    T.data_ptr: lambda weight: weight.integers.codes.data_ptr(),
    T.requires_grad_: ask_gradients,
    torch._has_compatible_shallow_copy_type: lambda *tensors: False,  # so that moving a module creates a new parameter
}
ABOUT = {
    *(
        T.size,
        T.dim,
        T.ndimension,
        T.numel,
        T.nelement,
        T.stride,
        T.element_size,
        T.__len__,
        T.__hash__,
        T.get_device,
        T.detach,
    ),
    *(T.is_floating_point, T.is_complex, T.is_contiguous, torch.numel, torch.is_floating_point, torch.is_complex),
}
"""Functions that read properties of a tensor, not its values."""
MATRICES = {getattr(T, name).__get__ for name in ("T", "mT", "H", "mH", "real", "imag")}
"""Attributes that return another tensor."""
