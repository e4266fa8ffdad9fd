"""Sentences of a corpus or of a run's own data, and words as read by different models."""

from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.drawing.views import Lines, Points
from clew.instruments.looking import look
from clew.instruments.subjects.sentences import find_sentences, level_names, level_words
from clew.runs.loaded import load_run
from tests.instruments.small_runs import small_run
from tests.runs.pretrained import save_pretrained
from tests.runs.small import write_text

SENTENCES = [["the", "red", "fox", "is", "good"], ["a", "owl"], ["the", "unheard-of", "dog"]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("runs")
    return {
        kind: load_run(save_pretrained(folder / kind, kind), device="cpu")
        for kind in ("bert", "gpt", "recurrent", "elmo")
    }


@pytest.mark.parametrize("kind", ["bert", "gpt", "recurrent", "elmo"])
def test_every_word_has_a_vector_at_every_level_with_any_tokens(runs, kind):
    levels = level_words(runs[kind], SENTENCES)
    assert (
        len(levels) == 3
        and all(len(level) == 10 for level in levels)
        and level_names(levels) == ["embedding", "layer 1", "layer 2"]
    )
    alone = level_words(runs[kind], SENTENCES[1:2])
    np.testing.assert_allclose(levels[2][5:7], alone[2], atol=1e-5)


def test_a_corpus_gives_the_same_distinct_sentences_each_time(runs):
    sentences = find_sentences(runs["gpt"], "ewt-sample", 30)
    assert sentences == find_sentences(runs["gpt"], "ewt-sample", 30)
    assert len({tuple(words) for words in sentences}) == 30 and all(len(words) > 1 for words in sentences)


def test_own_sentences_are_from_the_validation_part(runs, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    write_text(tmp_path, "".join(f"line number {row} of it\n" for row in range(50)), "text.txt")
    sentences = find_sentences(runs["gpt"], "own", 100)
    assert ["line", "number", "49", "of", "it"] in sentences and ["line", "number", "0", "of", "it"] not in sentences


def test_unknown_corpora_are_rejected(runs):
    with pytest.raises(UserError, match="unknown corpus 'ewt-simple'"):
        find_sentences(runs["gpt"], "ewt-simple", 3)


def test_contextuality_of_several_runs_is_shown_in_one_view(runs):
    view = look([runs["bert"], runs["recurrent"]], "contextuality", {"sentences": 60, "least": 3})
    assert set(view.facts["runs"]) == {"bert", "recurrent"}
    embedding = view.facts["runs"]["recurrent"][0]
    assert embedding["self_similarity"] == pytest.approx(1, abs=1e-6)  # a table has one vector per word
    assert embedding["adjusted_self_similarity"] == pytest.approx(1 - embedding["anisotropy"], abs=1e-6)
    assert "<svg" in view.html()


def test_a_layer_above_the_last_is_rejected(runs):
    with pytest.raises(UserError, match="there is no layer 9; .*bert has 2, and 0 is the embedding"):
        look(runs["bert"], "contextuality", {"sentences": 60, "least": 3, "layer": 9})


def test_cones_and_maps_of_words_of_two_runs_have_one_scale(runs):
    view = look([runs["bert"], runs["recurrent"]], "contextuality", {"sentences": 60, "least": 3})
    one, other = (part for part in view.parts if isinstance(part, Points))
    assert one.x_range == other.x_range and one.y_range == other.y_range and one.x_range is not None
    one, other = (part for part in view.parts if isinstance(part, Lines) and part.title.endswith("cosines by layer"))
    assert one.y_range == other.y_range and one.y_range is not None
    maps = look([runs["bert"], runs["recurrent"]], "occurrences", {"word": "the", "most": 12, "layer": 1})
    one, other = (part for part in maps.parts if isinstance(part, Points))
    assert one.x_range == other.x_range and one.y_range == other.y_range and one.x_range is not None
    assert "the components hold " in one.title


def test_occurrences_of_a_word_are_shown_in_their_sentences(runs):
    view = look(runs["gpt"], "occurrences", {"word": "The", "most": 12, "layer": 1})
    (points,) = view.parts
    assert len(points.texts[0]) == 12 and all("[the]" in text.lower() for text in points.texts[0])
    for word, sentence in (
        ("", "occurrences needs one word, such as word=bank, not"),
        ("zyzzyva", "in 0 sentences of .*, but at least two are needed; choose another word or corpus"),
        ("a b", "occurrences needs one word, such as word=bank, not"),
    ):
        with pytest.raises(UserError, match=sentence):
            look(runs["gpt"], "occurrences", {"word": word})
    with pytest.raises(UserError, match="no layer 7"):
        look(runs["gpt"], "occurrences", {"word": "the", "layer": 7})


def test_layers_of_two_models_are_compared_word_by_word(runs):
    same = look([runs["bert"]], "cka", {"sentences": 20})
    np.testing.assert_allclose(np.diag(same.facts["cka"]), 1)
    second_view = look([runs["bert"], runs["elmo"]], "cka", {"sentences": 20})
    assert (
        np.shape(second_view.facts["cka"]) == (3, 3)
        and 0 <= np.min(second_view.facts["cka"]) <= np.max(second_view.facts["cka"]) < 1
    )
    with pytest.raises(
        UserError, match="layers are compared within one run or between two runs, not 3; name one or two"
    ):
        look([runs["bert"], runs["gpt"], runs["elmo"]], "cka", {"sentences": 20})


def test_a_corpus_of_one_sentence_is_refused(runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_text(tmp_path, "the red fox\nowl\nowl\nowl\n", "text.txt")
    with pytest.raises(
        UserError,
        match="corpus=own has . sentences of two words or more, but two are needed; name another corpus",
    ):
        look(runs["gpt"], "cka", {"corpus": "own"})


def test_heads_are_compared_by_their_attention(runs):
    view = look(runs["gpt"], "heads", {"text": "the red fox is good"})
    facts = view.facts["self-attention"]
    assert facts["heads"] == ["1.1", "1.2", "2.1", "2.2"]
    divergence = np.array(facts["divergence"])
    np.testing.assert_allclose(divergence, divergence.T)
    assert (np.diag(divergence) == 0).all() and 0 < divergence.max() < np.log(2)
    without = look(runs["gpt"], "heads", {"text": "the red fox is good", "off": ["1.2"]}).facts["self-attention"]
    assert without["heads"] == ["1.1", "2.1", "2.2"]
    np.testing.assert_allclose(np.array(without["divergence"])[0, 0], 0)
    assert without["divergence"][1][2] != pytest.approx(divergence[2, 3], rel=1e-6)  # the heads above attend elsewhere
    with pytest.raises(UserError, match="fewer than two heads of each kind are left to compare; switch fewer off"):
        look(runs["gpt"], "heads", {"text": "the red fox", "off": ["1.1", "1.2", "2.1"]})
    with pytest.raises(UserError, match="no two attention heads"):
        look(runs["recurrent"], "heads", {})


@pytest.mark.parametrize(
    ("name", "options"), [("contextuality", {"least": 2}), ("cka", {}), ("occurrences", {"word": "the"})]
)
def test_heads_are_also_switched_off_when_sentences_are_read(runs, name, options):
    whole, without = (look(runs["bert"], name, {"sentences": 40, **options, "off": off}) for off in ("", "1.1,2.2"))
    assert str(whole.facts) != str(without.facts)
    with pytest.raises(UserError, match="no attention, and so no head '1.1'"):
        look(runs["recurrent"], name, {**options, "off": "1.1"})


def test_heads_are_compared_on_sentences_that_fit_into_the_positions() -> None:
    run = small_run("gpt")  # reads characters and has 32 positions
    view = look(run, "heads", {"corpus": "ewt-sample", "sentences": 5})
    assert view.about == "mean over the places of 5 sentences of ewt-sample"


def test_without_a_sentence_that_fits_an_error_is_raised() -> None:
    with pytest.raises(
        UserError,
        match=r"no sentence of tinyshakespeare fits into the model's positions; pass a short text with text=...",
    ):
        look(small_run("gpt"), "heads", {"corpus": "tinyshakespeare", "sentences": 1})
