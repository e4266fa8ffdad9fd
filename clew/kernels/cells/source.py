"""Generate the parts of `walk.cu` that depend on the traced step: sizes, parameters, and the computation of a unit in
both directions."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from clew.kernels.cells.expressions import OPERATIONS, Graph, Node, errors_of, rebuilt
from clew.kernels.cells.phases import phases_of, with_early_means, with_variances


class Read(NamedTuple):
    """A tensor that a step reads: its number of blocks of `width` units, whether it has a row for each example, and
    whether it is float32."""

    blocks: int
    has_rows: bool
    is_float: bool


class Sizes(NamedTuple):
    """The layout of a walk: units and rows of a block, blocks that share rows, and warps of a block.

    `number` is the dtype of products: 0 float32, 1 bfloat16, 2 float16; `rounds` rounds float32 to the 11 bits of TF32.
    """

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
    """The headers for `walk.cu`, and the names of the tensors and numbers that a launch takes, in order."""

    headers: dict[str, str]
    forward: tuple[str, ...]
    backward: tuple[str, ...]
    shared: int
    """Bytes of a block's shared memory."""
    forward_pairs: int
    backward_pairs: int
    """Pairs of numbers per row that blocks exchange at every step."""
    num_across: int
    """Means and variances per row at every step, kept for the backward pass."""
    shared_errors: tuple[int | None, ...]
    """For each block of the inputs, the product that has the same error, or None."""


class Walk(NamedTuple):
    """Everything on which the code of a walk depends. `fed` is the state that products read; `keeps` says that a
    backward pass will follow."""

    graph: Graph
    after: Sequence[Node]
    """The states after a step, with padding."""
    output: Node
    sizes: Sizes
    inputs: Sequence[Read]
    fixed: Sequence[Read]
    num_products: int
    fed: int
    has_mask: bool
    keeps: bool
    gives_fed: bool
    """Whether the output is the state that products read."""
    across: Sequence[Node]

    @property
    def unread_states(self) -> list[int]:
        """The states that no product reads."""
        return [place for place in range(len(self.after)) if place != self.fed]


class Half(NamedTuple):
    """One direction of a walk."""

    headers: dict[str, str]
    parameters: Sequence[str]
    pairs: int


Key = tuple[str, tuple[Node, ...]]


class Writer:
    """Writes statements that compute nodes. The values of a node are in an array over a thread's elements."""

    def __init__(self, sums: str):
        self.names: dict[Node, str] = {}
        self.sums = sums
        self.pairs = 0
        self.shifts: dict[tuple[Node, ...], str] = {}
        self.totals: dict[Key, str] = {}

    def name(self, node: Node) -> str:
        if node.value is not None:
            return float_literal(node.value)
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
            totals = {
                key: f"total_{number}[e][{place}]" for place, key in enumerate(dict.fromkeys(keys_of(phase.across)))
            }
            pairs = -(-len(totals) // 2)
            where = f"{self.sums} + (i64)(t % 2 * PAIRS_OF_{self.sums.upper()} + {self.pairs}) * batch * BLOCKS"
            yield from every(self.tell(number, list(totals), where))
            yield f"float total_{number}[PER][{2 * pairs}];"
            yield f"hear<{pairs}>(total_{number}, {where}, batch, t, row0, row_of, is_row, unit_of);"
            yield from every([self.across(node, totals) for node in phase.across])
            self.totals |= totals
            self.pairs += pairs

    def tell(self, number: int, keys: Sequence[Key], where: str) -> Iterator[str]:
        """Write the exchange of this block's part of the sums that a phase needs, two at a time."""
        for place, (kind, nodes) in enumerate(keys):
            shift = f" - {self.shift(nodes)}" if ("squares", nodes) in keys else ""
            terms = [f"{self.name(node)}{shift}" for node in nodes]
            if kind == "squares":
                terms = [f"squared({term})" for term in terms]
            yield f"const float own_{place} = total_of_units(is_unit[e] ? {' + '.join(terms)} : 0.0f);"
        for place in range(0, len(keys), 2):
            second = f"own_{place + 1}" if place + 1 < len(keys) else "0.0f"
            yield (
                f"tell({where} + ({place // 2} * batch + ROW) * BLOCKS, own_{place}, {second}, t, is_row[e],"
                " unit_of[e], block);"
            )

    def shift(self, nodes: tuple[Node, ...]) -> str:
        """Return the mean of the previous step. Squares are of differences from it, so that few digits are lost if a
        mean is far from 0."""
        return f"{self.shifts.setdefault(nodes, f'mean_before_{len(self.shifts)}')}[e]"

    def across(self, node: Node, totals: Mapping[Key, str]) -> str:
        nodes, mean = node.arguments, self.mean(node.arguments, totals)
        squares = totals.get(("squares", nodes))
        if node.name == "mean":
            return f"{self.name(node)} = {mean if squares is None else f'{self.shift(nodes)} + {mean}'};"
        return f"{self.name(node)} = fmaxf(0.0f, {squares} * {share_of(nodes)} - squared({mean}));"

    def mean(self, nodes: tuple[Node, ...], totals: Mapping[Key, str]) -> str:
        """Return the mean of the shifted numbers."""
        return f"{totals['sum', nodes]} * {share_of(nodes)}"

    def first_means(self) -> list[str]:
        return [f"float {shift}[PER] = {{0.0f}};" for shift in self.shifts.values()]

    def remember(self) -> list[str]:
        """Return statements at the end of a step that update the shifts for the next."""
        return [f"{shift}[e] += {self.mean(nodes, self.totals)};" for nodes, shift in self.shifts.items()]

    def of(self, node: Node) -> str:
        return OPERATIONS[node.name].code.format(*map(self.name, node.arguments))


def share_of(nodes: Sequence[Node]) -> str:
    """Return 1 / count, where count is the number of values in a row."""
    return f"(1.0f / ({len(nodes)} * WIDTH))"


def keys_of(nodes: Iterable[Node]) -> Iterator[Key]:
    """Yield the sums over a row that means and variances need."""
    for node in nodes:
        yield "sum", node.arguments
        if node.name == "variance":
            yield "squares", node.arguments


def program(
    graph: Graph, new_states: Sequence[Node], output: Node, sizes: Sizes,
    inputs: Sequence[Read], fixed: Sequence[Read], num_products: int, fed: int, has_mask: bool, keeps: bool,
) -> Program:  # fmt: skip
    """Generate the code for a traced step whose products read the state `fed`. `keeps` says that a backward pass will
    follow."""
    *after, output = with_variances(graph, [*new_states, output])
    gives_fed = output is after[fed]
    if has_mask:
        real = graph.leaf("real")
        after = [graph.apply("where", real, new, graph.leaf("state", place)) for place, new in enumerate(after)]
    across = [node for phase in phases_of([*after, output]) for node in phase.across]
    walk = Walk(graph, after, output, sizes, inputs, fixed, num_products, fed, has_mask, keeps, gives_fed, across)
    ahead, (back, shared_errors) = forward_half(walk), backward_half(walk)
    shared = 4 * 2 * sizes.warps * sizes.rows * (16 * math.ceil(num_products * sizes.units / 16) + 4)
    return Program(
        {"step.h": definitions(walk, ahead, back), **ahead.headers, **back.headers},
        names_of(ahead.parameters),
        names_of(back.parameters),
        shared,
        ahead.pairs,
        back.pairs,
        len(across),
        shared_errors,
    )


PRODUCT = "((ROW * length + t) * PRODUCTS + {}) * PADDED + UNIT"
FED = "(ROW * (length + 1) + t{}) * PADDED + UNIT"
AT_STEP = "(ROW * length + t) * WIDTH + UNIT"
AT_START = "ROW * WIDTH + UNIT"


def forward_half(walk: Walk) -> Half:
    states, writer = range(len(walk.after)), Writer("sums_ahead")
    step = every(
        f"product_{p}[e] = sum_of(sums, SUMS, row_of[e], {p} * UNITS + unit_of[e]);" for p in range(walk.num_products)
    )
    step += writer.compute([*walk.after, walk.output])
    results = [f"const float next_{place} = {writer.name(node)};" for place, node in enumerate(walk.after)]
    # Expressions read the old values of states, so everything else is written before the states change.
    stores = [] if walk.gives_fed else [f"store(outputs + {AT_STEP}, {writer.name(walk.output)});"]
    if walk.keeps:
        stores += [f"store(products + {PRODUCT.format(p)}, product_{p}[e]);" for p in range(walk.num_products)]
        stores += [f"states_{place}[{AT_STEP}] = next_{place};" for place in walk.unread_states]
    results += only("is_unit[e]", stores)
    results += [f"state_{place}[e] = next_{place};" for place in states]
    results.append(f"expect(fed + {FED.format(' + 1 + EARLY')}, is_row[e] && t + EARLY < length, unit_of[e]);")
    results.append(f"publish(fed + {FED.format(' + 1')}, is_unit[e] ? next_{walk.fed} : 0.0f, is_row[e], unit_of[e]);")
    if walk.keeps:
        where = f"across[(ROW * length + t) * {len(walk.across)} + {{}}]"
        row_stores = [f"{where.format(place)} = {writer.name(node)};" for place, node in enumerate(walk.across)]
        results += only("is_row[e] && block == 0 && unit_of[e] == 0", row_stores)
    step += every([*results, *writer.remember()])
    start = [*arrays(walk), *writer.first_means(), *first_values(walk, states)]
    end = every(only("is_unit[e]", [f"last_{place}[{AT_START}] = state_{place}[e];" for place in states]))
    parameters = ["const NUMBER *weight", "NUMBER *fed", *inputs_of(walk)]
    parameters += [f"{kind}_{place}" for kind in ("const float *start", "float *last") for place in states]
    parameters += ["const unsigned char *mask"] * walk.has_mask + ["NUMBER *outputs"] * (not walk.gives_fed)
    if walk.keeps:
        parameters += [
            "NUMBER *products",
            *(f"float *states_{place}" for place in walk.unread_states),
            *["float *across"] * bool(walk.across),
        ]
    parameters += ["Words *sums_ahead"] * bool(writer.pairs) + ["int batch", "int length"]
    return Half(headers("forward", start, every(loads(walk)), step, end), parameters, writer.pairs)


def backward_half(walk: Walk) -> tuple[Half, tuple[int | None, ...]]:
    """Return the backward half, and for each block of the inputs the product that has the same error."""
    states, writer, errors = range(len(walk.after)), Writer("sums_back"), errors_in(walk)
    of_products = [errors["product", p] for p in range(walk.num_products)]
    of_inputs = [errors["input", j] for j in range(num_blocks(walk))]
    shared_errors = tuple(next((p for p, node in enumerate(of_products) if node is own), None) for own in of_inputs)
    own = [(j, node) for j, (node, product) in enumerate(zip(of_inputs, shared_errors, strict=True)) if product is None]
    step = list(writer.compute(list(errors.values())))
    results = [f"const float new_error_{place} = {writer.name(errors['state', place])};" for place in states]
    results += [f"of_fixed_{place}[e] += {writer.name(errors['fixed', place])};" for place in range(len(walk.fixed))]
    for p, node in enumerate(of_products):
        where = f"errors + {PRODUCT.format(p)}"
        results.append(f"expect({where} - EARLY * PRODUCTS * PADDED, is_row[e] && t >= EARLY, unit_of[e]);")
        results.append(f"publish({where}, is_unit[e] ? {writer.name(node)} : 0.0f, is_row[e], unit_of[e]);")
    results += only("is_unit[e]", [f"store(of_input_{j} + {AT_STEP}, {writer.name(node)});" for j, node in own])
    results += [f"error_{place}[e] = new_error_{place};" for place in states]
    step += every([*results, *writer.remember()])
    start = [*arrays(walk), *writer.first_means(), *first_values(walk, ())]
    names = ["error_y", *(f"across_{place}" for place in range(len(walk.across)))]
    names += [f"{kind}_{place}" for kind in ("state", "error") for place in states]
    names += [f"of_fixed_{place}" for place in range(len(walk.fixed))]
    start += [f"float {name}[PER];" for name in names]
    start += every(
        [f"error_{place}[e] = is_unit[e] ? of_last_{place}[{AT_START}] : 0.0f;" for place in states]
        + [f"of_fixed_{place}[e] = 0.0f;" for place in range(len(walk.fixed))]
    )
    start.append(f"float(&error_fed)[PER] = error_{walk.fed};")
    load = list(loads(walk))
    load += [
        f"product_{p}[e] = is_unit[e] ? load(products + {PRODUCT.format(p)}) : 0.0f;" for p in range(walk.num_products)
    ]
    load.append(f"error_y[e] = is_unit[e] ? load(of_outputs + {AT_STEP}) : 0.0f;")
    load.append(f"state_{walk.fed}[e] = is_unit[e] ? load(fed + {FED.format('')}) : 0.0f;")
    for place in walk.unread_states:
        before = f"t > 0 ? states_{place}[{AT_STEP} - WIDTH] : start_{place}[{AT_START}]"
        load.append(f"state_{place}[e] = is_unit[e] ? ({before}) : 0.0f;")
    for place in range(len(walk.across)):
        load.append(
            f"across_{place}[e] = is_row[e] ? across[(ROW * length + t) * {len(walk.across)} + {place}] : 0.0f;"
        )
    end = [f"of_start_{place}[{AT_START}] = error_{place}[e];" for place in states]
    end += [f"of_given_{place}[{AT_START}] = of_fixed_{place}[e];" for place in range(len(walk.fixed))]
    parameters = [
        "const NUMBER *weight",
        "const NUMBER *fed",
        "NUMBER *errors",
        "const NUMBER *products",
        "const NUMBER *of_outputs",
    ]
    parameters += [*inputs_of(walk), *(f"float *of_given_{place}" for place in range(len(walk.fixed)))]
    parameters += [f"const float *{kind}_{place}" for kind in ("start", "states") for place in walk.unread_states]
    parameters += [f"{kind}_{place}" for kind in ("const float *of_last", "float *of_start") for place in states]
    parameters += ["const float *across"] * bool(walk.across) + ["const unsigned char *mask"] * walk.has_mask
    parameters += (
        [f"NUMBER *of_input_{j}" for j, _ in own]
        + ["Words *sums_back"] * bool(writer.pairs)
        + ["int batch", "int length"]
    )
    half = Half(headers("backward", start, every(load), step, every(only("is_unit[e]", end))), parameters, writer.pairs)
    return half, shared_errors


def errors_in(walk: Walk) -> dict[tuple[str, int], Node]:
    """Return the error of every leaf of a step, as a function of stored values: means and variances are read, not
    recomputed."""
    graph = walk.graph
    of_output = graph.leaf("error_y")
    if walk.has_mask:  # y is unspecified on padding
        of_output = graph.apply("where", graph.leaf("real"), of_output, graph.constant(0.0))
    ends = [(walk.output, of_output), *((node, graph.leaf("error", place)) for place, node in enumerate(walk.after))]
    errors = errors_of(graph, ends)
    kinds = {
        "product": walk.num_products,
        "input": num_blocks(walk),
        "fixed": len(walk.fixed),
        "state": len(walk.after),
    }
    leaves = [(kind, place) for kind, count in kinds.items() for place in range(count)]
    leaf_errors = [errors.get(graph.leaf(*leaf), graph.constant(0.0)) for leaf in leaves]
    stored_values = {node: graph.leaf("across", place) for place, node in enumerate(walk.across)}
    return dict(zip(leaves, with_early_means(graph, rebuilt(graph, leaf_errors, stored_values)), strict=True))


def num_blocks(walk: Walk) -> int:
    return sum(read.blocks for read in walk.inputs)


def inputs_of(walk: Walk) -> list[str]:
    parameters = [
        f"const {'float' if read.is_float else 'NUMBER'} *inputs_{place}" for place, read in enumerate(walk.inputs)
    ]
    return parameters + [f"const float *given_{place}" for place in range(len(walk.fixed))]


def arrays(walk: Walk) -> list[str]:
    names = [f"product_{p}" for p in range(walk.num_products)] + [f"input_{j}" for j in range(num_blocks(walk))]
    return [f"float {name}[PER];" for name in [*names, *["real"] * walk.has_mask]]


def first_values(walk: Walk, states: Iterable[int]) -> Iterator[str]:
    """Yield the statements that read values once, before the first step."""
    values = [(f"state_{place}", f"start_{place}[{AT_START}]") for place in states]
    for place, read in enumerate(walk.fixed):
        values.append((f"fixed_{place}", f"given_{place}[{AT_START if read.has_rows else 'UNIT'}]"))
    yield from (f"float {name}[PER];" for name, _ in values)
    yield from every(f"{name}[e] = is_unit[e] ? {value} : 0.0f;" for name, value in values)


def loads(walk: Walk) -> Iterator[str]:
    """Yield the statements that load a step's inputs, 0 on padding."""
    if walk.has_mask:
        yield "real[e] = is_row[e] && mask[ROW * length + t] ? 1.0f : 0.0f;"
    place = 0
    for tensor, read in enumerate(walk.inputs):
        for block in range(read.blocks):
            where = f"inputs_{tensor} + ((ROW * length + t) * {read.blocks} + {block}) * WIDTH + UNIT"
            yield (
                f"input_{place}[e] = is_unit[e]{' && real[e] != 0.0f' if walk.has_mask else ''} ? load({where}) : 0.0f;"
            )
            place += 1


def definitions(walk: Walk, ahead: Half, back: Half) -> str:
    sizes = walk.sizes
    values = {
        "WIDTH": sizes.width,
        "UNITS": sizes.units,
        "ROWS": sizes.rows,
        "BLOCKS": sizes.blocks,
        "WARPS": sizes.warps,
        "THREADS": 32 * sizes.warps,
        "WORKERS": min(32 * sizes.warps, sizes.units * sizes.rows),
        "PRODUCTS": walk.num_products,
        "NUMBER_KIND": sizes.number,
        "NUMBER_BYTES": 2 if sizes.number else 4,
        "NUMBER": "unsigned short" if sizes.number else "float",
        "ROUND_PRODUCTS": int(sizes.rounds),
        "PAIRS_OF_SUMS_AHEAD": ahead.pairs,
        "PAIRS_OF_SUMS_BACK": back.pairs,
        "FORWARD_PARAMETERS": ", ".join(ahead.parameters),
        "BACKWARD_PARAMETERS": ", ".join(back.parameters),
    }
    defined = "".join(f"#define {name} {value}\n" for name, value in values.items())
    return "#pragma once\ntypedef long long i64;\nstruct alignas(16) Words {\n    unsigned int at[4];\n};\n" + defined


def headers(
    way: str, start: Sequence[str], load: Sequence[str], step: Sequence[str], end: Sequence[str]
) -> dict[str, str]:
    parts = {"start": start, "load": load, "step": step, "end": end}
    return {f"{way}_{part}.h": "\n".join(statements) + "\n" for part, statements in parts.items()}


def every(statements: Iterable[str]) -> list[str]:
    """Wrap statements in a loop over a thread's elements."""
    statements = list(statements)
    return ["OF_EVERY_ELEMENT {", *statements, "}"] if statements else []


def only(condition: str, statements: Sequence[str]) -> list[str]:
    return [f"if ({condition}) {{", *statements, "}"] if statements else []


def names_of(parameters: Sequence[str]) -> tuple[str, ...]:
    return tuple(parameter.rpartition(" ")[2].lstrip("*") for parameter in parameters)


def float_literal(value: float) -> str:
    if not math.isfinite(value):
        return {math.inf: "INFINITY", -math.inf: "(-INFINITY)"}.get(value, "NAN")
    return f"{value!r}f" if value >= 0 else f"({value!r}f)"
