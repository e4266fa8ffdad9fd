"""Plans for steps of one structure: what is computed before the first step, in each step, and after the last step.

In the forward pass, everything that depends on no state is computed for all steps before the first one, and everything
on which no state depends after the last one. A product that is only added to a term is accumulated onto it, an
elementwise product that is only added is fused with the addition, and a result is written where it is stored, or over
an argument that is no longer needed. In the backward pass, all coefficients of errors are computed for all steps at
once (`errors`) from the stored values.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.kernels.cells.errors import Sums, Terms, sums_of
from clew.kernels.cells.expressions import Graph, Node, in_order
from clew.kernels.cells.tracing import Step


class Instruction(NamedTuple):
    """One operation of each step: `function(*arguments, out=result)`."""

    function: Callable[..., Any]
    arguments: Sequence[Node]
    result: Node


class Plan(NamedTuple):
    """The plan for running steps of one structure."""

    graph: Graph
    carried: list[Node]
    """The states after a step."""
    output: Node
    added: dict[Node, Node]
    """The sum that is computed together with each product, by the product's leaf."""
    ahead: list[Instruction]
    placed: dict[Node, Node]
    """For each result, the node no longer needed over which it is written."""
    kept: set[Node]
    """Nodes that are computed in steps, and whose values at all steps the backward pass or the output needs."""
    needed: set[Node]
    """Leaves that the backward pass reads."""
    is_row: set[Node]
    """Nodes with one number per row."""
    moving: set[Node]
    """Nodes that depend on a state, so they are known only within their step."""
    sums: Sums
    back: list[Instruction]
    stored: set[Node]
    """The errors whose values at all steps the gradients of inputs and weights need after the backward loop."""


CHEAP = ("add", "subtract", "multiply", "negate", "where", "greater", "relu", "absolute", "maximum", "minimum")
"""Operations that the backward pass recomputes for all steps at once, instead of keeping their results."""


def plan_step(step: Step, is_masked: bool) -> Plan:
    graph, carried, output = step.graph, list(step.new_states), step.output
    if is_masked:
        real = graph.leaf("real")
        frozen = [graph.apply("where", real, new, graph.leaf("state", place)) for place, new in enumerate(carried)]
        output = (
            frozen[carried.index(output)]
            if output in carried
            else graph.apply("where", real, output, graph.constant(0.0))
        )
        carried = frozen
    sums = sums_of(graph, [(node, graph.leaf("error", place)) for place, node in enumerate([output, *carried])])
    order, moving, is_row = in_order(carried), set[Node](), set[Node]()
    whole_order = in_order([*carried, output])
    for node in whole_order:
        if node.name in ("state", "product") or any(argument in moving for argument in node.arguments):
            moving.add(node)
        if node.name == "mean" or (
            node.arguments and all(each in is_row or each.name == "constant" for each in node.arguments)
        ):
            is_row.add(node)
    added = _added(whole_order, moving)
    atoms = {*carried, *added.values()}
    in_steps = moving & {*order, *added.values()}
    coefficients = [
        coefficient
        for terms in (*(terms for group in sums.bases.values() for terms in group), *sums.terms.values())
        for coefficient in terms.values()
    ]
    products = {error for leaf, error in sums.errors.items() if leaf.name == "product"}
    late = [error for leaf, error in sums.errors.items() if leaf.name in ("input", "fixed")]
    output_nodes, _ = _reached([output], in_steps, atoms)
    kept, needed = _reached([*coefficients, *late], in_steps, atoms, ends={*products, *sums.bases})
    kept |= output_nodes
    ahead = _instructions(order, moving, added, kept, carried)
    return Plan(
        graph,
        carried,
        output,
        added,
        ahead,
        _placed(ahead, added, kept, carried, is_row),
        kept,
        needed,
        is_row,
        moving,
        sums,
        _back(graph, sums),
        {node for node in needed if node in sums.bases or node.name == "error"},
    )


def _added(order: Sequence[Node], moving: set[Node]) -> dict[Node, Node]:
    """Find products that are only added to a term known before the first step; they are accumulated onto it."""
    uses = Counter(argument for node in order for argument in node.arguments)
    added: dict[Node, Node] = {}
    for node in order:
        if node.name == "add":
            for product, other in (node.arguments, node.arguments[::-1]):
                if product.name == "product" and uses[product] == 1 and other not in moving:
                    added[product] = node
    return added


def _reached(
    targets: Iterable[Node], in_steps: set[Node], atoms: set[Node], ends: Iterable[Node] = ()
) -> tuple[set[Node], set[Node]]:
    """Return the nodes to store at each step so that the targets can be computed for all steps at once, and the leaves
    and `ends` on which they also depend. `atoms` are never recomputed."""
    stored, bottom, visited, ends = set[Node](), set[Node](), set[Node](), set(ends)
    stack = list(targets)
    while stack:
        node = stack.pop()
        if node in visited:
            continue
        visited.add(node)
        if node in ends or not node.arguments:
            bottom.add(node)
            if node.name == "product":
                stored.add(node)
        elif node in in_steps and (node in atoms or node.name not in CHEAP):
            stored.add(node)
        else:
            stack += node.arguments
    return stored, bottom


def _instructions(
    order: Sequence[Node], moving: set[Node], added: dict[Node, Node], stored: set[Node], carried: Sequence[Node]
) -> list[Instruction]:
    """List the operations of a step after its products."""
    sums = set(added.values())
    nodes = [node for node in order if node in moving and node.arguments and node not in sums]
    uses = Counter(argument for node in nodes for argument in node.arguments)
    uses.update([*carried, *stored])
    fused: set[Node] = set()  # elementwise products that are only added: one fused operation
    for node in nodes:
        if node.name in ("add", "subtract"):
            candidates = node.arguments[::-1] if node.name == "add" else node.arguments[1:]
            fused.update(
                [each for each in candidates if each.name == "multiply" and each in moving and uses[each] == 1][:1]
            )
    instructions = []
    for node in nodes:
        factors = (
            next((each for each in node.arguments if each in fused), None) if node.name in ("add", "subtract") else None
        )
        if node in fused:
            continue
        if factors is None:
            instructions.append(Instruction(IN_STEPS[node.name], node.arguments, node))
        else:
            other = node.arguments[0] if node.arguments[1] is factors else node.arguments[1]
            function = torch.addcmul if node.name == "add" else _subtract_product
            instructions.append(Instruction(function, (other, *factors.arguments), node))
    return instructions


def _placed(
    instructions: Sequence[Instruction],
    added: dict[Node, Node],
    stored: set[Node],
    carried: Sequence[Node],
    is_row: set[Node],
) -> dict[Node, Node]:
    """Find results that can overwrite one of their arguments that is not read later."""
    last = {argument: place for place, instruction in enumerate(instructions) for argument in instruction.arguments}
    written = {*added.values(), *(instruction.result for instruction in instructions)}
    written |= {
        argument for instruction in instructions for argument in instruction.arguments if argument.name == "product"
    }
    placed: dict[Node, Node] = {}
    owner: dict[Node, Node] = {}  # the node whose memory a node uses
    is_sum = {*added.values(), *(node for node in written if node.name == "product")}
    for place, (function, arguments, result) in enumerate(instructions):
        if result in carried or function is _mean:
            continue
        for argument in arguments:
            free = (
                argument in written and last[argument] == place and argument not in stored and argument not in carried
            )
            if (
                free
                and (argument in is_row) == (result in is_row)
                and (result not in stored or owner.get(argument, argument) in is_sum)
            ):
                placed[result] = owner[result] = owner.get(argument, argument)
                break
    return placed


def _back(graph: Graph, sums: Sums) -> list[Instruction]:
    """List the operations of a backward step before its products."""
    instructions: list[Instruction] = []
    for base, groups in sums.bases.items():
        if base.name != "mean":
            instructions += _summed(groups[0], base)
            continue
        parts = [graph.leaf("part", place) for place in range(len(groups))]
        for part, terms in zip(parts, groups, strict=True):
            instructions += _summed(terms, part)
        filled = [part for part, terms in zip(parts, groups, strict=True) if terms]
        instructions.append(Instruction(_mean_of(len(groups)), filled, base))
    for leaf, terms in sums.terms.items():
        instructions += _summed(terms, error_of(graph, leaf))
    return instructions


def error_of(graph: Graph, leaf: Node) -> Node:
    """Return the leaf that represents the error of a product, or of a state before the step."""
    return graph.leaf(f"error of {leaf.name}", *map(int, leaf.place))


def _summed(terms: Terms, result: Node) -> list[Instruction]:
    """List the operations of result = coefficient * base + ..., bases with coefficient 1 first."""
    alone = [base for base, coefficient in terms.items() if coefficient.value == 1.0]
    scaled = [(base, coefficient) for base, coefficient in terms.items() if coefficient.value != 1.0]
    instructions: list[Instruction] = []
    if alone:
        total = alone.pop(0)
        if not alone and not scaled:
            return [Instruction(_copy, [total], result)]
    elif scaled:
        instructions.append(Instruction(torch.mul, scaled.pop(0), result))
        total = result
    for base in alone:
        instructions.append(Instruction(torch.add, [total, base], result))
        total = result
    for base, coefficient in scaled:
        instructions.append(Instruction(torch.addcmul, [total, base, coefficient], result))
        total = result
    return instructions


def _copy(x: Tensor, *, out: Tensor) -> None:
    out.copy_(x)


def _subtract_product(x: Tensor, left: Tensor, right: Tensor, *, out: Tensor) -> None:
    torch.addcmul(x, left, right, value=-1, out=out)


def _mean(*arguments: Tensor, out: Tensor) -> None:
    _mean_of(len(arguments))(*arguments, out=out)


def _mean_of(count: int) -> Callable[..., None]:
    """Return a mean over all units and `count` arguments; arguments that are not passed count as 0."""

    def mean(*arguments: Tensor, out: Tensor) -> None:
        torch.mean(arguments[0], -1, keepdim=True, out=out)
        for argument in arguments[1:]:
            out.add_(argument.mean(-1, keepdim=True))
        if count > 1:
            out.div_(count)

    return mean


def _relu(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    return torch.clamp(x, min=0.0, out=out)


def _greater(left: Tensor, right: Tensor, *, out: Tensor | None = None) -> Tensor:
    if out is None:
        return (left > right).to(left.dtype)
    return torch.gt(left, right, out=out)


def _where(test: Tensor, left: Tensor, right: Tensor, *, out: Tensor | None = None) -> Tensor:
    test = test if test.dtype == torch.bool else test != 0
    return torch.where(test, left, right) if out is None else torch.where(test, left, right, out=out)


def _mean_of_all(*arguments: Tensor) -> Tensor:
    total = torch.stack([argument.mean(-1) for argument in torch.broadcast_tensors(*arguments)]).mean(0)
    return total[..., None]


IN_STEPS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "negate": torch.neg,
    "absolute": torch.abs,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "erf": torch.erf,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "relu": _relu,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "greater": _greater,
    "where": _where,
    "mean": _mean,
}
AT_ONCE = {**IN_STEPS, "mean": _mean_of_all}
