"""Graph classification: a label for a whole graph, several labels, or a number. A body that reads graphs gets the node
words and the edges; a body that reads sequences gets only the node words, in order."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import torch
from pydantic import Field
from torch import Tensor

from clew.core.config import Section
from clew.core.errors import UserError
from clew.core.graph_batches import GraphBatch, GraphInputs, batch_graphs
from clew.core.graphs import Graph
from clew.core.wording import call
from clew.data.examples import LabelledGraph, Sentence
from clew.data.formats.graph_files import as_edges, labelled_graphs
from clew.data.kinds.labelled_graphs import LABELLED_GRAPHS
from clew.data.notes import Notes
from clew.data.plans import shortest_first
from clew.data.syntax.dependency_graphs import edge_types, typed_graph
from clew.data.values import Faulty
from clew.sources.graph_nodes import EDGE_TYPES
from clew.sources.words import EncodedWords, WordReader, check_words, one_word_each, places_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.node_labelling import check_orders
from clew.tasks.shared.labelled_inputs import LINES, JudgedInput, input_baselines, judged_input, judged_objects
from clew.tasks.shared.pooled import PooledClassifier, PooledConfig, label_table_of
from clew.tasks.use import Options, Use
from clew.tasks.uses.answers import Prediction
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer
from clew.text.train import Texts

BATCH = 128
"""Graphs classified at a time."""


class GraphClassificationConfig(PooledConfig):
    """A label for each graph, several, or a number."""

    name: Literal["graph_classification"] = "graph_classification"
    longest: int = Field(512, ge=1, description="training graphs with more nodes than this are left out, and counted")


class EncodedLabelledGraph(NamedTuple):
    """A graph as ids: the words at its nodes, its edges, and its target."""

    words: EncodedWords
    graph: Graph
    target: list[float]


class LabelledGraphBatch(NamedTuple):
    words: Any  # (batch, nodes)
    mask: Tensor | None
    graphs: GraphBatch
    targets: Tensor  # (batch, labels), 1 where a label is the graph's; (batch, 1) of numbers
    fresh: bool = True


class GraphClassifier(PooledClassifier):
    """logits = W g(.. g(pool(h_1 .. h_n))), with the body's vectors h of the nodes."""

    def __init__(self, body: Any, reader: WordReader, labels: Labels, types: Labels, config: GraphClassificationConfig):
        super().__init__(body, labels, config)
        if not reader.is_whole:
            raise UserError(
                "each node of a graph is a whole word, and this tokenizer splits words; set text.tokenizer=word"
            )
        self.reader = reader
        self.types = types
        self.reads_graphs = bool(getattr(body, "graph", False))

    def features(self, batch: LabelledGraphBatch) -> Tensor:
        inputs = (
            (GraphInputs(batch.words, batch.mask, batch.graphs),) if self.reads_graphs else (batch.words, batch.mask)
        )
        pooled: Tensor = self.pooling(self.body(*inputs)[0], batch.graphs.mask)
        return pooled

    def encode(self, examples: Sequence[LabelledGraph]) -> list[EncodedLabelledGraph]:
        encoded = self.encode_graphs([example.graph for example in examples])
        return [
            each._replace(target=self.answer.target(example)) for each, example in zip(encoded, examples, strict=True)
        ]

    def encode_graphs(self, graphs: Sequence[Sentence]) -> list[EncodedLabelledGraph]:
        """Encode graphs, without targets."""
        words = self.reader.encode([graph.words for graph in graphs])
        typed = [
            typed_graph(len(graph.words), graph.edges or () if self.reads_graphs else (), self.types)
            for graph in graphs
        ]
        if self.reads_graphs and self.body.reach is None:
            check_orders(graphs, typed)
        return [
            EncodedLabelledGraph(ids, graph, [0.0] * len(self.labels)) for ids, graph in zip(words, typed, strict=True)
        ]

    def lengths(self, encoded: EncodedLabelledGraph) -> tuple[int]:
        return (places_of(encoded.words),)

    @property
    def longest(self) -> int:
        limit: int = self.config.longest
        return min(limit, self.body.max_length or limit)

    def check_length(self, encoded: EncodedLabelledGraph, place: str) -> None:
        check_words(encoded.words, self.body.max_length, place)

    def collate(self, examples: Sequence[EncodedLabelledGraph]) -> LabelledGraphBatch:
        words = self.reader.collate([example.words for example in examples])
        targets = torch.tensor([example.target for example in examples], dtype=torch.float32)
        return LabelledGraphBatch(
            words.inputs, words.mask, batch_graphs([example.graph for example in examples]), targets
        )

    def judge_graphs(self, graphs: Sequence[Sentence]) -> list[JudgedInput]:
        """Classify each graph, in the order given."""
        encoded = self.encode_graphs(graphs)
        for graph, each in zip(graphs, encoded, strict=True):
            self.check_length(each, graph.id)
        predictions = self.predict_each(encoded, shortest_first([len(graph.words) for graph in graphs], BATCH))
        return [judged_input(graph.key, each, self.labels) for graph, each in zip(graphs, predictions, strict=True)]

    def described(self, example: Any, prediction: Prediction) -> dict[str, Any]:
        return {"source": example.graph.key, **self.answer.described(example, prediction)}

    def without(self, capability: str) -> str | None:
        """Return why it lacks a capability of models that read texts."""
        return "reads graphs, not texts" if capability in ("reads", "vectors", "judges") else None

    def programs(self) -> NoReturn:
        classify = call("run.ask('predict', ...)", "clew predict")
        raise UserError(
            "a graph classifier cannot be exported, because every graph has a different structure; classify with"
            f" {classify}, or serve the run with `clew serve`"
        )


def train_graph_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[LabelledGraph], config: GraphClassificationConfig
) -> dict[str, Any]:
    """Build a tokenizer of the node words, the label table, and the table of edge types."""
    types = edge_types(example.graph.edges or () for example in examples)
    tokenizer = train(Texts(lambda: (one_word_each(example.graph.words) for example in examples)), [])
    return {"tokenizer": tokenizer, "labels": label_table_of(examples, config.labels), EDGE_TYPES: types}


def build_graph_classifier(
    body: Any, vocabularies: dict[str, Any], config: GraphClassificationConfig
) -> GraphClassifier:
    return GraphClassifier(
        body, WordReader.of(body, vocabularies), vocabularies["labels"], vocabularies[EDGE_TYPES], config
    )


class WholeGraphRow(Section):
    text: str | list[str] = Field(description="the words at a graph's nodes, as a list or separated by spaces")
    edges: list[list[int | str]] = Field(
        [],
        description='the edges [[source, target, "type"], ...], with nodes counted from 0',
        json_schema_extra={"column": False},
    )

    def graph(self, place: str) -> Sentence:
        """Return the graph as the task reads it. Raises UserError for edges between nodes that do not exist."""
        nodes = tuple(self.text.split() if isinstance(self.text, str) else self.text)
        try:
            return Sentence(nodes, id=place, edges=as_edges(self.edges, len(nodes)))
        except Faulty as fault:
            raise UserError(f"{place}: {fault}") from None

    @classmethod
    def of(cls, graph: Sentence) -> "WholeGraphRow":
        return cls(text=list(graph.words), edges=[list(edge) for edge in graph.edges or ()])


def judge_rows(
    tasks: Sequence[GraphClassifier], rows: Sequence[WholeGraphRow], options: Options, numbers: Sequence[int]
) -> list[JudgedInput]:
    return tasks[0].judge_graphs([row.graph(f"graph {number}") for row, number in zip(rows, numbers, strict=True)])


def rows_in(path: Path, data: Any, columns: Mapping[str, str]) -> Iterator[WholeGraphRow] | None:
    """Read the graphs of JSON lines; labels are ignored."""
    if columns:
        return None
    return (
        WholeGraphRow.of(example.graph) for example in labelled_graphs(path, data.label, Notes(), with_labels=False)
    )


GRAPH_CLASSIFICATION = TaskEntry(
    config=GraphClassificationConfig,
    build=build_graph_classifier,
    vocabularies={"tokenizer": Tokenizer, "labels": Labels, EDGE_TYPES: Labels},
    learning=Examples(LABELLED_GRAPHS, train_graph_vocabularies),
    baselines=input_baselines,
    uses={
        "predict": Use(
            about="classify graphs",
            row=WholeGraphRow,
            options=Options,
            answer=judge_rows,
            objects=judged_objects,
            formats={"lines": LINES},
            read_file=rows_in,
            try_it=lambda example: (["--file", "graphs.jsonl"], None),
        )
    },
    gives=("graph",),
)
