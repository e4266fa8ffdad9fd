from pathlib import Path

import pytest

from clew.core.tree_nodes import Nodes
from clew.data.examples import LabelledTree
from clew.data.notes import Notes
from clew.data.syntax.labelled_trees import as_brackets, read_labelled_trees
from tests.data.written import refusal, write

FILM = "(3 (2 A) (4 (3 lovely) (2 film)))"
ROW = "1\tIt\tit\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\trains\train\tVERB\t_\t_\t0\troot\t_\t_\n"


def read(path: Path, **options) -> list[LabelledTree]:
    return list(read_labelled_trees(path, **options))


def test_every_node_of_a_bracketed_tree_has_its_label(tmp_path: Path) -> None:
    path = write(tmp_path / "sst.txt", f"{FILM}\n\n(1\n (0 bad)\n (2 .))\n")
    film, bad = read(path)
    assert film == LabelledTree(
        ("A", "lovely", "film"), Nodes((4, 3, 3, 4, -1), (0, 0, 1, 1, 0)), ("2", "3", "2", "4", "3"), (), f"{path}:1"
    )
    assert (film.label, film.root, film.key) == ("3", 4, "A lovely film")
    assert as_brackets(film) == FILM
    assert (bad.labels, bad.id) == (("0", "2", "1"), f"{path}:3")


def test_labels_can_be_renamed_or_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "sst.txt", f"{FILM}\n(2 (1 so) (2 so))\n(0 bad)\n")
    notes = Notes()
    trees = read(path, label_map={"0": "bad", "1": "bad", "2": None, "3": "good", "4": "good"}, notes=notes)
    assert [tree.labels for tree in trees] == [(None, "good", None, "good", "good"), ("bad",)]
    assert notes.report() == [f"skipped 1 x trees whose label data.label_map leaves out (first: {path}:2)"]
    assert "data.label_map has none of the labels in the data: 0, 1, 2, 3, 4" in refusal(
        lambda: read(path, label_map={"x": "y"})
    )


def test_a_table_has_the_class_of_the_root_and_names_of_phrases(tmp_path: Path) -> None:
    path = write(tmp_path / "types.csv", "kind,tree\ndecl,(S (NP (PRP it)) (VP (VBZ rains)))\nfrag,(NN rain)\n")
    decl, frag = read(path, text="tree", label="kind")
    assert (decl.words, decl.phrases, decl.labels) == (
        ("it", "rains"),
        ("NP", "VP", "S"),
        (None, None, None, None, "decl"),
    )
    assert as_brackets(decl) == "(S (NP (X it)) (VP (X rains)))"
    assert (frag.words, frag.phrases, frag.labels, frag.label) == (("rain",), (), ("frag",), "frag")


def test_a_comment_has_the_class_of_a_dependency_tree(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.conllu",
        f"# sent_id = 1\n# s_type = decl\n{ROW}\n# s_type = frag\n{ROW.splitlines()[0].replace('2', '0')}\n",
    )
    decl, frag = read(path, label="s_type")
    assert decl == LabelledTree(("It", "rains"), Nodes((1, -1), (0, 0)), (None, "decl"), id=f"{path}:3")
    assert frag.label == "frag"


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        (
            "a.txt",
            f"{FILM}\n(3 (2 A) (4 b)",
            {},
            "a.txt:2: the tree that begins here is not closed; 1 closing bracket is missing",
        ),
        (
            "a.txt",
            f"{FILM}\n(3 (2 A) (b))",
            {},
            "a.txt:2: the bracket (b) is empty; it needs brackets or one word after its label",
        ),
        (
            "a.txt",
            f"{FILM}\n((2 A) (3 b))",
            {},
            "a.txt:2: the root has no label; every node of a labelled tree needs one",
        ),
        ("a.trees", "\n", {}, "a.trees: there is no record in it"),
        (
            "a.csv",
            "label,text\nx,(S (N a)\n",
            {},
            "a.csv:2: the tree that begins here is not closed; 1 closing bracket is missing",
        ),
        (
            "a.csv",
            "label,text\nx,(N a) (N b)\n",
            {},
            "a.csv:2: expected 1 tree, found 2; put each on its own line",
        ),
        ("a.csv", "label,text\n,(N a)\n", {}, "a.csv:2: the field for data.label is empty"),
        ("a.csv", "label,text\nx,it rains\n", {}, "a.csv:2: 'it' is outside all brackets"),
        (
            "a.conllu",
            ROW,
            {},
            "the labels of CoNLL-U sentences are in comments; name one with data.label=NAME; there are: none",
        ),
        (
            "a.conllu",
            f"# t = x\n{ROW}",
            {"label": "s"},
            "a.conllu:2: no comment '# s = ...' before this sentence; there are: t",
        ),
        (
            "a.conllu",
            f"# s = x\n{ROW.replace('0	root', '1	root')}",
            {"label": "s"},
            "(the heads form a cycle: word 1 -> 2 -> 1)",
        ),
        (
            "a.conllu",
            f"# s = x\n{ROW.replace('2	nsubj', '0	nsubj')}",
            {"label": "s"},
            "a.conllu:2: 2 words have the head 0; a tree has one root",
        ),
        (
            "a.conllu",
            f"# s = x\n{ROW.replace('2	nsubj', '_	nsubj').replace('0	root', '_	root')}",
            {"label": "s"},
            "the words have no heads",
        ),
    ],
)
def test_faulty_records_are_rejected_with_file_and_line(
    tmp_path: Path, name: str, content: str, options: dict, sentence: str
) -> None:
    assert sentence in refusal(lambda: read(write(tmp_path / name, content), **options))


def test_faulty_records_can_be_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,text\nx,(S (N a)\ny,(N b)\n")
    notes = Notes(faults="skip")
    assert [tree.label for tree in read(path, notes=notes)] == ["y"]
    assert notes.report() == [f"skipped 1 x broken tree (first: {path}:2)"]
