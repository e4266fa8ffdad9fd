"""Reading a file of any bytes gives examples or a sentence with the file's name."""

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.descriptions import describe
from clew.data.formats import detect_format
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_pairs, read_questions, read_sentences, read_texts
from tests.data.written import write

PIECES = [
    *[
        b"\n",
        b"\r\n",
        b"\r",
        b"\t",
        b",",
        b";",
        b'"',
        b'""',
        b" ",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        "ä€\U0001f408".encode(),
    ],
    *[
        b"text",
        b"label",
        b"source",
        b"target",
        b"a b c",
        b"1",
        b"0",
        b"_",
        b"1-2",
        b"1.1",
        b"#",
        b"# x = y",
        b"-DOCSTART-",
        b"O",
        b"(S (NP",
    ],
    *[
        b'{"text": "a", "label": "b"}',
        b'{"text": [1]}',
        b'{"words": ["a"], "tags": ["B"]}',
        b'{"data": [',
        (
            b'{"paragraphs": [{"context": "a", "qas": [{"question": "b", "answers": [{"text": "a", "answer_start":'
            b" 0}]}]}]}"
        ),
        b'{"question": "a", "context": "b", "answers": {"text": ["b"]}}',
        b"]}",
        b"[",
        b"{",
        b'\\ud800"',
        b"NaN",
        b"\x85",
        b"\x1c",
    ],
    *[
        b"1\ta\t_\tX\tx\t_\t0\troot\t_\t_\n",
        b"text\tlabel\n",
        b"source,target\n",
        b"text;label\n",
        "\u2028".encode(),
        b"1" * 50,
    ],
]
CONTENT = st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join) | st.binary(max_size=60)
READERS = [
    lambda path, **options: read_texts(path, text=1, **options),
    lambda path, **options: read_labelled(path, **options),
    lambda path, **options: read_labelled(path, text=1, label=2, header=False, **options),
    lambda path, **options: read_pairs(path, **options),
    lambda path, **options: read_pairs([path, path], notes=options["notes"]),
    lambda path, **options: read_sentences(path, **options),
    lambda path, **options: read_questions(path, **options),
]


@settings(max_examples=400)
@given(
    content=CONTENT,
    name=st.sampled_from(["a.csv", "a.tsv", "a.jsonl", "a.txt", "a.conll", "a.conllu", "a.en", "a.txt.gz", "a"]),
    format=st.sampled_from([None, None, "csv", "tsv", "jsonl", "lines", "conll", "conllu", "trees"]),
    faults=st.sampled_from(["refuse", "skip"]),
    zipped=st.booleans(),
)
def test_any_bytes_give_examples_or_a_sentence_with_the_file(content, name, format, faults, zipped):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / name, gzip.compress(content) if zipped else content)
        for reader in READERS:
            examples = []
            try:
                for example in reader(path, format=format, notes=Notes(faults=faults)):
                    examples.append(example)
            except UserError as error:
                assert name in str(error) or "CoNLL" in str(error)
                assert "\n" not in str(error)
            for example in examples:
                assert example.id.startswith(str(path))
                for text in example[:-1]:
                    assert text != ""
        for look in (detect_format, describe):
            try:
                repr(look(path))
            except UserError as error:
                assert name in str(error)


@pytest.mark.parametrize("size", [1, 1000])
def test_a_file_of_one_quote_is_refused_at_any_size(size, tmp_path):
    path = write(tmp_path / "a.csv", '"' + "x\n" * size)
    with pytest.raises(UserError, match="a.csv:1: a quote opens in the record that begins here"):
        list(read_texts(path))
