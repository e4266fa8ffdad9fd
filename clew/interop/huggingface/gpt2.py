"""GPT-2 in `transformers`: matrices are transposed; queries, keys and values are one matrix."""

from typing import Any

from clew.interop.huggingface.architecture import Architecture, Outgoing, check_supported
from clew.interop.huggingface.fields import ACTIVATIONS, THEIR_ACTIVATIONS
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import classifier, embedder, writer
from clew.interop.weight_maps import SPLIT_TURNED, TURNED, Entry, entry, repeated, with_bias
from clew.models.gpt import GPTConfig

ATTENTION, NETWORK = "body.layers.layers.{2n}", "body.layers.layers.{2n+1}"
PARTS = tuple(f"{ATTENTION}.layer.{part}" for part in ("query", "key", "value"))
LAYER = [
    *with_bias("transformer.h.{n}.ln_1", f"{ATTENTION}.norm"),
    *with_bias("transformer.h.{n}.attn.c_attn", *PARTS, transform=SPLIT_TURNED),
    *with_bias("transformer.h.{n}.attn.c_proj", f"{ATTENTION}.layer.output", transform=TURNED),
    *with_bias("transformer.h.{n}.ln_2", f"{NETWORK}.norm"),
    *with_bias("transformer.h.{n}.mlp.c_fc", f"{NETWORK}.layer.inner", transform=TURNED),
    *with_bias("transformer.h.{n}.mlp.c_proj", f"{NETWORK}.layer.outer", transform=TURNED),
]
BODY = [
    entry("transformer.wte.weight", "body.embedding.tokens.weight"),
    entry("transformer.wpe.weight", "body.embedding.position.weight"),
]


def entries(model: GPTConfig) -> list[Entry]:
    return [*BODY, *repeated(LAYER, model.num_layers), *with_bias("transformer.ln_f", "body.norm")]


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    fields = checkpoint.config
    fields.expect("scale_attn_weights", True)
    fields.expect("scale_attn_by_inverse_layer_idx", False)
    fields.expect("add_cross_attention", False)
    fields.skip("reorder_and_upcast_attn", "n_ctx", *(f"summary_{part}" for part in SUMMARY))
    dim, heads = fields.get("n_embd", int), fields.get("n_head", int)
    fields.check(dim % heads == 0, f"n_embd ({dim}) must be divisible by n_head ({heads})")
    return {
        "family": "gpt",
        "dim": dim,
        "num_layers": fields.get("n_layer", int),
        "num_heads": heads,
        "max_length": fields.get("n_positions", int),
        "hidden_dim": fields.get("n_inner", int, 4 * dim),
        "activation": fields.choose("activation_function", ACTIVATIONS, "gelu_new"),
        "norm_eps": fields.get("layer_norm_epsilon", float, 1e-5),
        "dropout": fields.get("resid_pdrop", float, 0.1),
        "embedding_dropout": fields.get("embd_pdrop", float, 0.1),
        "attention_dropout": fields.get("attn_pdrop", float, 0.1),
    }


def write(model: GPTConfig, out: Outgoing) -> dict[str, Any]:
    check_supported(
        model, "GPT-2", position="learned", score="scaled", window=None, bias=True, activation=tuple(THEIR_ACTIVATIONS)
    )
    return {
        "model_type": "gpt2",
        "n_embd": model.dim,
        "n_layer": model.num_layers,
        "n_head": model.num_heads,
        "n_positions": model.max_length,
        "n_inner": model.hidden_dim,
        "activation_function": THEIR_ACTIVATIONS[model.activation],
        "layer_norm_epsilon": model.norm_eps,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout if model.embedding_dropout is None else model.embedding_dropout,
        "attn_pdrop": model.dropout if model.attention_dropout is None else model.attention_dropout,
        "bos_token_id": out.tokenizer.end,
        "eos_token_id": out.tokenizer.end,
        "pad_token_id": out.tokenizer.pad if out.tokenizer.pad is not None else out.tokenizer.end,
    }


SUMMARY = ("activation", "first_dropout", "proj_to_labels", "type", "use_proj")
"""Fields of a class that clew does not read."""
SCORE = [entry("score.weight", "output.weight")]
GPT2 = Architecture(
    heads={
        "language_model": writer("GPT2LMHeadModel", "GPT-2", tied=True),
        "classification": classifier("GPT2ForSequenceClassification", SCORE, pooling="last", dropout=None),
        "representation": embedder("GPT2Model", "last"),
    },
    prefix="transformer.",
    read=read,
    entries=entries,
    write=write,
    outputs=r"lm_head\.|score\.",
    added=(r"answer\..*", r"output\.bias"),
    leftovers=(r"transformer\.h\.\d+\.attn\.(bias|masked_bias)", r"lm_head\.weight"),
    copies={"lm_head.weight": "transformer.wte.weight"},
)
