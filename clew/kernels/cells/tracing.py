"""Trace the Python code of a cell's step into a graph.

    y_t, s_t = cell(inputs_t, s_{t-1})

The step is called once, with symbols as inputs and states. Ordinary tensors that it uses, such as weights, are constant
over steps; they stay in the autograd graph, so the gradient of a leaf reaches them. A step is traced again at
every call, which costs about as much as a few steps. So everything on which it depends (training or evaluation, a
dropped weight, the batch size) is as in the call.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from clew.core.pauses import pause_before
from clew.core.state import leaves, map_tree, with_leaves
from clew.core.types import Fixed, Memory, State, Tree
from clew.kernels.cells.expressions import Graph, Node, in_order
from clew.kernels.cells.functions import FUNCTIONS, node_of
from clew.kernels.cells.symbols import Matrix, Piece, Refused, Source, Symbol, Trace, Untouched, type_name


class Step(NamedTuple):
    """A step as a graph, and the tensors that its leaves represent."""

    graph: Graph
    width: int
    """Units of a state."""
    inputs: tuple[Tensor, ...]
    """(batch, length, n * width) each. The leaf ("input", j) is the j-th block of `width` features of all of them."""
    fixed: tuple[Tensor, ...]
    """(width,) or (batch, width) each, constant over steps: the leaf ("fixed", k)."""
    matrices: tuple[Matrix, ...]
    """The leaf ("product", p) is the p-th block of the products of all of them."""
    states: tuple[Tensor, ...]
    """(batch, width) each, before the first step: the leaf ("state", s)."""
    new_states: tuple[Node, ...]
    output: Node
    rebuild: Callable[[Sequence[Tensor]], State]
    """Builds the cell's own state from tensors in the order of `states`."""
    signature: tuple[Any, ...]
    """The structure of the step: everything except the sizes, dtypes and values of the tensors."""


def trace_step(step: Callable[[Tree, State], tuple[Any, State]], inputs: Tree, state: State) -> Step:
    """Trace a step. `inputs` are those of a chunk (batch, length, features), `state` is the state before it.

    Raises `Refused` if the step cannot be expressed as a graph.
    """
    states = leaves(state)
    width = _width_of(states, leaves(state, keep=(Memory,)))
    if torch._C._len_torch_function_stack():
        raise Refused("a torch function mode is active", is_passing=True)
    trace = Trace(FUNCTIONS, states[0], width)
    for each in (*states, *leaves(inputs, keep=(Fixed,))):
        trace.check(each)
    before = _attributes(step)
    try:
        with Untouched():  # type: ignore[no-untyped-call]
            output, new_state = step(*_symbols(trace, inputs, state))
            # Convert symbols to nodes here: after the trace nothing may hold a symbol.
            result = node_of(trace, output, "output"), [node_of(trace, leaf, "new state") for leaf in leaves(new_state)]
    except Exception as error:
        raise trace.refusal or (error if isinstance(error, Refused) else Refused(_sentence(error))) from error
    finally:
        changed = _restore(before)
    if trace.refusal is not None:
        raise trace.refusal
    if changed:
        raise Refused(f"it sets the attribute '{changed}' in every step")
    node, new_nodes = result
    if len(new_nodes) != len(states):
        raise Refused(f"it returns {len(new_nodes)} states for {len(states)}")
    form = map_tree(lambda leaf: _PLACE, new_state)
    del output, new_state
    trace.check_released()
    return Step(
        trace.graph,
        width,
        tuple(source.compute() for source in trace.sources),
        tuple(trace.fixed),
        tuple(trace.matrices),
        tuple(states),
        tuple(new_nodes),
        node,
        lambda tensors: with_leaves(form, tensors),
        _signature(trace, node, new_nodes),
    )


_PLACE = torch.empty(0)


def _width_of(states: Sequence[Tensor], changing: Sequence[Tensor]) -> int:
    if not states:
        raise Refused("it has no state")
    if len(changing) != len(states):
        raise Refused("it reads a memory")
    shapes = {tuple(each.shape) for each in states}
    if len(shapes) > 1 or states[0].dim() != 2:
        raise Refused(
            f"its states have the shapes {', '.join(map(str, sorted(shapes)))}, but all states must have the same shape"
            " (batch, width)"
        )
    if not all(each.is_floating_point() for each in states):
        raise Refused("a state does not hold floating-point numbers")
    return states[0].shape[1]


def _symbols(trace: Trace, inputs: Tree, state: State) -> tuple[Tree, State]:
    def of_input(leaf: Tensor) -> Symbol:
        if leaf.dim() != 3 or len(leaf) != trace.batch or not leaf.is_floating_point():
            raise Refused(
                f"an input of shape {tuple(leaf.shape)} and type {type_name(leaf.dtype)} is not (batch, length,"
                " features) of numbers"
            )
        source = Source(leaf.shape[2], lambda: leaf)
        return trace.symbol([Piece(source, 0, source.features)])

    count = len(leaves(state))
    states = [trace.symbol([trace.graph.leaf("state", place)]) for place in range(count)]
    return map_tree(of_input, inputs, keep=(Fixed,)), with_leaves(state, states)


def _attributes(step: Any) -> dict[nn.Module, tuple[dict[str, Any], dict[str, Any]]]:
    """Copy the attributes of a step's modules. Raise Refused for hooks: they would be called once with symbols, not at
    every step with values."""
    owner = getattr(step, "__self__", step)
    modules = list(owner.modules()) if isinstance(owner, nn.Module) else []
    if any(hook is not pause_before for hook in (*_global_forward_hooks.values(), *_global_forward_pre_hooks.values())):
        raise Refused("a hook is registered on all modules", is_passing=True)
    for module in modules:
        if any(getattr(module, kind) for kind in _HOOKS):
            raise Refused(f"a hook is registered on its {type(module).__name__}", is_passing=True)
    return {module: (dict(module.__dict__), dict(module._buffers)) for module in modules}


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _restore(before: dict[nn.Module, tuple[dict[str, Any], dict[str, Any]]]) -> str | None:
    """Undo changes that the step made to attributes of its modules, and return the name of one of them."""
    changed = None
    for module, saved in before.items():
        for now, was in zip((module.__dict__, module._buffers), saved, strict=True):
            names = [
                name for name in {**now, **was} if name not in now or name not in was or now[name] is not was[name]
            ]
            if names:
                changed = names[0]
                now.clear()
                now.update(was)
    return changed


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0]


def _signature(trace: Trace, output: Node, new_states: Sequence[Node]) -> tuple[Any, ...]:
    nodes = in_order([output, *new_states])
    number = {node: place for place, node in enumerate(nodes)}
    return (
        tuple((node.name, *(number[argument] for argument in node.arguments), *node.place) for node in nodes),
        tuple(number[node] for node in (output, *new_states)),
        tuple((matrix.state, len(matrix.weight) // trace.width) for matrix in trace.matrices),
        tuple(source.features // trace.width for source in trace.sources),
        tuple(tensor.dim() for tensor in trace.fixed),
    )


__all__ = ["Matrix", "Refused", "Step", "trace_step"]
