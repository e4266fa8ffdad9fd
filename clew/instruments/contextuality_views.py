"""Two instruments for words in context: the contextuality of a layer's vectors, and a map of one word's occurrences."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from clew.core.errors import UserError, counted, named
from clew.drawing.comparing import on_one_scale
from clew.drawing.views import Lines, Part, Points, Series, Table, View
from clew.inspection.contextuality import (
    Contextuality,
    contextuality,
    principal_components,
    random_cosines,
    random_rows,
)
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.sentences import SentenceOptions, find_sentences, level_choices, level_names, level_words
from clew.instruments.subjects.subject import Subject, subject_names

DRAWN = 400
"""The maximum number of points in the plot of a cone."""
BINS = 41


class ContextualityOptions(SentenceOptions):
    """The sentences, and which of their words are measured."""

    least: int = Field(5, ge=2, description="only words that occur in at least this many sentences are measured")
    layer: int | None = Field(
        None, ge=0, description="the layer whose cone is drawn, 0 for the embedding; the last by default"
    )


class OccurrenceOptions(SentenceOptions):
    """The word, the sentences and the layer."""

    word: str = Field("", description="the word whose occurrences are mapped, such as bank")
    layer: int | None = Field(None, ge=0, description="the layer, 0 for the embedding; the last by default")
    sentences: int = Field(5000, ge=2, le=20_000, description="the number of sentences to search")
    most: int = Field(200, ge=2, le=2000, description="the maximum number of occurrences on the map")


def look_at_contextuality(subjects: Sequence[Subject], options: ContextualityOptions) -> View:
    names = subject_names(subjects)
    measured: dict[str, list[Contextuality]] = {}
    cones: list[list[Part]] = []
    for subject, name in zip(subjects, names, strict=True):
        sentences = find_sentences(subject, options.corpus, options.sentences)
        levels = level_words(subject, sentences, options.pieces)
        measured[name] = [contextuality(level, sentences, options.least) for level in levels]
        layer = layer_of(options.layer, len(levels), subject)
        words = [word for sentence in sentences for word in sentence]
        cones.append([cone(levels[layer], words, f"{name}: {level_names(levels)[layer]}"), histogram(levels, name)])
    parts: list[Part] = [measure_lines(measured, title, field) for title, field in MEASURES.items()]
    parts += [*(part for each in on_one_scale(cones) for part in each), table(measured)]
    about = (
        f"at most {counted(options.sentences, 'sentence')} of {options.corpus}; the value of each measure for random"
        " words is subtracted"
    )
    facts = {name: [{**each._asdict(), **adjusted(each)} for each in levels] for name, levels in measured.items()}
    return View("Contextuality", parts, about, {"runs": facts, "corpus": options.corpus})


MEASURES = {
    "self-similarity: how similar a word's occurrences are": "adjusted_self_similarity",
    "intra-sentence similarity: how similar the words of a sentence are": "adjusted_intra_similarity",
    "maximum explainable variance: how much one static vector per word could explain": "adjusted_explainable_variance",
    "anisotropy: the mean cosine of random words": "anisotropy",
}


def adjusted(each: Contextuality) -> dict[str, float]:
    return {name: getattr(each, name) for name in MEASURES.values() if name.startswith("adjusted")}


def measure_lines(measured: dict[str, list[Contextuality]], title: str, field: str) -> Lines:
    series = [
        Series(name, list(range(len(levels))), [getattr(each, field) for each in levels])
        for name, levels in measured.items()
    ]
    return Lines(series, "layer", title.partition(":")[0], title)


def cone(rows: np.ndarray, words: Sequence[str], title: str) -> Points:
    """Plot vectors along their first two principal directions, not centred, with the origin. A narrow cone is on one
    side of it."""
    chosen_rows = random_rows(len(rows), DRAWN)
    points, shares = principal_components(rows[chosen_rows], centre=False)
    points = np.pad(points, ((0, 0), (0, 2 - points.shape[1])))
    series = [Series("words", points[:, 0].tolist(), points[:, 1].tolist()), Series("origin", [0.0], [0.0])]
    texts = [[words[place] for place in chosen_rows.tolist()], ["the origin"]]
    return Points(
        series, texts, "direction 1", "direction 2", f"the cone, {title}; the directions hold {two_shares(shares)}"
    )


def two_shares(shares: np.ndarray) -> str:
    """Format the variance shares of two directions. They are in the title, so the axes of compared maps have equal
    names."""
    first, second = [*shares, 0.0, 0.0][:2]
    return f"{100 * first:.0f} % and {100 * second:.0f} %"


def histogram(levels: Sequence[np.ndarray], name: str) -> Lines:
    """Plot the cosines of random words, one line per layer."""
    edges = np.linspace(-1, 1, BINS)
    middles = ((edges[1:] + edges[:-1]) / 2).tolist()
    series = []
    for level, rows in zip(level_names(levels), levels, strict=True):
        cosines = np.clip(random_cosines(rows), -1, 1)
        series.append(Series(level, middles, (np.histogram(cosines, edges)[0] / max(len(cosines), 1)).tolist()))
    return Lines(series, "cosine of two random words", "share of pairs", f"{name}: cosines by layer")


def table(measured: dict[str, list[Contextuality]]) -> Table:
    header = (
        "run",
        "layer",
        "self-similarity",
        "intra-sentence",
        "explainable variance",
        "anisotropy",
        "variance of random words",
    )
    rows = []
    for name, levels in measured.items():
        for number, each in enumerate(levels):
            values = (*adjusted(each).values(), each.anisotropy, each.random_variance)
            rows.append((name, number, *(round(value, 4) for value in values)))
    return Table(header, rows, "the first three minus their values for random words")


def look_at_occurrences(subjects: Sequence[Subject], options: OccurrenceOptions) -> View:
    """Map one word: its vectors along their first two principal components, each with its sentence."""
    subject, word = subjects[0], options.word.strip().lower()
    if not word or len(word.split()) > 1:
        raise UserError(f"occurrences needs one word, such as word=bank, not {named(options.word)}")
    read = find_sentences(subject, options.corpus, options.sentences)
    sentences = [words for words in read if word in map(str.lower, words)][: options.most]
    places = [list(map(str.lower, words)).index(word) for words in sentences]
    if len(sentences) < 2:
        raise UserError(
            f"{named(options.word)} is in {counted(len(sentences), 'sentence')} of {options.corpus}, but at least two"
            " are needed; choose another word or corpus"
        )
    levels = level_words(subject, sentences, options.pieces)
    layer = layer_of(options.layer, len(levels), subject)
    starts = np.cumsum([0, *map(len, sentences[:-1])])
    rows = levels[layer][starts + np.array(places)]
    points, shares = principal_components(rows)
    points = np.pad(points, ((0, 0), (0, max(2 - points.shape[1], 0))))
    texts = [mark_word(words, place) for words, place in zip(sentences, places, strict=True)]
    title = f"{word} at {level_names(levels)[layer]}, {len(rows)} occurrences; the components hold {two_shares(shares)}"
    part = Points(
        [Series(word, points[:, 0].tolist(), points[:, 1].tolist())], [texts], "component 1", "component 2", title
    )
    facts = {
        "word": word,
        "layer": layer,
        "points": [{"x": x, "y": y, "text": t} for (x, y), t in zip(points.tolist(), texts, strict=True)],
    }
    return View("Occurrences of a word", [part], f"sentences of {options.corpus}", facts)


def mark_word(words: Sequence[str], place: int) -> str:
    return " ".join(f"[{word}]" if number == place else word for number, word in enumerate(words))


def layer_of(number: int | None, count: int, subject: Subject) -> int:
    if number is None:
        return count - 1
    if number >= count:
        raise UserError(f"there is no layer {number}; {subject.name} has {count - 1}, and 0 is the embedding")
    return number


CONTEXTUALITY = Instrument(
    "how much of a word's vector comes from its context, by layer",
    ContextualityOptions,
    look_at_contextuality,
    needs=("vectors",),
    quick=False,
    choices=level_choices,
    several=True,
)
OCCURRENCES = Instrument(
    "one word's occurrences as a map",
    OccurrenceOptions,
    look_at_occurrences,
    needs=("vectors",),
    quick=False,
    choices=level_choices,
)
