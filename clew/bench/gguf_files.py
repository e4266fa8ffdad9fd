"""Convert GPT-2 and Llama models of transformers to llama.cpp files, with the package `gguf`."""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

BYTES = 256
"""The byte tokens of every llama.cpp vocabulary, which also has three special tokens."""
Weights = dict[str, Any]
Named = Iterator[tuple[str, Any]]


def write_gguf(model: Any, path: str, compute: str) -> str:
    """Write a model and return the file's path. With int8, matrices are Q8_0: 8-bit integers with one scale per 32."""
    gguf, config = import_module("gguf"), model.config
    writer = gguf.GGUFWriter(path, config.model_type)
    write_vocabulary(writer, config.vocab_size)
    weights = {name: tensor.detach().float().numpy() for name, tensor in model.state_dict().items()}
    kind = gguf.GGMLQuantizationType.Q8_0
    for name, weight in FORMS[config.model_type](writer, config, weights):
        if compute == "int8" and weight.ndim == 2 and not name.startswith("position"):
            writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(weight), kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_vocabulary(writer: Any, vocabulary: int) -> None:
    """Write placeholder words: prompts are passed as tokens."""
    numbers = vocabulary - BYTES - 3
    writer.add_tokenizer_model("llama")
    writer.add_token_list(
        [
            b"<unk>",
            b"<s>",
            b"</s>",
            *(b"<0x%02X>" % byte for byte in range(BYTES)),
            *(b"%d" % n for n in range(numbers)),
        ]
    )
    writer.add_token_scores([0.0] * vocabulary)
    writer.add_token_types([2, 3, 3, *[6] * BYTES, *[1] * numbers])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def gpt2(writer: Any, config: Any, weights: Weights) -> Named:
    writer.add_block_count(config.n_layer)
    writer.add_context_length(config.n_positions)
    writer.add_embedding_length(config.n_embd)
    writer.add_feed_forward_length(4 * config.n_embd)
    writer.add_head_count(config.n_head)
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    yield "token_embd.weight", weights["transformer.wte.weight"]
    yield "position_embd.weight", weights["transformer.wpe.weight"]
    yield "output_norm.weight", weights["transformer.ln_f.weight"]
    yield "output_norm.bias", weights["transformer.ln_f.bias"]
    parts = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output"}
    parts |= {"mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    for layer in range(config.n_layer):
        for theirs, name in parts.items():
            weight = weights[f"transformer.h.{layer}.{theirs}.weight"]  # GPT-2 stores its matrices transposed
            yield f"blk.{layer}.{name}.weight", weight.T
            yield f"blk.{layer}.{name}.bias", weights[f"transformer.h.{layer}.{theirs}.bias"]


def llama(writer: Any, config: Any, weights: Weights) -> Named:
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    yield "token_embd.weight", weights["model.embed_tokens.weight"]
    yield "output_norm.weight", weights["model.norm.weight"]
    yield "output.weight", weights["lm_head.weight"]
    parts = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.v_proj": "attn_v"}
    parts |= {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.o_proj": "attn_output"}
    parts |= {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for layer in range(config.num_hidden_layers):
        for theirs, name in parts.items():
            weight = weights[f"model.layers.{layer}.{theirs}.weight"]
            yield f"blk.{layer}.{name}.weight", in_pairs(weight, config) if name in ("attn_q", "attn_k") else weight


def in_pairs(weight: Any, config: Any) -> Any:
    """Reorder the rows of each head for llama.cpp's rotary positions, for which the two rows of a pair are adjacent,
    not half a head apart."""
    heads = len(weight) // (config.hidden_size // config.num_attention_heads)
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


FORMS: dict[str, Callable[[Any, Any, Weights], Named]] = {"gpt2": gpt2, "llama": llama}
