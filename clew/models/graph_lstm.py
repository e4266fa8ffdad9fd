"""Graph LSTMs (Liang et al. 2016; Peng et al. 2017): an embedding of the words at the nodes, below layers that read
graphs."""

from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from clew.core.config import ModelSection, Part, build_part, one_of
from clew.core.errors import UserError
from clew.core.graph_batches import GraphBatch, GraphInputs
from clew.core.masks import advance
from clew.core.types import Memory, Source, State
from clew.layers.embeddings import Embedding, tokens_of
from clew.layers.shapes.graph_lstm import GRAPH_LAYERS
from clew.models.body import MOST_LAYERS, uniform_table


class GraphLSTMConfig(ModelSection):
    """An embedding of the words and `num_layers` layers over their graphs."""

    family: Literal["graph_lstm"] = "graph_lstm"
    layer: Annotated[Part, one_of("graph layer", GRAPH_LAYERS)] = Field(
        "graph_lstm",
        description=(
            "order: given (along the edges, each node once) or rounds (all nodes together, num_rounds times);"
            " both_ways: half of the width reads against the edges; type_dim: width of an embedding of edge types,"
            " which replaces their bias"
        ),
    )
    dim: int = Field(150, ge=1, description="width of the hidden state")
    num_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    embedding_dim: int | None = Field(None, ge=1, description="width of the embedding; default: dim")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after every layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding; default: dropout")


class GraphBody(nn.Module):
    """hidden = dropout(layer(embedding(words), graphs)), layer after layer: one vector per node (batch, nodes, dim).

    The mask of the output is `inputs.graphs.mask`. There is no state: a graph is read as a whole.
    """

    causal = False
    halves = False
    graph = True
    max_length = None

    def __init__(self, embedding: Embedding, layers: list[Any], *, dropout: float = 0.0):
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.dropout = nn.Dropout(dropout)
        self.dim: int = layers[-1].dim
        self.num_types: int = layers[0].num_types
        self.both_ways: bool = layers[0].both_ways
        self.vocabulary = embedding.vocabulary

    @property
    def reach(self) -> int | None:
        """How many edges away a node sees; None: every node from which a path leads to it."""
        reach: int | None = self.layers[0].reach  # type: ignore[assignment]
        return None if reach is None else reach * len(self.layers)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor | None = None
    ) -> State:
        return None

    def forward(self, inputs: GraphInputs, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is not None:
            raise UserError("a graph is read as a whole, so this body takes no state; call it without one")
        return self.levels(inputs)[-1], None

    def levels(self, inputs: GraphInputs, mask: Tensor | None = None, state: State = None) -> list[Tensor]:
        places, _ = advance(None, inputs.mask, tokens_of(inputs.words))
        return self.read(self.embedding(inputs.words, places), inputs.graphs)

    def read(self, x: Tensor, graphs: GraphBatch) -> list[Tensor]:
        """The nodes' vectors, and each layer's output for them."""
        levels = [x]
        for layer in self.layers:
            levels.append(self.dropout(layer(levels[-1], graphs).hidden))
        return levels


def build_graph_lstm(config: GraphLSTMConfig, source: Source) -> GraphBody:
    """Use the source's `num_types`, the number of edge types, if it has one."""
    dim = config.embedding_dim or config.dim
    input_dropout = config.dropout if config.input_dropout is None else config.input_dropout
    embedding = source.embedding(dim, dropout=input_dropout)
    uniform_table(embedding, 0.1)
    options = {"num_types": getattr(source, "num_types", 1)}
    widths = [dim, *[config.dim] * (config.num_layers - 1)]
    layers = [build_part("graph layer", config.layer, GRAPH_LAYERS, width, config.dim, **options) for width in widths]
    return GraphBody(embedding, layers, dropout=config.dropout)
