import pytest
import torch

from clew.core.errors import UserError
from clew.core.taps import watching
from clew.tasks.shared.alignment import (
    Alignment,
    Tokens,
    attention_weights,
    displayed_tokens,
    source_attentions,
    tokens_at,
    with_marks,
)
from clew.text.train import train_bpe, train_character, train_word, train_wordpiece
from tests.models.translators import LOOKING
from tests.tasks.sequences import PAIRS, batch_of, sequence_task

TEXTS = ["the löwe sleeps in the sun", "猫が寝る 😀 now", "a a a b"]


@pytest.mark.parametrize("way", LOOKING)
def test_every_target_attends_to_real_places_with_weights_that_sum_to_one(way: str) -> None:
    task = sequence_task(way).eval()
    batch = batch_of(task)
    weights = attention_weights(task, batch)
    assert weights.shape == (*batch.targets.shape, batch.source.shape[1])
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert batch.source_mask is not None
    assert (weights * ~batch.source_mask[:, None]).abs().max() == 0


@pytest.mark.parametrize("way", ["hard", "hard-after"])
def test_hard_attention_is_aligned_with_one_place(way: str) -> None:
    task = sequence_task(way).eval()
    weights = attention_weights(task, batch_of(task))
    assert set(weights.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("way", LOOKING)
def test_the_weights_equal_those_of_token_by_token_decoding(way: str) -> None:
    task = sequence_task(way).eval()
    batch = batch_of(task, PAIRS[:1])
    chosen = source_attentions(task)[0]
    recorded: list[torch.Tensor] = []
    state = task.body.initial_state(1, task.read(batch))
    with torch.no_grad(), watching({getattr(chosen, "places", chosen.weights): recorded.append}):
        for token in batch.tokens[0]:
            _, state = task.body(token.view(1, 1), None, state)
    rows = torch.stack([weights.reshape(-1, weights.shape[-1]).mean(0) for weights in recorded])
    torch.testing.assert_close(attention_weights(task, batch, 1)[0], rows)


def test_the_second_to_last_layer_is_shown_by_default() -> None:
    task = sequence_task("transformer").eval()
    batch = batch_of(task)
    assert len(source_attentions(task)) == 2
    first, last = attention_weights(task, batch, 1), attention_weights(task, batch, -1)
    assert torch.equal(attention_weights(task, batch), first)
    assert torch.equal(last, attention_weights(task, batch, 2)) and not torch.equal(first, last)
    for layer in (0, 3, -3):
        with pytest.raises(UserError, match=f"no layer {layer} of the decoder attends to the source; choose 1 to 2"):
            attention_weights(task, batch, layer)


def test_models_without_attention_are_rejected() -> None:
    task = sequence_task("bottleneck")
    with pytest.raises(UserError, match="does not attend to its source"):
        attention_weights(task, batch_of(task))


@pytest.mark.parametrize("train", [train_character, train_word, train_bpe, train_wordpiece])
def test_tokens_are_grouped_into_words(train) -> None:
    tokenizer = train(TEXTS)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        tokens = displayed_tokens(tokenizer, text, ids)
        assert len(tokens.texts) == len(tokens.word_of) == len(ids)
        assert sorted(set(tokens.word_of)) == list(range(len(tokens.words)))
        assert tokens.word_of == sorted(tokens.word_of)
        assert "".join(tokens.words) == text.replace(" ", "")


def test_tokens_that_differ_from_the_encoding_are_placed_by_decoding_them() -> None:
    tokenizer = train_bpe(["lion lion lion lions"], size=270)
    ids = [id for byte in "lions 猫!" for id in tokenizer.encode(byte)]
    assert ids != tokenizer.encode("lions 猫!")
    tokens = displayed_tokens(tokenizer, "lions 猫!", ids)
    assert tokens.words == ["lions", "猫", "!"]
    assert tokens.word_of == [0, 0, 0, 0, 0, 0, 1, 1, 1, 2]


def test_wide_characters_are_words_and_spaces_belong_to_the_previous_word() -> None:
    spans = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 6)]
    tokens = tokens_at("猫が ab ", spans)
    assert (tokens.words, tokens.word_of) == (["猫", "が", "ab"], [0, 1, 1, 2, 2])
    marked = with_marks(tokens, ["<2en>"], ["<eos>"])
    assert marked.words == ["<2en>", "猫", "が", "ab", "<eos>"]
    assert marked.word_of == [0, 1, 2, 2, 3, 3, 4]


def test_a_word_sums_over_its_source_tokens_and_averages_its_target_tokens() -> None:
    source = Tokens(["un", "der", "<eos>"], ["under", "<eos>"], [0, 0, 1])
    target = Tokens(["b", "elow"], ["below"], [0, 0])
    by_word = Alignment(source, target, torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.25, 0.75]])).by_word()
    assert by_word.tolist() == [[0.5, 0.5]]
