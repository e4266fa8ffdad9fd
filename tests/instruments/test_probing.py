import math
import re
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from clew.core.errors import UserError
from clew.inspection.linear_probes import Fitted
from clew.instruments.probe_view import probing_view
from clew.instruments.probing import Probed, Probing, Row, probe_run, rows_of
from clew.instruments.subjects.probe_corpora import read_probe_corpus
from clew.recipes.resolving import config_of
from clew.runs.build import build_task
from clew.runs.loaded import Run
from clew.sources.words import WordReader
from clew.tasks.uses.level_vectors import encode_parts, sentence_vectors, word_vectors
from clew.text.train import TOKENIZERS
from tests.instruments.small_runs import small_run

SENTENCES = [["the", "ball", "of", "thread"], ["she"], ["naïve", "walls", "were", "tall", "and", "all", "the", "same"]]


@cache
def some_texts() -> list[str]:
    return [" ".join(words) for words in read_probe_corpus("ewt-sample", 200).sentences["train"]]


def untrained(recipe: str, *settings: str) -> Run:
    """An untrained run of a language model over the words of the tagged sample."""
    config = config_of(recipe, ["data.corpus=tinyshakespeare", "device=cpu", *settings])
    vocabularies: dict[str, Any] = {"tokenizer": TOKENIZERS[config.text.tokenizer](some_texts(), size=config.text.size)}
    return Run(Path("runs") / recipe, config, vocabularies, build_task(config, vocabularies).eval())


def words_lstm(*settings: str) -> Run:
    return untrained(
        "text-lstm", "text.tokenizer=word", "model.dim=24", "model.embedding_dim=24", "model.num_layers=2", *settings
    )


def gpt(*settings: str) -> Run:
    small = ["text.size=null", "model.dim=8", "model.num_heads=2", "model.num_layers=5", "model.max_length=24"]
    return untrained("text-gpt", "text.tokenizer=character", *small, *settings)


@pytest.mark.slow
def test_an_uninformative_level_predicts_the_most_frequent_tag() -> None:
    run = words_lstm()
    for parameter in run.task.body.layers.layers[0].parameters():
        torch.nn.init.zeros_(parameter)
    probing = probe_run(run, "ewt-sample", limit=40)
    corpus = probing.corpora[0]
    accuracies = dict(zip((row.name for row in probing.rows), (probe.accuracy for probe in corpus.probes), strict=True))
    assert accuracies["embedding"] > 1.5 * corpus.baselines["most frequent tag"]
    assert accuracies["layer 1"] == pytest.approx(corpus.baselines["most frequent tag"])
    assert accuracies["learned mix"] > accuracies["layer 1"]
    assert corpus.best != 1 and corpus.counts == {
        part: len(labels) for part, labels in read_probe_corpus("ewt-sample", 40).labels.items()
    }


@pytest.mark.slow
def test_an_untrained_run_equals_its_untrained_control() -> None:
    probing = probe_run(words_lstm("model.num_layers=1"), ["sentiment-sample"], limit=30, control=True)
    assert probing.corpora[0].untrained == probing.corpora[0].probes
    lines = repr(probing).splitlines()
    assert lines[0] == "Probing of runs/text-lstm"
    assert lines[1].split() == ["level", "embedding.mix", "sentiment-sample", "l2", "untrained"]
    assert [line.split()[0] for line in lines[2:8]] == ["embedding", "layer", "sum", "all", "learned", "most"]
    assert sum("*" in line for line in lines) == 1
    assert (
        "accuracy in predicting 2 labels of sentences (30 train, 30 valid, 30 test); differences below about 17"
        in lines[-2]
    )
    assert re.fullmatch(r"sentiment-sample: the learned mix is embedding [01]\.\d\d, layer 1 [01]\.\d\d", lines[-1])
    records = list(probing.records())
    assert records[0] | {"l2": 0, "accuracy": 0, "valid_accuracy": 0, "untrained": 0, "best": 0} == {
        "corpus": "sentiment-sample",
        "level": "embedding",
        "mix": "first",
        "accuracy": 0,
        "valid_accuracy": 0,
        "l2": 0,
        "weights": None,
        "untrained": 0,
        "best": 0,
    }
    assert (
        records[-1]["baseline"] == "most frequent label" and [record.get("best") for record in records].count(True) == 1
    )


def test_rows_are_blocks_and_mixes_of_blocks_of_one_width() -> None:
    def rows(run: Run) -> list[tuple[str, str]]:
        return [
            (row.name, row.mix)
            for row in rows_of(run.task.body, WordReader.of(run.task.body, run.vocabularies, running=True))
        ]

    assert rows(gpt()) == [
        ("embedding", "first"),
        ("layer 1", ""),
        ("layer 2", ""),
        ("layer 3", ""),
        ("layer 4", "second_to_last"),
        ("layer 5", "last"),
        ("sum of the layers", "sum"),
        ("sum of all", "sum_with_embedding"),
        ("sum of the last four", "sum_last_four"),
        ("the last four joined", "join_last_four"),
        ("learned mix", "learned"),
    ]
    assert rows(words_lstm("model.embedding_dim=8", "model.num_layers=1")) == [("embedding", ""), ("layer 1", "last")]
    elmo = untrained(
        "text-elmo",
        "model.dim=8",
        "embedding.characters_dim=8",
        "embedding.characters.filters=[4]",
        "embedding.characters.widths=[3]",
    )
    assert [mix for _, mix in rows(elmo)] == [
        "first",
        "second_to_last",
        "last",
        "sum",
        "sum_with_embedding",
        "join_last_four",
        "learned",
    ]


@pytest.mark.parametrize("build", [words_lstm, gpt])
def test_a_word_has_the_same_vectors_alone_and_in_a_batch(build: Any) -> None:
    run = build("model.max_length=64") if build is gpt else build()
    body, reader = run.task.body, WordReader.of(run.task.body, run.vocabularies, running=True)
    together = word_vectors(body, reader, SENTENCES)
    alone = [word_vectors(body, reader, [sentence]) for sentence in SENTENCES]
    for level, parts in zip(together, zip(*alone, strict=True), strict=True):
        assert len(level) == sum(map(len, SENTENCES))
        torch.testing.assert_close(level, torch.cat(parts))
    encoded = reader.encode(SENTENCES[:1])[0]
    with torch.no_grad():
        hidden = body(torch.tensor([encoded.tokens]))[0][0]
    torch.testing.assert_close(together[-1][:4], hidden[[end - 1 for end in encoded.ends]])
    means = sentence_vectors(body, reader, SENTENCES)[0]
    torch.testing.assert_close(means[0], together[0][:4].mean(0))


def test_too_long_sentences_are_read_in_parts_and_words_truncated() -> None:
    run = gpt()
    body, reader = run.task.body, WordReader.of(run.task.body, run.vocabularies)
    long = [["the", "walls", "were", "tall", "and", "x" * 99, "so"]]
    vectors_found = word_vectors(body, reader, long)[-1]
    assert len(vectors_found) == 7
    torch.testing.assert_close(vectors_found[5:6], word_vectors(body, reader, [["x" * 24]])[-1])
    with pytest.raises(
        UserError, match="the model has too few positions to read 'a'; use a run with a larger model.max_length"
    ):
        encode_parts(reader, [["a"]], 0)


def test_only_known_tokens_can_represent_a_word() -> None:
    with pytest.raises(UserError, match="unknown way to take a word's pieces 'fisrt'; did you mean 'first'"):
        probe_run(gpt(), ["ewt-sample"], limit=4, pieces="fisrt")


def test_a_module_has_no_untrained_control() -> None:
    task = small_run("gpt").task
    with pytest.raises(
        UserError,
        match="LanguageModel is a module, and only a run can be rebuilt as it was before training; leave control out",
    ):
        probe_run(task, ["ewt-sample"], limit=4, control=True)


def test_a_corpus_is_words_with_tags_or_sentences_with_labels() -> None:
    tagged = read_probe_corpus("ewt-sample:xpos", 40)
    assert tagged.unit == "words" and "NN" in tagged.names and len(tagged.sentences["test"]) == 40
    assert len(tagged.labels["valid"]) == sum(map(len, tagged.sentences["valid"]))
    assert read_probe_corpus("ewt-sample:xpos", 40) == tagged
    trees = read_probe_corpus("gum-trees-sample", 40)
    assert trees.unit == "sentences" and "decl" in trees.names
    assert not any("(ROOT" in word for words in trees.sentences["train"] for word in words)
    with pytest.raises(UserError, match="unknown corpus 'ewt-sampel'; did you mean 'ewt-sample'?"):
        read_probe_corpus("ewt-sampel", 40)
    with pytest.raises(
        UserError,
        match="a probe predicts tags of words or labels of texts, and tinyshakespeare holds running text; use one of",
    ):
        read_probe_corpus("tinyshakespeare", 40)
    with pytest.raises(UserError, match="unknown kind of tags 'upso'; did you mean 'upos'?"):
        read_probe_corpus("ewt-sample:upso", 40)


def test_a_picture_has_a_panel_per_corpus_and_a_dot_per_row() -> None:
    rows = (
        Row("embedding", "first", (0,)),
        Row("layer 1", "last", (1,)),
        Row("sum of all", "sum_with_embedding", (0, 1)),
    )
    fitted = tuple(Fitted(value, value, 0.1) for value in (50.0, 62.5, 60.0))
    counts = {"train": 9, "valid": 9, "test": 9}
    corpora = tuple(
        Probed(name, "words", counts, 3, fitted, untrained, {"most frequent tag": 40.0})
        for name, untrained in (("a<b", fitted), ("c", ()))
    )
    view = probing_view(Probing("runs/x", rows, corpora))
    picture = ElementTree.fromstring(view.svg())
    texts = [(each.text, each.get("class")) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    panels = ("a<b: 3 labels of words", "c: 3 labels of words", "untrained")
    assert [text for text, _ in texts if text in panels] == [panels[0], "untrained", panels[1]]
    assert texts.count(("62.5", "point-value-best")) == 2 and texts.count(("50.0", "point-value")) == 2
    assert [text for text, _ in texts].count("layer 1") == 2
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}circle"))) == 9
    series = view.parts[0].series  # type: ignore[union-attr]
    assert list(series[0].x) == [0, 1, 2.5, 3] and math.isnan(series[0].y[2]), "a gap between levels and mixes"
