import numpy as np
import pytest

from clew.inspection.properties import PROPERTIES, is_code

CODE = """if x[(1):2] == "a: b":  # why?\n    y = 'it' if x else 2\n"""
KNOWN = {  # one digit per character
    "line_position": ("ab\ncd", "01201"),
    "word_position": ("to be\nor", "01201201"),
    "sentence_position": ("Go. No.", "0120123"),
    "inside_quotes": ('a "b" \u201cc\u201d d', "00110011000"),
    "inside_parentheses": ("a (b (c)) d", "00111111000"),
    "indentation": ("a\n  b\n\nc", "00122200"),
    "bracket_depth": (CODE, "0000122111000000000000000000000" + "0" * 25),
    "inside_comment": (CODE, "0000000000000000000000001111110" + "0" * 25),
    "inside_string": (CODE, "0000000000000001111110000000000".replace("111111", "111110") + "0" * 8 + "111" + "0" * 14),
    "inside_condition": (CODE, "0011111111111111111110000000000" + "0" * 25),
    "capital": ("aB c", "0100"),
    "digit": ("a1 2", "0101"),
    "space": ("a b\n", "0101"),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_has_its_value_after_each_character(name: str) -> None:
    text, expected = KNOWN[name]
    assert "".join(str(int(value)) for value in PROPERTIES[name].find(text)) == expected


def test_an_empty_line_ends_unclosed_quotes() -> None:
    assert PROPERTIES["inside_quotes"].find('"a\n\nb').tolist() == [True, True, True, False, False]


def test_brackets_comments_and_newlines_in_strings_of_code_are_ignored() -> None:
    text = "x = '''(#\n''' # (\n"
    assert not PROPERTIES["bracket_depth"].find(text).any()
    assert PROPERTIES["inside_comment"].find(text).tolist() == [False] * 14 + [True] * 3 + [False]


def test_a_condition_continues_over_lines_inside_brackets() -> None:
    text = "if (a\n  and b):\n c"
    assert PROPERTIES["inside_condition"].find(text).tolist() == [False] * 2 + [True] * 12 + [False] * 4


@pytest.mark.parametrize(
    "text",
    ["", '"' * 999 + "\\", "((((", "))))", "if" * 99, "\ud800x", "'''" * 99, '"""' + "\\" * 999, "\0\r\x85\u2028"],
)
def test_any_text_has_a_value_for_every_character(text: str) -> None:
    for each in PROPERTIES.values():
        values = each.find(text)
        assert len(values) == len(text)
        assert np.isfinite(values.astype(float)).all()


def test_code_is_distinguished_from_prose() -> None:
    assert is_code("import os\n\n\ndef f(x):\n    return x\n")
    assert not is_code("If you can keep your head\nfrom morning on\nclass will tell:\nreturned to the wood\n")
    assert not is_code("")
