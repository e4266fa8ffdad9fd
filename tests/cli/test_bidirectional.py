import json
from pathlib import Path

import pytest

from clew.data.corpora import read_corpus
from clew.data.kinds.text import find_texts
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.runs.small import write_text

SMALL = [
    "model.dim=12",
    "task.predicted=20",
    "embedding.characters={name: cnn, letter_dim: 4, widths: [1, 2, 3], filters: [4, 4, 8], highways: 1}",
    "embedding.characters_dim=12",
    "training.batch_size=4",
    "training.length=16",
    "training.schedule=constant",
    "training.learning_rate=0.01",
    "training.steps=30",
    "training.evaluate_every=15",
    "device=cpu",
]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elmo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        run_recipe("text-elmo", [f"data.train={write_text(folder)}", *SMALL], out=folder / "run")
    return folder / "run"


def test_a_loaded_run_repeats_its_best_validation_loss(clew: Clew, elmo: Path) -> None:
    records = [json.loads(line) for line in (elmo / "metrics.jsonl").read_text().splitlines()]
    best = min(record["valid.loss"] for record in records if "valid.loss" in record)
    (scores,) = (json.loads(line) for line in clew("evaluate", elmo, "--device", "cpu", "--json").out.splitlines())
    assert scores["loss"] == pytest.approx(best, rel=1e-5)
    assert scores["loss"] == pytest.approx((scores["forward_loss"] + scores["backward_loss"]) / 2, rel=1e-6)
    assert scores["loss"] < 2.7  # below log(20), the loss of a uniform guess among 20 words
    assert scores["baseline_kneser_ney"] < 20  # over the same words, so the two are comparable


def test_a_file_and_standard_input_score_alike(clew: Clew, elmo: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path, "the ball of thread was small and red.\n")
    by_file, by_stream = clew("evaluate", elmo, text), clew("evaluate", elmo, "-", stdin=text.read_text())
    assert by_file.status == by_stream.status == 0
    assert "forward" in by_file.out and by_file.out.replace(str(text), "-") == by_stream.out


def test_unsupported_verbs_and_settings_are_rejected(clew: Clew, elmo: Path) -> None:
    assert clew("generate", elmo).err.endswith("which cannot generate; use `clew evaluate`\n")
    predicted = clew("predict", elmo, stdin="the ball\n")
    assert predicted.status == 2 and f"other runs use its vectors with embedding.from={elmo}" in predicted.err
    streams = clew("train", "text-elmo", f"data.train={elmo.parent / 'story.txt'}", *SMALL, "training.batching=streams")
    assert streams.status == 2 and streams.err.endswith(
        "clew: training.batching=streams carries the state from step to step, but a model that reads backwards has no"
        " such state; set training.batching=windows\n"
    )
    gpt = clew("train", "text-elmo", f"data.train={elmo.parent / 'story.txt'}", "model.family=gpt")
    assert gpt.status == 2
    assert "needs a body that reads in two directions that never meet, which a gpt does not; use elmo\n" in gpt.err


def test_every_part_is_described(clew: Clew, elmo: Path) -> None:
    description = clew("describe", elmo).out
    assert "CharacterCNN" in description and "ProjectedLSTM" in description and "backward_layer" in description


def test_the_text_of_a_treebank_has_one_sentence_per_line() -> None:
    parts = {name: "".join(text) for name, text in find_texts(config_of("ewt-elmo").data).items()}
    assert list(parts) == ["train", "valid", "test"]
    sentences = read_corpus("ewt-sample")
    assert {name: text.splitlines()[0] for name, text in parts.items()} == {
        name: " ".join(part[0].words) for name, part in sentences.items()
    }
    assert {name: text.count("\n") for name, text in parts.items()} == {
        name: len(part) for name, part in sentences.items()
    }
