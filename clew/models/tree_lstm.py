"""Tree-LSTMs (Tai et al. 2015): an embedding of the words below a layer that reads trees from the leaves up."""

from typing import Annotated, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.config import ModelSection, Part, build_part, one_of
from clew.core.errors import UserError
from clew.core.masks import advance
from clew.core.tree_batches import TreeBatch, TreeInputs
from clew.core.types import Memory, Source, State
from clew.layers.embeddings import Embedding, tokens_of
from clew.layers.shapes.tree_lstm import TREE_LAYERS, TreeLSTM
from clew.models.body import uniform_table


class TreeLSTMConfig(ModelSection):
    """An embedding of the words and a layer over their trees."""

    family: Literal["tree_lstm"] = "tree_lstm"
    layer: Annotated[Part, one_of("tree layer", TREE_LAYERS)] = Field(
        "child_sum_lstm",
        description=(
            "child_sum_lstm: any number of children, in any order; n_ary_lstm: num_children with own weights each"
        ),
    )
    dim: int = Field(150, ge=1, description="width of the hidden state")
    embedding_dim: int | None = Field(None, ge=1, description="width of the embedding; default: dim")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after the layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding; default: dropout")


class TreeBody(nn.Module):
    """hidden = dropout(layer([embedding(words); 0], trees)): one vector per node (batch, nodes, dim). Nodes without a
    word read zeros.

    The mask of the output is `inputs.trees.mask`. There is no state: a tree is read as a whole.
    """

    causal = False
    trees = True
    max_length = None

    def __init__(self, embedding: Embedding, layer: TreeLSTM, *, dropout: float = 0.0):
        super().__init__()
        self.embedding = embedding
        self.layer = layer
        self.dropout = nn.Dropout(dropout)
        self.dim = layer.dim
        self.vocabulary = embedding.vocabulary

    @property
    def max_children(self) -> int | None:
        """The largest number of children of a node; None if unbounded."""
        return getattr(self.layer, "num_children", None)

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor | None = None
    ) -> State:
        return None

    def forward(self, inputs: TreeInputs, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is not None:
            raise UserError("a tree is read as a whole, so this body takes no state; call it without one")
        return self.read(self.embed(inputs), inputs.trees), None

    def levels(self, inputs: TreeInputs, mask: Tensor | None = None, state: State = None) -> list[Tensor]:
        x = self.embed(inputs)
        return [x, self.read(x, inputs.trees)]

    def embed(self, inputs: TreeInputs) -> Tensor:
        """One vector per node: its word's, or zeros."""
        places, _ = advance(None, inputs.mask, tokens_of(inputs.words))
        x = self.embedding(inputs.words, places)
        if inputs.mask is not None:
            x = x.masked_fill(~inputs.mask[..., None], 0.0)
        return F.pad(x, (0, 0, 0, inputs.trees.depths.shape[1] - x.shape[1]))

    def read(self, x: Tensor, trees: TreeBatch) -> Tensor:
        hidden: Tensor = self.dropout(self.layer(x, trees).hidden)
        return hidden


def build_tree_lstm(config: TreeLSTMConfig, source: Source) -> TreeBody:
    dim = config.embedding_dim or config.dim
    input_dropout = config.dropout if config.input_dropout is None else config.input_dropout
    embedding = source.embedding(dim, dropout=input_dropout)
    uniform_table(embedding, 0.1)
    return TreeBody(
        embedding, build_part("tree layer", config.layer, TREE_LAYERS, dim, config.dim), dropout=config.dropout
    )
