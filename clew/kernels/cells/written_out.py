"""A traced step over a whole sequence, with an explicit backward pass.

A step is a product and a few torch operations (`plans`), a backward step is a few sums and a product, and the gradient
of a weight is one product at the end. Under autograd the equation has several times as many operations, and a product
for the weight's gradient in every step. If a C compiler is available and the sequence is long enough, everything of a
step but its products is one compiled function (`native`).
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from clew.core.types import State
from clew.kernels.cells.derivatives import first_derivative
from clew.kernels.cells.expressions import Node
from clew.kernels.cells.native import Column, NativeStep, native_step
from clew.kernels.cells.native_source import Result
from clew.kernels.cells.plans import Instruction, Plan, error_of, plan_step
from clew.kernels.cells.products import matmul_transposed, multiplied
from clew.kernels.cells.tracing import Step
from clew.kernels.cells.values import Tensors, Values, evaluated, known

Steps = Callable[[int], Any]
"""A function that runs everything of a step but its products, by the number of the step."""

_plans: dict[Any, Plan] = {}
_native_steps: dict[Any, NativeStep | None] = {}


def walk_written_out(step: Step, real: Tensor | None, is_native: bool = False) -> tuple[Tensor, State]:
    """Return y (batch, length, width) and the state after each row's last real position; `real` is (batch, length).
    With `is_native`, steps run in C if they can be compiled."""
    key = step.signature, real is not None
    if key not in _plans:
        _plans[key] = plan_step(step, real is not None)
    dtype = step.states[0].dtype
    counts = len(step.inputs), len(step.fixed), len(step.matrices)
    tensors = [*step.inputs, *step.fixed, *(matrix.weight for matrix in step.matrices), *step.states]
    owners = [matrix.state for matrix in step.matrices]
    arguments = step.inputs[0].shape[1], counts, owners, is_native, real, *(x.to(dtype) for x in tensors)
    y, *states = _Walk.apply(_plans[key], *arguments)  # type: ignore[no-untyped-call]
    return y, step.rebuild(states)


def column(value: Tensor) -> Column:
    return Column(value if value.dim() == 3 else value[None])


class _Walked:
    """The common part of both directions: the leaves and values of a plan, and nodes by step."""

    def __init__(self, plan: Plan, length: int, owners: Sequence[int], tensors: Tensors, real: Tensor | None):
        self.plan, self.graph, self.length, self.owners, self.tensors = plan, plan.graph, length, owners, tensors
        self.batch, self.width = tensors.states[0].shape
        self.values = known(plan.graph, tensors, real)
        self.columns: dict[Node, Column] = {}

    @cached_property
    def leaves(self) -> list[list[Node]]:
        """The product leaves of each matrix."""
        leaves: list[list[Node]] = []
        for weight in self.tensors.weights:
            first = sum(map(len, leaves))
            leaves.append([self.graph.leaf("product", first + block) for block in range(len(weight) // self.width)])
        return leaves

    def new(self, *shape: int) -> Tensor:
        return self.tensors.states[0].new_empty(shape)

    def column(self, node: Node) -> Column:
        if node not in self.columns:
            self.columns[node] = column(evaluated(node, self.values))
        return self.columns[node]

    def called(self, instructions: Sequence[Instruction]) -> Steps:
        """Return steps of torch operations."""
        calls = []
        for function, arguments, result in instructions:
            columns, target = [self.column(each) for each in arguments], self.column(result)
            if all(each.is_row for each in columns) and not target.is_row:  # `out` would be resized
                columns[0] = columns[0].expanded(self.width)
            calls.append((function, [each.steps(self.length) for each in columns], target.steps(self.length)))

        def step(t: int) -> None:
            for function, arguments, result in calls:
                function(*[argument[t] for argument in arguments], out=result[t])

        return step

    def compiled(
        self, results: Sequence[tuple[Node, Column]], sums: Sequence[tuple[Node, Column]] = ()
    ) -> Steps | None:
        """Return steps in C that write `results`, and add to `sums`; None if they cannot be compiled."""
        known = {node: column(value) for node, value in self.values.items() if node.name != "constant"} | self.columns
        of_known = {node: each.is_row for node, each in known.items()}
        of_results = [
            Result(node, each.is_row, is_added)
            for group, is_added in ((results, False), (sums, True))
            for node, each in group
        ]
        key = id(self.plan), type(self), tuple(of_known.items()), tuple(of_results)
        if key not in _native_steps:
            _native_steps[key] = native_step(self.graph, of_known, of_results)
        step = _native_steps[key]
        return (
            None if step is None else step.bound(known, [each for _, each in (*results, *sums)], self.batch, self.width)
        )

    def know_states(self, states: Sequence[Tensor]) -> None:
        """Add the states (length + 1, batch, width) to the known values."""
        for place, (node, state) in enumerate(zip(self.plan.carried, states, strict=True)):
            self.values[self.graph.leaf("state", place)] = state[:-1]
            self.values[node] = state[1:]


class _Ahead(_Walked):
    """The forward steps."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.states = [self.new(self.length + 1, self.batch, self.width) for _ in self.tensors.states]
        for place, (first, state) in enumerate(zip(self.tensors.states, self.states, strict=True)):
            state[0] = first
            self.columns[self.graph.leaf("state", place)] = Column(state)
        self.products: list[tuple[Callable[[Tensor, Tensor], Any], Column]] = []
        """The product function of each matrix, and its targets."""
        self.kept: Values = {}
        """The values at all steps that the backward pass or the output needs."""
        self.sums: dict[Node, Tensor] = {}
        """The targets of products by node, at all steps: products, or sums that they are added to."""
        self.copies: list[tuple[Node, Column]] = []
        """States after a step that are copies of other nodes."""

    def prepare(self, weight: Tensor, leaves: Sequence[Node]) -> tuple[Callable[[Tensor, Tensor], Any], Column]:
        """Return the product function of a matrix and its targets: the terms to which its products are only added, if
        any."""
        added = self.plan.added
        is_added = any(leaf in added for leaf in leaves)
        whole = self.new(self.length, self.batch, len(leaves), self.width)
        for block, leaf in enumerate(leaves):
            self.sums[leaf] = whole[:, :, block]
            if leaf in added:
                (other,) = (each for each in added[leaf].arguments if each is not leaf)
                whole[:, :, block] = evaluated(other, self.values)
                self.sums[added[leaf]] = self.sums[leaf]
            elif is_added:
                whole[:, :, block] = 0
        multiply = multiplied(weight, self.batch, self.length, is_added)
        return multiply, Column(whole.view(self.length, self.batch, -1))

    def compiled_steps(self) -> Steps | None:
        """Return steps in C, which write only states and stored values. Products are not stored."""
        products = [self.new(1, self.batch, len(weight)) for weight in self.tensors.weights]
        for whole, leaves in zip(products, self.leaves, strict=True):
            self.columns |= {leaf: Column(x) for leaf, x in zip(leaves, whole.split(self.width, -1), strict=True)}
        kept = {node: self.new(self.length, *self.shape_of(node)) for node in self.plan.kept - {*self.plan.carried}}
        results = [(node, Column(state, 1)) for node, state in zip(self.plan.carried, self.states, strict=True)]
        steps = self.compiled([*results, *((node, Column(whole)) for node, whole in kept.items())])
        if steps is not None:
            self.kept = kept
            self.products = [
                (multiplied(weight, self.batch, self.length, is_added=False), Column(whole))
                for weight, whole in zip(self.tensors.weights, products, strict=True)
            ]
        return steps

    def called_steps(self) -> Steps:
        """Return steps of torch operations. Each result is written to a state or another node's memory, to stored
        memory, or to a scratch tensor."""
        plan = self.plan
        self.products = [
            self.prepare(weight, leaves) for weight, leaves in zip(self.tensors.weights, self.leaves, strict=True)
        ]
        self.kept = {node: self.sums[node] for node in plan.kept if node in self.sums}
        self.columns |= {node: Column(whole) for node, whole in self.sums.items()}
        results = {instruction.result for instruction in plan.ahead}
        for place, (node, state) in enumerate(zip(plan.carried, self.states, strict=True)):
            if node in results and node not in plan.is_row and plan.carried.index(node) == place:
                self.columns[node] = Column(state, 1)
            else:
                self.copies.append((node, Column(state, 1)))
        for _, _, result in plan.ahead:
            if result in self.columns:
                continue
            if result in plan.kept:
                self.keep(result)
                self.columns[result] = Column(self.kept[result])
            elif (there := plan.placed.get(result)) is not None:
                self.columns[result] = self.columns[there]
            else:
                self.columns[result] = Column(self.new(1, *self.shape_of(result)))
        return self.called(plan.ahead)

    def keep(self, node: Node) -> None:
        """Allocate memory for the values of a node at all steps."""
        there = self.plan.placed.get(node)
        self.kept[node] = self.new(self.length, *self.shape_of(node)) if there is None else self.sums[there]

    def shape_of(self, node: Node) -> tuple[int, int]:
        return self.batch, 1 if node in self.plan.is_row else self.width

    def run(self, is_native: bool) -> None:
        step = (self.compiled_steps() if is_native else None) or self.called_steps()
        copies = [(self.column(node).steps(self.length), copy.steps(self.length)) for node, copy in self.copies]
        products = [
            (multiply, self.states[owner].unbind(0), sums.steps(self.length))
            for (multiply, sums), owner in zip(self.products, self.owners, strict=True)
        ]
        for t in range(self.length):
            for multiply, states, sums in products:
                multiply(states[t], sums[t])
            step(t)
            for source, target in copies:
                target[t].copy_(source[t])

    def output(self) -> Tensor:
        """Return y (batch, length, width)."""
        self.know_states(self.states)
        self.values.update(self.kept)
        return evaluated(self.plan.output, self.values).expand(self.length, self.batch, self.width).transpose(0, 1)


class _Back(_Walked):
    """The backward steps, from the errors of y and of the last states."""

    def __init__(
        self, *arguments: Any, states: Sequence[Tensor], kept: Values, of_y: Tensor, of_last: Sequence[Tensor]
    ):
        super().__init__(*arguments)
        self.states, self.sums = states, self.plan.sums
        self.know_states(states)
        self.values.update(kept)
        self.values[self.graph.leaf("error", 0)] = of_y.transpose(0, 1)
        self.of_states = [self.prepare_state(place, of_state) for place, of_state in enumerate(of_last)]
        self.parts: dict[Node, tuple[int, int]] = {}
        """Matrix and block of each product's error."""
        self.of_products = [self.prepare_products(number, leaves) for number, leaves in enumerate(self.leaves)]
        self.stored: Values = {}
        """The errors at all steps that gradients of inputs and weights need."""
        self.totals: dict[Node, Tensor] = {}
        """The errors of fixed tensors, summed over steps."""

    def prepare_state(self, place: int, of_last: Tensor) -> Column:
        """Allocate the errors of a state; entry t is the error before step t. All steps are stored only if needed."""
        incoming = self.graph.leaf("error", place + 1)
        is_stored = incoming in self.plan.stored
        of_state = Column(self.new(self.length + 1 if is_stored else 2, self.batch, self.width))
        if is_stored:
            self.values[incoming] = of_state.whole[1:]
        of_state.whole[self.length % len(of_state.whole)].copy_(of_last)
        self.columns[incoming] = of_state._replace(first=1)
        self.columns[error_of(self.graph, self.graph.leaf("state", place))] = of_state
        return of_state

    def prepare_products(self, number: int, leaves: Sequence[Node]) -> Tensor:
        """Allocate the errors of a matrix's products (length, batch, n * width). In memory the batch comes first, as in
        the errors of inputs, which are often the same."""
        whole = self.new(self.batch, self.length, len(leaves), self.width).transpose(0, 1)
        for block, leaf in enumerate(leaves):
            of_block = whole[:, :, block]
            self.columns[error_of(self.graph, leaf)] = Column(of_block)
            if not self.sums.terms.get(leaf):
                of_block.zero_()
        return whole.flatten(2)

    def know_products(self) -> None:
        """Add the errors of products to the known values, once all steps have run."""
        for number, leaves in enumerate(self.leaves):
            for block, leaf in enumerate(leaves):
                if leaf in self.sums.errors:
                    error = self.sums.errors[leaf]
                    self.values[error] = self.columns[error_of(self.graph, leaf)].whole
                    self.parts[error] = number, block

    def compiled_steps(self) -> Steps | None:
        """Return steps in C, which write the errors of products, states and inputs, and sum those of fixed tensors."""
        results = [
            (self.sums.errors[leaf], self.columns[error_of(self.graph, leaf)])
            for leaf, terms in self.sums.terms.items()
            if terms
        ]
        of_products = {self.sums.errors[leaf] for leaf in self.sums.terms if leaf.name == "product"}
        stored: Values = {}
        totals: dict[Node, Tensor] = {}
        for leaf, error in self.sums.errors.items():
            if leaf.name == "input" and error not in of_products:
                stored[error] = self.new(self.length, self.batch, self.width)
            elif leaf.name == "fixed":
                totals[leaf] = self.new(1, self.batch, self.width).zero_()
        results += [(error, Column(whole)) for error, whole in stored.items()]
        steps = self.compiled(results, [(self.sums.errors[leaf], Column(total)) for leaf, total in totals.items()])
        if steps is not None:
            self.stored, self.totals = stored, totals
        return steps

    def called_steps(self) -> Steps:
        """Return steps of torch operations."""
        for _, _, result in self.plan.back:
            if result in self.columns:
                continue
            if result in self.plan.stored:
                self.stored[result] = self.new(self.length, *self.shape_of(result))
                self.columns[result] = Column(self.stored[result])
            else:
                self.columns[result] = Column(self.new(1, *self.shape_of(result)))
        return self.called(self.plan.back)

    def shape_of(self, node: Node) -> tuple[int, int]:
        return self.batch, 1 if node.name == "mean" else self.width

    def run(self, is_native: bool) -> None:
        step = (self.compiled_steps() if is_native else None) or self.called_steps()
        begun = {place for place in range(len(self.states)) if self.sums.terms.get(self.graph.leaf("state", place))}
        of_states = [of_state.steps(self.length + 1) for of_state in self.of_states]
        products = []
        for whole, weight, owner in zip(self.of_products, self.tensors.weights, self.owners, strict=True):
            multiply = multiplied(weight.mT, self.batch, self.length, is_added=owner in begun)
            products.append((multiply, whole.unbind(0), of_states[owner]))
            begun.add(owner)
        idle = [of_state for place, of_state in enumerate(of_states) if place not in begun]
        for t in reversed(range(self.length)):
            step(t)
            for multiply, of_product, of_state in products:
                multiply(of_product[t], of_state[t])
            for of_state in idle:
                of_state[t].zero_()
        self.values.update(self.stored)
        self.know_products()

    def of_fixed(self, place: int) -> Tensor | None:
        leaf = self.graph.leaf("fixed", place)
        if leaf in self.totals:
            return self.totals[leaf].sum_to_size(self.tensors.fixed[place].shape)
        error = self.sums.errors.get(leaf)
        if error is None:
            return None
        return (
            evaluated(error, self.values)
            .expand(self.length, self.batch, self.width)
            .sum_to_size(self.tensors.fixed[place].shape)
        )

    def of_weight(self, number: int) -> Tensor:
        errors, states = (
            x.transpose(0, 1).flatten(0, 1).mT
            for x in (self.of_products[number], self.states[self.owners[number]][:-1])
        )
        return matmul_transposed(errors, states)

    def of_input(self, first: int, count: int) -> Tensor:
        """Return the error (batch, length, count * width) of `count` input blocks; usually a slice of the
        products' errors."""
        errors = [self.sums.errors.get(self.graph.leaf("input", first + block)) for block in range(count)]
        places = [self.parts.get(error) if error is not None else None for error in errors]
        if places[0] is not None and places == [(places[0][0], places[0][1] + block) for block in range(count)]:
            number, block = places[0]
            return self.of_products[number][:, :, block * self.width : (block + count) * self.width].transpose(0, 1)
        of_input = self.new(self.length, self.batch, count, self.width)
        for error, of_block in zip(errors, of_input.unbind(2), strict=True):
            of_block.copy_(evaluated(error, self.values) if error is not None else of_block.new_zeros(()))
        return of_input.flatten(2).transpose(0, 1)


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        length: int,
        counts: tuple[int, int, int],
        owners: Sequence[int],
        is_native: bool,
        real: Tensor | None,
        *flat: Tensor,
    ) -> Any:
        tensors = _parted(flat, counts)
        ahead = _Ahead(plan, length, owners, tensors, real)
        ahead.run(is_native)
        if any(ctx.needs_input_grad):
            inputs = tensors.inputs if any(leaf.name == "input" for leaf in plan.needed) else [None] * counts[0]
            rest = *tensors.fixed, *tensors.weights, *ahead.states
            ctx.save_for_backward(real, *inputs, *rest, *ahead.kept.values())
            ctx.plan, ctx.length, ctx.counts, ctx.owners, ctx.names = plan, length, counts, owners, list(ahead.kept)
            ctx.is_native = is_native
            ctx.num_saved, ctx.blocks = counts[0] + len(rest), [x.shape[2] // ahead.width for x in flat[: counts[0]]]
        # Copies, since users cannot overwrite outputs that are views of each other.
        return ahead.output().clone(memory_format=torch.contiguous_format), *(
            state[-1].clone() for state in ahead.states
        )

    @staticmethod
    @first_derivative
    def backward(ctx: Any, of_y: Tensor, *of_last: Tensor) -> Any:
        real, *saved = ctx.saved_tensors
        tensors, stored = _parted(saved[: ctx.num_saved], ctx.counts), saved[ctx.num_saved :]
        states = tensors.states  # at all steps
        tensors = tensors._replace(states=[state[0] for state in states])
        values = dict(zip(ctx.names, stored, strict=True))
        back = _Back(
            ctx.plan, ctx.length, ctx.owners, tensors, real, states=states, kept=values, of_y=of_y, of_last=of_last
        )
        back.run(ctx.is_native)
        firsts = [sum(ctx.blocks[:place]) for place in range(ctx.counts[0])]
        gradients: list[Callable[[], Tensor | None]] = [
            *(partial(back.of_input, first, count) for first, count in zip(firsts, ctx.blocks, strict=True)),
            *(partial(back.of_fixed, place) for place in range(ctx.counts[1])),
            *(partial(back.of_weight, number) for number in range(ctx.counts[2])),
            *(of_state.whole[0].clone for of_state in back.of_states),
        ]
        needs = ctx.needs_input_grad[-len(gradients) :]
        return (
            *[None] * 6,
            *(gradient() if is_needed else None for gradient, is_needed in zip(gradients, needs, strict=True)),
        )


def _parted(flat: Sequence[Any], counts: Sequence[int]) -> Tensors:
    """Divide tensors into inputs, fixed tensors and weights by `counts`, and states."""
    ends = [sum(counts[:place]) for place in range(1, 4)]
    return Tensors(flat[: ends[0]], flat[ends[0] : ends[1]], flat[ends[1] : ends[2]], flat[ends[2] :])
