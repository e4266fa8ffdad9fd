from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.data.examples import Pair
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.shared.sequence import SequenceConfig, SequenceToSequence, train_sequence_vocabularies
from clew.tasks.translation import align, score_pairs, translate, translate_through
from clew.tasks.uses.writing import DecodingConfig
from clew.text.train import train_bpe, train_word
from tests.crossing import crossed
from tests.models.translators import WAYS
from tests.tasks.sequences import PAIRS, sequence_task, sharp

BEAM = DecodingConfig(method="beam", beams=4, n_best=3, max_new=9)
SOURCES = [Pair(pair.source, "") for pair in PAIRS]
TWO = ["luong", "transformer"]


def writer(way: str, **options: Any) -> SequenceToSequence:
    return sharp(sequence_task(way, config=SequenceConfig(tied=False), **options))


def texts(results: list) -> list[list[str]]:
    return [[one.text for one in translations] for translations in results]


def log_probs(results: list) -> torch.Tensor:
    return torch.tensor([one.log_prob for translations in results for one in translations])


@pytest.mark.parametrize(("way", "budget"), crossed(TWO, [1, 30, 4096]))
def test_results_are_in_the_given_order_for_any_batches(way: str, budget: int) -> None:
    task = writer(way)
    results = translate([task], SOURCES, BEAM, batch_tokens=budget)
    alone = [translate([task], [source], BEAM)[0] for source in SOURCES]
    assert [translations[0].source for translations in results] == [source.source for source in SOURCES]
    assert texts(results) == texts(alone)
    torch.testing.assert_close(log_probs(results), log_probs(alone))


@pytest.mark.parametrize("way", TWO)
def test_hypotheses_are_sorted_with_their_own_log_probability(way: str) -> None:
    task = writer(way)
    for source, translations in zip(SOURCES, translate([task], SOURCES, BEAM), strict=True):
        assert len(translations) == 3
        assert [one.score for one in translations] == sorted((one.score for one in translations), reverse=True)
        for one in translations:
            if len(one.tokens) < BEAM.max_new:  # it ended
                [scored] = score_pairs([task], [Pair(source.source, one.text)])
                assert scored.log_prob == pytest.approx(one.log_prob, abs=1e-9)
                assert len(scored.log_probs) == len(one.tokens) + 1 == len(scored.tokens)


@pytest.mark.parametrize("way", TWO)
def test_an_ensemble_of_a_model_with_itself_equals_the_model(way: str) -> None:
    task = writer(way)
    alone, together = translate([task], SOURCES, BEAM), translate([task, task], SOURCES, BEAM)
    assert texts(alone) == texts(together)
    torch.testing.assert_close(log_probs(alone), log_probs(together))


def test_the_order_of_an_ensemble_does_not_matter_and_it_differs_from_both_models() -> None:
    first, second = writer("luong"), writer("transformer")
    forward, backward = translate([first, second], SOURCES, BEAM), translate([second, first], SOURCES, BEAM)
    assert texts(forward) == texts(backward)
    assert texts(forward) not in (texts(translate([first], SOURCES, BEAM)), texts(translate([second], SOURCES, BEAM)))
    pairs = [Pair(pair.source, translations[0].text) for pair, translations in zip(SOURCES, forward, strict=True)]
    together = [scored.log_prob for scored in score_pairs([first, second], pairs)]
    apart = [[scored.log_prob for scored in score_pairs([task], pairs)] for task in (first, second)]
    assert together == pytest.approx([(a + b) / 2 for a, b in zip(*apart, strict=True)])
    ended = [len(translations[0].tokens) < BEAM.max_new for translations in forward]
    assert [value for value, done in zip(together, ended, strict=True) if done] == pytest.approx(
        [translations[0].log_prob for translations, done in zip(forward, ended, strict=True) if done]
    )


def test_blank_sources_have_blank_targets_and_do_not_affect_others() -> None:
    task = writer("luong")
    blanks = [Pair("", ""), *SOURCES[:2], Pair("  \t", "")]
    results = translate([task], blanks, BEAM, with_attention=True)
    assert [results[0][0].text, results[3][0].text] == ["", ""] and results[0][0].attention is None
    assert texts(results)[1:3] == texts(translate([task], SOURCES[:2], BEAM))
    assert texts(translate([task], [Pair("", "")], BEAM)) == [[""]]
    assert translate([task], [], BEAM) == []


def test_samples_depend_on_the_number_of_the_line() -> None:
    task = writer("luong")
    sample = DecodingConfig(method="sample", max_new=8)
    many = translate([task], SOURCES, sample, seed=3)
    alone = [translate([task], [source], sample, seed=3, numbers=[n])[0] for n, source in enumerate(SOURCES, start=1)]
    assert texts(alone) == texts(many)
    assert texts(translate([task], SOURCES, sample, seed=4)) != texts(many)
    same = texts(translate([task], [SOURCES[0]] * 6, sample, seed=3))
    assert len({text for [text] in same}) > 1


@pytest.mark.parametrize("way", ["luong", "transformer", "hard", "convolutional"])
def test_attention_has_a_row_per_target_word_and_a_column_per_source_word(way: str) -> None:
    task = writer(way)
    for source, [best] in zip(
        SOURCES,
        translate([task], SOURCES, DecodingConfig(method="greedy", max_new=9), with_attention=True),
        strict=True,
    ):
        assert best.attention is not None
        assert best.attention.source.words == [*source.source.split(), "<eos>"]
        assert best.attention.target.texts[-1] == "<eos>" and " ".join(best.attention.target.texts[:-1]) == best.text
        assert best.attention.weights.shape == (len(best.tokens) + 1, len(source.source.split()) + 1)
        torch.testing.assert_close(
            best.attention.by_word().sum(1), torch.ones(len(best.attention.target.words)).double()
        )


def test_an_ensembles_attention_is_the_mean_of_its_models() -> None:
    tasks = [writer("luong"), writer("bahdanau")]
    together, *apart = (align(some, PAIRS) for some in (tasks, tasks[:1], tasks[1:]))
    for mean, first, second in zip(together, *apart, strict=True):
        torch.testing.assert_close(mean.weights, (first.weights + second.weights) / 2)


def test_an_unknown_word_is_replaced_by_the_most_attended_source_word() -> None:
    task = writer("luong")
    assert task.output_bias is not None and task.target.unknown is not None
    with torch.no_grad():
        task.output_bias[task.target.unknown] = 20.0
    greedy = DecodingConfig(method="greedy", max_new=4)
    sources = [Pair("zebra a okapi b", ""), Pair("quagga", "")]
    plain = translate([task], sources, greedy, with_attention=True)
    replaced = translate([task], sources, greedy, replace_unknown=True)
    assert "<unk>" in plain[0][0].text and plain[1][0].text == "<unk> <unk> <unk> <unk>"
    assert replaced[1][0].text == "quagga quagga quagga quagga" and replaced[1][0].attention is None
    attention = plain[0][0].attention
    assert attention is not None
    words = sources[0].source.split()
    expected = [
        words[int(row[:-1].argmax())] if token == task.target.unknown else task.target.token(token)
        for token, row in zip(plain[0][0].tokens, attention.weights, strict=False)
    ]
    assert replaced[0][0].text.split() == expected


def test_only_models_of_words_can_replace_unknown_words() -> None:
    task = many_languages(train_bpe)
    with pytest.raises(
        UserError,
        match=r"writes subwords, and none of them is unknown; replace_unknown needs a run with text\.tokenizer=word",
    ):
        translate([task], [Pair("ein Hund", "", into="en")], BEAM, replace_unknown=True)


def many_languages(train: Any) -> SequenceToSequence:
    pairs = [
        Pair("ein Hund", "a dog", into="en"),
        Pair("ein Hund", "un chien", into="fr"),
        Pair("a dog", "ein Hund", into="de"),
    ]
    vocabularies = train_sequence_vocabularies(
        lambda texts, specials: train(texts, specials=specials), True, pairs, None
    )  # type: ignore[arg-type]
    torch.manual_seed(2)
    family = MODELS["seq2seq"]
    body = family.build(
        family.config(**{**WAYS["luong"], "init_scale": 1.0}),
        Tokens(vocabularies["target"].vocabulary),
        Tokens(vocabularies["source"].vocabulary),
    )
    return SequenceToSequence(body, vocabularies["source"], vocabularies["target"]).double().eval()


def test_the_requested_language_is_read_and_shown() -> None:
    task = many_languages(train_word)
    results = {
        into: translate([task], [Pair("ein Hund", "", into=into)], BEAM, with_attention=True)[0]
        for into in ("de", "en", "fr")
    }
    assert len({translations[0].log_prob for translations in results.values()}) == 3
    assert results["fr"][0].attention.source.words == ["<2fr>", "ein", "Hund", "<eos>"]  # type: ignore[union-attr]
    for into, sentence in (
        ("", r"translates into de, en, fr; choose one with into=..."),
        ("cs", "not trained to write 'cs'; it translates into de, en, fr"),
    ):
        with pytest.raises(UserError, match=sentence):
            translate([task], [Pair("ein Hund", "", into=into)], BEAM)


def test_pivoting_chains_two_translations() -> None:
    task = many_languages(train_word)
    examples = [Pair("ein Hund", "", into="fr"), Pair("Hund", "", into="de")]
    results, between = translate_through([task], examples, BEAM, "en")
    assert between == [translate([task], [example._replace(into="en")], BEAM)[0][0].text for example in examples]
    onward = [Pair(text, "", into=example.into) for example, text in zip(examples, between, strict=True)]
    assert results == [translations[0].text for translations in translate([task], onward, BEAM)]


def test_a_line_too_long_for_the_model_is_named() -> None:
    task = writer("lstm-under-attention", max_length=6)
    with pytest.raises(UserError, match="line 12: the source has 9 tokens, but the model has only 6 positions"):
        translate(
            [writer("transformer", position="learned", max_length=6)],
            [Pair("a", ""), Pair("a " * 8, "")],
            BEAM,
            numbers=[11, 12],
        )
    with pytest.raises(UserError, match="line 1: the target has 8 tokens"):
        score_pairs([task], [Pair("a", "A " * 7)])
    with pytest.raises(UserError, match=r"character 3 of the text in line 2 \(U\+D800\) is half a character"):
        translate([task], [Pair("a", ""), Pair("a \ud800", "")], BEAM)
    with pytest.raises(UserError, match=r"batch_tokens \(0\) must be at least 1"):
        translate([task], SOURCES[:1], BEAM, batch_tokens=0)


def test_translating_restores_training_mode() -> None:
    task = sequence_task("luong", dropout=0.5)
    assert task.training
    first, second = (texts(translate([task], SOURCES, BEAM)) for _ in range(2))
    assert first == second and task.training
    with pytest.raises(UserError):
        translate([task], [Pair("a", "", into="xx")], BEAM)
    assert task.training
