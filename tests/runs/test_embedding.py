"""Runs that embed words with another run, with vectors from a file, or with their characters."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import clew
from clew.core.errors import UserError
from clew.instruments.looking import look
from clew.layers.context import Context, levels_in_windows
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.embedding import BorrowedBody, check_reads_one_sequence
from clew.runs.folder.run_files import WEIGHTS, read_metrics
from clew.runs.loaded import Run
from tests.runs.small import gpt_settings, lstm_settings, save_many_languages, write_text

TAGGED = (
    "the D\nball N\nof P\nthread N\n\nshe P\ntied V\nit P\n\ntall A\nwalls N\n\nthe D\nend N\n\nred A\nthread N\nwas"
    " V\nsmall A\n\n"
)
TAGGER = [
    "data.words=1",
    "data.tags=2",
    "text.min_count=1",
    "model.dim=8",
    "model.embedding_dim=8",
    "embedding.dim=4",
    "embedding.characters=null",
    "training.steps=4",
    "training.batch_size=2",
    "training.learning_rate=0.01",
    "training.schedule=constant",
    "training.evaluate_every=2",
    "device=cpu",
]
SENTENCES = [["the", "red", "ball"], ["unheard-of"], ["walls", "was"]]


def train_tagger(folder: Path, name: str, settings: Sequence[str]) -> Run:
    file = write_text(folder, TAGGED, "tags.conll")
    return run_recipe("tag", [f"data.train={file}", f"data.valid={file}", *TAGGER, *settings], out=folder / name).run


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Language models of characters, of words and of subwords."""
    folder = tmp_path_factory.mktemp("sources")
    words = ["text.tokenizer=word", "model.num_layers=2", "model.embedding_dim=16"]
    pieces = ["text.tokenizer=bpe", "text.size=300", "model.num_layers=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        run_recipe("text-lstm", lstm_settings(folder, steps=2), out=folder / "characters")
        run_recipe("text-lstm", [*lstm_settings(folder, steps=2), *words], out=folder / "words")
        run_recipe("text-gpt", [*gpt_settings(folder, steps=2), *pieces], out=folder / "pieces")
    return {kind: folder / kind for kind in ("characters", "words", "pieces")}


def body_of(folder: Path) -> dict[str, Tensor]:
    weights = load_file(folder / WEIGHTS)
    return {name.removeprefix("body."): weight for name, weight in weights.items() if name.startswith("body.")}


def context_of(run: Run) -> Context:
    return next(part for part in run.task.body.embedding.parts if isinstance(part, Context))


@pytest.mark.parametrize(("kind", "levels"), [("characters", [1]), ("words", [0, 1, 2]), ("pieces", [0, 2, 4])])
def test_weights_of_the_source_run_are_frozen_unless_tuned(
    sources: dict[str, Path], tmp_path: Path, kind: str, levels: list[int]
) -> None:
    """The mixed levels have the width of the last one, and each is the end of a block."""
    before = body_of(sources[kind])
    frozen = context_of(train_tagger(tmp_path, "frozen", [f"embedding.from={sources[kind]}"]))
    assert frozen.chosen == levels
    assert all(torch.equal(weight, before[name]) for name, weight in frozen.body.state_dict().items())
    assert any(frozen.mix.scalars) == (len(levels) > 1)  # type: ignore[call-overload]
    tuned = context_of(train_tagger(tmp_path, "tuned", [f"embedding.from={sources[kind]}", "embedding.tune_from=true"]))
    assert not any(torch.equal(weight, before[name]) for name, weight in tuned.body.state_dict().items())


@pytest.mark.parametrize(
    ("mix", "width"), [("learned", 16), ("second_to_last", 16), ("sum_last_four", 16), ("join_last_four", 48)]
)
def test_a_run_can_read_only_the_vectors_of_another(
    sources: dict[str, Path], tmp_path: Path, mix: str, width: int
) -> None:
    settings = [
        f"embedding.from={sources['words']}",
        "embedding.words=false",
        "embedding.dim=null",
        f"embedding.mix={mix}",
    ]
    run = train_tagger(tmp_path, mix, settings)
    embedding = run.task.body.embedding
    assert embedding.tokens is None and embedding.map.in_features == width
    (layer,) = look(run, "cost", {"lengths": [4], "repeats": 0}).facts["layers"]
    assert layer["flops"] == layer["formula"]
    (known, unknown), (changed, _) = run.task.tag([["the", "ball"], ["tall", "ball"]])
    assert known != changed


def test_a_run_needs_no_source_run_after_training(sources: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(sources["pieces"], tmp_path / "source")
    settings = [f"embedding.from={tmp_path / 'source'}", "embedding.tune_from=true"]
    run = train_tagger(tmp_path, "run", settings)
    expected = run.task.tag(SENTENCES)
    stored = json.loads((tmp_path / "run" / "vocabulary" / "context.json").read_text(encoding="utf-8"))
    assert stored["config"]["model"]["family"] == "gpt"
    shutil.rmtree(tmp_path / "source")
    assert clew.load(tmp_path / "run", device="cpu").task.tag(SENTENCES) == expected


def test_a_run_with_borrowed_embeddings_resumes_bit_for_bit(sources: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(sources["words"], tmp_path / "source")
    settings = [f"embedding.from={tmp_path / 'source'}", "embedding.tune_from=true", "embedding.dropout=0.3"]
    train_tagger(tmp_path, "whole", settings)
    train_tagger(tmp_path, "part", [*settings, "training.steps=2"])
    shutil.rmtree(tmp_path / "source")
    run_recipe("tag", ["training.steps=4"], out=tmp_path / "part", resume=True)
    whole, part = (load_file(tmp_path / name / WEIGHTS) for name in ("whole", "part"))
    assert whole.keys() == part.keys()
    assert all(torch.equal(weight, part[name]) for name, weight in whole.items())


def test_a_classifier_and_its_source_run_read_two_texts_jointly(sources: dict[str, Path], tmp_path: Path) -> None:
    rows = "\n".join(
        f"{a} {b}\tthe {a}\t{label}"
        for a, label in (("ball", "yes"), ("wall", "no"))
        for b in ("is red", "was", "ends")
    )
    file = write_text(tmp_path, "a\tb\tlabel\n" + rows, "pairs.tsv")
    settings = [
        "data.text=a",
        "data.second=b",
        "data.label=label",
        f"embedding.from={sources['words']}",
        "model.dim=8",
        "text.min_count=1",
    ]
    training = [
        "training.steps=2",
        "training.batch_size=2",
        "training.schedule=constant",
        "training.evaluate_every=2",
        "device=cpu",
    ]
    run = run_recipe(
        "classify", [f"data.train={file}", f"data.valid={file}", *settings, *training], out=tmp_path / "run"
    ).run
    reader = run.task.reader
    first, second = reader.encode([["the", "ball"], ["door"]])
    joined = reader.joined(first, second)
    assert joined.context is not None
    words_read = [reader.context.tokenizer.token(joined.context.tokens[start]) for start in joined.context.starts]
    assert words_read == ["the", "ball", "<eos>", "door"] and len(joined.tokens) == 4
    assert run.task.classify([("ball is red", "the ball")])[0].labels[0] in ("yes", "no")


def test_a_borrowed_tagger_reads_no_line_ends(sources: dict[str, Path], tmp_path: Path) -> None:
    train_tagger(tmp_path, "tagger", ["embedding.characters=cnn", "embedding.characters_dim=4"])
    above = train_tagger(tmp_path, "above", [f"embedding.from={tmp_path / 'tagger'}"])
    assert len(above.task.reader.encode([["the", "ball"]])[0].context.tokens) == 2
    source = BorrowedBody.of_run(sources["words"])
    assert source.is_running and not above.vocabularies["context"].is_running
    reader = above.task.reader
    joined = reader.joined(*reader.encode([["the", "ball"], ["door"]]))
    # The separator takes one position in both runs.
    assert joined.context.starts == [0, 1, 2, 3] and len(joined.context.tokens) == 4
    with pytest.raises(UserError, match=r"above itself reads .*tagger; give embedding.from=.*tagger"):
        BorrowedBody.of_run(tmp_path / "above")


def test_a_sentence_longer_than_the_source_context_is_read_in_windows(sources: dict[str, Path], tmp_path: Path) -> None:
    run = train_tagger(tmp_path, "run", [f"embedding.from={sources['pieces']}"])
    context = context_of(run)
    words = ["the", "walls", "were", "tall"] * context.body.max_length
    assert len(run.task.reader.encode([words])[0].context.tokens) > context.body.max_length
    assert len(run.task.tag([words])[0]) == len(words)
    tokens = torch.arange(2 * context.body.max_length + 3)[None] % 7
    whole = levels_in_windows(context.body, tokens, None)[-1]
    torch.testing.assert_close(whole[:, -3:], context.body.levels(tokens[:, -3:])[-1])


def test_a_run_without_a_checkpoint_restarts_from_its_vectors(tmp_path: Path) -> None:
    file = write_text(tmp_path, "the 1 2 3 4\nball 5 6 7 8\n", "vectors.txt")
    settings = [f"embedding.vectors={file}", "training.learning_rate=1e-30"]
    run = train_tagger(tmp_path, "run", settings)
    shutil.rmtree(run.folder / "checkpoints")
    tags = tmp_path / "tags.conll"
    again = run_recipe(
        "tag", [f"data.train={tags}", f"data.valid={tags}", *TAGGER, *settings], out=run.folder, resume=True
    ).run
    row = again.tokenizer.id("ball")
    assert again.task.body.embedding.weight[row].tolist() == [5, 6, 7, 8]


def test_unsuitable_sources_and_settings_are_rejected(sources: dict[str, Path], tmp_path: Path) -> None:
    file = write_text(tmp_path, TAGGED, "tags.conll")
    save_many_languages(tmp_path / "translator")

    def refusal(*settings: str, recipe: str = "tag") -> str:
        with pytest.raises(UserError) as error:
            run_recipe(
                recipe, [f"data.train={file}", *(TAGGER if recipe == "tag" else []), *settings], out=tmp_path / "run"
            )
        return str(error.value)

    assert f"{tmp_path / 'nowhere'} " in refusal(f"embedding.from={tmp_path / 'nowhere'}")
    message = refusal(f"embedding.from={tmp_path / 'translator'}")
    assert (
        "a seq2seq reads a source and writes a target; use a run that reads one sequence, such as a language model's"
        in message
    )
    message = refusal(f"embedding.from={sources['words']}", "text.tokenizer=word", recipe="text-lstm")
    assert (
        message
        == "embedding.from is for tasks that read sentences, such as tagging and classification; language_model reads"
        " running text"
    )
    assert refusal(f"embedding.from={sources['words']}", "text.tokenizer=bpe") == (
        "the section embedding needs words as tokens, not text.tokenizer=bpe; set text.tokenizer=word, or leave the"
        " section out: embedding.characters=null embedding.dim=null"
    )
    assert refusal("embedding.characters=cnn", recipe="tatoeba-lstm") == (
        "the section embedding is for models that read one sequence, and a seq2seq reads two; leave it out"
    )
    assert refusal("embedding.words=false", "embedding.characters=cnn", "embedding.dim=4") == (
        "embedding.vectors and embedding.dim configure the word table, which embedding.words=false disables; leave them"
        " out"
    )
    assert (
        "embedding.words=false leaves no input vectors for words"
        "; add embedding.characters=cnn or embedding.from=RUN" in refusal("embedding.words=false", "embedding.dim=null")
    )
    assert "embedding.mix: unknown mix 'lerned'; did you mean 'learned'?" in refusal("embedding.mix=lerned")
    with pytest.raises(UserError, match="a run: a tree_lstm reads trees; use a run that reads one sequence"):
        check_reads_one_sequence(config_of("gum-tree-lstm"), "a run")
    with pytest.raises(UserError, match="a run: a graph_lstm reads a graph; use a run that reads one sequence"):
        check_reads_one_sequence(config_of("label-nodes"), "a run")
    assert not (tmp_path / "run").exists()


def test_words_of_a_vector_file_are_known_and_can_be_frozen(tmp_path: Path) -> None:
    file = write_text(tmp_path, "the 1 2 3\nzebra 4 5 6\nball 7 8 9\n", "vectors.txt")
    settings = [f"embedding.vectors={file}", "embedding.dim=null"]
    frozen = train_tagger(tmp_path, "frozen", [*settings, "embedding.tune=false"])
    tokenizer, table = frozen.tokenizer, frozen.task.body.embedding.weight
    assert table[[tokenizer.id(word) for word in ("zebra", "the")]].tolist() == [[4, 5, 6], [1, 2, 3]]
    tuned = train_tagger(tmp_path, "tuned", settings)
    assert tuned.task.body.embedding.weight[tokenizer.id("the")].tolist() != [1, 2, 3]
    file.unlink()
    assert clew.load(tmp_path / "frozen", device="cpu").task.tag(SENTENCES) == frozen.task.tag(SENTENCES)
    later = config_of("finetune-tag", [f"transfer.from={tmp_path / 'frozen'}"])
    assert (later.embedding.vectors, later.embedding.dim, later.embedding.tune) == (None, 3, False)  # type: ignore[attr-defined]


def test_vectors_of_another_width_are_rejected_with_their_line(tmp_path: Path) -> None:
    file = write_text(tmp_path, "the 1 2 3\nball 7 8\n", "vectors.txt")
    with pytest.raises(
        UserError, match=r"vectors.txt:2: expected a word and 3 numbers, as on the first line, found 2 numbers"
    ):
        train_tagger(tmp_path, "run", [f"embedding.vectors={file}", "embedding.dim=null"])
    with pytest.raises(
        UserError,
        match=(
            r"embedding.dim \(4\) is not the width of the vectors in .*vectors.txt, which is 3; set embedding.dim=null"
        ),
    ):
        train_tagger(tmp_path, "run", [f"embedding.vectors={file}"])


@pytest.mark.parametrize("characters", ["cnn", "lstm"])
def test_a_word_language_model_learns_from_characters(
    tmp_path: Path, characters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    settings = [
        "text.tokenizer=word",
        "embedding.words=false",
        f"embedding.characters={characters}",
        "embedding.characters_dim=8",
    ]
    arguments = [*lstm_settings(tmp_path, steps=28), *settings, "training.learning_rate=0.03"]
    run_recipe("text-lstm", arguments, out=tmp_path / "run")
    losses = [record["valid.loss"] for record in read_metrics(tmp_path / "run") if "valid.loss" in record]
    assert losses[-1] < losses[0] - 0.5
    assert clew.load(tmp_path / "run", device="cpu").score("the red thread").log_probs
