"""Pre-training on documents: micro-batches and interruptions do not change a run, and each loss has its own count."""

import json
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.data.kinds.documents import find_documents
from clew.data.notes import Notes
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import read_metrics
from clew.text.tokenizer import Tokenizer
from clew.training.loader import Loader
from clew.training.problems import prepare_problem
from clew.training.signals import Interrupted
from tests.runs.small import bert_settings
from tests.training.test_run import Listener, assert_same_run


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def test_a_run_resumes_bit_for_bit_and_reports_both_losses(tmp_path: Path) -> None:
    assignments = bert_settings(tmp_path, steps=7)
    result = run_recipe("text-bert", assignments, out=Path("straight"))
    with pytest.raises(Interrupted, match="stopped at step 5 of 7"):
        run_recipe("text-bert", assignments, out=Path("stopped"), report=Listener(stop_at_step=5))
    run_recipe("text-bert", [], out=Path("stopped"), resume=True)
    assert_same_run(Path("straight"), Path("stopped"))
    steps = [record for record in read_metrics(Path("straight")) if "train.loss" in record]
    # The last batch of an epoch is smaller.
    assert {record["train.next_sentence_count"] for record in steps} == {
        4,
        2,
    }
    assert (
        all(0 < record["train.loss_count"] < 4 * 24 for record in steps)
        and len({record["train.loss_count"] for record in steps}) > 1
    )
    valid = result.valid.measures
    assert valid["tokens"] > valid["pairs"] > 1
    assert result.valid.value == valid["loss"] and valid["next_sentence_loss"] < 1.5
    assert valid["baseline_most_frequent_token"] < 30 < 50 <= valid["baseline_next_sentence"]
    assert "of the next sentence" in str(result.valid) and f"of {valid['pairs']:,} pairs" in str(result.valid)


def test_micro_batches_and_workers_change_nothing(tmp_path: Path) -> None:
    assignments = [*bert_settings(tmp_path, steps=5), "model.dropout=0", "model.attention_dropout=0"]
    run_recipe("text-bert", assignments, out=Path("whole"))
    run_recipe("text-bert", [*assignments, "training.accumulate=3"], out=Path("cut"))
    whole = read_weights(Path("whole/model.safetensors"))
    for name, tensor in read_weights(Path("cut/model.safetensors")).items():
        torch.testing.assert_close(tensor, whole[name], rtol=1e-4, atol=1e-5, msg=name)
    batches = prepare_problem(config_of("text-bert", [*assignments, "training.batch_tokens=100"])).batches
    ahead = [Loader(batches, workers, pin=False).ahead(0, 3) for workers in (0, 2)]
    for _ in range(batches.per_epoch(0)):  # continues into the second epoch
        (epoch, number, batch), (*position, batch_of_worker) = (next(each) for each in ahead)
        assert [epoch, number] == position
        assert batch.inputs.tokens.numel() <= 120 and torch.equal(batch.inputs.tokens, batch_of_worker.inputs.tokens)
        assert torch.equal(batch.targets, batch_of_worker.targets) and torch.equal(
            batch.inputs.tokens, batches.get(epoch, number).inputs.tokens
        )
    assert epoch == 1


def test_pretraining_can_continue_with_other_documents(tmp_path: Path) -> None:
    run_recipe("text-bert", [*bert_settings(tmp_path, steps=4), "task.next_sentence=false"], out=Path("first"))
    Path("more.jsonl").write_text(
        "".join(json.dumps({"body": f"the {word} was red.\nshe found it."}) + "\n" for word in "abcdefgh")
    )
    assignments = [
        setting
        for setting in bert_settings(tmp_path, steps=4)
        if not setting.startswith(("model", "text", "data.train"))
    ]
    more = [
        "data.train=more.jsonl",
        "data.text=body",
        "transfer.from=first",
        "task.next_sentence=true",
        "training.learning_rate=1e-9",
    ]
    listener = Listener()
    run_recipe("text-bert", [*assignments, *more], out=Path("second"), report=listener)
    first, second = (read_weights(Path(name) / "model.safetensors") for name in ("first", "second"))
    assert set(second) - set(first) == {
        "pooling.dense.weight",
        "pooling.dense.bias",
        "next_sentence.weight",
        "next_sentence.bias",
    }
    for name, tensor in first.items():
        torch.testing.assert_close(second[name], tensor, rtol=0, atol=1e-6)
    assert Tokenizer.load(Path("first/vocabulary")).hash == Tokenizer.load(Path("second/vocabulary")).hash
    assert any(line.endswith("new: next_sentence, pooling") for line in listener.messages)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ["data.train=null"],
            "there is no training data; name your documents with data.train, e.g. `clew train text-bert",
        ),
        (["data.train=stories.txt/nothing"], "no such file: stories.txt/nothing"),
        (["data.valid=stories.txt", "data.train=one.txt"], "the training part is one document"),
        (["data.corpus=tinyshakespeare+ewt-smple"], "unknown corpus 'ewt-smple'; did you mean 'ewt-sample'"),
        (["training.length=64"], r"training.length \(64\) must be at most the model's 32 positions"),
        (["text.tokenizer=bpe"], "set text.tokenizer=wordpiece"),
        (
            ["model={family: gpt, dim: 16, num_layers: 1, num_heads: 2}"],
            "needs a body that sees a whole text at once, which a gpt does not",
        ),
        (["training.batching=streams"], "set training.batching=windows"),
    ],
)
def test_unsuitable_data_and_settings_are_rejected(tmp_path: Path, settings: list[str], message: str) -> None:
    Path("one.txt").write_text("the ball was red.\nshe went in.\n")
    with pytest.raises(UserError, match=message):
        prepare_problem(config_of("text-bert", [*bert_settings(tmp_path), *settings]))


def test_a_text_of_only_unknown_words_cannot_be_scored(tmp_path: Path) -> None:
    run = run_recipe("text-bert", bert_settings(tmp_path, steps=1), out=Path("run")).run
    Path("greek.txt").write_text("Ω Ω Ω\nΩ Ω\n\nΩ\nΩ Ω\n", encoding="utf-8")
    with pytest.raises(
        UserError,
        match="no token of the text can be masked, because the tokenizer knows none of them; give another text",
    ):
        run.evaluate(Path("greek.txt"))


def test_corpora_and_files_can_be_combined(tmp_path: Path) -> None:
    settings = [*bert_settings(tmp_path), "data.corpus=ewt-sample+tatoeba-sample", "data.source=de"]
    parts = find_documents(config_of("text-bert", settings).data, Notes())
    assert {name: sum(line.opens for line in part.lines()) for name, part in parts.items()} == {
        "train": 11,
        "valid": 6,
        "test": 2,
    }
    assert {"she tied one end to the door and went in."} < set(parts["valid"])
