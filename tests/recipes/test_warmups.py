"""Recipes give their warm-up as a share of the steps, so that one setting changes the number of steps."""

from pathlib import Path

import pytest

from clew.core.config import build_part
from clew.recipes import RECIPES
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.comparison import group_runs
from clew.runs.folder.summary import summarise
from clew.training.run import check_training
from clew.training.schedules import SCHEDULES, Cosine
from tests.runs.small import lstm_settings

LEDGER = {
    "shakespeare-lstm": (1500, 100),
    "shakespeare-elman": (1500, 100),
    "shakespeare-gru": (1500, 100),
    "shakespeare-gpt": (1200, 100),
    "shakespeare-llama": (1200, 100),
    "shakespeare-gpt-full": (5000, 100),
    "ptb-lstm-small": (30212, 0),
    "ptb-lstm-medium": (51792, 0),
    "ptb-lstm-large": (73040, 0),
    "ptb-awd-lstm": (343000, 0),
    "tatoeba-transformer": (2500, 250),
    "tatoeba-lstm": (1500, 150),
    "multi30k-transformer": (5000, 500),
    "multi30k-lstm": (5000, 500),
    "multi30k-plain": (5000, 500),
    "multi30k-many": (12000, 1200),
    "craft-parser": (3000, 100),
    "craft-parser-full": (1800, 100),
    "wsj-parser": (2500, 500),
    "parse": (3000, 100),
    "sentiment-bag": (1000, 50),
    "sentiment-cnn": (800, 50),
    "sentiment-lstm": (800, 50),
    "sentiment-attention": (800, 50),
    "sst-lstm": (4000, 50),
    "classify": (1500, 50),
    "ewt-tagger": (1000, 100),
    "ewt-tagger-full": (6000, 100),
    "conll-tagger": (5000, 100),
    "tag": (1500, 100),
    "gum-tree-lstm": (600, 0),
    "gum-tree-childsum": (600, 0),
    "sst-tree-lstm": (4104, 0),
    "sst-tree-lstm-binary": (3324, 0),
    "classify-trees": (600, 0),
    "scenes-captioner": (1200, 120),
    "scenes-captioner-full": (4000, 400),
    "scenes-paragraphs": (2000, 200),
    "coco-captioner": (300, 30),
    "flickr8k-captioner": (6000, 600),
    "flickr8k-transformer": (6000, 600),
    "caption": (3000, 300),
    "fashion-mnist": (4000, 400),
    "fashion-mnist-grid": (8000, 800),
    "fashion-mnist-rows": (8000, 800),
    "fashion-mnist-vit": (8000, 800),
    "fashion-mnist-resnet": (8000, 800),
    "classify-pictures": (2000, 200),
    "scenes-cells": (500, 50),
    "label-cells": (2000, 200),
    "digits-speech": (600, 60),
    "fsdd-speech": (3000, 300),
    "transcribe": (2000, 200),
    "lines-ctc": (1200, 120),
    "read-lines": (3000, 300),
    "digits-las": (800, 80),
    "listen": (4000, 400),
    "digits-sounds": (600, 60),
    "classify-sounds": (2000, 200),
    "ewt-graph": (600, 60),
    "label-nodes": (600, 60),
    "scene-regions": (300, 30),
    "scene-figures": (300, 30),
    "classify-graphs": (600, 60),
    "answer": (8200, 820),
    "answer-facts": (400, 50),
    "translate": (3000, 400),
    "translate-base": (100000, 4000),
    "translate-big": (300000, 4000),
    "summarise": (3000, 400),
    "dialogue": (3000, 400),
    "text-to-code": (3000, 400),
    "copy": (300, 50),
    "reverse": (300, 50),
    "sort": (500, 50),
    "addition": (3000, 50),
    "recall": (2000, 50),
    "ewt-elmo": (800, 100),
    "ewt-elmo-full": (1000, 100),
    "text-elmo": (3000, 100),
    "shakespeare-bert": (1500, 200),
    "text-bert": (20000, 1000),
    "bert-small": (50000, 2500),
    "bert-base": (1000000, 10000),
    "bert-large": (1000000, 10000),
    "finetune-classify": (600, 60),
    "finetune-tag": (600, 60),
    "finetune-text": (600, 60),
    "finetune-translate": (5000, 500),
    "glue-sst2": (5685, 568),
    "glue-cola": (723, 72),
    "glue-mrpc": (520, 52),
    "glue-rte": (355, 35),
    "glue-stsb": (486, 48),
    "glue-mnli": (33135, 3313),
    "glue-qqp": (30702, 3070),
    "glue-qnli": (8838, 883),
    "text-lstm": (2000, 100),
    "text-gpt": (2000, 100),
    "text-llama": (2000, 100),
    "gpt2": (600000, 700),
    "gpt2-medium": (600000, 700),
    "llama-1b": (600000, 700),
}
"""The total steps and warm-up steps of every recipe in its published measurements."""


def test_the_ledger_lists_every_recipe() -> None:
    assert set(LEDGER) == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_warmup_steps_of_a_recipe_match_the_ledger(name: str) -> None:
    training = config_of(name).training
    schedule = build_part("schedule", training.schedule, SCHEDULES, training.steps)
    assert (training.steps, schedule.warmup) == LEDGER[name]


@pytest.mark.parametrize("steps", [1, 3, 300])
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_allows_any_number_of_steps(name: str, steps: int) -> None:
    training = config_of(name, [f"training.steps={steps}"]).training
    check_training(training)
    schedule = build_part("schedule", training.schedule, SCHEDULES, training.steps)
    assert all(0 < schedule.factor(step, 0) <= 1 for step in range(steps))


def test_a_run_resumed_with_more_steps_does_not_warm_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = [
        *lstm_settings(tmp_path, steps=4),
        'training.schedule={"name": "cosine", "warmup": 0.5}',
        "training.log_every=1",
    ]
    run_recipe("text-lstm", settings)
    run_recipe("text-lstm", [*settings, "training.steps=8"], resume=True)
    records = summarise(Path("runs/text-lstm")).records
    rates = {record["step"]: record["learning_rate"] for record in records if "learning_rate" in record}
    rate = config_of("text-lstm", settings).training.learning_rate
    short, longer = Cosine(4, warmup=2), Cosine(8, warmup=2)
    expected = [rate * (short if step < 4 else longer).factor(step, 0) for step in range(8)]
    assert [rates[step + 1] for step in range(8)] == pytest.approx(expected)


def test_equal_warmups_in_steps_and_as_a_share_form_one_group(tmp_path: Path) -> None:
    summaries = []
    for seed, warmup in enumerate(("0.25", "1", "2"), 1):
        run_recipe(
            "text-lstm",
            [
                *lstm_settings(tmp_path, steps=4),
                f'training.schedule={{"name": "cosine", "warmup": {warmup}}}',
                f"seed={seed}",
            ],
            out=tmp_path / str(seed),
        )
        summaries.append(summarise(tmp_path / str(seed)))
    groups, notes = group_runs(summaries)
    assert [len(group.runs) for group in groups] == [2, 1] and not notes
