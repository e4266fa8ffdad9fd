"""Tokenizers in the cache: found again for the same text and settings, and trained anew for any other."""

import pytest

from clew.data.files import measures
from clew.recipes.resolving import config_of
from clew.runs import tokenizers
from clew.runs.kept_vocabularies import kept_vocabularies
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
def trained(monkeypatch, tmp_path):
    """The settings of the text for every tokenizer that was trained."""
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(measures, "WORTH_KEEPING", 1000)
    asked = []
    train = tokenizers.train_tokenizer
    monkeypatch.setattr(tokenizers, "train_tokenizer", lambda text, *rest: asked.append(text) or train(text, *rest))
    return asked


def hash_of(path, *settings):
    found = prepare_problem(config_of("text-gpt", [f"data.train={path}", *SMALL, *settings])).vocabularies
    return found["tokenizer"].hash


def write_text(path, lines=400):
    path.write_text(
        "".join(f"line {number} of a text about {number * 7919}\n" for number in range(lines)), encoding="utf-8"
    )
    return path


def test_a_second_run_on_the_same_text_trains_no_tokenizer(tmp_path, trained):
    path = write_text(tmp_path / "text.txt")
    assert hash_of(path) == hash_of(path)
    assert hash_of(write_text(tmp_path / "copy.txt")) == hash_of(path)
    assert len(trained) == 1


def test_another_text_or_setting_has_a_tokenizer_of_its_own(tmp_path, trained):
    path = write_text(tmp_path / "text.txt")
    assert len({hash_of(path), hash_of(path, "text.size=310"), hash_of(write_text(tmp_path / "more.txt", 500))}) == 3
    assert len(trained) == 3


def test_a_small_text_leaves_no_tokenizer_behind(tmp_path, trained):
    path = write_text(tmp_path / "text.txt", 20)
    assert hash_of(path) == hash_of(path)
    assert len(trained) == 2
    assert not list((tmp_path / "cache").glob("*.vocabularies"))


@pytest.mark.parametrize("damage", [lambda text: text[:-10], lambda text: text.replace("0", "1", 1), lambda text: "[]"])
def test_a_damaged_file_is_trained_again(tmp_path, trained, damage):
    path = write_text(tmp_path / "text.txt")
    first = hash_of(path)
    (kept,) = (tmp_path / "cache").glob("*.vocabularies")
    kept.write_text(damage(kept.read_text(encoding="utf-8")), encoding="utf-8")
    assert hash_of(path) == first
    assert len(trained) == 2


def test_a_run_that_takes_over_a_tokenizer_keeps_none(tmp_path, trained):
    config = config_of("text-gpt", SMALL)
    taken = config.model_copy(update={"transfer": config.transfer.model_copy(update={"source": "elsewhere"})})
    for _ in range(2):
        kept_vocabularies(
            taken, "a text", lambda: {"tokenizer": tokenizers.train_tokenizer(config.text, ["a text to train on"])}
        )
    assert len(trained) == 2
    assert not list((tmp_path / "cache").glob("*.vocabularies"))
