"""Convert layers of `torch.nn`, recurrences and Transformers, to ours with their weights. Values and gradients are the
same.

The result reads (batch, length, dim) for any batch_first of the module, and a mask that is True where real, like all
our layers. It also loads weights under torch's names: `layer.load_state_dict(module.state_dict())`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.types import Memory, State
from clew.interop.weight_maps import SPLIT, Entry, entry, prefixed, read_tensors_into, repeated, with_bias
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import SelfAttention
from clew.layers.cells import Cell
from clew.layers.feedforward import FeedForward
from clew.layers.norms import LayerNorm
from clew.layers.recurrence.torch_recurrent import NAMES, as_stack, cell_tensors
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.wiring import PostNorm, PreNorm

KNOWN = "RNN, LSTM, GRU, TransformerEncoder, TransformerDecoder, Transformer"


class Normed(SequenceLayer):
    """y = norm(f(x)): a stack with a norm after its last layer."""

    def __init__(self, layer: Stack, norm: nn.Module):
        super().__init__()
        self.layer = layer
        self.norm = norm
        self.dim = layer.dim
        self.causal = layer.causal

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        return self.layer.initial_state(batch_size, memory, capacity, like=like)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        return self.norm(y), state

    def levels(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        (*lower, top), state = self.layer.levels(x, mask, state)
        return [*lower, self.norm(top)], state


class VectorTransformer(nn.Module):
    """An encoder and a decoder over vectors, called like an encoder-decoder body.

    memory = encode(source, source_mask)
    state  = initial_state(batch_size, memory)
    y      = decoder(target, mask, state)
    """

    causal = True

    def __init__(self, encoder: Any, decoder: Any):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.dim: int = decoder.dim

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Memory:
        return Memory(self.encoder(source, mask)[0], mask)

    def initial_state(self, batch_size: int, memory: Memory | None = None, capacity: int | None = None) -> State:
        if memory is None:
            raise UserError(
                "a Transformer decodes from a source; pass initial_state a memory: layer.encode(source, mask)"
            )
        return self.decoder.initial_state(batch_size, memory, capacity, like=memory.values)

    def forward(self, target: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is None:
            raise UserError(
                "a Transformer decodes from a source; pass it the state of initial_state(batch_size,"
                " layer.encode(source, mask))"
            )
        outputs: tuple[Tensor, State] = self.decoder(target, mask, state)
        return outputs


def from_torch(module: nn.Module, *, causal: bool | None = None) -> "SequenceLayer | VectorTransformer":
    """Return our layer that computes the same as a layer of `torch.nn`, with copies of its weights.

    `causal=True` makes a TransformerEncoder causal, as a language model needs. A decoder is always causal: it computes
    the same as torch with `tgt_mask=nn.Transformer.generate_square_subsequent_mask(length)`.
    """
    is_encoder = isinstance(module, nn.TransformerEncoder)
    if causal is not None and not is_encoder:
        kind = type(module).__name__
        raise UserError(
            f"causal applies to a TransformerEncoder only, and this is a {kind}, which has its own direction; leave"
            " causal out"
        )
    converted: Any
    if isinstance(module, nn.RNNBase):
        converted = as_stack(module, dropout=module.dropout)
        keep_frozen(module, converted)
    elif isinstance(module, nn.TransformerEncoder):
        converted = transformer_half(module, nn.TransformerEncoderLayer, causal=bool(causal))
    elif isinstance(module, nn.TransformerDecoder):
        converted = transformer_half(module, nn.TransformerDecoderLayer, causal=True)
    elif isinstance(module, nn.Transformer):
        halves = module.encoder, module.decoder
        if not isinstance(halves[0], nn.TransformerEncoder) or not isinstance(halves[1], nn.TransformerDecoder):
            names = " and ".join(type(half).__name__ for half in halves)
            raise UserError(
                f"a Transformer of {names} is not supported; its halves must be a TransformerEncoder and a"
                " TransformerDecoder"
            )
        converted = VectorTransformer(from_torch(halves[0]), from_torch(halves[1]))
    else:
        raise UserError(
            f"from_torch does not know {type(module).__name__}; known: {KNOWN}; convert the parts of any other module"
        )
    accept_torch_names(converted)
    layer: SequenceLayer | VectorTransformer = converted.train(module.training)
    return layer


TRAINED_BY = {
    "input_weight": ("weight_ih",),
    "hidden_weight": ("weight_hh",),
    "bias": ("bias_ih", "bias_hh"),
    "candidate_bias": ("bias_hh",),
    "projection": ("weight_hr",),
}
"""For each tensor of our cells, the torch tensors from which it is computed."""


def keep_frozen(module: nn.RNNBase, stack: Stack) -> None:
    """Train each of our tensors if one of its source tensors is trained; a module without biases trains none."""
    for (number, suffix), (_, cell) in (cells_of(stack) or {}).items():
        for name, parameter in cell.named_parameters():
            theirs = (getattr(module, f"{part}_l{number}{suffix}", None) for part in TRAINED_BY[name])
            parameter.requires_grad_(any(each is not None and each.requires_grad for each in theirs))


def transformer_half(module: Any, layer_type: type, *, causal: bool) -> "Stack | Normed":
    """Convert an encoder or a decoder. Each of their layers becomes two of ours, or three with cross-attention, each
    with its residual connection and norm."""
    layers: list[SequenceLayer] = []
    for layer in module.layers:
        if type(layer) is not layer_type:
            raise UserError(f"the layer {type(layer).__name__} is not known; known: {layer_type.__name__}")
        layers += layers_of(layer, causal=causal)
    stack = Stack(layers)
    converted: Stack | Normed = stack
    if module.norm is not None:
        if not isinstance(module.norm, nn.LayerNorm):
            raise UserError(
                f"the last norm of a {type(module).__name__} is a {type(module.norm).__name__}; known: LayerNorm"
            )
        converted = Normed(stack, LayerNorm(stack.dim, eps=module.norm.eps, bias=module.norm.bias is not None))
    converted.to(next(module.parameters()))
    theirs = module.state_dict()
    with torch.no_grad():
        shapes = {name: tuple(tensor.shape) for name, tensor in theirs.items()}
        read_tensors_into(
            entries_of(converted), converted.state_dict(), shapes, theirs.__getitem__, type(module).__name__
        )
    for name, parameter in converted.named_parameters():
        parameter.requires_grad_(requires_grad(module, converted, name))
    return converted


def requires_grad(module: nn.Module, converted: nn.Module, name: str) -> bool:
    """Whether the source tensor of this parameter is trained."""
    theirs = next(each.theirs for each in entries_of(converted) if name in each.ours)
    return module.get_parameter(theirs).requires_grad


def layers_of(layer: Any, *, causal: bool) -> Iterator[SequenceLayer]:
    """Yield self-attention, cross-attention in a decoder, and a feed-forward network."""
    wiring = PreNorm if layer.norm_first else PostNorm
    own, dim = layer.self_attn, layer.self_attn.embed_dim
    parts: list[SequenceLayer] = [SelfAttention(dim, own.num_heads, causal=causal, **attention_settings(own))]
    if (other := getattr(layer, "multihead_attn", None)) is not None:
        parts.append(CrossAttention(dim, other.num_heads, **attention_settings(other)))
    has_bias = layer.linear1.bias is not None
    activation = activation_of(layer.activation)
    parts.append(
        FeedForward(
            dim, hidden_dim=layer.linear1.out_features, activation=activation, bias=has_bias, dropout=layer.dropout.p
        )
    )
    for number, part in enumerate(parts, start=1):
        norm, dropout = getattr(layer, f"norm{number}"), getattr(layer, f"dropout{number}")
        yield wiring(
            dim, part, norm={"name": "layer", "eps": norm.eps, "bias": norm.bias is not None}, dropout=dropout.p
        )


def attention_settings(attention: nn.MultiheadAttention) -> dict[str, Any]:
    if attention.bias_k is not None or attention.add_zero_attn or attention.in_proj_weight is None:
        raise UserError(
            "clew has no attention layer with add_bias_kv, add_zero_attn, kdim or vdim; build the layer without them"
        )
    return {"bias": attention.in_proj_bias is not None, "dropout": attention.dropout}


def activation_of(activation: Callable[..., Tensor]) -> str:
    """Return our name for an activation, given as a function or a module."""
    if isinstance(activation, nn.GELU):
        return "gelu_tanh" if activation.approximate == "tanh" else "gelu"
    name = next(
        (
            name
            for activation_type, name in ACTIVATIONS.items()
            if activation is activation_type
            or (isinstance(activation_type, type) and isinstance(activation, activation_type))
        ),
        None,
    )
    if name is None:
        its_name = getattr(activation, "__name__", type(activation).__name__)
        raise UserError(
            f"the activation {its_name} of a Transformer's layer is not known; known: relu, gelu, silu, tanh"
        )
    return name


ACTIVATIONS: dict[Any, str] = {
    F.relu: "relu",
    torch.relu: "relu",
    nn.ReLU: "relu",
    F.gelu: "gelu",
    F.silu: "silu",
    nn.SiLU: "silu",
    torch.tanh: "tanh",
    F.tanh: "tanh",
    nn.Tanh: "tanh",
}


def entries_of(layer: Any) -> list[Entry]:
    """Return the weight map of an encoder, a decoder or both."""
    if isinstance(layer, VectorTransformer):
        return [
            each._replace(ours=tuple(f"{half}.{name}" for name in each.ours))
            for half in ("encoder", "decoder")
            for each in prefixed(f"{half}.", entries_of(getattr(layer, half)))
        ]
    stack, ours = (layer.layer, "layer.layers") if isinstance(layer, Normed) else (layer, "layers")
    parts = list(stack.layers)
    size = 3 if any(isinstance(part.layer, CrossAttention) for part in parts) else 2
    own, network = f"{ours}.{{{size}n}}", f"{ours}.{{{size}n+{size - 1}}}"
    maps = [
        *attention_entries("layers.{n}.self_attn", f"{own}.layer"),
        *(attention_entries("layers.{n}.multihead_attn", f"{ours}.{{3n+1}}.layer") if size == 3 else []),
        *with_bias("layers.{n}.linear1", f"{network}.layer.inner"),
        *with_bias("layers.{n}.linear2", f"{network}.layer.outer"),
        *(
            each
            for place in range(size)
            for each in with_bias(f"layers.{{n}}.norm{place + 1}", f"{ours}.{{{size}n+{place}}}.norm")
        ),
    ]
    entries = [*repeated(maps, len(parts) // size), *(with_bias("norm", "norm") if isinstance(layer, Normed) else [])]
    parameter_names = {name for name, _ in layer.named_parameters()}
    # The layer may have no biases.
    return [each for each in entries if set(each.ours) <= parameter_names]


def attention_entries(theirs: str, ours: str) -> list[Entry]:
    parts = [
        entry(
            f"{theirs}.in_proj_{part}",
            *(f"{ours}.{name}.{part}" for name in ("query", "key", "value")),
            transform=SPLIT,
        )
        for part in ("weight", "bias")
    ]
    return [*parts, *with_bias(f"{theirs}.out_proj", f"{ours}.output")]


def accept_torch_names(layer: nn.Module) -> None:
    """Make `load_state_dict` of a stack of recurrences, or of a result of `from_torch`, accept torch's names in
    addition to its own, also as a part of another module."""
    if isinstance(layer, VectorTransformer):
        for half in (layer.encoder, layer.decoder):
            accept_torch_names(half)
    elif isinstance(layer, Stack) and cells_of(layer) is not None:
        layer.register_load_state_dict_pre_hook(partial(renamed, recurrent_tensors))
    elif isinstance(layer, (Stack, Normed)) and is_transformer(layer):
        layer.register_load_state_dict_pre_hook(partial(renamed, transformer_tensors))
    else:
        raise UserError(
            f"{type(layer).__name__} cannot load weights under torch's names; stacks of LSTM, GRU and Elman cells can,"
            " and results of from_torch"
        )


def is_transformer(layer: "Stack | Normed") -> bool:
    stack = layer.layer if isinstance(layer, Normed) else layer
    inner = [getattr(part, "layer", None) for part in stack.layers]
    return bool(inner) and all(isinstance(part, (SelfAttention, CrossAttention, FeedForward)) for part in inner)


def renamed(
    convert: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]],
    module: nn.Module,
    state: dict[str, Any],
    prefix: str,
    *rest: Any,
) -> None:
    """Replace tensors under torch's names by ours, in place, before a module loads them."""
    theirs = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    ours = convert(module, theirs)
    if not ours:
        return
    for name in theirs:
        del state[prefix + name]
    state |= {prefix + name: tensor for name, tensor in ours.items()}


def recurrent_tensors(stack: nn.Module, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return our tensors, computed from `weight_ih_l0` and so on; empty if the names are not torch's. Unknown tensors
    keep their names, so loading reports them."""
    if "weight_ih_l0" not in theirs:
        return {}
    cells = cells_of(stack) or {}
    unconverted = dict(theirs)
    ours: dict[str, Tensor] = {}
    for (number, suffix), (path, cell) in cells.items():
        torch_tensors = {name: unconverted.pop(f"{name}_l{number}{suffix}", None) for name in NAMES}
        if torch_tensors["weight_ih"] is None or torch_tensors["weight_hh"] is None:
            continue
        ours |= {f"{path}.{name}": tensor for name, tensor in cell_tensors(cell, torch_tensors.get).items()}
    return {**ours, **unconverted}


def transformer_tensors(layer: nn.Module, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    if not any(name.endswith("in_proj_weight") for name in theirs):
        return {}
    unconverted = dict(theirs)
    ours: dict[str, Tensor] = {}
    for each in entries_of(layer):
        if (tensor := unconverted.pop(each.theirs, None)) is not None:
            ours |= dict(zip(each.ours, each.transform.to_ours(tensor, len(each.ours)), strict=True))
    return {**ours, **unconverted}


def cells_of(stack: nn.Module) -> dict[tuple[int, str], tuple[str, Cell]] | None:
    """Return the path and the cell of every layer and direction; None if a layer is not a recurrence."""
    cells: dict[tuple[int, str], tuple[str, Cell]] = {}
    layers: Any = getattr(stack, "layers", ())
    for number, layer in enumerate(layers):
        path = f"layers.{number}"
        if not isinstance(layer, (Recurrent, Bidirectional)) and isinstance(
            getattr(layer, "layer", None), (Recurrent, Bidirectional)
        ):
            layer, path = layer.layer, f"{path}.layer"
        if isinstance(layer, Bidirectional):
            ways = {
                "": (layer.forward_layer, f"{path}.forward_layer"),
                "_reverse": (layer.backward_layer, f"{path}.backward_layer"),
            }
        else:
            ways = {"": (layer, path)}
        for suffix, (way, name) in ways.items():
            if not isinstance(way, Recurrent):
                return None
            cells[number, suffix] = f"{name}.cell", way.cell
    return cells or None
