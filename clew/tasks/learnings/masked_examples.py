"""Examples of masked language modelling, made on demand from encoded documents: spans in the tokenizer's frame with
some tokens masked. They are a pure function of documents, settings, seed and epoch."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.data.caching.encoded_documents import EncodedDocuments
from clew.data.masking import IGNORED, masking_of
from clew.data.spans import Spans, evenly_paired_spans, packed_spans, paired_spans
from clew.layers.embeddings import Segmented
from clew.sources.words import is_segmented
from clew.text.tokenizer import Tokenizer

EVALUATION = (0, 2**63)
"""Seed and epoch of evaluations. No training uses them, so a text is always masked in the same way."""
STEP = 8
"""Row lengths are rounded up to a multiple of this, or to a power of two below it, so that batches have few different
shapes."""


class MaskedBatch(NamedTuple):
    inputs: Any  # tokens (batch, length), or `Segmented`
    mask: Tensor | None  # (batch, length)
    places: Tensor  # (batch, chosen), padded with 0
    targets: Tensor  # (batch, chosen), padded with IGNORED
    follows: Tensor | None = None  # (batch,) 0 if the second text follows the first, 1 if it is a random one
    fresh: bool = True

    @property
    def num_tokens(self) -> int:
        """Number of real tokens read. Speed and FLOPs count these; the loss counts only the predicted ones."""
        tokens = self.inputs if isinstance(self.inputs, Tensor) else self.inputs.tokens
        return tokens.numel() if self.mask is None else int(self.mask.sum())


class Masking(Protocol):
    """The masking settings of a task's config."""

    @property
    def chosen(self) -> float: ...
    @property
    def masked(self) -> float: ...
    @property
    def replaced(self) -> float: ...
    @property
    def whole_words(self) -> bool: ...
    @property
    def next_sentence(self) -> bool: ...
    @property
    def pairing(self) -> str: ...


class Guesser(Protocol):
    """The parts of a task that masked examples depend on."""

    body: Any
    tokenizer: Tokenizer

    @property
    def config(self) -> Masking: ...


class MaskedExamples:
    """Examples of documents in rows of `length` tokens, the frame included. Random choices depend on (seed, epoch).

    A task with next-sentence prediction can be evaluated (`to_train` false) even if texts cannot be paired: on a
    single document, or if the tokenizer has no separator between two texts.
    """

    def __init__(self, documents: EncodedDocuments, task: Guesser, length: int, *, to_train: bool = True):
        config, tokenizer = task.config, task.tokenizer
        self.documents = documents
        self.frame = tokenizer.frame
        self.pairing = config.pairing
        self.is_paired = config.next_sentence and (to_train or (documents.num_documents > 1 and self.frame is not None))
        self.is_segmented = is_segmented(task.body)
        self.masking = masking_of(tokenizer, config.chosen, config.masked, config.replaced, whole=config.whole_words)
        self.added = 0 if self.frame is None else self.frame.num_added(pair=self.is_paired)
        self.room = length - self.added
        check_room(self, length)

    def spans(self, seed: int, epoch: int) -> Spans:
        """Return all examples of an epoch, in the order of the documents."""
        sentences, documents = self.documents.sentences, self.documents.documents
        if not self.is_paired:
            return packed_spans(sentences, documents, self.room)
        if self.pairing == "released":
            return paired_spans(sentences, documents, self.room, seed, epoch)
        spans = evenly_paired_spans(sentences, documents, self.room, seed, epoch, self.documents.tokens)
        if not len(spans.firsts):
            raise UserError(
                "every document has a single token, so there are no pairs of texts; set task.next_sentence=false"
            )
        return spans

    def batch(self, spans: Spans, rows: np.ndarray, seed: int, epoch: int) -> MaskedBatch:
        """Return the examples with these numbers."""
        framed = [self.framed(spans, row) for row in rows.tolist()]
        lengths = np.array([len(tokens) for tokens, _ in framed])
        real = np.arange(rounded(int(lengths.max()))) < lengths[:, None]
        tokens, segments = np.zeros((2, *real.shape), dtype=np.int64)
        for row, (ids, segment_ids) in enumerate(framed):
            tokens[row, : len(ids)] = ids
            segments[row, : len(ids)] = segment_ids
        masked = self.masking.hide(tokens, real, seed, epoch, rows)
        places, targets = widened(masked.places, 0), widened(masked.targets, IGNORED)
        inputs: Any = as_ids(masked.tokens)
        if self.is_segmented:
            inputs = Segmented(inputs, as_ids(segments))
        follows = None if spans.random is None else as_ids(spans.random[rows])
        mask = None if real.all() else torch.from_numpy(real)
        return MaskedBatch(inputs, mask, as_ids(places), as_ids(targets), follows)

    def framed(self, spans: Spans, row: int) -> tuple[list[int], list[int]]:
        """Return an example's tokens in their frame, and their segments."""
        tokens = self.documents.tokens
        texts = [tokens[slice(*part[row])].tolist() for part in (spans.firsts, spans.seconds) if part is not None]
        if self.frame is None:
            return texts[0], [0] * len(texts[0])
        return self.frame.around(*texts)[:2]


def check_room(examples: MaskedExamples, length: int) -> None:
    """Refuse rows that the frame fills, and pairs if nothing can be paired."""
    least = examples.added + (2 if examples.is_paired else 1)
    if length < least:
        raise UserError(
            f"training.length ({length}) must be at least {least}, including {examples.added} tokens of the"
            " tokenizer's frame"
        )
    if not examples.is_paired:
        return
    if examples.frame is None:
        raise UserError("the tokenizer has no separator for pairs of texts; set task.next_sentence=false")
    if examples.documents.num_documents < 2:
        raise UserError(
            "the training part is one document, but next-sentence prediction needs at least two; separate documents by"
            " blank lines, or set task.next_sentence=false"
        )


def rounded(length: int) -> int:
    return -(-length // STEP) * STEP if length > STEP // 2 else 1 << max(length - 1, 0).bit_length()


def widened(rows: np.ndarray, value: int) -> np.ndarray:
    """Pad rows with columns of `value`, so that there are few widths."""
    return np.pad(rows, ((0, 0), (0, rounded(rows.shape[1]) - rows.shape[1])), constant_values=value)


def as_ids(numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int64))
