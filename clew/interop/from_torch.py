"""Layers of `torch.nn` as layers of ours, with their weights: recurrences and Transformers. Values and gradients are the same.

What comes back reads (batch, length, dim), whatever the module's batch_first, and a mask that is True where real, as every layer of ours
does; it takes weights under torch's names too, `layer.load_state_dict(module.state_dict())`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.types import Memory, State
from clew.interop.weight_maps import SPLIT, Entry, entry, prefixed, repeated, take, with_bias
from clew.layers.attention import CrossAttention, SelfAttention
from clew.layers.cells import Cell
from clew.layers.feedforward import FeedForward
from clew.layers.norms import LayerNorm
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.sequence import SequenceLayer, Stack
from clew.layers.torch_recurrent import NAMES, as_stack, cell_tensors
from clew.layers.wiring import PostNorm, PreNorm

KNOWN = "RNN, LSTM, GRU, TransformerEncoder, TransformerDecoder, Transformer"


class Normed(SequenceLayer):
    """y = norm(f(x)): a stack with a norm behind its last layer."""

    def __init__(self, layer: Stack, norm: nn.Module):
        super().__init__()
        self.layer = layer
        self.norm = norm
        self.dim = layer.dim
        self.causal = layer.causal

    def initial_state(self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor) -> State:
        return self.layer.initial_state(batch_size, memory, capacity, like=like)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        return self.norm(y), state

    def levels(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[list[Tensor], State]:
        (*lower, top), state = self.layer.levels(x, mask, state)
        return [*lower, self.norm(top)], state


class VectorTransformer(nn.Module):
    """An encoder and a decoder over vectors, called as an encoder-decoder body is.

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
            raise UserError("a Transformer writes from a source; give initial_state a memory: layer.encode(source, mask)")
        return self.decoder.initial_state(batch_size, memory, capacity, like=memory.values)

    def forward(self, target: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        if state is None:
            raise UserError(
                "a Transformer writes from a source; give it the state of initial_state(batch_size, layer.encode(source, mask))"
            )
        found: tuple[Tensor, State] = self.decoder(target, mask, state)
        return found


def from_torch(module: nn.Module, *, causal: bool | None = None) -> "SequenceLayer | VectorTransformer":
    """The layer of ours that computes what a layer of `torch.nn` does, with copies of its weights.

    `causal=True` makes of a TransformerEncoder one that is called with the mask of a language model. A decoder is causal: what torch
    computes with `tgt_mask=nn.Transformer.generate_square_subsequent_mask(length)`.
    """
    is_encoder = isinstance(module, nn.TransformerEncoder)
    if causal is not None and not is_encoder:
        kind = type(module).__name__
        raise UserError(f"causal is for a TransformerEncoder, and this is a {kind}, whose direction is its own; leave causal out")
    found: Any
    if isinstance(module, nn.RNNBase):
        found = as_stack(module, dropout=module.dropout)
        keep_frozen(module, found)
    elif isinstance(module, nn.TransformerEncoder):
        found = transformer_half(module, nn.TransformerEncoderLayer, causal=bool(causal))
    elif isinstance(module, nn.TransformerDecoder):
        found = transformer_half(module, nn.TransformerDecoderLayer, causal=True)
    elif isinstance(module, nn.Transformer):
        halves = module.encoder, module.decoder
        if not isinstance(halves[0], nn.TransformerEncoder) or not isinstance(halves[1], nn.TransformerDecoder):
            names = " and ".join(type(half).__name__ for half in halves)
            raise UserError(f"a Transformer of {names} is none that is known; its halves are a TransformerEncoder and a TransformerDecoder")
        found = VectorTransformer(from_torch(halves[0]), from_torch(halves[1]))
    else:
        raise UserError(f"from_torch does not know {type(module).__name__}; it knows {KNOWN}, and other modules by their parts")
    accept_torch_names(found)
    layer: SequenceLayer | VectorTransformer = found.train(module.training)
    return layer


TRAINED_BY = {
    "input_weight": ("weight_ih",),
    "hidden_weight": ("weight_hh",),
    "bias": ("bias_ih", "bias_hh"),
    "candidate_bias": ("bias_hh",),
    "projection": ("weight_hr",),
}
"""Their tensors that each of a cell's is made of."""


def keep_frozen(module: nn.RNNBase, stack: Stack) -> None:
    """A tensor of ours is trained where one of theirs is; a module without biases learns none."""
    for (number, suffix), (_, cell) in (cells_of(stack) or {}).items():
        for name, parameter in cell.named_parameters():
            theirs = (getattr(module, f"{part}_l{number}{suffix}", None) for part in TRAINED_BY[name])
            parameter.requires_grad_(any(each is not None and each.requires_grad for each in theirs))


def transformer_half(module: Any, layer_type: type, *, causal: bool) -> "Stack | Normed":
    """Every layer of theirs is two of ours, or three with a memory to look at, each with its connection and norm."""
    layers: list[SequenceLayer] = []
    for layer in module.layers:
        if type(layer) is not layer_type:
            raise UserError(f"{type(layer).__name__} is no layer of torch's that is known; known: {layer_type.__name__}")
        layers += layers_of(layer, causal=causal)
    stack = Stack(layers)
    found: Stack | Normed = stack
    if module.norm is not None:
        if not isinstance(module.norm, nn.LayerNorm):
            raise UserError(f"the last norm of a {type(module).__name__} is a {type(module.norm).__name__}; known: LayerNorm")
        found = Normed(stack, LayerNorm(stack.dim, eps=module.norm.eps, bias=module.norm.bias is not None))
    found.to(next(module.parameters()))
    theirs = module.state_dict()
    with torch.no_grad():
        shapes = {name: tuple(tensor.shape) for name, tensor in theirs.items()}
        take(entries_of(found), found.state_dict(), shapes, theirs.__getitem__, type(module).__name__)
    for name, parameter in found.named_parameters():
        parameter.requires_grad_(requires_grad(module, found, name))
    return found


def requires_grad(module: nn.Module, found: nn.Module, name: str) -> bool:
    """Whether the tensor of theirs that became this one is trained."""
    theirs = next(each.theirs for each in entries_of(found) if name in each.ours)
    return module.get_parameter(theirs).requires_grad


def layers_of(layer: Any, *, causal: bool) -> Iterator[SequenceLayer]:
    """Self-attention, of a decoder attention over its memory, and a network."""
    wiring = PreNorm if layer.norm_first else PostNorm
    own, dim = layer.self_attn, layer.self_attn.embed_dim
    parts: list[SequenceLayer] = [SelfAttention(dim, own.num_heads, causal=causal, **attention_settings(own))]
    if (other := getattr(layer, "multihead_attn", None)) is not None:
        parts.append(CrossAttention(dim, other.num_heads, **attention_settings(other)))
    has_bias = layer.linear1.bias is not None
    activation = activation_of(layer.activation)
    parts.append(FeedForward(dim, hidden_dim=layer.linear1.out_features, activation=activation, bias=has_bias, dropout=layer.dropout.p))
    for number, part in enumerate(parts, start=1):
        norm, dropout = getattr(layer, f"norm{number}"), getattr(layer, f"dropout{number}")
        yield wiring(dim, part, norm={"name": "layer", "eps": norm.eps, "bias": norm.bias is not None}, dropout=dropout.p)


def attention_settings(attention: nn.MultiheadAttention) -> dict[str, Any]:
    if attention.bias_k is not None or attention.add_zero_attn or attention.in_proj_weight is None:
        raise UserError("attention with add_bias_kv, add_zero_attn, kdim or vdim has no layer of ours; leave these options out")
    return {"bias": attention.in_proj_bias is not None, "dropout": attention.dropout}


def activation_of(given: Callable[..., Tensor]) -> str:
    """Our name of a function, or of a module that is one."""
    if isinstance(given, nn.GELU):
        return "gelu_tanh" if given.approximate == "tanh" else "gelu"
    name = next(
        (name for known, name in ACTIVATIONS.items() if given is known or (isinstance(known, type) and isinstance(given, known))), None
    )
    if name is None:
        called = getattr(given, "__name__", type(given).__name__)
        raise UserError(f"the activation {called} of a Transformer's layer is not known; known: relu, gelu, silu, tanh")
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
    """Their names of the tensors of an encoder or a decoder, of both halves, and ours."""
    if isinstance(layer, VectorTransformer):
        return [
            found._replace(ours=tuple(f"{half}.{name}" for name in found.ours))
            for half in ("encoder", "decoder")
            for found in prefixed(f"{half}.", entries_of(getattr(layer, half)))
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
        *(found for place in range(size) for found in with_bias(f"layers.{{n}}.norm{place + 1}", f"{ours}.{{{size}n+{place}}}.norm")),
    ]
    found = [*repeated(maps, len(parts) // size), *(with_bias("norm", "norm") if isinstance(layer, Normed) else [])]
    there = {name for name, _ in layer.named_parameters()}
    return [each for each in found if set(each.ours) <= there]  # biases are left out where there are none


def attention_entries(theirs: str, ours: str) -> list[Entry]:
    parts = [
        entry(f"{theirs}.in_proj_{part}", *(f"{ours}.{name}.{part}" for name in ("query", "key", "value")), transform=SPLIT)
        for part in ("weight", "bias")
    ]
    return [*parts, *with_bias(f"{theirs}.out_proj", f"{ours}.output")]


def accept_torch_names(layer: nn.Module) -> None:
    """Makes `load_state_dict` of a stack of recurrences, or of what `from_torch` gives, take torch's names besides its own; also where it
    is a part of another module."""
    if isinstance(layer, VectorTransformer):
        for half in (layer.encoder, layer.decoder):
            accept_torch_names(half)
    elif isinstance(layer, Stack) and cells_of(layer) is not None:
        layer.register_load_state_dict_pre_hook(partial(renamed, recurrent_tensors))
    elif isinstance(layer, (Stack, Normed)) and is_transformer(layer):
        layer.register_load_state_dict_pre_hook(partial(renamed, transformer_tensors))
    else:
        raise UserError(
            f"{type(layer).__name__} has no names of torch's for its weights; those that have are stacks of LSTM, GRU and Elman cells, and "
            "what from_torch gives"
        )


def is_transformer(layer: "Stack | Normed") -> bool:
    stack = layer.layer if isinstance(layer, Normed) else layer
    inner = [getattr(part, "layer", None) for part in stack.layers]
    return bool(inner) and all(isinstance(part, (SelfAttention, CrossAttention, FeedForward)) for part in inner)


def renamed(
    convert: Callable[[nn.Module, dict[str, Tensor]], dict[str, Tensor]], module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any
) -> None:
    """Before a module loads: tensors under torch's names become those of ours, in place."""
    theirs = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
    ours = convert(module, theirs)
    if not ours:
        return
    for name in theirs:
        del state[prefix + name]
    state |= {prefix + name: tensor for name, tensor in ours.items()}


def recurrent_tensors(stack: nn.Module, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors of `weight_ih_l0` and so on; none where the names are not torch's. What has no place stays under its own name."""
    if "weight_ih_l0" not in theirs:
        return {}
    cells = cells_of(stack) or {}
    left = dict(theirs)
    found: dict[str, Tensor] = {}
    for (number, suffix), (path, cell) in cells.items():
        read = {name: left.pop(f"{name}_l{number}{suffix}", None) for name in NAMES}
        if read["weight_ih"] is None or read["weight_hh"] is None:
            continue
        found |= {f"{path}.{name}": tensor for name, tensor in cell_tensors(cell, read.get).items()}
    return {**found, **left}


def transformer_tensors(layer: nn.Module, theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    if not any(name.endswith("in_proj_weight") for name in theirs):
        return {}
    left = dict(theirs)
    found: dict[str, Tensor] = {}
    for each in entries_of(layer):
        if (tensor := left.pop(each.theirs, None)) is not None:
            found |= dict(zip(each.ours, each.transform.to_ours(tensor, len(each.ours)), strict=True))
    return {**found, **left}


def cells_of(stack: nn.Module) -> dict[tuple[int, str], tuple[str, Cell]] | None:
    """The path and the cell of every layer and direction; None where a layer is no recurrence."""
    found: dict[tuple[int, str], tuple[str, Cell]] = {}
    layers: Any = getattr(stack, "layers", ())
    for number, layer in enumerate(layers):
        path = f"layers.{number}"
        if not isinstance(layer, (Recurrent, Bidirectional)) and isinstance(getattr(layer, "layer", None), (Recurrent, Bidirectional)):
            layer, path = layer.layer, f"{path}.layer"
        if isinstance(layer, Bidirectional):
            ways = {"": (layer.forward_layer, f"{path}.forward_layer"), "_reverse": (layer.backward_layer, f"{path}.backward_layer")}
        else:
            ways = {"": (layer, path)}
        for suffix, (way, name) in ways.items():
            if not isinstance(way, Recurrent):
                return None
            found[number, suffix] = f"{name}.cell", way.cell
    return found or None
