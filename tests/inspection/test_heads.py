"""Heads by name, and switched off, against weights with zeroed output columns."""

import pytest
import torch

from clew.core.errors import UserError
from clew.inspection.heads import head_names, heads_off, layers_with_heads, why_headless
from clew.models import MODELS
from clew.sources.tokens import Tokens


def body_of(family, **settings):
    kind = MODELS[family]
    torch.manual_seed(0)
    built = kind.build(kind.config(family=family, **settings), Tokens(11))
    return built.eval()


SMALL = {"dim": 8, "num_heads": 2, "num_layers": 2}


@pytest.mark.parametrize("family", ["gpt", "bert", "llama"])
def test_switching_off_a_head_zeroes_its_columns_of_the_output(family):
    body = body_of(family, **SMALL)
    tokens = torch.tensor([[1, 2, 3, 4]])
    with heads_off(body, ["2.1"]):
        off = body(tokens)[0]
    on = body(tokens)[0]
    layer = layers_with_heads(body)[1].layer
    with torch.no_grad():
        layer.output.weight[:, :4] = 0
    torch.testing.assert_close(off, body(tokens)[0])
    assert (on - off).abs().max() > 1e-4


def test_heads_of_an_encoder_decoder_are_named_by_kind_of_attention():
    body = body_of("transformer", dim=8, num_heads=2, num_layers=1)
    assert head_names(body) == ["1.1", "1.2", "decoder.1.1", "decoder.1.2", "cross.1.1", "cross.1.2"]
    memory = body.encode(torch.tensor([[1, 2, 3]]))
    target = torch.tensor([[4, 5]])
    with heads_off(body, ["cross.1.1", "cross.1.2"]):
        blind = body(target, None, body.initial_state(1, memory))[0]
    other_memory = body.encode(torch.tensor([[6, 7, 8]]))
    with heads_off(body, ["cross.1.1", "cross.1.2"]):
        torch.testing.assert_close(blind, body(target, None, body.initial_state(1, other_memory))[0])
    assert not torch.allclose(blind, body(target, None, body.initial_state(1, memory))[0])


@pytest.mark.parametrize("attention", ["before", "after", "none"])
def test_a_recurrent_decoder_has_one_head_or_none(attention):
    body = body_of("seq2seq", dim=4, num_layers=1, attention=attention)
    assert head_names(body) == (["cross.1.1"] if attention != "none" else [])


def test_an_unknown_head_is_rejected_with_the_nearest():
    body = body_of("gpt", **SMALL)
    with pytest.raises(UserError, match="unknown head '2.3'; did you mean '2.2'"), heads_off(body, ["2.3"]):
        pass


def test_a_recurrent_model_has_no_heads():
    body = body_of("recurrent", dim=4, num_layers=1)
    assert "no attention" in why_headless(body)
    with pytest.raises(UserError, match="no attention"), heads_off(body, ["1.1"]):
        pass


def test_switching_off_no_heads_changes_nothing():
    body = body_of("gpt", **SMALL)
    tokens = torch.tensor([[1, 2, 3, 4]])
    with heads_off(body, []):
        off = body(tokens)[0]
    torch.testing.assert_close(off, body(tokens)[0])
