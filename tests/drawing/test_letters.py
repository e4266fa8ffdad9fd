from hypothesis import given
from hypothesis import strategies as st

from clew.drawing.letters import markup, shortened_name, text_width, visible, wrapped


def test_long_names_lose_their_middle() -> None:
    assert shortened_name("cell=gru", 8) == "cell=gru"
    assert shortened_name("cell=gru and a tail", 9) == "cell…tail"
    assert [len(shortened_name("x" * 50, most)) for most in (9, 10)] == [9, 10]


def test_everything_in_a_text_can_be_seen() -> None:
    assert visible(" the ") == "·the·" and visible("  ") == "··" and visible("New York") == "New York"
    assert visible("a\nb\tc\r") == "a⏎b⇥c␍"
    assert visible("\x00\x1b\u202e\ud800\u2028") == "\\x00\\x1b\\u202e\\ud800\\u2028"
    assert visible("नि 👩‍💻 שלום") == "नि 👩‍💻 שלום"


@given(st.text(st.characters(exclude_categories=[])))
def test_what_is_seen_is_printable_and_stays_so(text: str) -> None:
    shown = visible(text)
    assert shown.replace("\u200c", "").replace("\u200d", "").isprintable() and visible(shown) == shown
    assert not set("<>\"'") & set(markup(text))
    markup(text).encode("utf-8")


@given(st.text("ab 猫", max_size=60), st.integers(30, 200))
def test_wrapping_keeps_every_letter_within_the_width(text: str, width: int) -> None:
    lines = wrapped(text, width, 10)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(text_width(line, 10) <= width for line in lines)
