"""ELMo's body: an embedding below two stacks of recurrent layers, which read in opposite directions and never meet
(Peters et al. 2018)."""

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from clew.core.config import ModelSection, Part, build_part, one_of
from clew.core.state import map_state
from clew.core.types import Source, State
from clew.layers.cells import CELLS
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import Stack
from clew.layers.wiring import Plain, Residual
from clew.models.body import MOST_LAYERS, Body, uniform_init_all, uniform_table


class ELMoConfig(ModelSection):
    """An embedding and two stacks of recurrent layers with the same cell, one for each direction."""

    family: Literal["elmo"] = "elmo"
    cell: Annotated[Part, one_of("cell", CELLS)] = "projected_lstm"
    dim: int = Field(512, ge=1, description="width of the embedding and of each direction; the output is twice as wide")
    num_layers: int = Field(2, ge=1, le=MOST_LAYERS, description="layers of each stack; all but the first are residual")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after every layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding; default: dropout")
    last_dropout: float | None = Field(
        None, ge=0, lt=1, description="after the last layers; default: dropout; 0 leaves it to the task"
    )
    dropout_kind: Literal["plain", "locked"] = Field("plain", description="locked: one mask per sequence")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="drops whole words of the embedding table")
    init_scale: float | None = Field(
        None, gt=0, description="draws every parameter from U(-s, s); default: each cell's own initialisation"
    )


class ELMo(Body):
    """hidden = [forward stack(x); backward stack(x)],  x = embedding(tokens).

    `levels` are [x; x] and then the outputs of each pair of layers, concatenated, so that all have the same width.
    `directions` says that the halves of every vector are two readers: the first has not seen what follows a position,
    the second not what precedes it.
    """

    directions = True
    halves = True

    def carried_levels(
        self, inputs: Any, mask: Tensor | None = None, state: State = None
    ) -> tuple[list[Tensor], State]:
        """`levels` of a batch, with readers that continue from their last states in the previous batch, row by row, as
        AllenNLP runs ELMo. Also returns the state for the next batch.

        New rows start from zeros. Rows of the state beyond this batch are kept.
        """
        x, _ = self.embed(inputs, mask, None)
        layers: Any = self.layers
        levels, new = layers.carried_levels(x, mask, None if state is None else with_rows(state, x.shape[0]))
        return [*levels[:-1], self.norm(levels[-1])], new if state is None else map_state(behind, new, state)


def with_rows(state: State, rows: int) -> State:
    """The first `rows` rows of a state, padded with zeros."""
    return map_state(
        lambda leaf: torch.cat([leaf[:rows], leaf.new_zeros(max(rows - len(leaf), 0), *leaf.shape[1:])]), state
    )


def behind(new: Tensor, old: Tensor) -> Tensor:
    """The new rows, followed by the old rows beyond them."""
    return torch.cat([new, old[len(new) :]])


def build_elmo(config: ELMoConfig, source: Source) -> ELMo:
    input_dropout = config.dropout if config.input_dropout is None else config.input_dropout
    embedding = source.embedding(
        config.dim, dropout=input_dropout, dropout_kind=config.dropout_kind, word_dropout=config.word_dropout
    )
    body = ELMo(embedding, Bidirectional(build_stack(config), build_stack(config)))
    if config.init_scale is not None:
        uniform_init_all(body, config.init_scale)
    else:
        uniform_table(embedding, 0.1)
    return body


def build_stack(config: ELMoConfig) -> Stack:
    """One direction's stack: a plain first layer, then residual layers."""
    dropouts = [config.dropout] * (config.num_layers - 1) + [
        config.dropout if config.last_dropout is None else config.last_dropout
    ]
    layers = []
    for number, dropout in enumerate(dropouts):
        layer = Recurrent(build_part("cell", config.cell, CELLS, config.dim, config.dim))
        wiring = Residual if number else Plain
        layers.append(wiring(config.dim, layer, dropout=dropout, dropout_kind=config.dropout_kind))
    return Stack(layers)
