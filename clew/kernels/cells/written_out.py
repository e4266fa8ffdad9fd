"""A traced step over a whole sequence, as operations of torch with the gradient written out.

A step is a product and few operations (`plans`), a step backwards is a few sums and a product, and the gradient of a weight is one product
at the end. Under autograd the equation has several times as many operations, and a product for a weight's gradient in every step.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clew.core.types import State
from clew.kernels.cells.expressions import Node
from clew.kernels.cells.plans import Plan, error_of, plan_of
from clew.kernels.cells.products import product, products_of
from clew.kernels.cells.tracing import Step
from clew.kernels.cells.values import Tensors, Values, evaluated, known

Column = Sequence[Tensor]
"""What a node is at each step."""

_plans: dict[Any, Plan] = {}


def walk(step: Step, real: Tensor | None) -> tuple[Tensor, State]:
    """y (batch, length, width) and the state after each row's last real position; `real` is (batch, length)."""
    key = step.signature, real is not None
    if key not in _plans:
        _plans[key] = plan_of(step, real is not None)
    dtype = step.states[0].dtype
    counts = len(step.inputs), len(step.fixed), len(step.matrices)
    tensors = [*step.inputs, *step.fixed, *(matrix.weight for matrix in step.matrices), *step.states]
    owners = [matrix.state for matrix in step.matrices]
    y, *states = _Walk.apply(_plans[key], counts, owners, real, *(x.to(dtype) for x in tensors))  # type: ignore[no-untyped-call]
    return y, step.rebuild(states)


def column(value: Tensor, length: int) -> Column:
    return value.unbind(0) if value.dim() == 3 else [value] * length


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, counts: tuple[int, int, int], owners: Sequence[int], real: Tensor | None, *given: Tensor) -> Any:
        num_inputs, num_fixed, num_matrices = counts
        ends = num_inputs, num_inputs + num_fixed, num_inputs + num_fixed + num_matrices
        tensors = Tensors(given[: ends[0]], given[ends[0] : ends[1]], given[ends[1] : ends[2]], given[ends[2] :])
        graph, values = plan.graph, known(plan.graph, tensors, real)
        (batch, width), length = tensors.states[0].shape, given[0].shape[1]
        keeps = any(ctx.needs_input_grad)

        states = [state.new_empty(length + 1, batch, width) for state in tensors.states]
        columns: dict[Node, Column] = {}
        for place, (state, new) in enumerate(zip(tensors.states, states, strict=True)):
            new[0] = state
            columns[graph.leaf("state", place)] = new[:-1].unbind(0)
        products, sums, num_products = [], dict[Node, Tensor](), 0
        for weight in tensors.weights:
            leaves = [graph.leaf("product", num_products + block) for block in range(len(weight) // width)]
            num_products += len(leaves)
            whole = weight.new_empty(length, batch, len(leaves), width)
            for block, leaf in enumerate(leaves):
                sums[leaf] = whole[:, :, block]
                if leaf in plan.added:
                    (other,) = (each for each in plan.added[leaf].arguments if each is not leaf)
                    whole[:, :, block] = evaluated(other, values)
                    sums[plan.added[leaf]] = sums[leaf]
                elif any(each in plan.added for each in leaves):
                    whole[:, :, block] = 0
            is_added = any(each in plan.added for each in leaves)
            products.append((_multiplied(weight, batch, length, is_added), whole.view(length, batch, -1).unbind(0)))
        columns |= {node: block.unbind(0) for node, block in sums.items()}

        kept = {node: sums[node] for node in plan.kept if node in sums}
        at_end = [node for place, node in enumerate(plan.carried) if plan.carried.index(node) == place and node in plan.moving]
        results = {instruction.result for instruction in plan.ahead}
        homes = {node: states[plan.carried.index(node)][1:] for node in at_end if node in results}
        for _, arguments, result in plan.ahead:
            for argument in arguments:
                if argument not in columns:
                    columns[argument] = column(evaluated(argument, values), length)
            if result in homes:
                columns[result] = homes[result].unbind(0)
            elif result in plan.placed:
                columns[result] = columns[plan.placed[result]]
                if plan.placed[result] in sums:
                    kept.update({result: sums[plan.placed[result]]} if result in plan.kept else {})
            else:
                shape = (batch, 1 if result in plan.is_row else width)
                if result in plan.kept:
                    kept[result] = states[0].new_empty(length, *shape)
                    columns[result] = kept[result].unbind(0)
                else:
                    columns[result] = [states[0].new_empty(shape)] * length
        copies = [
            (columns[node] if node in columns else column(evaluated(node, values), length), states[place][1:].unbind(0))
            for place, node in enumerate(plan.carried)
            if node not in homes or plan.carried.index(node) != place
        ]
        steps = [(function, [columns[each] for each in arguments], columns[result]) for function, arguments, result in plan.ahead]
        for t in range(length):
            for (multiply, sums_at), owner in zip(products, owners, strict=True):
                multiply(states[owner][t], sums_at[t])
            for function, reads, writes in steps:
                function(*[read[t] for read in reads], out=writes[t])
            for source, target in copies:
                target[t].copy_(source[t])

        for node, home in homes.items():
            values[node] = home
        if plan.output in plan.carried:
            y = states[plan.carried.index(plan.output)][1:]
        else:
            values.update(kept)
            for place, state in enumerate(states):
                values[graph.leaf("state", place)] = state[:-1]
            y = evaluated(plan.output, values).expand(length, batch, width)
        if keeps:
            names = [name for name in kept if name in plan.kept]
            inputs = [x if any(leaf.name == "input" for leaf in plan.needed) else None for x in tensors.inputs]
            ctx.save_for_backward(real, *inputs, *tensors.fixed, *tensors.weights, *states, *(kept[name] for name in names))
            ctx.plan, ctx.counts, ctx.owners, ctx.names, ctx.inputs = plan, counts, owners, names, [x.shape for x in given[:num_inputs]]
        # Copies, since outputs that are views of each other cannot be written over by their users.
        return y.transpose(0, 1).contiguous(), *(state[-1].clone() for state in states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_y: Tensor, *of_last: Tensor) -> Any:
        plan: Plan = ctx.plan
        graph, sums = plan.graph, plan.sums
        num_inputs, num_fixed, num_matrices = ctx.counts
        real, *saved = ctx.saved_tensors
        inputs, saved = saved[:num_inputs], saved[num_inputs:]
        fixed, saved = saved[:num_fixed], saved[num_fixed:]
        weights, saved = saved[:num_matrices], saved[num_matrices:]
        states, saved = saved[: len(of_last)], saved[len(of_last) :]
        length, batch, width = states[0][1:].shape
        values = known(graph, Tensors(inputs, fixed, weights, [state[0] for state in states]), real)
        values.update(zip(ctx.names, saved, strict=True))
        for place, (node, state) in enumerate(zip(plan.carried, states, strict=True)):
            values[graph.leaf("state", place)] = state[:-1]
            values[node] = state[1:]

        errors = graph.leaf("error", 0)
        values[errors] = of_y.transpose(0, 1)
        columns: dict[Node, Column] = {errors: values[errors].unbind(0)}
        of_states: list[Column] = []
        for place, of_state in enumerate(of_last):
            incoming = graph.leaf("error", place + 1)
            if incoming in plan.stored:
                whole = of_state.new_empty(length + 1, batch, width)
                values[incoming] = whole[1:]
                of_states.append(whole.unbind(0))
            else:
                both = of_state.new_empty(2, batch, width)
                of_states.append([both[t % 2] for t in range(length + 1)])
            of_states[-1][length].copy_(of_state)
            columns[incoming] = of_states[-1][1:]
            columns[error_of(graph, graph.leaf("state", place))] = of_states[-1]
        of_products: list[Tensor] = []
        parts: dict[Node, tuple[int, int]] = {}  # the matrix and the block of a product's error
        num_products = 0
        for number, weight in enumerate(weights):
            count = len(weight) // width
            leaves = [graph.leaf("product", num_products + block) for block in range(count)]
            num_products += count
            make = torch.empty if all(sums.terms.get(leaf) for leaf in leaves) else torch.zeros
            whole = make(length, batch, count, width, dtype=weight.dtype, device=weight.device)
            of_products.append(whole.view(length, batch, count * width))
            for block, leaf in enumerate(leaves):
                columns[error_of(graph, leaf)] = whole[:, :, block].unbind(0)
                if leaf in sums.errors:
                    values[sums.errors[leaf]] = whole[:, :, block]
                    parts[sums.errors[leaf]] = number, block
        for _, arguments, result in plan.back:
            for node in arguments:
                if node not in columns:
                    columns[node] = column(evaluated(node, values), length)
            if result not in columns:
                shape = batch, 1 if result.name == "mean" else width
                whole = states[0].new_empty(length if result in plan.stored else 1, *shape)
                columns[result] = whole.unbind(0) * (1 if result in plan.stored else length)
                if result in plan.stored:
                    values[result] = whole
        steps = [(function, [columns[each] for each in arguments], columns[result]) for function, arguments, result in plan.back]
        begun = [bool(sums.terms.get(graph.leaf("state", place))) for place in range(len(states))]
        products: list[tuple[Callable[[Tensor, Tensor], Any], Column, Column]] = []
        for whole, weight, owner in zip(of_products, weights, ctx.owners, strict=True):
            is_first = not begun[owner] and owner not in ctx.owners[: len(products)]
            products.append((_multiplied(weight.mT, batch, length, not is_first), whole.unbind(0), of_states[owner]))
        for place, errors_of_state in enumerate(of_states):
            if not begun[place] and place not in ctx.owners:
                for each in errors_of_state[:-1]:
                    each.zero_()
        for t in reversed(range(length)):
            for function, reads, writes in steps:
                function(*[read[t] for read in reads], out=writes[t])
            for multiply, of_product, of_owner in products:
                multiply(of_product[t], of_owner[t])

        needs = ctx.needs_input_grad[4:]
        gradients: list[Tensor | None] = []
        first = 0
        for place, shape in enumerate(ctx.inputs):
            leaves = [graph.leaf("input", first + block) for block in range(shape[2] // width)]
            first += len(leaves)
            wanted = [sums.errors.get(leaf) for leaf in leaves]
            gradients.append(_of_input(wanted, values, parts, of_products, shape, states[0]) if needs[place] else None)
        for place, each in enumerate(fixed, start=num_inputs):
            error = sums.errors.get(graph.leaf("fixed", place - num_inputs))
            if not needs[place] or error is None:
                gradients.append(None)
                continue
            gradients.append(evaluated(error, values).expand(length, batch, width).sum_to_size(each.shape))
        for place, (errors_of_product, owner) in enumerate(zip(of_products, ctx.owners, strict=True), start=num_inputs + num_fixed):
            flat = errors_of_product.flatten(0, 1)
            gradients.append(product(flat.mT, states[owner][:-1].flatten(0, 1).mT) if needs[place] else None)
        return None, None, None, None, *gradients, *(errors_of_state[0].clone() for errors_of_state in of_states)


def _multiplied(weight: Tensor, rows: int, times: int, is_added: bool) -> Callable[[Tensor, Tensor], Any]:
    """What writes x W^T, or adds it, to a result."""
    if (multiply := products_of(weight, rows, times)) is not None:
        return (lambda x, result: result.add_(multiply(x))) if is_added else (lambda x, result: result.copy_(multiply(x)))
    across = weight.mT
    return (lambda x, result: result.addmm_(x, across)) if is_added else (lambda x, result: torch.mm(x, across, out=result))


def _of_input(
    errors: Sequence[Node | None],
    values: Values,
    parts: dict[Node, tuple[int, int]],
    of_products: Sequence[Tensor],
    shape: Sequence[int],
    like: Tensor,
) -> Tensor:
    """(batch, length, n * width) of the errors of n blocks, which most often are those of a matrix's products, side by side."""
    batch, length, features = shape
    width = features // len(errors)
    places = [parts.get(error) if error is not None else None for error in errors]
    if places[0] is not None and places == [(places[0][0], places[0][1] + block) for block in range(len(errors))]:
        number, block = places[0]
        return of_products[number][:, :, block * width : block * width + features].transpose(0, 1)
    of_input = like.new_zeros(length, batch, features)
    for error, of_block in zip(errors, of_input.split(width, -1), strict=True):
        if error is not None:
            of_block.copy_(evaluated(error, values))
    return of_input.transpose(0, 1)
