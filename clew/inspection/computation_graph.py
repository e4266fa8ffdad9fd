"""The computation graph of any function of tensors on a small input: operations, shapes, values, and gradients by the
chain rule.

The gradient at a node is the sum over its outgoing edges of the gradient at the edge's other end times the derivative
of the operation, computed in reverse topological order:

    d f / d v = sum over u that read v of  (d f / d u) (d u / d v)

Expanded, it is the sum over all paths from v to f of the product of the derivatives along the path. In

    f(a, b, c) = (a + b) * max(b, c)         at a = 1, b = 2, c = 0

b reaches f through the sum, d f / d b = max(b, c) = 2, and through the maximum, a + b = 3: together 5. `trace` builds
the graph, `scalar_paths` lists the paths of a graph of scalars.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clew.core.errors import UserError
from clew.core.state import map_tree

MOST_NODES = 5000


class Edge(NamedTuple):
    """An edge between node numbers. `gradient` is the part of the target's gradient that flows back to the source, in
    the source's shape; for a scalar target, `derivative` is d target / d source. None if the edge is not
    differentiated."""

    source: int
    target: int
    gradient: Tensor | None
    derivative: Tensor | None = None


class GraphNode(NamedTuple):
    name: str
    kind: str  # input, parameter, operation, output
    value: Tensor
    gradient: Tensor | None


class Graph(NamedTuple):
    """Nodes in order of creation, which is topological. The last is the output, or the sum of its entries if it is not
    a scalar."""

    nodes: list[GraphNode]
    edges: list[Edge]

    def backward(self) -> list[int]:
        """Return the nodes with a gradient in reverse topological order, each after all nodes that read it."""
        return [number for number in reversed(range(len(self.nodes))) if self.nodes[number].gradient is not None]

    def into(self, number: int) -> list[Edge]:
        return [edge for edge in self.edges if edge.target == number]

    def out_of(self, number: int) -> list[Edge]:
        return [edge for edge in self.edges if edge.source == number]


class Call(NamedTuple):
    """A call of an operation: which arguments are nodes, and copies of all arguments, so that it can be repeated
    separately."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    sources: dict[int, int]
    """From the index of a tensor argument to its node; constants have none."""
    output: int
    """Index of the node among the outputs, if there are several."""
    random: Tensor | None
    """State of the random generator before the call, if the operation draws numbers."""


class Recorder(TorchFunctionMode):
    """Records every torch function that returns tensors, with its arguments."""

    def __init__(self, named: Mapping[str, Tensor], parameters: Mapping[str, Tensor]):
        super().__init__()
        self.names = {id(tensor): (name, "input") for name, tensor in named.items()}
        self.names |= {id(tensor): (name, "parameter") for name, tensor in parameters.items()}
        self.tensors: list[Tensor] = []
        self.values: list[Tensor] = []
        self.kinds: list[tuple[str, str]] = []
        self.calls: dict[int, Call] = {}
        self.numbers: dict[int, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        arguments = tensors_in((args, kwargs))
        name = function_name(func)
        copies = [each.detach().clone() for each in arguments] if name not in SILENT else []
        random = torch.get_rng_state() if any(word in name for word in RANDOM) else None
        result = func(*args, **kwargs)
        outputs = [result] if isinstance(result, Tensor) else list(result) if isinstance(result, (tuple, list)) else []
        if not copies or not any(isinstance(each, Tensor) for each in outputs):
            return result
        sources = {
            place: number for place, each in enumerate(arguments) if (number := self.number_of(each)) is not None
        }
        if not sources:
            return result  # a function of constants is a constant
        for place, each in enumerate(outputs):
            if isinstance(each, Tensor):
                self.add(each, (shown_name(name), "operation"))
                given_args, given_kwargs = with_tensors((args, kwargs), copies)
                self.calls[len(self.tensors) - 1] = Call(func, given_args, given_kwargs, sources, place, random)
        return result

    def number_of(self, tensor: Tensor) -> int | None:
        """Return the number of a tensor's node; inputs and parameters become nodes when they are first read."""
        if id(tensor) not in self.numbers:
            if id(tensor) not in self.names:
                return None
            self.add(tensor, self.names[id(tensor)])
        return self.numbers[id(tensor)]

    def add(self, tensor: Tensor, kind: tuple[str, str]) -> None:
        if len(self.tensors) >= MOST_NODES:
            raise UserError(
                f"the graph has more than {MOST_NODES:,} nodes; use a smaller input, or a part of the model"
            )
        self.numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        self.values.append(tensor.detach().clone())
        self.kinds.append(kind)


SILENT = {
    "__set__",
    "size",
    "dim",
    "numel",
    "requires_grad_",
    "retain_grad",
    "register_hook",
    "__len__",
    "__format__",
    "__repr__",
}
SILENT |= {
    "shape",
    "dtype",
    "device",
    "grad",
    "grad_fn",
    "data",
    "requires_grad",
    "is_leaf",
    "ndim",
    "layout",
    "is_cuda",
    "names",
}
"""Functions that only read properties of a tensor."""
RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal", "uniform")


def function_name(function: Any) -> str:
    """Return `add`, `__add__`, or the name of an attribute that is read, such as `mT`."""
    name = getattr(function, "__name__", type(function).__name__)
    return getattr(getattr(function, "__self__", None), "__name__", name) if name == "__get__" else name


def shown_name(name: str) -> str:
    plain = name.strip("_")
    return SIGNS.get(plain.removeprefix("r") if name.startswith("__r") else plain, plain)


SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "div": "/",
    "matmul": "@",
    "pow": "**",
    "neg": "-",
    "getitem": "[ ]",
}


def tensors_in(tree: Any) -> list[Tensor]:
    """Return every tensor in tuples, lists and dicts of arguments, in order; other values are skipped."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        return [each for part in tree.values() for each in tensors_in(part)]
    return [each for part in tree for each in tensors_in(part)] if isinstance(tree, (tuple, list)) else []


def with_tensors(tree: Any, new: Sequence[Tensor]) -> Any:
    """Replace the tensors among arguments."""
    each = iter(new)

    def replaced(part: Any) -> Any:
        if isinstance(part, Tensor):
            return next(each)
        if isinstance(part, dict):
            return {name: replaced(inner) for name, inner in part.items()}
        if isinstance(part, (tuple, list)):
            inner = [replaced(one) for one in part]
            return type(part)(*inner) if hasattr(part, "_fields") else type(part)(inner)
        return part

    return replaced(tree)


def trace(
    function: Callable[..., Any],
    *inputs: Any,
    names: Sequence[str] | None = None,
    parameters: Mapping[str, Tensor] | None = None,
    labels: Mapping[int, str] | None = None,
) -> Graph:
    """Trace `function(*inputs)`, whose inputs are tensors or trees of them; the parameters of a module are nodes with
    their names.

    The output is summed if it is not a scalar; of a tuple such as (y, state) the first tensor is used. Code that torch
    functions do not show, such as a custom backward pass, is refused, since the gradients of the graph are compared
    with autograd's. `labels` maps ids of tensors to text that is appended to their names; it is read after the function
    has run.
    """
    inputs = tuple(map_tree(new_leaf, each) if is_tree(each) else each for each in inputs)
    named = dict(named_tensors(inputs, names))
    if parameters is None:
        parameters = dict(function.named_parameters()) if isinstance(function, nn.Module) else {}
    with torch.enable_grad():
        with Recorder(named, parameters) as recorder:
            output = function(*inputs)
            outputs = tensors_in(output)
            if not outputs:
                raise UserError(
                    "the function returns no tensor, so there is nothing to differentiate; return one made from the"
                    " inputs"
                )
            result = outputs[0] if outputs[0].numel() == 1 else outputs[0].sum()
        if id(result) not in recorder.numbers:
            raise UserError(
                "the output does not depend on the inputs through torch operations; compute it from them by torch"
                " functions"
            )
        graph = differentiate(recorder, result, labels or {})
        check_gradients(recorder, graph, result, {**named, **parameters})
    return graph


def check_gradients(recorder: Recorder, graph: Graph, result: Tensor, leaves: Mapping[str, Tensor]) -> None:
    trained_leaves = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad and leaf.is_leaf}
    if not trained_leaves or not result.requires_grad:
        return
    for (name, leaf), expected in zip(
        trained_leaves.items(),
        torch.autograd.grad(result, list(trained_leaves.values()), allow_unused=True),
        strict=True,
    ):
        number = recorder.numbers.get(id(leaf))
        actual = None if number is None or number >= len(graph.nodes) else graph.nodes[number].gradient
        actual, expected = (torch.zeros_like(leaf) if each is None else each for each in (actual, expected))
        most = float(expected.abs().max()) if expected.numel() else 0.0  # empty if all heads of a layer were pruned
        if not torch.allclose(actual, expected, rtol=1e-3, atol=1e-4 * (1 + most)):
            raise UserError(
                f"a part of the function between {name} and the output is not made of torch's operations, and cannot be"
                " shown"
            )


def is_tree(value: Any) -> bool:
    return bool(tensors_in(value))


def new_leaf(tensor: Tensor) -> Tensor:
    """Copy a tensor as a new leaf; a parameter is a leaf already."""
    if isinstance(tensor, nn.Parameter):
        return tensor
    tensor = tensor.detach().clone()
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def named_tensors(inputs: Sequence[Any], names: Sequence[str] | None) -> Iterator[tuple[str, Tensor]]:
    for number, each in enumerate(inputs):
        name = names[number] if names is not None else f"x{number + 1}"
        yield from parts_named(name, each)


def parts_named(name: str, tree: Any) -> Iterator[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        yield name, tree
    elif isinstance(tree, (tuple, list)):
        fields = getattr(tree, "_fields", [str(place) for place in range(len(tree))])
        for field, part in zip(fields, tree, strict=True):
            yield from parts_named(f"{name}.{field}", part)


def differentiate(recorder: Recorder, result: Tensor, labels: Mapping[int, str]) -> Graph:
    """Compute gradients from the last node to the first, each summed over its outgoing edges."""
    last = recorder.numbers[id(result)]
    gradients: dict[int, Tensor] = {last: torch.ones_like(recorder.values[last])}
    edges: list[Edge] = []
    for number in range(last, -1, -1):
        if (call := recorder.calls.get(number)) is None:
            continue
        above, is_scalar = gradients.get(number), recorder.values[number].numel() == 1
        for source, back in local_gradients(call, torch.ones_like(recorder.values[number]) if is_scalar else above):
            derivative = back if is_scalar else None
            if derivative is not None:
                back = None if above is None else derivative * above.reshape(())
            edges.append(Edge(source, number, back, derivative))
            if back is not None:
                gradients[source] = gradients[source] + back if source in gradients else back
    nodes = []
    for number in range(last + 1):
        (name, kind), label = recorder.kinds[number], labels.get(id(recorder.tensors[number]))
        called = name if label is None or kind != "operation" else f"{name}: {label}"
        nodes.append(
            GraphNode(called, "output" if number == last else kind, recorder.values[number], gradients.get(number))
        )
    return Graph(nodes, edges[::-1])


def local_gradients(call: Call, gradient: Tensor | None) -> Iterator[tuple[int, Tensor | None]]:
    """Yield the part of an operation's gradient that flows back to each node it read, by running only this operation
    again."""
    copies = [new_leaf(each.detach()) for each in tensors_in((call.args, call.kwargs))]
    sources = [(place, number) for place, number in call.sources.items() if copies[place].requires_grad]
    constants = [(number, None) for place, number in call.sources.items() if not copies[place].requires_grad]
    if gradient is None or not sources:
        yield from constants + [(number, None) for _, number in sources]
        return
    with torch.enable_grad(), torch.random.fork_rng(devices=[], enabled=call.random is not None):
        if call.random is not None:
            torch.set_rng_state(call.random)
        # An operation may write in place.
        args, kwargs = with_tensors((call.args, call.kwargs), [each.clone() for each in copies])
        result = call.function(*args, **kwargs)
        output = result if isinstance(result, Tensor) else result[call.output]
        if not output.requires_grad:
            yield from constants + [(number, None) for _, number in sources]
            return
        weighed = (
            output * gradient
        ).sum()  # passing `gradient` to autograd would import its symbolic shapes, which takes a second
    back = torch.autograd.grad(weighed, [copies[place] for place, _ in sources], allow_unused=True)
    yield from constants
    yield from ((number, each) for (_, number), each in zip(sources, back, strict=True))


class Path(NamedTuple):
    """The nodes of a path to the output, and the product of the derivatives along its edges."""

    nodes: tuple[int, ...]
    product: float


def scalar_paths(graph: Graph, start: int, most: int = 1000) -> list[Path]:
    """Return every path from a scalar node to a scalar output through scalars; their products sum to the gradient at
    the node."""
    last = len(graph.nodes) - 1
    complete: list[Path] = []
    open_paths = [Path((start,), 1.0)]
    while open_paths:
        path = open_paths.pop()
        if graph.nodes[path.nodes[-1]].value.numel() != 1:
            raise UserError("paths need every node to be a scalar; give the function single numbers")
        if path.nodes[-1] == last:
            complete.append(path)
            if len(complete) > most:
                raise UserError(f"there are more than {most} paths; use a smaller function")
            continue
        for edge in graph.out_of(path.nodes[-1]):
            if edge.derivative is not None:
                open_paths.append(Path((*path.nodes, edge.target), path.product * float(edge.derivative)))
    return sorted(complete)
