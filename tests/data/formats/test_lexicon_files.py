import pytest

from clew.core.errors import UserError
from clew.data.formats.lexicon_files import read_lexicon


def test_pairs_are_separated_by_a_tab_or_spaces(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("dog\tHund\nice cream\tEis\n\ncat  Katze\n", encoding="utf-8")
    assert read_lexicon(path) == [("dog", "Hund"), ("ice cream", "Eis"), ("cat", "Katze")]


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("dog\n", ":1: expected a word and its translation"),
        ("a b\na\tb\tc\n", ":2: .* found 3 words"),
        ("\n \n", "no pairs of words"),
        ("x\t\n", ":1:"),
    ],
)
def test_other_lines_are_refused_with_their_number(tmp_path, text, sentence):
    path = tmp_path / "pairs.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=sentence):
        read_lexicon(path)
