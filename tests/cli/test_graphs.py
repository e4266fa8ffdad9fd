"""Nodes of a graph labelled from the command line: training, prediction and scores, compared with a chain of words."""

import json
from pathlib import Path

import pytest

import clew as library
from clew.recipes.running import run_recipe
from tests.cli.conftest import Clew
from tests.cli.test_errors import assert_refused

SETTINGS = [
    "model.dim=16",
    "model.embedding_dim=16",
    "model.dropout=0.0",
    "embedding.characters=null",
    "embedding.dropout=0.0",
    "text.min_count=1",
    "training.steps=50",
    "training.evaluate_every=50",
    "training.learning_rate=0.02",
    "device=cpu",
]
CHAIN = ["model.family=recurrent", "model.bidirectional=true"]


def sentence(words: str, heads: str, relations: str) -> str:
    rows = zip(words.split(), heads.split(), relations.split(), strict=True)
    return (
        "".join(
            f"{n}\t{word}\t_\tX\t_\t_\t{head}\t{relation}\t_\t_\n"
            for n, (word, head, relation) in enumerate(rows, start=1)
        )
        + "\n"
    )


NAMES = ("Ada", "Bo", "Cy", "Di")
FIRST = "".join(sentence(f"{a} and {b} ran", "4 3 1 0", "nsubj cc conj root") for a in NAMES for b in NAMES)
SECOND = "".join(sentence(f"{a} and {b} ran", "0 4 4 1", "root cc nsubj conj") for a in NAMES for b in NAMES)
"""The same words with two graphs: only the graph says who ran."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "train.conllu").write_text(FIRST + SECOND, encoding="utf-8")
    files = [f"data.{part}={folder / 'train.conllu'}" for part in ("train", "valid")]
    result = run_recipe("label-nodes", [*files, *SETTINGS], out=folder / "run")
    assert result.valid.measures["accuracy"] == 100.0
    assert result.valid.measures["baseline_most_frequent_tag"] < 80
    return folder / "run"


def test_every_word_of_a_file_gets_a_label(clew: Clew, run: Path) -> None:
    Path("new.conllu").write_text(
        sentence("Bo and Bo ran", "4 3 1 0", "_ _ _ _") + sentence("Bo and Bo ran", "0 4 4 1", "_ _ _ _"),
        encoding="utf-8",
    )
    result = clew("predict", run, "--file", "new.conllu")
    assert result.status == 0 and result.err == ""
    labels = [[line.split("\t")[1] for line in block.splitlines()] for block in result.out.strip().split("\n\n")]
    assert labels == [["nsubj", "cc", "conj", "root"], ["root", "cc", "nsubj", "conj"]]
    assert clew("tag", run, "--file", "new.conllu").out == clew("predict", run, "new.conllu").out == result.out
    second = json.loads(clew("tag", run, "--file", "new.conllu", "--json").out.splitlines()[1])
    assert [(word["word"], word["tag"]) for word in second["words"]] == [
        ("Bo", "root"),
        ("and", "cc"),
        ("Bo", "nsubj"),
        ("ran", "conj"),
    ]


def test_words_are_labelled_from_python(run: Path) -> None:
    (tagged,) = library.load(run).ask("tag", [{"text": ["Ada", "and", "Di", "ran"], "heads": [4, 3, 1, 0]}])
    assert [word.tag for word in tagged.words] == ["nsubj", "cc", "conj", "root"]


def test_a_file_is_scored(clew: Clew, run: Path) -> None:
    Path("test.conllu").write_text(FIRST, encoding="utf-8")
    result = clew("evaluate", run, "test.conllu", "--json")
    assert result.status == 0 and json.loads(result.out)["accuracy"] == 100.0


def test_text_without_a_graph_is_rejected(clew: Clew, run: Path) -> None:
    sentence = "the words have no heads, so there is no graph; fill in HEAD, the seventh column of CoNLL-U"
    assert_refused(clew("tag", run, "Ada and Bo ran"), f"text 1: {sentence}")


def test_output_formats_of_other_taggers_are_rejected(clew: Clew, run: Path) -> None:
    Path("new.conllu").write_text(FIRST, encoding="utf-8")
    assert_refused(
        clew("tag", run, "--file", "new.conllu", "--format", "spans"),
        "--format spans is not available for this run; its formats are conll, json",
    )


def test_a_chain_of_words_cannot_learn_labels_of_the_graph(clew: Clew, run: Path) -> None:
    files = [f"data.{part}={run.parent / 'train.conllu'}" for part in ("train", "valid")]
    trained = clew(
        "train",
        "label-nodes",
        *files,
        *CHAIN,
        *SETTINGS,
        "training.steps=20",
        "training.evaluate_every=20",
        "--out",
        "chain",
    )
    assert trained.status == 0
    result = clew("evaluate", "chain", str(run.parent / "train.conllu"), "--json")
    # The second word is certain; the others have two equally likely labels.
    assert json.loads(result.out)["accuracy"] <= 62.5
    assert clew("tag", "chain", "Ada and Bo ran").status == 0


def test_a_cycle_is_rejected_if_nodes_are_read_along_the_edges(clew: Clew, run: Path) -> None:
    settings = [f"data.train={run.parent / 'train.conllu'}", 'task.edges=["up","down"]', *SETTINGS]
    assert_refused(
        clew("train", "label-nodes", *settings, "--out", "cycle"),
        f"{run.parent / 'train.conllu'}:1: the edges of this sentence form a cycle, so a body that reads along the"
        ' edges has no order for the nodes; set task.edges=["next","forward"], or model.layer.order=rounds',
    )
    rounds = 'model.layer={"name":"graph_lstm","order":"rounds"}'
    result = clew(
        "train", "label-nodes", *settings, rounds, "training.steps=1", "training.evaluate_every=1", "--out", "rounds"
    )
    assert result.status == 0


def test_data_without_heads_are_rejected_with_an_alternative(clew: Clew) -> None:
    assert_refused(
        clew("train", "label-nodes", "data.corpus=ewt-sample", *SETTINGS),
        "the corpus ewt-sample has no dependencies; this task reads words with heads, such as ewt",
    )
