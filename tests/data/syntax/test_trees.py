import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.trees import Tree
from clew.data.corpora.samples import sample_path
from clew.data.syntax.trees import (
    cleaned,
    format_tree,
    parse_tree,
    parse_trees,
    read_trees,
    tree_words,
    with_root,
    without_functions,
    without_root,
    without_traces,
    write_trees,
)
from tests.core.trees import nested, phrases

RAINS = Tree(
    "S", [Tree("NP-SBJ", [Tree("PRP", word="It")]), Tree("VP", [Tree("VBZ", word="rains")]), Tree(".", word=".")]
)

TREEBANK = """
( (S
    (NP-SBJ (PRP It) )
    (VP (VBZ rains) )
    (. .) ))
( (NP (NN Rain)))
"""


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_tree_over_several_lines_equals_the_tree_on_one_line():
    assert parse_trees(TREEBANK) == [Tree("", [RAINS]), parse_tree("((NP(NN Rain)))")]
    assert parse_tree("(S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .))") == RAINS


def test_labels_may_be_numbers():
    tree = parse_tree("(3 (2 It) (4 (3 (2 is) (4 lovely)) (2 .)))")
    assert [node.label for node in tree.nodes()] == ["3", "2", "4", "3", "2", "4", "2"]
    assert tree.words == ["It", "is", "lovely", "."]


def test_brackets_are_unescaped_when_read_and_escaped_when_written():
    text = "(NP (-LRB- -LRB-) (NN f-LRB-x-RRB-) (-RRB- -RRB-))"
    assert parse_tree(text).words == ["(", "f(x)", ")"]
    assert parse_tree(text).tags == ["-LRB-", "NN", "-RRB-"]
    assert format_tree(parse_tree(text)) == text
    assert parse_tree("(X (A -LSB-) (B -RSB-) (C -LCB-) (D -RCB-))").words == ["[", "]", "{", "}"]


def test_byte_order_marks_and_carriage_returns_are_dropped_and_no_break_spaces_kept(tmp_path):
    path = write(tmp_path / "a.mrg", "\ufeff(S\r\n  (CD 10\xa0000)\r\n  (NN m))\r\n".encode())
    assert read_trees(path)[0].words == ["10\xa0000", "m"]
    assert parse_trees("\ufeff(S\r(NN m))\r\n") == [Tree("S", [Tree("NN", word="m")])]


def test_a_tree_may_be_deeper_than_the_stack():
    depth = 20 * sys.getrecursionlimit()
    tree = nested(depth)
    assert parse_tree("(X " * depth + "(N a)" + ")" * depth) == tree
    assert parse_tree(format_tree(tree)) == tree
    assert without_functions(tree) == tree == without_traces(tree)


@given(phrases, st.sampled_from([None, 0, 2]))
def test_written_trees_are_read_back(tree, indent):
    assert parse_trees(format_tree(tree, indent) + "\n" + format_tree(tree)) == [tree, tree]


def test_an_indented_tree_breaks_lines_between_nested_phrases():
    assert format_tree(parse_tree("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP it))) (. .))"), indent=2) == (
        "(S\n  (NP (DT the) (NN dog))\n  (VP\n    (VBZ sees)\n    (NP (PRP it)))\n  (. .))"
    )


def test_files_are_read_in_order_of_names_and_written_one_tree_per_line(tmp_path):
    (tmp_path / "00").mkdir()
    write(tmp_path / "b.mrg", "(S (NN b))")
    write(tmp_path / "00" / "z.tree", "(S (NN z))")
    write(tmp_path / "notes.txt", "no tree")
    write(tmp_path / ".hidden.mrg", "no tree")
    assert [tree.words for tree in read_trees(tmp_path)] == [["z"], ["b"]]
    assert [tree.words for tree in read_trees([tmp_path / "b.mrg", str(tmp_path / "00")])] == [["b"], ["z"]]
    write_trees(read_trees(tmp_path), tmp_path / "all.txt")
    assert (tmp_path / "all.txt").read_bytes() == b"(S (NN z))\n(S (NN b))\n"


def test_traces_are_removed_with_the_phrases_they_leave_empty():
    tree = parse_tree("(VP (VBD said) (SBAR (-NONE- 0) (S (-NONE- *T*-1))) (NP (-NONE- *) (NN x)))")
    assert without_traces(tree) == parse_tree("(VP (VBD said) (NP (NN x)))")
    assert without_traces(parse_tree("(S (NP (-NONE- *)))")) is None


def test_function_tags_are_removed_and_part_of_speech_tags_kept():
    tree = parse_tree("(S-TPC-1 (NP-SBJ=2 (PRP$ its) (-LRB- -LRB-)) (ADVP|PRT (RB up)) (-X-Y (NN-A b)))")
    assert without_functions(tree) == parse_tree("(S (NP (PRP$ its) (-LRB- -LRB-)) (ADVP|PRT (RB up)) (-X (NN-A b)))")


@pytest.mark.parametrize("root", ["", "TOP ", "ROOT ", "S1 "])
def test_a_root_is_replaced_or_removed(root):
    tree = parse_tree(f"({root}(S (NN a)))")
    assert with_root(tree) == parse_tree("(TOP (S (NN a)))") == with_root(parse_tree("(S (NN a))"))
    assert with_root(tree, "S1").label == "S1"
    assert without_root(tree) == parse_tree("(S (NN a))") == without_root(parse_tree("(S (NN a))"))


def test_a_necessary_root_is_kept():
    assert without_root(parse_tree("(TOP (S (NN a)) (S (NN b)))")).label == "TOP"
    assert without_root(parse_tree("(TOP (NN a))")) == parse_tree("(TOP (NN a))")
    assert without_root(parse_tree("(TOP (TOP (S (NN a))))")) == parse_tree("(S (NN a))")
    assert with_root(Tree("TOP", word="a")) == Tree("TOP", [Tree("TOP", word="a")])


def test_cleaning_combines_all_steps():
    tree = parse_tree("( (S (NP-SBJ (-NONE- *)) (VP (VB Go)) (. !)) )")
    assert cleaned(tree) == parse_tree("(TOP (S (VP (VB Go)) (. !)))")
    assert cleaned(tree, root=None) == parse_tree("(S (VP (VB Go)) (. !))")
    assert cleaned(parse_tree("( (S (-NONE- *)))")) is None


def test_the_embedded_treebank_is_clean():
    trees = read_trees(sample_path("craft") / "dev.mrg")
    assert len(trees) == 400
    assert all(cleaned(tree) == tree and parse_tree(format_tree(tree)) == tree for tree in trees)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("(S (NN a)))", "t:1: a closing bracket has no opening bracket; delete it, or add the opening bracket"),
        (
            "(S (NN a))\n(S\n(NP (NN b))\n(S (NN c))",
            "t:2: the tree that begins here is not closed; 1 closing bracket is missing before the end",
        ),
        (
            "\n(S (NP (NN a",
            "t:2: the tree that begins here is not closed; 3 closing brackets are missing before the end",
        ),
        (
            "(S (NN a))\nhello (S",
            "t:2: 'hello' is outside all brackets; a tree is one bracket, such as (S (NP (PRP it)))",
        ),
        (
            "( (S (NN a))\n( (S (NN b)))",
            "t:2: a bracket inside another has no label; only the outermost may have none. Add a label, or close the"
            " tree that begins in line 1",
        ),
        ("(S\n() (NN a))", "t:2: the bracket () is empty; it needs a label, and brackets or one word after it"),
        ("(S (NP))", "t:1: the bracket (NP) is empty; it needs brackets or one word after its label"),
        (
            "(S (NN a))\n\n(NP\nthe dog)",
            "t:3: 2 words, 'the' and 'dog', are in one bracket (NP ...); "
            "each word needs its own bracket with its tag, such as (NN dog)",
        ),
        (
            "(VP will (VP (VB go)))",
            "t:1: the word 'will' is next to brackets inside (VP ...); "
            "each word needs its own bracket with its tag, such as (NN dog)",
        ),
        (" \n ", "t contains no tree; give bracketed trees, such as (S (NP (PRP it)) (VP (VBZ rains)))"),
    ],
)
def test_a_mistake_is_reported_with_its_line(text, sentence, tmp_path):
    with pytest.raises(UserError) as caught:
        parse_trees(text, "t")
    assert str(caught.value) == sentence
    path = write(tmp_path / "a.mrg", text.replace("\n", "\r\n"))
    with pytest.raises(UserError) as caught:
        read_trees(path)
    assert str(caught.value) == str(path) + sentence[1:]


def test_missing_files_and_files_without_trees_are_rejected(tmp_path):
    write(tmp_path / "train.mrg", b"(S (NN \xff))")
    with pytest.raises(UserError, match=r"^no such file: .*trein.mrg; near it there is .*train.mrg$"):
        read_trees(tmp_path / "trein.mrg")
    with pytest.raises(UserError, match=r"train.mrg: byte 0xff at offset 7 \(line 1\) is not UTF-8; set"):
        read_trees(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        UserError,
        match=r"empty: no .mrg, .tree, .trees, .ptb file in this folder or below; name the files that contain the"
        r" trees$",
    ):
        read_trees(tmp_path / "empty")
    with pytest.raises(UserError, match=r"a.mrg contains no tree; give bracketed trees"):
        read_trees(write(tmp_path / "a.mrg", b"\xef\xbb\xbf"))


def test_several_trees_are_rejected_where_one_is_expected():
    with pytest.raises(UserError, match=r"^expected 1 tree, found 2; parse_trees gives them all$"):
        parse_tree("(S (NN a)) (S (NN b))")


@pytest.mark.parametrize("word", ["", "a b", "a\n"])
def test_a_word_that_cannot_be_written_in_brackets_is_rejected(word):
    with pytest.raises(UserError) as caught:
        format_tree(Tree("NN", word=word))
    assert str(caught.value) == (
        f"the word {word!r} cannot be written in a bracketed tree, where words are not empty and have no white space"
    )


@pytest.mark.parametrize("label", ["N P", "N(", ")", "\t"])
def test_a_label_that_cannot_be_written_in_brackets_is_rejected(label):
    with pytest.raises(UserError) as caught:
        format_tree(Tree(label, [Tree("NN", word="a")]))
    assert (
        str(caught.value)
        == f"the label {label!r} cannot be written in a bracketed tree; remove its brackets and white space"
    )


def test_only_the_root_is_written_without_a_label():
    assert format_tree(Tree("", [Tree("NN", word="a")])) == "( (NN a))"
    for tree in (Tree("S", [Tree("", [Tree("NN", word="a")])]), Tree("", word="a")):
        with pytest.raises(UserError, match=r"^a node inside the tree has no label; only the root may have none$"):
            format_tree(tree)


def test_words_of_a_sentence_are_unescaped_like_those_of_a_tree():
    text = "a\u00a0b -LRB- c,d \t-RRB-  ."
    assert tree_words(text) == ["a\u00a0b", "(", "c,d", ")", "."]
    tree = parse_tree(f"(S {' '.join(f'(X {word})' for word in text.split(' ') if word.strip())})")
    assert tree.words == tree_words(text)
    assert tree_words(" \n") == []
