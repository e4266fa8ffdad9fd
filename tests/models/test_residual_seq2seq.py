"""Residual stacks of recurrent layers in both halves (Wu et al. 2016), and attention after the cell without a layer
that joins state and context."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.models.seq2seq import Seq2SeqConfig, build_seq2seq
from clew.sources.tokens import Tokens
from tests.crossing import quickly
from tests.models.test_seq2seq import LENGTHS, MASK, SOURCE, TOKENS, of
from tests.models.translators import build, obeys_every_law
from tests.references import attention, cells, parts
from tests.references.agreement import randomise

UPPER = "decoder.layers.layers.1.layer.cell"
LOOKING = {
    "none": {"attention": "none"},
    "before": {"attention": "before", "readout": "none"},
    "fed": {"attention": "after"},
    "after": {"attention": "after", "feeding": False},
}
"""Where the decoder attends, with the settings for it."""


def elman_step(p):
    """h' = tanh(W x + U h + b), with the parameters of one cell."""
    return lambda x, h: np.tanh(cells.affine(p["input_weight"], x) + cells.affine(p["hidden_weight"], h) + p["bias"])


def readers(p, x):
    """One encoder layer's two readers: their concatenated outputs, and the final state of each."""
    ahead = cells.elman(of(p, "forward_layer.cell"), x[None])[0]
    back = cells.elman(of(p, "backward_layer.cell"), x[None, ::-1])[0][::-1]
    return np.concatenate([ahead, back], -1), np.concatenate([ahead[-1], back[0]])


def by_the_equations(body, looks, row):
    """The output of a body with two layers in each half for one sentence, step by step."""
    p = {name: value.detach().numpy() for name, value in body.named_parameters()}
    embedded = p["encoder.embedding.tokens.weight"][SOURCE[row, : LENGTHS[row]].numpy()]
    first, ended = readers(of(p, "encoder.layers.layers.0.layer"), embedded)
    second, ended_above = readers(of(p, "encoder.layers.layers.1.layer"), first)
    places = first + second
    states = [
        np.tanh(cells.affine(p[f"bridge.maps.{k}.0.weight"], end) + p[f"bridge.maps.{k}.0.bias"])
        for k, end in enumerate((ended, ended_above))
    ]
    q = of(p, "decoder.layers.layers.0.layer.cell")
    if looks == "fed":
        steps = [elman_step(of(q, "cell.cells.0.cell")), elman_step(of(q, "cell.cells.1.cell"))]
    else:
        steps = [elman_step(of(q, "cell") if looks == "before" else q), elman_step(of(p, UPPER))]
    last = of(p, "decoder.layers.layers.2.layer") if looks == "after" else q
    fed, outputs = np.zeros(5), []

    def context(s):
        weights = attention.softmax([attention.dot(of(last, "attention.score"), s, h, j) for j, h in enumerate(places)])
        return sum(w * h for w, h in zip(weights, places, strict=True))

    for x_t in p["decoder.embedding.tokens.weight"][TOKENS[row].numpy()]:
        if looks == "before":
            attended = context(states[0])
            *states, top = parts.residual_step(steps, np.concatenate([x_t, attended]), states, beside=attended)
            outputs.append(np.concatenate([top, attended]))
            continue
        *states, top = parts.residual_step(steps, np.concatenate([x_t, fed]) if looks == "fed" else x_t, states)
        if looks != "none":
            top = np.tanh(cells.affine(last["join.weight"], np.concatenate([context(top), top])))
        fed = top
        outputs.append(top)
    return np.array(outputs)


@pytest.mark.parametrize("looks", LOOKING)
def test_a_residual_stack_equals_its_equations(looks):
    config = Seq2SeqConfig(
        cell="elman", dim=5, embedding_dim=3, num_layers=2, residual=True, score="general", **LOOKING[looks]
    )
    body = randomise(build_seq2seq(config, Tokens(5), Tokens(7)))
    hidden, _ = body(TOKENS, None, body.initial_state(2, body.encode(SOURCE, MASK)))
    for row in range(2):
        np.testing.assert_allclose(
            hidden[row].detach().numpy(), by_the_equations(body, looks, row), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("looks", LOOKING)
def test_residual_layers_with_zero_output_pass_their_input_on(looks):
    """With the layers above the first switched off, a deep model equals a shallow one with the same weights."""
    options = {"dim": 6, "embedding_dim": 6, "cell": "gru", **LOOKING[looks]}
    deep, shallow = (
        randomise(build("luong", num_layers=3, residual=True, **options)),
        randomise(build("luong", **options)),
    )
    shallow_state = shallow.state_dict()
    fed = (
        {name: name.replace("cell.cells.0.", "cell.cells.0.cell.") for name in shallow_state} if looks == "fed" else {}
    )
    with torch.no_grad():
        for name, parameter in deep.named_parameters():
            if "bridge" not in name and any(
                f"{stack}.{k}." in name for stack in ("layers.layers", "cell.cells") for k in (1, 2)
            ):
                parameter.zero_()  # a GRU with zero weights and a zero state outputs 0
            if name.startswith(("bridge.maps.1", "bridge.maps.2")):
                parameter.zero_()
        deep.load_state_dict(
            {fed.get(name, name): value for name, value in shallow_state.items() if "layers.layers.1" not in name},
            strict=False,
        )
        if looks == "after":
            deep.decoder.layers.layers[3].load_state_dict(shallow.decoder.layers.layers[1].state_dict())
    states = [body.initial_state(2, body.encode(SOURCE, MASK)) for body in (deep, shallow)]
    outputs = [body(TOKENS, None, state)[0] for body, state in zip((deep, shallow), states, strict=True)]
    torch.testing.assert_close(*outputs)


@pytest.mark.parametrize("looks", ["before", "fed"])
def test_residual_stacks_obey_the_laws(looks):
    obeys_every_law(
        way="luong",
        num_layers=2,
        residual=True,
        cell="lstm" if looks == "before" else "gru",
        dropout=0.3,
        **LOOKING[looks],
    )


@pytest.mark.parametrize("feeding", quickly([True, False], True))
def test_attention_without_a_joining_layer_obeys_the_laws(feeding):
    obeys_every_law(way="luong", num_layers=2, join="none", feeding=feeding)


@pytest.mark.parametrize("feeding", [True, False])
def test_without_a_joining_layer_the_output_layer_reads_state_and_context(feeding):
    body = build("luong", join="none", feeding=feeding)
    assert body.dim == 8 + 16
    joined = sum(p.numel() for p in build("luong", feeding=feeding).parameters())
    fed = (16 - 8) * 4 * 8 if feeding else 0  # the context is wider than h~
    assert sum(p.numel() for p in body.parameters()) == joined - 8 * (8 + 16) + fed


def test_a_model_without_a_joining_layer_equals_its_equations():
    config = Seq2SeqConfig(
        cell="elman", dim=5, embedding_dim=3, attention="after", score="general", join="none", feeding=False
    )
    body = randomise(build_seq2seq(config, Tokens(5), Tokens(7)))
    hidden, _ = body(TOKENS, None, body.initial_state(2, body.encode(SOURCE, MASK)))
    p = {name: value.detach().numpy() for name, value in body.named_parameters()}
    score = of(p, "decoder.layers.layers.1.layer.attention.score")
    for row in range(2):
        places, ended = readers(
            of(p, "encoder.layers.layers.0.layer"),
            p["encoder.embedding.tokens.weight"][SOURCE[row, : LENGTHS[row]].numpy()],
        )
        start = np.tanh(cells.affine(p["bridge.maps.0.0.weight"], ended) + p["bridge.maps.0.0.bias"])
        words = p["decoder.embedding.tokens.weight"][TOKENS[row].numpy()][None]
        step = elman_step(of(p, "decoder.layers.layers.0.layer.cell"))
        expected = parts.unjoined(
            words, [places], lambda s, h, j: attention.dot(score, s, h, j), step, start, fed=False
        )
        np.testing.assert_allclose(hidden[row].detach().numpy(), expected[0], rtol=1e-9, atol=1e-9)


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(
        UserError, match="model.residual=true is for layers from the second on, and encoder and decoder have one; raise"
    ):
        build("luong", residual=True)
    with pytest.raises(
        UserError, match="model.join=none is for model.attention=after, not before; with before, set model.readout=none"
    ):
        build("bahdanau", join="none")
    with pytest.raises(
        UserError,
        match=r"model.expectation \(0.5\) is for hard attention, and soft attention always takes the mean; set",
    ):
        build("luong", expectation=0.5)
