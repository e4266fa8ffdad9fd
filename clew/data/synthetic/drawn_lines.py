"""Lines of generated handwriting with known text: words of the embedded Shakespeare in random hands; the same seed
gives the same lines."""

import random
import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from clew.core.files import read_bytes
from clew.data.corpora.samples import sample_path
from clew.data.pictures.picture_decoding import Mode, in_mode
from clew.data.synthetic.handwriting import render_line

LINES = "lines"
"""The name of the corpus."""
NUM_WORDS = 500
"""How many words are used: the most frequent ones of at least two letters."""
HEIGHT = 32


class DrawnLine(NamedTuple):
    """A line of text in some hand. It is a `Picture` of black ink on white."""

    text: str
    hand: int  # the seed of the line's slant, size and strokes

    @property
    def key(self) -> str:
        return f"{self.text} {self.hand}"

    @property
    def id(self) -> str:
        return f"{LINES} {self.key.replace(' ', '+')}"

    def pixels(self, mode: Mode = "rgb") -> np.ndarray:
        """Bytes (height, width, channels)."""
        ink = render_line(self.text, seed=self.hand, height=HEIGHT).numpy()
        grey = np.rint(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8)
        return in_mode(np.repeat(grey[..., None], 3, 2), mode)


def drawn_lines(count: int, shortest: int, longest: int, seed: int) -> list[DrawnLine]:
    """Draw `count` lines of `shortest` to `longest` words, each in its own hand."""
    draw = random.Random(f"lines {seed}")
    return [
        DrawnLine(" ".join(draw.choices(frequent_words(), k=draw.randint(shortest, longest))), draw.randrange(2**31))
        for _ in range(count)
    ]


@lru_cache(maxsize=1)
def frequent_words() -> list[str]:
    text = read_bytes(sample_path("tinyshakespeare")).decode().lower()
    counts = Counter(re.findall(r"(?<![\w'])[a-z]{2,}(?![\w'])", text))
    return [word for word, _ in counts.most_common(NUM_WORDS)]
