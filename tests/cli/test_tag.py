"""`clew tag`, and training and evaluation of taggers from the command line."""

import json
import re
from pathlib import Path

import pytest

from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

CONLL = "".join(
    f"{name} NNP B-PER\nleft VBD O\n{town} NNP B-LOC\n{town} NNP I-LOC\n. . O\n\n"
    for name in ("Ada", "Bo", "Cy")
    for town in ("Rome", "Oslo")
)
SMALL = ["model.dim=16", "text.min_count=1", "training.schedule=constant", "training.learning_rate=0.02", "device=cpu"]
TEXT = "Ada didn't leave  Rome.\n\n Bo left\t!\n"


@pytest.fixture(scope="module")
def taggers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tagger of names and a tagger of parts of speech, trained for a few steps."""
    folder = tmp_path_factory.mktemp("taggers")
    (folder / "names.conll").write_text(CONLL, encoding="utf-8")
    settings = [f"data.train={folder / 'names.conll'}", "embedding.dim=8", "embedding.characters_dim=8", *SMALL]
    run_recipe("tag", [*settings, "training.steps=30", "training.evaluate_every=30"], out=folder / "names")
    run_recipe("tag", [*settings, "data.tags=2", "training.steps=2", "training.evaluate_every=2"], out=folder / "parts")
    return {"names": folder / "names", "parts": folder / "parts"}


@pytest.fixture
def names(taggers: dict[str, Path]) -> Path:
    return taggers["names"]


def test_words_have_one_line_each_and_sentences_end_with_an_empty_line(clew: Clew, names: Path) -> None:
    result = clew("tag", names, stdin=TEXT)
    assert result.status == 0 and result.err == ""
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[0] for row in rows] == ["Ada", "did", "n't", "leave", "Rome", ".", "", "", "Bo", "left", "!", ""]
    assert all(len(row) == 3 and 0 < float(row[2]) <= 1 for row in rows if row != [""])
    spaced = clew("tag", names, "--tokenised", stdin=TEXT).out
    assert [line.split("\t")[0] for line in spaced.splitlines()] == [
        "Ada",
        "didn't",
        "leave",
        "Rome.",
        "",
        "",
        "Bo",
        "left",
        "!",
        "",
    ]


def test_every_format_gives_characters_of_the_original_line(clew: Clew, names: Path) -> None:
    objects = [json.loads(line) for line in clew("tag", names, "--json", stdin=TEXT).out.splitlines()]
    assert [each["line"] for each in objects] == [1, 2, 3] and [each["text"] for each in objects] == TEXT.splitlines()
    assert objects[1]["words"] == objects[1]["spans"] == []
    assert objects[0]["spans"], "nothing was found to be a name"
    for each in objects:
        for part, name in [*((word, "word") for word in each["words"]), *((span, "text") for span in each["spans"])]:
            assert each["text"][part["start"] : part["stop"]] == part[name]
    spans = clew("tag", names, "--format", "spans", stdin=TEXT).out.split("\n\n")
    shown = [[span["label"], span["text"], str(span["start"]), str(span["stop"])] for span in objects[0]["spans"]]
    assert [line.split("\t") for line in spans[0].splitlines()] == shown
    inline = clew("tag", names, "--format", "inline", stdin=TEXT).out.splitlines()
    assert [re.sub(r"\[[A-Z]+ ([^]]*)\]", r"\1", line) for line in inline] == TEXT.splitlines()
    assert inline[0].count("[") == len(shown)


def test_inline_format_puts_tags_after_single_words(clew: Clew, taggers: dict[str, Path]) -> None:
    run = taggers["parts"]
    assert re.fullmatch(
        r"Ada/\S+ did/\S+ n't/\S+ leave/\S+  Rome/\S+ \./\S+",
        clew("tag", run, "--format", "inline", stdin=TEXT).out.split("\n")[0],
    )
    assert_refused(
        clew("tag", run, "--format", "spans", stdin=TEXT),
        "the format spans needs phrase tags, such as B-PER, and this run tags single words; use --format conll or ",
    )


def test_files_standard_input_and_predict_give_the_same_tags(clew: Clew, names: Path) -> None:
    Path("text.txt").write_text("\ufeff" + TEXT.replace("\n", "\r\n"), encoding="utf-8")
    piped = clew("tag", names, stdin=TEXT).out
    assert clew("tag", names, "--file", "text.txt").out == piped == clew("predict", names, "text.txt").out
    assert clew("predict", names, "--json", stdin=TEXT).out == clew("tag", names, "--format", "json", stdin=TEXT).out
    assert clew("tag", names, "--file", "text.txt", "--out", "tags.conll").out == ""
    assert Path("tags.conll").read_text(encoding="utf-8") == piped
    assert clew("tag", names, stdin="") == (0, "", "")


def test_sentences_can_be_arguments(clew: Clew, names: Path) -> None:
    assert (
        clew("tag", names, "Ada sees Bo.", "it rains").out
        == clew("tag", names, stdin="Ada sees Bo.\nit rains\n").out
        != ""
    )
    assert_refused(
        clew("tag", names, "Ada", "--file", "x"),
        "texts are given both as arguments and with --file; leave one of them out",
    )
    Path("lines.txt").write_text("Ada\n", encoding="utf-8")
    assert_refused(clew("tag", names, "lines.txt"), "lines.txt is a file, not a text; use --file lines.txt")


def test_words_of_conll_files_and_cells_of_tables_are_tagged(clew: Clew, names: Path) -> None:
    def words(*arguments: object) -> list[str]:
        return [line.split("\t")[0] for line in clew("tag", names, *arguments).out.splitlines()]

    Path("a.conll").write_text("-DOCSTART- -X- O\n\nAda NNP B-PER\ndidn't VBD O\n\nBo NNP B-PER\n", encoding="utf-8")
    Path("a.conllu").write_text(
        "# text = no\n1\tAda\t_\tX\t_\t_\t0\troot\t_\t_\n2\tdidn't\t_\tX\t_\t_\t1\tdep\t_\t_\n\n", encoding="utf-8"
    )
    assert words("--file", "a.conll")[-5:] == ["Ada", "didn't", "", "Bo", ""]
    assert words("--file", "a.conllu") == ["Ada", "didn't", ""]
    Path("a.csv").write_text('id,body\n1,"Ada, Bo"\n2,\n3,Rome\n', encoding="utf-8")
    assert words("--file", "a.csv", "--text", "body") == ["Ada", ",", "Bo", "", "", "Rome", ""]
    assert_refused(
        clew("tag", names, "--file", "a.csv"),
        "a.csv: no column 'words'; name it with --text NAME; there are",
    )
    assert_refused(
        clew("tag", names, "--file", "a.csv", "--text", "boddy"),
        "a.csv: no column 'boddy' for --text; did you mean 'body'?",
    )
    assert_refused(
        clew("tag", names, "--text", "body", stdin="a\n"),
        "--text names a column of a table; give the table with --file",
    )


def test_the_worst_sentences_are_listed_with_their_errors_marked(clew: Clew, names: Path) -> None:
    Path("test.conll").write_text(
        "Ada NNP B-PER\nleft VBD O\n\nAda NNP B-LOC\nleft VBD B-LOC\nBo NNP O\n\n", encoding="utf-8"
    )
    result = clew("evaluate", names, "test.conll", "--errors", 5)
    assert result.status == 0
    assert re.search(r"^test.conll: .*F1 [\d.]+.*95 % intervals: F1 [\d.]+ to [\d.]+, precision", result.out)
    assert re.search(r"^gold \\ predicted +B-LOC", result.out, re.MULTILINE)
    assert re.search(r"^PER +F1 [\d.]+, precision", result.out, re.MULTILINE)
    table = result.out[result.out.index("id\twrong words\ttext\n") :].splitlines()
    number, text = table[1].split("\t")[1:]
    assert table[1].startswith("test.conll:4\t") and int(number) >= 2
    assert text.count("[expected ") == int(number) and text.startswith("Ada[expected B-LOC, found ")
    scored = json.loads(clew("evaluate", names, "test.conll", "--errors", 1, "--json").out)
    for measure in ("f1", "precision", "recall", "accuracy"):
        assert scored["intervals"][measure][0] <= scored[measure] <= scored["intervals"][measure][1]
    assert [each["id"] for each in scored["errors"]] == ["test.conll:4"] and len(scored["errors"][0]["wrong"]) == int(
        number
    )


def test_mistakes_are_reported_in_one_line(clew: Clew, names: Path, lstm: Path) -> None:
    assert_refused(clew("tag", "runs/none", stdin="a"), "runs/none is not a run directory (it has no config.json)")
    assert_refused(
        clew("tag", lstm, stdin="a"),
        f"{lstm} is a run of the task language_model, which cannot tag; use `clew generate`",
    )
    assert_refused(clew("tag", names, "--file", "none.txt"), "no such file: none.txt")
    assert_refused(
        clew("tag", names, stdin="a\0b\n"), "standard input, line 1: a NUL character, so this is not plain text"
    )
    assert_refused(clew("evaluate", names, "--errors", -1), "--errors (-1) must be at least 0")
    task = f"{lstm} is a run of the task language_model, which is scored on plain text; leave it out"
    assert_refused(clew("evaluate", lstm, "--errors", 3), f"--errors is for tasks with a target, but {task}")


@pytest.mark.parametrize(
    ("text", "settings", "sentence"),
    [
        (
            CONLL + "Ada NNP\n",
            [],
            "a.conll:37: expected 3 space-separated columns, found 2; fix it, or skip such records with",
        ),
        (
            CONLL,
            ["data.tags=5"],
            "a.conll: no column 5 for data.tags; there are 3, counted from 1, or from -1 at the last",
        ),
        (CONLL, ["data.tags=1"], "a.conll: data.words and data.tags are the same column, 1 of 3; name two"),
        ("one\ntwo\n\nthree\n", [], "a.conll: there is one column, and words and tags need two"),
        ("", [], "a.conll: the file is empty; give one with text in it"),
        ("\n\n\n", [], "a.conll: there is no record in it; give a file with records in it"),
        (
            CONLL.replace("B-", "O").replace("I-", "O"),
            ["data.test=b.conll"],
            "b.conll:1, word 1: unknown label 'B-PER'",
        ),
        (CONLL, ["data.test=b.conll", "data.tags=2"], "b.conll:1, word 1: unknown label 'X'"),
    ],
)
def test_malformed_files_are_rejected_with_the_line(clew: Clew, text: str, settings: list[str], sentence: str) -> None:
    Path("a.conll").write_text(text, encoding="utf-8")
    Path("b.conll").write_text("Bo X B-PER\n\n", encoding="utf-8")
    assert_refused(
        clew("train", "tag", "data.train=a.conll", *settings, *SMALL, "training.steps=2", "--out", "run"), sentence
    )
    assert not Path("run").exists()


def test_tags_missing_from_training_are_scored_as_errors_and_reported(clew: Clew) -> None:
    """As in a treebank, where each part has features that no other part has."""
    rows = [("Bo", "Gender=Masc"), ("runs", "Number=Sing"), ("fast", "_")]
    train = "".join("".join(f"{word}{number} {tag}\n" for word, tag in rows) + "\n" for number in range(12))
    Path("train.conll").write_text(train, encoding="utf-8")
    for part, unseen in (("dev", "Gender=Fem"), ("test", "Number=Dual")):
        Path(f"{part}.conll").write_text(
            f"Bo1 Gender=Masc\nran {unseen}\n\nBo2 Gender=Masc\nfast1 _\n\n", encoding="utf-8"
        )
    settings = ["data.train=train.conll", "data.valid=dev.conll", "data.test=test.conll", *SMALL, "training.steps=40"]
    result = clew("train", "tag", *settings, "--out", "run")
    assert result.status == 0, result.err
    assert (
        "valid: 1 of 4 labels is not in the training part ('Gender=Fem'; first: dev.conll:1, word 2); counted as wrong"
        in result.err
    )
    assert "test: 1 of 4 labels is not in the training part ('Number=Dual'" in result.err
    again = clew("evaluate", "run", "test.conll", "--json", "--errors", 9)
    assert again.status == 0 and again.err.startswith(
        "test.conll: 1 of 4 labels is not in the training part ('Number=Dual'; first:"
    )
    scored = json.loads(again.out)
    assert scored["accuracy"] <= 75 and any(
        wrong["gold"] == "Number=Dual" for error in scored["errors"] for wrong in error["wrong"]
    )


def test_the_code_of_the_guide_runs(
    taggers: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/ewt-tagger").symlink_to(taggers["parts"])
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "tagging.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0], names)
    shown = capsys.readouterr().out
    assert re.search(r"^jumps\t\S+\t[\d.]+$", shown, re.MULTILINE) and re.search(
        r"^jumps \S+ [\d.]+ jumps$", shown, re.MULTILINE
    )
    assert [word.word for word in names["several"][0].words] == ["New York", "is", "big"]
    assert [names["several"][0].text[word.start : word.stop] for word in names["several"][0].words] == [
        "New York",
        "is",
        "big",
    ]
