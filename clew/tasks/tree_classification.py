"""Classes of trees: one for the whole sentence, at the root, and where the trees have them one for every node (Socher
et al. 2013; Tai et al. 2015)."""

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
from clew.data.examples import Labelled, LabelledTree, Sentence
from clew.data.formats import find_format, told_by_name
from clew.data.kinds.labelled_trees import LABELLED_TREES
from clew.data.plans import batches_by_length
from clew.data.readers import read_sentences
from clew.data.syntax.labelled_trees import as_brackets, unlabelled
from clew.metrics.bootstrap import Interval
from clew.metrics.measures import Measured
from clew.metrics.statistics import Statistics, share_of
from clew.sources.words import EncodedWords, WordReader, one_word_each
from clew.tasks.classification import CLASSIFY, Classified, classified_objects, confidence_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.offers import Given, Judged
from clew.tasks.shared.reading import no_text
from clew.tasks.use import Options, Use, Watch, tokens_read
from clew.tasks.uses.answers import ClassWeights, Found, OneLabel
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
from clew.text.train import Texts

NONE = -1
"""The target of a node that has no label."""
BATCH = 8192
"""Nodes that are classified at a time."""


class TreeClassificationConfig(TaskSection):
    """A class for the root of a tree, and where they have some for every node."""

    name: Literal["tree_classification"] = "tree_classification"
    nodes: Literal["all", "root"] = Field(
        "all", description="what is trained on: every node that has a label, or the root alone"
    )
    phrases: bool = Field(False, description="the names of phrases (NP) are read too, as words above the words")
    class_weights: ClassWeights = Field(
        "none",
        description=(
            "what a label's nodes weigh: all the same; balanced, so that labels weigh the same; or numbers by label"
        ),
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="the share of a target that is spread over the labels, in training"
    )
    calibrate: bool = Field(
        True, description="probabilities at the root are mended by one temperature, found on the validation part"
    )
    longest: int = Field(1000, ge=1, description="training trees with more nodes than this are left out, and counted")
    best: Literal["accuracy", "macro_f1", "matthews", "loss"] = Field(
        "accuracy",
        description="the best evaluation is that of the highest value of this at the root, or of the lowest loss",
    )


class EncodedTree(NamedTuple):
    """A tree as ids: its words, the names of its phrases behind them where these are read; where nodes hang; their
    labels."""

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
    """What was told of a tree, and the likeliest label of each of its nodes, words first."""

    nodes: tuple[str, ...] = ()

    def more(self) -> dict[str, Any]:
        return {"nodes": self.nodes}


class TreeClassifier(ExampleTask):
    """logits = W h_node + b, trained on all nodes that have a label; the root's are the tree's."""

    needs = ("trees",)
    text_name = "tree"
    sample = "(S (NP (DT The) (NN thread)) (VP (VBD was) (ADJP (JJ red))))"

    def __init__(self, body: Any, reader: WordReader, labels: Labels, config: TreeClassificationConfig | None = None):
        super().__init__()
        if not reader.is_whole:
            raise UserError("a node of a tree has a whole word, and this tokenizer cuts words; set text.tokenizer=word")
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
        """What the labelled nodes weigh together."""
        return {"loss": self.answer.count(self.rows(batch.targets))}

    def rows(self, targets: Tensor) -> Tensor:
        """1 for the label of each node that has one, 0 for the others (nodes, labels)."""
        return F.one_hot(targets[targets != NONE], len(self.labels)).to(self.output.weight.dtype)

    def hidden(self, batch: LabelledTreeBatch) -> Tensor:
        """A vector a node (batch, nodes, dim)."""
        found: Tensor = self.body(TreeInputs(batch.words, batch.mask, batch.trees))[0]
        return found

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
        given = bool(known.any()) and self.answer.settle(logits[known], self.rows(targets))
        self.settled = self.answer.settled
        return given

    def encode(self, examples: Sequence[LabelledTree]) -> list[EncodedTree]:
        encoded = self.encode_trees(examples)
        return [
            tree._replace(targets=self.targets(example, tree)) for example, tree in zip(examples, encoded, strict=True)
        ]

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
        """Trees of any size can be read."""

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
        """What is told of each root, and the number of every node's likeliest label."""
        logits = self.output(self.hidden(batch)).float()  # (batch, nodes, labels)
        roots, nodes, sizes = (
            self.answer.told(logits[batch.trees.roots]),
            logits.argmax(-1).tolist(),
            batch.trees.mask.sum(1).tolist(),
        )
        return [{**root, "nodes": labels[:size]} for root, labels, size in zip(roots, nodes, sizes, strict=True)]

    def classify(self, examples: Sequence[LabelledTree]) -> list[ClassifiedTree]:
        """The labels of trees, whose own do not matter."""
        encoded = self.encode_trees(examples)
        lengths = np.array([self.lengths(tree) for tree in encoded]).reshape(-1, 1)
        found: dict[int, Found] = {}
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH):
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                found |= dict(zip(rows, self.predict(batch), strict=True))
        return [self.told(example, found[row]) for row, example in enumerate(examples)]

    def told(self, example: LabelledTree, found: Found) -> ClassifiedTree:
        pairs = sorted(zip(self.labels.names, found["probabilities"], strict=True), key=lambda pair: -pair[1])
        return ClassifiedTree(example.key, tuple(found["labels"]), dict(pairs), nodes=self.node_labels(example, found))

    def node_labels(self, example: LabelledTree, found: Found) -> tuple[str, ...]:
        """Of the tree's own nodes, which come first."""
        return tuple(self.labels.names[id] for id in found["nodes"][: len(example.labels)])

    @property
    def best(self) -> str:
        return self.config.best

    def measure(self, examples: Sequence[LabelledTree], predictions: Sequence[Found]) -> Measured:
        """What is told of the roots, and the accuracy over all nodes where others have labels too."""
        values, text = self.answer.measure(as_texts(examples), predictions)
        if self.config.nodes == "all" and any(has_inner_labels(example) for example in examples):
            pairs = [
                pair
                for example, found in zip(examples, predictions, strict=True)
                for pair in zip(example.labels, self.node_labels(example, found), strict=True)
                if pair[0] is not None
            ]
            values = {**values, "node_accuracy": 100 * sum(gold == label for gold, label in pairs) / len(pairs)}
            text += f" at the root, accuracy {values['node_accuracy']:.2f} over all {len(pairs):,} nodes"
        return Measured(values, text)

    def intervals(self, examples: Sequence[LabelledTree], predictions: Sequence[Found]) -> dict[str, Interval]:
        return self.answer.intervals(as_texts(examples), predictions)

    def report(self, examples: Sequence[LabelledTree], predictions: Sequence[Found]) -> tuple[str, ...]:
        return self.answer.report(as_texts(examples), predictions)

    def statistics(self, examples: Sequence[LabelledTree], predictions: Sequence[Found]) -> list[Statistics]:
        roots = self.answer.statistics(as_texts(examples), predictions)
        if self.config.nodes != "all" or not any(map(has_inner_labels, examples)):
            return roots
        found = []
        for root, example, prediction in zip(roots, examples, predictions, strict=True):
            pairs = [
                pair
                for pair in zip(example.labels, self.node_labels(example, prediction), strict=True)
                if pair[0] is not None
            ]
            found.append({**root, "node_accuracy": share_of(sum(gold == label for gold, label in pairs), len(pairs))})
        return found

    def row_losses(self, batch: LabelledTreeBatch) -> list[list[float]]:
        logits = self.output(self.hidden(batch)).float()  # (batch, nodes, labels)
        found = []
        for scores, targets in zip(logits, batch.targets, strict=True):
            rows = self.rows(targets)
            found.append([float(self.answer.loss(scores[targets != NONE], rows)), float(self.answer.count(rows))])
        return found

    def sentence_scores(self, examples: Sequence[LabelledTree], predictions: Sequence[Found]) -> list[float]:
        return self.answer.scores(as_texts(examples), predictions)

    def described(self, example: LabelledTree, prediction: Found) -> dict[str, Any]:
        tree = as_brackets(example)
        fields = {"source": example.key, **self.answer.described(example.as_text, prediction)}
        return fields if tree is None else {**fields, "tree": tree}

    def without(self, capability: str) -> str | None:
        """Why it cannot be asked for what models of texts offer."""
        return "reads trees, and no text by itself" if capability in ("reads", "vectors") else None

    def judges(self, given: Given) -> Judged:
        """The class of a tree in brackets."""
        if not given.text.strip():
            raise no_text()
        (found,) = self.classify([unlabelled(given.text, "the tree")])
        return Judged(found.labels, found.probabilities)

    def programs(self) -> NoReturn:
        raise UserError(
            "a classifier of trees reads them, and each has a shape of its own, which no program has; "
            "classify with `clew classify`, or `clew serve` the run"
        )


def as_texts(examples: Sequence[LabelledTree]) -> list[Labelled]:
    return [example.as_text for example in examples]


def has_inner_labels(example: LabelledTree) -> bool:
    """Whether other nodes than the root have labels."""
    return any(label is not None for node, label in enumerate(example.labels) if node != example.root)


def read_words(example: LabelledTree, config: TreeClassificationConfig) -> Sequence[str]:
    """The words, and the names of the phrases behind them where they are read: `(NP` is no word of any tree."""
    if not config.phrases:
        return example.words
    if len(example.words) + len(example.phrases) != len(example.labels):
        raise UserError(
            f"{example.id}: task.phrases=true reads the names of phrases, and this tree has none besides the labels"
            " that are to be found; leave it out"
        )
    return [*example.words, *(f"({name}" for name in example.phrases)]


def train_tree_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledTree], config: TreeClassificationConfig
) -> dict[str, Any]:
    """A tokenizer of words, and the labels of the nodes that are trained on."""
    found = (label for example in examples for label in (example.labels if config.nodes == "all" else [example.label]))
    labels = Labels.of(label for label in found if label is not None)
    if len(labels) == 1:
        raise UserError(
            f"every label of the training part is '{labels.names[0]}', so there is nothing to tell apart; see"
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
    words: list[str] = Field([], description="or the words of a dependency tree", json_schema_extra={"column": False})
    heads: list[int] = Field(
        [], description="and the number of each word's head, 0 for the root", json_schema_extra={"column": False}
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
    """Dependency trees where a run was trained on these, bracketed ones where on those; either where the name of its
    data does not tell."""
    files = [data.train] if isinstance(data.train, str) else data.train or []
    formats = {data.format or told_by_name(Path(file)) for file in files}
    if data.corpus is None and (len(formats) != 1 or formats & {None, "lines"}):
        return TreeRow
    return DependencyRow if data.corpus is None and formats == {"conllu"} else BracketRow


def classify_tree_rows(
    tasks: Sequence[TreeClassifier], rows: Sequence[TreeRow], options: Options, numbers: Sequence[int]
) -> list[ClassifiedTree]:
    return tasks[0].classify([row.tree(f"tree {number}") for row, number in zip(rows, numbers, strict=True)])


def dependency_rows(path: Path, data: Any, columns: Mapping[str, str]) -> Iterator[TreeRow] | None:
    """The sentences of a CoNLL-U file."""
    if columns or find_format(path) != "conllu":
        return None
    sentences = read_sentences(path, with_tags=False, format="conllu")
    return (TreeRow(words=list(one.words), heads=list(one.heads or ())) for one in sentences)


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
        confidence=confidence_of,
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
