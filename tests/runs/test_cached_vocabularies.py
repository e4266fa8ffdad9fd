"""Cached tokenizers are reused for the same text and settings, and trained anew for any other."""

import pytest

from clew.data.files import measures
from clew.recipes.resolving import config_of
from clew.runs import tokenizers
from clew.runs.cached_vocabularies import cached_vocabularies
from clew.training.problems import prepare_problem

SMALL = [
    "text.tokenizer=bpe",
    "text.size=300",
    "model.dim=8",
    "model.num_heads=2",
    "model.num_layers=1",
    "training.length=8",
    "training.batch_size=2",
    "device=cpu",
]


@pytest.fixture
def training_calls(monkeypatch, tmp_path):
    """A list that receives the text settings of every tokenizer that is trained."""
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measures, "WORTH_KEEPING", 1000)
    calls = []
    train = tokenizers.train_tokenizer
    monkeypatch.setattr(tokenizers, "train_tokenizer", lambda text, *rest: calls.append(text) or train(text, *rest))
    return calls


def hash_of(path, *settings):
    by_role = prepare_problem(config_of("text-gpt", [f"data.train={path}", *SMALL, *settings])).vocabularies
    return by_role["tokenizer"].hash


def write_text(path, lines=400):
    path.write_text(
        "".join(f"line {number} of a text about {number * 7919}\n" for number in range(lines)), encoding="utf-8"
    )
    return path


def test_a_second_run_on_the_same_text_trains_no_tokenizer(tmp_path, training_calls):
    path = write_text(tmp_path / "text.txt")
    assert hash_of(path) == hash_of(path)
    assert hash_of(write_text(tmp_path / "copy.txt")) == hash_of(path)
    assert len(training_calls) == 1


def test_another_text_or_setting_needs_its_own_tokenizer(tmp_path, training_calls):
    path = write_text(tmp_path / "text.txt")
    assert len({hash_of(path), hash_of(path, "text.size=310"), hash_of(write_text(tmp_path / "more.txt", 500))}) == 3
    assert len(training_calls) == 3


def test_the_tokenizer_of_a_small_text_is_not_cached(tmp_path, training_calls):
    path = write_text(tmp_path / "text.txt", 20)
    assert hash_of(path) == hash_of(path)
    assert len(training_calls) == 2
    assert not list((tmp_path / "cache").glob("*.vocabularies"))


@pytest.mark.parametrize("damage", [lambda text: text[:-10], lambda text: text.replace("0", "1", 1), lambda text: "[]"])
def test_a_damaged_tokenizer_is_trained_again(tmp_path, training_calls, damage):
    path = write_text(tmp_path / "text.txt")
    first = hash_of(path)
    (cached,) = (tmp_path / "cache").glob("*.vocabularies")
    cached.write_text(damage(cached.read_text(encoding="utf-8")), encoding="utf-8")
    assert hash_of(path) == first
    assert len(training_calls) == 2


def test_a_run_with_the_tokenizer_of_another_caches_none(tmp_path, training_calls):
    config = config_of("text-gpt", SMALL)
    transferred = config.model_copy(update={"transfer": config.transfer.model_copy(update={"source": "elsewhere"})})
    for _ in range(2):
        cached_vocabularies(
            transferred,
            "a text",
            lambda: {"tokenizer": tokenizers.train_tokenizer(config.text, ["a text to train on"])},
        )
    assert len(training_calls) == 2
    assert not list((tmp_path / "cache").glob("*.vocabularies"))
