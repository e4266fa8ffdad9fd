"""ELMo's body: an embedding under two stacks of recurrences that read in opposite directions and never meet (Peters et al. 2018)."""

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
    """An embedding and two stacks of recurrences of one cell, a stack a direction."""

    family: Literal["elmo"] = "elmo"
    cell: Annotated[Part, one_of("cell", CELLS)] = "projected_lstm"
    dim: int = Field(512, ge=1, description="width of the embedding and of each direction; what comes out is twice as wide")
    num_layers: int = Field(2, ge=1, le=MOST_LAYERS, description="of each stack; all but the first add what goes in (residual)")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after every layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding, where it differs")
    last_dropout: float | None = Field(None, ge=0, lt=1, description="after the last layers, where it differs; 0 leaves it to the task")
    dropout_kind: Literal["plain", "locked"] = Field("plain", description="locked: one mask a sequence")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="whole words of the embedding table")
    init_scale: float | None = Field(None, gt=0, description="every parameter from U(-s, s); each cell's own start where not given")


class ELMo(Body):
    """hidden = [forward stack(x); backward stack(x)],  x = embedding(tokens).

    `levels` gives [x; x], then each pair of layers side by side, so that all are of one width. `directions` says that the halves of every
    vector are two readers: the first knows nothing of what comes after it, the second nothing of what came before.
    """

    directions = True
    halves = True

    def carried_levels(self, inputs: Any, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        """`levels` of a batch whose readers go on from where they ended with the batch before, row by row, as AllenNLP runs ELMo; and the
        state for the next batch.

        A row that no batch had before begins with zeros; a row that this batch has not keeps its state.
        """
        x, _ = self.embed(inputs, mask, None)
        layers: Any = self.layers
        levels, new = layers.carried_levels(x, mask, None if state is None else with_rows(state, x.shape[0]))
        return [*levels[:-1], self.norm(levels[-1])], new if state is None else map_state(behind, new, state)


def with_rows(state: State, rows: int) -> State:
    """The first rows of a state, and zeros for those that it has not."""
    return map_state(lambda leaf: torch.cat([leaf[:rows], leaf.new_zeros(max(rows - len(leaf), 0), *leaf.shape[1:])]), state)


def behind(new: Tensor, old: Tensor) -> Tensor:
    """The new rows, and behind them the old ones that have no new."""
    return torch.cat([new, old[len(new) :]])


def build_elmo(config: ELMoConfig, source: Source) -> ELMo:
    input_dropout = config.dropout if config.input_dropout is None else config.input_dropout
    embedding = source.embedding(config.dim, dropout=input_dropout, dropout_kind=config.dropout_kind, word_dropout=config.word_dropout)
    body = ELMo(embedding, Bidirectional(build_stack(config), build_stack(config)))
    if config.init_scale is not None:
        uniform_init_all(body, config.init_scale)
    else:
        uniform_table(embedding, 0.1)
    return body


def build_stack(config: ELMoConfig) -> Stack:
    """One direction's reader: the first layer as it is, every other around what it reads."""
    dropouts = [config.dropout] * (config.num_layers - 1) + [config.dropout if config.last_dropout is None else config.last_dropout]
    layers = []
    for number, dropout in enumerate(dropouts):
        layer = Recurrent(build_part("cell", config.cell, CELLS, config.dim, config.dim))
        wiring = Residual if number else Plain
        layers.append(wiring(config.dim, layer, dropout=dropout, dropout_kind=config.dropout_kind))
    return Stack(layers)
