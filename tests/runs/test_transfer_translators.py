"""Translators fine-tuned from translators, and parsers from parsers, take over the model and both tokenizers."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from clew.core.errors import UserError
from clew.data.examples import Pair
from clew.layers.adapters import adapter_names
from clew.recipes.resolving import changes, config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import WEIGHTS
from clew.runs.loaded import Run, load_run
from clew.runs.merging import merge_run
from clew.runs.transfer import start_from
from tests.crossing import quickly
from tests.runs.pretrained import TINY, save_pretrained
from tests.runs.small import PAIRS, save_many_languages, write_text
from tests.runs.test_transfer import LORA

WORDS = [
    "text.tokenizer=word",
    "text.size=null",
    "training.batch_tokens=null",
    "decoding.max_new=8",
    "decoding.beams=2",
]
SMALL = ["model.dim=8", "model.num_layers=1", "model.num_heads=2", "task.label_smoothing=0", *WORDS]


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CLEW_BASE", raising=False)


def translator(tmp_path: Path, *more: str, recipe: str = "translate", out: str = "base") -> Path:
    """Train a translator to reverse three words."""
    pairs = write_text(tmp_path, "\n".join(PAIRS), "pairs.tsv")
    run_recipe(recipe, [f"data.train={pairs}", *SMALL, *TINY, *more], out=Path(out))
    return Path(out)


def fine_tuned(tmp_path: Path, base: Path, *more: str, recipe: str = "translate", out: str = "run") -> Run:
    """Fine-tune it to keep the order."""
    pairs = write_text(
        tmp_path, "\n".join(f"{pair.split(chr(9))[0]}\t{pair.split(chr(9))[0]}" for pair in PAIRS), "other.tsv"
    )
    plain = [setting for setting in (*WORDS, "task.label_smoothing=0") if not setting.startswith("text.")]
    return run_recipe(recipe, [f"transfer.from={base}", f"data.train={pairs}", *plain, *TINY, *more], out=Path(out)).run


@pytest.mark.parametrize(
    "family",
    [
        ["task.tied=false", "model.shared_embeddings=false", "text.joint=false"],
        ["model.shared_embeddings=true", "text.joint=true", "model.wiring=pre_norm"],
    ],
    ids=["apart", "shared"],
)
def test_a_fine_tuned_translator_takes_over_the_whole_model(family: list[str], tmp_path: Path) -> None:
    base = translator(tmp_path, *family)
    run = fine_tuned(tmp_path, base, "training.learning_rate=1e-9", recipe="finetune-translate")
    source = load_run(base, device="cpu")
    assert {role: vocabulary.hash for role, vocabulary in run.vocabularies.items()} == {
        role: vocabulary.hash for role, vocabulary in source.vocabularies.items()
    }
    config: Any = run.config
    assert (config.model, config.text, config.task.tied) == (
        source.config.model,
        source.config.text,
        source.config.task.tied,
    )  # type: ignore[attr-defined]
    mine, theirs = run.task.state_dict(), source.task.state_dict()
    assert mine.keys() == theirs.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(mine[name], tensor, atol=1e-6, rtol=0)
    assert start_from(run.task, run.config)[0].endswith("; new: nothing")
    assert (
        changes(config, Path("run")) is not None
        and not {"transfer.translator", "model.dim"} & changes(config, Path("run")).keys()
    )  # type: ignore[union-attr]


def test_a_fine_tuned_translator_improves_and_needs_no_base_run(tmp_path: Path) -> None:
    base = translator(tmp_path, "training.steps=60", "training.evaluate_every=60")
    before = load_run(base, device="cpu").score_translation("red old fox", "red old fox").log_prob
    run = fine_tuned(tmp_path, base, "training.steps=40", "training.evaluate_every=40")
    assert run.score_translation("red old fox", "red old fox").log_prob > before + 1
    shutil.rmtree(base)
    assert load_run("run", device="cpu").translate("red old fox").text == run.translate("red old fox").text


@pytest.mark.parametrize(
    "setting",
    quickly(["model.attention=before", "model.attention=after", "model.feeding=false"], "model.attention=after"),
)
def test_hard_attention_starts_from_all_weights_of_soft_attention(tmp_path: Path, setting: str) -> None:
    more = ["model.attention=after", setting] if setting == "model.feeding=false" else [setting]
    pairs = write_text(tmp_path, "\n".join(PAIRS), "pairs.tsv")
    soft = run_recipe(
        "reverse", [f"data.train={pairs}", "data.corpus=null", *TINY, "model.dim=8", *more], out=Path("soft")
    ).run
    hard = [
        "transfer.from=soft",
        "model.hard=true",
        "model.expectation=0.5",
        f"data.train={pairs}",
        "data.corpus=null",
        *TINY,
    ]
    run = run_recipe("reverse", [*hard, "training.learning_rate=1e-9"], out=Path("hard")).run
    theirs, mine = soft.task.state_dict(), run.task.state_dict()
    assert mine.keys() - theirs.keys() == {"body.reinforce.baseline"} and theirs.keys() <= mine.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(mine[name], tensor, atol=1e-6, rtol=0)
    (note, *_) = start_from(run.task, run.config)
    assert f"starts with {len(theirs)} of its tensors; new: nothing" in note
    back = [
        "transfer.from=hard",
        "model.hard=false",
        "model.expectation=0",
        f"data.train={pairs}",
        "data.corpus=null",
        *TINY,
    ]
    again = run_recipe("reverse", back, out=Path("again")).run
    assert (
        "1 of its tensors not used (body.reinforce.baseline); new: nothing" in start_from(again.task, again.config)[0]
    )


def test_blocks_of_a_translator_can_be_frozen_or_adapted(tmp_path: Path) -> None:
    base = translator(tmp_path, "model.shared_embeddings=false", "text.joint=false")
    theirs = read_weights(base / WEIGHTS)
    frozen = fine_tuned(tmp_path, base, "transfer.freeze=1").task.state_dict()
    changed = {".".join(name.split(".")[:2]) for name in theirs if not torch.equal(theirs[name], frozen[name])}
    assert changed == {"body.decoder", "output_bias"}
    assert all(torch.equal(theirs[name], frozen[name]) for name in theirs if "embedding" in name or "encoder" in name)
    adapted = fine_tuned(tmp_path, base, LORA, out="adapter")
    assert all(torch.equal(adapted.task.state_dict()[name], theirs[name]) for name in theirs)
    saved = read_weights(Path("adapter") / WEIGHTS)
    assert saved.keys() == adapter_names(adapted.task) and any(".decoder." in name for name in saved)
    merged = merge_run(Path("adapter"), Path("merged"))
    text = "blue big owl"
    assert merged.score_translation(text, text).log_prob == pytest.approx(
        adapted.score_translation(text, text).log_prob, abs=1e-4
    )


def test_a_translator_with_a_pretrained_encoder_can_be_fine_tuned(tmp_path: Path) -> None:
    bert = save_pretrained(tmp_path / "bert")
    base = translator(tmp_path, f"transfer.from={bert}", recipe="finetune-translate")
    run = fine_tuned(tmp_path, base)
    fine_tuned(tmp_path, Path("run"), out="third")
    for folder in (bert, base, Path("run")):
        shutil.rmtree(folder)
    third = load_run("third", device="cpu")
    (sides,) = third.task.encode([Pair("the red fox", "")])
    assert sides.source[0] == third.vocabularies["source"].id("[CLS]")
    assert run.vocabularies["encoder"].hash == third.vocabularies["encoder"].hash


def test_a_fine_tuned_seq2seq_accepts_only_known_languages(tmp_path: Path) -> None:
    save_many_languages(tmp_path / "many")
    for language in ("de", "en", "it"):
        write_text(tmp_path, "\n".join(pair.split("\t")[0] for pair in PAIRS), f"words.{language}")
    settings = [
        "transfer.from=many",
        "data.train=words",
        *TINY,
        "decoding.max_new=8",
        "training.batch_tokens=null",
        "data.source=null",
    ]
    run = run_recipe("translate", [*settings, "data.target=null", "data.directions=[de-en,en-de]"], out=Path("run")).run
    assert run.config.model.family == "seq2seq" and run.task.languages == ["de", "en", "fr"]  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="the model was not trained to write 'it'; it translates into de, en, fr"):
        run_recipe("translate", [*settings, "data.target=null", "data.directions=[de-it]"], out=Path("other"))


@pytest.mark.slow
def test_a_parser_is_fine_tuned_only_from_a_parser(tmp_path: Path) -> None:
    trees = write_text(
        tmp_path, "(S (NP (DT the) (NN cat)) (VP (VBZ sees)))\n(S (NP (PRP it)) (VP (VBZ sees)))\n" * 6, "trees.mrg"
    )
    small = ["model.dim=8", "text.min_count=1", "training.batch_tokens=200", *TINY]
    run_recipe("parse", [f"data.train={trees}", *small], out=Path("parser"))
    settings = [f"data.train={trees}", "transfer.from=parser", "training.batch_tokens=200", *TINY]
    run = run_recipe("parse", settings, out=Path("run")).run
    assert run.vocabularies["target"].hash == load_run("parser", device="cpu").vocabularies["target"].hash
    assert list(run.parse("the cat sees").tree.words) == ["the", "cat", "sees"]
    new = (
        f"(S (NP (PRP {word})) (ADVP (RB never)) (VP (VBZ sees)))" for word in ("he", "she", "it", "they", "we", "you")
    )
    trees.write_text("\n".join(new), encoding="utf-8")
    with pytest.raises(
        UserError,
        match="tree 1 of the training part has a label or tag that the parser of transfer.from cannot write"
        "; leave the tree out, or train without transfer.from",
    ):
        run_recipe("parse", settings, out=Path("other"))
    with pytest.raises(
        UserError,
        match="transfer.from=parser learnt from trees .the task parsing., but the task translation learns from"
        ".*; use a run of the same task, or leave transfer.from out",
    ):
        config_of("translate", ["transfer.from=parser"])


def test_a_fine_tuned_translator_keeps_its_tokenizers_and_model(tmp_path: Path) -> None:
    base = translator(tmp_path)
    with pytest.raises(
        UserError, match="text.size is a setting of a new tokenizer, but transfer.from uses the base run's; leave it"
    ):
        config_of("translate", [f"transfer.from={base}", "text.size=77"])
    with pytest.raises(
        UserError, match="has no body.* of the shape .* that this run's model needs; keep the model section"
    ):
        fine_tuned(tmp_path, base, "model.dim=16")
    config: Any = config_of("translate", [f"transfer.from={base}", "transfer.translator=false"])
    assert config.transfer.translator
