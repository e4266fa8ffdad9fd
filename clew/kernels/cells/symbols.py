"""Symbolic tensors of one step of a recurrence: they have no values, only the expressions that compute them.

A `Symbol` is a torch.Tensor, so a cell's `forward` computes with it as with any other tensor, but each operation
creates nodes of a `Graph`. Operations that cannot be expressed in this way raise Refused: a traced expression is always
exact.

A symbol (batch, features) is a sequence of parts: blocks of `width` features, each a node, and pieces of the cell's
inputs of any width, which become nodes only if they are used for more than a projection. A symbol (batch, 1) may hold
one number per row, such as a mean.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clew.kernels.cells.expressions import Graph, Node


class Refused(Exception):
    """A step cannot be traced; the message is the reason. With `is_passing` the reason is temporary, and the step may
    be traced later."""

    def __init__(self, reason: str, is_passing: bool = False):
        super().__init__(reason)
        self.is_passing = is_passing


class Matrix(NamedTuple):
    """`weight` (n * width, width) times a state: n products, one per block, numbered through all matrices."""

    state: int
    weight: Tensor


class Source:
    """A tensor (batch, length, features) known before the first step. It is computed only if the traced step needs
    it."""

    def __init__(self, features: int, compute: Callable[[], Tensor]):
        self.features = features
        self.compute = compute


class Piece(NamedTuple):
    """Some features of a source at the current step."""

    source: Source
    start: int
    stop: int

    @property
    def features(self) -> int:
        return self.stop - self.start

    def tensor(self) -> Tensor:
        whole = self.source.compute()
        return whole if self.features == self.source.features else whole[..., self.start : self.stop]


Part = Node | Piece


class Symbol(Tensor):
    traced_by: "Trace"
    parts: tuple[Part, ...]
    features: int
    is_row: bool
    """Whether it holds one number per row. Always False if the width is 1."""
    kind: torch.dtype
    """The same as `dtype`, which can only be read through torch."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        trace = next(each.traced_by for each in _flat((*args, *(kwargs or {}).values())) if isinstance(each, Symbol))
        return trace.call(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise Refused(f"it calls {function}, which reads a tensor's memory")


class Trace:
    """The tracing of one step: its graph, and the tensors that its leaves represent.

    `functions` are the supported operations, by names of torch functions.
    """

    def __init__(self, functions: dict[str, Callable[..., Any]], like: Tensor, width: int):
        self.functions = functions
        self.graph = Graph()
        self.batch, self.width = len(like), width
        self.dtype, self.device = like.dtype, like.device
        self.matrices: list[Matrix] = []
        self.sources: list[Source] = []
        self.fixed: list[Tensor] = []
        self.refusal: Refused | None = None
        self._grad_enabled = torch.is_grad_enabled()
        self._products: dict[tuple[int, int], list[Node]] = {}
        self._input_leaves: dict[tuple[int, int], Node] = {}
        self._fixed_leaves: dict[int, list[Node]] = {}
        self._num_products = 0
        self._kept_alive: list[Any] = []  # tensors whose ids are keys
        self._symbols: list[weakref.ref[Symbol]] = []

    def call(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Call a torch function that has a symbol among its arguments."""
        try:
            return self._call(function, types, args, kwargs)
        except Refused as refusal:
            self.refusal = self.refusal or refusal  # the step may catch it and continue
            raise

    def _call(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if name == "__get__":
            name = function.__self__.__name__
            if name not in FACTS:
                raise Refused(f"it reads the attribute '{name}' of a value that is only known when the step runs")
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args)
        if name not in self.functions:
            raise Refused(_why_not(name))
        if torch.is_grad_enabled() != self._grad_enabled:
            raise Refused(
                f"it calls {name} with gradients switched {'on' if torch.is_grad_enabled() else 'off'} inside the step"
            )
        if foreign := [each.__name__ for each in types if each not in PLAIN]:
            raise Refused(f"it calls {name} with a {foreign[0]}, which is not a plain tensor")
        try:
            return self.functions[name](self, *args, **kwargs)
        except (AttributeError, TypeError, ValueError, IndexError, ArithmeticError) as error:
            raise Refused(f"it calls {name} in a form that is not supported ({error})") from error

    def symbol(self, parts: Sequence[Part], *, dtype: torch.dtype | None = None, is_row: bool = False) -> Symbol:
        """Concatenate parts; with `is_row`, the single part holds one number per row."""
        features = 1 if is_row else sum(self.width if isinstance(part, Node) else part.features for part in parts)
        symbol: Symbol = torch.Tensor._make_wrapper_subclass(
            Symbol, (self.batch, features), dtype=dtype or self.dtype, device=self.device
        )
        symbol.traced_by, symbol.parts, symbol.features, symbol.is_row = (
            self,
            tuple(parts),
            features,
            is_row and self.width > 1,
        )
        symbol.kind = dtype or self.dtype
        self._symbols.append(weakref.ref(symbol))
        return symbol

    def check_released(self) -> None:
        """Raise Refused for a step that keeps a symbol; called when no reference should be left."""
        if any(reference() is not None for reference in self._symbols):
            raise Refused("it keeps values of a step")

    def blocks(self, x: Any, count: int) -> list[Node]:
        """Return a value as `count` nodes, one per block of features."""
        if isinstance(x, bool | int | float):
            return [self.graph.constant(x)] * count
        if not isinstance(x, Symbol):
            return self.fixed_leaves(x, count)
        nodes: list[Node] = []
        for part in x.parts:
            nodes += [part] if isinstance(part, Node) else self.input_leaves(part)
        if x.is_row:
            return nodes * count
        if len(nodes) != count:
            raise Refused(f"it combines {len(nodes)} with {count} blocks of {self.width} features")
        return nodes

    def nodes(self, x: Symbol) -> list[Node]:
        return self.blocks(x, 1 if x.is_row else x.features // self.width)

    def input_leaves(self, piece: Piece) -> list[Node]:
        if piece.features % self.width:
            raise Refused(
                f"it computes with {piece.features} features of its inputs, which is not a multiple of the state's"
                f" {self.width}"
            )
        if piece.start % self.width or piece.source.features % self.width:
            piece = Piece(Source(piece.features, piece.tensor), 0, piece.features)
        source = piece.source
        if (id(source), 0) not in self._input_leaves:
            first = sum(before.features for before in self.sources) // self.width
            self.sources.append(source)
            for block in range(source.features // self.width):
                self._input_leaves[id(source), block] = self.graph.leaf("input", first + block)
        return [
            self._input_leaves[id(source), block]
            for block in range(piece.start // self.width, piece.stop // self.width)
        ]

    def fixed_leaves(self, x: Any, count: int) -> list[Node]:
        """Return leaves for an ordinary tensor, which is constant over steps."""
        if not isinstance(x, Tensor):
            raise Refused(f"it computes with a {type(x).__name__}")
        self.check(x)
        is_wide = x.dim() > 0 and x.shape[-1] > 1
        if (
            x.dim() > 2
            or (x.dim() == 2 and len(x) not in (1, self.batch))
            or (is_wide and x.shape[-1] != count * self.width)
        ):
            raise Refused(
                f"it combines a tensor of shape {tuple(x.shape)} with one of shape {(self.batch, count * self.width)}"
            )
        if id(x) not in self._fixed_leaves:
            rows = x[0] if x.dim() == 2 and len(x) == 1 else x
            rows = rows if x.is_floating_point() else rows.to(self.dtype)
            parts = rows.split(self.width, -1) if is_wide else [rows.expand(*rows.shape[:-1], self.width)]
            self._fixed_leaves[id(x)] = [
                self.graph.leaf("fixed", len(self.fixed) + place) for place in range(len(parts))
            ]
            self.fixed += parts
            self._kept_alive.append(x)
        return self._fixed_leaves[id(x)] if is_wide else self._fixed_leaves[id(x)] * count

    def check(self, x: Tensor) -> None:
        if type(x) not in PLAIN:
            raise Refused(f"it computes with a {type(x).__name__}, which is not a plain tensor")
        if x.device != self.device and x.dim():
            raise Refused(f"it computes with a tensor on {x.device}, while its state is on {self.device}")
        if x.dim() and x.dtype == torch.float64 != self.dtype:  # the step's results would be in float64 too
            raise Refused(
                f"it computes with a tensor of type {type_name(x.dtype)}, while its state has type"
                f" {type_name(self.dtype)}"
            )
        if x.is_complex():
            raise Refused("it computes with complex numbers")

    def elementwise(self, name: str, *values: Any, dtype: torch.dtype | None = None) -> Symbol:
        """Apply an operation of the graph to symbols, tensors and numbers."""
        if name in ARITHMETIC and all(map(_is_boolean, values)):
            raise Refused(f"it applies {name} to booleans only, which are no numbers")
        symbols = [value for value in values if isinstance(value, Symbol)]
        wide = [symbol for symbol in symbols if not symbol.is_row]
        if wide:
            count = max(symbol.features for symbol in wide) // self.width
        else:
            features = max(
                [1, *(x.shape[-1] for x in values if isinstance(x, Tensor) and not isinstance(x, Symbol) and x.dim())]
            )
            count = max(1, features // self.width)
            wide = [symbols[0]] if features > 1 else []
        columns = zip(*(self.blocks(value, count) for value in values), strict=True)
        parts = [self.graph.apply(name, *column) for column in columns]
        if dtype is None:
            dtype = next((symbol.kind for symbol in symbols if symbol.kind != torch.bool), self.dtype)
        return self.symbol(parts, dtype=dtype, is_row=not wide)

    def linear(self, x: Symbol, weight: Tensor, bias: Tensor | None) -> Symbol:
        """Return W x + b, where every part of x is a state before the step or an input; inputs are projected for all
        steps at once."""
        if (
            isinstance(weight, Symbol)
            or not isinstance(weight, Tensor)
            or weight.dim() != 2
            or isinstance(bias, Symbol)
        ):
            raise Refused("it multiplies two values that are only known when the step runs")
        for tensor in (weight, bias):
            if tensor is not None:
                self.check(tensor)
        if x.is_row or weight.shape[1] != x.features:
            raise Refused(
                f"it multiplies a weight of shape {tuple(weight.shape)} with a value of shape {tuple(x.shape)}"
            )
        start = 0
        terms: list[Symbol] = []
        for part in x.parts:
            stop = start + (part.features if isinstance(part, Piece) else self.width)
            columns = weight if (start, stop) == (0, weight.shape[1]) else weight[:, start:stop]
            if isinstance(part, Piece):
                terms.append(self.symbol([self.projected(part, columns, bias)]))
                bias = None
            else:
                terms.append(self.symbol(self.products(part, columns)))
            start = stop
        total = terms[0]
        for term in [*terms[1:], *([] if bias is None else [bias])]:
            total = self.elementwise("add", total, term)
        return total

    def projected(self, piece: Piece, weight: Tensor, bias: Tensor | None) -> Piece:
        out = len(weight)
        return Piece(Source(out, lambda: F.linear(piece.tensor(), weight, bias)), 0, out)

    def products(self, node: Node, weight: Tensor) -> list[Node]:
        if node.name != "state":
            what = (
                "a bare input"
                if node.name == "input"
                else "a constant"
                if node.name in ("fixed", "constant")
                else f"the result of {node.name}"
            )
            raise Refused(f"it multiplies {what} by a matrix; only the state before the step and the inputs can be")
        if len(weight) % self.width:
            raise Refused(
                f"it multiplies its state by a weight of {len(weight)} rows, which is not a multiple of the state's"
                f" {self.width}"
            )
        state = int(node.place[0])
        if (state, id(weight)) not in self._products:
            self._kept_alive.append(weight)
            count = len(weight) // self.width
            self._products[state, id(weight)] = [
                self.graph.leaf("product", self._num_products + block) for block in range(count)
            ]
            self._num_products += count
            self.matrices.append(Matrix(state, weight))
        return self._products[state, id(weight)]


class Untouched(TorchDispatchMode):
    """Raise Refused for random numbers and in-place writes within the context: both would happen at every step, but a
    trace runs only once."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in function.tags:
            raise Refused(f"it draws random numbers in every step ({function._opname})")
        if function._schema.is_mutable:
            raise Refused(f"it writes to a tensor in place ({function._opname})")
        return function(*args, **(kwargs or {}))


PLAIN = (Tensor, torch.nn.Parameter, Symbol)
FACTS = {
    "shape",
    "dtype",
    "device",
    "ndim",
    "layout",
    "is_cuda",
    "is_cpu",
    "is_sparse",
    "is_quantized",
    "is_nested",
    "is_meta",
    "itemsize",
}
"""Attributes of a tensor that do not depend on its values."""


ARITHMETIC = ("add", "subtract", "multiply", "negate")
"""Operations whose results on booleans are not those on 0 and 1: in torch, True + True is True."""


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Tensor) and value.dtype == torch.bool)


def _flat(values: Any) -> Any:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value


def type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _why_not(name: str) -> str:
    if name in ("__bool__", "__int__", "__float__", "__index__", "__contains__", "item", "tolist", "numpy"):
        return f"it reads the value of a number ({name}), which is only known when the step runs"
    if name.endswith("_") and not name.endswith("__"):
        return f"it writes to a tensor in place ({name})"
    return f"it calls {name}, which is not supported"
