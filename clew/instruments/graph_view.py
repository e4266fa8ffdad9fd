"""Show the computation graph of any function, or of a part of a run while it reads a short text."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field
from torch import Tensor, nn

from clew.core.errors import UserError, did_you_mean
from clew.core.modes import evaluating
from clew.core.taps import Tap
from clew.drawing.views import Network, Node, Note, Part, Table, View
from clew.inspection.computation_graph import Edge, Graph, scalar_paths, trace
from clew.inspection.recording import intervene
from clew.instruments.instrument import Instrument, TextOptions
from clew.instruments.reading import read
from clew.instruments.subjects.recurrent_layers import recurrent_layers
from clew.instruments.subjects.subject import Subject
from clew.kernels import only_equations

MOST_DRAWN = 300
"""The maximum number of nodes in a drawing; a larger graph is only listed."""
WRITTEN_OUT = 4
"""The maximum number of entries of a tensor that are written out."""


class GraphOptions(TextOptions):
    """The part of the model to trace."""

    layer: str = Field(
        "", description="a module's path, such as body.layers.layers.0; by default the first cell, or the first layer"
    )


def view_of(graph: Graph, title: str = "Computation graph", about: str = "") -> View:
    """Show the nodes in order with values and gradients, the gradient along each edge, and for a graph of scalars every
    path."""
    parts: list[Part] = []
    if len(graph.nodes) <= MOST_DRAWN:
        parts.append(network(graph))
    else:
        parts.append(
            Note(f"{len(graph.nodes)} nodes are too many to draw; use a shorter text or a smaller part of the model.")
        )
    rows = [
        (
            number + 1,
            node.name,
            node.kind,
            shape_of(node.value),
            format_tensor(node.value),
            format_tensor(node.gradient),
        )
        for number, node in enumerate(graph.nodes)
    ]
    parts.append(
        Table(("number", "node", "kind", "shape", "value", "gradient"), rows, "Forward: nodes in order of creation")
    )
    parts.append(
        Table(
            ("number", "node", "gradient", "sum of"),
            backward_rows(graph),
            "Backward: in reverse topological order",
        )
    )
    if all(node.value.numel() == 1 for node in graph.nodes):
        parts.append(Table(("from", "path", "product", "gradient"), path_rows(graph), "The sum over paths"))
    facts = {
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "shape": list(node.value.shape),
                "value": total(node.value),
                "gradient": total(node.gradient),
            }
            for node in graph.nodes
        ],
        "edges": [{"from": edge.source, "to": edge.target, "gradient": total(edge.gradient)} for edge in graph.edges],
    }
    return View(title, parts, about, facts)


def network(graph: Graph) -> Network:
    nodes = [
        Node(
            node.name,
            [
                line
                for line in (
                    shape_of(node.value),
                    format_tensor(node.value),
                    f"gradient {format_tensor(node.gradient)}",
                )
                if line
            ],
            node.kind,  # type: ignore[arg-type]
        )
        for node in graph.nodes
    ]
    return Network(nodes, [(edge.source, edge.target, format_tensor(edge.gradient)) for edge in graph.edges])


def backward_rows(graph: Graph) -> list[tuple[Any, ...]]:
    """List for every node the sum of its gradient's entries, as a sum over its outgoing edges."""
    leaving: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        leaving.setdefault(edge.source, []).append(edge)
    rows = []
    for number in graph.backward():
        by = [
            f"{total(edge.gradient):.4g} by {graph.nodes[edge.target].name} {edge.target + 1}"
            for edge in leaving.get(number, [])
            if edge.gradient is not None
        ]
        rows.append(
            (
                number + 1,
                graph.nodes[number].name,
                f"{total(graph.nodes[number].gradient):.4g}",
                " + ".join(by) or "1 (the output)",
            )
        )
    return rows


def path_rows(graph: Graph) -> list[tuple[Any, ...]]:
    rows = []
    for number, node in enumerate(graph.nodes):
        if node.kind == "input" and node.gradient is not None:
            for path in scalar_paths(graph, number):
                names = " > ".join(f"{graph.nodes[place].name} {place + 1}" for place in path.nodes)
                rows.append((node.name, names, f"{path.product:.4g}", f"{float(node.gradient):.4g}"))
    return rows


def shape_of(tensor: Tensor) -> str:
    return " x ".join(map(str, tensor.shape))


def format_tensor(tensor: Tensor | None) -> str:
    """Format a small tensor by its entries, a larger one by its norm."""
    if tensor is None:
        return "none"
    if tensor.numel() <= WRITTEN_OUT:
        return ", ".join(f"{float(value):.4g}" for value in tensor.flatten())
    return f"norm {float(tensor.cpu().double().norm()):.4g}"


def total(tensor: Tensor | None) -> float | None:
    """Return the sum of all entries, without masked scores (-inf)."""
    return None if tensor is None else float(tensor.cpu().double().nan_to_num(0.0, 0.0, 0.0).sum())


def find_module(model: nn.Module, path: str) -> tuple[str, nn.Module]:
    modules = {name: part for name, part in model.named_modules() if name}
    if path:
        if path not in modules:
            raise UserError(
                f"the model has no part '{path}'{did_you_mean(path, modules)} the instrument taps lists them"
            )
        return path, modules[path]
    layers = recurrent_layers(model)
    default = layers[0].path if layers else next((name for name in modules if name.endswith("layers.0")), "body")
    return (default, modules[default]) if default in modules else ("", model)


def last_arguments(subject: Subject, module: nn.Module, options: TextOptions) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the last call of a module while the model reads the text; by then a cell has a
    non-trivial state."""
    reading = read(subject, options.text, options.target, into=options.into)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    hook = module.register_forward_pre_hook(lambda _, args, kwargs: calls.append((args, kwargs)), with_kwargs=True)
    try:
        with evaluating([subject.module]), only_equations():
            reading.forward()
    finally:
        hook.remove()
    if not calls:
        raise UserError(
            "this part of the model is not called as a module when a text is read; name the module that contains it"
        )
    return calls[-1]


def taps_in(module: nn.Module) -> list[str]:
    return [path for path, part in module.named_modules() if isinstance(part, Tap) and path]


def labelling(labels: dict[int, str], path: str) -> Callable[[Tensor], Tensor]:
    """Return an identity that labels the tensor at a tap with the tap's name."""

    def label(value: Tensor) -> Tensor:
        labels[id(value)] = path.removeprefix("gates.")
        return value

    return label


def look_at_graph(subjects: Sequence[Subject], options: GraphOptions) -> View:
    subject = subjects[0]
    path, module = find_module(subject.module, options.layer)
    args, kwargs = last_arguments(subject, module, options)
    names = [
        name for name, each in inspect.signature(module.forward).parameters.items() if each.kind is not each.VAR_KEYWORD
    ]
    names += [f"x{place + 1}" for place in range(len(names), len(args))]
    was = module.training
    module.eval()
    try:
        labels: dict[int, str] = {}
        with only_equations(), intervene(module, {path: labelling(labels, path) for path in taps_in(module)}):
            graph = trace(
                lambda *inputs: module(*inputs, **kwargs),
                *args,
                names=names,
                parameters=dict(module.named_parameters()),
                labels=labels,
            )
    finally:
        module.train(was)
    name = path or subject.name
    about = (
        f"{name}, a {type(module).__name__}, with its input at the end of the text: {len(graph.nodes)} nodes. Gradients"
        " are those of the sum of all output entries."
    )
    return view_of(graph, f"Computation graph of {name}", about)


GRAPH = Instrument(
    "the computation graph of a part of the model: values, shapes and gradients",
    GraphOptions,
    look_at_graph,
    needs=("reads",),
)
