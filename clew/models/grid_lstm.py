"""Two-dimensional LSTMs (Graves, Fernandez and Schmidhuber 2007): an embedding of every cell under layers that read a grid from its
corners; between layers squares of cells may become one (Graves and Schmidhuber 2009)."""

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
from clew.layers.grid_lstm import GRID_LAYERS
from clew.layers.grids import GridBlocks, GridLayer
from clew.layers.pictures import PictureInputs
from clew.models.body import MOST_LAYERS, uniform_table


class GridLSTMConfig(ModelSection):
    """An embedding of the cells and `num_layers` layers over the grid."""

    family: Literal["grid_lstm"] = "grid_lstm"
    layer: Annotated[Part, one_of("grid layer", GRID_LAYERS)] = Field(
        "grid_lstm", description="grid_lstm: a forget gate for each of two neighbours; grid_gru: a mean of three neighbours"
    )
    dim: int = Field(64, ge=1, description="width of a layer, to which each corner's reader gives an equal part")
    num_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    directions: Literal[1, 2, 4] = Field(
        4, description="the corners a layer reads from: the top left; that and the bottom right; all four, so that a cell sees all others"
    )
    block: int = Field(1, ge=1, le=16, description="between layers, squares of so many cells a side become one cell; 1 leaves the grid")
    embedding_dim: int | None = Field(None, ge=1, description="width of the embedding; the hidden width where not given")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after every layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding, where it differs")


class Grids(NamedTuple):
    """Vectors (batch, height, width, dim), and which cells are real."""

    vectors: Tensor
    mask: Tensor | None


class GridBody(nn.Module):
    """hidden = layers(embedding(inputs)), each layer after the first above blocks of the one below, where there are any.

    `inputs` are grids of what the embedding takes: vectors (batch, height, width, features) or tokens (batch, height, width); the mask is
    (batch, height, width). Pictures come as their source gives them, with the mask (batch, length) of their places. Out comes a sequence
    of cells (batch, positions, dim), each example's real ones first, row by row; `hidden_mask` of what went in is its mask. It has no
    state: a grid is read as a whole.
    """

    causal = False
    halves = False
    grid = True
    max_length = None

    def __init__(self, embedding: Embedding, layers: Sequence[GridLayer], blocks: Sequence[GridBlocks] = (), *, dropout: float = 0.0):
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
            raise UserError("a grid is read as a whole, and this body takes no state")
        return self.levels(inputs, mask)[-1], None

    def levels(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> list[Tensor]:
        return [real_cells_first(*level) for level in self.grids(*self.cells(inputs, mask))]

    def hidden_mask(self, mask: Tensor | None, inputs: Any = None) -> Tensor | None:
        """Which positions (batch, positions) of what comes out are real, from the mask of what went in, and of pictures from these; None
        where all are."""
        if isinstance(inputs, PictureInputs):
            mask = grids_of_places(inputs.tokens, mask, inputs.tokens, *self.picture_grid(inputs))[1]
        for blocks in self.blocks:
            mask = None if mask is None else mask[:, :: blocks.block, :: blocks.block]
        return sequence_mask(mask)

    def cells(self, inputs: Any, mask: Tensor | None) -> Grids:
        """What is read as a vector a cell, and which cells are real."""
        if not isinstance(inputs, PictureInputs):
            return Grids(self.embed(inputs), mask)
        places, _ = advance(None, mask, inputs.tokens)
        return Grids(*grids_of_places(self.embedding(inputs, places), mask, inputs.tokens, *self.picture_grid(inputs)))

    def picture_grid(self, inputs: PictureInputs) -> tuple[int, int]:
        """Height and width of the grid of a batch of pictures, padding counted."""
        embedding: Any = self.embedding
        height, width = embedding.reader.grid_sizes(torch.tensor([inputs.pixels.shape[1:3]]))[0].tolist()
        return height, width

    def embed(self, inputs: Any) -> Tensor:
        """A vector a cell (batch, height, width, dim)."""
        given = tokens_of(inputs)
        if given.dim() != (3 if self.vocabulary else 4):
            wanted = "tokens (batch, height, width)" if self.vocabulary else f"vectors (batch, height, width, {self.embedding.width})"
            raise UserError(f"this body reads grids of {wanted}, not a tensor of the shape {list(given.shape)}")
        cells = map_tree(lambda leaf: leaf.flatten(1, 2), inputs)
        places, _ = advance(None, None, tokens_of(cells))
        vectors: Tensor = self.embedding(cells, places)
        return vectors.reshape(*given.shape[:3], self.embedding.dim)

    def grids(self, x: Tensor, mask: Tensor | None) -> list[Grids]:
        """What went in and what every layer gave, as grids."""
        found = [Grids(x, mask)]
        for number, layer in enumerate(self.layers):
            below = found[-1] if number == 0 or not self.blocks else Grids(*self.blocks[number - 1](*found[-1]))
            (hidden,) = layer(*below)
            found.append(Grids(self.dropout(hidden), below.mask))
        return found


def build_grid_lstm(config: GridLSTMConfig, source: Source) -> GridBody:
    if config.dim % config.directions:
        raise UserError(
            f"a layer gives each corner that it reads from an equal part of its width, so model.dim ({config.dim}) must be divisible by "
            f"model.directions ({config.directions})"
        )
    dim = config.embedding_dim or config.dim
    embedding = source.embedding(dim, dropout=config.dropout if config.input_dropout is None else config.input_dropout)
    uniform_table(embedding, 0.1)
    layers, part = [], config.dim // config.directions
    for _ in range(config.num_layers):
        layers.append(build_part("grid layer", config.layer, GRID_LAYERS, dim, part, directions=config.directions))
        dim = config.dim
        if layers[-1].dim != dim:
            raise UserError("model.directions says from how many corners a layer reads; leave model.layer.directions out")
    blocks = [GridBlocks(dim, dim, block=config.block) for _ in layers[1:]] if config.block > 1 else []
    return GridBody(embedding, layers, blocks, dropout=config.dropout)
