"""Recurrent bodies: an embedding below a stack of recurrent layers (Mikolov et al. 2010; Zaremba et al. 2014; Merity et
al. 2018)."""

from typing import Annotated, Literal

from pydantic import Field

from clew.core.config import ModelSection, Part, build_part, one_of
from clew.core.errors import UserError
from clew.core.types import Source
from clew.layers.cells import CELLS
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import WIRINGS
from clew.models.body import MOST_LAYERS, Body, uniform_init_all, uniform_table


class RecurrentConfig(ModelSection):
    """An embedding and `num_layers` recurrent layers with the same cell."""

    family: Literal["recurrent"] = "recurrent"
    cell: Annotated[Part, one_of("cell", CELLS)] = "lstm"
    dim: int = Field(512, ge=1, description="width of the hidden state")
    bidirectional: bool = Field(
        False, description="every layer reads in both directions, each with half of its width; not for generation"
    )
    num_layers: int = Field(1, ge=1, le=MOST_LAYERS)
    embedding_dim: int | None = Field(None, ge=1, description="width of the embedding; default: dim")
    last_dim: int | None = Field(None, ge=1, description="width of the last layer; default: dim")
    wiring: Annotated[Part, one_of("wiring", WIRINGS)] = Field(
        "plain", description="how a layer is connected to the one below"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embedding and after every layer")
    input_dropout: float | None = Field(None, ge=0, lt=1, description="after the embedding; default: dropout")
    last_dropout: float | None = Field(
        None, ge=0, lt=1, description="after the last layer; default: dropout; 0 leaves it to the task"
    )
    dropout_kind: Literal["plain", "locked"] = Field("plain", description="locked: one mask per sequence")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="drops whole words of the embedding table")
    init_scale: float | None = Field(
        None, gt=0, description="draws every parameter from U(-s, s); default: each cell's own initialisation"
    )


def build_recurrent(config: RecurrentConfig, source: Source) -> Body:
    dim = config.embedding_dim or config.dim
    input_dropout = config.dropout if config.input_dropout is None else config.input_dropout
    last_dropout = config.dropout if config.last_dropout is None else config.last_dropout
    embedding = source.embedding(
        dim, dropout=input_dropout, dropout_kind=config.dropout_kind, word_dropout=config.word_dropout
    )
    below = config.num_layers - 1
    widths, dropouts = [config.dim] * below + [config.last_dim or config.dim], [config.dropout] * below + [last_dropout]
    layers = []
    for width, dropout in zip(widths, dropouts, strict=True):
        layer = build_reader(config, dim, width)
        layers.append(
            build_part("wiring", config.wiring, WIRINGS, dim, layer, dropout=dropout, dropout_kind=config.dropout_kind)
        )
        dim = layers[-1].dim
    body = Body(embedding, Stack(layers))
    body.halves = config.bidirectional
    if config.init_scale is not None:
        uniform_init_all(body, config.init_scale)
    else:
        uniform_table(embedding, 0.1)
    return body


def build_reader(config: RecurrentConfig, input_dim: int, dim: int) -> SequenceLayer:
    """One recurrent layer, or two of half the width that read in opposite directions."""
    if not config.bidirectional:
        return Recurrent(build_part("cell", config.cell, CELLS, input_dim, dim))
    if dim % 2:
        raise UserError(f"a bidirectional layer gives half of its width to each direction, so dim ({dim}) must be even")
    return Bidirectional(*(Recurrent(build_part("cell", config.cell, CELLS, input_dim, dim // 2)) for _ in range(2)))
