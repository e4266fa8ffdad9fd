import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.examples import Labelled, Pair, Sentence, Text
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_pairs, read_sentences, read_texts
from tests.data.written import refusal, write, written

REMEDY = "; fix it, or skip such records with data.faults=skip"
WORDS = st.text(st.characters(exclude_characters="\r\n\0\t", exclude_categories=["Cs"]), min_size=1, max_size=9).filter(
    str.strip
)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5))
def test_every_format_and_a_list_give_the_same_pairs(pairs):
    tsv = "source\ttarget\n" + "".join(f"{source}\t{target}\n" for source, target in pairs)
    csv = "source,target\n" + "".join(
        ",".join('"' + text.replace('"', '""') + '"' for text in pair) + "\n" for pair in pairs
    )
    jsonl = "".join(
        json.dumps({"id": 7, "translation": {"en": source, "de": target}}) + "\n" for source, target in pairs
    )
    with written("a.tsv", tsv) as path:
        assert [tuple(pair[:2]) for pair in read_pairs(path)] == pairs
    with written("a.csv", csv) as path:
        assert [tuple(pair[:2]) for pair in read_pairs(path)] == pairs
    with written("a.jsonl", jsonl) as path:
        assert [tuple(pair[:2]) for pair in read_pairs(path, source="translation.en", target="translation.de")] == pairs
    with written("a.en", "\ufeff" + "".join(f"{source}\n" for source, _ in pairs)) as path:
        write(path.with_suffix(".de"), "\ufeff" + "".join(f"{target}\n" for _, target in pairs))
        assert [tuple(pair[:2]) for pair in read_pairs(path.with_suffix(""), source="en", target="de")] == pairs
        assert [tuple(pair[:2]) for pair in read_pairs([path, path.with_suffix(".de")])] == pairs
    assert [tuple(pair[:2]) for pair in read_pairs(pairs)] == pairs


def test_examples_know_their_place_in_the_file(tmp_path):
    path = write(tmp_path / "a.tsv", "\na\tb\n\nc\td\n")
    assert list(read_pairs(path)) == [Pair("a", "b", f"{path}:2"), Pair("c", "d", f"{path}:4")]
    assert list(read_pairs([("a", "b"), ["c", "d"], Pair("e", "f", "x:9"), Pair("g", "h")])) == [
        Pair("a", "b", "example 1"),
        Pair("c", "d", "example 2"),
        Pair("e", "f", "x:9"),
        Pair("g", "h", "example 4"),
    ]


def test_columns_of_a_headerless_table_are_numbered(tmp_path):
    path = write(tmp_path / "a.tsv", "x\tsome text\tpositive\ny\tmore text\tnegative\n")
    assert [(example.text, example.labels) for example in read_labelled(path, text=2, label="3")] == [
        ("some text", ("positive",)),
        ("more text", ("negative",)),
    ]


def test_a_missing_column_is_reported_before_anything_is_read(tmp_path):
    path = write(tmp_path / "a.csv", "sentence,label\na,b\n")
    with pytest.raises(
        ValueError, match="no column 'sentense' for data.text; did you mean 'sentence'\\? there are: sentence, label"
    ):
        read_labelled(path, text="sentense", label="label")
    path = write(tmp_path / "a.jsonl", '{"meta": {"stars": 3}, "body": "a"}\n')
    assert refusal(lambda: read_labelled(path, text="body", label="meta.star")) == (
        f"{path}:1: no column 'meta.star' for data.label; did you mean 'meta.stars'? there are: meta.stars, body"
    )


def test_columns_must_be_named_when_roles_are_ambiguous(tmp_path):
    path = write(tmp_path / "a.csv", "de,en\na,b\n")
    assert refusal(lambda: read_pairs(path)) == (
        f"{path}: no column 'source'; name it with data.source=NAME; there are: de, en"
    )
    path = write(tmp_path / "a.tsv", "good\ta film\nbad\tanother\n")
    assert refusal(lambda: read_labelled(path)) == (
        f"{path}: no column 'text'; name it with data.text=NAME; there are: 1, 2"
    )


def test_texts_are_lines_or_a_column(tmp_path):
    path = write(tmp_path / "a.txt", "one text\n\nanother\n")
    assert list(read_texts(path)) == [Text("one text", f"{path}:1"), Text("another", f"{path}:3")]
    path = write(tmp_path / "a.csv", "title\none\n")
    assert [example.text for example in read_texts(str(path))] == ["one"]
    path = write(tmp_path / "b.csv", "title,body\none,two\n")
    assert [example.text for example in read_texts(path, text="body")] == ["two"]
    assert list(read_texts(["a", ("b",), Text("c", "id")])) == [
        Text("a", "example 1"),
        Text("b", "example 2"),
        Text("c", "id"),
    ]


def test_a_label_may_belong_to_two_texts(tmp_path):
    path = write(tmp_path / "a.tsv", "sentence1\tsentence2\tlabel\na b\tc d\t entailment \n")
    assert list(read_labelled(path, text="sentence1", second="sentence2")) == [
        Labelled("a b", ("entailment",), "c d", f"{path}:2")
    ]
    assert list(read_labelled([("a", "x"), ("a", "b", "x")])) == [
        Labelled("a", ("x",), None, "example 1"),
        Labelled("a", ("x",), "b", "example 2"),
    ]


def test_labels_may_be_numbers_lists_or_several(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,x | y\nb,\n")
    assert [example.labels for example in read_labelled(path, label_separator="|")] == [("x", "y"), ()]
    path = write(
        tmp_path / "a.jsonl",
        '{"text": "a", "label": ["x", 2]}\n{"text": "b", "label": true}\n{"text": 1.5, "label": 0}\n',
    )
    assert [(example.text, example.labels) for example in read_labelled(path)] == [
        ("a", ("x", "2")),
        ("b", ("true",)),
        ("1.5", ("0",)),
    ]
    assert [example.labels for example in read_labelled([("a", 1), ("b", ("x", "y")), Labelled("c", ())])] == [
        ("1",),
        ("x", "y"),
        (),
    ]


def test_labels_are_optional_for_prediction(tmp_path):
    path = write(tmp_path / "a.csv", "text\na\n")
    assert list(read_labelled(path, with_labels=False)) == [Labelled("a", id=f"{path}:2")]
    assert list(read_labelled(["a"], with_labels=False)) == [Labelled("a", id="example 1")]


@pytest.mark.parametrize("empty", ["", "  ", "\xa0"])
def test_an_empty_required_field_is_a_fault(tmp_path, empty):
    path = write(tmp_path / "a.csv", f"id,text,label\n,a,x\n2,{empty},y\n3,c,z\n")
    assert refusal(lambda: read_labelled(path)) == f"{path}:3: the field for data.text is empty{REMEDY}"
    notes = Notes(faults="skip")
    assert [example.text for example in read_labelled(path, notes=notes)] == ["a", "c"]
    assert notes.report() == [f"skipped 1 x empty field (first: {path}:3)"]
    assert refusal(lambda: read_pairs([("a", empty)])) == f"example 1: the field for data.target is empty{REMEDY}"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"label": "x"}', "no field 'text'; there are: label"),
        ("{}", "no field 'text'; there are: none"),
        ('{"text": null, "label": "x"}', "the field for data.text is null"),
        ('{"text": ["a"], "label": "x"}', "data.text takes a text, found a list"),
        ('{"text": "a", "label": {}}', "data.label takes a text, found an object"),
        ('{"text": "a \\ud800", "label": "x"}', "the field for data.text has half a character, '\\ud800'"),
    ],
)
def test_a_json_value_of_the_wrong_type_is_a_fault(tmp_path, line, sentence):
    path = write(tmp_path / "a.jsonl", f'{{"text": "a", "label": "x"}}\n{line}\n')
    assert refusal(lambda: read_labelled(path)) == f"{path}:2: {sentence}{REMEDY}"
    assert len(list(read_labelled(path, notes=Notes(faults="skip")))) == 1


def test_a_list_of_other_objects_is_rejected():
    assert refusal(lambda: read_pairs([("a", "b"), ("c",)])) == "example 2: expected (source, target), found ('c',)"
    assert (
        refusal(lambda: read_labelled([("a",)]))
        == "example 1: expected (text, label) or (text, second, label), found ('a',)"
    )
    assert refusal(lambda: read_texts([3])) == "example 1: expected (text,), found 3"
    assert refusal(lambda: read_pairs([("a", 3.5j)])) == f"example 1: data.target takes a text, found complex{REMEDY}"
    assert (
        refusal(lambda: read_pairs([]))
        == "the list of examples: there is no record in it; give a file with records in it"
    )


def test_a_format_that_cannot_contain_the_examples_is_rejected(tmp_path):
    path = write(tmp_path / "a.txt", "one line\nanother line\n")
    assert refusal(lambda: read_pairs(path)) == (
        f"{path}: this is one text per line (lines), which holds no pairs; "
        "if it is in another format, set data.format to one of: json, jsonl, tsv, csv"
    )
    path = write(tmp_path / "a.mrg", "(S (NP a))")
    assert refusal(lambda: read_texts(path)).startswith(
        f"{path}: this is bracketed trees (trees), which holds no texts; "
    )
    path = write(tmp_path / "a.csv", "a,b\nc,d\n")
    assert refusal(lambda: read_sentences(path)) == (
        f"{path}: this is comma-separated values (csv), which holds no words with tags; "
        "if it is in another format, set data.format to one of: json, jsonl, conllu, conll"
    )


def test_single_word_pairs_with_an_empty_line_are_not_read_as_conll(tmp_path):
    path = write(tmp_path / "a.tsv", "Hund\tdog\nKatze\tcat\n\nMaus\tmouse\n")
    assert [(pair.source, pair.id) for pair in read_pairs(path)] == [
        ("Hund", f"{path}:1"),
        ("Katze", f"{path}:2"),
        ("Maus", f"{path}:4"),
    ]
    assert [sentence.words for sentence in read_sentences(path)] == [("Hund", "Katze"), ("Maus",)]


def test_parallel_text_needs_its_languages(tmp_path):
    assert refusal(lambda: read_pairs("corpus/train", format="parallel")) == (
        "corpus/train: parallel text is two files, such as corpus/train.en and corpus/train.de; "
        "name them with data.source=en data.target=de"
    )
    assert (
        refusal(lambda: read_pairs(tmp_path / "train"))
        == f"no such file: {tmp_path / 'train'}; the folder {tmp_path} is empty"
    )


def test_sentences_are_read_from_columns_json_and_lists(tmp_path):
    path = write(tmp_path / "a.conll", "a DT O\nb NN B\n")
    assert list(read_sentences(path)) == [Sentence(("a", "b"), ("O", "B"), id=f"{path}:1")]
    assert [sentence.tags for sentence in read_sentences(path, tags="2")] == [("DT", "NN")]
    assert [sentence.tags for sentence in read_sentences(path, with_tags=False)] == [None]
    assert refusal(lambda: read_sentences(path, tags="ner")) == (
        "CoNLL columns have no names; data.tags must be a number from 1, or from -1 at the last, not 'ner'"
    )
    path = write(tmp_path / "a.jsonl", '{"tokens": ["a", "b"], "tags": ["O", "B"]}\n')
    assert list(read_sentences(path, words="tokens")) == [Sentence(("a", "b"), ("O", "B"), id=f"{path}:1")]
    assert list(read_sentences([(["a", "b"], ["O", "B"]), (("a", "b"), ("O", "B"), (2, 0))])) == [
        Sentence(("a", "b"), ("O", "B"), id="example 1"),
        Sentence(("a", "b"), ("O", "B"), (2, 0), id="example 2"),
    ]
    whole = Sentence(("a", "b"), ("O", "B"), (2, 0), ("det", "root"), "x:1")
    assert list(read_sentences([whole])) == [whole]


@pytest.mark.parametrize(
    ("example", "sentence"),
    [
        ((["a", "b"], ["O"]), "expected as many tags as words, found 2 words and 1 tags"),
        (
            (["a"], ["O"], [1]),
            "no word has the head 0, so the sentence has no root (the heads form a cycle: word 1 -> 1)",
        ),
        (("ab", ["O"]), "data.words takes a list of strings, found a string"),
        (([], []), "the field for data.words is empty, or a string in it is"),
        ((["a", ""], ["O", "O"]), "the field for data.words is empty, or a string in it is"),
    ],
)
def test_unequal_numbers_of_words_and_tags_are_a_fault(example, sentence):
    assert refusal(lambda: read_sentences([example])) == f"example 1: {sentence}{REMEDY}"


def test_a_text_of_ten_thousand_words_is_read(tmp_path):
    text = " ".join(f"word{i}" for i in range(10_000))
    path = write(tmp_path / "a.csv", f"text,label\n{text},x\n")
    assert [example.text for example in read_labelled(path)] == [text]
    path = write(tmp_path / "a.en", f"{text}\n")
    assert [pair.source for pair in read_pairs([path, path])] == [text]
