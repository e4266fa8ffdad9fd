"""Graphs in JSON lines: the words at the nodes, typed edges between them, and labels of the nodes or of the graph.

    {"nodes": ["C", "C", "O"],
     "edges": [[0, 1, "single"], [1, 2, "double"]],
     "labels": ["a", "b", "c"], "label": "acid"}

Nodes are counted from 0. An edge leads from its first node to its second. For edges in both directions, write both, or
use a layer that reads edges in both directions.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from clew.data.examples import LabelledGraph, NamedEdges, Sentence
from clew.data.formats.json_files import read_jsonl
from clew.data.notes import Notes
from clew.data.values import Faulty

NODES, EDGES, LABELS, LABEL = "nodes", "edges", "labels", "label"


def graphs_with_node_labels(path: Path, label: str | None, notes: Notes) -> Iterator[Sentence]:
    """Yield graphs with node labels from the field `label`, or from `labels` if there is no such field. None leaves the
    labels out."""
    for values, place in graph_records(path, notes):
        try:
            graph = graph_of(values, place)
            if label is not None:
                labels = as_strings(values, label if label in values else LABELS)
                if len(labels) != len(graph.words):
                    raise Faulty(
                        "labels", f"there are {len(graph.words)} nodes and {len(labels)} labels; give each node one"
                    )
                graph = graph._replace(tags=labels)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))
            continue
        yield graph


def labelled_graphs(path: Path, label: str, notes: Notes, *, with_labels: bool = True) -> Iterator[LabelledGraph]:
    """Yield graphs, each with its label or labels from the field `label`: a string, a number or a list of strings."""
    for values, place in graph_records(path, notes):
        try:
            labels = graph_labels(values, label) if with_labels else ()
            yield LabelledGraph(graph_of(values, place), labels, place)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))


def has_nodes(path: Path) -> bool:
    """Whether the first record of JSON lines is a graph."""
    return any(NODES in values for values, _ in islice(graph_records(path, Notes(faults="skip")), 1))


def graph_records(path: Path, notes: Notes) -> Iterator[tuple[Mapping[str, Any], str]]:
    return ((record.values, record.place) for record in read_jsonl(path, notes=notes))


def graph_of(values: Mapping[str, Any], place: str) -> Sentence:
    nodes = as_strings(values, NODES)
    if not nodes:
        raise Faulty("no nodes", "the graph has no nodes; give at least one")
    return Sentence(nodes, id=place, edges=as_edges(values.get(EDGES, []), len(nodes)))


def as_strings(values: Mapping[str, Any], field: str) -> tuple[str, ...]:
    strings = values.get(field)
    if not isinstance(strings, list) or not all(
        isinstance(value, (str, int)) and not isinstance(value, bool) for value in strings
    ):
        problem = "it is missing" if field not in values else "it is not"
        raise Faulty(field, f'"{field}" must be a list of strings, but {problem}')
    return tuple(map(str, strings))


def as_edges(value: Any, num_nodes: int) -> NamedEdges:
    """Check edges (source, target, type); the default type is "edge"."""
    edges = []
    for edge in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
        parts = list(edge) if isinstance(edge, (list, tuple)) else []
        nodes = parts[:2]
        if len(parts) not in (2, 3) or not all(isinstance(node, int) and not isinstance(node, bool) for node in nodes):
            raise Faulty(
                "edge", f'an edge must be [source, target, "type"], with nodes counted from 0, but one is {edge!r}'
            )
        if not all(0 <= node < num_nodes for node in nodes):
            raise Faulty(
                "edge",
                f"the edge {parts} has a node that does not exist; there are {num_nodes} nodes, counted from 0",
            )
        edges.append((nodes[0], nodes[1], str(parts[2]) if len(parts) == 3 else "edge"))
    return tuple(edges)


def graph_labels(values: Mapping[str, Any], field: str) -> tuple[str, ...]:
    label = values.get(field)
    if isinstance(label, list):
        return as_strings(values, field)
    if label is None or isinstance(label, (dict, bool)) or not str(label).strip():
        raise Faulty("no label", f'the graph has no label in "{field}"; name its field with data.label=NAME')
    return (str(label).strip(),)
