import json
import re
import shutil
from pathlib import Path

import pytest

import clew as library
from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.runs.small import bert_settings, write_text


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        run_recipe("text-bert", [*bert_settings(folder, steps=40), "training.learning_rate=0.01"], out=folder / "run")
    return folder / "run"


TEXT = "the ball of [MASK] was <mask>."


def test_guesses_are_written_as_lines_or_as_json(clew: Clew, bert: Path) -> None:
    result = clew("fill", bert, TEXT, "--top", "3")
    assert result.status == 0 and result.err == ""
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 6
    for mask in (rows[:3], rows[3:]):
        assert [float(row[0]) for row in mask] == sorted((float(row[0]) for row in mask), reverse=True)
    assert all(row[2].endswith("was <mask>.") and "[MASK]" not in row[2] for row in rows[:3])
    assert all(row[2].startswith("the ball of [MASK] was") and "<mask>" not in row[2] for row in rows[3:])
    (fields,) = (json.loads(line) for line in clew("predict", bert, TEXT, "--json").out.splitlines())
    assert [[guess["token"] for guess in mask[:3]] for mask in fields["masks"]] == [
        [row[1] for row in rows[:3]],
        [row[1] for row in rows[3:]],
    ]
    run = library.load(bert, device="cpu")
    filled, nothing = run.fill([TEXT, " "], top=1)
    assert str(filled) == fields["filled"] and nothing is None and len(filled.masks) == 2
    assert run.fill(TEXT).masks[0][0].probability == pytest.approx(fields["masks"][0][0]["probability"], abs=1e-6)


def test_lines_of_standard_input_and_of_files_are_filled(clew: Clew, bert: Path, tmp_path: Path) -> None:
    text = "she tied one [MASK] to the door.\n\nthe walls were tall.\tshe went [MASK].\n"
    by_stream = clew("fill", bert, "--top", "2", stdin=text)
    assert by_stream.status == 0
    blocks = by_stream.out.split("\n\n")
    assert [len(block.splitlines()) for block in blocks] == [2, 4, 0]  # the empty line belongs to the second block
    assert blocks[1].splitlines()[1].split("\t")[1:] == ["[follows]", "she went [MASK]."]
    file = write_text(tmp_path, text, "gaps [MASK].txt")
    assert clew("predict", bert, file, "--json").out == clew("fill", bert, "--file", file, "--json").out
    assert clew("predict", bert, stdin="a [MASK]\n").out == clew("fill", bert, stdin="a [MASK]\n").out
    pair = clew("fill", bert, "the walls were tall.", "--second", "she went in.")
    assert pair.out.endswith("\t[follows]\tshe went in.\n") and len(pair.out.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["the ball"], "text 1 has no [MASK]; write [MASK] in place of each word to guess"),
        (
            ["[MASK] " * 40],
            "text 1 has 42 tokens, special tokens included, but the model has only 32 positions; shorten it",
        ),
        (["[MASK]", "--top", "0"], "--top must be at least 1, not 0"),
        (["[MASK]", "--file", "x"], "texts are given both as arguments and with --file; leave one of them out"),
        (["--second", "x"], "--second names a column of a table; give the table with --file"),
        (
            ["a [MASK]", "b [MASK]", "--second", "x"],
            "--second works with one TEXT, but 2 were given; give one, or a file of both",
        ),
        (["--file", "nothing.txt"], "no such file: nothing.txt"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, bert: Path, words: list[str], message: str) -> None:
    result = clew("fill", bert, *words)
    assert result.status == 2 and message in result.err and len(result.err.splitlines()) == 1


def test_a_line_without_a_mask_is_reported_with_its_place(clew: Clew, bert: Path, tmp_path: Path) -> None:
    file = write_text(tmp_path, "a [MASK]\n\nthe ball\n", "gaps.txt")
    assert clew("fill", bert, "--file", file).err.startswith(
        f"clew: {file}, line 3 has no [MASK]; write [MASK] in place of"
    )
    assert clew("fill", bert, stdin="the ball\n").err.startswith("clew: standard input, line 1 has no [MASK]")
    assert clew("fill", bert, file).err == f"clew: {file} is a file, not a text; use --file {file} to read its lines\n"
    table = write_text(tmp_path, "one,two\na [MASK],she went in.\n,\nthe ball,\n", "gaps.csv")
    assert clew("fill", bert, "--file", table, "--text", "one").err.startswith(f"clew: {table}, record 3 has no [MASK]")


def test_a_second_text_is_given_by_option_or_by_column(clew: Clew, bert: Path, tmp_path: Path) -> None:
    by_word = clew("fill", bert, "the walls were tall.", "--second", "she went [MASK].", "--json").out
    table = write_text(tmp_path, "one,two\nthe walls were tall.,she went [MASK].\n", "pairs.csv")
    assert clew("fill", bert, "--file", table, "--text", "one", "--second", "two", "--json").out == by_word
    assert json.loads(by_word)["second"] == "she went [MASK]."


def test_each_verb_names_the_verb_that_fits_the_run(clew: Clew, bert: Path, lstm: Path) -> None:
    assert "which cannot fill; use `clew generate`" in clew("fill", lstm, "[MASK]").err
    assert "which cannot generate; use `clew fill`" in clew("generate", bert).err
    assert (
        f"no such file: nothing; to give a single text: clew fill {bert} nothing"
        in clew("predict", bert, "nothing").err
    )


def test_a_run_repeats_its_scores_and_scores_a_file(clew: Clew, bert: Path, tmp_path: Path) -> None:
    records = [json.loads(line) for line in (bert / "metrics.jsonl").read_text().splitlines()]
    (scores,) = (json.loads(line) for line in clew("evaluate", bert, "--json", "--device", "cpu").out.splitlines())
    best = {
        name.removeprefix("best.valid."): value for name, value in records[-1].items() if name.startswith("best.valid.")
    }
    assert {name: scores[name] for name in best} == pytest.approx(best, rel=1e-5)
    assert scores["next_sentence_accuracy"] <= 100 and scores["perplexity"] < scores["baseline_frequencies"]
    text = write_text(tmp_path, "the ball of thread was red.\nshe went in.\n\nthe walls were tall.\n")
    by_file, by_stream = clew("evaluate", bert, text), clew("evaluate", bert, "-", stdin=text.read_text())
    assert by_file.status == 0 and by_file.out.removeprefix(f"{text}: ") == by_stream.out.removeprefix("-: ")
    assert "next sentence: loss" in by_file.out
    alone = clew("evaluate", bert, write_text(tmp_path, "the ball of thread was red.\n"))
    assert alone.status == 0 and "next sentence" not in alone.out and "masked subword" in alone.out
    assert "--streams is for a language model's own text" in clew("evaluate", bert, "--streams", "2").err


@pytest.mark.slow
def test_other_verbs_accept_a_masked_language_model(clew: Clew, bert: Path, tmp_path: Path) -> None:
    described = clew("describe", "text-bert", *bert_settings(tmp_path)).out
    assert "MaskedLanguageModel" in described and described == clew("describe", bert).out
    assert "text-bert" in clew("runs", bert.parent).out
    probed = clew("probe", bert, "--corpus", "ewt-sample", "--limit", "20", "--json", "--device", "cpu")
    assert probed.status == 0 and '"level": "embedding"' in probed.out
    averaged = clew("average", bert, "--last", "2", "--out", tmp_path / "mean")
    assert averaged.status == 0 and clew("fill", tmp_path / "mean", "a [MASK]").status == 0


def test_embed_uses_the_trained_pooler(clew: Clew, bert: Path) -> None:
    (fields,) = (json.loads(line) for line in clew("embed", bert, "the ball", "--pooling", "pooler").out.splitlines())
    run = library.load(bert, device="cpu")
    assert fields["vector"] == pytest.approx(run.embed("the ball", pooling="pooler").tolist(), abs=1e-6)
    assert fields["vector"] != pytest.approx(run.embed("the ball", pooling="first").tolist(), abs=1e-3)


def test_a_run_is_not_accepted_as_a_recipe(clew: Clew, bert: Path) -> None:
    command = f"`clew train text-bert --out {bert} --resume`"
    message = f"clew: {bert} is a run, not a recipe; to resume it, call {command}\n"
    assert clew("train", bert, "--resume").err == clew("train", "--resume", bert).err == message
    with pytest.raises(UserError, match=rf"call `clew.train\('text-bert', out='{bert}', resume=True\)`$"):
        library.train(str(bert))


def test_the_code_of_the_guide_runs(clew: Clew, bert: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "pretraining.md").read_text(encoding="utf-8")
    shutil.copytree(bert, "runs/shakespeare-bert")
    exec(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[-1], {})
    *guesses, follows = capsys.readouterr().out.splitlines()
    assert len(guesses) == 3 and 0 <= float(follows) <= 1
