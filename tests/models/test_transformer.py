import pytest
import torch
from pydantic import ValidationError
from torch import nn

from clew.core.errors import UserError
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import SelfAttention
from clew.layers.positions import POSITIONS
from clew.layers.recurrent import Bidirectional, Recurrent
from clew.layers.wiring import WIRINGS
from clew.models.transformer import TransformerConfig, build_transformer
from clew.sources.tokens import Tokens
from tests.models.translators import build, obeys_every_law
from tests.references.agreement import randomise

DIM, HEADS, LAYERS, HIDDEN = 8, 2, 3, 12


def theirs_like(ours, norm_first):
    """torch.nn.Transformer with our weights; as published, a post-norm model has no norm at the end."""
    sizes = {
        "d_model": DIM,
        "nhead": HEADS,
        "dim_feedforward": HIDDEN,
        "dropout": 0.0,
        "batch_first": True,
        "norm_first": norm_first,
    }
    final = [nn.LayerNorm(DIM) if norm_first else None for _ in range(2)]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**sizes), LAYERS, final[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), LAYERS, final[1])
    theirs = nn.Transformer(DIM, HEADS, custom_encoder=encoder, custom_decoder=decoder, batch_first=True).to(
        next(ours.parameters()).dtype
    )
    with torch.no_grad():
        for half, layers, count in ((encoder, ours.encoder.layers.layers, 2), (decoder, ours.decoder.layers.layers, 3)):
            for number, layer in enumerate(half.layers):
                own_layers = layers[count * number : count * (number + 1)]
                attentions = [layer.self_attn, *([layer.multihead_attn] if count == 3 else [])]
                for wired, attention in zip(own_layers, attentions, strict=False):
                    part = wired.layer
                    attention.in_proj_weight.copy_(torch.cat([part.query.weight, part.key.weight, part.value.weight]))
                    attention.in_proj_bias.copy_(torch.cat([part.query.bias, part.key.bias, part.value.bias]))
                    attention.out_proj.load_state_dict(part.output.state_dict())
                layer.linear1.load_state_dict(own_layers[-1].layer.inner.state_dict())
                layer.linear2.load_state_dict(own_layers[-1].layer.outer.state_dict())
                for wired, norm in zip(
                    own_layers, (layer.norm1, layer.norm2, getattr(layer, "norm3", None)), strict=False
                ):
                    norm.load_state_dict(wired.norm.state_dict())
            if norm_first:
                half.norm.load_state_dict((ours.encoder if count == 2 else ours.decoder).norm.state_dict())
    return theirs


@pytest.mark.parametrize(("wiring", "norm_first"), [("post_norm", False), ("pre_norm", True)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_transformer_equals_torch_in_values_and_gradients(wiring, norm_first, dtype):
    config = TransformerConfig(
        dim=DIM, num_heads=HEADS, num_layers=LAYERS, hidden_dim=HIDDEN, wiring=wiring, dropout=0.0
    )
    ours = randomise(build_transformer(config, Tokens(11), Tokens(9))).to(dtype)
    theirs = theirs_like(ours, norm_first)
    source, tokens = torch.randint(9, (3, 6)), torch.randint(11, (3, 5))
    source_mask = torch.arange(6) < torch.tensor([6, 2, 4])[:, None]
    mask = torch.arange(5) < torch.tensor([5, 3, 1])[:, None]
    hidden, _ = ours(tokens, mask, ours.initial_state(3, ours.encode(source, source_mask)))
    embedded = (
        ours.source_levels(source, source_mask)[0],
        ours.levels(tokens, mask, ours.encode(source, source_mask))[0],
    )
    expected = theirs(
        *embedded,
        tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1),
        src_key_padding_mask=~source_mask,
        memory_key_padding_mask=~source_mask,
        tgt_key_padding_mask=~mask,
    )
    torch.testing.assert_close(hidden[mask], expected[mask])
    weights = torch.randn_like(hidden[mask])
    (hidden[mask] * weights).sum().backward()
    (expected[mask] * weights).sum().backward()
    for number in range(LAYERS):
        cross, layer = ours.decoder.layers.layers[3 * number + 1].layer, theirs.decoder.layers[number].multihead_attn
        together = torch.cat([cross.query.weight.grad, cross.key.weight.grad, cross.value.weight.grad])
        torch.testing.assert_close(together, layer.in_proj_weight.grad)
        torch.testing.assert_close(
            ours.encoder.layers.layers[2 * number + 1].layer.inner.weight.grad,
            theirs.encoder.layers[number].linear1.weight.grad,
        )


def test_an_embedding_is_scaled_and_added_to_its_position():
    body = build("transformer").eval()
    level = body.source_levels(torch.tensor([[3, 3]]))[0][0]
    word = body.source_embedding.weight[3] * 8**0.5
    torch.testing.assert_close(level[0] - word, torch.tensor([0.0, 1.0] * 4), atol=1e-6, rtol=0)
    plain = build("transformer", scaled_embeddings=False, position="none").eval()
    torch.testing.assert_close(
        plain.levels(torch.tensor([[3]]), None, plain.encode(torch.tensor([[2]])))[0][0, 0], plain.embedding.weight[3]
    )


@pytest.mark.slow
@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "sinusoidal"])
def test_a_transformer_obeys_the_laws_with_every_position(position):
    obeys_every_law(way="transformer", position=position, num_layers=1)


@pytest.mark.slow
@pytest.mark.parametrize("wiring", [name for name in WIRINGS if name not in ("post_norm", "pre_norm", "dense")])
def test_a_transformer_obeys_the_laws_with_every_connection(wiring):
    obeys_every_law(way="transformer", wiring=wiring, num_layers=1)


@pytest.mark.slow
def test_each_half_may_have_any_layers():
    obeys_every_law(
        way="transformer", encoder_layers=["gru", "attention", "convolution", "feedforward"], decoder_layers=1
    )
    obeys_every_law(
        way="transformer",
        encoder_layers=1,
        decoder_layers=["lstm", "cross_attention", "convolution", "cross_attention"],
    )


def test_encoder_layers_are_bidirectional_and_decoder_layers_causal():
    layers = ["lstm", {"name": "attention", "num_heads": 4, "window": 2}, "convolution", "feedforward"]
    body = build(
        "transformer", encoder_layers=layers, decoder_layers=[*layers, {"name": "cross_attention", "num_heads": 1}]
    )
    reads, writes = ([wired.layer for wired in half.layers.layers] for half in (body.encoder, body.decoder))
    assert isinstance(reads[0], Bidirectional) and reads[0].forward_layer.dim == 4 and isinstance(writes[0], Recurrent)
    assert not reads[1].causal and writes[1].causal and reads[1].num_heads == 4 and reads[1].window == 2
    assert not reads[2].causal and writes[2].causal
    assert reads[3].inner.out_features == 12
    assert writes[4].num_heads == 1
    assert body.causal and body.decoder.causal and not body.encoder.causal


def test_settings_reach_every_layer():
    shape = {"dim": 8, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 2, "hidden_dim": 20, "activation": "gelu"}
    parts = {
        "position": {"name": "relative", "max_distance": 3},
        "score": "general",
        "norm": "rms",
        "bias": False,
        "wiring": "pre_norm",
    }
    dropouts = {"dropout": 0.2, "attention_dropout": 0.3, "network_dropout": 0.4}
    config = TransformerConfig(**shape, **parts, **dropouts)
    body = build_transformer(config, Tokens(7), Tokens(7))
    attentions = [part for part in body.modules() if isinstance(part, (SelfAttention, CrossAttention))]
    assert len(attentions) == 1 + 4 and all(part.num_heads == 4 and part.query.bias is None for part in attentions)
    assert all(part.attention.dropout == 0.3 and part.attention.score.map is not None for part in attentions)
    distances = [part.attention.position.max_distance for part in attentions if isinstance(part, SelfAttention)]
    assert distances == [3, 3, 3] and all(
        part.attention.position is None for part in attentions if isinstance(part, CrossAttention)
    )
    network = body.decoder.layers.layers[2]
    assert (network.layer.inner.out_features, network.layer.activation, network.layer.dropout.p, network.dropout.p) == (
        20,
        "gelu",
        0.4,
        0.2,
    )
    assert body.embedding.position is None and body.embedding.dropout.p == 0.2
    assert type(body.decoder.norm).__name__ == "RMSNorm" and network.layer.inner.bias is None


@pytest.mark.parametrize(("settings", "published"), [({}, 65e6), ({"dim": 1024, "num_heads": 16}, 213e6)])
def test_base_and_big_have_their_published_numbers_of_parameters(settings, published):
    """Vaswani et al. 2017, table 3, with one table of 37,000 tokens for source, target and output."""
    with torch.device("meta"):
        body = build_transformer(TransformerConfig(shared_embeddings=True, **settings), Tokens(37000), Tokens(37000))
    dim = body.dim
    attention, network, norm = 4 * dim * (dim + 1), 8 * dim * dim + 5 * dim, 2 * dim
    count = sum(parameter.numel() for parameter in body.parameters())
    assert count == 37000 * dim + 6 * (attention + network + 2 * norm) + 6 * (2 * attention + network + 3 * norm)
    assert count == pytest.approx(published, rel=0.04)


def test_matrices_start_with_glorot_values_and_embeddings_with_unit_scale():
    torch.manual_seed(0)
    body = build_transformer(
        TransformerConfig(dim=128, num_heads=4, num_layers=1, dropout=0.0), Tokens(500), Tokens(500)
    )
    network = body.encoder.layers.layers[1].layer
    bound = (6 / (128 + 512)) ** 0.5
    assert 0.95 * bound < float(network.inner.weight.detach().abs().max()) <= bound
    assert not network.inner.bias.any()
    level = body.source_levels(torch.randint(500, (1, 400)))[0]
    waves = build_transformer(
        TransformerConfig(dim=128, num_heads=4, num_layers=1, dropout=0.0, position="none"), Tokens(500), Tokens(500)
    )
    assert float(waves.source_levels(torch.randint(500, (1, 400)))[0].detach().std()) == pytest.approx(1.0, rel=0.05)
    assert float(level.detach().std()) > 1.0


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(
        ValidationError,
        match=r"encoder_layers takes a number of layers, 1 to 1000, or a list of them such as \[lstm, .*, not 0",
    ):
        TransformerConfig(encoder_layers=0)
    with pytest.raises(
        ValidationError,
        match=r"decoder_layers takes a number of layers.*\[lstm, cross_attention, feedforward\], not True",
    ):
        TransformerConfig(decoder_layers=True)
    with pytest.raises(ValidationError, match="unknown layer 'cross_attention'; did you mean 'attention'"):
        TransformerConfig(encoder_layers=["cross_attention"])
    with pytest.raises(ValidationError, match=r"unknown layer 'cross_atention'; did you mean 'cross_attention'\?"):
        TransformerConfig(decoder_layers=["cross_atention"])
    with pytest.raises(
        UserError,
        match="model.decoder_layers has no cross_attention, so nothing of the source would reach the decoder; add one",
    ):
        build("transformer", decoder_layers=["attention", "feedforward"])
    with pytest.raises(
        UserError,
        match=r"a lstm layer of an encoder gives half of its width to each direction, so dim \(9\) must be even",
    ):
        build("transformer", dim=9, num_heads=3, encoder_layers=["lstm"])
    with pytest.raises(UserError, match=r"unknown activation 'gelo'; did you mean 'gelu'"):
        build("transformer", activation="gelo")
