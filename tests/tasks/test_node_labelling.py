import math

import pytest
import torch

from clew.core.errors import UserError
from clew.core.graphs import Graph
from clew.data.examples import Sentence
from clew.models import MODELS
from clew.runs.config import TrainingConfig
from clew.sources.graph_nodes import EDGE_TYPES, GraphNodes
from clew.sources.tokens import Tokens
from clew.sources.words import WordReader
from clew.tasks.learning import Encoding
from clew.tasks.node_labelling import (
    NODE_LABELLING,
    GraphRow,
    NodeLabeller,
    NodeLabellingConfig,
    train_node_vocabularies,
)
from clew.text.train import train_character, train_word

EXAMPLES = [
    Sentence(("dogs", "see", "cats"), ("nsubj", "root", "obj"), (2, 0, 2), ("nsubj", "root", "obj"), "f:1"),
    Sentence(
        ("cats", "see", "dogs", "run"),
        ("nsubj", "root", "nsubj", "ccomp"),
        (2, 0, 4, 2),
        ("nsubj", "root", "nsubj", "ccomp"),
        "f:5",
    ),
    Sentence(("run",), ("root",), (0,), ("root",), "f:10"),
]
GRAPHS = {"family": "graph_lstm", "dim": 8, "layer": {"name": "graph_lstm", "both_ways": True}}
CHAIN = {"family": "recurrent", "dim": 8, "bidirectional": True}


def build(model=GRAPHS, examples=EXAMPLES, **settings):
    torch.manual_seed(0)
    config = NodeLabellingConfig(**settings)
    vocabularies = train_node_vocabularies(lambda texts, specials: train_word(texts), False, examples, config)
    family = MODELS[model["family"]]
    body = family.build(
        family.config(**model),
        GraphNodes(Tokens(vocabularies["tokenizer"].vocabulary), len(vocabularies[EDGE_TYPES]) + 1),
    )
    return NodeLabeller(
        body, WordReader(vocabularies["tokenizer"]), vocabularies["labels"], vocabularies[EDGE_TYPES], config
    )


@pytest.mark.parametrize("model", [GRAPHS, CHAIN], ids=lambda model: model["family"])
def test_the_loss_is_over_all_words_and_starts_at_that_of_uniform_guessing(model):
    task = build(model)
    batch = task.collate(task.encode(EXAMPLES))
    torch.nn.init.zeros_(task.output.weight)
    torch.nn.init.zeros_(task.output.bias)
    loss = task(batch)[0]["loss"]
    assert int(loss.count) == int(task.counts(batch)["loss"]) == 8
    assert float(loss.sum.detach() / loss.count) == pytest.approx(math.log(4), abs=1e-5)
    assert [count for _, count in task.row_losses(batch)] == [3, 4, 1]
    assert sum(loss for loss, _ in task.row_losses(batch)) == pytest.approx(8 * math.log(4), abs=1e-5)


def test_labels_missing_in_the_training_part_cost_nothing():
    task = build()
    odd = EXAMPLES[0]._replace(tags=("nsubj", "root", "vocative"))
    batch = task.collate(task.encode([odd]))
    assert int(task.counts(batch)["loss"]) == 2
    torch.testing.assert_close(
        task(batch)[0]["loss"].sum, task.losses(task.collate(task.encode(EXAMPLES[:1])))[0, :2].sum()
    )
    assert task.measure([odd], [["nsubj", "root", "obj"]]).values["accuracy"] == pytest.approx(200 / 3)


def test_the_requested_edges_are_encoded():
    assert build().types.names == ("down", "next", "up")
    assert build().encode(EXAMPLES)[0].graph == Graph(3, ((0, 1, 1), (1, 2, 1), (0, 1, 2), (1, 2, 0)))
    task = build({**GRAPHS, "layer": {"name": "graph_lstm", "order": "rounds"}}, edges=["down"])
    assert task.types.names == ("down",) and task.body.num_types == 2
    assert task.encode(EXAMPLES)[0].graph == Graph(3, ((1, 0, 0), (1, 2, 0)))
    upos = [example._replace(tags=("X", "Y", "X", "Y")[: len(example.words)]) for example in EXAMPLES]
    named = build(examples=upos, relations=True)
    assert named.types.names == ("down:ccomp", "down:obj", "next", "up:nsubj")


def test_unknown_relations_are_read_as_the_unknown_type():
    upos = [example._replace(tags=("X", "Y", "X", "Y")[: len(example.words)]) for example in EXAMPLES]
    task = build(examples=upos, relations=True)
    odd = upos[0]._replace(relations=("vocative", "root", "obj"))
    assert [type for _, _, type in task.encode([odd])[0].graph.edges] == [2, 2, 4, 1]
    assert len(task.label([odd])[0]) == 3


@pytest.mark.parametrize("model", [GRAPHS, CHAIN], ids=lambda model: model["family"])
def test_a_few_sentences_are_memorised(model):
    task = build(model)
    batch = task.collate(task.encode(EXAMPLES))
    optimiser = torch.optim.Adam(task.parameters(), lr=0.05)
    for _ in range(40):
        loss = task(batch)[0]["loss"]
        optimiser.zero_grad()
        loss.sum.backward()
        optimiser.step()
    predictions = task.predict(batch)
    assert predictions == [list(example.tags) for example in EXAMPLES]
    assert task.measure(EXAMPLES, predictions).values == {"accuracy": 100.0}
    assert task.intervals(EXAMPLES, predictions)["accuracy"].low == 100.0
    assert task.sentence_scores(EXAMPLES, predictions) == [100.0] * 3
    labels = task.label([EXAMPLES[2], Sentence(()), EXAMPLES[0]])
    assert [[label for label, _ in each] for each in labels] == [["root"], [], ["nsubj", "root", "obj"]]
    assert all(0.5 < share <= 1 for each in labels for _, share in each)


def test_only_models_that_read_the_graph_distinguish_graphs_of_equal_words():
    """(a (b c)) and ((a b) c): only the heads say which word is the root."""
    sentences = [
        Sentence(("a", "b", "c"), ("root", "dep", "dep"), (0, 1, 2), ("root", "dep", "dep"), "f:1"),
        Sentence(("a", "b", "c"), ("dep", "dep", "root"), (2, 3, 0), ("dep", "dep", "root"), "f:5"),
    ]
    reached = {}
    for model in (GRAPHS, CHAIN):
        task = build(model, sentences)
        batch = task.collate(task.encode(sentences))
        optimiser = torch.optim.Adam(task.parameters(), lr=0.05)
        for _ in range(40):
            optimiser.zero_grad()
            task(batch)[0]["loss"].sum.backward()
            optimiser.step()
        reached[model["family"]] = task.measure(sentences, task.predict(batch)).values["accuracy"]
    assert reached == {"graph_lstm": 100.0, "recurrent": pytest.approx(400 / 6)}


def test_wrong_labels_are_described():
    task = build()
    prediction = ["nsubj", "root", "nsubj"]
    assert task.described(EXAMPLES[0], prediction) == {
        "source": "dogs see cats",
        "target": "nsubj root obj",
        "prediction": "nsubj root nsubj",
        "wrong": [{"word": 3, "gold": "obj", "predicted": "nsubj"}],
    }
    lines, confusion = task.report(EXAMPLES[:1], [prediction])
    assert "obj" in lines and "nsubj" in confusion


def test_a_row_restores_its_sentence():
    sentence = EXAMPLES[0]._replace(tags=None, id="sentence 1", deps=(((2, "nsubj"),), ((0, "root"),), ((2, "obj"),)))
    assert GraphRow.of(sentence).sentence("sentence 1") == sentence
    assert GraphRow(text="dogs see cats").sentence("x") == Sentence(("dogs", "see", "cats"), id="x")


def test_invalid_data_and_settings_are_rejected_with_a_sentence():
    task = build()
    with pytest.raises(
        UserError,
        match="every word of the training part has the label 'root', so there is nothing to tell apart; check",
    ):
        build(examples=[EXAMPLES[2]])
    with pytest.raises(
        UserError, match="task.relations=true puts the relations to predict into the input; set task.relations=false"
    ):
        build(relations=True)
    with pytest.raises(UserError, match="f:1: the words have no DEPS, so there is no enhanced graph"):
        build(graph="enhanced")
    with pytest.raises(UserError, match="f:1, word 3: unknown label 'vocative'"):
        odd = EXAMPLES[0]._replace(tags=("nsubj", "root", "vocative"))
        NODE_LABELLING.learns.encode(task, [odd], Encoding("train", TrainingConfig(), to_train=True))
    with pytest.raises(
        UserError,
        match="each node of a graph is a whole word, and this tokenizer splits words; set text.tokenizer=word",
    ):
        NodeLabeller(task.body, WordReader(train_character(["ab"])), task.labels, task.types)
    with pytest.raises(UserError, match="sentence 4: the words have no heads, so there is no graph"):
        task.label([Sentence(("run",), id="sentence 4")])
    assert build(CHAIN).label([Sentence(("run",), id="sentence 4")])[0]  # which needs no graph
    for row, sentence in (
        (GraphRow(text="a b", heads=[0]), "s: expected a value for each of the 2 words, found 1 heads"),
        (
            GraphRow(text="a b", heads=[0, 3]),
            "s: the head 3 is not a word: heads are from 1 to 2, or 0 for the root",
        ),
    ):
        with pytest.raises(UserError, match=sentence):
            row.sentence("s")
    with pytest.raises(
        UserError,
        match="f:1: the edges of this sentence form a cycle, so a body that reads along the edges has no order",
    ):
        build(edges=["up", "down"]).encode(EXAMPLES)
    with pytest.raises(
        UserError,
        match="a node labeller cannot be exported, because every graph has a different structure; label with",
    ):
        task.programs()
