"""Llama in `transformers`."""

from typing import Any

from clew.core.config import part_name, part_options
from clew.core.errors import UserError, shown
from clew.interop.huggingface.architecture import Architecture, Outgoing
from clew.interop.huggingface.fields import Fields
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import embedder, writer
from clew.interop.huggingface.tokenizer_writing import other_formats
from clew.interop.weight_maps import Entry, entry, repeated
from clew.models.llama import LlamaConfig

ATTENTION, NETWORK = "body.layers.layers.{2n}", "body.layers.layers.{2n+1}"
MATRICES = {
    "self_attn.q_proj": f"{ATTENTION}.layer.query",
    "self_attn.k_proj": f"{ATTENTION}.layer.key",
    "self_attn.v_proj": f"{ATTENTION}.layer.value",
    "self_attn.o_proj": f"{ATTENTION}.layer.output",
    "mlp.gate_proj": f"{NETWORK}.layer.inner",
    "mlp.up_proj": f"{NETWORK}.layer.gate",
    "mlp.down_proj": f"{NETWORK}.layer.outer",
}
NORMS = {"input_layernorm": f"{ATTENTION}.norm", "post_attention_layernorm": f"{NETWORK}.norm"}
SCALINGS = {
    "default": ("none", {}),
    "linear": ("linear", {"factor": "factor"}),
    "dynamic": ("dynamic", {"factor": "factor"}),
    "llama3": (
        "llama3",
        {
            "factor": "factor",
            "low_freq_factor": "low_freq_factor",
            "high_freq_factor": "high_freq_factor",
            "original_max_position_embeddings": "original_max_length",
        },
    ),
    "yarn": (
        "yarn",
        {
            "factor": "factor",
            "original_max_position_embeddings": "original_max_length",
            "beta_fast": "fast_turns",
            "beta_slow": "slow_turns",
            "attention_factor": "attention_factor",
            "truncate": "rounded",
        },
    ),
}
"""Their kinds of rotary scaling, with our name of each and our names of its options."""


def entries(model: LlamaConfig) -> list[Entry]:
    weights = [
        entry(f"model.layers.{{n}}.{theirs}.weight", f"{ours}.weight") for theirs, ours in {**MATRICES, **NORMS}.items()
    ]
    has_bias = {"self_attn": model.attention_bias, "mlp": model.network_bias}
    biases = [
        entry(f"model.layers.{{n}}.{theirs}.bias", f"{ours}.bias")
        for theirs, ours in MATRICES.items()
        if has_bias[theirs.partition(".")[0]]
    ]
    return [
        entry("model.embed_tokens.weight", "body.embedding.tokens.weight"),
        *repeated([*weights, *biases], model.num_layers),
        entry("model.norm.weight", "body.norm.weight"),
    ]


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    fields = checkpoint.config
    fields.expect("hidden_act", "silu", "swish")
    fields.expect("pretraining_tp", 1)
    dim, heads = fields.get("hidden_size", int), fields.get("num_attention_heads", int)
    groups = fields.get("num_key_value_heads", int, heads)
    head_dim = fields.get("head_dim", int, None)
    fields.check(
        head_dim is not None or dim % heads == 0,
        f"hidden_size ({dim}) must be divisible by num_attention_heads ({heads})",
    )
    fields.check(
        heads % groups == 0, f"num_attention_heads ({heads}) must be divisible by num_key_value_heads ({groups})"
    )
    longest = fields.get("max_position_embeddings", int, 2048)
    base, scaling = rotary_of(fields, longest)
    return {
        "family": "llama",
        "dim": dim,
        "num_layers": fields.get("num_hidden_layers", int),
        "num_heads": heads,
        "num_kv_heads": groups,
        "head_dim": head_dim,
        "hidden_dim": fields.get("intermediate_size", int),
        "rotary_base": base,
        "rotary_scaling": scaling,
        "max_length": longest,
        "norm_eps": fields.get("rms_norm_eps", float, 1e-6),
        "attention_bias": fields.get("attention_bias", bool, False),
        "network_bias": fields.get("mlp_bias", bool, False),
        "attention_dropout": fields.get("attention_dropout", float, 0.0),
    }


def rotary_of(fields: Fields, longest: int) -> tuple[float, Any]:
    """Return the base and the scaling of rotary positions, from the fields of old or new configs."""
    fields.skip("rope_theta", "rope_scaling", "rope_parameters")
    values = {**(fields.get("rope_scaling", dict, None) or {}), **(fields.get("rope_parameters", dict, None) or {})}
    theirs = values.pop("rope_type", None) or values.pop("type", None) or "default"
    values.pop("type", None)
    base = values.pop("rope_theta", None) or fields.get("rope_theta", float, 10000.0)
    if values.get("partial_rotary_factor") == 1.0:
        del values["partial_rotary_factor"]
    if theirs not in SCALINGS:
        raise UserError(
            f"{fields.path}: the rotary scaling {shown(theirs)} is not known; clew knows {', '.join(SCALINGS)}"
        )
    ours, options = SCALINGS[theirs]
    scaling: dict[str, Any] = {"name": ours}
    for name, value in values.items():
        if value is None:
            continue
        if name not in options and not (name == "original_max_position_embeddings" and value == longest):
            raise UserError(
                f"{fields.path}: the rotary scaling {theirs} has {name}={shown(value)}, which clew does not know"
            )
        if name in options:
            scaling[options[name]] = float(value) if isinstance(value, int) and name not in WHOLE else value
    if ours in ("dynamic", "yarn"):
        scaling.setdefault("original_max_length", longest)
    return float(base), scaling if len(scaling) > 1 else ours


WHOLE = ("original_max_position_embeddings", "truncate")


def write(model: LlamaConfig, out: Outgoing) -> dict[str, Any]:
    frame = out.tokenizer.frame
    begin = frame.before[0] if frame is not None and frame.before else None
    return {
        "model_type": "llama",
        "hidden_size": model.dim,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_kv_heads or model.num_heads,
        "head_dim": model.head_dim or model.dim // model.num_heads,
        "intermediate_size": model.hidden_dim or 8 * ((8 * model.dim // 3 + 7) // 8),
        "hidden_act": "silu",
        "max_position_embeddings": model.max_length or 2048,
        "rms_norm_eps": model.norm_eps,
        "attention_bias": model.attention_bias,
        "mlp_bias": model.network_bias,
        "attention_dropout": model.attention_dropout or 0.0,
        "rope_theta": model.rotary_base,
        "rope_scaling": written_scaling(model),
        "bos_token_id": begin,
        "eos_token_id": out.tokenizer.end,
        "pad_token_id": out.tokenizer.pad,
    }


def written_scaling(model: LlamaConfig) -> dict[str, Any] | None:
    name, scaling_options = part_name(model.rotary_scaling), part_options(model.rotary_scaling)
    if name == "none":
        return None
    theirs, options = next((theirs, options) for theirs, (ours, options) in SCALINGS.items() if ours == name)
    if name == "dynamic" and scaling_options.get("original_max_length", model.max_length) != model.max_length:
        raise UserError(
            f"Llama's dynamic scaling starts at model.max_length ({model.max_length}), but this run's starts at"
            f" original_max_length ({scaling_options['original_max_length']}); {other_formats()}"
        )
    return {
        "rope_type": theirs,
        **{other: scaling_options[ours] for other, ours in options.items() if ours in scaling_options},
    }


LLAMA = Architecture(
    heads={
        "language_model": writer("LlamaForCausalLM", "Llama", tied=False),
        "representation": embedder("LlamaModel", "last", write=lambda model, task, out: {"tie_word_embeddings": False}),
    },
    prefix="model.",
    read=read,
    entries=entries,
    write=write,
    outputs=r"lm_head\.",
    leftovers=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq", r"lm_head\.weight"),
    copies={"lm_head.weight": "model.embed_tokens.weight"},
)
