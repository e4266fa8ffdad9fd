"""Labelled trees on the command line: training, classification and scores."""

import json
import re
from pathlib import Path

import pytest

import clew as library
from clew.core.trees import Tree
from clew.data.examples import Sentence
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

SETTINGS = [
    "model.dim=8",
    "model.dropout=0.0",
    "text.min_count=1",
    "training.steps=60",
    "training.evaluate_every=60",
    "training.learning_rate=0.02",
    "device=cpu",
]
FILMS = "\n".join(
    f"({label} (2 {word}) ({label} ({label} {verdict}) (2 {noun})))"
    for label, verdict in (("4", "lovely"), ("0", "dull"), ("2", "long"))
    for word in ("a", "the", "one")
    for noun in ("film", "plot", "cast")
)
NAMES = '{"4": "good", "0": "bad", "2": null}'
GOOD, BAD = "(X (X some) (X (X lovely) (X film)))", "(X (X a) (X (X dull) (X cast)))"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    (folder / "films.txt").write_text(FILMS, encoding="utf-8")
    settings = [f"data.train={folder / 'films.txt'}", "data.valid_fraction=0.2", f"data.label_map={NAMES}", *SETTINGS]
    result = run_recipe("classify-trees", settings, out=folder / "run")
    assert set(result.valid.measures) >= {
        "accuracy",
        "macro_f1",
        "node_accuracy",
        "baseline_most_frequent_class",
        "baseline_naive_bayes",
    }
    assert result.valid.measures["accuracy"] == 100.0
    return folder / "run"


def test_every_line_gets_a_label_in_order(clew: Clew, run: Path) -> None:
    result = clew("predict", run, stdin=f"{GOOD}\n\n{BAD}\n")
    assert result.status == 0 and result.err == ""
    good, empty, bad = result.out.splitlines()
    assert (good.split("\t")[0], empty, bad.split("\t")[0]) == ("good", "", "bad")
    assert float(good.split("\t")[1]) > 0.5 and good.split("\t")[2] == "some lovely film"
    Path("trees.txt").write_text(f"{GOOD}\n\n{BAD}\n", encoding="utf-8")
    assert clew("predict", run, "trees.txt").out == result.out
    first = json.loads(clew("classify", run, "--file", "trees.txt", "--json").out.splitlines()[0])
    assert (first["line"], first["text"], first["labels"]) == (1, "some lovely film", ["good"])
    assert set(first["probabilities"]) == {"good", "bad"} and len(first["nodes"]) == 5


def test_trees_are_classified_from_python(run: Path) -> None:
    loaded = library.load(run)
    one = loaded.classify_trees(GOOD)
    assert one.label == "good" and one.nodes[-1] == "good"
    tree = Tree("X", [Tree("X", word="dull"), Tree("X", word="cast")])
    assert loaded.classify(GOOD) == one
    assert [answer and answer.label for answer in loaded.classify_trees([GOOD, "", tree])] == ["good", None, "bad"]
    assert loaded.classify_trees(Sentence(("lovely", "film"), heads=(2, 0))).label in ("good", "bad")
    assert loaded.classify(Sentence(("lovely", "film"), heads=(2, 0))).label in ("good", "bad")


def test_labels_of_a_file_are_renamed_before_scoring(clew: Clew, run: Path) -> None:
    Path("test.txt").write_text(FILMS.splitlines()[0] + "\n", encoding="utf-8")
    result = clew("evaluate", run, "test.txt", "--json")
    assert result.status == 0
    assert json.loads(result.out)["accuracy"] == 100.0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "(4 (2 a) (2 film)\n",
            "test.txt:1: the tree that begins here is not closed; 1 closing bracket is missing before the end",
        ),
        (f"{FILMS}\n((4 film))\n", "test.txt:28: the root has no label; every node of a labelled tree needs one"),
    ],
)
def test_malformed_trees_are_rejected_with_file_and_line(clew: Clew, run: Path, content: str, sentence: str) -> None:
    Path("test.txt").write_text(content, encoding="utf-8")
    assert_refused(clew("evaluate", run, "test.txt"), sentence)


def test_labels_missing_from_training_are_scored_as_errors_and_reported(clew: Clew, run: Path) -> None:
    Path("test.txt").write_text(FILMS.splitlines()[0] + "\n(7 film)\n", encoding="utf-8")
    result = clew("evaluate", run, "test.txt", "--json")
    assert result.status == 0 and json.loads(result.out)["accuracy"] == 50.0
    assert re.fullmatch(
        r"test.txt: 1 of \d+ labels is not in the training part \('7'; first: test.txt:2\); "
        r"counted as wrong, and left out of the loss\n",
        result.err,
    )


def test_lines_that_are_not_trees_are_rejected(clew: Clew, run: Path) -> None:
    assert_refused(clew("predict", run, stdin="a lovely film\n"), "standard input, line 1: 'a' is outside all brackets")
    assert_refused(
        clew("predict", run, stdin=f"{GOOD}\n(X (X a)\n"),
        "standard input, line 2: the tree that begins here is not closed",
    )


def test_dependency_trees_can_be_trained_on_and_classified(clew: Clew) -> None:
    rows = "1\t{}\t_\t_\t_\t_\t2\tdet\t_\t_\n2\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    pairs = [
        ("the", "dog", "np"),
        ("it", "rains", "s"),
        ("a", "cat", "np"),
        ("she", "sings", "s"),
        ("one", "bird", "np"),
        ("he", "runs", "s"),
    ]
    Path("a.conllu").write_text(
        "".join(f"# kind = {kind}\n{rows.format(a, b)}" for a, b, kind in pairs), encoding="utf-8"
    )
    refused = clew("train", "classify-trees", "data.train=a.conllu", *SETTINGS)
    assert_refused(
        refused,
        "a.conllu: the labels of CoNLL-U sentences are in comments; name one with data.label=NAME; there are: kind",
    )
    trained = clew(
        "train",
        "classify-trees",
        "data.train=a.conllu",
        "data.label=kind",
        "data.valid=a.conllu",
        *SETTINGS,
        "--out",
        "run",
    )
    assert trained.status == 0 and "clew classify run --file sentences.conllu" in trained.err
    assert [line.split("\t")[0] for line in clew("predict", "run", "a.conllu").out.splitlines()] == ["np", "s"] * 3
    assert_refused(
        clew("classify", "run", stdin=f"\n{GOOD}\n"),
        "standard input, line 2: this run was trained on dependency trees; give CoNLL-U, not brackets",
    )
    Path("b.mrg").write_text(FILMS, encoding="utf-8")
    clew("train", "classify-trees", "data.train=b.mrg", *SETTINGS, "training.steps=1", "--out", "phrases")
    assert_refused(
        clew("classify", "phrases", "--file", "a.conllu"),
        "a.conllu, sentence 1: this run was trained on bracketed trees; give those, not words with heads",
    )
