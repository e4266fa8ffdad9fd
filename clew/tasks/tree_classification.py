"""Tree classification: a label for the whole sentence, at the root, and for every node if the data has labels for them
(Socher et al. 2013; Tai et al. 2015)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from clew.baselines.label_baselines import tree_label_baselines
from clew.core.batches import to_device
from clew.core.config import Section, TaskSection
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.tree_batches import TreeBatch, TreeInputs, batch_trees
from clew.core.tree_nodes import Nodes, binary_nodes
from clew.core.types import State, Term
from clew.core.wording import call
from clew.data.examples import Labelled, LabelledTree, Sentence
from clew.data.formats import find_format, format_by_name
from clew.data.kinds.labelled_trees import LABELLED_TREES
from clew.data.plans import batches_by_length
from clew.data.readers import read_sentences
from clew.data.syntax.labelled_trees import as_brackets, unlabelled
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import Measured
from clew.metrics.statistics import Statistics, share_of
from clew.sources.words import EncodedWords, WordReader, one_word_each
from clew.tasks.classification import CLASSIFY, Classified, class_confidence, classified_objects
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.offers import Judged, ModelInput
from clew.tasks.shared.reading import no_text
from clew.tasks.use import Options, Use, Watch, tokens_read
from clew.tasks.uses.answers import ClassWeights, OneLabel, Prediction
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
from clew.text.train import Texts

NONE = -1
"""The target of a node that has no label."""
BATCH = 8192
"""Nodes classified at a time."""


class TreeClassificationConfig(TaskSection):
    """A label for the root of a tree, and for every node if the data has labels for them."""

    name: Literal["tree_classification"] = "tree_classification"
    nodes: Literal["all", "root"] = Field(
        "all", description="train on every node that has a label, or only on the root"
    )
    phrases: bool = Field(False, description="also read the names of phrases (NP), as the words of inner nodes")
    class_weights: ClassWeights = Field(
        "none",
        description=(
            "the weight of a node in the loss: none: all the same; balanced: such that every label has the same total;"
            " or a number for each label"
        ),
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="the share of a target that training spreads over the labels"
    )
    calibrate: bool = Field(
        True, description="calibrate the root's probabilities by a temperature, fitted on the validation part"
    )
    longest: int = Field(1000, ge=1, description="training trees with more nodes than this are left out, and counted")
    best: Literal["accuracy", "macro_f1", "matthews", "loss"] = Field(
        "accuracy",
        description="what selects the best checkpoint: the highest value of a metric at the root, or the lowest loss",
    )


class EncodedTree(NamedTuple):
    """A tree as ids: its words, followed by the names of its phrases if these are read; its nodes; and their labels."""

    words: EncodedWords
    nodes: Nodes
    targets: list[int]


class LabelledTreeBatch(NamedTuple):
    words: Any  # (batch, words)
    mask: Tensor | None
    trees: TreeBatch
    targets: Tensor  # (batch, nodes)
    fresh: bool = True


@dataclass(frozen=True, repr=False)
class ClassifiedTree(Classified):
    """The prediction for a tree, and the most probable label of each node, words first."""

    nodes: tuple[str, ...] = ()

    def more(self) -> dict[str, Any]:
        return {"nodes": self.nodes}


class TreeClassifier(ExampleTask):
    """logits = W h_node + b, trained on all nodes that have a label. The root's label is that of the tree."""

    needs = ("trees",)
    text_name = "tree"
    sample = "(S (NP (DT The) (NN thread)) (VP (VBD was) (ADJP (JJ red))))"

    def __init__(self, body: Any, reader: WordReader, labels: Labels, config: TreeClassificationConfig | None = None):
        super().__init__()
        if not reader.is_whole:
            raise UserError(
                "each leaf of a tree is a whole word, and this tokenizer splits words; set text.tokenizer=word"
            )
        self.config = config = config or TreeClassificationConfig()
        self.body = body
        self.reader = reader
        self.labels = labels
        self.answer = OneLabel(
            labels,
            class_weights=config.class_weights,
            label_smoothing=config.label_smoothing,
            calibrate=config.calibrate,
        )
        self.output = nn.Linear(body.dim, len(labels))

    def forward(self, batch: LabelledTreeBatch, state: State = None) -> tuple[dict[str, Term], State]:
        logits = self.output(self.hidden(batch)[batch.targets != NONE]).float()
        return {"loss": Term(self.answer.loss(logits, self.rows(batch.targets)), self.counts(batch)["loss"])}, None

    def counts(self, batch: LabelledTreeBatch) -> dict[str, Tensor]:
        """Return the total weight of the labelled nodes."""
        return {"loss": self.answer.count(self.rows(batch.targets))}

    def rows(self, targets: Tensor) -> Tensor:
        """Return the one-hot labels (nodes, labels) of the nodes that have one."""
        return F.one_hot(targets[targets != NONE], len(self.labels)).to(self.output.weight.dtype)

    def hidden(self, batch: LabelledTreeBatch) -> Tensor:
        """Return a vector for every node (batch, nodes, dim)."""
        hidden: Tensor = self.body(TreeInputs(batch.words, batch.mask, batch.trees))[0]
        return hidden

    def prepare(self, encoded: Sequence[EncodedTree]) -> None:
        self.answer.prepare(lambda: self.rows(torch.tensor([target for tree in encoded for target in tree.targets])))

    def settle(self, batches: Iterable[tuple[Sequence[LabelledTree], LabelledTreeBatch]]) -> bool:
        with evaluating([self]):
            roots = [
                (
                    self.output(self.hidden(batch)[batch.trees.roots]).float().cpu(),
                    batch.targets[batch.trees.roots].cpu(),
                )
                for _, batch in batches
            ]
        logits, targets = (torch.cat(sides) for sides in zip(*roots, strict=True))
        known = targets != NONE
        is_changed = bool(known.any()) and self.answer.settle(logits[known], self.rows(targets))
        self.settled = self.answer.settled
        return is_changed

    def encode(self, examples: Sequence[LabelledTree]) -> list[EncodedTree]:
        encoded = self.encode_trees(examples)
        return [
            tree._replace(targets=self.targets(example, tree)) for example, tree in zip(examples, encoded, strict=True)
        ]

    def encode_trees(self, examples: Sequence[LabelledTree]) -> list[EncodedTree]:
        """Encode trees, without labels. Trees with more children than the body allows are made binary."""
        words = self.reader.encode([read_words(example, self.config) for example in examples])
        shapes = [self.fitting(example.nodes) for example in examples]
        return [EncodedTree(ids, nodes, [NONE] * len(nodes.parents)) for ids, nodes in zip(words, shapes, strict=True)]

    def fitting(self, nodes: Nodes) -> Nodes:
        max_children = self.body.max_children
        return nodes if max_children is None or max(nodes.slots) < max_children else binary_nodes(nodes)

    def targets(self, example: LabelledTree, tree: EncodedTree) -> list[int]:
        """Return the target of every node, including nodes that were added to make the tree binary."""
        targets = [NONE] * len(tree.nodes.parents)
        for node in self.trained_nodes(example):
            label = example.labels[node]
            if label is not None and label in self.labels:
                targets[node] = self.labels.id(label)
        return targets

    def trained_nodes(self, example: LabelledTree) -> Sequence[int]:
        return range(len(example.labels)) if self.config.nodes == "all" else [example.root]

    def label_table(self) -> Labels:
        return self.labels

    def gold_labels(self, example: LabelledTree) -> Iterator[tuple[str, str]]:
        return (
            (label, example.id) for node in self.trained_nodes(example) if (label := example.labels[node]) is not None
        )

    def lengths(self, tree: EncodedTree) -> tuple[int]:
        return (len(tree.nodes.parents),)

    @property
    def longest(self) -> int:
        return self.config.longest

    def check_length(self, tree: EncodedTree, place: str) -> None:
        """Do nothing: trees may have any size."""

    def collate(self, examples: Sequence[EncodedTree]) -> LabelledTreeBatch:
        words = self.reader.collate([tree.words for tree in examples])
        trees = batch_trees([tree.nodes for tree in examples])
        size = trees.depths.shape[1]
        targets = torch.tensor([[*tree.targets, *[NONE] * (size - len(tree.targets))] for tree in examples])
        return LabelledTreeBatch(words.inputs, words.mask, trees, targets)

    @torch.no_grad()
    def predict(
        self, batch: LabelledTreeBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None
    ) -> list[dict[str, Any]]:
        """Return the prediction for each root, and the id of every node's most probable label."""
        logits = self.output(self.hidden(batch)).float()  # (batch, nodes, labels)
        roots, nodes, sizes = (
            self.answer.predictions(logits[batch.trees.roots]),
            logits.argmax(-1).tolist(),
            batch.trees.mask.sum(1).tolist(),
        )
        return [{**root, "nodes": labels[:size]} for root, labels, size in zip(roots, nodes, sizes, strict=True)]

    def classify(self, examples: Sequence[LabelledTree]) -> list[ClassifiedTree]:
        """Classify trees; labels of the examples are ignored."""
        encoded = self.encode_trees(examples)
        lengths = np.array([self.lengths(tree) for tree in encoded]).reshape(-1, 1)
        predictions: dict[int, Prediction] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                predictions |= dict(zip(rows, self.predict(batch), strict=True))
        return [self.classified(example, predictions[row]) for row, example in enumerate(examples)]

    def classified(self, example: LabelledTree, prediction: Prediction) -> ClassifiedTree:
        pairs = sorted(zip(self.labels.names, prediction["probabilities"], strict=True), key=lambda pair: -pair[1])
        labels = tuple(prediction["labels"])
        return ClassifiedTree(example.key, labels, dict(pairs), nodes=self.node_labels(example, prediction))

    def node_labels(self, example: LabelledTree, prediction: Prediction) -> tuple[str, ...]:
        """Return the labels of the tree's own nodes, which come before those added to make it binary."""
        return tuple(self.labels.names[id] for id in prediction["nodes"][: len(example.labels)])

    @property
    def best(self) -> str:
        return self.config.best

    def measure(self, examples: Sequence[LabelledTree], predictions: Sequence[Prediction]) -> Measured:
        """Score the roots, and compute the accuracy over all nodes if inner nodes have labels."""
        values, text = self.answer.measure(as_texts(examples), predictions)
        if self.config.nodes == "all" and any(has_inner_labels(example) for example in examples):
            pairs = [
                pair
                for example, prediction in zip(examples, predictions, strict=True)
                for pair in zip(example.labels, self.node_labels(example, prediction), strict=True)
                if pair[0] is not None
            ]
            values = {**values, "node_accuracy": 100 * sum(gold == label for gold, label in pairs) / len(pairs)}
            text += f" at the root, accuracy {values['node_accuracy']:.2f} over all {len(pairs):,} nodes"
        return Measured(values, text)

    def intervals(self, examples: Sequence[LabelledTree], predictions: Sequence[Prediction]) -> dict[str, Interval]:
        return self.answer.intervals(as_texts(examples), predictions)

    def report(self, examples: Sequence[LabelledTree], predictions: Sequence[Prediction]) -> tuple[str, ...]:
        return self.answer.report(as_texts(examples), predictions)

    def statistics(self, examples: Sequence[LabelledTree], predictions: Sequence[Prediction]) -> list[Statistics]:
        roots = self.answer.statistics(as_texts(examples), predictions)
        if self.config.nodes != "all" or not any(map(has_inner_labels, examples)):
            return roots
        statistics = []
        for root, example, prediction in zip(roots, examples, predictions, strict=True):
            pairs = [
                pair
                for pair in zip(example.labels, self.node_labels(example, prediction), strict=True)
                if pair[0] is not None
            ]
            accuracy = share_of(sum(gold == label for gold, label in pairs), len(pairs))
            statistics.append({**root, "node_accuracy": accuracy})
        return statistics

    def row_losses(self, batch: LabelledTreeBatch) -> list[list[float]]:
        logits = self.output(self.hidden(batch)).float()  # (batch, nodes, labels)
        losses = []
        for scores, targets in zip(logits, batch.targets, strict=True):
            rows = self.rows(targets)
            losses.append([float(self.answer.loss(scores[targets != NONE], rows)), float(self.answer.count(rows))])
        return losses

    def sentence_scores(self, examples: Sequence[LabelledTree], predictions: Sequence[Prediction]) -> list[float]:
        return self.answer.scores(as_texts(examples), predictions)

    def described(self, example: LabelledTree, prediction: Prediction) -> dict[str, Any]:
        tree = as_brackets(example)
        fields = {"source": example.key, **self.answer.described(example.as_text, prediction)}
        return fields if tree is None else {**fields, "tree": tree}

    def without(self, capability: str) -> str | None:
        """Return why it lacks a capability of models that read texts."""
        return "reads trees, not texts" if capability in ("reads", "vectors") else None

    def judges(self, model_input: ModelInput) -> Judged:
        """Classify a bracketed tree."""
        if not model_input.text.strip():
            raise no_text()
        (answer,) = self.classify([unlabelled(model_input.text, "the tree")])
        return Judged(answer.labels, answer.probabilities)

    def programs(self) -> NoReturn:
        raise UserError(
            "a tree classifier cannot be exported, because every tree has a different structure; classify with"
            f" {call('run.classify_trees(...)', 'clew classify')}, or serve the run with `clew serve`"
        )


def as_texts(examples: Sequence[LabelledTree]) -> list[Labelled]:
    return [example.as_text for example in examples]


def has_inner_labels(example: LabelledTree) -> bool:
    """Return whether any node but the root has a label."""
    return any(label is not None for node, label in enumerate(example.labels) if node != example.root)


def read_words(example: LabelledTree, config: TreeClassificationConfig) -> Sequence[str]:
    """Return the words, followed by the names of the phrases if they are read, as `(NP`, which no word looks like."""
    if not config.phrases:
        return example.words
    if len(example.words) + len(example.phrases) != len(example.labels):
        raise UserError(
            f"{example.id}: task.phrases=true reads the names of phrases, and this tree has none besides the labels to"
            " predict; leave task.phrases out"
        )
    return [*example.words, *(f"({name}" for name in example.phrases)]


def train_tree_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledTree], config: TreeClassificationConfig
) -> dict[str, Any]:
    """Train a tokenizer of words, and build the table of the labels of all trained nodes."""
    names = (label for example in examples for label in (example.labels if config.nodes == "all" else [example.label]))
    labels = Labels.of(label for label in names if label is not None)
    if len(labels) == 1:
        raise UserError(
            f"every label of the training part is '{labels.names[0]}', so there is nothing to tell apart; check"
            " data.label"
        )
    return {
        "tokenizer": train(Texts(lambda: (one_word_each(read_words(example, config)) for example in examples)), []),
        "labels": labels,
    }


def build_tree_classifier(body: Any, vocabularies: dict[str, Any], config: TreeClassificationConfig) -> TreeClassifier:
    return TreeClassifier(body, WordReader.of(body, vocabularies), vocabularies["labels"], config)


LABELS = {"tokenizer": Tokenizer, "labels": Labels}


class TreeRow(Section):
    text: str = Field("", description="a bracketed tree")
    words: list[str] = Field(
        [], description="the words of a dependency tree, instead of text", json_schema_extra={"column": False}
    )
    heads: list[int] = Field(
        [], description="the number of each word's head, 0 for the root", json_schema_extra={"column": False}
    )

    def tree(self, place: str) -> LabelledTree:
        return unlabelled(Sentence(tuple(self.words), heads=tuple(self.heads)) if self.words else self.text, place)


class BracketRow(TreeRow):
    @model_validator(mode="after")
    def _has_brackets(self) -> "BracketRow":
        if self.words:
            raise UserError("this run was trained on bracketed trees; give those, not words with heads")
        return self


class DependencyRow(TreeRow):
    @model_validator(mode="after")
    def _has_heads(self) -> "DependencyRow":
        if self.text.strip():
            raise UserError("this run was trained on dependency trees; give CoNLL-U, not brackets")
        return self


def tree_row_for(data: Any, options: Options) -> type[TreeRow]:
    """Return the row type of the run's training data: dependency trees or bracketed trees; either if the format is not
    clear from the file names."""
    files = [data.train] if isinstance(data.train, str) else data.train or []
    formats = {data.format or format_by_name(Path(file)) for file in files}
    if data.corpus is None and (len(formats) != 1 or formats & {None, "lines"}):
        return TreeRow
    return DependencyRow if data.corpus is None and formats == {"conllu"} else BracketRow


def classify_tree_rows(
    tasks: Sequence[TreeClassifier], rows: Sequence[TreeRow], options: Options, numbers: Sequence[int]
) -> list[ClassifiedTree]:
    return tasks[0].classify([row.tree(f"tree {number}") for row, number in zip(rows, numbers, strict=True)])


def dependency_rows(path: Path, data: Any, columns: Mapping[str, str]) -> Iterator[TreeRow] | None:
    """Read the sentences of a CoNLL-U file."""
    if columns or find_format(path) != "conllu":
        return None
    sentences = read_sentences(path, with_tags=False, format="conllu")
    return (TreeRow(words=list(sentence.words), heads=list(sentence.heads or ())) for sentence in sentences)


def try_tree(fields: Mapping[str, Any]) -> tuple[list[str], str | None]:
    return ([], fields["tree"]) if "tree" in fields else (["--file", "sentences.conllu"], None)


CLASSIFY_TREES: Use[TreeRow, ClassifiedTree] = Use(
    about=CLASSIFY.about,
    row=TreeRow,
    options=Options,
    answer=classify_tree_rows,
    objects=classified_objects,
    formats=CLASSIFY.formats,
    help=CLASSIFY.help,
    row_for=tree_row_for,
    read_file=dependency_rows,
    try_it=try_tree,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.reader.tokenizer, row.tree("tree").words),
        confidence=class_confidence,
        labels=lambda task, answer: answer.labels,
    ),
)

TREE_CLASSIFICATION = TaskEntry(
    config=TreeClassificationConfig,
    build=build_tree_classifier,
    needs=TreeClassifier.needs,
    vocabularies=LABELS,
    learning=Examples(LABELLED_TREES, train_tree_vocabularies),
    baselines=tree_label_baselines,
    uses={"classify": CLASSIFY_TREES},
)
