"""A mistake on the command line gives one line on standard error, exit code 2, no traceback and no standard output."""

import os
import shutil
from pathlib import Path

import pytest

from clew.cli.verbs import VERBS
from clew.core.errors import few_of
from clew.models import MODELS
from tests.cli.conftest import Clew, Outcome
from tests.runs.small import gpt_settings, lstm_settings, write_text

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-1"


def assert_refused(result: Outcome, sentence: str) -> None:
    assert result.err.startswith(f"clew: {sentence}"), result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
    assert result.status == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], f"unknown verb 'trian'; did you mean 'train'? known: {few_of(sorted(VERBS))}"),
        (["generat"], "unknown verb 'generat'; did you mean 'generate'? known: "),
        (["frobnicate"], "unknown verb 'frobnicate'; known: "),
        (["search", "text-lstm"], "unknown verb 'search'; did you mean `clew train RECIPE --search 20`?"),
        (["--verbose"], "unrecognized arguments: --verbose; `clew --help` shows how"),
        (["train"], "the following arguments are required: RECIPE; `clew train --help` shows how"),
        (["train", "shakespear-lstm"], "unknown recipe 'shakespear-lstm'; did you mean 'shakespeare-lstm'?"),
        (
            ["train", "text-lstm", "--out", "x", "--bogus"],
            "unrecognized arguments: --bogus; `clew train --help` shows how",
        ),
        (
            ["train", "text-lstm", "--steps", "10"],
            "unrecognized arguments: --steps 10; did you mean training.steps=10? `clew train --help` shows how",
        ),
        (
            ["train", "text-lstm", "--lr=0.1"],
            "unrecognized arguments: --lr=0.1; did you mean training.learning_rate=0.1?",
        ),
        (
            ["train", "text-lstm", "--batch-size", "8"],
            "unrecognized arguments: --batch-size 8; did you mean training.batch_size=8?",
        ),
        (["train", "text-lstm", "--output", "x"], "unrecognized arguments: --output x; did you mean --out?"),
        (["generate", "x", "--temprature", "1"], "unrecognized arguments: --temprature 1; did you mean --temperature?"),
        (["train", "text-lstm", "training.stepps=5"], "unknown field 'stepps' of training; did you mean 'steps'?"),
        (["train", "text-lstm", "training.steps=soon"], "training.steps takes a whole number, not 'soon'"),
        (
            ["train", "text-lstm", "model.family=recurent"],
            f"model: unknown model family 'recurent'; did you mean 'recurrent'? known: {few_of(sorted(MODELS))}; add"
            " your own with --code\n",
        ),
        (["train", "text-lstm", "model.cell=lsmt"], "model.cell: unknown cell 'lsmt'; did you mean 'lstm'?"),
        (
            ["train", "text-lstm", "training.optimiser=adm"],
            "unknown optimiser 'adm'; did you mean 'adam'? known: adagrad, adam, adamw, sgd",
        ),
        (["train", "text-lstm", "training.schedule=cosin"], "unknown schedule 'cosin'; did you mean 'cosine'?"),
        (
            ["train", "text-lstm", "training.schedule.warmup=-1"],
            "the schedule's warmup (-1) must be at least 0; set training.schedule.warmup",
        ),
        (
            ["train", "text-lstm"],
            "there is no training data; name your text with data.train, e.g. `clew train text-lstm",
        ),
        (
            ["train", "text-lstm", "data.train=[a.txt,b.txt]"],
            "data.train is a list, but a text is one file or folder; put its files into a folder",
        ),
        (
            ["train", "classify-trees", "data.corpus=tinyshakespeare"],
            "the corpus tinyshakespeare holds running text; this task reads trees with labels, such as gum-trees",
        ),
        (["train", "mine.yaml"], "no such file: mine.yaml; a recipe is a name from `clew recipes` or a YAML file"),
        (["train", "text-lstm", "device=gpu"], "device must be one of 'auto', 'cpu', 'cuda' or 'mps', not 'gpu'"),
        (["recipes", "text-lsmt"], "unknown recipe 'text-lsmt'; did you mean 'text-lstm'?"),
        (
            ["describe", "text-lsmt"],
            (
                "text-lsmt is neither a run directory nor a recipe; did you mean 'text-lstm'? `clew recipes` lists the"
                " recipes"
            ),
        ),
        (
            ["generate", "runs/none"],
            (
                "runs/none is not a run directory (it has no config.json); train one first, e.g. `clew train"
                " shakespeare-lstm`"
            ),
        ),
        (["evaluate", "."], ". is not a run directory (it has no config.json)"),
        (["generate"], "the following arguments are required: RUN; `clew generate --help` shows how"),
        (
            ["runs", "comprae", "A", "B"],
            "unrecognized arguments: A B; did you mean `clew runs compare`? `clew runs --help` shows how",
        ),
        (
            ["runs", "lst"],
            "no such folder: lst; give the folder that contains your runs; did you mean `clew runs list`?",
        ),
        (["vectors", "neighbors", "x"], "unrecognized arguments: x; did you mean `clew vectors neighbours`?"),
        (["train", "text-lstm", "--code", "none.py"], "no such file: none.py; --code takes the path of a Python file"),
    ],
)
def test_misspelt_commands_are_reported_in_one_line(clew: Clew, arguments: list[str], sentence: str) -> None:
    assert_refused(clew(*arguments), sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["the", "--method", "bem"], "argument --method: invalid choice: 'bem'"),
        (["the", "--max-new", "many"], "argument --max-new: invalid int value: 'many'"),
        (["the", "--max-new", "0"], "--max-new must be at least 1, not 0"),
        (["the", "--temperature", "0"], "--temperature must be above 0, not 0.0"),
        (["the", "--temperature", "nan"], "--temperature"),
        (["the", "--top-p", "1.5"], "--top-p must be at most 1, not 1.5"),
        (["the", "--samples", "0"], "--samples must be at least 1, not 0"),
        (
            ["the", "--method", "greedy", "--beams", "2"],
            "--beams is for beam search, and --method is greedy; leave one of them out",
        ),
        (
            ["the", "--method", "beam", "--samples", "2"],
            "--samples is for sampling, and --method is beam, which writes the same text each",
        ),
        (["the", "the", "the %"], "text 3: the prompt has characters the model has never seen: '%' (U+0025)"),
        (["the %"], "the prompt has characters the model has never seen: '%' (U+0025); it knows"),
        (["the", "she \udc80"], "text 2: character 5 of the prompt (U+DC80) is half a character; give it as UTF-8"),
        (["--file", "none.txt"], "no such file: none.txt"),
        (["--file", "-"], "standard input has no line to continue"),
    ],
)
def test_mistakes_in_generating_are_reported_in_one_line(
    clew: Clew, lstm: Path, arguments: list[str], sentence: str
) -> None:
    assert_refused(clew("generate", lstm, *arguments), sentence)


def test_a_prompt_longer_than_the_positions_is_rejected(clew: Clew, gpt: Path) -> None:
    result = clew("generate", gpt, "the thread " * 4)
    assert_refused(
        result,
        "the prompt has 44 tokens, but the model has only 32 positions; shorten it, or train with a larger"
        " model.max_length",
    )


def test_a_missing_text_is_reported_with_a_similar_name(clew: Clew, tmp_path: Path) -> None:
    write_text(tmp_path, name="story.txt")
    assert_refused(
        clew("train", "text-lstm", "data.train=storry.txt"), "no such file: storry.txt; near it there is story.txt"
    )


def test_an_empty_text_is_rejected(clew: Clew, tmp_path: Path) -> None:
    write_text(tmp_path, "", "empty.txt")
    assert_refused(
        clew("train", "text-lstm", "data.train=empty.txt"), "empty.txt: the file is empty; give one with text in it"
    )


def test_text_that_is_not_utf8_is_rejected_with_its_position(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "mixed.txt").write_bytes("öne\n".encode() + "café\n".encode("latin1"))
    assert_refused(
        clew("train", "text-lstm", "data.train=mixed.txt"),
        "mixed.txt: byte 0xe9 at offset 8 (line 2) is not UTF-8; set",
    )


@pytest.mark.parametrize(
    ("recipe", "settings", "sentence"),
    [
        (
            "text-lstm",
            lstm_settings,
            (
                "the text has 18 tokens, 4 for each of 4 streams, fewer than one chunk of 16; give more text or set"
                " training.batch_size=1"
            ),
        ),
        (
            "text-gpt",
            gpt_settings,
            (
                "the text has 18 tokens, fewer than one window of 64 and the token after it; give more text or set"
                " training.length=8"
            ),
        ),
    ],
)
def test_text_shorter_than_one_window_is_rejected(
    clew: Clew, tmp_path: Path, recipe: str, settings, sentence: str
) -> None:
    arguments = [*settings(tmp_path), *(["training.length=64", "model.max_length=64"] if recipe == "text-gpt" else [])]
    write_text(tmp_path, "twenty characters at", "story.txt")
    result = clew("train", recipe, *arguments, "--out", "run")
    assert result.status == 2 and result.err.splitlines()[-1].startswith(f"clew: {sentence}")
    assert "Traceback" not in result.err and not Path("run").exists()


def test_a_run_of_an_unknown_format_is_rejected(clew: Clew, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    write_text(tmp_path / "old", '{"format": 0, "recipe": "text-lstm"}', "config.json")
    for verb in ("generate", "evaluate", "describe"):
        assert_refused(
            clew(verb, "old"),
            "old/config.json is of format 0, but this clew reads formats 1 to 3; use the version of clew that wrote it",
        )


def test_a_checkpoint_of_an_unknown_format_is_rejected(clew: Clew, tmp_path: Path) -> None:
    from clew.core.files import file_hash, read_json, write_json

    assert clew("train", "text-lstm", *lstm_settings(tmp_path, steps=2), "--out", "run").status == 0
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000002"
    write_json(checkpoint / "training.json", {**read_json(checkpoint / "training.json"), "format": 99})
    manifest = read_json(checkpoint / "manifest.json")
    write_json(checkpoint / "manifest.json", {**manifest, "training.json": file_hash(checkpoint / "training.json")})
    result = clew("train", "text-lstm", "--out", "run", "--resume")
    assert result.status == 2
    assert result.err.splitlines()[-1].startswith(
        "clew: run/checkpoints/step-00000002/training.json is of format 99, but this clew reads formats 1 to 3"
    )


def test_an_existing_run_is_not_overwritten(clew: Clew, tmp_path: Path) -> None:
    arguments = lstm_settings(tmp_path, steps=2)
    assert clew("train", "text-lstm", *arguments, "--out", "run").status == 0
    again = clew("train", "text-lstm", *arguments, "--out", "run")
    assert_refused(
        again,
        "run is a run already; resume it with --resume, replace it with --overwrite, or choose another folder",
    )
    write_text(tmp_path, "a letter", "letter.txt")
    assert_refused(
        clew("train", "text-lstm", *arguments, "--out", "letter.txt"),
        "letter.txt exists and is not an empty folder; choose another with --out",
    )


def test_a_read_only_folder_is_rejected(clew: Clew, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (tmp_path / "locked").mkdir(mode=0o500)
    result = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=2), "--out", "locked/run")
    assert result.status == 2
    assert (
        result.err.splitlines()[-1]
        == "clew: cannot write the run to locked/run: Permission denied; choose another folder with --out"
    )


def test_a_folder_inside_a_file_is_rejected(clew: Clew, tmp_path: Path) -> None:
    result = clew("train", "text-lstm", *lstm_settings(tmp_path, steps=2), "--out", "story.txt/run")
    assert result.status == 2
    assert (
        result.err.splitlines()[-1]
        == "clew: cannot write the run to story.txt/run: Not a directory; choose another folder with --out"
    )


def test_settings_cannot_override_a_run(clew: Clew, lstm: Path) -> None:
    result = clew("describe", lstm, "model.dim=3")
    assert_refused(result, f"settings override recipes only, and {lstm} is a run; leave model.dim=3 out")


def test_the_number_of_streams_is_at_least_one(clew: Clew, lstm: Path) -> None:
    assert_refused(clew("evaluate", lstm, "--streams", 0), "--streams (0) must be at least 1")


def test_text_of_one_character_cannot_be_scored(clew: Clew, lstm: Path) -> None:
    result = clew("evaluate", lstm, "-", stdin="t")
    assert_refused(result, "a text needs at least 2 tokens to be scored, one to read and one to predict; found 1")


def test_standard_input_that_is_not_utf8_is_rejected(clew: Clew, lstm: Path) -> None:
    assert_refused(
        clew("evaluate", lstm, "-", stdin="the \udcff end"),
        "standard input is not UTF-8 at position 4; convert the text first",
    )
    assert_refused(
        clew("predict", lstm, "-", stdin="the \udcff end"),
        "standard input, line 1: byte 5 is not UTF-8; convert the text first",
    )


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("x = 1\nraise KeyError('thread')\n", "mine.py:2: KeyError: 'thread'"),
        ("def f(:\n", "mine.py:1: SyntaxError: "),
        ("import nothing_of_that_name\n", "mine.py:1: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    ],
)
def test_errors_in_user_code_are_reported_in_one_line_with_their_place(
    clew: Clew, tmp_path: Path, source: str, sentence: str
) -> None:
    write_text(tmp_path, source, "mine.py")
    assert_refused(clew("recipes", "--code", "mine.py"), sentence)
    write_text(tmp_path, source, "mine.txt")
    assert_refused(
        clew("recipes", "--code", "mine.txt"), "mine.txt is not a Python file; --code takes one that ends in .py"
    )


def test_a_bug_in_clew_is_named_as_one_and_debug_shows_the_traceback(
    clew: Clew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.recipes import RECIPES

    monkeypatch.setitem(RECIPES, "broken", None)
    result = clew("recipes")
    assert result.status == 1
    assert result.err.startswith(
        "clew: this is a bug in clew or in your own code: AttributeError: "
    ) and result.err.endswith("--debug shows the traceback\n")
    with pytest.raises(AttributeError):
        clew("recipes", "--debug")


def test_names_in_suggested_commands_are_quoted(clew: Clew, tmp_path: Path) -> None:
    """A name that contains a command is not executed when the suggestion is pasted into a shell."""
    name = "a;touch x"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    assert f"`clew import '{name}'` converts it to a run" in clew("describe", name).err
    shutil.copytree(FROZEN / "language_model_code" / "run", tmp_path / "b;touch y")
    assert "and pass --code 'b;touch y/code.py'" in clew("generate", "b;touch y").err
    shutil.copytree(FROZEN / "classification_adapter" / "run", tmp_path / "c;touch z")
    (tmp_path / "x.conll").write_text("".join(f"a{n} N{n % 2}\n\n" for n in range(20)), encoding="utf-8")
    result = clew(
        "train",
        "tag",
        "data.train=x.conll",
        "data.words=1",
        "data.tags=2",
        "text.min_count=1",
        "embedding.from=c;touch z",
    )
    assert "`clew runs merge 'c;touch z' --out DIR` makes a run of both" in result.err


def test_a_misspelt_run_suggests_a_near_one(clew: Clew, lstm: Path) -> None:
    misspelt = lstm.with_name(f"{lstm.name}s")
    result = clew("generate", misspelt, "a")
    assert_refused(
        result, f"{misspelt} is not a run directory (it has no config.json); did you mean {lstm}? runs here:"
    )
