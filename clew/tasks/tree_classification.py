"""Classes of trees: one for the whole sentence, at the root, and where the trees have them one for every node (Socher et al. 2013;
Tai et al. 2015)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.batches import to_device
from clew.core.config import Section
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.tree_batches import TreeBatch, TreeInputs, batch_trees
from clew.core.tree_nodes import Nodes, binary_nodes
from clew.core.types import State, Term
from clew.data.examples import LabelledTree
from clew.data.plans import batches_by_length
from clew.metrics.bootstrap import Interval
from clew.metrics.classification import Confusion, count_confusion
from clew.tasks.examples import ExampleTask
from clew.tasks.measures import Measured
from clew.tasks.sequence import TrainTokenizer
from clew.tasks.words import EncodedWords, WordReader, one_word_each
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

NONE = -1
"""The target of a node that has no label."""
BATCH = 8192
"""Nodes that are classified at a time."""


class TreeClassificationConfig(Section):
    """A class for the root of a tree, and where they have some for every node."""

    name: Literal["tree_classification"] = "tree_classification"
    nodes: Literal["all", "root"] = Field("all", description="what is trained on: every node that has a label, or the root alone")
    phrases: bool = Field(False, description="the names of phrases (NP) are read too, as words above the words")
    weights: dict[str, float] = Field({}, description="labels whose errors count more or less than 1, such as {rare: 5}")
    longest: int = Field(1000, ge=1, description="training trees with more nodes than this are left out, and counted")
    best: Literal["loss", "accuracy", "macro_f1"] = Field(
        "accuracy", description="the best evaluation is that of the lowest loss, or of the highest accuracy or macro F1 at the root"
    )


class EncodedTree(NamedTuple):
    """A tree as ids: of its words, those of its phrases behind them where these are read; which nodes hang where; their labels."""

    words: EncodedWords
    nodes: Nodes
    targets: list[int]


class LabelledTreeBatch(NamedTuple):
    words: Any  # (batch, words)
    mask: Tensor | None
    trees: TreeBatch
    targets: Tensor  # (batch, nodes)
    fresh: bool = True


@dataclass(frozen=True)
class ClassifiedTree:
    """A tree's label, how likely it is, how likely every label is, and the label of each of its nodes, words first."""

    label: str
    probability: float
    probabilities: dict[str, float]
    nodes: tuple[str, ...]


class TreeClassifier(ExampleTask):
    """p(label | node) = softmax(W h_node + b), trained on the sum of -log p over all nodes that have a label."""

    needs = ("trees",)

    def __init__(self, body: Any, reader: WordReader, labels: Labels, config: TreeClassificationConfig | None = None):
        super().__init__()
        self.body = body
        if not reader.is_whole:
            raise UserError("a node of a tree has a whole word, and this tokenizer cuts words; set text.tokenizer=word")
        self.reader = reader
        self.labels = labels
        self.config = config or TreeClassificationConfig()
        self.output = nn.Linear(body.dim, labels.vocabulary)
        for label in self.config.weights:
            labels.id(label, "task.weights")

    def forward(self, batch: LabelledTreeBatch, state: State = None) -> tuple[dict[str, Term], State]:
        is_labelled = batch.targets != NONE
        logits, targets = self.output(self.hidden(batch)[is_labelled]), batch.targets[is_labelled]
        weights = logits.new_tensor(self.weights) if self.config.weights else None
        loss = F.cross_entropy(logits.float(), targets, weights, reduction="sum")
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: LabelledTreeBatch) -> dict[str, Tensor]:
        """How many labels the loss adds over, each by its weight, from the batch alone."""
        is_labelled = batch.targets != NONE
        if not self.config.weights:
            return {"loss": is_labelled.sum()}
        return {"loss": torch.tensor(self.weights, device=batch.targets.device)[batch.targets[is_labelled]].sum()}

    def hidden(self, batch: LabelledTreeBatch) -> Tensor:
        """A vector a node (batch, nodes, dim)."""
        return self.body(TreeInputs(batch.words, batch.mask, batch.trees))[0]

    @cached_property
    def weights(self) -> list[float]:
        return [self.config.weights.get(label, 1.0) for label in self.labels.names]

    def encode(self, examples: Sequence[LabelledTree]) -> list[EncodedTree]:
        encoded = self.encode_trees(examples)
        return [tree._replace(targets=self.targets(example, tree)) for example, tree in zip(examples, encoded, strict=True)]

    def encode_trees(self, examples: Sequence[LabelledTree]) -> list[EncodedTree]:
        """Trees to classify, without labels. Where the body bounds the children of a node, trees are made binary."""
        words = self.reader.encode([read_words(example, self.config) for example in examples])
        shapes = [self.fitting(example.nodes) for example in examples]
        return [EncodedTree(ids, nodes, [NONE] * len(nodes.parents)) for ids, nodes in zip(words, shapes, strict=True)]

    def fitting(self, nodes: Nodes) -> Nodes:
        most = self.body.max_children
        return nodes if most is None or max(nodes.slots) < most else binary_nodes(nodes)

    def targets(self, example: LabelledTree, tree: EncodedTree) -> list[int]:
        """Of every node, those that a binary tree has more among them."""
        trained = range(len(example.labels)) if self.config.nodes == "all" else [example.root]
        targets = [NONE] * len(tree.nodes.parents)
        for node in trained:
            label = example.labels[node]
            if label is not None:
                targets[node] = self.labels.id(label, example.id)
        return targets

    def lengths(self, tree: EncodedTree) -> tuple[int]:
        return (len(tree.nodes.parents),)

    @property
    def longest(self) -> int:
        return self.config.longest

    def check_length(self, tree: EncodedTree, place: str) -> None:
        """Trees of any size can be read."""

    def collate(self, examples: Sequence[EncodedTree]) -> LabelledTreeBatch:
        words = self.reader.collate([tree.words for tree in examples])
        trees = batch_trees([tree.nodes for tree in examples])
        size = trees.depths.shape[1]
        targets = torch.tensor([[*tree.targets, *[NONE] * (size - len(tree.targets))] for tree in examples])
        return LabelledTreeBatch(words.inputs, words.mask, trees, targets)

    @torch.no_grad()
    def predict(self, batch: LabelledTreeBatch, config: Any = None, seed: int = 0, row_numbers: Any = None) -> list[dict[str, Any]]:
        """Of each tree the probability of every label at the root, and every node's likeliest label, as numbers."""
        log_probs = self.output(self.hidden(batch)).float().log_softmax(-1)  # (batch, nodes, labels)
        roots = log_probs[batch.trees.roots].exp().tolist()
        nodes, sizes = log_probs.argmax(-1).tolist(), batch.trees.mask.sum(1).tolist()
        return [
            {"probabilities": probabilities, "nodes": labels[:size]}
            for probabilities, labels, size in zip(roots, nodes, sizes, strict=True)
        ]

    def classified(self, example: LabelledTree, prediction: dict[str, Any]) -> ClassifiedTree:
        probabilities = dict(zip(self.labels.names, prediction["probabilities"], strict=True))
        label = max(probabilities, key=probabilities.__getitem__)
        nodes = tuple(self.labels.names[id] for id in prediction["nodes"][: len(example.labels)])
        return ClassifiedTree(label, probabilities[label], probabilities, nodes)

    def classify(self, examples: Sequence[LabelledTree]) -> list[ClassifiedTree]:
        """The labels of trees, whose own do not matter."""
        encoded = self.encode_trees(examples)
        device = next(self.parameters()).device
        found: dict[int, ClassifiedTree] = {}
        with evaluating([self]):
            for rows in batches_by_length(np.array([self.lengths(tree) for tree in encoded]).reshape(-1, 1), BATCH):
                batch = to_device(self.collate([encoded[row] for row in rows]), device)
                for row, prediction in zip(rows, self.predict(batch), strict=True):
                    found[row] = self.classified(examples[row], prediction)
        return [found[row] for row in range(len(examples))]

    def measure(self, examples: Sequence[LabelledTree], predictions: Sequence[dict[str, Any]]) -> Measured:
        """Accuracy and macro F1 at the root, and accuracy over all nodes where others have labels too."""
        roots = self.confusion(examples, predictions)
        values = {"accuracy": 100 * roots.accuracy, "macro_f1": 100 * roots.macro_f1}
        text = f"accuracy {values['accuracy']:.2f}, macro F1 {values['macro_f1']:.2f} at the root"
        if self.config.nodes == "all" and any(has_inner_labels(example) for example in examples):
            pairs = [
                (gold, label)
                for example, prediction in zip(examples, predictions, strict=True)
                for gold, label in zip(example.labels, self.classified(example, prediction).nodes, strict=True)
                if gold is not None
            ]
            values["node_accuracy"] = 100 * sum(gold == label for gold, label in pairs) / len(pairs)
            text += f", accuracy {values['node_accuracy']:.2f} over all {len(pairs):,} nodes"
        return Measured(values, text)

    def confusion(self, examples: Sequence[LabelledTree], predictions: Sequence[dict[str, Any]]) -> Confusion:
        """At the root."""
        found = [self.classified(*pair).label for pair in zip(examples, predictions, strict=True)]
        return count_confusion([example.label for example in examples], found, self.labels.names)

    def intervals(self, examples: Sequence[LabelledTree], predictions: Sequence[dict[str, Any]]) -> dict[str, Interval]:
        """What each measure at the root would be on other trees of the same kind."""
        roots = self.confusion(examples, predictions)
        return {name: roots.interval(name).times(100) for name in ("accuracy", "macro_f1")}

    def report(self, examples: Sequence[LabelledTree], predictions: Sequence[dict[str, Any]]) -> tuple[str, str]:
        """A line a label, and which labels were taken for which."""
        roots = self.confusion(examples, predictions)
        return roots.describe().partition("\n")[2], roots.table()

    @property
    def best(self) -> str:
        return self.config.best

    def described(self, example: LabelledTree, prediction: dict[str, Any]) -> dict[str, str]:
        found = self.classified(example, prediction)
        return {"source": example.key, "target": example.label, "prediction": found.label, "probability": f"{found.probability:.4f}"}

    def sentence_scores(self, examples: Sequence[LabelledTree], predictions: Sequence[dict[str, Any]]) -> list[float]:
        return [100.0 * (self.classified(*pair).label == pair[0].label) for pair in zip(examples, predictions, strict=True)]


def has_inner_labels(example: LabelledTree) -> bool:
    """Whether other nodes than the root have labels."""
    return any(label is not None for node, label in enumerate(example.labels) if node != example.root)


def read_words(example: LabelledTree, config: TreeClassificationConfig) -> Sequence[str]:
    """The words, and the names of the phrases behind them where they are read: `(NP` is no word of any tree."""
    if not config.phrases:
        return example.words
    if len(example.words) + len(example.phrases) != len(example.labels):
        raise UserError(
            f"{example.id}: task.phrases=true reads the names of phrases, and this tree has none besides the labels that are to be found; "
            "leave it out"
        )
    return [*example.words, *(f"({name}" for name in example.phrases)]


def train_tree_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledTree], config: TreeClassificationConfig
) -> dict[str, Any]:
    """A tokenizer of words, and the labels of the nodes that are trained on."""
    labels = [label for example in examples for label in (example.labels if config.nodes == "all" else [example.label])]
    texts = [one_word_each(read_words(example, config)) for example in examples]
    return {"tokenizer": train(texts, []), "labels": Labels.of(label for label in labels if label is not None)}


def build_tree_classifier(body: Any, vocabularies: dict[str, Any], config: TreeClassificationConfig) -> TreeClassifier:
    return TreeClassifier(body, WordReader.of(body, vocabularies), vocabularies["labels"], config)


LABELS = {"tokenizer": Tokenizer, "labels": Labels}
