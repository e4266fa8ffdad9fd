"""Exported runs of clew, loaded by `transformers`; runs without a matching class are rejected."""

from pathlib import Path
from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.interop.exporting import export_run
from clew.interop.huggingface.writing import write_huggingface
from clew.runs.build import build_task
from clew.runs.config import EmbeddingConfig, resolve
from clew.runs.loaded import Run, load_run
from clew.text.labels import Labels
from clew.text.train import framed_as_bert, train_bpe, train_character, train_word, train_wordpiece
from tests.interop.checkpoints import TEXTS, randomised, transformers
from tests.interop.test_huggingface import ids_of, ours_of, theirs_of
from tests.interop.untrained import RUNS, untrained

SIZES = {"dim": 16, "num_layers": 2, "num_heads": 2}
LANGUAGE = {"name": "language_model", "tied": True, "bias": False}
TOKENIZERS = {
    "character": lambda: train_character(TEXTS),
    "bpe": lambda: train_bpe(TEXTS, size=280),
    "wordpiece": lambda: framed_as_bert(train_wordpiece(TEXTS, size=60)),
}


def run_of(folder: Path, tokenizer: str, model: dict[str, Any], task: dict[str, Any]) -> Run:
    config = resolve({"recipe": "mine", "text": {"tokenizer": tokenizer}, "model": {**SIZES, **model}, "task": task})
    labels = {"classification": {"labels": Labels(["a", "b"])}, "tagging": {"tags": Labels(["a", "b"])}}
    vocabularies = {"tokenizer": TOKENIZERS[tokenizer](), **labels.get(task["name"], {})}
    task_module = randomised(build_task(config, vocabularies, to_train=False))
    return Run(folder, config, vocabularies, task_module)


OWN: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "gpt of characters": ("GPT2LMHeadModel", "character", {"family": "gpt", "max_length": 64}, LANGUAGE),
    "llama": ("LlamaForCausalLM", "bpe", {"family": "llama", "dropout": 0.1}, {**LANGUAGE, "tied": False}),
    "bert": (
        "BertForMaskedLM",
        "wordpiece",
        {"family": "bert"},
        {"name": "masked_language_model", "next_sentence": False},
    ),
    "bert with an output layer of its own": (
        "BertForMaskedLM",
        "wordpiece",
        {"family": "bert"},
        {"name": "masked_language_model", "next_sentence": False, "tied": False},
    ),
    "bert without segments": (
        "DistilBertForTokenClassification",
        "wordpiece",
        {"family": "bert", "num_segments": 0},
        {"name": "tagging", "output": "softmax"},
    ),
    "regression": (
        "BertForSequenceClassification",
        "wordpiece",
        {"family": "bert"},
        {"name": "classification", "labels": "number", "pooling": "pooler"},
    ),
    "calibrated labels": (
        "BertForSequenceClassification",
        "wordpiece",
        {"family": "bert"},
        {"name": "classification", "pooling": "pooler"},
    ),
}


@pytest.mark.parametrize("case", OWN)
def test_an_exported_run_gives_the_same_scores_in_transformers(case: str, tmp_path: Path) -> None:
    name, tokenizer, model, task = OWN[case]
    run = run_of(tmp_path, tokenizer, model, task)
    expected = ours_of(run)
    if case == "regression":
        run.task.answer.mean.fill_(3.0)
        run.task.answer.scale.fill_(2.0)
        expected = [3 + 2 * scores for scores in expected]
    if case == "calibrated labels":
        run.task.answer.temperature.fill_(4.0)
        expected = [scores / 4 for scores in expected]
    write_huggingface(run, tmp_path)
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    for ours, other in zip(expected, theirs_of(theirs.eval(), ids_of(run)), strict=True):
        torch.testing.assert_close(ours, other, atol=1e-5, rtol=1e-5)
    again = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert again(TEXTS)["input_ids"] == ids_of(run)
    assert again.decode(again("the cat", add_special_tokens=False)["input_ids"]) == "the cat"


REJECTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "GPT-2 cannot express position='rotary'": ("bpe", {"family": "gpt", "position": "rotary"}, LANGUAGE),
    "GPT-2 cannot express window=3 of this gpt; it supports None only": (
        "bpe",
        {"family": "gpt", "window": 3},
        LANGUAGE,
    ),
    "GPT-2 has no bias in its output layer, but this run has one; train with task.bias=false": (
        "bpe",
        {"family": "gpt"},
        {**LANGUAGE, "bias": True},
    ),
    "BertForTokenClassification cannot express output='crf'": ("wordpiece", {"family": "bert"}, {"name": "tagging"}),
    "cannot express pooling='max'": ("wordpiece", {"family": "bert"}, {"name": "classification"}),
    "no architecture for the family recurrent": ("bpe", {"family": "recurrent"}, LANGUAGE),
    "no class for the task tagging over a gpt": ("bpe", {"family": "gpt"}, {"name": "tagging"}),
}


REJECTED |= {
    "BertModel has no counterpart of this run's pooling.inner.bias, .*; use format='onnx' or format='torch'": (
        "wordpiece",
        {"family": "bert"},
        {"name": "representation", "pooling": "attention"},
    ),
}
DYNAMIC = {"name": "dynamic", "original_max_length": 32}
REJECTED |= {
    r"starts at model.max_length \(64\), but this run's starts at original_max_length \(32\); use format='onnx' or"
    " format='torch'": ("bpe", {"family": "llama", "max_length": 64, "rotary_scaling": DYNAMIC}, LANGUAGE),
}


@pytest.mark.parametrize("message", REJECTED)
def test_features_without_a_counterpart_in_transformers_are_rejected(message: str, tmp_path: Path) -> None:
    tokenizer, model, task = REJECTED[message]
    sizes = {"num_heads": 2} if model["family"] != "recurrent" else {}
    config = resolve(
        {"recipe": "mine", "text": {"tokenizer": tokenizer}, "model": {"dim": 16, **sizes, **model}, "task": task}
    )
    vocabularies = {"tokenizer": TOKENIZERS[tokenizer](), "labels": Labels(["a", "b"]), "tags": Labels(["a", "b"])}
    run = Run(tmp_path, config, vocabularies, build_task(config, vocabularies, to_train=False))
    with pytest.raises(UserError, match=message):
        write_huggingface(run, tmp_path)


def test_embeddings_without_a_counterpart_in_transformers_are_rejected(tmp_path: Path) -> None:
    model = {"family": "gpt", "dim": 16, "num_heads": 2}
    config = resolve({"recipe": "mine", "text": {"tokenizer": "word"}, "model": model, "task": LANGUAGE})
    config = config.model_copy(update={"embedding": EmbeddingConfig(characters="cnn")})
    vocabularies = {"tokenizer": train_word(TEXTS)}
    run = Run(tmp_path, config, vocabularies, build_task(config, vocabularies, to_train=False))
    with pytest.raises(
        UserError,
        match="GPT2LMHeadModel embeds tokens only, but this run reads more .the section embedding.; use format='onnx'",
    ):
        write_huggingface(run, tmp_path)


def test_an_adapter_must_be_merged_before_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1] / "runs" / "frozen" / "format-1")
    with pytest.raises(
        UserError,
        match="run is an adapter of another run's weights; `clew runs merge .*run --out DIR` merges both into one run",
    ):
        write_huggingface(load_run("classification_adapter/run", device="cpu"), tmp_path)


def test_the_card_of_a_tagger_shows_code_that_gives_the_same_tags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, settings = RUNS["bert that tags"]
    monkeypatch.setitem(RUNS, "soft", (recipe, [*settings, "task.output=softmax"]))
    run = untrained("soft", tmp_path / "run")
    assert any(name.startswith("E-") for name in run.task.tags.names)
    export_run(run, "hf", tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    code = card.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path / "out")
    for text in ("Ada met Bo .", "Ada runs to Paris , Ada", "unheard-of Paris Ada runs"):
        capsys.readouterr()
        exec(code.replace("Ada met Bo .", text), {})
        words = run.tag(text, tokenised=True).words
        assert capsys.readouterr().out.strip() == str([(word.word, word.tag) for word in words])
    assert "# the model predicts BIOES; convert to IOB2" in card
