"""Labels of whole graphs, and graphs from JSON lines: edges are read unchanged, and faults are reported."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from clew.cli.main import main
from clew.core.errors import UserError
from clew.core.graph_batches import GraphInputs
from clew.core.graphs import Graph
from clew.data.examples import LabelledGraph, Sentence
from clew.data.formats.graph_files import graphs_with_node_labels, labelled_graphs
from clew.data.notes import Notes
from clew.models import MODELS
from clew.recipes.running import run_recipe
from clew.sources.graph_nodes import EDGE_TYPES, GraphNodes
from clew.sources.tokens import Tokens
from clew.sources.words import WordReader
from clew.tasks.graph_classification import GraphClassificationConfig, GraphClassifier, train_graph_vocabularies
from clew.text.train import train_word

EXAMPLES = [
    LabelledGraph(Sentence(("a", "b"), id="g:1", edges=((0, 1, "to"),)), ("x",), "g:1"),
    LabelledGraph(Sentence(("b", "a", "c"), id="g:2", edges=((0, 1, "to"), (1, 2, "of"), (2, 0, "to"))), ("y",), "g:2"),
    LabelledGraph(Sentence(("c",), id="g:3", edges=()), ("x",), "g:3"),
]


def build(order="rounds", pooling="mean"):
    torch.manual_seed(0)
    config = GraphClassificationConfig(pooling=pooling)
    vocabularies = train_graph_vocabularies(lambda texts, specials: train_word(texts), False, EXAMPLES, config)
    family = MODELS["graph_lstm"]
    source = GraphNodes(Tokens(vocabularies["tokenizer"].vocabulary), len(vocabularies[EDGE_TYPES]) + 1)
    body = family.build(family.config(dim=6, layer={"name": "graph_lstm", "order": order}), source)
    return (
        GraphClassifier(
            body, WordReader(vocabularies["tokenizer"]), vocabularies["labels"], vocabularies[EDGE_TYPES], config
        )
        .double()
        .eval()
    )


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_logits_are_a_linear_map_of_each_graphs_pooled_vectors(pooling):
    task = build(pooling=pooling)
    together = task.logits(task.collate(task.encode(EXAMPLES))).detach().numpy()
    weight, bias = (part.detach().numpy() for part in (task.output.weight, task.output.bias))
    for row, example in enumerate(EXAMPLES):
        batch = task.collate(task.encode([example]))
        nodes = task.body(GraphInputs(batch.words, batch.mask, batch.graphs))[0][0].detach().numpy()
        total = [0.0] * 6 if pooling == "mean" else [-np.inf] * 6
        for node in nodes:
            total = [a + b / len(nodes) if pooling == "mean" else max(a, b) for a, b in zip(total, node, strict=True)]
        np.testing.assert_allclose(together[row], weight @ np.array(total) + bias, rtol=1e-5)


def test_edges_are_encoded_and_unknown_types_share_one_extra_number():
    task = build()
    assert task.types.names == ("of", "to")
    assert task.encode(EXAMPLES)[1].graph == Graph(3, ((0, 1, 1), (1, 2, 0), (2, 0, 1)))
    odd = EXAMPLES[0]._replace(graph=EXAMPLES[0].graph._replace(edges=((1, 0, "never"),)))
    assert task.encode([odd])[0].graph == Graph(2, ((1, 0, 2),))


def test_a_cycle_is_rejected_when_nodes_are_read_in_order_of_edges():
    with pytest.raises(
        UserError,
        match="g:2: the edges of this graph form a cycle, .* no order for the nodes; set model.layer.order=rounds",
    ):
        build(order="given").encode(EXAMPLES)


RIGHT = {"nodes": ["C", "O"], "edges": [[0, 1, "double"], [1, 0]], "labels": ["p", "q"], "label": "acid"}


def write_graphs(tmp_path: Path, *rows: dict) -> Path:
    path = tmp_path / "graphs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_json_lines_are_graphs_with_labels_of_nodes_or_graphs(tmp_path):
    path = write_graphs(tmp_path, RIGHT, {**RIGHT, "label": 3})
    one, other = labelled_graphs(path, "label", Notes())
    assert one.graph == Sentence(("C", "O"), id=f"{path}:1", edges=((0, 1, "double"), (1, 0, "edge")))
    assert (one.labels, other.labels) == (("acid",), ("3",))
    assert next(graphs_with_node_labels(path, "deprel", Notes())).tags == ("p", "q")
    assert next(graphs_with_node_labels(path, None, Notes())).tags is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": "CO"}, '"nodes" must be a list of strings, but it is not'),
        ({"nodes": []}, "the graph has no nodes; give at least one"),
        (
            {"edges": [[0, 2, "a"]]},
            r"the edge \[0, 2, 'a'\] has a node that does not exist; there are 2 nodes, counted from 0",
        ),
        (
            {"edges": [["C", "O"]]},
            r"an edge must be \[source, target, \"type\"\], with nodes counted from 0, but one is \['C', 'O'\]",
        ),
        ({"label": None}, 'the graph has no label in "label"; name its field with data.label=NAME'),
    ],
)
def test_faulty_graphs_are_rejected_with_a_sentence(tmp_path, change, sentence):
    path = write_graphs(tmp_path, {**RIGHT, **change})
    with pytest.raises(UserError, match=f"graphs.jsonl:1: {sentence}; fix it"):
        list(labelled_graphs(path, "label", Notes()))


def test_every_node_must_have_a_label(tmp_path):
    with pytest.raises(UserError, match="there are 2 nodes and 1 labels; give each node one"):
        list(graphs_with_node_labels(write_graphs(tmp_path, {**RIGHT, "labels": ["p"]}), "labels", Notes()))


def rings(tmp_path: Path) -> Path:
    """A file of graphs of random nodes, connected in a ring or in a chain."""
    draw = np.random.default_rng(1)
    rows = []
    for number in range(48):
        nodes = [str(node) for node in draw.choice(["C", "N", "O"], draw.integers(3, 6))]
        edges = [[node, node + 1, "bond"] for node in range(len(nodes) - 1)]
        closed = [[len(nodes) - 1, 0, "bond"]] if number % 2 else []
        rows.append({"nodes": nodes, "edges": edges + closed, "label": "ring" if number % 2 else "chain"})
    return write_graphs(tmp_path, *rows)


def test_rings_and_chains_are_classified_and_the_command_reads_json_lines(tmp_path, capsys):
    path = rings(tmp_path)
    settings = [
        f"data.train={path}",
        f"data.valid={path}",
        "model.dim=16",
        "model.embedding_dim=8",
        "model.layer.type_dim=0",
    ]
    steps = ["training.steps=150", "training.evaluate_every=50", "training.learning_rate=0.02", "device=cpu"]
    result = run_recipe("classify-graphs", [*settings, *steps], out=tmp_path / "run")
    assert result.valid.measures["accuracy"] > 95
    assert main(["predict", str(tmp_path / "run"), "--file", str(path)]) == 0
    labels = [line.split("\t")[0] for line in capsys.readouterr().out.strip().split("\n")]
    assert sum(a == b for a, b in zip(labels, ["chain", "ring"] * 24, strict=True)) >= 46
