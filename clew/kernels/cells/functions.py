"""Torch functions on symbols: each has torch's arguments and creates operations of the graph."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from clew.kernels.cells.expressions import Node
from clew.kernels.cells.symbols import Part, Piece, Refused, Symbol, Trace, type_name

Value = Any
"""A symbol, a tensor that is constant over steps, or a number."""


def unary(name: str) -> Callable[..., Symbol]:
    def function(trace: Trace, input: Symbol, inplace: bool = False) -> Symbol:
        in_place(inplace)
        return trace.elementwise(name, input)

    return function


def binary(name: str) -> Callable[..., Symbol]:
    return lambda trace, input, other: trace.elementwise(name, input, other)


def reverse(name: str) -> Callable[..., Symbol]:
    return lambda trace, input, other: trace.elementwise(name, other, input)


def in_place(requested: bool) -> None:
    if requested:
        raise Refused("it writes to a tensor in place")


def scaled(trace: Trace, x: Value, factor: float) -> Value:
    return x if factor == 1 else trace.elementwise("multiply", x, factor) if isinstance(x, Symbol) else x * factor


def add(trace: Trace, input: Value, other: Value, *, alpha: float = 1) -> Symbol:
    return trace.elementwise("add", input, scaled(trace, other, alpha))


def subtract(trace: Trace, input: Value, other: Value, *, alpha: float = 1) -> Symbol:
    return trace.elementwise("subtract", input, scaled(trace, other, alpha))


def reversed_subtract(trace: Trace, input: Value, other: Value, alpha: float = 1) -> Symbol:
    return trace.elementwise("subtract", other, scaled(trace, input, alpha))


def addcmul(trace: Trace, input: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Symbol:
    return trace.elementwise("add", input, scaled(trace, product(trace, tensor1, tensor2), value))


def product(trace: Trace, left: Value, right: Value) -> Value:
    is_known = not isinstance(left, Symbol) and not isinstance(right, Symbol)
    return left * right if is_known else trace.elementwise("multiply", left, right)


def lerp(trace: Trace, input: Value, end: Value, weight: Value) -> Symbol:
    way = (
        trace.elementwise("subtract", end, input)
        if isinstance(input, Symbol) or isinstance(end, Symbol)
        else end - input
    )
    return trace.elementwise("add", input, product(trace, weight, way))


def power(trace: Trace, input: Value, exponent: Value) -> Symbol:
    if not isinstance(input, Symbol) or not isinstance(exponent, int | float):
        raise Refused("it raises to a power that is not a plain number")
    if exponent in (0.5, -0.5):
        return trace.elementwise("sqrt" if exponent > 0 else "rsqrt", input)
    if exponent not in (-2, -1, 1, 2, 3, 4):
        raise Refused(f"it raises to the power {exponent}; -2, -1, -0.5, 0.5, 1, 2, 3 and 4 are supported")
    raised = input
    for _ in range(abs(int(exponent)) - 1):
        raised = trace.elementwise("multiply", raised, input)
    return raised if exponent > 0 else reciprocal(trace, raised)


def reciprocal(trace: Trace, input: Symbol) -> Symbol:
    return trace.elementwise("divide", 1.0, input)


def less(trace: Trace, input: Value, other: Value) -> Symbol:
    return trace.elementwise("greater", other, input, dtype=torch.bool)


def greater(trace: Trace, input: Value, other: Value) -> Symbol:
    return trace.elementwise("greater", input, other, dtype=torch.bool)


def at_least(trace: Trace, input: Value, other: Value) -> Symbol:
    return negated(trace, less(trace, input, other))


def at_most(trace: Trace, input: Value, other: Value) -> Symbol:
    return negated(trace, greater(trace, input, other))


def negated(trace: Trace, input: Symbol) -> Symbol:
    if input.dtype != torch.bool:
        raise Refused("it negates the bits of numbers")
    return trace.elementwise("subtract", 1.0, input, dtype=torch.bool)


def where(trace: Trace, condition: Value, input: Value, other: Value) -> Symbol:
    if condition.dtype != torch.bool:
        raise Refused("it selects by a condition that is not boolean")
    return trace.elementwise("where", condition, input, other, dtype=trace.dtype)


def masked_fill(trace: Trace, input: Value, mask: Value, value: Value) -> Symbol:
    return where(trace, mask, value, input)


def clamp(trace: Trace, input: Symbol, min: Value = None, max: Value = None) -> Symbol:
    # As in torch, the gradient passes where the input equals a limit.
    for limit, is_beyond in ((min, less), (max, greater)):
        if limit is not None:
            input = where(trace, is_beyond(trace, input, limit), limit, input)
    return input


def softplus(trace: Trace, input: Symbol, beta: float = 1, threshold: float = 20) -> Symbol:
    steep = scaled(trace, input, beta)
    smooth = trace.elementwise("log1p", trace.elementwise("exp", clamp(trace, steep, max=threshold)))
    return where(trace, greater(trace, steep, threshold), input, scaled(trace, smooth, 1 / beta))


def logsigmoid(trace: Trace, input: Symbol) -> Symbol:
    return trace.elementwise("negate", softplus(trace, trace.elementwise("negate", input), threshold=60))


def silu(trace: Trace, input: Symbol, inplace: bool = False) -> Symbol:
    in_place(inplace)
    return trace.elementwise("multiply", input, trace.elementwise("sigmoid", input))


def gelu(trace: Trace, input: Symbol, approximate: str = "none") -> Symbol:
    if approximate == "tanh":
        cube = addcmul(trace, input, power(trace, input, 3), 0.044715)
        share = trace.elementwise("tanh", trace.elementwise("multiply", cube, math.sqrt(2 / math.pi)))
    else:
        share = trace.elementwise("erf", trace.elementwise("multiply", input, math.sqrt(0.5)))
    return trace.elementwise(
        "multiply", trace.elementwise("multiply", input, 0.5), trace.elementwise("add", share, 1.0)
    )


def leaky_relu(trace: Trace, input: Symbol, negative_slope: float = 0.01, inplace: bool = False) -> Symbol:
    in_place(inplace)
    return where(trace, greater(trace, input, 0.0), input, trace.elementwise("multiply", input, negative_slope))


def elu(trace: Trace, input: Symbol, alpha: float = 1.0, inplace: bool = False) -> Symbol:
    in_place(inplace)
    grown = trace.elementwise("subtract", trace.elementwise("exp", clamp(trace, input, max=0.0)), 1.0)
    return where(trace, greater(trace, input, 0.0), input, trace.elementwise("multiply", grown, alpha))


def divide(trace: Trace, input: Value, other: Value, *, rounding_mode: str | None = None) -> Symbol:
    if rounding_mode is not None:
        raise Refused("it divides and rounds")
    return trace.elementwise("divide", input, other)


def linear(trace: Trace, input: Symbol, weight: Tensor, bias: Tensor | None = None) -> Symbol:
    if not isinstance(input, Symbol):
        raise Refused("it multiplies two values that are only known when the step runs")
    return trace.linear(input, weight, bias)


def matmul(trace: Trace, input: Symbol, other: Tensor) -> Symbol:
    if isinstance(other, Symbol) or other.dim() != 2:
        raise Refused("it multiplies two values that are only known when the step runs")
    return linear(trace, input, other.mT)


def addmm(trace: Trace, input: Value, mat1: Symbol, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Symbol:
    return trace.elementwise("add", scaled(trace, input, beta), scaled(trace, matmul(trace, mat1, mat2), alpha))


def layer_norm(
    trace: Trace,
    input: Symbol,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Symbol:
    check_normed(input, normalized_shape)
    centred = trace.elementwise("subtract", input, row_mean(trace, input))
    normed = trace.elementwise("multiply", centred, inverse_norm(trace, centred, eps))
    normed = normed if weight is None else trace.elementwise("multiply", normed, weight)
    return normed if bias is None else trace.elementwise("add", normed, bias)


def rms_norm(
    trace: Trace, input: Symbol, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Symbol:
    check_normed(input, normalized_shape)
    normed = trace.elementwise(
        "multiply", input, inverse_norm(trace, input, torch.finfo(input.dtype).eps if eps is None else eps)
    )
    return normed if weight is None else trace.elementwise("multiply", normed, weight)


def check_normed(input: Symbol, normalized_shape: Sequence[int]) -> None:
    if tuple(normalized_shape) != (input.features,):
        raise Refused(f"it normalises the axes {tuple(normalized_shape)} of a tensor of shape {tuple(input.shape)}")


def inverse_norm(trace: Trace, x: Symbol, eps: float) -> Symbol:
    """Return 1 / sqrt(mean(x^2) + eps), one number per row."""
    return trace.elementwise(
        "rsqrt", trace.elementwise("add", row_mean(trace, trace.elementwise("multiply", x, x)), eps)
    )


def row_mean(trace: Trace, x: Symbol) -> Symbol:
    return trace.symbol([trace.graph.apply("mean", *trace.nodes(x))], is_row=True)


def mean(trace: Trace, input: Symbol, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Symbol:
    check_rows(input, dim, keepdim, dtype)
    return row_mean(trace, input)


def total(trace: Trace, input: Symbol, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Symbol:
    check_rows(input, dim, keepdim, dtype)
    return trace.elementwise("multiply", row_mean(trace, input), float(input.features))


def variance(
    trace: Trace,
    input: Symbol,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Symbol:
    check_rows(input, dim, keepdim, None)
    centred, count = trace.elementwise("subtract", input, row_mean(trace, input)), input.features
    subtracted = float(unbiased) if correction is None else correction
    return trace.elementwise(
        "multiply", row_mean(trace, trace.elementwise("multiply", centred, centred)), count / (count - subtracted)
    )


def check_rows(input: Symbol, dim: Any, keepdim: bool, dtype: Any) -> None:
    if dim not in (-1, 1, (-1,), (1,), [-1], [1]) or not keepdim or dtype is not None:
        raise Refused("it reduces a tensor other than over all features of a row with keepdim=True")


def cat(trace: Trace, tensors: Sequence[Value], dim: int = 0) -> Symbol:
    check_last(dim)
    parts: list[Part] = []
    for tensor in tensors:
        if isinstance(tensor, Symbol) and (tensor.is_row or tensor.dtype == torch.bool):
            raise Refused("it concatenates values that are not as wide as a block of its state")
        if not isinstance(tensor, Symbol) and (tensor.dim() != 2 or tensor.shape[1] % trace.width):
            raise Refused(
                f"it concatenates a tensor of shape {tuple(tensor.shape)} with its state of {trace.width} features"
            )
        parts += tensor.parts if isinstance(tensor, Symbol) else trace.blocks(tensor, tensor.shape[1] // trace.width)
    return trace.symbol(parts)


def check_last(dim: int) -> None:
    if dim not in (-1, 1):
        raise Refused("it splits or concatenates tensors along the batch")


def cut(trace: Trace, x: Symbol, start: int, stop: int) -> Symbol:
    """Select the features [start, stop)."""
    parts: list[Part] = []
    end = 0
    for part in x.parts:
        begin, end = end, end + (part.features if isinstance(part, Piece) else trace.width)
        low, high = max(start, begin), min(stop, end)
        if low >= high:
            continue
        if isinstance(part, Piece):
            parts.append(Piece(part.source, part.start + low - begin, part.start + high - begin))
        elif (low, high) == (begin, end):
            parts.append(part)
        else:
            raise Refused(f"it cuts {low - begin} to {high - begin} out of a block of {trace.width} features")
    if x.is_row or not parts:
        raise Refused("it takes a slice of a single number")
    return trace.symbol(parts, dtype=x.dtype)


def chunk(trace: Trace, input: Symbol, chunks: int, dim: int = 0) -> list[Symbol]:
    return split(trace, input, -(-input.features // chunks), dim)


def split(trace: Trace, input: Symbol, split_size: int | Sequence[int], dim: int = 0) -> list[Symbol]:
    check_last(dim)
    features = input.features
    sizes = [split_size] * (features // split_size) if isinstance(split_size, int) else list(split_size)
    if isinstance(split_size, int) and features % split_size:
        sizes.append(features % split_size)
    if sum(sizes) != features:
        raise Refused(f"it splits {features} features into {sizes}")
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return [cut(trace, input, start, start + size) for start, size in zip(starts, sizes, strict=True)]


def narrow(trace: Trace, input: Symbol, dim: int, start: int, length: int) -> Symbol:
    check_last(dim)
    return cut(trace, input, start, start + length)


def item(trace: Trace, input: Symbol, index: Any) -> Symbol:
    places = index if isinstance(index, tuple) else (index,)
    if len(places) != 2 or (places[0] is not Ellipsis and places[0] != slice(None)) or not isinstance(places[1], slice):
        raise Refused("it indexes a tensor other than by a slice of its features")
    start, stop, step = places[1].indices(input.features)
    if step != 1:
        raise Refused("it slices the features of a tensor with a step")
    return cut(trace, input, start, stop)


def dropout(trace: Trace, input: Symbol, p: float = 0.5, training: bool = True, inplace: bool = False) -> Symbol:
    if training and p:
        raise Refused("it draws random numbers in every step (dropout)")
    return input


def same(trace: Trace, input: Symbol) -> Symbol:
    return input


def to(
    trace: Trace, input: Symbol, *args: Any, dtype: torch.dtype | None = None, device: Any = None, **_: Any
) -> Symbol:
    for each in args:
        if isinstance(each, Tensor):
            dtype, device = each.dtype, each.device
        elif isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, torch.device | str | int) and not isinstance(each, bool):
            device = torch.device(each)
    if device is not None and torch.device(device) != input.device:
        raise Refused(f"it moves a tensor to {device}")
    return cast(trace, input, dtype or input.dtype)


def cast(trace: Trace, x: Symbol, dtype: torch.dtype) -> Symbol:
    """Cast to the dtype of the state, or from half precision to float32, in which a walk computes in any case."""
    is_wider = dtype == torch.float32 and trace.dtype in (torch.bfloat16, torch.float16)
    if dtype not in (x.dtype, trace.dtype) and not is_wider:
        raise Refused(f"it converts a tensor to {type_name(dtype)}")
    return trace.symbol(x.parts, dtype=dtype, is_row=x.is_row)


def constants_like(value: float | None) -> Callable[..., Symbol]:
    def function(
        trace: Trace, input: Symbol, fill_value: float | None = None, *, dtype: Any = None, device: Any = None
    ) -> Symbol:
        constant = trace.graph.constant(value if value is not None else fill_value)  # type: ignore[arg-type]
        return trace.symbol([constant] * len(trace.nodes(input)), dtype=dtype or input.dtype, is_row=input.is_row)

    return function


def new(value: float | None) -> Callable[..., Tensor]:
    """Return a function that creates a new tensor, constant over steps."""

    def function(
        trace: Trace, input: Symbol, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        fill, shape = (value, size) if value is not None else (size[1], size[:1])
        shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return torch.full(tuple(shape), fill, dtype=dtype or input.dtype, device=device or input.device)

    return function


def size(trace: Trace, input: Symbol, dim: int | None = None) -> Any:
    return input.shape if dim is None else input.shape[dim]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "neg": unary("negate"),
    "negative": unary("negate"),
    "abs": unary("absolute"),
    "absolute": unary("absolute"),
    "sigmoid": unary("sigmoid"),
    "special_expit": unary("sigmoid"),
    "tanh": unary("tanh"),
    "exp": unary("exp"),
    "log": unary("log"),
    "log1p": unary("log1p"),
    "erf": unary("erf"),
    "sqrt": unary("sqrt"),
    "rsqrt": unary("rsqrt"),
    "relu": unary("relu"),
    "add": add,
    "__radd__": add,
    "sub": subtract,
    "subtract": subtract,
    "__rsub__": reversed_subtract,
    "rsub": reversed_subtract,
    "mul": binary("multiply"),
    "multiply": binary("multiply"),
    "__rmul__": binary("multiply"),
    "div": divide,
    "divide": divide,
    "true_divide": divide,
    "__rdiv__": reverse("divide"),
    "__rtruediv__": reverse("divide"),
    "maximum": binary("maximum"),
    "minimum": binary("minimum"),
    "addcmul": addcmul,
    "lerp": lerp,
    "pow": power,
    "square": lambda trace, input: power(trace, input, 2),
    "reciprocal": reciprocal,
    "gt": greater,
    "greater": greater,
    "lt": less,
    "less": less,
    "ge": at_least,
    "greater_equal": at_least,
    "le": at_most,
    "less_equal": at_most,
    "logical_not": negated,
    "bitwise_not": negated,
    "__invert__": negated,
    "where": where,
    "masked_fill": masked_fill,
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": lambda trace, input, min: clamp(trace, input, min=min),
    "clamp_max": lambda trace, input, max: clamp(trace, input, max=max),
    "softplus": softplus,
    "logsigmoid": logsigmoid,
    "log_sigmoid": logsigmoid,
    "silu": silu,
    "gelu": gelu,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "linear": linear,
    "matmul": matmul,
    "mm": matmul,
    "addmm": addmm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "mean": mean,
    "sum": total,
    "var": variance,
    "cat": cat,
    "concat": cat,
    "concatenate": cat,
    "chunk": chunk,
    "split": split,
    "split_with_sizes": split,
    "narrow": narrow,
    "__getitem__": item,
    "dropout": dropout,
    "contiguous": same,
    "clone": same,
    "to": to,
    "type_as": lambda trace, input, other: to(trace, input, other),
    "float": lambda trace, input: cast(trace, input, torch.float32),
    "double": lambda trace, input: cast(trace, input, torch.float64),
    "bfloat16": lambda trace, input: cast(trace, input, torch.bfloat16),
    "half": lambda trace, input: cast(trace, input, torch.float16),
    "zeros_like": constants_like(0.0),
    "ones_like": constants_like(1.0),
    "full_like": constants_like(None),
    "new_zeros": new(0.0),
    "new_ones": new(1.0),
    "new_full": new(None),
    "size": size,
    "dim": lambda trace, input: 2,
    "__len__": lambda trace, input: trace.batch,
    "__hash__": lambda trace, input: id(input),
    "is_floating_point": lambda trace, input: input.dtype != torch.bool,
    "is_complex": lambda trace, input: False,
}
"""The functions by the names of torch's functions and methods."""


def node_of(trace: Trace, x: Any, what: str) -> Node:
    """Return the node of a value of one block."""
    if not isinstance(x, Tensor) or x.shape != (trace.batch, trace.width):
        shape = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise Refused(f"its {what} ({shape}) does not have the shape of its states ({trace.batch}, {trace.width})")
    return trace.blocks(x, 1)[0]
