"""Marian's Transformer in `transformers`: post-norm, sines and cosines in two halves, a bias in the output layer."""

from typing import Any

import torch
from torch import Tensor

from clew.core.config import part_name, part_options
from clew.core.errors import UserError, shown
from clew.interop.huggingface.architecture import Architecture, Head, Outgoing, TaskRead, check_supported
from clew.interop.huggingface.fields import ACTIVATIONS, THEIR_ACTIVATIONS, Fields
from clew.interop.huggingface.folders import GENERATION, Checkpoint, read_object
from clew.interop.huggingface.tokenizer_writing import other_formats
from clew.interop.weight_maps import AS_ROW, Entry, entry, repeated, with_bias
from clew.models.transformer import TransformerConfig


def attention(theirs: str, norm: str, ours: str) -> list[Entry]:
    parts = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
    maps = [each for part, name in parts.items() for each in with_bias(f"{theirs}.{part}", f"{ours}.layer.{name}")]
    return [*maps, *with_bias(norm, f"{ours}.norm")]


def network(theirs: str, ours: str) -> list[Entry]:
    return [
        *with_bias(f"{theirs}.fc1", f"{ours}.layer.inner"),
        *with_bias(f"{theirs}.fc2", f"{ours}.layer.outer"),
        *with_bias(f"{theirs}.final_layer_norm", f"{ours}.norm"),
    ]


READING, WRITING = "model.encoder.layers.{n}", "model.decoder.layers.{n}"
ENCODER = [
    *attention(f"{READING}.self_attn", f"{READING}.self_attn_layer_norm", "body.encoder.layers.layers.{2n}"),
    *network(READING, "body.encoder.layers.layers.{2n+1}"),
]
DECODER = [
    *attention(f"{WRITING}.self_attn", f"{WRITING}.self_attn_layer_norm", "body.decoder.layers.layers.{3n}"),
    *attention(f"{WRITING}.encoder_attn", f"{WRITING}.encoder_attn_layer_norm", "body.decoder.layers.layers.{3n+1}"),
    *network(WRITING, "body.decoder.layers.layers.{3n+2}"),
]


def entries(model: TransformerConfig) -> list[Entry]:
    ours = "body.decoder.embedding.tokens.weight"
    tables = [entry("model.shared.weight", ours)]
    if not model.shared_embeddings:
        tables = [
            entry("model.encoder.embed_tokens.weight", "body.encoder.embedding.tokens.weight"),
            entry("model.decoder.embed_tokens.weight", ours),
        ]
    counts = [
        layers if isinstance(layers, int) else model.num_layers
        for layers in (model.encoder_layers, model.decoder_layers)
    ]
    return [
        *tables,
        *repeated(ENCODER, counts[0]),
        *repeated(DECODER, counts[1]),
    ]


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    fields = checkpoint.config
    for field, value in FIXED.items():
        fields.expect(field, value)
    fields.skip(*IGNORED)
    dim, heads, hidden = (
        fields.get("d_model", int),
        fields.get("encoder_attention_heads", int),
        fields.get("encoder_ffn_dim", int),
    )
    fields.expect("decoder_attention_heads", heads, default=heads)
    fields.expect("decoder_ffn_dim", hidden, default=hidden)
    fields.check(dim % heads == 0, f"d_model ({dim}) must be divisible by encoder_attention_heads ({heads})")
    shared = fields.get("share_encoder_decoder_embeddings", bool, True) and not has_own_tables(checkpoint)
    vocabulary = fields.get("vocab_size", int)
    fields.check(
        not shared or fields.get("decoder_vocab_size", int, vocabulary) == vocabulary,
        "decoder_vocab_size must equal vocab_size if both sides share their embeddings"
        " (share_encoder_decoder_embeddings)",
    )
    return {
        "family": "transformer",
        "dim": dim,
        "num_heads": heads,
        "encoder_layers": fields.get("encoder_layers", int),
        "decoder_layers": fields.get("decoder_layers", int),
        "hidden_dim": hidden,
        "activation": fields.choose("activation_function", ACTIVATIONS, "gelu"),
        "position": {"name": "sinusoidal", "interleaved": False},
        "max_length": fields.get("max_position_embeddings", int, 1024),
        "shared_embeddings": shared,
        "scaled_embeddings": fields.get("scale_embedding", bool, False),
        "dropout": fields.get("dropout", float, 0.1),
        "attention_dropout": fields.get("attention_dropout", float, 0.0),
        "network_dropout": fields.get("activation_dropout", float, 0.0),
    }


def has_own_tables(checkpoint: Checkpoint) -> bool:
    """Whether the checkpoint is untied and each side has its own table, for any value of
    share_encoder_decoder_embeddings."""
    tables = [f"model.{side}.embed_tokens.weight" for side in ("encoder", "decoder")]
    if checkpoint.config.get("tie_word_embeddings", bool, True) or not all(name in checkpoint for name in tables):
        return False
    source, target = map(checkpoint.read, tables)
    return not source.equal(target)


def read_translation(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
    fields = checkpoint.config
    pad, end = fields.get("pad_token_id", int), fields.get("eos_token_id", int)
    start = fields.get("decoder_start_token_id", int, pad)
    fields.check(
        start in (pad, end), f"decoder_start_token_id ({start}) must be pad_token_id ({pad}) or eos_token_id ({end})"
    )
    tied = fields.get("tie_word_embeddings", bool, True)
    task = {"tied": tied, "start": "pad" if start == pad else "end", "max_ratio": None}
    path = checkpoint.folder / GENERATION
    own = {"max_length": fields.values.get("max_length")}
    # Transformers reads only one of the two files.
    writing = Fields({**own, **read_object(path)}, path) if path.is_file() else fields
    beams, early = writing.get("num_beams", int, 1), writing.values.get("early_stopping") or False
    writing.check(
        isinstance(early, bool | str) and early in EARLY_STOPS,
        f"early_stopping is {shown(early)}; known: false, true, 'never'",
    )
    last = writing.get("forced_eos_token_id", int, None)
    writing.check(last in (None, end), f"forced_eos_token_id ({last}) must be eos_token_id ({end})")
    longest = max(writing.get("max_length", int, 512) - 1, 1)  # their max_length includes the decoder's start token
    decoding = {
        "max_new": writing.get("max_new_tokens", int, longest),
        "method": "greedy" if beams == 1 else "beam",
        "beams": beams,
        "length_penalty": writing.get("length_penalty", float, 1.0),
        "early_stop": EARLY_STOPS[early],
        "forced_end": last is not None,
    }
    fields.skip("num_beams", "max_length", "max_new_tokens", "length_penalty", "early_stopping", "forced_eos_token_id")
    return TaskRead(task, sections={"decoding": decoding})


EARLY_STOPS = {False: "likely", True: "full", "never": "never"}
"""Our names for the values of early_stopping, the rule that ends beam search."""


def translation_entries(task: Any) -> list[Entry]:
    own = [entry("lm_head.weight", "output_weight")] if task.tied is False else []
    return [entry("final_logits_bias", "output_bias", transform=AS_ROW), *own]


def write_translation(model: TransformerConfig, task: Any, out: Outgoing) -> dict[str, Any]:
    check_supported(task, "Marian", bias=True)
    start = out.tokenizer.end if task.start == "end" else pad_of(out)
    return {"tie_word_embeddings": task.tied is not False, "decoder_start_token_id": start}


def pad_of(out: Outgoing) -> int | None:
    return out.tokenizer.end if out.tokenizer.pad is None else out.tokenizer.pad


def write(model: TransformerConfig, out: Outgoing) -> dict[str, Any]:
    check_supported(
        model,
        "Marian",
        wiring="post_norm",
        norm="layer",
        score="scaled",
        bias=True,
        activation=tuple(THEIR_ACTIVATIONS),
    )
    for half in ("encoder_layers", "decoder_layers"):
        if isinstance(getattr(model, half), list):
            raise UserError(
                f"Marian has layers of attention and feed-forward networks only, but model.{half} lists others;"
                f" {other_formats()}"
            )
    if part_name(model.position) != "sinusoidal" or part_options(model.position).get("base", 10000.0) != 10000.0:
        raise UserError(
            f"Marian has sinusoidal positions of base 10000, but this run has model.position={model.position!r};"
            f" {other_formats()}"
        )
    end, pad = out.tokenizer.end, pad_of(out)
    return {
        "model_type": "marian",
        "is_encoder_decoder": True,
        "d_model": model.dim,
        "encoder_layers": model.encoder_layers or model.num_layers,
        "decoder_layers": model.decoder_layers or model.num_layers,
        "encoder_attention_heads": model.num_heads,
        "decoder_attention_heads": model.num_heads,
        "encoder_ffn_dim": model.hidden_dim or 4 * model.dim,
        "decoder_ffn_dim": model.hidden_dim or 4 * model.dim,
        "activation_function": THEIR_ACTIVATIONS[model.activation],
        "max_position_embeddings": max(model.max_length, 1024),
        "share_encoder_decoder_embeddings": model.shared_embeddings,
        "scale_embedding": model.scaled_embeddings,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": model.network_dropout,
        "decoder_vocab_size": out.tokenizer.vocabulary,
        "pad_token_id": pad,
        "eos_token_id": end,
        "bos_token_id": None,
        "bad_words_ids": None if pad == end else [[pad]],
        "forced_eos_token_id": None,
    }


def in_halves(model: TransformerConfig, ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of the same model with reordered features: if sines and cosines alternate, the even features
    come first, then the odd ones.

    Norms and sums do not depend on the order of features, so it is enough to permute every weight that reads or writes
    them.
    """
    if part_options(model.position).get("interleaved", True) is False:
        return ours
    order = torch.tensor([*range(0, model.dim, 2), *range(1, model.dim, 2)])
    reordered = {}
    for name, tensor in ours.items():
        part = name.split(".")[-2] if "." in name else name
        if part in ("tokens", "query", "key", "value", "inner", "output_weight") and tensor.ndim == 2:
            tensor = tensor[:, order]
        elif part in ("output", "outer", "norm"):
            tensor = tensor[order]
        reordered[name] = tensor
    return reordered


FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
    "add_bias_logits": False,
    "is_encoder_decoder": True,
    "is_decoder": False,
}
"""Fields of older configs, with the only value that the class supports."""
IGNORED = (
    "encoder_layerdrop",
    "decoder_layerdrop",
    "num_hidden_layers",
    "classif_dropout",
    "extra_pos_embeddings",
    "bad_words_ids",
)
MARIAN = Architecture(
    heads={"translation": Head(("MarianMTModel",), read_translation, translation_entries, write_translation)},
    prefix="model.",
    read=read,
    entries=entries,
    write=write,
    reorder=in_halves,
    outputs=r"final_logits_bias|lm_head\.",
    leftovers=(
        r"model\.(encoder|decoder)\.embed_positions\.weight",
        r"model\.(encoder|decoder)\.embed_tokens\.weight",
        r"lm_head\.weight",
        r"model\.shared\.weight",
    ),
    copies={
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
        "lm_head.weight": "model.shared.weight",
    },
)
