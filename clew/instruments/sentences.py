"""Sentences to look at a run with, and the vectors that it has for their words at every level. Shared by what compares words, layers and
models."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Literal

import numpy as np
from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.data.corpora import find_corpus, get_corpus, holds_sentences, read_lines
from clew.data.notes import Notes
from clew.data.text_files import find_text, text_lines
from clew.instruments.instrument import HeadsOff
from clew.models import MODELS
from clew.runs.directory import IMPORTED
from clew.runs.loaded import Run
from clew.sources.words import SourceReader, WordReader
from clew.tasks import TASKS
from clew.tasks.level_vectors import word_vectors
from clew.text.words import words_of

OWN = "own"
LONGEST_SENTENCE = 200
"""Words; what is longer is cut, as lines of running text may be whole paragraphs."""
SEED = 1


class SentenceOptions(Section):
    """Which sentences a run is looked at with."""

    corpus: str = Field("ewt-sample", description="a corpus by name, such as ewt-sample or tinyshakespeare; own: the run's validation part")
    sentences: int = Field(500, ge=2, le=20_000, description="how many sentences are read")
    pieces: Literal["first", "last", "mean"] = Field("last", description="which of a word's tokens stand for it")
    off: HeadsOff = ()


def find_sentences(run: Run, corpus: str, most: int) -> list[list[str]]:
    """Different sentences of two words or more, drawn by a fixed seed: of a corpus by name, or of what the run was validated on."""
    lines = own_lines(run) if corpus == OWN else corpus_lines(corpus)
    cut = (words_of(line)[:LONGEST_SENTENCE] for line in islice(lines, 20 * most + 20_000))
    found = list(dict.fromkeys(tuple(words) for words in cut if len(words) > 1))
    if len(found) < 2:
        raise UserError(f"corpus={corpus} has {len(found)} sentences of two words or more, and two are needed; name another")
    chosen = np.random.default_rng(SEED).permutation(len(found))[:most]
    return [list(found[place]) for place in sorted(chosen.tolist())]


def corpus_lines(name: str) -> Iterator[str]:
    """The validation part of a corpus, or where it has none its training part, a sentence or a line of text at a time."""
    get_corpus(name)
    if holds_sentences(name):
        parts = read_lines(name)
        return iter(parts.get("valid", parts["train"]).splitlines())
    files = find_corpus(name)
    return text_lines(find_text(files.valid or files.train))


def own_lines(run: Run) -> Iterator[str]:
    config = run.config
    if config.recipe == IMPORTED:
        raise UserError(f"{run.folder} was imported and has no data of its own; name a corpus, such as corpus=ewt-sample")
    learning = TASKS[config.task.name].learns
    return learning.lines(learning.read(config.data, config.seed, Notes(faults=config.data.faults))["valid"])


def why_wordless(run: Run) -> str | None:
    """A sentence where a run has no vectors of the words of a sentence, else None."""
    family = run.config.model.family
    if MODELS[family].trees:
        return f"{run.folder} reads trees, and not the words of a sentence one after the other"
    if MODELS[family].encodes and run.task.languages:
        return f"{run.folder} reads a text with the language that it goes into; it has no vectors of a text alone"
    return None


def level_words(run: Run, sentences: Sequence[Sequence[str]], pieces: str = "last") -> list[np.ndarray]:
    """The vectors of all words, in order (words, dim), at every level, the embedding's first; of a model that reads and writes, its
    encoder's."""
    task: Any = run.task
    if MODELS[run.config.model.family].encodes:
        body = task.body.encoder
        reader: WordReader = SourceReader(run.vocabularies["source"], task.source_end)
    else:
        body = task.body
        reader = WordReader.of(body, run.vocabularies, running=TASKS[run.config.task.name].is_running)
    return [level.cpu().double().numpy() for level in word_vectors(body, reader, sentences, pieces)]


def level_names(levels: Sequence[Any]) -> list[str]:
    return ["embedding", *(f"layer {number}" for number in range(1, len(levels)))]
