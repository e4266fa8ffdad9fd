"""Generate C for a step on a CPU: one function that reads and writes the arrays of a step, row by row.

    step(arrays, t, rows, width, scratch, threads)

Products are not part of it: torch computes them before each step. A mean over the units of a row divides the loop over
them into several; values that a later loop reads are in `scratch`. All results are written in the last loop, because
they may overwrite arrays that earlier loops read.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

from clew.kernels.cells.expressions import ACROSS, OPERATIONS, Graph, Node, in_order, rebuilt
from clew.kernels.cells.phases import phases_of
from clew.kernels.cells.source import float_literal


class Result(NamedTuple):
    """A node to compute, whether its array has one number per row, and whether the value is added to the array."""

    node: Node
    is_row: bool
    is_added: bool = False


class NativeSource(NamedTuple):
    """The C code of a step, the nodes whose arrays it reads, and the number of values of scratch per unit."""

    text: str
    read: list[Node]
    num_scratch: int


def native_source(graph: Graph, known: Mapping[Node, bool], results: Sequence[Result]) -> NativeSource:
    """Generate the code that computes `results` from the nodes in `known`, which says whether a node's array has one
    number per row. Among the arrays, those of the nodes that are read come first, then those of the results."""
    nodes = [result.node for result in results]
    leaves = {node: graph.leaf("array", place) for place, node in enumerate(known)}
    used = set(in_order(rebuilt(graph, nodes, leaves)))
    read = [node for node in known if leaves[node] in used]
    leaves = {node: graph.leaf("array", place) for place, node in enumerate(read)}
    of_arrays = rebuilt(graph, nodes, leaves)
    writer = _Writer(
        [known[node] for node in read],
        [result._replace(node=node) for result, node in zip(results, of_arrays, strict=True)],
    )
    statements = [
        "void step(const Array *arrays, i64 t, i64 rows, i64 width, float *scratch_of_threads, int threads) {",
        *(f"float *const entry_{place} = entry(arrays + {place}, t);" for place in range(len(read) + len(results))),
        "OF_ROWS for (i64 row = 0; row < rows; row++) {",
        f"float *const scratch = scratch_of_threads + THREAD * {len(writer.scratch)} * width;",
        *writer.row(),
        "}",
        "}",
    ]
    prelude = files(__package__).joinpath("native_prelude.h").read_text()
    return NativeSource(prelude + "\n" + "\n".join(statements) + "\n", read, len(writer.scratch))


class _Writer:
    """Writes the statements for one row. `read` says for each array that is read whether it has one number per row."""

    def __init__(self, read: Sequence[bool], results: Sequence[Result]):
        self.read, self.results = read, results
        self.phases = phases_of(result.node for result in results)
        self.loops = {node: place for place, phase in enumerate(self.phases) for node in phase.own}
        """The phase that computes each node."""
        nodes = [node for phase in self.phases for part in phase for node in part]
        self.names = {node: f"n{place}" for place, node in enumerate(nodes)}
        self.row_nodes: set[Node] = set()
        for node in nodes:
            if node.name in ACROSS or all(map(self.is_row, node.arguments)):
                self.row_nodes.add(node)
        self.scratch = {node: place for place, node in enumerate(self.nodes_of_later_loops(nodes))}
        self.phase = 0

    def is_row(self, node: Node) -> bool:
        """Whether a value is the same for all units of a row."""
        if node.name == "array":
            return self.read[int(node.place[0])]
        return node.value is not None or node in self.row_nodes

    def nodes_of_later_loops(self, nodes: Sequence[Node]) -> list[Node]:
        """List the nodes that a loop reads after the one that computes them; a mean reads its arguments after it."""
        last = {result.node: len(self.phases) - 1 for result in self.results}
        for node in nodes:
            for argument in node.arguments:
                reads_at = len(self.phases) if node.name in ACROSS else self.loops[node]
                last[argument] = max(last.get(argument, 0), reads_at)
        return [node for node in self.loops if not self.is_row(node) and last[node] > self.loops[node]]

    def row(self) -> Iterator[str]:
        for place, is_row in enumerate(self.read):
            where = f"entry_{place} + row * arrays[{place}].row"
            yield f"const float row_{place} = *({where});" if is_row else f"const float *const array_{place} = {where};"
        for place in range(len(self.read), len(self.read) + len(self.results)):
            yield f"float *const array_{place} = entry_{place} + row * arrays[{place}].row;"
        for self.phase, phase in enumerate(self.phases):  # noqa: B020
            yield from (self.assigned(node) for node in phase.own if self.is_row(node))
            statements = [self.assigned(node) for node in phase.own if not self.is_row(node)]
            statements += [
                f"{self.scratch_of(node)}[unit] = {self.names[node]};" for node in phase.own if node in self.scratch
            ]
            if self.phase == len(self.phases) - 1:
                statements += self.stores(of_rows=False)
            if statements:
                yield from ("INDEPENDENT for (i64 unit = 0; unit < width; unit++) {", *statements, "}")
            yield from (f"const float {self.names[node]} = {self.mean(node)};" for node in phase.across)
        yield from self.stores(of_rows=True)

    def stores(self, of_rows: bool) -> Iterator[str]:
        for place, (node, is_row, is_added) in enumerate(self.results, start=len(self.read)):
            if is_row == of_rows:
                yield f"array_{place}[{'0' if is_row else 'unit'}] {'+=' if is_added else '='} {self.value(node)};"

    def assigned(self, node: Node) -> str:
        code = OPERATIONS[node.name].code.format(*map(self.value, node.arguments))
        return f"const float {self.names[node]} = {code};"

    def value(self, node: Node) -> str:
        if node.value is not None:
            return float_literal(node.value)
        if node.name == "array":
            place = int(node.place[0])
            return f"row_{place}" if self.read[place] else f"array_{place}[unit]"
        return f"{self.scratch_of(node)}[unit]" if self.is_of_earlier_loop(node) else self.names[node]

    def is_of_earlier_loop(self, node: Node) -> bool:
        return node in self.scratch and self.loops[node] < self.phase

    def scratch_of(self, node: Node) -> str:
        return f"(scratch + {self.scratch[node]} * width)"

    def mean(self, node: Node) -> str:
        terms = [self.total(argument) for argument in node.arguments if argument.value != 0.0]
        return f"({' + '.join(terms) or '0.0f'}) * (1.0f / ({len(node.arguments)} * width))"

    def total(self, node: Node) -> str:
        if self.is_row(node):
            return f"{self.value(node)} * width"
        return f"total({f'array_{int(node.place[0])}' if node.name == 'array' else self.scratch_of(node)}, width)"
