import math

import pytest
import torch

from clew.core.errors import UserError
from clew.models.gpt import GPTConfig, build_gpt
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel
from clew.tasks.uses.generation import continuation, generate, pieces, prompt_batch, start_of, stream
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_bpe, train_character, train_word, train_wordpiece
from tests.thread.models import LINES, gpt, lstm

TEXT = "\n".join(LINES) + "\n"


def subword_model(text: str = TEXT) -> LanguageModel:
    torch.manual_seed(0)
    tokenizer = train_bpe([text], size=300)
    return LanguageModel(
        build_gpt(GPTConfig(dim=12, num_layers=1, num_heads=2, max_length=24), Tokens(tokenizer.vocabulary)), tokenizer
    )


@pytest.mark.parametrize("make", [lstm, gpt, subword_model])
@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_prompts_are_continued_equally_in_a_batch_and_alone(make, method: str) -> None:
    task = make()
    config = DecodingConfig(method=method, max_new=12, beams=3, top_k=1 if method == "sample" else None)
    prompts = ["a ball", "it", ""]
    together = generate(task, prompts, config)
    alone = [generate(task, [prompt], config)[0] for prompt in prompts]
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    assert [each.log_prob for each in together] == pytest.approx([each.log_prob for each in alone], rel=1e-4)


def test_greedy_is_the_most_probable_token_each_time() -> None:
    task = lstm().eval()
    result = generate(task, ["the"], DecodingConfig(method="greedy", max_new=6))[0]
    ids = task.encode("the")
    for token in result.tokens:
        hidden, _ = task.body(torch.tensor([ids]))
        scores = task.logits(hidden)[0, -1]
        scores[task.tokenizer.unknown] = -torch.inf
        assert token == int(scores.argmax())
        ids.append(token)


def test_a_model_continues_past_its_last_position() -> None:
    """The model has 48 learned positions; later tokens are generated from the second half of the context."""
    result = generate(gpt(), ["a ball"], DecodingConfig(method="greedy", max_new=120))[0]
    assert len(result.tokens) == 120


def test_a_prompt_longer_than_the_positions_is_refused() -> None:
    message = (
        "the prompt has 60 tokens, but the model has only 48 positions; shorten it, or train with a larger"
        " model.max_length"
    )
    with pytest.raises(UserError, match=message):
        generate(gpt(), ["a" * 60], DecodingConfig())


def test_generating_restores_training_mode() -> None:
    task = lstm(dropout=0.5)
    task.train()
    first, second = (generate(task, ["the"], DecodingConfig(method="greedy", max_new=9)) for _ in range(2))
    assert first == second and task.training


def test_streaming_restores_training_mode() -> None:
    task = lstm(dropout=0.5)
    task.train()
    text = "".join(stream(task, "the", DecodingConfig(method="greedy", max_new=9)))
    assert text == generate(task, ["the"], DecodingConfig(method="greedy", max_new=9))[0].text
    assert task.training


def test_a_stream_ends_with_a_forced_end_like_the_text() -> None:
    task = lstm()
    plain = generate(task, ["the"], DecodingConfig(method="greedy", max_new=6))[0].tokens
    stop = next(token for id, token in enumerate(task.tokenizer.tokens) if id not in plain and len(token) == 1)
    config = DecodingConfig(method="greedy", max_new=6, stop=stop, forced_end=True)
    result = generate(task, ["the"], config)[0]
    assert result.tokens == plain[:5] and "".join(stream(task, "the", config)) == result.text


def test_the_unknown_token_is_never_generated() -> None:
    task = lstm()
    with torch.no_grad():
        task.output_bias[task.tokenizer.unknown] = 100.0
    for method in ("greedy", "sample", "beam"):
        result = generate(task, ["the"], DecodingConfig(method=method, max_new=8))[0]
        assert task.tokenizer.unknown not in result.tokens


def test_a_subword_model_stops_at_its_end_token_by_default() -> None:
    task = subword_model()
    task.output_bias = torch.nn.Parameter(torch.zeros(task.body.vocabulary))
    with torch.no_grad():
        task.output_bias[task.tokenizer.end] = 100.0
    stopped = generate(task, ["a ball"], DecodingConfig(method="greedy", max_new=8))[0]
    assert (stopped.tokens, stopped.text) == ([], "")
    unstopped = generate(task, ["a ball"], DecodingConfig(method="greedy", max_new=8, stop=False))[0]
    assert len(unstopped.tokens) == 8 and task.tokenizer.end not in unstopped.tokens


def test_pieces_wait_until_a_character_is_whole() -> None:
    tokenizer = train_bpe(["naïve café\n"], size=260)
    ids = tokenizer.encode("café ï")
    shown_pieces = list(pieces(tokenizer, "", iter(ids), []))
    assert "".join(shown_pieces) == "café ï"
    assert not any("�" in piece for piece in shown_pieces)
    assert len(shown_pieces) < len(ids)


def test_words_are_joined_to_a_prompt_by_a_space() -> None:
    tokenizer = train_word([TEXT])
    ids = tokenizer.encode("of thread")
    assert continuation(tokenizer, "a ball", ids) == " of thread"
    assert continuation(tokenizer, "a ball ", ids) == "of thread"
    assert continuation(tokenizer, "", ids) == "of thread"
    shown_pieces = list(pieces(tokenizer, "a ball", iter(ids), []))
    assert shown_pieces == [" of", " thread"]


def test_prompts_are_padded_on_the_right() -> None:
    task = lstm()
    tokens, mask = prompt_batch(task, ["it", "a"])
    assert mask.tolist() == [[True, True], [True, False]]
    assert tokens[0].tolist() == task.encode("it")
    assert prompt_batch(task, ["it", "is"])[1] is None


def test_no_ngram_is_repeated_on_request() -> None:
    result = generate(lstm(), ["the "], DecodingConfig(method="greedy", max_new=40, no_repeat_ngram=3))[0]
    text = str(result)
    triples = [text[i : i + 3] for i in range(len(text) - 2)]
    assert len(set(triples)) == len(triples)


def test_subwords_are_joined_to_a_prompt_as_one_text() -> None:
    tokenizer = train_wordpiece([TEXT], size=200)
    for prompt, rest in (("a ball", " of thread"), ("a ball of thr", "ead")):
        whole, prompt_ids = tokenizer.encode(prompt + rest), tokenizer.encode(prompt)
        if whole[: len(prompt_ids)] == prompt_ids:
            assert prompt + continuation(tokenizer, prompt, whole[len(prompt_ids) :]) == prompt + rest
    assert continuation(tokenizer, "a ball", tokenizer.encode("of")) == " of"


def test_incomplete_characters_are_shown_at_the_end() -> None:
    tokenizer = train_bpe(["h\u20ac" * 20], size=257)
    ids = tokenizer.encode("h\u20ac")[:-1]
    assert "".join(pieces(tokenizer, "", iter(ids), [])) == tokenizer.decode(ids)


def expecting(tokenizer: Tokenizer, token: int, probability: float) -> LanguageModel:
    """A model that always predicts a token with this probability, and all others equally."""
    task = LanguageModel(
        build_gpt(GPTConfig(dim=4, num_layers=1, num_heads=1, max_length=8), Tokens(tokenizer.vocabulary)), tokenizer
    )
    rest = (1 - probability) / (tokenizer.vocabulary - 1)
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.zero_()
        task.output_bias[token] = math.log(probability / rest)  # type: ignore[index]
    return task


def test_a_text_starts_after_a_context_that_predicts_a_beginning() -> None:
    bpe, character, word = train_bpe([TEXT], size=300), train_character([TEXT]), train_word([TEXT])
    line, letter = character.encode("\n"), character.encode("a")[0]
    assert start_of(expecting(character, letter, 0.99)) == line
    assert start_of(expecting(character, line[0], 0.03)) == 2 * line
    assert start_of(expecting(word, word.end, 0.03)) == 2 * [word.end]
    assert start_of(expecting(bpe, bpe.end, 0.03)) == [bpe.end]
    assert start_of(expecting(bpe, bpe.encode("a")[0], 0.99)) == bpe.encode("\n")


def test_a_text_starts_after_an_end_token_if_there_are_no_newlines() -> None:
    wordpiece, one_line = train_wordpiece([TEXT], size=200), train_character(["abc"])
    assert start_of(expecting(wordpiece, 0, 0.5)) == [wordpiece.end]
    assert start_of(expecting(one_line, 0, 0.5)) != [one_line.unknown]
