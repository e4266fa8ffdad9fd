"""Captions without a network: those of the most similar training pictures (Devlin et al. 2015)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from clew.baselines.baseline import Baseline, Train
from clew.data.examples import Captioned
from clew.data.pictures.picture_files import read_picture
from clew.metrics.captioning import caption_words
from clew.metrics.diversity import n_grams
from clew.metrics.measures import Measured
from clew.metrics.nearest import Nearest

SIDE = 16
"""The side, in pixels, of the thumbnails that are compared (Torralba et al. 2008)."""
NEIGHBOURS = 20
"""The number of pictures whose captions vote."""
MOST_PICTURES = 6_000
"""More pictures take longer than a few seconds to read."""

Measure = Callable[[Sequence[Captioned], Sequence[str]], Measured]


class NearestPictures:
    """The caption of the training picture whose thumbnail has the largest cosine with a picture's; or the consensus
    caption among those of the NEIGHBOURS nearest: the one whose n-grams have the largest mean cosine with those of
    all."""

    def __init__(self, examples: Sequence[Captioned]):
        captions: dict[str, list[str]] = {}
        pictures: dict[str, Any] = {}
        for example in examples:
            captions.setdefault(example.key, []).extend(example.captions)
            pictures.setdefault(example.key, example.picture)
        self.captions = list(captions.values())
        self.thumbnails = thumbnails(list(pictures.values()))

    def nearest(self, pictures: Sequence[Any], count: int) -> list[list[int]]:
        """The indices of training pictures, nearest first."""
        search = Nearest(thumbnails(pictures), count)
        search.add(self.thumbnails)
        return [[row for row, _ in rows] or [0] for rows in search.neighbours()]

    def first(self, pictures: Sequence[Any]) -> list[str]:
        return [self.captions[rows[0]][0] for rows in self.nearest(pictures, 1)]

    def consensus(self, pictures: Sequence[Any]) -> list[str]:
        return [
            most_alike([text for row in rows for text in self.captions[row]])
            for rows in self.nearest(pictures, NEIGHBOURS)
        ]


def thumbnails(pictures: Sequence[Any]) -> np.ndarray:
    """Thumbnails (pictures, SIDE * SIDE * 3), each minus its mean."""
    rows = np.stack(
        [read_picture(picture, shape=(SIDE, SIDE), mode="rgb").numpy().reshape(-1) for picture in pictures]
    ).astype(np.float32)
    centred: np.ndarray = rows - rows.mean(1, keepdims=True)
    return centred


def most_alike(texts: Sequence[str]) -> str:
    """The text whose words and bigrams have the largest mean cosine with those of all texts; ties go to the first."""
    counts = [Counter(gram for order in (1, 2) for gram in n_grams(caption_words(text), order)) for text in texts]
    numbers = {gram: number for number, gram in enumerate(sorted({gram for grams in counts for gram in grams}))}
    rows = np.zeros((len(texts), len(numbers)))
    for row, grams in enumerate(counts):
        rows[row, [numbers[gram] for gram in grams]] = list(grams.values())
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return texts[int((rows @ rows.sum(0)).argmax())]


def picture_baselines(train: Train, measure: Measure) -> Iterator[Baseline]:
    """The caption of the nearest training picture, and the consensus of several; nothing if there are more than
    MOST_PICTURES."""
    examples: Sequence[Captioned] = train()
    if len({example.key for example in examples}) > MOST_PICTURES:
        return
    model = NearestPictures(examples)
    for name, words, write in (
        ("nearest_picture", "the caption of the nearest training picture has", model.first),
        ("nearest_consensus", f"the consensus of its {NEIGHBOURS} nearest has", model.consensus),
    ):

        def measured(
            part: Sequence[Captioned], name: str = name, write: Callable[[Sequence[Any]], list[str]] = write
        ) -> Measured:
            values, text = measure(part, write([example.picture for example in part]))
            return Measured({f"baseline_{name}_{key}": value for key, value in values.items()}, text)

        yield Baseline(words, measured)
