"""GPT-2 and Llama against the implementations in `transformers`: tiny, random models with copied weights have equal
logits."""

import pytest
import torch

from clew.models.gpt import GPTConfig, build_gpt
from clew.models.llama import LlamaConfig, build_llama
from clew.sources.tokens import Tokens
from tests.crossing import quickly

VOCABULARY = 31


@pytest.fixture(scope="module")
def transformers():
    """Imported only when used, because it takes seconds."""
    return pytest.importorskip("transformers")


def randomised(model):
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def copy(linear, weight, bias=None):
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)


def copy_gpt_2(body, theirs):
    copy(body.embedding.tokens, theirs.wte.weight)
    copy(body.embedding.position, theirs.wpe.weight)
    copy(body.norm, theirs.ln_f.weight, theirs.ln_f.bias)
    for number, block in enumerate(theirs.h):
        attention, network = body.layers.layers[2 * number : 2 * number + 2]
        copy(attention.norm, block.ln_1.weight, block.ln_1.bias)
        copy(network.norm, block.ln_2.weight, block.ln_2.bias)
        weights, biases = block.attn.c_attn.weight.T.chunk(3), block.attn.c_attn.bias.chunk(3)
        for part, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
            copy(getattr(attention.layer, part), weight, bias)
        copy(attention.layer.output, block.attn.c_proj.weight.T, block.attn.c_proj.bias)
        copy(network.layer.inner, block.mlp.c_fc.weight.T, block.mlp.c_fc.bias)
        copy(network.layer.outer, block.mlp.c_proj.weight.T, block.mlp.c_proj.bias)


def copy_llama(body, theirs):
    copy(body.embedding.tokens, theirs.embed_tokens.weight)
    copy(body.norm, theirs.norm.weight)
    for number, block in enumerate(theirs.layers):
        attention, network = body.layers.layers[2 * number : 2 * number + 2]
        copy(attention.norm, block.input_layernorm.weight)
        copy(network.norm, block.post_attention_layernorm.weight)
        pairs = [
            (attention.layer.query, block.self_attn.q_proj),
            (attention.layer.key, block.self_attn.k_proj),
            (attention.layer.value, block.self_attn.v_proj),
            (attention.layer.output, block.self_attn.o_proj),
            (network.layer.inner, block.mlp.gate_proj),
            (network.layer.gate, block.mlp.up_proj),
            (network.layer.outer, block.mlp.down_proj),
        ]
        for ours, their in pairs:
            copy(ours, their.weight, their.bias)


@pytest.mark.parametrize("activation", quickly(["gelu_tanh", "gelu", "relu", "silu"], "gelu_tanh", "relu"))
def test_gpt_2_gives_the_same_logits(transformers, activation):
    theirs = {"gelu_tanh": "gelu_new"}.get(activation, activation)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=12,
        n_layer=2,
        n_head=3,
        n_positions=16,
        n_inner=20,
        activation_function=theirs,
        layer_norm_epsilon=1e-3,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = randomised(transformers.GPT2LMHeadModel(config))
    ours = GPTConfig(
        dim=12,
        num_layers=2,
        num_heads=3,
        max_length=16,
        hidden_dim=20,
        activation=activation,
        norm_eps=1e-3,
        dropout=0.1,
    )
    body = build_gpt(ours, Tokens(VOCABULARY)).eval()
    copy_gpt_2(body, model.transformer)
    tokens = torch.randint(VOCABULARY, (2, 16), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden = body(tokens)[0]
        torch.testing.assert_close(hidden @ body.embedding.weight.T, model(tokens).logits, atol=1e-5, rtol=1e-5)


SCALINGS = {
    "none": ("none", None),
    "linear": ({"name": "linear", "factor": 3.0}, {"rope_type": "linear", "factor": 3.0}),
    "llama3": (
        {"name": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 3.0, "original_max_length": 24},
        {
            "rope_type": "llama3",
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 3.0,
            "original_max_position_embeddings": 24,
        },
    ),
    "yarn": (
        {"name": "yarn", "factor": 4.0, "original_max_length": 64},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    ),
    "dynamic": (
        {"name": "dynamic", "factor": 2.0, "original_max_length": 32},
        {"rope_type": "dynamic", "factor": 2.0},
    ),
}


def both_llamas(transformers, scaling, *, length=32, biases=False):
    ours, theirs = SCALINGS[scaling]
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=20,
        rms_norm_eps=1e-3,
        max_position_embeddings=length,
        rope_parameters={"rope_theta": 500.0, **(theirs or {"rope_type": "default"})},
        attention_bias=biases,
        mlp_bias=biases,
    )
    model = randomised(transformers.LlamaForCausalLM(config))
    body = build_llama(
        LlamaConfig(
            dim=12,
            num_layers=2,
            num_heads=4,
            num_kv_heads=2,
            head_dim=8,
            hidden_dim=20,
            norm_eps=1e-3,
            rotary_base=500.0,
            rotary_scaling=ours,
            attention_bias=biases,
            network_bias=biases,
        ),
        Tokens(VOCABULARY),
    ).eval()
    copy_llama(body, model.model)
    return body, model


@pytest.mark.parametrize("scaling", SCALINGS)
def test_llama_gives_the_same_logits_with_every_scaling(transformers, scaling):
    body, model = both_llamas(transformers, scaling, biases=scaling == "none")
    tokens = torch.randint(VOCABULARY, (2, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden = body(tokens)[0]
        torch.testing.assert_close(hidden @ model.lm_head.weight.T, model(tokens).logits, atol=1e-5, rtol=1e-5)


def test_dynamic_scaling_past_its_length_equals_reading_token_by_token(transformers):
    body, model = both_llamas(transformers, "dynamic", length=32)
    tokens = torch.randint(VOCABULARY, (1, 40), generator=torch.Generator().manual_seed(0))
    cache, logits = None, []
    with torch.no_grad():
        for token in tokens.split(1, 1):
            out = model(token, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            logits.append(out.logits)
        torch.testing.assert_close(body(tokens)[0] @ model.lm_head.weight.T, torch.cat(logits, 1), atol=1e-5, rtol=1e-5)
