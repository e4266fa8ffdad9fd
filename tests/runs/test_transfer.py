import json
import shutil
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.core.files import read_json, write_json
from clew.data.examples import Labelled, Pair
from clew.interop import EXPORTS
from clew.interop.exporting import export_run
from clew.layers.adapters import adapter_names, is_adapted
from clew.recipes.resolving import changes, config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights, write_weights
from clew.runs.folder.run_files import WEIGHTS
from clew.runs.loaded import Run, load_run
from clew.runs.merging import merge_run
from clew.runs.transfer import start_from
from clew.text.labels import Labels
from clew.training.checkpoints import checkpoint_folders
from tests.runs.pretrained import TINY, labelled_file, save_pretrained, tagged_file
from tests.runs.small import PAIRS, write_text

LORA = "transfer.adapter={name: lora, rank: 2, alpha: 4}"


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CLEW_BASE", raising=False)


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return save_pretrained(tmp_path / "bert")


def classifier(tmp_path: Path, source: Path, *more: str, out: str = "run") -> Run:
    settings = [f"transfer.from={source}", *labelled_file(tmp_path), *TINY, *more]
    return run_recipe("finetune-classify", settings, out=Path(out)).run


def test_an_adapter_saves_only_trained_weights_and_loads_with_its_base(bert: Path, tmp_path: Path) -> None:
    run = classifier(tmp_path, bert, LORA)
    saved = read_weights(Path("run") / WEIGHTS)
    base = read_weights(bert / WEIGHTS)
    assert adapter_names(run.task) < saved.keys() and base.keys().isdisjoint(saved)
    assert {name.split(".")[0] for name in saved.keys() - adapter_names(run.task)} == {"output", "answer"}
    assert all(torch.equal(run.task.state_dict()[name], base[name]) for name in base if name.startswith("body."))
    assert any(saved[name].any() for name in saved if name.endswith(".up"))
    checkpoint = read_weights(checkpoint_folders(Path("run"))[0] / "model.safetensors")
    assert checkpoint.keys() == saved.keys()
    loaded = load_run("run", device="cpu")
    texts = ["the red fox is good", "a big owl is bad"]
    assert [prediction.probabilities for prediction in loaded.classify(texts)] == [
        prediction.probabilities for prediction in run.classify(texts)
    ]


def test_an_output_layer_is_reused_only_for_the_same_labels(bert: Path, tmp_path: Path) -> None:
    source = read_weights(classifier(tmp_path, bert, out="source").folder / WEIGHTS)
    same = classifier(tmp_path, Path("source"), LORA, out="same")
    assert torch.equal(same.task.output.weight, source["output.weight"])
    swapped = Path("turned")
    shutil.copytree("source", swapped)
    write_json(swapped / "vocabulary" / "labels.json", {"labels": ["good", "bad"]})
    settings = {
        name: value for name, value in read_json(swapped / "config.json").items() if name not in ("files", "sha256")
    }
    write_json(swapped / "config.json", settings)
    same_order = classifier(tmp_path, swapped, LORA, out="as-there")
    assert same_order.task.labels.names == ("good", "bad") and "output.weight" not in read_weights(
        Path("as-there") / WEIGHTS
    )
    renamed = classifier(tmp_path, Path("source"), LORA, "data.label_map={good: against, bad: for}", out="others")
    assert renamed.task.labels.names == ("against", "for")
    assert "output.weight" in read_weights(Path("others") / WEIGHTS) and not torch.equal(
        renamed.task.output.weight, source["output.weight"]
    )


def test_transfer_without_weights_gives_an_untrained_body(bert: Path, tmp_path: Path) -> None:
    frozen = ["transfer.freeze=body", "transfer.weights=false", "seed=7"]
    mine, base = classifier(tmp_path, bert, *frozen).task.state_dict(), read_weights(bert / WEIGHTS)
    weight = "body.embedding.tokens.weight"
    assert mine[weight].shape == base[weight].shape and not torch.isclose(mine[weight], base[weight]).any(1).all()


def test_a_merged_adapter_predicts_the_same_without_its_base(bert: Path, tmp_path: Path) -> None:
    run = classifier(tmp_path, bert, LORA, "transfer.adapter.targets=[query, key, value, output, inner, outer]")
    merge_run(Path("run"), Path("merged"))
    shutil.rmtree(bert)
    merged = load_run("merged", device="cpu")
    assert not is_adapted(merged.task) and merged.config.transfer.adapter is None  # type: ignore[attr-defined]
    text = "the red fox is good"
    for label, probability in run.classify(text).probabilities.items():
        assert merged.classify(text).probabilities[label] == pytest.approx(probability, abs=1e-5)
    classifier(tmp_path, Path("merged"), out="again")  # another run can be fine-tuned from it
    with pytest.raises(UserError, match="merged has no adapter to merge: its weights are already complete"):
        merge_run(Path("merged"), Path("other"))
    with pytest.raises(UserError, match="merged is a run already; choose another folder with out=..."):
        merge_run(Path("run"), Path("merged"))


def test_a_moved_base_is_found_beside_the_adapter_or_by_clew_base(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier(tmp_path, Path("bert"), LORA)
    Path("elsewhere").mkdir()
    shutil.move("run", "elsewhere/run")
    shutil.copytree("bert", "elsewhere/bert")
    shutil.move("bert", "copy")
    load_run("elsewhere/run", device="cpu")
    shutil.rmtree("elsewhere/bert")
    with pytest.raises(UserError) as error:
        load_run("elsewhere/run")
    assert (
        str(error.value)
        == "elsewhere/run is an adapter on bert, which does not exist; set CLEW_BASE to its present folder"
    )
    monkeypatch.setenv("CLEW_BASE", "copy")
    load_run("elsewhere/run", device="cpu")
    weights = read_weights(Path("copy") / WEIGHTS)
    write_weights(Path("copy") / WEIGHTS, {**weights, "output_bias": weights["output_bias"] + 1})
    with pytest.raises(
        UserError,
        match="elsewhere/run is an adapter on weights that copy no longer has .model.safetensors has another hash"
        r"\); restore them, or set",
    ):
        load_run("elsewhere/run")


def test_an_adapter_is_rejected_where_full_weights_are_needed(bert: Path, tmp_path: Path) -> None:
    classifier(tmp_path, bert, LORA)
    for setting in ("transfer.from=run", "embedding.from=run"):
        with pytest.raises(UserError, match="`clew runs merge run --out DIR` makes a run of"):
            run_recipe("classify", [*labelled_file(tmp_path), setting, *TINY], out=Path("other"))
    weights = read_weights(Path("run") / WEIGHTS)
    weights.pop("output.bias")
    write_weights(Path("run") / WEIGHTS, weights)
    with pytest.raises(UserError, match="does not fit the model that run/config.json describes: it lacks output.bias"):
        load_run("run")


def test_an_output_layer_with_other_labels_starts_anew(bert: Path, tmp_path: Path) -> None:
    classifier(tmp_path, bert, out="first")
    run = classifier(tmp_path, Path("first"))
    assert start_from(run.task, run.config)[0].endswith("; new: nothing")
    run.task.labels = Labels(["down", "up"])  # two labels, as in the source run
    assert start_from(run.task, run.config)[0].endswith("; new: output")


@pytest.mark.parametrize("more", [[], [LORA]], ids=["whole", "adapter"])
@pytest.mark.parametrize("kind", ["bert", "gpt"])
def test_two_texts_are_classified_as_a_pair(kind: str, more: list[str], tmp_path: Path) -> None:
    source = save_pretrained(tmp_path / kind, kind)
    settings = [f"transfer.from={source}", *labelled_file(tmp_path, pairs=True), *TINY, *more]
    run = run_recipe("finetune-classify", settings, out=Path("run")).run
    assert run.config.task.pooling == {"bert": "pooler", "gpt": "last"}[kind]  # type: ignore[attr-defined]
    assert run.config.text.tokenizer == {"bert": "wordpiece", "gpt": "word"}[kind]
    (prediction,) = run.classify([("the red fox is good", "a fox red")])
    assert prediction.label in ("good", "bad")
    if kind == "bert":
        (encoded,) = run.task.encode_texts([Labelled("the red fox", (), "a fox")])
        mark = run.tokenizer.id
        assert (encoded[0].tokens[0], encoded[0].tokens[-1]) == (mark("[CLS]"), mark("[SEP]"))
        assert encoded[0].tokens.count(mark("[SEP]")) == 2 and set(encoded[0].segments) == {0, 1}


@pytest.mark.parametrize(("kind", "pieces"), [("bert", "first"), ("bert", "mean"), ("elmo", "first")])
def test_a_pretrained_run_is_fine_tuned_for_tagging(kind: str, pieces: str, tmp_path: Path) -> None:
    source = save_pretrained(tmp_path / kind, kind)
    settings = [
        f"transfer.from={source}",
        *tagged_file(tmp_path),
        *TINY,
        f"task.pieces={pieces}",
        "training.steps=30",
        "training.evaluate_every=30",
    ]
    result = run_recipe("finetune-tag", settings, out=Path("run"))
    assert result.valid.measures["accuracy"] > 90
    assert [word.tag for word in result.run.tag("the red fox").words] == ["D", "A", "N"]


def test_a_pretrained_run_is_fine_tuned_for_regression(bert: Path, tmp_path: Path) -> None:
    names = 'data.label_map={"good": "4.5", "bad": "0.5"}'
    run = classifier(tmp_path, bert, names, "task.labels=number", "training.steps=40", "training.evaluate_every=40")
    good, bad = run.classify(["the red fox is good", "the red fox is bad"])
    assert good.number > bad.number


def test_a_language_model_is_fine_tuned_on_another_text(tmp_path: Path) -> None:
    source = save_pretrained(tmp_path / "gpt", "gpt")
    text = write_text(tmp_path, "the big owl is bad\n" * 40)
    settings = [f"transfer.from={source}", f"data.train={text}", *TINY, "training.length=8"]
    result = run_recipe("finetune-text", settings, out=Path("run"))
    assert result.run.tokenizer.hash == load_run(source, device="cpu").tokenizer.hash
    assert result.valid.loss < 3
    with pytest.raises(UserError, match="has no body.embedding.tokens.weight of the shape"):
        run_recipe("finetune-text", [*settings, "model.dim=16"], out=Path("wider"))


@pytest.mark.parametrize("more", [[], ["transfer.freeze=body"], [LORA]], ids=["tuned", "frozen", "adapter"])
def test_a_translator_has_a_pretrained_encoder(more: list[str], bert: Path, tmp_path: Path) -> None:
    pairs = write_text(tmp_path, "\n".join(f"the {pair}" for pair in PAIRS), "pairs.tsv")
    settings = [
        f"transfer.from={bert}",
        f"data.train={pairs}",
        "text.tokenizer=word",
        "text.size=null",
        "model.dim=8",
        "model.num_layers=1",
        "model.num_heads=2",
        "decoding.max_new=8",
        "training.batch_tokens=null",
        *TINY,
        *more,
    ]
    run = run_recipe("finetune-translate", settings, out=Path("run")).run
    (sides,) = run.task.encode([Pair("the red fox", "")])
    mark = run.vocabularies["source"].id
    assert (sides.source[0], sides.source[-1]) == (mark("[CLS]"), mark("[SEP]"))
    base = read_weights(bert / WEIGHTS)
    mine = {name.replace("body.encoder.", "body."): tensor for name, tensor in run.task.state_dict().items()}
    is_same = all(torch.equal(mine[name], base[name]) for name in base if name.startswith("body."))
    assert is_same == bool(more)
    if LORA not in more:
        shutil.rmtree(bert)
    loaded = load_run("run", device="cpu")
    assert loaded.translate("the red fox").text == run.translate("the red fox").text
    alignment = loaded.align("the red fox", "fox red")
    assert alignment.source.words == ["[CLS]", "the", "red", "fox", "[SEP]"]


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        (
            "finetune-classify",
            [],
            "finetune-classify needs transfer.from=RUN, a pre-trained run or an imported checkpoint",
        ),
        (
            "classify",
            ["transfer.freeze=body"],
            "transfer.freeze is for fine-tuning a run; give transfer.from=RUN, or leave it out",
        ),
        ("finetune-classify", ["transfer.from=nowhere"], "nowhere is not a run directory (it has no config.json); "),
        ("finetune-classify", [f"transfer.from={'x' * 10_000}"], f"{'x' * 50}"),
        ("finetune-classify", [f"transfer.from=a/{'x' * 10_000}/b"], "a/xxxxx"),
        ("finetune-classify", ["transfer.from=5"], "transfer.from takes a run's folder, not 5"),
        (
            "finetune-classify",
            ["transfer.from=bert", "transfer.adapter=lora", "transfer.freeze=1"],
            ("transfer.adapter freezes the whole base run, so transfer.freeze has no effect; give one of them"),
        ),
        (
            "finetune-classify",
            ["transfer.from=bert", "transfer.freeze=body", "transfer.unfreeze_every=5"],
            (
                "transfer.freeze=body leaves no block for transfer.unfreeze_every; freeze a number of blocks, or give"
                " one of them"
            ),
        ),
        (
            "finetune-classify",
            ["transfer.from=bert", "text.size=64"],
            "text.size is a setting of a new tokenizer, but transfer.from uses the base run's; leave it out",
        ),
        (
            "finetune-classify",
            ["transfer.from=bert", "transfer.weights=false", LORA],
            (
                "transfer.adapter needs the base run's weights, but transfer.weights=false does not load them; give"
                " one of them"
            ),
        ),
        (
            "finetune-classify",
            ["transfer.from=bert", "transfer.freeze=half"],
            (
                "transfer.freeze: what to freeze is embedding, body, or a number of the lowest blocks (0 for none), not"
                " 'half'"
            ),
        ),
        (
            "finetune-classify",
            ["transfer.from=bert", "transfer.adapter=lor"],
            "transfer.adapter: unknown adapter 'lor'; did you mean 'lora'?",
        ),
        (
            "translate",
            ["transfer.from=bert", "model.family=seq2seq"],
            "transfer.from gives a translator its encoder, which a seq2seq cannot use; set model.family=transformer",
        ),
        (
            "craft-parser",
            ["transfer.from=bert"],
            "transfer.from gives a translator its encoder, which the task parsing cannot use; leave",
        ),
        (
            "translate",
            ["transfer.from=bert", "data.directions=[de-en]"],
            (
                "data.directions marks each language with a token, which the encoder of transfer.from does not know;"
                " give one of them"
            ),
        ),
        (
            "translate",
            ["transfer.from=bert", "text.joint=true"],
            (
                "text.joint=true makes both sides share their tokens, but the encoder of transfer.from has its own"
                " tokens; leave it out"
            ),
        ),
    ],
)
def test_mistakes_are_reported_in_one_sentence(
    recipe: str, settings: list[str], sentence: str, bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        run_recipe(recipe, [*(labelled_file(tmp_path) if "classify" in recipe else []), *settings], out=Path("run"))
    assert str(error.value).startswith(sentence)
    assert not Path("run").exists()


def test_a_damaged_or_unsuitable_source_is_rejected(bert: Path, tmp_path: Path) -> None:
    (bert / WEIGHTS).unlink()
    with pytest.raises(
        UserError,
        match="model.safetensors is missing; the run has not reached its first evaluation, or was copied incompletely",
    ):
        config_of("finetune-classify", [f"transfer.from={bert}"])
    settings = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**settings, "seed": 7}))
    with pytest.raises(UserError, match="config.json has changed since it was written"):
        config_of("finetune-classify", [f"transfer.from={bert}"])
    pairs = write_text(tmp_path, "\n".join(PAIRS), "pairs.tsv")
    small = [
        f"data.train={pairs}",
        "text.tokenizer=word",
        "text.size=null",
        "model.dim=8",
        "model.num_heads=2",
        "model.num_layers=1",
        *TINY,
    ]
    run_recipe(
        "translate",
        [*small, "training.batch_tokens=null", "training.steps=1", "training.evaluate_every=1"],
        out=Path("pairs"),
    )
    with pytest.raises(
        UserError,
        match="transfer.from=pairs: a transformer reads a source and writes a target; use a run that reads one",
    ):
        config_of("finetune-classify", ["transfer.from=pairs"])


def test_an_adapter_is_merged_before_export(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = classifier(tmp_path, bert, LORA)
    exported: list[Run] = []

    def export(run: Run, folder: Path, options: object) -> None:
        exported.append(run)
        (folder / "file").write_text("")

    monkeypatch.setitem(EXPORTS, "seen", export)
    export_run(run, "seen", Path("out"))
    assert is_adapted(run.task) and not is_adapted(exported[0].task)
    batch = run.task.collate(run.task.encode([Labelled("the red fox is good", ("good",))]))
    torch.testing.assert_close(exported[0].task.logits(batch), run.task.logits(batch), atol=1e-5, rtol=1e-5)


def test_pooling_is_taken_from_the_source_run(bert: Path, tmp_path: Path) -> None:
    classifier(tmp_path, bert, "task.pooling=mean")
    config = config_of("finetune-classify", ["transfer.from=run", *labelled_file(tmp_path)])
    assert config.task.pooling == "mean"  # type: ignore[attr-defined]
    assert changes(config, Path("run")) == {
        "data.label": "label",
        "data.text": "sentence1",
        "data.train": config.data.train,
        "transfer.from": "run",
    }
    shutil.rmtree("run")
    gone = changes(config, Path("run"))
    assert gone is not None and "model.dim" not in gone and gone["transfer.from"] == "run"
