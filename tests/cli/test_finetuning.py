import json
from pathlib import Path

import pytest

from tests.cli.conftest import Clew
from tests.runs.pretrained import TINY, labelled_file, save_pretrained


@pytest.fixture
def adapted(clew: Clew, tmp_path: Path) -> Path:
    """A run with an adapter; its base run, a tiny BERT, is in `bert`."""
    save_pretrained(tmp_path / "bert")
    result = clew(
        "train",
        "finetune-classify",
        "transfer.from=bert",
        "transfer.adapter=lora",
        *labelled_file(tmp_path),
        *TINY,
        "--out",
        "runs/small",
    )
    assert result.status == 0
    assert "bert: starts with 39 of its tensors" in result.err and "; new: adapters, output" in result.err
    assert "training.learning_rate=0.01 may undo" not in result.err  # such a learning rate is usual with adapters
    return tmp_path / "runs/small"


def test_an_adapter_is_described_listed_used_and_merged(clew: Clew, adapted: Path) -> None:
    assert "LowRank" in clew("describe", adapted).out
    assert "transfer.adapter=lora" in clew("runs").out and "model.dim" not in clew("runs").out
    label, *_ = clew("classify", adapted, stdin="the red fox is good\n").out.split("\t")
    merged = clew("merge", adapted, "--out", "whole")
    assert (merged.status, merged.out) == (0, "") and merged.err.endswith("parameters to whole\n")
    (adapted.parent.parent / "bert").rename("gone")
    assert clew("classify", "whole", stdin="the red fox is good\n").out.startswith(label)
    without_base = clew("classify", adapted, stdin="the red fox is good\n")
    assert without_base.status == 2 and "is an adapter on bert, which does not exist; set CLEW_BASE" in without_base.err
    assert clew("average", adapted, "whole", "--out", "mean").err.startswith(
        f"clew: {adapted} is an adapter on bert and has no full weights"
    )


def test_a_fine_tuning_recipe_is_described_with_the_tokenizer_of_its_run(clew: Clew, tmp_path: Path) -> None:
    save_pretrained(tmp_path / "gpt", "gpt")
    Path("other.txt").write_text("quite other words\n" * 20, encoding="utf-8")
    result = clew("describe", "finetune-text", "transfer.from=gpt", "data.train=other.txt", "--json")
    table = next(row for row in map(json.loads, result.out.splitlines()) if row["path"] == "body.embedding.tokens")
    assert table["shapes"]["weight"] == [16, 8]  # the vocabulary of the run, not of the text


def test_a_fine_tuning_recipe_without_a_run_is_rejected(clew: Clew) -> None:
    result = clew("train", "glue-rte")
    assert result == (2, "", "clew: glue-rte needs transfer.from=RUN, a pre-trained run or an imported checkpoint\n")
