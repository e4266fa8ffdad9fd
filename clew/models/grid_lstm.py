"""Two-dimensional LSTMs (Graves, Fernandez and Schmidhuber 2007): an embedding of every cell, below layers that read a
grid from its corners. Between layers, blocks of cells may be joined into one (Graves and Schmidhuber 2009)."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.config import ModelSection, Part, build_part, one_of
from clew.core.errors import UserError
from clew.core.grids import grids_of_places, real_cells_first, sequence_mask
from clew.core.masks import advance
from clew.core.state import map_tree
from clew.core.types import Memory, Source, State
from clew.layers.embeddings import Embedding, tokens_of
from clew.layers.shapes.grid_lstm import GRID_LAYERS
from clew.layers.shapes.grids import GridBlocks, GridLayer
from clew.layers.shapes.pictures import PictureInputs
from clew.models.body import MOST_LAYERS, uniform_table


class GridLSTMConfig(ModelSection):
    """An embedding of the cells and `num_layers` layers over the grid."""

    family: Literal["grid_lstm"] = "grid_lstm"
    layer: Annotated[Part, one_of("grid layer", GRID_LAYERS)] = Field(
        "grid_lstm",
        description=(
            "grid_lstm: a forget gate for each of two neighbours; grid_gru: a weighted mean of three neighbours"
        ),
    )
    dim: int = Field(64, ge=1, description="width of a layer; each corner's reader has an equal part of it")
    num_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    directions: Literal[1, 2, 4] = Field(
        4,
        description=(
            "corners that a layer reads from: 1, the top left; 2, also the bottom right; 4, all, so that a cell sees"
            " all others"
        ),
    )
    block: int = Field(
        1, ge=1, le=16, description="side of the squares of cells that are joined into one between layers; 1: none"
    )
    embedding_dim: int | None = Field(None, ge=1, description="width of the embedding; default: dim")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after every layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding; default: dropout")


class Grids(NamedTuple):
    """Vectors (batch, height, width, dim), and the mask of the real cells."""

    vectors: Tensor
    mask: Tensor | None


class GridBody(nn.Module):
    """hidden = layers(embedding(inputs)), with optional blocks below each layer but the first.

    `inputs` are grids of vectors (batch, height, width, features) or tokens (batch, height, width), with a mask (batch,
    height, width); or pictures as their source collates them, with the mask (batch, length) of their places. The output
    is a sequence of cells (batch, positions, dim), each example's real cells first, row by row; `hidden_mask` gives its
    mask. There is no state: a grid is read as a whole.
    """

    causal = False
    halves = False
    grid = True
    max_length = None

    def __init__(
        self,
        embedding: Embedding,
        layers: Sequence[GridLayer],
        blocks: Sequence[GridBlocks] = (),
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        assert not blocks or len(blocks) == len(layers) - 1
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.blocks = nn.ModuleList(blocks)
        self.dropout = nn.Dropout(dropout)
        self.dim = layers[-1].dim
        self.vocabulary = embedding.vocabulary

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor | None = None
    ) -> State:
        return None

    def forward(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is not None:
            raise UserError("a grid is read as a whole, so this body takes no state; call it without one")
        return self.levels(inputs, mask)[-1], None

    def levels(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> list[Tensor]:
        return [real_cells_first(*level) for level in self.grids(*self.cells(inputs, mask))]

    def hidden_mask(self, mask: Tensor | None, inputs: Any = None) -> Tensor | None:
        """The mask (batch, positions) of the output, from the mask of the inputs and, for pictures, the inputs; None if
        all positions are real."""
        if isinstance(inputs, PictureInputs):
            mask = grids_of_places(inputs.tokens, mask, inputs.tokens, *self.picture_grid(inputs))[1]
        for blocks in self.blocks:
            mask = None if mask is None else mask[:, :: blocks.block, :: blocks.block]
        return sequence_mask(mask)

    def cells(self, inputs: Any, mask: Tensor | None) -> Grids:
        """The embedded cells and their mask."""
        if not isinstance(inputs, PictureInputs):
            return Grids(self.embed(inputs), mask)
        places, _ = advance(None, mask, inputs.tokens)
        return Grids(*grids_of_places(self.embedding(inputs, places), mask, inputs.tokens, *self.picture_grid(inputs)))

    def picture_grid(self, inputs: PictureInputs) -> tuple[int, int]:
        """The height and width of the padded grid of a batch of pictures."""
        embedding: Any = self.embedding
        height, width = embedding.reader.grid_sizes(torch.tensor([inputs.pixels.shape[1:3]]))[0].tolist()
        return height, width

    def embed(self, inputs: Any) -> Tensor:
        """One vector per cell (batch, height, width, dim)."""
        values = tokens_of(inputs)
        if values.dim() != (3 if self.vocabulary else 4):
            expected = (
                "tokens (batch, height, width)"
                if self.vocabulary
                else f"vectors (batch, height, width, {self.embedding.width})"
            )
            raise UserError(f"this body reads grids of {expected}, not a tensor of the shape {list(values.shape)}")
        cells = map_tree(lambda leaf: leaf.flatten(1, 2), inputs)
        places, _ = advance(None, None, tokens_of(cells))
        vectors: Tensor = self.embedding(cells, places)
        return vectors.reshape(*values.shape[:3], self.embedding.dim)

    def grids(self, x: Tensor, mask: Tensor | None) -> list[Grids]:
        """The embedding and every layer's output, as grids."""
        levels = [Grids(x, mask)]
        for number, layer in enumerate(self.layers):
            below = levels[-1] if number == 0 or not self.blocks else Grids(*self.blocks[number - 1](*levels[-1]))
            (hidden,) = layer(*below)
            levels.append(Grids(self.dropout(hidden), below.mask))
        return levels


def build_grid_lstm(config: GridLSTMConfig, source: Source) -> GridBody:
    if config.dim % config.directions:
        raise UserError(
            f"each corner's reader has an equal part of a layer's width, so model.dim ({config.dim}) must be divisible"
            f" by model.directions ({config.directions})"
        )
    dim = config.embedding_dim or config.dim
    embedding = source.embedding(dim, dropout=config.dropout if config.input_dropout is None else config.input_dropout)
    uniform_table(embedding, 0.1)
    layers, part = [], config.dim // config.directions
    for _ in range(config.num_layers):
        layers.append(build_part("grid layer", config.layer, GRID_LAYERS, dim, part, directions=config.directions))
        dim = config.dim
        if layers[-1].dim != dim:
            raise UserError(
                "model.directions sets the number of corners for all layers; leave model.layer.directions out"
            )
    blocks = [GridBlocks(dim, dim, block=config.block) for _ in layers[1:]] if config.block > 1 else []
    return GridBody(embedding, layers, blocks, dropout=config.dropout)
