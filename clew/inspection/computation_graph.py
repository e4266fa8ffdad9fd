"""The computation graph of any function of tensors on a small input: operations, shapes, values, gradients as the chain rule makes them.

The gradient at a node is the sum over the edges that leave it, each the gradient at the edge's other end times the operation's own
derivative, taken in reverse topological order:

    d f / d v = sum over u that read v of  (d f / d u) (d u / d v)

Written out from end to end, it is the sum over all paths from v to f of the product of the derivatives along each. Of

    f(a, b, c) = (a + b) * max(b, c)         at a = 1, b = 2, c = 0

b reaches f by the sum, d f / d b = max(b, c) = 2, and by the maximum, a + b = 3: together 5. `trace` finds the graph, `paths` the paths of
a graph of scalars.
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
    """From a node's number to another's: what of the gradient at the far end comes back along it, shaped as the near one's value, and where
    the far one is a scalar d target / d source itself; None where nothing is differentiated."""

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
    """Nodes in the order in which they were made, which is topological; the last is the output, or the sum of all entries of what came
    out where that is no scalar."""

    nodes: list[GraphNode]
    edges: list[Edge]

    def backward(self) -> list[int]:
        """Nodes that have a gradient, in reverse topological order: each after all that read it."""
        return [number for number in reversed(range(len(self.nodes))) if self.nodes[number].gradient is not None]

    def into(self, number: int) -> list[Edge]:
        return [edge for edge in self.edges if edge.target == number]

    def out_of(self, number: int) -> list[Edge]:
        return [edge for edge in self.edges if edge.source == number]


class Call(NamedTuple):
    """An operation as it was called: which arguments are nodes, and copies of all, so that it can be run again alone."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    sources: dict[int, int]
    """Of each tensor among the arguments, by its number among them, the node it is; constants are none."""
    output: int
    """Which of the outputs the node is, where there are several."""
    random: Tensor | None
    """Where the random numbers stood, of an operation that draws some."""


class Recorder(TorchFunctionMode):
    """Writes down every torch function that gives tensors, with what it was given."""

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
        given = tensors_in((args, kwargs))
        name = function_name(func)
        copies = [each.detach().clone() for each in given] if name not in SILENT else []
        random = torch.get_rng_state() if any(word in name for word in RANDOM) else None
        found = func(*args, **kwargs)
        outputs = [found] if isinstance(found, Tensor) else list(found) if isinstance(found, (tuple, list)) else []
        if not copies or not any(isinstance(each, Tensor) for each in outputs):
            return found
        sources = {place: number for place, each in enumerate(given) if (number := self.number_of(each)) is not None}
        if not sources:
            return found  # made of constants alone, and a constant itself
        for place, each in enumerate(outputs):
            if isinstance(each, Tensor):
                self.add(each, (shown_name(name), "operation"))
                given_args, given_kwargs = with_tensors((args, kwargs), copies)
                self.calls[len(self.tensors) - 1] = Call(func, given_args, given_kwargs, sources, place, random)
        return found

    def number_of(self, tensor: Tensor) -> int | None:
        """The tensor's node; inputs and parameters become nodes when they are first read."""
        if id(tensor) not in self.numbers:
            if id(tensor) not in self.names:
                return None
            self.add(tensor, self.names[id(tensor)])
        return self.numbers[id(tensor)]

    def add(self, tensor: Tensor, kind: tuple[str, str]) -> None:
        if len(self.tensors) >= MOST_NODES:
            raise UserError(f"the graph has more than {MOST_NODES:,} nodes; take a smaller input, or a part of the model")
        self.numbers[id(tensor)] = len(self.tensors)
        self.tensors.append(tensor)
        self.values.append(tensor.detach().clone())
        self.kinds.append(kind)


SILENT = {"__set__", "size", "dim", "numel", "requires_grad_", "retain_grad", "register_hook", "__len__", "__format__", "__repr__"}
SILENT |= {"shape", "dtype", "device", "grad", "grad_fn", "data", "requires_grad", "is_leaf", "ndim", "layout", "is_cuda", "names"}
"""What asks something of a tensor and makes none."""
RANDOM = ("dropout", "rand", "bernoulli", "multinomial", "normal", "uniform")


def function_name(function: Any) -> str:
    """`add`, `__add__`, or the attribute that is read, such as `mT`."""
    name = getattr(function, "__name__", type(function).__name__)
    return getattr(getattr(function, "__self__", None), "__name__", name) if name == "__get__" else name


def shown_name(name: str) -> str:
    plain = name.strip("_")
    return SIGNS.get(plain.removeprefix("r") if name.startswith("__r") else plain, plain)


SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/", "matmul": "@", "pow": "**", "neg": "-", "getitem": "[ ]"}


def tensors_in(tree: Any) -> list[Tensor]:
    """Every tensor among arguments, in order; what is no tensor and no tuple, list or dict is passed over."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        return [each for part in tree.values() for each in tensors_in(part)]
    return [each for part in tree for each in tensors_in(part)] if isinstance(tree, (tuple, list)) else []


def with_tensors(tree: Any, new: Sequence[Tensor]) -> Any:
    """The same arguments with other tensors."""
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
    """The graph of `function(*inputs)`, inputs being tensors or trees of them; of a module, its parameters are nodes by their names.

    What comes out is summed up where it is no scalar; of a tuple such as (y, state) it is the first tensor. What torch does not see, such
    as a function with a backward pass of its own, is refused: the gradients of the graph are compared with autograd's. `labels` are
    what is to be added to the names of tensors, by their ids; it is looked at when the function has run.
    """
    inputs = tuple(map_tree(fresh, each) if is_tree(each) else each for each in inputs)
    named = dict(named_tensors(inputs, names))
    if parameters is None:
        parameters = dict(function.named_parameters()) if isinstance(function, nn.Module) else {}
    with torch.enable_grad():
        with Recorder(named, parameters) as recorder:
            found = function(*inputs)
            outputs = tensors_in(found)
            if not outputs:
                raise UserError("the function gives no tensor, so that there is nothing to differentiate")
            result = outputs[0] if outputs[0].numel() == 1 else outputs[0].sum()
        if id(result) not in recorder.numbers:
            raise UserError("what comes out does not depend on the inputs by any operation of torch")
        graph = differentiated(recorder, result, labels or {})
        check_gradients(recorder, graph, result, {**named, **parameters})
    return graph


def check_gradients(recorder: Recorder, graph: Graph, result: Tensor, leaves: Mapping[str, Tensor]) -> None:
    wanted = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad and leaf.is_leaf}
    if not wanted or not result.requires_grad:
        return
    for (name, leaf), expected in zip(wanted.items(), torch.autograd.grad(result, list(wanted.values()), allow_unused=True), strict=True):
        number = recorder.numbers.get(id(leaf))
        found = None if number is None or number >= len(graph.nodes) else graph.nodes[number].gradient
        found, expected = (torch.zeros_like(leaf) if each is None else each for each in (found, expected))
        most = float(expected.abs().max()) if expected.numel() else 0.0  # a layer may have lost all of its heads
        if not torch.allclose(found, expected, rtol=1e-3, atol=1e-4 * (1 + most)):
            raise UserError(
                f"a part of the function between {name} and what comes out is not made of torch's operations, and cannot be shown"
            )


def is_tree(value: Any) -> bool:
    return bool(tensors_in(value))


def fresh(tensor: Tensor) -> Tensor:
    """A leaf of its own; a parameter is one already."""
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


def differentiated(recorder: Recorder, result: Tensor, labels: Mapping[int, str]) -> Graph:
    """The nodes with their gradients, from the last to the first, each summed over the edges that leave it."""
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
        nodes.append(GraphNode(called, "output" if number == last else kind, recorder.values[number], gradients.get(number)))
    return Graph(nodes, edges[::-1])


def local_gradients(call: Call, gradient: Tensor | None) -> Iterator[tuple[int, Tensor | None]]:
    """What of the gradient at an operation's result comes back to each node that it read: the operation is run again by itself."""
    copies = [fresh(each.detach()) for each in tensors_in((call.args, call.kwargs))]
    sources = [(place, number) for place, number in call.sources.items() if copies[place].requires_grad]
    others = [(number, None) for place, number in call.sources.items() if not copies[place].requires_grad]
    if gradient is None or not sources:
        yield from others + [(number, None) for _, number in sources]
        return
    with torch.enable_grad(), torch.random.fork_rng(devices=[], enabled=call.random is not None):
        if call.random is not None:
            torch.set_rng_state(call.random)
        args, kwargs = with_tensors((call.args, call.kwargs), [each.clone() for each in copies])  # an operation may write in place
        found = call.function(*args, **kwargs)
        output = found if isinstance(found, Tensor) else found[call.output]
        if not output.requires_grad:
            yield from others + [(number, None) for _, number in sources]
            return
        weighed = (output * gradient).sum()  # asked for `gradient` itself, autograd imports its symbolic shapes, which takes a second
    back = torch.autograd.grad(weighed, [copies[place] for place, _ in sources], allow_unused=True)
    yield from others
    yield from ((number, each) for (_, number), each in zip(sources, back, strict=True))


class Path(NamedTuple):
    """Nodes from one to the output, and the product of the derivatives along the edges between them."""

    nodes: tuple[int, ...]
    product: float


def paths(graph: Graph, start: int, most: int = 1000) -> list[Path]:
    """Every path from a scalar node to a scalar output through scalars; their products add up to the gradient at the node."""
    last = len(graph.nodes) - 1
    found: list[Path] = []
    open_paths = [Path((start,), 1.0)]
    while open_paths:
        path = open_paths.pop()
        if graph.nodes[path.nodes[-1]].value.numel() != 1:
            raise UserError("paths are multiplied out where every node is a scalar; give the function single numbers")
        if path.nodes[-1] == last:
            found.append(path)
            if len(found) > most:
                raise UserError(f"there are more than {most} paths; take a smaller function")
            continue
        for edge in graph.out_of(path.nodes[-1]):
            if edge.derivative is not None:
                open_paths.append(Path((*path.nodes, edge.target), path.product * float(edge.derivative)))
    return sorted(found)
