import math

import pytest
import torch

from clew.core.errors import UserError
from clew.core.tree_nodes import Nodes, head_nodes, phrase_nodes
from clew.data.examples import LabelledTree, Parsed, Sentence
from clew.data.formats.tree_files import labelled_nodes
from clew.data.notes import Notes
from clew.data.syntax.labelled_trees import unlabelled
from clew.data.syntax.trees import parse_tree
from clew.models.tree_lstm import TreeLSTMConfig, build_tree_lstm
from clew.runs.config import TrainingConfig
from clew.sources.tokens import Tokens
from clew.sources.words import WordReader
from clew.tasks.learning import Encoding
from clew.tasks.tree_classification import (
    TREE_CLASSIFICATION,
    TreeClassificationConfig,
    TreeClassifier,
    train_tree_vocabularies,
)
from clew.text.train import train_character, train_word

TEXTS = ["(3 (2 A) (4 (3 lovely) (2 film)))", "(0 (1 bad) (2 film))", "(2 (2 A) (2 film) (2 .))", "(1 (1 bad))"]


def trees(texts=TEXTS):
    return list(
        labelled_nodes((Parsed(parse_tree(text), f"f:{line}") for line, text in enumerate(texts, start=1)), Notes())
    )


def build(examples, layer="n_ary_lstm", dim=8, **settings):
    torch.manual_seed(0)
    config = TreeClassificationConfig(**settings)
    vocabularies = train_tree_vocabularies(lambda texts, specials: train_word(texts), False, examples, config)
    body = build_tree_lstm(TreeLSTMConfig(dim=dim, layer=layer), Tokens(vocabularies["tokenizer"].vocabulary))
    return TreeClassifier(body, WordReader(vocabularies["tokenizer"]), vocabularies["labels"], config)


def test_the_loss_is_over_all_labelled_nodes_or_the_roots():
    for nodes, count in (("all", 14), ("root", 4)):
        task = build(trees(), nodes=nodes)
        batch = task.collate(task.encode(trees()))
        torch.nn.init.zeros_(task.output.weight)
        torch.nn.init.zeros_(task.output.bias)
        loss = task(batch)[0]["loss"]
        assert int(loss.count) == count == int(task.counts(batch)["loss"])
        assert float(loss.sum.detach() / loss.count) == pytest.approx(math.log(len(task.labels)), abs=1e-5)
    assert build(trees(), nodes="root").labels.names == ("0", "1", "2", "3")


def test_nodes_added_by_binarisation_have_no_label():
    """(2 A film .) is binarised as ((A film) .)."""
    task = build(trees())
    encoded = task.encode(trees())[2]
    assert encoded.nodes == Nodes((4, 4, 3, -1, 3), (0, 1, 1, 0, 0))
    assert encoded.targets == [2, 2, 2, 2, -1]
    assert build(trees(), "child_sum_lstm").encode(trees())[2].nodes.parents == (3, 3, 3, -1)


def test_a_node_without_a_label_costs_nothing():
    example = trees()[0]
    task = build(trees())
    losses = []
    for labels in (example.labels, (None, *example.labels[1:])):
        term = task(task.collate(task.encode([example._replace(labels=labels)])))[0]["loss"]
        losses.append((float(term.sum.detach()), int(term.count)))
    log_probs = task.output(task.hidden(task.collate(task.encode([example])))).log_softmax(-1)
    assert losses[0][0] - losses[1][0] == pytest.approx(-float(log_probs.detach()[0, 0, task.labels.id("2")]), abs=1e-5)
    assert (losses[0][1], losses[1][1]) == (5, 4)


def test_class_weights_scale_the_cost_of_labels():
    plain, weighted = build(trees()), build(trees(), class_weights={"0": 3.0})
    weighted.prepare(weighted.encode(trees()))
    batch = plain.collate(plain.encode([trees()[1]]))
    log_probs = plain.output(plain.hidden(batch)).log_softmax(-1)[0]
    costs = [-float(log_probs.detach()[node, label]) for node, label in enumerate(batch.targets[0])]
    term = weighted(batch)[0]["loss"]
    assert float(term.sum.detach()) == pytest.approx(costs[0] + costs[1] + 3 * costs[2], rel=1e-5)
    assert float(term.count) == float(weighted.counts(batch)["loss"]) == 5.0
    balanced = build(trees(), class_weights="balanced")
    balanced.prepare(balanced.encode(trees()))
    shares = [sum(tree.labels.count(name) for tree in trees()) for name in balanced.labels.names]
    assert balanced.answer.class_weights.tolist() == pytest.approx([14 / (5 * share) for share in shares])


@pytest.mark.parametrize("layer", ["child_sum_lstm", "n_ary_lstm"])
def test_a_few_trees_are_memorised(layer):
    task = build(trees(), layer, dim=16)
    batch = task.collate(task.encode(trees()))
    optimiser = torch.optim.Adam(task.parameters(), lr=0.02)
    for _ in range(80):
        loss = task(batch)[0]["loss"]
        optimiser.zero_grad()
        loss.sum.backward()
        optimiser.step()
    predictions = task.predict(batch)
    measured = task.measure(trees(), predictions)
    assert [measured.values[name] for name in ("accuracy", "macro_f1", "matthews", "node_accuracy")] == [100.0] * 4
    assert measured.text.endswith(" at the root, accuracy 100.00 over all 14 nodes")
    assert set(task.intervals(trees(), predictions)) >= {"accuracy", "macro_f1"}
    assert task.sentence_scores(trees(), predictions) == [100.0] * 4
    classified = task.classify([unlabelled(text, "") for text in TEXTS])
    assert [tree.label for tree in classified] == ["3", "0", "2", "1"]
    assert [tree.nodes for tree in classified] == [tree.labels for tree in trees()]
    assert sum(classified[0].probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert classified[0].probabilities["3"] > 0.5
    assert task.described(trees()[0], predictions[0]) | {"gold_probability": 1} == {
        "source": "A lovely film",
        "target": "3",
        "prediction": "3",
        "gold_probability": 1,
        "tree": TEXTS[0],
    }


def test_dependency_trees_are_classified_with_both_layers():
    example = LabelledTree(
        ("He", "has", "good", "big", "control"), head_nodes([2, 0, 5, 5, 2]), (None, "decl", None, None, None), id="x"
    )
    for layer in ("child_sum_lstm", "n_ary_lstm"):
        task = build([example, example._replace(labels=(None, "q", None, None, None))], layer)
        batch = task.collate(task.encode([example]))
        assert batch.targets[0].tolist() == [-1, 0, -1, -1, -1]
        assert batch.trees.roots[0].tolist() == [False, True, False, False, False]
        assert task.classify([example])[0].label in ("decl", "q")
        assert "node_accuracy" not in task.measure([example], task.predict(batch)).values


def test_phrase_labels_are_read_as_words_on_request():
    tree = parse_tree("(S (NP (PRP it)) (VP (VBZ rains)))")
    _, shape = phrase_nodes(tree)
    example = LabelledTree(("it", "rains"), shape, (None, None, None, None, "decl"), ("NP", "VP", "S"), "x")
    examples = [example, example._replace(labels=(None, None, None, None, "q"))]
    task = build(examples, phrases=True)
    ids = task.encode([example])[0].words.tokens
    assert [task.reader.tokenizer.token(id) for id in ids] == ["it", "rains", "(NP", "(VP", "(S"]
    assert len(build(examples).encode([example])[0].words.tokens) == 2
    with pytest.raises(
        UserError,
        match="f:1: task.phrases=true reads the names of phrases, and this tree has none besides the labels"
        " to predict; leave task.phrases out",
    ):
        build(trees(), phrases=True)


def test_invalid_data_and_settings_are_rejected_with_a_sentence():
    task = build(trees())
    with pytest.raises(UserError, match="every label of the training part is '2', so there is nothing to tell apart"):
        build(trees(["(2 (2 a) (2 film))"]))
    for part, to_train in ((["(7 film)"], False), (["(2 a)", "(7 film)"], True)):
        with pytest.raises(UserError, match=f"f:{len(part)}: unknown label '7'"):
            TREE_CLASSIFICATION.learns.encode(task, trees(part), Encoding("test", TrainingConfig(), to_train=to_train))
    with pytest.raises(
        UserError, match="each leaf of a tree is a whole word, and this tokenizer splits words; set text.tokenizer=word"
    ):
        TreeClassifier(task.body, WordReader(train_character(["ab"])), task.labels)
    for text, sentence in (
        ("(3 (2 a)", "tree 4: the tree that begins here is not closed"),
        ("(2 a) (2 b)", "tree 4: expected 1 tree, found 2; put each on its own line"),
        ("a b", "tree 4: 'a' is outside all brackets"),
    ):
        with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
            unlabelled(text, "tree 4")
    with pytest.raises(
        UserError,
        match="tree 4: a dependency tree needs a head for each of its words, and exactly one head 0, the root",
    ):
        unlabelled(Sentence(("it", "rains"), heads=(0, 0)), "tree 4")
