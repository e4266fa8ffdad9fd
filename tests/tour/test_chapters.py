import math

from clew.tour.chapters import bits_of_letters


def test_first_letters_of_words_are_counted_apart_from_later_ones() -> None:
    text = "ab c'd"  # after the first letter: b continues a word; c and d begin one, since no letter precedes them
    log_probs = [-1.0, -9.0, -2.0, -9.0, -4.0]
    first, later = bits_of_letters(text, log_probs)
    assert math.isclose(first, 3 / math.log(2)) and math.isclose(later, 1 / math.log(2))
