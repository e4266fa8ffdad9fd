import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.data.formats import find_format, json_files
from clew.data.formats.json_files import dotted_names, read_json_array, read_jsonl, value_at
from clew.data.notes import Notes
from tests.data.written import refusal, write, written

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(st.text(max_size=4), VALUE, max_size=4), min_size=1, max_size=5), st.booleans())
def test_files_written_by_python_are_read_back(objects, ascii_only):
    content = "".join(json.dumps(value, ensure_ascii=ascii_only).replace("\0", "") + "\n" for value in objects)
    with written("a.jsonl", content) as path:
        records = list(read_jsonl(path))
    assert [record.values for record in records] == objects
    assert [record.line for record in records] == list(range(1, len(objects) + 1))


def test_nested_fields_are_named_with_dots():
    values = {"translation": {"en": "a", "de": {"formal": "b"}}, "a.b": 1, "none": {}}
    assert dotted_names(values) == ["translation.en", "translation.de.formal", "a.b", "none"]
    assert [value_at(values, name) for name in dotted_names(values)] == ["a", "b", 1, {}]
    for missing in ("translation.fr", "translation.en.x", "b"):
        with pytest.raises(KeyError, match=missing):
            value_at(values, missing)


def test_empty_lines_are_skipped_and_counted(tmp_path):
    notes = Notes()
    path = write(tmp_path / "a.jsonl", '{"a": 1}\n\n{"a": 2}\n')
    assert [record.line for record in read_jsonl(path, notes=notes)] == [1, 3]
    assert notes.skipped == {"empty line": 1}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('{"a": }', "this is not JSON: expecting value at column 7"),
        ("{'a': 1}", "this is not JSON: expecting property name enclosed in double quotes at column 2"),
        ('{"a": 1} x', "this is not JSON: extra data at column 10"),
        ("[" * 100_000, "this is not JSON: it is nested too deeply"),
        (f'{{"a": {"1" * 5000}}}', "this is not JSON: a number in it is too long"),
        ('"a"', "expected an object ({...}), found a string"),
        ("[1]", "expected an object ({...}), found a list"),
        ("null", "expected an object ({...}), found null"),
    ],
    ids=lambda text: text[:30],
)
def test_a_line_that_is_not_an_object_is_a_fault(tmp_path, line, sentence):
    path = write(tmp_path / "a.jsonl", f'{{"a": 1}}\n{line}\n{{"a": 3}}\n')
    assert (
        refusal(lambda: read_jsonl(path)) == f"{path}:2: {sentence}; fix it, or skip such records with data.faults=skip"
    )
    assert [record.line for record in read_jsonl(path, notes=Notes(faults="skip"))] == [1, 3]


def test_an_object_over_several_lines_is_reported_as_such(tmp_path):
    path = write(tmp_path / "a.json", '{\n"a": 1\n}')
    assert (
        refusal(lambda: read_jsonl(path))
        == f"{path}: JSON lines have one object per line, but this value spans several lines; write one record per"
        f" line, e.g. jq -c . {path}"
    )


OBJECTS = st.lists(
    st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers() | st.lists(st.none()), max_size=3),
    min_size=1,
)


@given(OBJECTS, st.sampled_from([None, 1, "\t"]))
def test_an_array_written_by_python_is_read_back(objects, indent):
    with written("a.json", json.dumps(objects, indent=indent)) as path:
        assert [record.values for record in read_json_array(path)] == objects
        assert [record.values for record in read_jsonl(path)] == objects


def test_records_of_an_array_know_the_line_where_they_begin(tmp_path):
    path = write(tmp_path / "a.json", '\n[\n {"a": 1},\n\n {"a":\n  "two\\n"}, {"a": 3}\n]\n')
    assert find_format(path) == "json"
    assert [(record.line, record.values) for record in read_json_array(path)] == [
        (3, {"a": 1}),
        (5, {"a": "two\n"}),
        (6, {"a": 3}),
    ]


@pytest.mark.parametrize("size", [7, 100, 2**20])
def test_an_array_is_read_equally_with_any_piece_size(tmp_path, monkeypatch, size):
    monkeypatch.setattr(json_files, "PIECE", size)
    objects = [{"text": "ä" * length, "label": "]},["} for length in (0, 1, 50, 5000)] * 9
    path = write(tmp_path / "a.json", json.dumps(objects, indent=1))
    assert [record.values for record in read_json_array(path)] == objects


def test_a_broken_array_is_reported_with_its_line(tmp_path):
    path = write(tmp_path / "a.json", '[{"a": 1},\n{"a": 2}\n{"a": }]')
    assert refusal(lambda: read_json_array(path)) == f"{path}:3: this is not JSON: expecting value at column 7"
    path = write(tmp_path / "b.json", '[{"a": 1},\n3]')
    assert (
        refusal(lambda: read_json_array(path))
        == f"{path}:2: expected an object ({{...}}), found a number; fix it, or skip such records with"
        " data.faults=skip"
    )
    path = write(tmp_path / "c.json", '[{"a": 1},\n')
    assert refusal(lambda: read_json_array(path)).startswith(f"{path}:2: this is not JSON: ")
