"""Recurrent encoder-decoders: the plain bottleneck (Sutskever et al. 2014); attention before the decoder's cell
(Bahdanau et al. 2015) or after it (Luong et al. 2015), soft or hard (Xu et al. 2015); optionally with residual
connections (Wu et al. 2016) and a pyramid encoder (Chan et al. 2016)."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import nn

from clew.core.config import ModelSection, Part, build_part, one_of
from clew.core.errors import UserError
from clew.core.types import Source, State
from clew.layers.attending.annotations import Annotations
from clew.layers.attending.hard_attention import HardAttention, Reinforce
from clew.layers.attention import Attention
from clew.layers.attentive import Attend, AttentiveCell, Drawing, FeedingCell, Looking
from clew.layers.cells import CELLS, Cell
from clew.layers.feedforward import Readout
from clew.layers.recurrence.nested_cells import DroppedCell, StackedCell
from clew.layers.recurrence.residual_cell import ResidualCell
from clew.layers.recurrent import Backward, Bidirectional, Recurrent
from clew.layers.scores import SCORES, Score
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.shapes.pyramid import Halved
from clew.layers.wiring import Bypass, Plain, Residual
from clew.models.body import MOST_LAYERS, Body, uniform_init_all, uniform_table
from clew.models.bridges import Bridge, Copy, MeanBridge
from clew.models.encoder_decoder import EncoderDecoder, embeddings


class Seq2SeqConfig(ModelSection):
    """A recurrent encoder and a recurrent decoder."""

    family: Literal["seq2seq"] = "seq2seq"
    cell: Annotated[Part, one_of("cell", CELLS)] = "lstm"
    dim: int = Field(512, ge=1, description="width of each recurrent layer, and of the decoder's output")
    num_layers: int = Field(1, ge=1, le=MOST_LAYERS, description="layers of the decoder, and by default of the encoder")
    encoder: Literal["recurrent", "bare"] = Field(
        "recurrent", description="bare: no layers; the decoder attends to the embedded source, and starts from its mean"
    )
    encoder_layers: int | None = Field(None, ge=1, le=MOST_LAYERS)
    embedding_dim: int | None = Field(None, ge=1, description="width of the embeddings; default: dim")
    shared_embeddings: bool = Field(
        False, description="one table for source and target; with task.tied for the output too"
    )
    direction: Literal["forward", "backward", "both"] = Field(
        "both", description="reading direction of the encoder; both makes its vectors twice as wide as dim"
    )
    pyramid: int = Field(
        0, ge=0, le=10, description="number of top encoder layers that read pairs of positions; each halves the length"
    )
    bridge: Literal["copy", "dense", "zero"] = Field(
        "dense",
        description=(
            "the decoder's initial state: the encoder's last states, copied or mapped by tanh(W s + b), or zero"
        ),
    )
    attention: Literal["none", "before", "after"] = Field(
        "before", description="where the decoder attends to the source: nowhere, before its cell, after its cell"
    )
    score: Annotated[Part, one_of("score", SCORES)] = "additive"
    hard: bool = Field(False, description="attend to one drawn place, not to the mean of all")
    expectation: float = Field(
        0.0,
        ge=0,
        le=1,
        description="hard attention: the share of training rows that use the mean of all places (Xu et al. 2015: 0.5)",
    )
    policy_weight: float = Field(1.0, ge=0, description="hard attention: weight of the policy gradient of the draws")
    entropy_weight: float = Field(
        0.01, ge=0, description="hard attention: weight of the draws' entropy, which keeps them varied"
    )
    feeding: bool = Field(True, description="attention after the cell: its output is fed to the next step")
    join: Literal["tanh", "none"] = Field(
        "tanh",
        description="attention after the cell: the decoder's output is tanh(W [context; s]), or with none [s; context]",
    )
    readout: Literal["none", "tanh", "maxout"] = Field(
        "maxout", description="attention before the cell: how state, context and word are joined"
    )
    residual: bool = Field(
        False, description="adds each layer's input to its output, from the second layer on, in encoder and decoder"
    )
    word_dropout: float = Field(0.0, ge=0, lt=1, description="drops whole words of the target's embedding table")
    dropout: float = Field(0.0, ge=0, lt=1, description="after the embeddings and after every layer")
    dropout_kind: Literal["plain", "locked"] = Field("plain", description="locked: one mask per sequence")
    init_scale: float | None = Field(
        None, gt=0, description="draws every parameter from U(-s, s); default: each part's own initialisation"
    )


def build_seq2seq(config: Seq2SeqConfig, target: Source, source: Source | None = None) -> EncoderDecoder:
    """The default of `source` is `target`."""
    check_choices(config)
    embedding_dim = config.embedding_dim or config.dim
    dropout: dict[str, Any] = {"dropout": config.dropout, "dropout_kind": config.dropout_kind}
    reads, writes = embeddings(
        target, source, embedding_dim, shared=config.shared_embeddings, word_dropout=config.word_dropout, **dropout
    )
    encoder = Body(reads, Stack(ENCODERS[config.encoder].layers(config, embedding_dim)))
    layers = {"none": bottleneck_layers, "before": layers_looking_before, "after": layers_looking_after}[
        config.attention
    ]
    decoder = Body(writes, Stack(layers(config, embedding_dim, encoder.dim)))
    weights = {"policy_weight": config.policy_weight, "entropy_weight": config.entropy_weight}
    reinforce = Reinforce(writes.vocabulary, **weights) if config.hard else None
    body = EncoderDecoder(encoder, decoder, build_bridge(config, embedding_dim), reinforce)
    for embedding in (reads, writes):
        uniform_table(embedding, 0.1)
    if config.init_scale is not None:
        uniform_init_all(body, config.init_scale)
    return body


def check_choices(config: Seq2SeqConfig) -> None:
    if config.attention == "none" and config.hard:
        raise UserError(
            "model.hard=true draws where to attend, but model.attention=none does not attend; use before or after"
        )
    if config.attention == "none" and config.bridge == "zero":
        raise UserError(
            "with model.attention=none and model.bridge=zero nothing of the source would reach the decoder; use copy"
            " or dense"
        )
    if config.expectation and not config.hard:
        raise UserError(
            f"model.expectation ({config.expectation}) is for hard attention, and soft attention always takes the mean;"
            " set model.hard=true, or leave it out"
        )
    if config.join == "none" and config.attention != "after":
        raise UserError(
            f"model.join=none is for model.attention=after, not {config.attention}; with before, set model.readout=none"
        )
    if config.encoder == "bare":
        check_bare(config)
    encoder_layers = config.encoder_layers or config.num_layers
    if config.pyramid > encoder_layers:
        raise UserError(
            f"model.pyramid ({config.pyramid}) must be at most the number of the encoder's layers, {encoder_layers}"
        )
    if config.pyramid and config.residual:
        raise UserError(
            "model.pyramid joins pairs of positions, so a layer's input is twice too wide to add; set"
            " model.residual=false"
        )
    if config.residual and max(encoder_layers, config.num_layers) == 1:
        raise UserError(
            "model.residual=true is for layers from the second on, and encoder and decoder have one; raise"
            " model.num_layers"
        )
    if config.bridge == "copy" and (config.direction == "both" or encoder_layers != config.num_layers):
        raise UserError(
            "model.bridge=copy needs one reader and as many encoder as decoder layers, not direction"
            f" {config.direction} and {encoder_layers} layers under {config.num_layers}; use dense, or"
            " model.direction=backward"
        )


def check_bare(config: Seq2SeqConfig) -> None:
    if config.encoder_layers is not None:
        raise UserError(
            f"model.encoder=bare has no layers, but model.encoder_layers is {config.encoder_layers}; leave it out"
        )
    if config.pyramid:
        raise UserError(f"model.encoder=bare has no layers, but model.pyramid is {config.pyramid}; leave it out")
    if config.bridge == "copy":
        raise UserError(
            "model.bridge=copy copies the last states of a recurrent encoder, and model.encoder=bare has none; use"
            " dense"
        )


def recurrent_layers(config: Seq2SeqConfig, dim: int) -> list[SequenceLayer]:
    layers: list[SequenceLayer] = []
    count = config.encoder_layers or config.num_layers
    for number in range(count):
        is_halved = number >= count - config.pyramid
        dim = 2 * dim if is_halved else dim
        layer: SequenceLayer = Recurrent(build_cell(config, dim))
        if config.direction == "both":
            layer = Bidirectional(layer, Recurrent(build_cell(config, dim)))
        elif config.direction == "backward":
            layer = Backward(layer)
        wired = above(config, dim, layer) if layers else dropped(config, dim, layer)
        layers.append(Halved(wired) if is_halved else wired)
        dim = layer.dim
    return layers


def bottleneck_layers(config: Seq2SeqConfig, dim: int, memory_dim: int) -> list[SequenceLayer]:
    """Layers that see nothing of the source but their initial state."""
    first = dropped(config, dim, Recurrent(build_cell(config, dim)))
    return [
        first,
        *(above(config, config.dim, Recurrent(build_cell(config, config.dim))) for _ in range(config.num_layers - 1)),
    ]


def layers_looking_before(config: Seq2SeqConfig, dim: int, memory_dim: int) -> list[SequenceLayer]:
    """The first layer attends, as in Bahdanau et al. Upper layers read its state and context (Wu et al. 2016), so that
    they run over all steps at once. The readout joins the top's state, the context and the word (Bahdanau et al. 2015,
    appendix A.2.2)."""
    word_dim = 0 if config.readout == "none" else dim
    first = AttentiveCell(
        dim, memory_dim, build_cell(config, dim + memory_dim), build_score(config, memory_dim), attend=attend(config)
    )
    # [s; context; word]
    layers: list[SequenceLayer] = [bypassed(config, dim, looking_layer(config, first), reads=dim, keeps=word_dim)]
    for _ in range(config.num_layers - 1):
        upper = Recurrent(build_cell(config, config.dim + memory_dim))
        reads, keeps = upper.cell.input_dim, memory_dim + word_dim
        layers.append(bypassed(config, layers[-1].dim, upper, reads=reads, keeps=keeps, residual=config.residual))
    if config.readout != "none":
        layers.append(Readout(layers[-1].dim, config.dim, kind=config.readout))
    return layers


def layers_looking_after(config: Seq2SeqConfig, dim: int, memory_dim: int) -> list[SequenceLayer]:
    """The top layer's state attends (Luong et al. 2015). With feeding, the stack is one cell; otherwise each layer runs
    over all steps."""
    score, joined = build_score(config, memory_dim), config.join == "tanh"
    out_dim = config.dim if joined else config.dim + memory_dim
    if not config.feeding:
        looking = Looking(config.dim, out_dim, memory_dim, score, joined=joined, attend=attend(config))
        return [*bottleneck_layers(config, dim, memory_dim), dropped(config, config.dim, looking)]
    cells: list[Cell] = [build_cell(config, dim + (config.dim if joined else memory_dim))]
    for _ in range(config.num_layers - 1):
        cells[-1] = DroppedCell(cells[-1], config.dropout, config.dropout_kind)
        cells.append(build_cell(config, config.dim))
    if config.residual:
        cells[1:] = map(ResidualCell, cells[1:])
    cell = FeedingCell(dim, out_dim, memory_dim, StackedCell(cells), score, joined=joined, attend=attend(config))
    return [dropped(config, dim, looking_layer(config, cell))]


def build_bridge(config: Seq2SeqConfig, read_dim: int) -> nn.Module | None:
    """`read_dim` is the width of the encoder's inputs."""
    in_one = config.attention == "after" and config.feeding
    if config.bridge == "zero":
        return None
    if config.bridge == "copy":
        return Copy(in_one=in_one)
    state = build_cell(config, 1).initial_state(1, like=torch.zeros(1))
    return ENCODERS[config.encoder].bridge(config, read_dim, state, in_one)


def recurrent_bridge(config: Seq2SeqConfig, read_dim: int, state: State, in_one: bool) -> nn.Module:
    layers = {"encoder_layers": config.encoder_layers or config.num_layers, "decoder_layers": config.num_layers}
    return Bridge(state, readers=2 if config.direction == "both" else 1, in_one=in_one, **layers)


def bare_layers(config: Seq2SeqConfig, dim: int) -> list[SequenceLayer]:
    return [Annotations(dim)]


def bare_bridge(config: Seq2SeqConfig, read_dim: int, state: State, in_one: bool) -> nn.Module:
    return MeanBridge(state, read_dim, decoder_layers=config.num_layers, in_one=in_one)


def build_cell(config: Seq2SeqConfig, input_dim: int) -> Cell:
    cell: Cell = build_part("cell", config.cell, CELLS, input_dim, config.dim)
    return cell


def build_score(config: Seq2SeqConfig, memory_dim: int) -> Score:
    score: Score = build_part("score", config.score, SCORES, config.dim, memory_dim)
    return score


def attend(config: Seq2SeqConfig) -> Attend:
    return partial(HardAttention, expectation=config.expectation) if config.hard else Attention


def looking_layer(config: Seq2SeqConfig, cell: Cell) -> SequenceLayer:
    return Drawing(cell) if config.hard else Recurrent(cell)


def above(config: Seq2SeqConfig, dim: int, layer: SequenceLayer) -> SequenceLayer:
    """Connect a layer to the one below."""
    wiring = Residual if config.residual else Plain
    return wiring(dim, layer, dropout=config.dropout, dropout_kind=config.dropout_kind)


def dropped(config: Seq2SeqConfig, dim: int, layer: SequenceLayer) -> SequenceLayer:
    return Plain(dim, layer, dropout=config.dropout, dropout_kind=config.dropout_kind)


def bypassed(
    config: Seq2SeqConfig, dim: int, layer: SequenceLayer, *, reads: int, keeps: int, residual: bool = False
) -> SequenceLayer:
    around: dict[str, Any] = {"dropout": config.dropout, "dropout_kind": config.dropout_kind}
    return Bypass(dim, layer, reads=reads, keeps=keeps, residual=residual, **around)


class Encoder(NamedTuple):
    """`layers(config, dim)` read vectors of width `dim`; `bridge(config, dim, state, in_one)` makes the decoder's
    initial state."""

    layers: Callable[[Seq2SeqConfig, int], list[SequenceLayer]]
    bridge: Callable[[Seq2SeqConfig, int, State, bool], nn.Module]


ENCODERS: dict[str, Encoder] = {
    "recurrent": Encoder(recurrent_layers, recurrent_bridge),
    "bare": Encoder(bare_layers, bare_bridge),
}
