"""Mistral in `transformers`: Llama, without a sliding window."""

from dataclasses import replace
from typing import Any

from clew.core.errors import UserError
from clew.interop.huggingface import llama
from clew.interop.huggingface.architecture import Outgoing, check_supported
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.huggingface.heads import embedder, writer
from clew.models.llama import LlamaConfig

WINDOW = 4096
"""The default of sliding_window."""


def read(checkpoint: Checkpoint) -> dict[str, Any]:
    fields = checkpoint.config
    longest = fields.get("max_position_embeddings", int)
    window = fields.get("sliding_window", int, None) if "sliding_window" in fields.values else WINDOW
    if window is not None and window < longest:
        raise UserError(
            f"{fields.path}: sliding_window is {window}, below max_position_embeddings ({longest}); clew has no window"
            " for Mistral: use a checkpoint with sliding_window null, or set max_position_embeddings to the window if"
            " your texts are no longer"
        )
    fields.get("num_key_value_heads", int)  # required: unlike Llama's, its default is not the number of heads
    fields.expect("attention_bias", False)
    fields.expect("mlp_bias", False)
    return llama.read(checkpoint)


def write(model: LlamaConfig, out: Outgoing) -> dict[str, Any]:
    check_supported(model, "Mistral", attention_bias=False, network_bias=False)
    fields = {
        name: value for name, value in llama.write(model, out).items() if name not in ("attention_bias", "mlp_bias")
    }
    return {**fields, "model_type": "mistral", "sliding_window": None}


MISTRAL = replace(
    llama.LLAMA,
    heads={
        "language_model": writer("MistralForCausalLM", "Mistral", tied=False),
        "representation": embedder(
            "MistralModel", "last", write=lambda model, task, out: {"tie_word_embeddings": False}
        ),
    },
    read=read,
    write=write,
)
