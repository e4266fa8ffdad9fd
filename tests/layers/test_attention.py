import itertools

import pytest
import torch
from torch import nn

from clew.core.errors import UserError
from clew.core.masks import Places
from clew.core.state import copy_state, select_rows
from clew.core.taps import watching
from clew.core.types import Memory
from clew.layers.attending.caches import RING_CHUNK
from clew.layers.attending.cross_attention import CrossAttention
from clew.layers.attention import Attention, SelfAttention
from clew.layers.positions import POSITIONS
from clew.layers.scores import SCORES
from tests.references import attention as references
from tests.references.agreement import assert_agrees, randn, randomise


@pytest.mark.parametrize("score", SCORES)
def test_self_attention_with_any_score_equals_its_equation_in_values_and_gradients(score):
    options = {"max_length": 8} if score == "location" else {}
    layer = randomise(SelfAttention(4, 2, score=SCORES[score](2, 2, **options)))
    reference = references.SCORES[score]
    assert_agrees(
        layer,
        lambda x: layer(x)[0],
        lambda p, x: references.multi_head(p, x, 2, score=reference),
        randn(1, 4, 4),
        entries=2,
    )


@pytest.mark.parametrize(("causal", "window", "kv_heads"), list(itertools.product([True, False], [None, 0, 2], [2, 1])))
def test_self_attention_equals_its_equation_causal_windowed_and_grouped(causal, window, kv_heads):
    layer = randomise(SelfAttention(4, 2, causal=causal, window=window, num_kv_heads=kv_heads))
    assert_agrees(
        layer,
        lambda x: layer(x)[0],
        lambda p, x: references.multi_head(p, x, 2, kv_heads, causal=causal, window=window),
        randn(2, 5, 4),
        entries=1,
    )


@pytest.mark.parametrize("causal", [True, False])
def test_self_attention_equals_torch(causal):
    ours, theirs = randomise(SelfAttention(6, 3, causal=causal)), nn.MultiheadAttention(6, 3, batch_first=True).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x = randn(2, 5, 6)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    future = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    expected, weights = theirs(x, x, x, key_padding_mask=~mask, attn_mask=future, average_attn_weights=False)
    y, recorded = ours(x, mask)[0], []
    torch.testing.assert_close(y[mask], expected[mask])
    with watching({ours.attention.weights: recorded.append}):
        ours(x, mask)
    torch.testing.assert_close(recorded[0].transpose(1, 2)[mask], weights.transpose(1, 2)[mask])


def test_cross_attention_equals_torch():
    ours, theirs = (
        randomise(CrossAttention(6, 2, memory_dim=4)),
        nn.MultiheadAttention(6, 2, kdim=4, vdim=4, batch_first=True).double(),
    )
    with torch.no_grad():
        for name, part in (("q", ours.query), ("k", ours.key), ("v", ours.value)):
            getattr(theirs, f"{name}_proj_weight").copy_(part.weight)
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    x, memory = randn(2, 3, 6), randn(2, 5, 4, seed=1)
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    y, _ = ours(x, None, ours.initial_state(2, Memory(memory, mask), like=x))
    torch.testing.assert_close(y, theirs(x, memory, memory, key_padding_mask=~mask, need_weights=False)[0])


@pytest.mark.parametrize(("score", "watched"), list(itertools.product(SCORES, [False, True])))
def test_masked_keys_receive_zero_weight(score, watched):
    attention = randomise(Attention(SCORES[score](3, 3)))
    query, key, value = randn(1, 1, 2, 3), randn(1, 1, 4, 3, seed=1), randn(1, 1, 4, 3, seed=2)
    visible = torch.tensor([True, False, True, False])[None, None, None]
    places = Places(torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.long))
    recorded = []
    with watching({attention.weights: recorded.append} if watched else {}):
        context = attention(query, key, value, places, torch.arange(4)[None], visible)
    elsewhere = value.clone()
    elsewhere[:, :, [1, 3]] = 1e6
    torch.testing.assert_close(context, attention(query, key, elsewhere, places, torch.arange(4)[None], visible))
    if watched:
        assert torch.equal(recorded[0][..., [1, 3]], torch.zeros(1, 1, 2, 2, dtype=torch.float64))
        torch.testing.assert_close(recorded[0].sum(-1), torch.ones(1, 1, 2, dtype=torch.float64))


def test_self_attention_without_positions_reads_a_bag_of_words():
    layer = randomise(SelfAttention(4, 2, causal=False))
    x, order = randn(2, 6, 4), torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(layer(x[:, order])[0], layer(x)[0][:, order])


@pytest.mark.parametrize("position", ["rotary", "alibi", "relative"])
def test_positions_distinguish_two_orders_of_the_same_words(position):
    layer = randomise(SelfAttention(4, 2, causal=False, position=POSITIONS[position](4, 2, 2)))
    x, order = randn(1, 6, 4), torch.tensor([3, 0, 5, 1, 4, 2])
    assert (layer(x[:, order])[0] - layer(x)[0][:, order]).abs().max() > 1e-3


def test_one_key_gets_all_the_weight():
    layer = randomise(SelfAttention(4, 2))
    x = randn(2, 1, 4)
    torch.testing.assert_close(layer(x)[0], layer.output(layer.value(x)))


def test_a_window_of_zero_sees_only_its_own_position():
    layer = randomise(SelfAttention(4, 2, window=0))
    x = randn(2, 5, 4)
    torch.testing.assert_close(layer(x)[0], layer.output(layer.value(x)))


def test_an_empty_row_does_not_break_gradients_of_other_rows():
    layer = randomise(SelfAttention(4, 2, causal=False, score=SCORES["additive"](2, 2)))
    x = randn(2, 3, 4)
    y, _ = layer(x, torch.tensor([[True] * 3, [False] * 3]))
    y[0].sum().backward()
    assert all(bool(p.grad.isfinite().all()) for p in layer.parameters() if p.grad is not None)


def test_a_ring_equals_a_growing_cache_beyond_its_own_size():
    layer = randomise(SelfAttention(4, 2, window=3, position=POSITIONS["rotary"](4, 2, 2)))
    length = 2 * RING_CHUNK + 30
    x = randn(1, length, 4)
    with torch.no_grad():
        whole, _ = layer(x)
        state, outputs = layer.initial_state(1, capacity=10 * length, like=x), []
        assert state.keys.shape[1] == 1 + 3 + RING_CHUNK
        for piece in x.split([70, 1, 1, 65, length - 137], 1):
            y, state = layer(piece, None, state)
            outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, 1), whole)


def test_a_ring_can_be_rewound_while_it_still_holds_the_window():
    layer = randomise(SelfAttention(4, 2, window=3))
    x = randn(2, 150, 4)
    with torch.no_grad():
        whole, state = layer(x, None, layer.initial_state(2, capacity=300, like=x))
        lengths = torch.tensor([150 - RING_CHUNK, 140])
        rewound, _ = layer(torch.stack([x[0, 86:88], x[1, 140:142]]), None, copy_state(state).rewind(lengths))
        torch.testing.assert_close(rewound, torch.stack([whole[0, 86:88], whole[1, 140:142]]))
        with pytest.raises(
            UserError, match="a windowed cache can be rewound by 64 positions, but row 1 would go back further"
        ):
            state.rewind(torch.tensor([150, 50]))


@pytest.mark.parametrize(("window", "pieces"), [(None, [11]), (None, [6, 5]), (3, [11]), (3, [2] * 6)])
def test_a_too_small_cache_is_reported(window, pieces):
    layer = SelfAttention(4, 2, window=window)
    x = torch.randn(1, sum(pieces), 4)
    state = layer.initial_state(1, capacity=10, like=x)
    with (
        torch.no_grad(),
        pytest.raises(
            UserError,
            match="the cache was made for 10 positions, but the sequence has 1[12]; give initial_state"
            " a larger capacity",
        ),
    ):
        for piece in x.split(pieces, 1):
            _, state = layer(piece, None, state)


def test_beams_that_share_a_row_of_memory_equal_beams_with_a_row_each():
    layer = randomise(CrossAttention(4, 2, memory_dim=3))
    memory, mask = randn(2, 5, 3), torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    x = randn(6, 3, 4, seed=1)
    shared, state = layer(x, None, layer.initial_state(6, Memory(memory, mask), like=x))
    each = Memory(memory.repeat_interleave(3, 0), mask.repeat_interleave(3, 0))
    repeated, _ = layer(x, None, layer.initial_state(6, each, like=x))
    torch.testing.assert_close(shared, repeated)
    order = torch.tensor([2, 0, 0, 5, 5, 3])
    torch.testing.assert_close(
        layer(x[order], None, select_rows(state, order))[0],
        layer(x[order], None, layer_state(layer, each, order, x))[0],
    )


def layer_state(layer, memory, order, x):
    return layer.initial_state(len(order), Memory(memory.values[order], memory.mask[order]), like=x)


def test_memory_is_projected_once():
    layer = randomise(CrossAttention(4, 2))
    x = randn(2, 1, 4)
    _, first = layer(x, None, layer.initial_state(2, Memory(randn(2, 5, 4)), like=x))
    _, second = layer(x, None, first)
    assert second.values[0] is first.values[0]
    assert second.values[1] is first.values[1]


def test_dropped_weights_are_scaled_and_off_in_evaluation():
    torch.manual_seed(0)
    layer = randomise(SelfAttention(4, 1, causal=False, dropout=0.5))
    x = randn(1, 400, 4)
    quiet = layer.eval()(x)[0].mean(1)
    layer.train()
    torch.testing.assert_close(layer(x)[0].mean(1), quiet, atol=0.1, rtol=0.1)
    assert (layer(x)[0] - layer(x)[0]).abs().max() > 1e-3


def test_invalid_settings_are_rejected_with_a_sentence():
    with pytest.raises(UserError, match=r"dim \(10\) must be divisible by num_heads \(4\); or give head_dim"):
        SelfAttention(10, 4)
    with pytest.raises(UserError, match=r"num_heads \(4\) must be divisible by num_kv_heads \(3\)"):
        SelfAttention(8, 4, num_kv_heads=3)
    with pytest.raises(
        UserError, match=r"window \(-1\) must be at least 0: the number of neighbours that a position sees"
    ):
        SelfAttention(8, 4, window=-1)
    with pytest.raises(UserError, match=r"dim \(10\) must be divisible by num_heads \(4\)"):
        CrossAttention(10, 4)
    with pytest.raises(UserError, match="cross-attention needs something to attend to; give initial_state a memory"):
        CrossAttention(4, 2).initial_state(1, like=torch.zeros(1))
    with pytest.raises(UserError, match="cross-attention reads its memory from the state; start it with initial_state"):
        CrossAttention(4, 2)(torch.zeros(1, 1, 4))
    with pytest.raises(
        UserError,
        match="SelfAttention sees the whole sequence at once, so it cannot continue from a state; give it the sequence",
    ):
        SelfAttention(4, 2, causal=False)(torch.zeros(1, 1, 4), None, ())
    layer = CrossAttention(4, 2)
    x = torch.zeros(3, 1, 4)
    with pytest.raises(
        UserError, match="3 rows cannot share 2 rows of memory; the rows must be a multiple of the sentences"
    ):
        layer(x, None, layer.initial_state(3, Memory(torch.zeros(2, 5, 4)), like=x))
