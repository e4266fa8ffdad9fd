import sys
from textwrap import dedent
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.trees import Tree
from clew.data.syntax.trees import parse_tree
from clew.drawing.tree_drawing import TreeDrawing, cells, lay_out, text_width, tree_html, tree_svg, tree_text, trees_svg
from tests.core.trees import nested, phrases

DOG = parse_tree("(S (NP (DT the) (NN dog)) (VP (VBZ barks) (ADVP (RB loudly))) (. .))")


def drawn(text):
    return dedent(text).strip("\n")


def test_a_tree_in_box_characters():
    assert tree_text(DOG) == drawn("""
                      S
           ╭──────────┴─┬────────╮
           │           VP        │
           │        ╭───┴───╮    │
          NP        │     ADVP   │
         ╭─┴──╮     │       │    │
        DT   NN    VBZ     RB    .
        the  dog  barks  loudly  .
    """)


def test_a_tree_in_plain_lines():
    assert tree_text(parse_tree("(S (NP (DT the) (JJ old) (NN dog)) (VBZ barks))"), ascii=True) == drawn("""
                   S
              +----+-----+
             NP          |
         +----+----+     |
        DT   JJ   NN    VBZ
        the  old  dog  barks
    """)


def test_a_chain_is_one_line_down_and_a_lone_leaf_two_rows():
    assert tree_text(parse_tree("(TOP (S (VP (VB Go))))")) == drawn("""
        TOP
         │
         S
         │
        VP
         │
        VB
        Go
    """)
    assert tree_text(Tree("NN", word="rain")) == " NN\nrain"


def test_a_label_wider_than_what_it_holds_stands_over_its_middle():
    assert tree_text(parse_tree("(S (LONGLABEL (A a)) (B b))"), ascii=True) == drawn("""
               S
            +--+---+
        LONGLABEL  |
            |      |
            A      B
            a      b
    """)


def test_wide_characters_take_two_columns_and_accents_none():
    assert cells("漢a") == ["漢", "", "a"]
    assert cells("e\u0301x") == ["e\u0301", "x"]
    assert cells("漢\u0301") == ["漢\u0301", ""]
    assert cells("\u0301") == ["\u0301"]
    assert cells("a\u200cb") == ["a\u200c", "b"]
    assert tree_text(parse_tree("(S (N 漢字) (V ab))")).splitlines()[-1] == "漢字  ab"


def test_what_a_terminal_would_obey_is_replaced():
    assert tree_text(Tree("NN", word="\x1b[2J10\xa0m\n.")).splitlines()[-1] == "\ufffd[2J10 m ."


@given(phrases, st.booleans())
def test_the_words_stand_in_the_last_row_and_every_label_is_there(tree, ascii):
    rows = tree_text(tree, ascii=ascii).splitlines()
    assert len(rows) == 2 * tree.depth + 2
    assert rows[-1].split() == tree.words
    assert rows[-2].split() == tree.tags
    labels = [word for row in rows[:-2:2] for word in row.split() if word.strip("│|")]
    assert sorted(labels) == sorted(node.label for node in tree.nodes() if not node.is_leaf)
    assert not ascii or all(row.isascii() for row in rows[:-1])


@given(phrases)
def test_no_two_neighbours_share_a_column(tree):
    boxes = lay_out(tree, lambda node: len(node.label) + len(node.word or ""), gap=3)
    for box in boxes:
        assert box.left <= box.x - box.size // 2 and box.x - box.size // 2 + box.size <= box.left + box.width
        for child, other in zip(box.children, box.children[1:], strict=False):
            assert child.left + child.width + 3 == other.left
        if box.children:
            assert (
                box.left <= box.children[0].left
                and box.children[-1].left + box.children[-1].width <= box.left + box.width
            )
            assert box.height == 1 + max(child.height for child in box.children)


@given(phrases, st.sampled_from(["auto", "light", "dark"]))
def test_a_picture_is_one_document_with_the_words_in_order(tree, theme):
    picture = ElementTree.fromstring(tree_svg(tree, theme))
    space = "{http://www.w3.org/2000/svg}"
    texts = list(picture.iter(f"{space}text"))
    words = sorted((float(text.get("x")), text.text) for text in texts if text.get("class") == "tree-word")
    assert [word for _, word in words] == tree.words
    assert picture.find(f"{space}title").text == " ".join(tree.words)
    assert len({text.get("y") for text in texts if text.get("class") == "tree-word"}) == 1
    width = float(picture.get("width"))
    for (x, word), (next_x, next_word) in zip(words, words[1:], strict=False):
        assert next_x - x >= (text_width(word, 16) + text_width(next_word, 16)) // 2
    for rect in picture.iter(f"{space}rect"):
        assert float(rect.get("x", 0)) >= 0 and float(rect.get("x", 0)) + float(rect.get("width")) <= width


def test_everything_is_escaped_and_nothing_is_fetched():
    tree = Tree("<S>", [Tree('"&', word="</svg><script>alert(1)</script>"), Tree("N", word="a\x00\ud800")])
    picture = tree_svg(tree)
    assert ElementTree.fromstring(picture).find(".//{http://www.w3.org/2000/svg}script") is None
    assert "<script" not in picture and "&lt;script&gt;" in picture and "\x00" not in picture
    assert picture.count("http") == 1 and "url(" not in picture and "href" not in picture and "@import" not in picture


def test_colours_follow_the_reader_or_the_theme():
    assert "prefers-color-scheme:dark" in tree_svg(DOG)
    light, dark = tree_svg(DOG, "light"), tree_svg(DOG, "dark")
    assert "prefers-color-scheme" not in light + dark
    assert light != dark
    assert ".clew-picture-light .page" in light and ".clew-picture-dark .page" in dark


def test_phrases_are_coloured_by_kind_and_sentiment_by_value():
    assert 'class="phrase-noun"' in tree_svg(parse_tree("(NP-SBJ (NN a))"))
    assert 'class="phrase-other"' in tree_svg(parse_tree("(CAPTION (NN a))"))
    assert 'class="phrase-best"' in tree_svg(parse_tree("(4 (2 a) (3 b))"))


def test_a_long_sentence_scrolls_in_a_page_and_is_never_squeezed():
    tree = parse_tree("(S" + " (NN word)" * 200 + ")")
    page = tree_html(tree)
    assert page.startswith('<div tabindex="0" style="overflow-x:auto;max-width:100%"><svg ') and page.endswith(
        "</svg></div>"
    )
    assert "max-width:none" in page
    assert float(ElementTree.fromstring(tree_svg(tree)).get("width")) > 200 * text_width("word", 16)


def test_a_drawing_shows_itself_where_it_is_looked_at(tmp_path):
    drawing = TreeDrawing(DOG, "dark")
    assert repr(drawing) == tree_text(DOG)
    assert drawing._repr_html_() == tree_html(DOG, "dark")
    drawing.save(tmp_path / "dog.svg")
    assert (tmp_path / "dog.svg").read_text(encoding="utf-8") == tree_svg(DOG, "dark")


def test_a_tree_may_be_deeper_than_the_stack():
    depth = 2 * sys.getrecursionlimit()
    assert len(tree_text(nested(depth)).splitlines()) == 2 * depth + 2
    assert tree_svg(nested(depth)).count("<rect") == depth + 1


def test_an_unknown_theme_is_refused():
    with pytest.raises(UserError, match=r"^unknown theme 'drak'; did you mean 'dark'\? known: auto, dark, light$"):
        tree_svg(DOG, "drak")


def test_several_trees_stand_below_each_other_in_one_picture():
    other = parse_tree("(S (NP (PRP it)) (VP (VBZ rains)))")
    both, first, second = (ElementTree.fromstring(trees_svg(trees)) for trees in ([DOG, other], [DOG], [other]))
    assert int(both.get("height")) == int(first.get("height")) + int(second.get("height"))
    assert int(both.get("width")) == max(int(first.get("width")), int(second.get("width")))
    groups = both.findall("{*}g")
    tops = ["translate(0 0)", f"translate(0 {first.get('height')})"]
    assert [group.get("transform") for group in groups] == tops
    assert [text.text for text in groups[1].iter() if text.get("class") == "tree-word"] == ["it", "rains"]
    with pytest.raises(UserError, match="^there is no tree to draw; give at least one$"):
        trees_svg([])
