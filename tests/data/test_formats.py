import gzip

import pytest

from clew.data.formats import find_format, recognise
from clew.data.samples import sample_path
from tests.data.test_conllu_files import row
from tests.data.written import refusal, write

TABLE = "Hi.\tHallo!\nRun!\tLauf!\nGo on.\tMach weiter.\n"


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.csv", "anything", "csv"),
        ("a.CSV", "anything", "csv"),
        ("a.jsonl", "anything", "jsonl"),
        ("a.conllu", "anything", "conllu"),
        ("a.mrg", "anything", "trees"),
        ("a.tsv", "anything", "tsv"),
        ("a.tsv", TABLE, "tsv"),
        ("a.tsv", "a\tDT\nb\tNN\n\nc\tNN\n", "conll"),
        ("a.tsv", "a film\tgood\nb\tbad\n\nc\tbad\n", "tsv"),
        ("deu.txt", TABLE, "tsv"),
        ("deu.txt", TABLE + "broken\n", "tsv"),
        ("a.txt", '{"text": "a"}\n', "jsonl"),
        ("a.txt", "( (S \n  (NP a)", "trees"),
        ("a.txt", "(3 (2 It) (4 works))", "trees"),
        ("a.txt", "(See page 1.)\nIt works.\n", "lines"),
        ("a.txt", "# text = a\n" + row(1, "a") + row("2-3", "bc") + row(2, "b"), "conllu"),
        ("eng.train", "-DOCSTART- -X- O\n\nEU NNP I-ORG\nsays VBZ O\n\nPeter NNP I-PER\n", "conll"),
        ("a.txt", "to be or\nnot to be\n\nthat is the\n", "lines"),
        ("a.txt", "text,label\na,b\nc,d\n", "csv"),
        ("a.txt", 'text;label\n"a\nb";c\nd;e\n', "csv"),
        ("a.txt", "Hello, world\nGood, morning\n", "lines"),
        ("a.txt", "It was long ago.\nA text, it seems, of lines.\n", "lines"),
        ("a", "One line.\n", "lines"),
    ],
)
def test_a_format_is_told_by_extension_then_by_content(tmp_path, name, content, format):
    assert recognise(write(tmp_path / name, content)) == format
    assert recognise(write(tmp_path / f"{name}.gz", gzip.compress(content.encode()))) == format


@pytest.mark.parametrize(
    ("sample", "file", "format"),
    [
        ("tinyshakespeare", "", "lines"),
        ("tatoeba", "train.de", "lines"),
        ("polarity", "train.tsv", "tsv"),
        ("ewt", "train.tsv", "conll"),
        ("gum", "dev.tsv", "tsv"),
        ("craft", "dev.mrg", "trees"),
        ("panlex", "eng-deu.tsv", "tsv"),
    ],
)
def test_the_samples_are_told_apart(sample, file, format):
    assert recognise(sample_path(sample) / file) == format


def test_a_format_can_be_forced(tmp_path):
    path = write(tmp_path / "a.csv", "a\tb")
    assert find_format(path, "tsv") == "tsv"
    assert find_format(path) == "csv"
    assert refusal(lambda: find_format(path, "tvs")) == (
        "unknown data.format 'tvs'; did you mean 'tsv'? known: conll, conllu, csv, jsonl, lines, parallel, squad, trees, tsv"
    )
