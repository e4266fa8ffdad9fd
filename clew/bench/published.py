"""Peers from the transformers library, with random weights of the same sizes. All generate the full number of
tokens."""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from clew.bench.timing import Call


def gpt2_model(sizes: dict[str, int]) -> Any:
    transformers = import_module("transformers")
    config = transformers.GPT2Config(
        vocab_size=sizes["vocabulary"],
        n_positions=sizes["max_length"],
        n_embd=sizes["dim"],
        n_layer=sizes["num_layers"],
        n_head=sizes["num_heads"],
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config).eval()


def llama_model(sizes: dict[str, int]) -> Any:
    transformers = import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=sizes["vocabulary"],
        max_position_embeddings=sizes["max_length"],
        hidden_size=sizes["dim"],
        intermediate_size=sizes["hidden_dim"],
        num_hidden_layers=sizes["num_layers"],
        num_attention_heads=sizes["num_heads"],
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()


def marian_model(sizes: dict[str, int]) -> Any:
    """Build a Marian model. Its last token is padding, with which decoding starts, as in published checkpoints."""
    transformers, padding = import_module("transformers"), sizes["vocabulary"] - 1
    half = {"layers": sizes["num_layers"], "ffn_dim": 4 * sizes["dim"], "attention_heads": sizes["num_heads"]}
    config = transformers.MarianConfig(
        vocab_size=sizes["vocabulary"],
        decoder_vocab_size=sizes["vocabulary"],
        d_model=sizes["dim"],
        max_position_embeddings=512,
        activation_function="relu",
        scale_embedding=True,
        decoder_start_token_id=padding,
        pad_token_id=padding,
        eos_token_id=None,
        forced_eos_token_id=None,
        **{f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in half.items()},
    )
    return transformers.MarianMTModel(config).eval()


def gpt2_generate(sizes: dict[str, int], prompt: Tensor, max_new: int, dtype: torch.dtype) -> Call:
    """Decode greedily with a static cache, which transformers compiles on CUDA."""
    return generate_published(gpt2_model(sizes), prompt, max_new, dtype)


def llama_generate(sizes: dict[str, int], prompt: Tensor, max_new: int, dtype: torch.dtype) -> Call:
    """Decode greedily with a static cache, which transformers compiles on CUDA."""
    return generate_published(llama_model(sizes), prompt, max_new, dtype)


def generate_published(model: Any, prompt: Tensor, max_new: int, dtype: torch.dtype) -> Call:
    return generation(model.to(prompt.device, dtype), prompt, max_new_tokens=max_new, cache_implementation="static")


def marian_generate(
    sizes: dict[str, int], source: Tensor, mask: Tensor, max_new: int, beams: int, dtype: torch.dtype
) -> Call:
    model = marian_model(sizes).to(source.device, dtype)
    start = sizes["vocabulary"] - 1
    return generation(model, source, mask, max_new_tokens=max_new, num_beams=beams, decoder_start_token_id=start)


def generation(model: Any, tokens: Tensor, mask: Tensor | None = None, **settings: Any) -> Call:
    # Missing settings would be taken from the model's own config, which has end tokens.
    model.generation_config.eos_token_id = model.generation_config.forced_eos_token_id = None
    settings = {**settings, "pad_token_id": model.config.pad_token_id}
    options = import_module("transformers").GenerationConfig(do_sample=False, eos_token_id=None, **settings)
    mask = torch.ones_like(tokens) if mask is None else mask.long()

    @torch.no_grad()
    def call() -> Tensor:
        generated: Tensor = model.generate(tokens, attention_mask=mask, generation_config=options)
        return generated

    return call
