"""Node labelling: a label for every word of a graph, such as its relation to its head, part of speech or features. A
body that reads graphs gets the words and the edges; a body that reads sequences gets only the words. Changing
`model.family` thus shows the benefit of the edges."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple, NoReturn

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.tag_baselines import tag_baselines
from clew.core.batches import to_device
from clew.core.config import TaskSection
from clew.core.errors import UserError, named
from clew.core.graph_batches import GraphBatch, batch_graphs, rows_to
from clew.core.graphs import CYCLIC, Graph, node_levels
from clew.core.modes import evaluating
from clew.core.types import State, Term
from clew.core.wording import call
from clew.data.examples import Sentence
from clew.data.formats import FORMATS, find_format, formats_named
from clew.data.formats.graph_files import as_edges, has_nodes
from clew.data.kinds.dependency_graphs import DEPENDENCY_GRAPHS, read_graphs
from clew.data.notes import Notes
from clew.data.syntax.dependency_graphs import NamedEdge, Way, dependency_edges, edge_types, typed_graph
from clew.data.values import Faulty
from clew.metrics.agreement import share_interval
from clew.metrics.bootstrap import Interval
from clew.metrics.classification import count_confusion
from clew.metrics.measures import Measured
from clew.metrics.spans import tag_statistics
from clew.metrics.statistics import Statistics
from clew.sources.graph_nodes import EDGE_TYPES
from clew.sources.words import EncodedWords, WordReader, check_words, one_word_each, places_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.shared.node_reading import ReadsGraph
from clew.tasks.tagging import TAG, SentenceRow, TaggedText, as_conll, tagged_objects
from clew.tasks.use import Options, Use, Watch, line_each, tokens_read
from clew.text.labels import UNSEEN, Labels
from clew.text.tokenizer import Tokenizer, check_is_text
from clew.text.train import Texts
from clew.text.words import listed_words, spaced_words

BATCH = 128
"""Sentences labelled at a time."""
ACYCLIC = 'task.edges=["next","forward"], or '
"""The setting with which the graph of a sentence has no cycles."""
SAMPLES = 2000
"""Resamples of a bootstrap's interval."""


class NodeLabellingConfig(TaskSection):
    """A label for every word of a sentence that comes with its graph."""

    name: Literal["node_labelling"] = "node_labelling"
    graph: Literal["basic", "enhanced"] = Field(
        "basic",
        description="basic: a word has one head (HEAD); enhanced: it may have several (DEPS), empty nodes left out",
    )
    edges: list[Way] = Field(
        ["next", "forward"],
        min_length=1,
        description=(
            "next, previous: between neighbouring words; up: to a word's heads; down: from them; forward: only those of"
            " up and down that lead to a later word, so that there is no cycle"
        ),
    )
    relations: bool = Field(
        False, description="edges have a type for each relation; not if the labels to predict are relations"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input, besides the body's own dropout")
    longest: int = Field(
        256, ge=1, description="training sentences with more words than this are left out, and counted"
    )
    best: Literal["accuracy", "loss"] = Field(
        "accuracy", description="what selects the best checkpoint: the highest accuracy or the lowest loss"
    )


class EncodedGraph(NamedTuple):
    """A sentence as ids: its words, its graph, and the words' labels; UNSEEN for labels that are not in the training
    part."""

    words: EncodedWords
    graph: Graph
    targets: list[int]


class NodeBatch(NamedTuple):
    words: Any  # (batch, words)
    mask: Tensor | None
    graphs: GraphBatch
    targets: Tensor  # (batch, words), UNSEEN on padding too
    fresh: bool = True


class NodeLabeller(ReadsGraph, ExampleTask):
    """logits = W dropout(h_word) + b, for each word independently."""

    def __init__(
        self, body: Any, reader: WordReader, labels: Labels, types: Labels, config: NodeLabellingConfig | None = None
    ):
        super().__init__()
        if not reader.is_whole:
            raise UserError(
                "each node of a graph is a whole word, and this tokenizer splits words; set text.tokenizer=word"
            )
        self.config = config = config or NodeLabellingConfig()
        self.body = body
        self.reader = reader
        self.labels = labels
        self.types = types
        self.reads_graphs = bool(getattr(body, "graph", False))
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(body.dim, len(labels))

    def forward(self, batch: NodeBatch, state: State = None) -> tuple[dict[str, Term], State]:
        return {"loss": Term(self.losses(batch).sum(), self.counts(batch)["loss"])}, None

    def counts(self, batch: NodeBatch) -> dict[str, Tensor]:
        """Count the words whose label is known."""
        return {"loss": (batch.targets != UNSEEN).sum()}

    def losses(self, batch: NodeBatch) -> Tensor:
        """Return -log p of each word's label (batch, words), 0 where it is unknown."""
        logits = self.logits(batch).float().flatten(0, 1)
        return F.cross_entropy(logits, batch.targets.flatten(), reduction="none", ignore_index=UNSEEN).view_as(
            batch.targets
        )

    def logits(self, batch: NodeBatch) -> Tensor:
        """Return a score for every label of every word (batch, words, labels)."""
        logits: Tensor = self.output(self.dropout(self.body(*self.body_inputs(batch))[0]))
        return logits

    def row_losses(self, batch: NodeBatch) -> list[list[float]]:
        known = batch.targets != UNSEEN
        rows: list[list[float]] = torch.stack([self.losses(batch).double().sum(1), known.double().sum(1)], 1).tolist()
        return rows

    def encode(self, examples: Sequence[Sentence]) -> list[EncodedGraph]:
        targets = [[self.labels.find(tag) for tag in example.tags or ()] for example in examples]
        return [
            each._replace(targets=labels) for each, labels in zip(self.encode_graphs(examples), targets, strict=True)
        ]

    def encode_graphs(self, examples: Sequence[Sentence]) -> list[EncodedGraph]:
        """Encode sentences, without labels. A body that reads sequences needs no edges."""
        words = self.reader.encode([example.words for example in examples])
        edges = [edges_of(example, self.config) if self.reads_graphs else [] for example in examples]
        graphs = [
            typed_graph(len(example.words), each, self.types) for example, each in zip(examples, edges, strict=True)
        ]
        if self.reads_graphs and self.body.reach is None:
            check_orders(examples, graphs)
        return [EncodedGraph(ids, graph, [UNSEEN] * graph.num_nodes) for ids, graph in zip(words, graphs, strict=True)]

    def label_table(self) -> Labels:
        return self.labels

    def gold_labels(self, example: Sentence) -> Iterator[tuple[str, str]]:
        return ((tag, f"{example.id}, word {number}") for number, tag in enumerate(example.tags or (), start=1))

    def lengths(self, encoded: EncodedGraph) -> tuple[int]:
        return (places_of(encoded.words),)

    @property
    def longest(self) -> int:
        return min(self.config.longest, self.body.max_length or self.config.longest)

    def check_length(self, encoded: EncodedGraph, place: str) -> None:
        check_words(encoded.words, self.body.max_length, place)

    def collate(self, examples: Sequence[EncodedGraph]) -> NodeBatch:
        words = self.reader.collate([example.words for example in examples])
        graphs = batch_graphs([example.graph for example in examples])
        return NodeBatch(
            words.inputs, words.mask, graphs, rows_to(graphs.levels.shape[1], [example.targets for example in examples])
        )

    @torch.no_grad()
    def predict(
        self, batch: NodeBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None
    ) -> list[list[str]]:
        """Return every word's most probable label."""
        labels, sizes = self.logits(batch).argmax(-1).tolist(), batch.graphs.mask.sum(1).tolist()
        return [[self.labels.names[id] for id in row[:size]] for row, size in zip(labels, sizes, strict=True)]

    @torch.no_grad()
    def label(self, sentences: Sequence[Sentence]) -> list[list[tuple[str, float]]]:
        """Return the label of every word and its probability."""
        encoded = self.encode_graphs(sentences)
        for sentence, each in zip(sentences, encoded, strict=True):
            check_is_text(sentence.key, sentence.id)
            self.check_length(each, sentence.id)
        order = sorted(
            (row for row, sentence in enumerate(sentences) if sentence.words), key=lambda row: len(sentences[row].words)
        )
        labelled: dict[int, list[tuple[str, float]]] = {}
        with evaluating([self]):
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                batch = to_device(self.collate([encoded[row] for row in rows]), self.output.weight.device)
                probs, labels = (part.tolist() for part in self.logits(batch).float().softmax(-1).max(-1))
                for row, shares, ids in zip(rows, probs, labels, strict=True):
                    labelled[row] = [
                        (self.labels.names[id], share)
                        for id, share, _ in zip(ids, shares, sentences[row].words, strict=False)
                    ]
        return [labelled.get(row, []) for row in range(len(sentences))]

    @property
    def best(self) -> str:
        return self.config.best

    def measure(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> Measured:
        right, total = (sum(counts) for counts in zip(*right_words(examples, predictions), strict=True))
        accuracy = 100 * right / max(total, 1)
        return Measured({"accuracy": accuracy}, f"accuracy {accuracy:.2f}")

    def intervals(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> dict[str, Interval]:
        """Return the interval of the accuracy over resampled sentences."""
        right, total = zip(*right_words(examples, predictions), strict=True)
        return {"accuracy": share_interval(right, total, samples=SAMPLES).times(100)}

    def report(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> tuple[str, str]:
        """Return the scores of each label, and the confusion table."""
        gold, predicted = (
            [label for row in rows for label in row or ()]
            for rows in ([example.tags for example in examples], predictions)
        )
        confusion = count_confusion(gold, predicted, sorted({*gold, *predicted}))
        return confusion.describe().partition("\n")[2], confusion.table()

    def sentence_scores(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> list[float]:
        """Return the accuracy of each sentence."""
        return [100 * right / max(total, 1) for right, total in right_words(examples, predictions)]

    def statistics(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> list[Statistics]:
        return [
            tag_statistics(example.tags or (), prediction, phrases=False)
            for example, prediction in zip(examples, predictions, strict=True)
        ]

    def described(self, example: Sentence, prediction: Sequence[str]) -> dict[str, Any]:
        """Describe a sentence: gold and predicted labels, and the words whose label is wrong, counted from 1."""
        gold = example.tags or ()
        wrong = [
            {"word": number, "gold": label, "predicted": predicted}
            for number, (label, predicted) in enumerate(zip(gold, prediction, strict=True), start=1)
            if label != predicted
        ]
        return {"source": example.key, "target": " ".join(gold), "prediction": " ".join(prediction), "wrong": wrong}

    def without(self, capability: str) -> str | None:
        """Return why it lacks a capability of models that read texts."""
        return "reads words with their graph, and has no vectors for a plain text" if capability == "vectors" else None

    def programs(self) -> NoReturn:
        raise UserError(
            "a node labeller cannot be exported, because every graph has a different structure; label with"
            f" {call('run.tag(...)', 'clew tag')}, or serve the run with `clew serve`"
        )


def check_orders(examples: Sequence[Sentence], graphs: Sequence[Graph]) -> None:
    """Check that graphs which are read along their edges have no cycle."""
    for example, graph in zip(examples, graphs, strict=True):
        if CYCLIC in node_levels(graph):
            raise UserError(
                f"{example.id}: the edges of this {'sentence' if example.edges is None else 'graph'} form a cycle, so a"
                " body that reads along the edges has no order for the nodes; set"
                f" {'' if example.edges is not None else ACYCLIC}model.layer.order=rounds"
            )


def right_words(examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
    """Return for each sentence the number of correct labels and the number of labels."""
    pairs = [(example.tags or (), prediction) for example, prediction in zip(examples, predictions, strict=True)]
    return [(sum(a == b for a, b in zip(gold, predicted, strict=True)), len(gold)) for gold, predicted in pairs]


def edges_of(example: Sentence, config: NodeLabellingConfig) -> list[NamedEdge]:
    return dependency_edges(example, config.edges, enhanced=config.graph == "enhanced", relations=config.relations)


def train_node_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Sentence], config: NodeLabellingConfig
) -> dict[str, Any]:
    """Build a tokenizer of words, the label table, and the table of edge types."""
    labels = {tag for example in examples for tag in example.tags or ()}
    if len(labels) == 1:
        raise UserError(
            f"every word of the training part has the label {named(*labels)}, so there is nothing to tell apart; check"
            " data.label"
        )
    if config.relations and all(example.tags == example.relations for example in examples):
        raise UserError(
            "task.relations=true puts the relations to predict into the input; set task.relations=false, or another"
            " data.label"
        )
    types = edge_types(edges_of(example, config) for example in examples)
    tokenizer = train(Texts(lambda: (one_word_each(example.words) for example in examples)), [])
    return {"tokenizer": tokenizer, "labels": Labels.of(labels), EDGE_TYPES: types}


def build_node_labeller(body: Any, vocabularies: dict[str, Any], config: NodeLabellingConfig) -> NodeLabeller:
    return NodeLabeller(
        body, WordReader.of(body, vocabularies), vocabularies["labels"], vocabularies[EDGE_TYPES], config
    )


class GraphRow(SentenceRow):
    text: str | list[str] = Field(description="a sentence's words, as a list or separated by spaces")
    heads: list[int] = Field(
        [], description="the number of each word's head, 0 for the root", json_schema_extra={"column": False}
    )
    relations: list[str] = Field(
        [], description="the relation of each word to its head", json_schema_extra={"column": False}
    )
    deps: list[list[tuple[int, str]]] = Field(
        [],
        description="in an enhanced graph, the heads and relations of each word: [[2, nsubj], ...]",
        json_schema_extra={"column": False},
    )
    edges: list[list[int | str]] | None = Field(
        None,
        description='in a graph that is not a sentence, the edges [[source, target, "type"], ...], nodes counted from'
        " 0",
        json_schema_extra={"column": False},
    )

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(
            word.text for word in (spaced_words(self.text) if isinstance(self.text, str) else listed_words(self.text))
        )

    def sentence(self, place: str) -> Sentence:
        """Return the sentence as the task reads it. Raises UserError for heads that are not words of it."""
        words = self.words
        for field in ("heads", "relations", "deps"):
            if (values := getattr(self, field)) and len(values) != len(words):
                raise UserError(
                    f"{place}: expected a value for each of the {len(words)} words, found {len(values)} {field}"
                )
        for head in [*self.heads, *(head for pairs in self.deps for head, _ in pairs)]:
            if not 0 <= head <= len(words):
                raise UserError(
                    f"{place}: the head {head} is not a word: heads are from 1 to {len(words)}, or 0 for the root"
                )
        deps = tuple(tuple(pairs) for pairs in self.deps)
        try:
            edges = None if self.edges is None else as_edges(self.edges, len(words))
        except Faulty as fault:
            raise UserError(f"{place}: {fault}") from None
        return Sentence(
            words, None, tuple(self.heads) or None, tuple(self.relations) or None, place, deps or None, edges
        )

    @classmethod
    def of(cls, example: Sentence) -> "GraphRow":
        return cls(
            text=list(example.words),
            heads=list(example.heads or ()),
            relations=list(example.relations or ()),
            deps=[list(pairs) for pairs in example.deps or ()],
            edges=None if example.edges is None else [list(edge) for edge in example.edges],
        )


def label_rows(
    tasks: Sequence[NodeLabeller], rows: Sequence[GraphRow], options: Options, numbers: Sequence[int]
) -> list[TaggedText]:
    sentences = [row.sentence(f"sentence {number}") for row, number in zip(rows, numbers, strict=True)]
    labelled = tasks[0].label(sentences)
    words = [spaced_words(row.text) if isinstance(row.text, str) else listed_words(row.text) for row in rows]
    texts = [row.text if isinstance(row.text, str) else " ".join(row.text) for row in rows]
    return [TaggedText.of(*columns, False) for columns in zip(texts, words, labelled, strict=True)]


def graph_rows(path: Path, data: Any, columns: Mapping[str, str]) -> Iterator[GraphRow] | None:
    """Read the sentences of a CoNLL-U file, or the graphs of JSON lines; labels are ignored."""
    format = find_format(path) if formats_named(path) else "lines"
    if columns or FORMATS[format].dependency_graphs is None or (FORMATS[format].has_lists and not has_nodes(path)):
        return None
    return map(GraphRow.of, read_graphs(path, None, format, Notes()))


LABEL: Use[GraphRow, TaggedText] = Use(
    about=TAG.about,
    row=GraphRow,
    options=Options,
    answer=label_rows,
    objects=tagged_objects,
    formats={"conll": line_each(as_conll)},
    help=TAG.help,
    read_file=graph_rows,
    answers_blank=True,
    try_it=lambda fields: (["--file", "sentences.conllu"], None),
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.reader.tokenizer, [" ".join(row.words)], by_words=True),
        confidence=lambda tagged: fmean(word.probability for word in tagged.words) if tagged.words else None,
        labels=lambda task, tagged: [word.tag for word in tagged.words],
        row_of=GraphRow.of,
        own_labels=lambda task, example: example.tags or (),
        is_quick=True,
    ),
)

NODE_LABELLING = TaskEntry(
    config=NodeLabellingConfig,
    build=build_node_labeller,
    vocabularies={"tokenizer": Tokenizer, "labels": Labels, EDGE_TYPES: Labels},
    learning=Examples(DEPENDENCY_GRAPHS, train_node_vocabularies),
    baselines=tag_baselines,
    uses={"tag": LABEL},
    pipeline="token-classification",
    gives=("graph",),
)
