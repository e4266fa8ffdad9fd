"""A word's letters as ids: its UTF-8 bytes, between marks for its start and its end. Every word of every language has
some, and no table of characters must be trained, stored or agreed on.

0 is padding, a byte b is b + 1.
"""

START, END = 257, 258
LETTERS = 259
"""The number of ids."""
LONGEST = 50
"""The largest number of ids of a word; the rest of a longer word is dropped."""


def letters_of(word: str, longest: int = LONGEST) -> list[int]:
    return [START, *(byte + 1 for byte in word.encode("utf-8", "replace")[: longest - 2]), END]
