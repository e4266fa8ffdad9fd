import dataclasses
import json

import pytest

from clew.data.corpora.samples import sample_path
from clew.data.descriptions import describe
from clew.data.uses import comment_uses
from tests.data.formats.test_conllu_files import row
from tests.data.written import refusal, write


def test_a_table_is_described_by_columns_and_examples(tmp_path):
    path = write(
        tmp_path / "reviews.csv",
        'text,label\n"a good\nfilm",good\nbad,bad\n\nbad,bad\n,good\n"so" it,bad\none,two,three\nfine,good\n',
    )
    assert repr(describe(path)) == "\n".join(
        [
            f"{path}: comma-separated values, 5 records",
            "column text: 4 different, 1 empty",
            "  words: mean 1.2, median 1, 95 % 3, max 3",
            "  characters: mean 4.2, median 3, 95 % 11, max 11",
            "column label: 2 different",
            "  labels: good 3 (60.0%), bad 2 (40.0%)",
            "duplicates: 1 record repeats an earlier one",
            "skipped: 1 x empty line",
            "skipped: 1 x misplaced quote",
            "skipped: 1 x wrong number of fields",
            (
                f"bad: {path}:8: a field of this record continues after its closing quote; double quotes that are"
                " part of a text"
            ),
            f"bad: {path}:9: expected 2 columns between commas, found 3",
            f"example, {path}:2",
            "  text: a good film",
            "  label: good",
            f"example, {path}:4",
            "  text: bad",
            "  label: bad",
            f"example, {path}:6",
            "  text: bad",
            "  label: bad",
        ]
    )


def test_lengths_follow_the_definition(tmp_path):
    path = write(tmp_path / "a.txt", "".join("w " * n + "\n" for n in range(1, 101)))
    (column,) = describe(path).columns
    assert dataclasses.astuple(column.words) == (50.5, 50, 95, 100)
    assert dataclasses.astuple(column.characters) == (101, 100, 190, 200)
    assert column.labels is None


def test_parallel_text_has_a_ratio_of_lengths():
    folder = sample_path("tatoeba")
    description = describe(folder / "dev.en", folder / "dev.de")
    assert (description.format, description.num_records) == ("parallel", 500)
    source, target = (
        (folder / f"dev.{language}").read_text(encoding="utf-8").splitlines() for language in ("en", "de")
    )
    ratios = [len(right.split()) / len(left.split()) for left, right in zip(source, target, strict=True)]
    assert description.ratio is not None
    assert description.ratio.mean == pytest.approx(sum(ratios) / 500)
    assert description.ratio.max == max(ratios)
    assert "words of the second text for each word of the first: mean 1.0" in repr(description)


def test_tags_are_counted_once_per_word(tmp_path):
    path = write(tmp_path / "a.conll", "a DT\nb NN\nc NN\n\nd NN\n")
    description = describe(path)
    assert description.num_records == 2
    assert description.columns[1].labels == {"NN": 3, "DT": 1}
    assert dataclasses.astuple(description.columns[0].words) == (2, 1, 3, 3)
    path = write(
        tmp_path / "a.conllu",
        row(1, "a", "DET", "2", "det") + row(2, "b", "NOUN") + "\n" + row(1, "c", "NOUN") + "\n" + "1\tx\n",
    )
    description = describe(path)
    assert [column.name for column in description.columns] == [
        "form",
        "lemma",
        "upos",
        "xpos",
        "feats",
        "head",
        "deprel",
        "deps",
        "misc",
    ]
    assert {column.name: column.labels for column in description.columns}["head"] is None
    assert description.faults == (f"{path}:6: expected 10 tab-separated columns, found 2",)


def test_repeated_words_are_not_labels(tmp_path):
    description = describe(write(tmp_path / "a.conll", "1 Ada NNP _\n2 ran VBD _\n\n" * 4))
    assert [column.labels is None for column in description.columns] == [False, True, False, False]
    assert "column 4: all _" in repr(description) and "4: _" not in repr(description).replace("column 4: all _", "")


def test_label_comments_are_listed_and_cyclic_heads_are_faults(tmp_path):
    sentences = [
        f"# sent_id = {n}\n# s_type = {'decl' if n % 2 else 'frag'}\n"
        + row(1, "a", "DET", "2", "det")
        + row(2, "b", "NOUN", "1" if n == 3 else "0")
        for n in range(6)
    ]
    path = write(tmp_path / "a.conllu", "\n".join(sentences))
    description = describe(path)
    assert [(column.name, column.labels) for column in description.columns if column.is_comment] == [
        ("s_type", {"frag": 3, "decl": 2})
    ]
    assert description.num_duplicates == 4
    assert len(description.faults) == 1 and "the heads form a cycle: word 1 -> 2 -> 1" in description.faults[0]
    assert [use.settings for use in comment_uses(description)] == [{"data.label": "s_type", "data.faults": "skip"}]


def test_json_fields_missing_in_some_records_are_columns(tmp_path):
    objects = [{"text": "a b", "meta": {"stars": n % 2}, "words": ["x", "y"]} for n in range(6)] + [{"text": None}]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(value) + "\n" for value in objects))
    columns = {column.name: column for column in describe(path).columns}
    assert list(columns) == ["text", "meta.stars", "words"]
    assert columns["meta.stars"].labels == {"0": 3, "1": 3}
    assert columns["text"].num_empty == 1
    assert columns["words"].words.max == 2


def test_a_partly_readable_file_is_described_up_to_the_error(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\na,b\n"c,d\n')
    description = describe(path)
    assert description.num_records == 1
    assert description.stopped is not None and description.stopped.startswith(
        f"{path}:3: a quote opens in the record that begins here"
    )
    assert f"not read to the end: {description.stopped}" in repr(description)


def test_a_completely_unreadable_file_is_rejected(tmp_path):
    path = write(tmp_path / "a.csv", "")
    assert refusal(lambda: describe(path)) == f"{path}: the file is empty; give one with text in it"
    path = write(tmp_path / "a.mrg", "(S (NP a)")
    assert (
        refusal(lambda: describe(path))
        == f"{path}:1: the tree that begins here is not closed; 1 closing bracket is missing before the end"
    )
    path = write(tmp_path / "b.mrg", "\n")
    assert refusal(lambda: describe(path)) == f"{path}: there is no record in it; give a file with records in it"
    assert refusal(lambda: describe(tmp_path / "train", format="parallel")).endswith(
        "parallel text is two files; give both, first the source and then its translation"
    )
    assert refusal(lambda: describe(tmp_path / "b.csv")).startswith(f"no such file: {tmp_path / 'b.csv'}; ")


def test_trees_are_described_as_parsers_read_them(tmp_path):
    path = write(tmp_path / "a.mrg", "( (S (NP-SBJ (PRP It)) (VP (VBZ rains))))\n(S (-NONE- *))\n(NP (NN Rain))\n")
    description = describe(path)
    columns = {column.name: column for column in description.columns}
    assert (description.num_records, description.skipped) == (2, {"tree of traces only": 1})
    assert columns["tree"].num_different == 2 and columns["words"].words.max == 2
    assert description.examples[0][1]["tree"] == "(TOP (S (NP (PRP It)) (VP (VBZ rains))))"
    assert description.examples[1][0] == f"{path}:tree 3"


def test_trees_with_a_class_at_every_node_are_not_simplified(tmp_path):
    path = write(tmp_path / "a.txt", "(3 (2 It) (4 (2 is) (4 lovely)))\n(1 (2 It) (2 was))\n")
    description = describe(path)
    assert [column.name for column in description.columns] == ["words", "label", "tree"]
    assert description.columns[2].labels == {"2": 4, "4": 2, "1": 1, "3": 1}
    assert description.examples[0][1] == {
        "words": "It is lovely",
        "label": "3",
        "tree": "(3 (2 It) (4 (2 is) (4 lovely)))",
    }


def test_the_length_of_a_plain_text_counts_its_line_ends(tmp_path):
    path = write(tmp_path / "a.txt", "one two\n\nthree\n")
    assert "in all: 3 words, 15 characters with the line ends" in repr(describe(path))


def test_a_description_is_plain_data(tmp_path):
    path = write(tmp_path / "a.tsv", "good\tone film\nbad\tanother film\ngood\tthird\n")
    data = json.loads(json.dumps(dataclasses.asdict(describe(path))))
    assert data["format"] == "tsv" and data["columns"][0]["labels"] is None and data["num_records"] == 3
    assert data["examples"][0] == [f"{path}:1", {"1": "good", "2": "one film"}]


def test_long_values_and_many_labels_are_shortened(tmp_path):
    path = write(tmp_path / "a.tsv", "".join(f"label{n % 20}\t{'word ' * 50}{n}\n" for n in range(60)))
    text = repr(describe(path))
    assert "label12 3 (5.0%), label13 3 (5.0%)" in text and " and 8 more" in text
    assert max(len(line) for line in text.splitlines() if line.startswith("  2: ")) == 105
