import math

from clew.tour.chapters import bits_of_letters


def test_letters_that_begin_a_word_are_told_from_those_that_go_on() -> None:
    text = "ab c'd"  # after the first: b goes on, c and d begin, since no letter stands before them
    log_probs = [-1.0, -9.0, -2.0, -9.0, -4.0]
    first, later = bits_of_letters(text, log_probs)
    assert math.isclose(first, 3 / math.log(2)) and math.isclose(later, 1 / math.log(2))
