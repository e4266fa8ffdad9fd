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


def test_a_run_is_loaded_and_scored_as_it_was_when_it_was_best(clew: Clew, elmo: Path) -> None:
    records = [json.loads(line) for line in (elmo / "metrics.jsonl").read_text().splitlines()]
    best = min(record["valid.loss"] for record in records if "valid.loss" in record)
    (found,) = (json.loads(line) for line in clew("evaluate", elmo, "--device", "cpu", "--json").out.splitlines())
    assert found["loss"] == pytest.approx(best, rel=1e-5)
    assert found["loss"] == pytest.approx((found["forward_loss"] + found["backward_loss"]) / 2, rel=1e-6)
    assert found["loss"] < 2.7  # of log(20) for 20 words
    assert found["baseline_kneser_ney"] < 20  # the same words, so that the two compare


def test_a_file_is_scored_too(clew: Clew, elmo: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path, "the ball of thread was small and red.\n")
    by_file, by_stream = clew("evaluate", elmo, text), clew("evaluate", elmo, "-", stdin=text.read_text())
    assert by_file.status == by_stream.status == 0
    assert "forward" in by_file.out and by_file.out.replace(str(text), "-") == by_stream.out


def test_what_it_does_not_do_is_told(clew: Clew, elmo: Path) -> None:
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
    assert (
        "needs a body that reads in two directions that never meet, which a gpt does not; these would do: elmo\n"
        in gpt.err
    )


def test_every_part_is_described(clew: Clew, elmo: Path) -> None:
    found = clew("describe", elmo).out
    assert "CharacterCNN" in found and "ProjectedLSTM" in found and "backward_layer" in found


def test_the_text_of_a_treebank_is_its_words_a_sentence_a_line() -> None:
    parts = {name: "".join(text) for name, text in find_texts(config_of("ewt-elmo").data).items()}
    assert list(parts) == ["train", "valid", "test"]
    sentences = read_corpus("ewt-sample")
    assert {name: text.splitlines()[0] for name, text in parts.items()} == {
        name: " ".join(part[0].words) for name, part in sentences.items()
    }
    assert {name: text.count("\n") for name, text in parts.items()} == {
        name: len(part) for name, part in sentences.items()
    }
