"""`clew parse`, and training of parsers on treebanks from the command line."""

import json
import re
from pathlib import Path

import pytest

from clew.data.syntax.trees import parse_trees, read_trees, tree_words
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

TREES = "\n".join(
    f"( (S (NP (DT the) (NN {noun})) (VP (VBZ {verb})) (. .)) )\n(S (NP (PRP it)) (VP (VBZ {verb}) (NP (DT a) (NN"
    f" {noun}))) (. .))"
    for noun in ("dog", "cat", "bird", "fish")
    for verb in ("sees", "hears", "likes")
)
SETTINGS = [
    "model.dim=12",
    "text.min_count=1",
    "training.batch_tokens=200",
    "training.schedule=constant",
    "training.steps=4",
    "training.evaluate_every=4",
    "device=cpu",
]
SENTENCES = "the dog sees .\n\nit ( never ) rains\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A parser trained for four steps."""
    folder = tmp_path_factory.mktemp("parser")
    (folder / "trees.mrg").write_text(TREES, encoding="utf-8")
    run_recipe("parse", [f"data.train={folder / 'trees.mrg'}", "data.test_fraction=0.1", *SETTINGS], out=folder / "run")
    return folder / "run"


def test_every_line_gets_a_tree_in_order(clew: Clew, run: Path) -> None:
    result = clew("parse", run, stdin=SENTENCES)
    assert result.status == 0 and result.err == ""
    first, empty, last = result.out.splitlines()
    assert empty == ""
    assert [parse_trees(tree)[0].words for tree in (first, last)] == [
        tree_words("the dog sees ."),
        tree_words("it ( never ) rains"),
    ]
    assert re.search(r"-LRB-\).* never\).* -RRB-\)", last)


def test_files_standard_input_and_single_sentences_give_the_same_trees(clew: Clew, run: Path) -> None:
    Path("sentences.txt").write_text("\ufeff" + SENTENCES.replace("\n", "\r\n"), encoding="utf-8")
    piped = clew("parse", run, stdin=SENTENCES).out
    assert clew("parse", run, "--file", "sentences.txt").out == piped
    assert "".join(clew("parse", run, stdin=line).out for line in SENTENCES.splitlines(keepends=True)) == piped
    assert clew("parse", run, "--file", "sentences.txt", "--out", "trees.mrg").out == ""
    assert Path("trees.mrg").read_text(encoding="utf-8") == piped
    assert len(read_trees("trees.mrg")) == 2


def test_sentences_can_be_arguments(clew: Clew, run: Path) -> None:
    first, _, last = clew("parse", run, stdin=SENTENCES).out.splitlines()
    assert clew("parse", run, "the dog sees .", "it ( never ) rains").out == f"{first}\n{last}\n"
    assert_refused(
        clew("parse", run, "it", "--file", "x"),
        "texts are given both as arguments and with --file; leave one of them out",
    )


def test_predict_parses_with_a_parser(clew: Clew, run: Path) -> None:
    assert clew("predict", run, stdin=SENTENCES).out == clew("parse", run, stdin=SENTENCES).out != ""
    Path("sentences.txt").write_text(SENTENCES, encoding="utf-8")
    several = clew("predict", run, "sentences.txt", "--n-best", 2, "--json").out
    assert several == clew("parse", run, "--n-best", 2, "--format", "json", stdin=SENTENCES).out
    assert_refused(
        clew("predict", run, "--samples", 9, stdin=SENTENCES),
        "unrecognized arguments: --samples 9; `clew parse --help` shows how",
    )


def test_n_best_trees_are_sorted_by_score(clew: Clew, run: Path) -> None:
    result = clew("parse", run, "--n-best", 3, "--beams", 5, stdin=SENTENCES)
    groups = result.out.split("\n\n")
    assert [len(group.splitlines()) for group in groups] == [3, 0, 3] or [
        len(g.strip().splitlines()) for g in groups
    ] == [3, 3, 0]
    scores = [float(line.split("\t")[1]) for line in groups[0].splitlines()]
    assert scores == sorted(scores, reverse=True)


def test_json_has_one_object_per_tree(clew: Clew, run: Path) -> None:
    result = clew("parse", run, "--n-best", 2, "--format", "json", stdin=SENTENCES)
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert [(each["line"], each["rank"]) for each in objects] == [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)]
    assert objects[2] == {"line": 2, "rank": 1, "sentence": "", "tree": None}
    assert objects[0]["sentence"] == "the dog sees ."
    assert parse_trees(objects[0]["tree"])[0].words == ["the", "dog", "sees", "."]
    assert objects[0]["log_prob"] < 0


def test_trees_are_drawn_as_text_and_as_one_picture(clew: Clew, run: Path) -> None:
    drawing = clew("parse", run, "--format", "text", stdin=SENTENCES).out
    assert len(re.findall(r"^ *the +dog +sees +\.$", drawing, re.MULTILINE)) == 1
    assert len(re.findall(r"^ *it +\( +never +\) +rains$", drawing, re.MULTILINE)) == 1
    clew("parse", run, "--format", "svg", "--out", "trees.svg", stdin=SENTENCES)
    picture = Path("trees.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg ") and picture.count("<svg ") == 1 and ">never<" in picture and ">sees<" in picture


def test_no_input_gives_no_output(clew: Clew, run: Path) -> None:
    result = clew("parse", run, stdin="")
    assert (result.status, result.out, result.err) == (0, "", "")
    assert_refused(clew("parse", run, "--format", "svg", stdin="\n\n"), "there is no tree to draw; give at least one")


def test_the_evaluation_includes_the_right_branching_baseline(clew: Clew, run: Path) -> None:
    result = clew("evaluate", run)
    assert result.status == 0
    for part in ("valid", "test"):
        assert re.search(
            rf"^{part}: .*F1 [\d.]+, .*well-formed 100\.0 %.*right-branching trees have F1 [\d.]+",
            result.out,
            re.MULTILINE,
        )


def test_a_parser_only_parses(clew: Clew, run: Path, lstm: Path) -> None:
    assert_refused(
        clew("generate", run, "the"),
        f"{run} is a run of the task parsing, which cannot generate; use `clew parse`",
    )
    assert_refused(
        clew("parse", lstm, stdin="a\n"),
        f"{lstm} is a run of the task language_model, which cannot parse; use `clew generate`",
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--n-best", "0"], "--n-best must be at least 1, not 0"),
        (["--beams", "0"], "--beams must be at least 1, not 0"),
        (["--file", "none.txt"], "no such file: none.txt; "),
        (["--format", "png"], "argument --format: invalid choice: 'png' (choose from "),
        (["--out", "nowhere/trees.mrg"], "no such folder for --out: nowhere; create it first"),
    ],
)
def test_mistakes_in_options_are_reported_in_one_line(clew: Clew, run: Path, options: list[str], sentence: str) -> None:
    assert_refused(clew("parse", run, *options, stdin="it rains\n"), sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "(S (NP (DT the) (NN dog))\n",
            "trees.mrg:1: the tree that begins here is not closed; 1 closing bracket is missing before the end",
        ),
        (
            "(S (NN a))\n(S (NN b)))\n",
            "trees.mrg:2: a closing bracket has no opening bracket; delete it, or add the opening bracket",
        ),
        ("", "trees.mrg contains no tree; give bracketed trees, such as (S (NP (PRP it)) (VP (VBZ rains)))"),
        (
            "It rains .\n",
            "trees.mrg:1: 'It' is outside all brackets; a tree is one bracket, such as (S (NP (PRP it)))",
        ),
        (
            "a,b\n1,2\n",
            "trees.mrg:1: 'a,b' is outside all brackets; a tree is one bracket, such as (S (NP (PRP it)))",
        ),
        ("(S\n ((NN a)))\n", "trees.mrg:2: a bracket inside another has no label; only the outermost may have none."),
        (
            "(S (NP the dog))\n",
            ("trees.mrg:1: 2 words, 'the' and 'dog', are in one bracket (NP ...); each word needs its own bracket"),
        ),
        ("(S ())\n", "trees.mrg:1: the bracket () is empty; it needs a label, and brackets or one word after it"),
        ("((-NONE- *T*))\n", "0 examples with 0 different texts cannot give a valid part"),
    ],
)
def test_malformed_treebanks_are_rejected_with_the_line(clew: Clew, text: str, sentence: str) -> None:
    Path("trees.mrg").write_text(text, encoding="utf-8")
    assert_refused(clew("train", "parse", "data.train=trees.mrg", *SETTINGS, "--out", "run"), sentence)
    assert not Path("run").exists()


def test_missing_data_and_unsuitable_settings_are_reported_in_one_line(clew: Clew) -> None:
    assert_refused(
        clew("train", "parse"),
        "there is no training data; name your trees with data.train, e.g. `clew train parse data.train=trees.mrg`",
    )
    assert_refused(clew("train", "parse", "data.train=none.mrg"), "no such file: none.mrg; ")
    Path("trees.mrg").write_text(TREES, encoding="utf-8")
    arguments = ["train", "parse", "data.train=trees.mrg", *SETTINGS]
    assert_refused(
        clew(*arguments, "text.joint=true"),
        "a parser reads words and writes brackets, which share no vocabulary; set text.joint=false",
    )
    assert_refused(clew(*arguments, "task.best=bleu"), "task.best must be one of 'loss' or 'f1', not 'bleu'")
    assert_refused(
        clew(*arguments, "model.family=recurrent"),
        "the task parsing has a source, which a recurrent cannot read; use one of ",
    )
    assert_refused(clew(*arguments, "task.longest=3"), "all 22 training examples have more than 3 tokens on a side")


def test_the_code_of_the_guide_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/craft-parser").symlink_to(run)
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "parsing.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", guide, re.DOTALL)
    assert block is not None
    names: dict = {}
    exec(block[1], names)
    assert names["parse"].tree.words == tree_words("The gene is expressed in the brain .")
    assert names["best"].tree.words == names["second"].tree.words == ["New York", "is", "big"]
    assert names["best"].log_prob >= names["second"].log_prob
    assert re.search(r"^ *The +gene +is +expressed +in +the +brain +\.$", capsys.readouterr().out, re.MULTILINE)
