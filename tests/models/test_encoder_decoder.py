"""What holds for every encoder-decoder: the laws, all kinds of decoding, recording, recomputing, compiling and
learning."""

import pytest
import torch

import clew
from clew.core.errors import UserError
from clew.core.state import copy_state, leaves, map_state, select_rows
from clew.core.types import Memory
from clew.decoding.beam import beam_search
from clew.decoding.sampling import greedy_sequences
from clew.layers.sequence import Stack
from tests.crossing import quickly
from tests.models.translators import (
    END,
    LOOKING,
    SMALLEST,
    SOURCE_VOCABULARY,
    START,
    VOCABULARY,
    WAYS,
    Translator,
    build,
    decisive,
    obeys_every_law,
    pair_of,
    reversals,
    total,
    train,
)

SENTENCES = [[2, 3, 4], [5], [7, 6, 5, 4, 3], [2, 2]]
LARGER = {
    "seq2seq": {"dim": 32, "embedding_dim": 16},
    "transformer": {"dim": 32, "hidden_dim": 64},
    "convolutional": {"dim": 32, "embedding_dim": 24},
}

ONE_A_FAMILY = ("luong", "transformer", "convolutional")

every_way = pytest.mark.parametrize("way", WAYS)
some_ways = pytest.mark.parametrize("way", quickly(WAYS, *ONE_A_FAMILY, "bahdanau-deep", "hard"))
one_a_family = pytest.mark.parametrize("way", quickly(WAYS, *ONE_A_FAMILY))
compiled_ways = pytest.mark.parametrize(
    "way",
    quickly(["bahdanau", "luong", "luong-unfed", "hard", "transformer", "convolutional"], "bahdanau", "transformer"),
)


@some_ways
def test_every_encoder_decoder_obeys_the_laws(way):
    obeys_every_law(way=way)


@one_a_family
def test_every_encoder_decoder_obeys_the_laws_at_the_smallest_sizes(way):
    obeys_every_law(SMALLEST, way=way)


@one_a_family
def test_every_encoder_decoder_memorises_reversed_sentences(way):
    batch = reversals(6, longest=4)
    family = WAYS[way]["family"]
    translator = Translator(way, **LARGER[family])
    assert train(translator, batch, 100, rate=0.02 if family == "seq2seq" else 0.01, until=0.05) < 0.05
    translator.eval()
    decoded = greedy_sequences(
        translator.stepper(batch.source, batch.source_mask), batch.tokens[:, :1], max_new=8, end=END
    )
    for row in range(6):
        assert decoded.tokens[row, : decoded.lengths[row]].tolist() == batch.targets[row][batch.mask[row]].tolist()


def prompts(translator):
    batch = pair_of(SENTENCES)
    return torch.full((len(SENTENCES), 1), START), translator.stepper(batch.source, batch.source_mask)


@every_way
@torch.no_grad()
def test_beams_of_a_batch_equal_those_of_each_sentence_alone(way):
    translator = decisive(Translator(way))
    tokens, stepper = prompts(translator)
    options = {"beams": 3, "max_new": 9, "end": END, "n_best": 3}
    together = beam_search(stepper, tokens, **options)
    for row, sentence in enumerate(SENTENCES):
        alone = beam_search(translator.stepper(torch.tensor([sentence])), tokens[:1], **options)
        assert torch.equal(alone.lengths[0], together.lengths[row])
        for rank, length in enumerate(alone.lengths[0].tolist()):
            assert torch.equal(alone.tokens[0, rank, :length], together.tokens[row, rank, :length])
        torch.testing.assert_close(alone.log_probs[0], together.log_probs[row])


@every_way
@torch.no_grad()
def test_beams_through_a_growing_cache_and_a_buffer_give_the_same_tokens(way):
    translator = decisive(Translator(way))
    tokens, stepper = prompts(translator)
    options = {"beams": 3, "max_new": 9, "end": END, "n_best": 3}
    grown = beam_search(stepper, tokens, None, stepper.initial_state(4), **options)
    buffered = beam_search(stepper, tokens, None, stepper.initial_state(4, 10), **options)
    assert torch.equal(grown.tokens, buffered.tokens)
    torch.testing.assert_close(grown.log_probs, buffered.log_probs)
    # the test would prove little if all sentences had the same tokens
    assert len({tuple(row.tolist()) for row in grown.tokens[:, 0]}) > 1


@every_way
@torch.no_grad()
def test_decoding_with_a_state_equals_reading_the_whole_text_again(way):
    translator = decisive(Translator(way))
    tokens, stepper = prompts(translator)
    cached = greedy_sequences(stepper, tokens, max_new=8, end=None).tokens
    generated = tokens
    for _ in range(8):
        log_probs, _ = stepper(generated, None, stepper.initial_state(4))
        generated = torch.cat([generated, log_probs[:, -1:].argmax(-1)], 1)
    assert torch.equal(cached, generated[:, 1:])


@every_way
@torch.no_grad()
def test_a_padded_prefix_is_read_like_an_unpadded_one(way):
    translator = decisive(Translator(way))
    _, stepper = prompts(translator)
    prefix = torch.tensor([[0, 3, 4], [0, 5, 0], [0, 7, 6], [0, 0, 0]])
    mask = torch.arange(3) < torch.tensor([3, 2, 3, 1])[:, None]
    batched = greedy_sequences(stepper, prefix, mask, max_new=4, end=None).tokens
    for row, length in enumerate([3, 2, 3, 1]):
        alone = translator.stepper(torch.tensor(SENTENCES[row : row + 1]))
        expected = greedy_sequences(alone, prefix[row : row + 1, :length], max_new=4, end=None).tokens
        assert torch.equal(batched[row : row + 1], expected)


@every_way
@torch.no_grad()
def test_beams_share_the_memory_of_their_sentence(way):
    translator = Translator(way)
    tokens, stepper = prompts(translator)
    _, state = stepper(tokens, None, stepper.initial_state(4))
    shared = select_rows(state, torch.arange(4).repeat_interleave(5))
    leaf_ids = set(map(id, leaves(state)))
    in_memory = [leaf for leaf in leaves(shared) if id(leaf) in leaf_ids]
    assert bool(in_memory) == (way in LOOKING)
    assert all(len(leaf) == 4 for leaf in in_memory)
    rows = []
    map_state(lambda leaf: rows.append(len(leaf)) or leaf, shared)
    assert set(rows) == {20}


@pytest.mark.parametrize("way", LOOKING)
@torch.no_grad()
def test_cross_attention_can_be_recorded(way):
    translator = Translator(way).eval()
    batch = pair_of(SENTENCES)
    unwatched = translator(batch)["loss"].sum
    with clew.record(translator, "body.decoder.*.attention.weights") as recorded:
        watched = translator(batch)["loss"].sum
    torch.testing.assert_close(watched, unwatched)
    over_source = [
        weights for path in recorded for weights in recorded.calls(path) if weights.shape[-1] == batch.source.shape[1]
    ]
    assert over_source
    for weights in over_source:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        hidden = ~batch.source_mask.view(4, *[1] * (weights.dim() - 2), -1)
        assert not weights.masked_select(hidden.expand_as(weights)).any()


@every_way
def test_every_parameter_is_trained(way):
    """Processes that exchange gradients wait for every one."""
    translator = Translator(way)
    torch.manual_seed(0)
    total(translator(reversals(4))).backward()
    assert [name for name, parameter in translator.named_parameters() if parameter.grad is None] == []


@every_way
def test_recomputed_layers_give_the_same_gradients(way):
    gradients = []
    for recompute in (False, True):
        translator = Translator(way, dropout=0.3).double()
        for part in translator.modules():
            if isinstance(part, Stack):
                part.recompute = recompute
        torch.manual_seed(5)
        total(translator(reversals(4))).backward()
        gradients.append([parameter.grad for parameter in translator.parameters()])
    for once, twice in zip(*gradients, strict=True):
        torch.testing.assert_close(once, twice)


@pytest.mark.slow
@compiled_ways
def test_a_compiled_encoder_decoder_trains_as_an_eager_one(way):
    compiled_like_eager(way, "eager")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("way", ["bahdanau", "luong-unfed", "transformer", "convolutional"])
def test_inductor_trains_like_eager_mode(way):
    # torch 2.13 gets gradients of a bidirectional encoder under an attentive decoder wrong on a CPU when it writes
    # buffers in place.
    with torch._inductor.config.patch(inplace_buffers=False, force_disable_caches=True):
        compiled_like_eager(way, "inductor")


def compiled_like_eager(way, backend):
    torch.compiler.reset()
    eager, compiled = (Translator(way, num_layers=1).double().eval() for _ in range(2))
    batch = reversals(4, longest=3)
    expected = eager(batch)["loss"].sum
    compiled_loss = torch.compile(compiled, backend=backend)(batch)["loss"].sum
    torch.testing.assert_close(compiled_loss, expected)
    for loss in (expected, compiled_loss):
        loss.backward()
    for reference, actual in zip(eager.parameters(), compiled.parameters(), strict=True):
        if reference.grad is not None:
            torch.testing.assert_close(actual.grad, reference.grad, rtol=1e-5, atol=1e-7)  # positions are in float32
    torch.compiler.reset()


@pytest.mark.slow
@compiled_ways
@torch.no_grad()
def test_a_compiled_decoding_step_equals_an_eager_one(way):
    torch.compiler.reset()
    translator = decisive(Translator(way, num_layers=1))
    tokens, stepper = prompts(translator)
    compiled = torch.compile(translator.body, backend="aot_eager")
    _, state = translator.body(tokens, None, stepper.initial_state(4, 8))
    step = torch.tensor([[3], [4], [2], [7]])
    expected, _ = translator.body(step, None, copy_state(state))
    torch.testing.assert_close(compiled(step, None, copy_state(state))[0], expected)
    torch.compiler.reset()


@every_way
def test_levels_begin_with_the_embedding_and_end_with_the_output(way):
    body = build(way).eval()
    batch = pair_of(SENTENCES)
    memory = body.encode(batch.source, batch.source_mask)
    hidden, _ = body(batch.tokens, batch.mask, body.initial_state(4, memory))
    levels, source = body.levels(batch.tokens, batch.mask, memory), body.source_levels(batch.source, batch.source_mask)
    torch.testing.assert_close(levels[-1][batch.mask], hidden[batch.mask])
    torch.testing.assert_close(source[-1][batch.source_mask], memory.values[batch.source_mask])
    assert levels[0].shape[-1] == body.embedding.dim and source[0].shape[-1] == body.source_embedding.dim
    assert len(levels) == 1 + len(body.decoder.layers.layers) and len(source) == 1 + len(body.encoder.layers.layers)


@every_way
def test_a_body_states_its_vocabularies_and_lengths(way):
    body = build(way)
    assert body.causal and body.encodes
    assert (body.vocabulary, body.source_vocabulary) == (VOCABULARY, SOURCE_VOCABULARY)
    assert (body.embedding.vocabulary, body.source_embedding.vocabulary) == (VOCABULARY, SOURCE_VOCABULARY)
    bounded = way in ("lstm-under-attention", "convolutional")
    assert (body.max_length, body.source_max_length) == ((32, 32) if bounded else (None, None))
    assert body.is_hard == way.startswith("hard")
    assert body.dim == (8 + 16 if way == "bahdanau-deep" else 6 if way == "convolutional" else 8)


@pytest.mark.parametrize("way", ["bahdanau", "transformer", "convolutional"])
def test_shared_embeddings_are_one_table_saved_once(way):
    shared = {"shared_embeddings": True}
    with pytest.raises(
        UserError,
        match="shared embeddings need one vocabulary, but the source has 9 tokens and the target 8; train one"
        " tokenizer on both, or set model.shared_embeddings=false",
    ):
        build(way, **shared)
    body = build(way, vocabulary=SOURCE_VOCABULARY, **shared)
    assert body.shares_embeddings and not build(way).shares_embeddings
    assert body.source_embedding.weight is body.embedding.weight
    assert [name for name in body.state_dict() if name.endswith("embedding.tokens.weight")] == [
        "decoder.embedding.tokens.weight"
    ]
    body.encode(torch.tensor([[3, 4]])).values[..., 0].sum().backward()
    assert bool(body.embedding.weight.grad[3].any())


def test_invalid_settings_are_rejected_with_a_sentence():
    body = build("bahdanau")
    tokens = torch.zeros(2, 3, dtype=torch.long)
    memory = body.encode(tokens)
    with pytest.raises(
        UserError, match="an encoder-decoder writes from a source; give initial_state a memory: body.encode"
    ):
        body.initial_state(2)
    with pytest.raises(UserError, match="an encoder-decoder writes from a source; give it a state of initial_state"):
        body(tokens)
    with pytest.raises(
        UserError, match="3 rows cannot share 2 rows of memory; the rows must be a multiple of the sentences"
    ):
        body.initial_state(3, memory)
    with pytest.raises(
        UserError,
        match="an encoder-decoder has one source and one target per row; give it a boolean mask, not document numbers",
    ):
        body(tokens, torch.ones_like(tokens), body.initial_state(2, memory))
    with pytest.raises(UserError, match="give it a boolean mask, not document numbers"):
        body.encode(tokens, torch.ones_like(tokens))
    with pytest.raises(UserError, match="an encoder-decoder writes from a source"):
        body.levels(tokens)
    with pytest.raises(UserError, match="the sequence reaches position 33, but the model has learnt 32 positions"):
        build("convolutional").encode(torch.zeros(1, 33, dtype=torch.long))


def test_a_source_without_words_gives_no_nan():
    for way in WAYS:
        body = build(way).eval()
        memory = body.encode(torch.zeros(2, 3, dtype=torch.long), torch.tensor([[True] * 3, [False] * 3]))
        hidden, _ = body(torch.zeros(2, 2, dtype=torch.long), None, body.initial_state(2, memory))
        assert bool(hidden.isfinite().all()), way


def test_a_decoder_that_sees_the_future_is_rejected():
    with pytest.raises(UserError, match="a decoder writes word by word, so each of its layers must be causal"):
        build("transformer", decoder_layers=[{"name": "attention", "causal": False}, "cross_attention"])


@torch.no_grad()
def test_several_rows_can_start_from_one_sentence():
    body = build("bottleneck").double()
    source, tokens = torch.tensor([[2, 3], [4, 5]]), torch.randint(VOCABULARY, (6, 3))
    memory = body.encode(source)
    each = body.encode(source.repeat_interleave(3, 0))
    assert isinstance(memory, Memory)
    torch.testing.assert_close(
        body(tokens, None, body.initial_state(6, memory))[0], body(tokens, None, body.initial_state(6, each))[0]
    )
