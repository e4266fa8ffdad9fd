"""A text as a run reads it: one row, with what is shown of every place. What the instruments that look at a text have in common.

    reading = read(run, "the cat sat")
    with clew.record(run, "*.attention.weights") as seen:
        reading.hidden()

A model that reads and writes (a translator, a parser) reads a text and writes a target: one that is given, or what it finds itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.data.examples import Pair
from clew.models import MODELS
from clew.runs.embedding import check_reads_one_sequence
from clew.runs.loaded import Run
from clew.sources.windows import cut_text, part_of
from clew.sources.words import EncodedWords, WordReader
from clew.tasks import TASKS
from clew.tasks.alignment import tokens_of, with_marks
from clew.tasks.level_vectors import block_levels
from clew.tasks.translation import encode_pairs
from clew.text.tokenizer import check_is_text


@dataclass(frozen=True)
class Reading:
    """`tokens` and `ids` of every place that is read; of a model that writes besides, `written` and `written_ids` of every place of its
    target, its end the last. `batch` is what its body takes: `Pieces`, or a `SequenceBatch` of one row. `spans` are the characters
    [start, stop) of the text that each place stands for; None of what was put around it."""

    run: Run
    text: str
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    batch: Any
    written: tuple[str, ...] = ()
    written_ids: tuple[int, ...] = ()
    spans: tuple[tuple[int, int] | None, ...] = ()

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text itself, place by place; the token where that is no part of it."""
        found = zip(self.tokens, self.spans or [None] * len(self.tokens), strict=True)
        return tuple(token if span is None or span[0] >= span[1] else self.text[slice(*span)] for token, span in found)

    @property
    def writes(self) -> bool:
        return bool(self.written)

    def forward(self) -> Tensor:
        """The body's vectors (1, length, dim), with gradients where they are on: of what is read, or of what is written."""
        if self.writes:
            return self.run.task.decode(self.batch)[0]
        return self.run.task.body(self.batch.inputs, self.batch.mask)[0]

    def hidden(self) -> Tensor:
        """The same without gradients, in evaluation mode."""
        with evaluating([self.run.task]):
            return self.forward()

    def levels(self) -> list[Tensor]:
        """(1, length, dim) of the embedding and of what every block ends with; of a model that writes, those of its encoder."""
        with evaluating([self.run.task]):
            if self.writes:
                encoder = self.run.task.body.encoder
                return encoder.levels(self.batch.source, self.batch.source_mask)
            return block_levels(self.run.task.body, self.batch)

    @property
    def logits(self) -> Callable[[Tensor], Tensor] | None:
        """From the body's vectors to a score for every token, where the task has one."""
        task = self.run.task
        if self.writes:
            return task.log_probs
        return task.logits if TASKS[self.run.config.task.name].verb in ("generate", "fill") else None


def read(run: Run, text: str, target: str | None = None, *, into: str = "", any_length: bool = False) -> Reading:
    """A text, and for a model that writes its target, as one row of ids. Refused where it is empty, or longer than what the model's
    positions can tell apart, unless the model is not to be run."""
    check_is_text(text, "text")
    if MODELS[run.config.model.family].encodes:
        return read_pair(run, text, target, into)
    if target is not None:
        raise UserError(f"{run.folder} reads one text and writes none; leave the target out")
    check_reads_one_sequence(run.config, str(run.folder))
    reader = WordReader.of(run.task.body, run.vocabularies, running=TASKS[run.config.task.name].is_running)
    encoded, spans = encode_text(reader, text, masked=run.verb == "fill")
    limit = run.task.body.max_length
    if limit is not None and len(encoded.tokens) > limit and not any_length:
        raise UserError(f"the text has {len(encoded.tokens)} tokens, but the model can tell apart {limit} positions; shorten it")
    batch = to_device(reader.collate([encoded]), run.task.body.embedding.like.device)
    return Reading(run, text, tuple(map(reader.tokenizer.token, encoded.tokens)), tuple(encoded.tokens), batch, spans=spans)


def why_unreadable(run: Run) -> str | None:
    """Why no text can be read by a run: it reads trees."""
    return f"{run.folder} reads trees, and no text by itself" if run.reads_trees else None


def unknown_ids(run: Run) -> set[int]:
    """What stands for all that a run's tokenizers do not know."""
    return {id for tokenizer in run.vocabularies.values() if (id := getattr(tokenizer, "unknown", None)) is not None}


def no_text() -> UserError:
    return UserError("there is no text to read; give at least a word")


def encode_text(reader: WordReader, text: str, *, masked: bool = False) -> tuple[EncodedWords, tuple[tuple[int, int] | None, ...]]:
    """A whole text in the tokenizer's frame, at least one token, and the characters that each token stands for. Where it is `masked`,
    [MASK] is the token that is to be guessed."""
    if reader.by_words:
        cut = cut_text(reader, text)
        part, spans = part_of(reader, cut), cut.offsets.tolist()
    else:
        tokens, spans = (reader.tokenizer.encode_masked_with_offsets if masked else reader.tokenizer.encode_with_offsets)(text)
        part = EncodedWords(tokens, [], [])
    if not spans:
        raise no_text()
    encoded = reader.framed(part)
    frame = reader.tokenizer.frame
    before = int(reader.mark is not None) + (0 if frame is None else len(frame.before))
    around = [None] * before, [None] * (len(encoded.tokens) - before - len(spans))
    return encoded, (*around[0], *(tuple(span) for span in spans), *around[1])


def read_pair(run: Run, text: str, target: str | None, into: str) -> Reading:
    """What a model reads and what it writes; its own best target where none is given."""
    task = run.task
    if not text.strip():
        raise no_text()
    pair = Pair(text, target if target is not None else own_target(run, text, into), into=into)
    (sides,) = encode_pairs([task], [pair], 1)
    before, after = task.around(into)
    source = with_marks(
        tokens_of(task.source, text, sides.source[len(before) : -len(after)]),
        *([task.source.token(id) for id in marks] for marks in (before, after)),
    )
    written = with_marks(tokens_of(task.target, pair.target, sides.target), [], [task.target.token(task.end)])
    batch = to_device(task.collate([sides]), task.body.embedding.like.device)
    return Reading(run, text, tuple(source.texts), tuple(sides.source), batch, tuple(written.texts), (*sides.target, task.end))


def own_target(run: Run, text: str, into: str) -> str:
    """What the model writes for a source, greedily."""
    if run.verb != "translate":
        raise UserError(f"give the target that {run.folder} is to write; only translators are asked for their own")
    with torch.no_grad():
        return run.translate(text, into=into, method="greedy").text
