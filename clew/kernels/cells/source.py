"""The parts of `walk.cu` that a traced step decides: its sizes, its parameters, and what a unit computes, forwards and backwards."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clew.kernels.cells.expressions import OPERATIONS, Graph, Node, errors_of, rebuilt
from clew.kernels.cells.phases import phases_of, with_variances


class Read(NamedTuple):
    """A tensor that a step reads: its blocks of `width` units, and whether it has a row for each of the batch, and is in float32."""

    blocks: int
    has_rows: bool
    is_float: bool


class Sizes(NamedTuple):
    """How a walk is laid out: units and rows of a block, blocks that share rows, and warps of a block. `number` is the kind of numbers that
    products take: 0 float32, 1 bfloat16, 2 float16; `rounds`: float32 to the 11 bits of TF32."""

    width: int
    units: int
    rows: int
    blocks: int
    warps: int
    number: int
    rounds: bool = False

    @property
    def padded(self) -> int:
        return self.units * self.blocks


class Program(NamedTuple):
    """`walk.cu` needs the headers; a launch takes tensors and numbers by these names, in this order."""

    headers: dict[str, str]
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    shared: int
    """Bytes of a block's shared memory."""
    forward_pairs: int
    backward_pairs: int
    """Pairs of numbers of a row that blocks tell each other at every step."""
    num_across: int
    """Means and variances of a row at every step, kept for the way back."""
    shared_errors: tuple[int | None, ...]
    """For each block of the inputs the product whose error is its own."""


Key = tuple[str, tuple[Node, ...]]


class Writer:
    """Statements on nodes, each node's number in an array over a thread's elements."""

    def __init__(self, sums: str):
        self.names: dict[Node, str] = {}
        self.sums = sums
        self.pairs = 0
        self.shifts: dict[tuple[Node, ...], str] = {}

    def name(self, node: Node) -> str:
        if node.value is not None:
            return number(node.value)
        if not node.arguments:
            return f"{'_'.join([node.name, *(str(int(place)) for place in node.place)])}[e]"
        return f"{self.names[node]}[e]"

    def compute(self, nodes: Sequence[Node]) -> Iterator[str]:
        phases = phases_of(nodes)
        for place, node in enumerate(node for phase in phases for part in phase for node in part):
            self.names[node] = f"n{place}"
            yield f"float n{place}[PER];"
        for number, phase in enumerate(phases):
            yield from every([f"{self.name(node)} = {self.of(node)};" for node in phase.own])
            if not phase.across:
                continue
            totals = {key: f"total_{number}[e][{place}]" for place, key in enumerate(dict.fromkeys(keys_of(phase.across)))}
            pairs = -(-len(totals) // 2)
            where = f"{self.sums} + (long)(t % 2 * PAIRS_OF_{self.sums.upper()} + {self.pairs}) * batch * BLOCKS"
            yield from every(self.tell(number, list(totals), where))
            yield f"float total_{number}[PER][{2 * pairs}];"
            yield f"hear<{pairs}>(total_{number}, {where}, batch, t, row0, row_of, is_row, unit_of);"
            yield from every([self.across(node, totals) for node in phase.across])
            self.pairs += pairs

    def tell(self, number: int, keys: Sequence[Key], where: str) -> Iterator[str]:
        """This block's part of the sums that a phase needs, two at a time."""
        for place, (kind, nodes) in enumerate(keys):
            shift = f" - {self.shift(nodes)}" if ("squares", nodes) in keys else ""
            terms = [f"{self.name(node)}{shift}" for node in nodes]
            if kind == "squares":
                terms = [f"squared({term})" for term in terms]
            yield f"const float own_{place} = total_of_units(is_unit[e] ? {' + '.join(terms)} : 0.0f);"
        for place in range(0, len(keys), 2):
            second = f"own_{place + 1}" if place + 1 < len(keys) else "0.0f"
            yield f"tell({where} + ({place // 2} * batch + ROW) * BLOCKS, own_{place}, {second}, t, is_row[e], unit_of[e], block);"

    def shift(self, nodes: tuple[Node, ...]) -> str:
        """Squares are of differences from the mean of the step before, so that few digits are lost where a mean is far from 0."""
        return f"{self.shifts.setdefault(nodes, f'mean_before_{len(self.shifts)}')}[e]"

    def across(self, node: Node, totals: Mapping[Key, str]) -> str:
        nodes, count = node.arguments, f"(1.0f / ({len(node.arguments)} * WIDTH))"
        mean = f"{totals['sum', nodes]} * {count}"
        squares = totals.get(("squares", nodes))
        if node.name == "mean":
            return f"{self.name(node)} = {mean if squares is None else f'{self.shift(nodes)} + {mean}'};"
        return f"{self.name(node)} = fmaxf(0.0f, {squares} * {count} - squared({mean}));"

    def remember(self) -> list[str]:
        """Statements at the end of a step, for the next."""
        means = {node.arguments: node for node in self.names if node.name == "mean"}
        return [f"{shift}[e] = {self.name(means[nodes])};" for nodes, shift in self.shifts.items() if nodes in means]

    def of(self, node: Node) -> str:
        return OPERATIONS[node.name].code.format(*map(self.name, node.arguments))


def keys_of(nodes: Iterable[Node]) -> Iterator[Key]:
    """The sums over a row that means and variances are made of."""
    for node in nodes:
        yield "sum", node.arguments
        if node.name == "variance":
            yield "squares", node.arguments


def program(
    graph: Graph, new_states: Sequence[Node], output: Node, sizes: Sizes, inputs: Sequence[Read], fixed: Sequence[Read], num_products: int,
    fed: int, has_mask: bool, keeps: bool,
) -> Program:  # fmt: skip
    """`fed` is the state that products read; `keeps`: the way back is to come."""
    num_inputs, num_states = sum(read.blocks for read in inputs), len(new_states)
    *after, output = with_variances(graph, [*new_states, output])
    real = graph.leaf("real")
    gives_fed = output is after[fed]
    if has_mask:
        after = [graph.apply("where", real, new, graph.leaf("state", place)) for place, new in enumerate(after)]
    across = [node for phase in phases_of([*after, output]) for node in phase.across]

    # Forwards.
    writer = Writer("sums_ahead")
    step = every(f"product_{p}[e] = sum_of(sums, SUMS, row_of[e], {p} * UNITS + unit_of[e]);" for p in range(num_products))
    step += writer.compute([*after, output])
    results = [f"const float next_{place} = {writer.name(node)};" for place, node in enumerate(after)]
    results += [f"state_{place}[e] = next_{place};" for place in range(num_states)]
    results.append("expect(fed + (ROW * (length + 1) + t + 1 + EARLY) * PADDED + UNIT, is_row[e] && t + EARLY < length, unit_of[e]);")
    results.append(f"publish(fed + (ROW * (length + 1) + t + 1) * PADDED + UNIT, is_unit[e] ? next_{fed} : 0.0f, is_row[e], unit_of[e]);")
    kept: list[str] = []
    if keeps:
        kept = [f"store(products + ((ROW * length + t) * PRODUCTS + {p}) * PADDED + UNIT, product_{p}[e]);" for p in range(num_products)]
        kept += [f"states_{place}[(ROW * length + t) * WIDTH + UNIT] = next_{place};" for place in range(num_states) if place != fed]
    if not gives_fed:
        kept.append(f"store(outputs + (ROW * length + t) * WIDTH + UNIT, {writer.name(output)});")
    if kept:
        # What is read of a state is its old value: outputs are written before states change.
        results = [*results[:num_states], "if (is_unit[e]) {", *kept, "}", *results[num_states:]]
    if keeps and across:
        told = [f"across[(ROW * length + t) * {len(across)} + {place}] = {writer.name(node)};" for place, node in enumerate(across)]
        results += ["if (is_row[e] && block == 0 && unit_of[e] == 0) {", *told, "}"]
    step += every([*results, *writer.remember()])
    arrays = [f"product_{p}" for p in range(num_products)] + [f"input_{j}" for j in range(num_inputs)]
    start = [f"float {', '.join(f'{array}[PER]' for array in arrays)};"]
    start += [f"float {shift}[PER] = {{0.0f}};" for shift in writer.shifts.values()]
    start += list(first_values(num_states, fixed, has_mask))
    end = [f"last_{place}[ROW * WIDTH + UNIT] = state_{place}[e];" for place in range(num_states)]
    headers = {
        "forward_start.h": lines(start),
        "forward_load.h": lines(every(loads(inputs, has_mask))),
        "forward_step.h": lines(step),
        "forward_end.h": lines(every(["if (is_unit[e]) {", *end, "}"])),
    }
    forward = ["const NUMBER *weight", "NUMBER *fed"]
    forward += [f"const {type_of(read)} *inputs_{place}" for place, read in enumerate(inputs)]
    forward += [f"const float *given_{place}" for place in range(len(fixed))]
    forward += [f"const float *start_{place}" for place in range(num_states)] + [f"float *last_{place}" for place in range(num_states)]
    forward += ["const unsigned char *mask"] * has_mask + ["NUMBER *outputs"] * (not gives_fed)
    if keeps:
        forward += ["NUMBER *products"] + [f"float *states_{place}" for place in range(num_states) if place != fed]
        forward += ["float *across"] * bool(across)
    forward += ["Words *sums_ahead"] * bool(writer.pairs)
    forward += ["int batch", "int length"]
    forward_pairs = writer.pairs

    # Backwards.
    error_of_output = graph.leaf("error_y")
    if has_mask:
        error_of_output = graph.apply("where", real, error_of_output, graph.constant(0.0))
    found = errors_of(graph, [(output, error_of_output), *((node, graph.leaf("error", place)) for place, node in enumerate(after))])
    kinds = {"product": num_products, "input": num_inputs, "fixed": len(fixed), "state": num_states}
    leaves = [graph.leaf(kind, place) for kind, count in kinds.items() for place in range(count)]
    wanted = [found.get(leaf, graph.constant(0.0)) for leaf in leaves]
    wanted = rebuilt(graph, wanted, {node: graph.leaf("across", place) for place, node in enumerate(across)})
    errors = dict(zip(leaves, wanted, strict=True))
    of_products = [errors[graph.leaf("product", p)] for p in range(num_products)]
    of_inputs = [errors[graph.leaf("input", j)] for j in range(num_inputs)]
    shared_errors = tuple(next((p for p, node in enumerate(of_products) if node is own), None) for own in of_inputs)
    writer = Writer("sums_back")
    step = list(writer.compute(wanted))
    results = [f"const float new_error_{place} = {writer.name(errors[graph.leaf('state', place)])};" for place in range(num_states)]
    results += [f"of_fixed_{place}[e] += {writer.name(errors[graph.leaf('fixed', place)])};" for place in range(len(fixed))]
    for p, node in enumerate(of_products):
        where = f"errors + ((ROW * length + t) * PRODUCTS + {p}) * PADDED + UNIT"
        results.append(f"expect({where} - EARLY * PRODUCTS * PADDED, is_row[e] && t >= EARLY, unit_of[e]);")
        results.append(f"publish({where}, is_unit[e] ? {writer.name(node)} : 0.0f, is_row[e], unit_of[e]);")
    own = [(j, node) for j, (node, product) in enumerate(zip(of_inputs, shared_errors, strict=True)) if product is None]
    if own:
        stores = [f"store(of_input_{j} + (ROW * length + t) * WIDTH + UNIT, {writer.name(node)});" for j, node in own]
        results += ["if (is_unit[e]) {", *stores, "}"]
    results += [f"error_{place}[e] = new_error_{place};" for place in range(num_states)]
    step += every([*results, *writer.remember()])
    arrays += ["error_y", *(f"across_{place}" for place in range(len(across)))]
    start = [f"float {', '.join(f'{array}[PER]' for array in arrays)};"]
    start += [f"float {shift}[PER] = {{0.0f}};" for shift in writer.shifts.values()]
    start += list(first_values(0, fixed, has_mask))
    start += [f"float state_{place}[PER], error_{place}[PER];" for place in range(num_states)]
    start += [f"float of_fixed_{place}[PER];" for place in range(len(fixed))]
    start += every(
        [f"error_{place}[e] = is_unit[e] ? of_last_{place}[ROW * WIDTH + UNIT] : 0.0f;" for place in range(num_states)]
        + [f"of_fixed_{place}[e] = 0.0f;" for place in range(len(fixed))]
    )
    start.append(f"float(&error_fed)[PER] = error_{fed};")
    load = list(loads(inputs, has_mask))
    load += [
        f"product_{p}[e] = is_unit[e] ? load(products + ((ROW * length + t) * PRODUCTS + {p}) * PADDED + UNIT) : 0.0f;"
        for p in range(num_products)
    ]
    load.append("error_y[e] = is_unit[e] ? load(of_outputs + (ROW * length + t) * WIDTH + UNIT) : 0.0f;")
    for place in range(num_states):
        if place == fed:
            load.append(f"state_{place}[e] = is_unit[e] ? load(fed + (ROW * (length + 1) + t) * PADDED + UNIT) : 0.0f;")
        else:
            before = f"t > 0 ? states_{place}[(ROW * length + t - 1) * WIDTH + UNIT] : start_{place}[ROW * WIDTH + UNIT]"
            load.append(f"state_{place}[e] = is_unit[e] ? ({before}) : 0.0f;")
    load += [
        f"across_{place}[e] = is_row[e] ? across[(ROW * length + t) * {len(across)} + {place}] : 0.0f;" for place in range(len(across))
    ]
    end = [f"of_start_{place}[ROW * WIDTH + UNIT] = error_{place}[e];" for place in range(num_states)]
    end += [f"of_given_{place}[ROW * WIDTH + UNIT] = of_fixed_{place}[e];" for place in range(len(fixed))]
    headers |= {
        "backward_start.h": lines(start),
        "backward_load.h": lines(every(load)),
        "backward_step.h": lines(step),
        "backward_end.h": lines(every(["if (is_unit[e]) {", *end, "}"])),
    }
    backward = ["const NUMBER *weight", "const NUMBER *fed", "NUMBER *errors", "const NUMBER *products", "const NUMBER *of_outputs"]
    backward += [f"const {type_of(read)} *inputs_{place}" for place, read in enumerate(inputs)]
    backward += [f"const float *given_{place}" for place in range(len(fixed))] + [f"float *of_given_{place}" for place in range(len(fixed))]
    for place in range(num_states):
        backward += [f"const float *start_{place}", f"const float *states_{place}"] * (place != fed)
        backward += [f"const float *of_last_{place}", f"float *of_start_{place}"]
    backward += ["const float *across"] * bool(across) + ["const unsigned char *mask"] * has_mask
    backward += [f"NUMBER *of_input_{j}" for j, _ in own] + ["Words *sums_back"] * bool(writer.pairs)
    backward += ["int batch", "int length"]
    shared = 4 * 2 * sizes.warps * sizes.rows * (16 * math.ceil(num_products * sizes.units / 16) + 4)
    headers["step.h"] = definitions(sizes, num_products, forward, backward, forward_pairs, writer.pairs)
    return Program(headers, names_of(forward), names_of(backward), shared, forward_pairs, writer.pairs, len(across), shared_errors)


def first_values(num_states: int, fixed: Sequence[Read], has_mask: bool) -> Iterator[str]:
    """What is read once, before the first step."""
    names = [f"state_{place}" for place in range(num_states)] + [f"fixed_{place}" for place in range(len(fixed))] + ["real"] * has_mask
    if names:
        yield f"float {', '.join(f'{name}[PER]' for name in names)};"
    yield from every(
        [f"state_{place}[e] = is_unit[e] ? start_{place}[ROW * WIDTH + UNIT] : 0.0f;" for place in range(num_states)]
        + [
            f"fixed_{place}[e] = is_unit[e] ? given_{place}[{'ROW * WIDTH + ' if read.has_rows else ''}UNIT] : 0.0f;"
            for place, read in enumerate(fixed)
        ]
    )


def loads(inputs: Sequence[Read], has_mask: bool) -> Iterator[str]:
    """A step's inputs, which are 0 on padding."""
    if has_mask:
        yield "real[e] = is_row[e] && mask[ROW * length + t] ? 1.0f : 0.0f;"
    place = 0
    for tensor, read in enumerate(inputs):
        for block in range(read.blocks):
            where = f"inputs_{tensor} + ((ROW * length + t) * {read.blocks} + {block}) * WIDTH + UNIT"
            yield f"input_{place}[e] = is_unit[e]{' && real[e] != 0.0f' if has_mask else ''} ? load({where}) : 0.0f;"
            place += 1


def definitions(
    sizes: Sizes, num_products: int, forward: Sequence[str], backward: Sequence[str], forward_pairs: int, backward_pairs: int
) -> str:
    workers = min(32 * sizes.warps, sizes.units * sizes.rows)
    values = {
        "WIDTH": sizes.width,
        "UNITS": sizes.units,
        "ROWS": sizes.rows,
        "BLOCKS": sizes.blocks,
        "WARPS": sizes.warps,
        "THREADS": 32 * sizes.warps,
        "WORKERS": workers,
        "PRODUCTS": num_products,
        "NUMBER_KIND": sizes.number,
        "NUMBER_BYTES": 2 if sizes.number else 4,
        "NUMBER": "unsigned short" if sizes.number else "float",
        "ROUND_PRODUCTS": int(sizes.rounds),
        "PAIRS_OF_SUMS_AHEAD": forward_pairs,
        "PAIRS_OF_SUMS_BACK": backward_pairs,
        "FORWARD_PARAMETERS": ", ".join(forward),
        "BACKWARD_PARAMETERS": ", ".join(backward),
    }
    return "#pragma once\nstruct alignas(16) Words {\n    unsigned int at[4];\n};\n" + "".join(
        f"#define {name} {value}\n" for name, value in values.items()
    )


def every(statements: Iterable[str]) -> list[str]:
    """Statements for each of a thread's elements."""
    statements = list(statements)
    return ["OF_EVERY_ELEMENT {", *statements, "}"] if statements else []


def lines(statements: Iterable[str]) -> str:
    return "\n".join(statements) + "\n"


def type_of(read: Read) -> str:
    return "float" if read.is_float else "NUMBER"


def names_of(parameters: Sequence[str]) -> tuple[str, ...]:
    return tuple(parameter.rpartition(" ")[2].lstrip("*") for parameter in parameters)


def number(value: float) -> str:
    if not math.isfinite(value):
        return {math.inf: "INFINITY", -math.inf: "(-INFINITY)"}.get(value, "NAN")
    return f"{value!r}f" if value >= 0 else f"({value!r}f)"
