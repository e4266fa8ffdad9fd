"""A word's letters as ids: the bytes of its UTF-8, between marks for its beginning and its end. Any word of any language has some.

0 is padding, a byte b is b + 1.
"""

START, END = 257, 258
LETTERS = 259
"""Ids in all."""
LONGEST = 50
"""Ids of a word at most: of longer ones the first."""


def letters_of(word: str, longest: int = LONGEST) -> list[int]:
    return [START, *(byte + 1 for byte in word.encode("utf-8", "replace")[: longest - 2]), END]
