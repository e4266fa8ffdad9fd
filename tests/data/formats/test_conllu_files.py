import pytest

from clew.data.examples import Sentence
from clew.data.formats.conllu_files import dependency_graphs, parse_conllu, read_conllu
from clew.data.notes import Notes
from tests.data.written import refusal, write


def row(number, form, upos="X", head="0", deprel="root", xpos="x"):
    return f"{number}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t{deprel}\t_\t_\n"


HEAD = "# sent_id = 1\n# text = vámonos al mar\n"


def test_ranges_empty_nodes_and_comments_are_skipped(tmp_path):
    content = HEAD + row("1-2", "vámonos", head="_") + row(1, "vamos", "VERB") + row(2, "nos", "PRON", "1", "obj")
    content += (
        row("2.1", "go", head="_")
        + row("3-4", "al", head="_")
        + row(3, "a", "ADP", "5", "case")
        + row(4, "el", "DET", "5", "det")
    )
    content += row(5, "mar mío", "NOUN", "1", "obl") + "\n\n# text = sí\n" + row(1, "sí", "INTJ")
    path = write(tmp_path / "a.conllu", content)
    assert list(read_conllu(path)) == [
        Sentence(
            ("vamos", "nos", "a", "el", "mar mío"),
            ("VERB", "PRON", "ADP", "DET", "NOUN"),
            (0, 1, 5, 5, 1),
            ("root", "obj", "case", "det", "obl"),
            f"{path}:4",
        ),
        Sentence(("sí",), ("INTJ",), (0,), ("root",), f"{path}:14"),
    ]


def test_columns_are_selected_by_name_or_number(tmp_path):
    path = write(tmp_path / "a.conllu", row(1, "a", "DET", xpos="DT"))
    assert [sentence.tags for sentence in read_conllu(path, tags="xpos")] == [("DT",)]
    assert [sentence.tags for sentence in read_conllu(path, tags=4)] == [("DET",)]
    assert next(read_conllu(path, tags=None, heads=None, relations=None)) == Sentence(("a",), id=f"{path}:1")
    assert (
        refusal(lambda: read_conllu(path, tags="pos"))
        == "unknown CoNLL-U column 'pos'; did you mean 'xpos'? known: deprel, deps, feats, form, head, id, lemma, misc,"
        " upos, xpos"
    )


def test_heads_without_annotation_are_none(tmp_path):
    path = write(tmp_path / "a.conllu", row(1, "a", head="_", deprel="_") + row(2, "b", head="_", deprel="_"))
    assert [(sentence.heads, sentence.relations) for sentence in read_conllu(path)] == [(None, None)]


@pytest.mark.parametrize(
    ("lines", "place", "sentence"),
    [
        (row(1, "a", head="2") + row(2, "b", head="1"), 4, "no word has the head 0, so the sentence has no root"),
        (row(1, "a") + row(2, "b", head="3") + row(3, "c", head="2"), 5, "the heads form a cycle: word 2 -> 3 -> 2"),
        (row(1, "a") + row(2, "b", head="7"), 5, "the head of word 2 is '7', which is not a word"),
        (
            row(1, "a") + row(3, "b"),
            5,
            "the word's number is '3', expected 2; words are numbered from 1 in each sentence",
        ),
        (row("x", "a"), 4, "the word's number is 'x', expected 1"),
        ("1\ta\n", 4, "expected 10 tab-separated columns, found 2"),
        ("1 a _ X x _ 0 root _ _\n", 4, "expected 10 tab-separated columns, found 1"),
        (row(1, ""), 4, "the column for data.words is empty"),
    ],
)
def test_a_faulty_sentence_is_reported_with_its_line(tmp_path, lines, place, sentence):
    path = write(tmp_path / "a.conllu", row(1, "good") + "\n# text = bad\n" + lines + "\n" + row(1, "again"))
    assert refusal(lambda: read_conllu(path)).startswith(f"{path}:{place}: {sentence}")
    notes = Notes(faults="skip")
    assert [each.words for each in read_conllu(path, notes=notes)] == [("good",), ("again",)]
    assert notes.num_faults == 1


def test_a_conllu_string_is_parsed_like_a_file(tmp_path):
    text = "# text = Dogs run\n1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\trun\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "one.conllu").write_text(text, encoding="utf-8")
    (read_graph,) = dependency_graphs(tmp_path / "one.conllu", None, Notes())
    (parsed_graph,) = parse_conllu(text, "the text")
    assert (
        (parsed_graph.words, parsed_graph.heads, parsed_graph.relations)
        == (read_graph.words, read_graph.heads, read_graph.relations)
        == (("Dogs", "run"), (2, 0), ("nsubj", "root"))
    )
    assert parse_conllu("Dogs run", "the text") == []
