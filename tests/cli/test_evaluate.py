from pathlib import Path

import pytest

from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

WORDS = "the\tDET\n{noun}\tNOUN\n{verb}\tVERB\n\n"
SMALL = [
    "model.dim=8",
    "model.embedding_dim=8",
    "embedding.dim=8",
    "embedding.characters=null",
    "training.steps=1",
    "device=cpu",
]


def test_a_run_without_a_training_objective_has_no_score(clew: Clew) -> None:
    run = Path(__file__).parents[1] / "runs" / "frozen" / "format-1" / "representation" / "run"
    assert_refused(
        clew("evaluate", run),
        "the task representation has nothing to learn, so it has no score; fine-tune its run for another task, e.g."
        " `clew train finetune-classify transfer.from=RUN data.train=FILE`",
    )


def test_the_baseline_is_shown_while_the_training_data_exist(clew: Clew) -> None:
    for name, nouns in {"train": ["dog", "cat", "run"], "valid": ["dog", "sun"]}.items():
        Path(f"{name}.conll").write_text(
            "".join(WORDS.format(noun=noun, verb="runs") for noun in nouns * 2), encoding="utf-8"
        )
    files = ["data.train=train.conll", "data.valid=valid.conll", "training.schedule=constant"]
    trained = run_recipe("tag", [*files, *SMALL], out=Path("run"))
    accuracy = trained.valid.measures["baseline_most_frequent_tag"]
    assert accuracy == pytest.approx(100 * 5 / 6)  # "sun" was never seen, so it is tagged DET
    baseline = f"; the most frequent tag has accuracy {accuracy:.2f}"
    assert trained.valid.text.endswith(baseline)
    for arguments in (["run"], ["run", "valid.conll"]):
        assert baseline in clew("evaluate", *arguments).out
    Path("train.conll").unlink()
    for arguments in (["run"], ["run", "valid.conll"]):
        result = clew("evaluate", *arguments)
        assert result.status == 0 and ": loss " in result.out and "most frequent" not in result.out and result.err == ""
