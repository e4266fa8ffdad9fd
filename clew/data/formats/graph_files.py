"""Graphs in JSON lines: what stands at the nodes, edges between them with the names of their types, and labels of nodes
or of the whole.

    {"nodes": ["C", "C", "O"], "edges": [[0, 1, "single"], [1, 2, "double"]], "labels": ["a", "b", "c"], "label":
    "acid"}

Nodes are counted from 0. An edge leads from its first node to its second, and a graph whose edges are to be read both
ways has both, or is read by a layer that goes both ways.
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
    """Graphs whose nodes have labels in the field `label`, or in `labels` where there is no such field; None leaves
    them out."""
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
    """Graphs with a label each in the field `label`: a string, a number, or where several may be a list of strings."""
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
        raise Faulty("no nodes", "the graph has no nodes; give one at least")
    return Sentence(nodes, id=place, edges=as_edges(values.get(EDGES, []), len(nodes)))


def as_strings(values: Mapping[str, Any], field: str) -> tuple[str, ...]:
    found = values.get(field)
    if not isinstance(found, list) or not all(
        isinstance(each, (str, int)) and not isinstance(each, bool) for each in found
    ):
        what = "there is none" if field not in values else "it is none"
        raise Faulty(field, f'"{field}" must be a list of strings, and {what}')
    return tuple(map(str, found))


def as_edges(found: Any, num_nodes: int) -> NamedEdges:
    """(source, target, type) each; a type that is not given is "edge"."""
    edges = []
    for each in found if isinstance(found, Sequence) and not isinstance(found, str) else [found]:
        ends = list(each) if isinstance(each, (list, tuple)) else []
        if len(ends) not in (2, 3) or not all(isinstance(end, int) and not isinstance(end, bool) for end in ends[:2]):
            raise Faulty(
                "edge", f'an edge is [source, target, "type"], with nodes counted from 0, and {each!r} is none'
            )
        if not all(0 <= end < num_nodes for end in ends[:2]):
            raise Faulty("edge", f"the edge {ends} names no node; there are {num_nodes}, counted from 0")
        edges.append((ends[0], ends[1], str(ends[2]) if len(ends) == 3 else "edge"))
    return tuple(edges)


def graph_labels(values: Mapping[str, Any], field: str) -> tuple[str, ...]:
    found = values.get(field)
    if isinstance(found, list):
        return as_strings(values, field)
    if found is None or isinstance(found, (dict, bool)) or not str(found).strip():
        raise Faulty("no label", f'the graph has no label in "{field}"; data.label names its field')
    return (str(found).strip(),)
