from pathlib import Path

import pytest
import torch

from clew.tour.texts import ids_of, windows
from clew.tour.training import generator, language_run, parameters_of, train_recipe, train_task
from tests.runs.small import lstm_settings

MODEL = {"family": "recurrent", "cell": "gru", "dim": 12}


def trained(seed: int) -> tuple[list[float], torch.Tensor]:
    run = language_run("ab", MODEL, seed=seed)
    ids = ids_of(run, "ab" * 40)
    losses = train_task(run.task, lambda step: windows(ids, 4, 8, seed, step), steps=25, seed=seed, learning_rate=0.03)
    return losses, torch.cat([parameter.detach().flatten() for parameter in run.task.parameters()])


def test_training_learns_and_is_determined_by_the_seed() -> None:
    (losses, weights), (again, same), (_, other) = trained(0), trained(0), trained(1)
    assert losses[-1] < 0.1 < losses[0] and len(losses) == 25
    assert losses == again and torch.equal(weights, same) and not torch.equal(weights, other)


def test_a_model_of_words_reads_words() -> None:
    run = language_run(["France", "French", "and"], MODEL, seed=0)
    assert [run.tokenizer.token(id) for id in run.tokenizer.encode("and France")] == ["and", "France"]
    assert parameters_of(run.task) == sum(p.numel() for p in run.task.parameters()) > 0


def test_draws_depend_on_every_number() -> None:
    draws = {
        tuple(torch.randint(1000, (4,), generator=generator(*seed)).tolist())
        for seed in ((0,), (1,), (0, 1), (1, 0), (2, 0, 1))
    }
    assert len(draws) == 5


def test_windows_are_pieces_of_the_text_with_the_next_tokens_as_targets() -> None:
    batch = windows(torch.arange(50), 6, 7, 3)
    assert torch.equal(batch.targets, batch.tokens + 1)
    assert torch.equal(batch.tokens, batch.tokens[:, :1] + torch.arange(7))


def test_a_finished_recipe_is_loaded_and_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    lines: list[str] = []
    settings = lstm_settings(tmp_path, steps=4)
    run, scores = train_recipe("text-lstm", settings, name="small", report=lines.append, folder=tmp_path / "run")
    assert any(line.startswith("small: step 4, validation") for line in lines) and scores["valid.loss"] > 0
    lines.clear()
    again, same = train_recipe("text-lstm", settings, name="small", report=lines.append, folder=tmp_path / "run")
    assert not lines and same == scores
    assert all(
        torch.equal(one, other) for one, other in zip(run.task.parameters(), again.task.parameters(), strict=True)
    )
