"""Sentences for instruments, and a run's vectors of their words at every level. The instruments that compare words,
layers and models share this file."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.data.corpora import find_corpus, get_corpus, holds_sentences, read_corpus_lines
from clew.data.files.text_files import find_text, text_lines
from clew.instruments.instrument import Choices, HeadsOff
from clew.instruments.subjects.subject import Looked, Subject, subject_of
from clew.layers.blocks import block_ends
from clew.runs.own_lines import own_lines
from clew.tasks.uses.level_vectors import word_vectors
from clew.text.words import words_of

OWN = "own"
LONGEST_SENTENCE = 200
"""The maximum number of words of a sentence. Longer sentences are cut, since a line of running text may be a
paragraph."""
SEED = 1


class SentenceOptions(Section):
    """The sentences that the run reads."""

    corpus: str = Field(
        "ewt-sample",
        description="a corpus by name, such as ewt-sample or tinyshakespeare; own: the run's validation part",
    )
    sentences: int = Field(500, ge=2, le=20_000, description="the number of sentences to read")
    pieces: Literal["first", "last", "mean"] = Field("last", description="which of a word's tokens represent it")
    off: HeadsOff = ()


def find_sentences(model: Looked, corpus: str, most: int) -> list[list[str]]:
    """Draw distinct sentences of at least two words with a fixed seed, from a corpus by name, or from the run's
    validation part."""
    lines = own_texts(subject_of(model)) if corpus == OWN else corpus_lines(corpus)
    cut = (words_of(line)[:LONGEST_SENTENCE] for line in islice(lines, 20 * most + 20_000))
    sentences = list(dict.fromkeys(tuple(words) for words in cut if len(words) > 1))
    if len(sentences) < 2:
        raise UserError(
            f"corpus={corpus} has {len(sentences)} sentences of two words or more, but two are needed; name another"
            " corpus"
        )
    chosen = np.random.default_rng(SEED).permutation(len(sentences))[:most]
    return [list(sentences[place]) for place in sorted(chosen.tolist())]


def corpus_lines(name: str) -> Iterator[str]:
    """Yield the sentences or lines of a corpus's validation part, or of its training part if it has none."""
    get_corpus(name)
    if holds_sentences(name):
        parts = read_corpus_lines(name)
        return iter(parts.get("valid", parts["train"]).splitlines())
    files = find_corpus(name)
    return text_lines(find_text(files.valid or files.train))


def own_texts(subject: Subject) -> Iterator[str]:
    if subject.run is None:
        raise UserError(f"{subject.name} is a module without its own data; name a corpus, such as corpus=ewt-sample")
    return own_lines(subject.run)


def level_words(model: Looked, sentences: Sequence[Sequence[str]], pieces: str = "last") -> list[np.ndarray]:
    """Return the vectors of all words (words, dim) at every level of a subject, run or task, the embedding first; for
    an encoder-decoder those of the encoder."""
    body, reader = subject_of(model).offers.vectors()
    return [level.cpu().double().numpy() for level in word_vectors(body, reader, sentences, pieces)]


def level_choices(subject: Subject) -> Choices:
    """Return the numbers of the levels that have vectors, 0 for the embedding; none if the layers are not a stack."""
    body = subject.offers.vectors()[0] if subject.has("vectors") else None
    layers = getattr(getattr(body, "layers", None), "layers", None)
    ends = () if layers is None else range(len(block_ends(body, 1 + len(layers))))
    return Choices(("layer",), tuple((number,) for number in ends))


def level_names(levels: Sequence[Any]) -> list[str]:
    return ["embedding", *(f"layer {number}" for number in range(1, len(levels)))]
