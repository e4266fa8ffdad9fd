import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.data.corpora.samples import sample_path
from clew.data.files import text_files
from clew.data.files.text_files import Piece, TextFiles, TextString, measure_text
from clew.data.splits import Spread, TextPart, split_text


def test_tiny_shakespeare_is_split_as_published():
    parts = split_text(sample_path("tinyshakespeare"))
    assert {name: measure_text(part).num_characters for name, part in parts.items()} == {
        "train": 1_003_854,
        "valid": 111_540,
    }


@given(
    text=st.text("ab \n", min_size=20, max_size=60),
    valid=st.sampled_from([0, 0.1, 0.25]),
    test=st.sampled_from([0, 0.1, 0.5]),
)
def test_parts_are_consecutive_and_join_to_the_text(text, valid, test):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "PIECE", 7)
        parts = {
            name: "".join(part)
            for name, part in split_text(TextString(text), valid_fraction=valid, test_fraction=test).items()
        }
    assert parts["train"] + parts.get("valid", "") + parts.get("test", "") == text
    assert len(parts["train"]) == int(round(1 - valid - test, 9) * len(text))
    assert ("valid" in parts, "test" in parts) == (valid > 0, test > 0)


def test_given_parts_are_used_and_not_split_off(tmp_path):
    for name in ("train", "valid"):
        (tmp_path / f"{name}.txt").write_text(name + "\n" * 15)
    parts = split_text(tmp_path / "train.txt", str(tmp_path / "valid.txt"), test_fraction=0.25)
    assert {name: "".join(part) for name, part in parts.items()} == {
        "train": "train" + "\n" * 10,
        "test": "\n" * 5,
        "valid": "valid" + "\n" * 15,
    }


def test_a_part_has_its_characters_and_closes_documents_inside_it(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name * 3 + "\n")
    whole = TextFiles(tuple(tmp_path / name for name in ("a", "b", "c")))
    assert list(TextPart(whole, 1, 10).pieces()) == [Piece("aa\n", True), Piece("bbb\n", True), Piece("cc")]
    assert list(TextPart(whole, 4, 8).pieces()) == [Piece("bbb\n", False)]


def test_fractions_out_of_range_are_refused():
    with pytest.raises(UserError, match=r"valid_fraction \(1.5\) must be at least 0 and below 1"):
        split_text(TextString("a"), valid_fraction=1.5)
    with pytest.raises(UserError, match=r"test_fraction \(-1\) must be at least 0 and below 1"):
        split_text(TextString("a"), test_fraction=-1)
    message = r"valid_fraction \(0.5\) \+ test_fraction \(0.5\) must be below 1, or nothing is left to train on"
    with pytest.raises(UserError, match=message):
        split_text(TextString("a"), valid_fraction=0.5, test_fraction=0.5)


def test_an_empty_part_is_refused():
    message = (
        "the text: the train part of its 1 characters is empty; give more text, or another data.valid_fraction or"
        " data.test_fraction"
    )
    with pytest.raises(UserError, match=message):
        split_text(TextString("a"))


def test_a_spread_takes_pieces_from_the_whole_text():
    texts = [f"{number:04}" for number in range(1000)]
    pieces = list(Spread(texts, 4000, 400))
    assert len(pieces) == 100 and [int(text) // 100 for text in pieces] == [
        number for number in range(10) for _ in range(10)
    ]
    assert list(Spread(texts, 4000, 10**9)) == texts and list(Spread(texts, 4000, 1)) == texts[:1]
