from pathlib import Path

import pytest
import torch

from clew.data.caching.encoded import encode_corpus
from clew.data.files.text_files import TextString
from clew.runs.config import TrainingConfig
from clew.tasks.learnings.streams import evaluate
from tests.thread.models import gpt, lstm

SHORT = "is it a clew or a clue\nof the maze\n"


@pytest.mark.parametrize("streams", [1, 3, 5])
def test_streams_score_every_token_except_the_first_once(tmp_path: Path, streams: int) -> None:
    """One stream reads the whole text before each token; several read only their own part of it."""
    task = lstm().double()
    text = encode_corpus(TextString(SHORT), task.tokenizer, tmp_path)
    score = evaluate(task, text, TrainingConfig(batching="streams", length=4, batch_size=2, evaluate_batch=streams))
    ids = torch.tensor(task.encode(SHORT))
    sizes = [len(part) for part in torch.arange(len(ids) - 1).tensor_split(streams)]
    total, start = 0.0, 0
    for size in sizes:
        hidden, _ = task.body(ids[None, start : start + size])
        total -= task.logits(hidden)[0].log_softmax(-1).gather(1, ids[start + 1 : start + size + 1, None]).sum().item()
        start += size
    assert score.nats == pytest.approx(total, rel=1e-12)
    assert (score.tokens, score.characters) == (len(SHORT) - 1, len(SHORT) - 1)


def test_windows_are_scored_independently(tmp_path: Path) -> None:
    task = gpt().double()
    text = encode_corpus(TextString(SHORT), task.tokenizer, tmp_path)
    score = evaluate(task, text, TrainingConfig(batching="windows", length=8, batch_size=3))
    ids = torch.tensor(task.encode(SHORT))
    total = 0.0
    for start in range(0, len(ids) - 1, 8):
        stop = min(start + 8, len(ids) - 1)
        hidden, _ = task.body(ids[None, start:stop])
        total -= task.logits(hidden)[0].log_softmax(-1).gather(1, ids[start + 1 : stop + 1, None]).sum().item()
    assert score.nats == pytest.approx(total, rel=1e-12)
    assert score.tokens == len(SHORT) - 1


def test_evaluation_disables_dropout_and_restores_training_mode(tmp_path: Path) -> None:
    task = lstm(dropout=0.5)
    task.train()
    text = encode_corpus(TextString(SHORT), task.tokenizer, tmp_path)
    settings = TrainingConfig(batching="streams", length=8, batch_size=2)
    assert evaluate(task, text, settings) == evaluate(task, text, settings)
    assert task.training


def test_an_interrupted_evaluation_returns_none(tmp_path: Path) -> None:
    task = lstm()
    text = encode_corpus(TextString("\n".join(SHORT for _ in range(9))), task.tokenizer, tmp_path)
    answers = iter([False, False, True])
    settings = TrainingConfig(batching="streams", length=8, batch_size=2)
    assert evaluate(task, text, settings, interrupted=lambda: next(answers)) is None
    assert list(answers) == []
