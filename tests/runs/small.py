"""Texts and pairs of a few lines, and settings that train on them in a fraction of a second."""

from itertools import product
from pathlib import Path

TEXT = (
    "the ball of thread was small and red.\n"
    "she tied one end to the door and went in.\n"
    "the walls were tall and all the turns were the same.\n"
    "when she had found him they followed the thread out again.\n"
) * 6

LSTM = [
    "model.dim=16",
    "model.embedding_dim=8",
    "training.batch_size=4",
    "training.length=16",
    "training.schedule=constant",
    "training.evaluate_every=4",
    "training.log_every=1",
    "device=cpu",
]
GPT = [
    "text.tokenizer=character",
    "text.size=null",
    "model.dim=16",
    "model.num_layers=1",
    "model.num_heads=2",
    "model.max_length=32",
    "training.batch_size=4",
    "training.length=16",
    "training.schedule=constant",
    "training.evaluate_every=4",
    "device=cpu",
]
BERT = [
    "text.size=null",
    "model.dim=16",
    "model.num_layers=1",
    "model.num_heads=2",
    "model.max_length=32",
    "data.valid_fraction=0.3",
    "training.batch_size=4",
    "training.batch_tokens=null",
    "training.length=24",
    "training.schedule=constant",
    "training.evaluate_every=4",
    "training.log_every=1",
    "device=cpu",
]


def write_text(folder: Path, text: str = TEXT, name: str = "story.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def lstm_settings(folder: Path, steps: int = 6) -> list[str]:
    return [f"data.train={write_text(folder)}", *LSTM, f"training.steps={steps}"]


def gpt_settings(folder: Path, steps: int = 6) -> list[str]:
    return [f"data.train={write_text(folder)}", *GPT, f"training.steps={steps}"]


def bert_settings(folder: Path, steps: int = 6) -> list[str]:
    """Settings that train a BERT on twelve documents of two sentences each."""
    text = TEXT.replace("in.\n", "in.\n\n").replace("again.\n", "again.\n\n")
    return [f"data.train={write_text(folder, text, 'stories.txt')}", *BERT, f"training.steps={steps}"]


PAIRS = [
    f"{a} {b} {c}\t{c} {b} {a}"
    for a, b, c in product(["red", "blue"], ["big", "old", "new"], ["fox", "owl", "cat", "dog"])
]
REVERSER = [
    "data.corpus=null",
    "data.source=null",
    "data.target=null",
    "data.valid_fraction=0.2",
    "data.test_fraction=0.2",
    "text.tokenizer=word",
    "text.size=null",
    "model.dim=16",
    "model.dropout=0",
    "training.steps=40",
    "training.batch_size=4",
    "training.batch_tokens=null",
    "training.learning_rate=0.01",
    "training.schedule=constant",
    "training.evaluate_every=20",
    "decoding.max_new=8",
    "decoding.beams=2",
    "device=cpu",
]


def pair_settings(folder: Path) -> list[str]:
    return [f"data.train={write_text(folder, chr(10).join(PAIRS), 'pairs.tsv')}", *REVERSER]


def save_many_languages(folder: Path) -> None:
    """An untrained run that translates between German, English and French."""
    from clew.data.examples import Pair
    from clew.recipes.resolving import config_of
    from clew.runs.build import build_task, train_side
    from clew.runs.directory import write_config, write_weights
    from clew.runs.folder.run_files import WEIGHTS
    from clew.runs.folder.vocabularies import save_vocabularies
    from clew.tasks.shared.sequence import train_sequence_vocabularies

    words = {"de": "ein roter Fuchs", "en": "a red fox", "fr": "un renard roux"}
    pairs = [Pair(words[a], words[b], f"{a}-{b}", b) for a in words for b in words if a != b]
    config = config_of("tatoeba-lstm", [*REVERSER, "data.train=pairs.tsv"])
    vocabularies = train_sequence_vocabularies(
        lambda texts, more: train_side(config.text, texts, more), True, pairs, config.task
    )  # type: ignore[arg-type]
    folder.mkdir()
    save_vocabularies(folder, vocabularies)
    write_weights(folder / WEIGHTS, build_task(config, vocabularies).state_dict())
    write_config(folder, config)
