"""Checkpoints of `transformers`, imported and exported, give the same numbers and tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from clew.cli.main import main
from clew.core.batches import padded
from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.interop.huggingface.writing import write_huggingface
from clew.runs.loaded import Run, load_run
from tests.crossing import quickly
from tests.interop.checkpoints import TEXTS, make, transformers

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {}),
    "bert for pre-training": ("BertForPreTraining", {"hidden_act": "gelu_new"}),
    "bert untied": ("BertForMaskedLM", {"tie_word_embeddings": False}),
    "bert that classifies": ("BertForSequenceClassification", {"num_labels": 3}),
    "bert that tags": ("BertForTokenClassification", {"id2label": {0: "O", 1: "B-PER", 2: "I-PER"}}),
    "bert that answers": ("BertForQuestionAnswering", {}),
    "roberta": ("RobertaForMaskedLM", {"type_vocab_size": 1}),
    "roberta that regresses": ("RobertaForSequenceClassification", {"num_labels": 1}),
    "xlm-r": ("XLMRobertaModel", {}),
    "xlm-r that tags": ("XLMRobertaForTokenClassification", {}),
    "camembert": ("CamembertForMaskedLM", {}),
    "camembert that classifies": ("CamembertForSequenceClassification", {"num_labels": 3}),
    "camembert that tags": ("CamembertForTokenClassification", {}),
    "distilbert": ("DistilBertForMaskedLM", {}),
    "distilbert that classifies": (
        "DistilBertForSequenceClassification",
        {"problem_type": "multi_label_classification"},
    ),
    "gpt-2": ("GPT2LMHeadModel", {"n_inner": 20}),
    "gpt-2 untied": ("GPT2LMHeadModel", {"tie_word_embeddings": False, "activation_function": "relu"}),
    "gpt-2 that classifies": ("GPT2ForSequenceClassification", {"pad_token_id": 0}),
    "llama": ("LlamaForCausalLM", {"attention_bias": True, "head_dim": 4}),
    "llama tied and scaled": (
        "LlamaForCausalLM",
        {
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 3.0,
                "original_max_position_embeddings": 24,
            },
        },
    ),
    "mistral": ("MistralForCausalLM", {"sliding_window": None, "num_key_value_heads": 1, "head_dim": 4}),
    "mistral with a window that never cuts": ("MistralModel", {"sliding_window": 40}),
}


def ids_of(run: Run) -> list[list[int]]:
    """The token ids of the texts as the model reads them."""
    tokenizer = run.tokenizer
    frame = tokenizer.frame
    return [tokens if frame is None else frame.around(tokens).tokens for tokens in tokenizer.encode_batch(TEXTS)]


@torch.no_grad()
def ours_of(run: Run) -> list[Tensor]:
    """The scores of the run for each text in one batch: at every position, or for the whole text."""
    task: Any = run.task
    rows = ids_of(run)
    tokens, mask = padded(rows)
    hidden = task.body(tokens, mask)[0]
    kind = run.config.task.name  # type: ignore[attr-defined]
    if kind == "classification":
        pooled = task.pooling(hidden, mask)
        for layer in task.hidden:
            pooled = torch.relu(layer(pooled))
        return list(task.output(pooled))
    has_output = kind in ("tagging", "question_answering")
    scores = hidden if kind == "representation" else task.output(hidden) if has_output else task.logits(hidden)
    return [row[: len(ids)] for row, ids in zip(scores, rows, strict=True)]


@torch.no_grad()
def theirs_of(model: Any, rows: list[list[int]]) -> list[Tensor]:
    outputs = []
    for ids in rows:
        out = model(torch.tensor([ids]))
        if hasattr(out, "start_logits"):
            outputs.append(torch.stack([out.start_logits[0], out.end_logits[0]], -1))
            continue
        outputs.append(
            next(
                getattr(out, name)[0]
                for name in ("prediction_logits", "logits", "last_hidden_state")
                if hasattr(out, name)
            )
        )
    return outputs


ONE_OF_EACH = (
    "bert for pre-training",
    "bert that answers",
    "roberta that regresses",
    "xlm-r that tags",
    "camembert",
    "distilbert",
)
ONE_OF_EACH += ("gpt-2", "gpt-2 that classifies", "llama tied and scaled", "mistral")


@pytest.mark.parametrize("case", quickly(CASES, *ONE_OF_EACH))
def test_a_checkpoint_gives_the_same_scores_after_import_and_export(case: str, tmp_path: Path) -> None:
    name, more = CASES[case]
    model = make(name, tmp_path / "theirs", **more)
    import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    run = load_run(tmp_path / "run", device="cpu")
    expected = theirs_of(model, ids_of(run))
    for ours, theirs in zip(ours_of(run), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    (tmp_path / "back").mkdir()
    write_huggingface(run, tmp_path / "back", shard=4000)
    assert json.loads((tmp_path / "back" / "config.json").read_text())["architectures"] == [name]
    again, report = getattr(transformers, name).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(report.values()), report
    for ours, theirs in zip(theirs_of(again.eval(), ids_of(run)), expected, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-6)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert tokenizer(TEXTS)["input_ids"] == ids_of(run)
    if "generate" in run.uses:
        check_generated(run, model)


def check_generated(run: Run, model: Any) -> None:
    tokenizer = run.tokenizer
    end = model.generation_config.eos_token_id if run.config.decoding.stop else tokenizer.end
    banned = [token for token in (tokenizer.unknown, tokenizer.pad) if token is not None]
    for prompt, ids in zip(TEXTS, ids_of(run), strict=True):
        room = 40 - len(ids)
        written = model.generate(
            torch.tensor([ids]),
            max_new_tokens=room,
            do_sample=False,
            eos_token_id=end,
            suppress_tokens=banned or None,
            pad_token_id=0,
        )
        ours = run.generate(prompt, method="greedy", max_new=room).tokens
        theirs = written[0, len(ids) :].tolist()
        with torch.no_grad():
            log_probs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        first = len(ids) - len(tokenizer.encode(prompt)) + 1  # the first token of a text is not scored
        expected = [float(log_probs[place - 1, ids[place]]) for place in range(first, len(ids))]
        assert run.score(prompt).log_probs == pytest.approx(expected, abs=1e-4)
        assert ours == theirs[: theirs.index(end)] if end in theirs else ours == theirs


@torch.no_grad()
def test_a_classifier_truncates_long_pairs_like_transformers(tmp_path: Path) -> None:
    model = make("BertForSequenceClassification", tmp_path / "theirs", num_labels=3)
    import_checkpoint(tmp_path / "theirs", tmp_path / "run", pairs=True)
    run = load_run(tmp_path / "run", device="cpu")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "theirs" / "tokenizer.json"))
    for pair in (
        ("the cat sat " * 30, "it rains"),
        ("a dog", "it rains " * 40),
        ("the cat sat " * 30, "it rains " * 40),
    ):
        read = tokenizer(*pair, truncation=True, max_length=40, return_tensors="pt", return_token_type_ids=True)
        expected = model(**read).logits.softmax(-1)[0].tolist()
        probabilities = run.classify([pair])[0].probabilities
        assert [probabilities[label] for label in run.task.labels.names] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("config", [{"sliding_window": 8}, {}])
def test_a_mistral_with_a_short_window_is_rejected(config: dict[str, Any], tmp_path: Path) -> None:
    make("MistralForCausalLM", tmp_path / "theirs", max_position_embeddings=5000)
    path = tmp_path / "theirs" / "config.json"
    fields = {name: value for name, value in json.loads(path.read_text()).items() if name != "sliding_window"}
    path.write_text(json.dumps({**fields, **config}))
    window = config.get("sliding_window", 4096)
    with pytest.raises(
        UserError,
        match=rf"sliding_window is {window}, below max_position_embeddings \(5000\); clew has no window for Mistral",
    ):
        import_checkpoint(tmp_path / "theirs", tmp_path / "run")


def test_an_unknown_rotary_scaling_is_rejected(tmp_path: Path) -> None:
    make("LlamaForCausalLM", tmp_path / "theirs")
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rope_parameters": {"rope_type": "longrope"}}))
    with pytest.raises(
        UserError, match="the rotary scaling 'longrope' is not known; clew knows default, linear, dynamic, llama3, yarn"
    ):
        import_checkpoint(tmp_path / "theirs", tmp_path / "run")


def test_generation_stops_at_the_end_tokens_of_the_checkpoint(tmp_path: Path) -> None:
    make("GPT2LMHeadModel", tmp_path / "theirs")
    import_checkpoint(tmp_path / "theirs", tmp_path / "plain")
    plain = load_run(tmp_path / "plain", device="cpu").generate("the cat", method="greedy", max_new=20).tokens
    end, other = plain[3], plain[5]
    path = tmp_path / "theirs" / "generation_config.json"
    path.write_text(json.dumps({"eos_token_id": [other, end]}))
    import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    run = load_run(tmp_path / "run", device="cpu")
    assert (
        run.generate("the cat", method="greedy", max_new=20).tokens
        == plain[: min(plain.index(end), plain.index(other))]
    )
    assert (
        "".join(run.stream("the cat", method="greedy", max_new=20))
        == run.generate("the cat", method="greedy", max_new=20).text
    )
    (tmp_path / "back").mkdir()
    write_huggingface(run, tmp_path / "back")
    assert json.loads((tmp_path / "back" / path.name).read_text())["eos_token_id"] == [other, end]


def test_the_code_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hub").mkdir()
    make("GPT2LMHeadModel", Path("hub/gpt2"))
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "checkpoints.md").read_text(encoding="utf-8")
    exec(guide.split("```python\n")[1].split("```")[0], {})
    assert capsys.readouterr().out.startswith("GPT2LMHeadModel 11840 []")
    assert (tmp_path / "back" / "README.md").is_file()
    assert main(["runs"]) == 0 and "imported" in capsys.readouterr().out


def test_the_code_of_the_guide_on_torch_weights_runs(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "checkpoints.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(guide.split("```python\n")[2].split("```")[0], names)
    assert capsys.readouterr().out == "True\n" and names["y"].isfinite().all()
