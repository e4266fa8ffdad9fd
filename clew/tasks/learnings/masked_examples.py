"""Examples of masked language modelling, made of encoded documents when they are asked for: stretches in the
tokenizer's frame, some tokens taken out. A pure function of documents, settings, seed and epoch."""

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
"""Seed and epoch of what is evaluated: those of no training, so that a text is always masked in the same way."""
STEP = 8
"""Rows are as long as a multiple of this, or as a power of two below it, so that batches have few different shapes."""


class MaskedBatch(NamedTuple):
    inputs: Any  # tokens (batch, length), or `Segmented`
    mask: Tensor | None  # (batch, length)
    places: Tensor  # (batch, chosen), 0 where a row has fewer
    targets: Tensor  # (batch, chosen), IGNORED there
    follows: Tensor | None = None  # (batch,) 0 where the second text follows the first, 1 where it is a random one
    fresh: bool = True

    @property
    def num_tokens(self) -> int:
        """How many are read, padding left out: speed and FLOPs are of these, the loss only of those predicted."""
        tokens = self.inputs if isinstance(self.inputs, Tensor) else self.inputs.tokens
        return tokens.numel() if self.mask is None else int(self.mask.sum())


class Masking(Protocol):
    """What a task's section says of tokens that are taken out."""

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
    """What is asked of a task."""

    body: Any
    tokenizer: Tokenizer

    @property
    def config(self) -> Masking: ...


class MaskedExamples:
    """The examples of documents in rows of `length` tokens, the frame among them. What is random is drawn from (seed,
    epoch).

    Where the task tells whether texts follow each other, what cannot be paired can still be evaluated, `to_train` being
    false: a single document, or any where the tokenizer puts nothing between two texts.
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
        """All examples of an epoch, in the order of the documents."""
        sentences, documents = self.documents.sentences, self.documents.documents
        if not self.is_paired:
            return packed_spans(sentences, documents, self.room)
        if self.pairing == "released":
            return paired_spans(sentences, documents, self.room, seed, epoch)
        found = evenly_paired_spans(sentences, documents, self.room, seed, epoch, self.documents.tokens)
        if not len(found.firsts):
            raise UserError(
                "every document is a single token, so that no text follows another; set task.next_sentence=false"
            )
        return found

    def batch(self, spans: Spans, rows: np.ndarray, seed: int, epoch: int) -> MaskedBatch:
        """The examples with these numbers."""
        framed = [self.framed(spans, row) for row in rows.tolist()]
        lengths = np.array([len(tokens) for tokens, _ in framed])
        real = np.arange(rounded(int(lengths.max()))) < lengths[:, None]
        tokens, segments = np.zeros((2, *real.shape), dtype=np.int64)
        for row, (ids, numbers) in enumerate(framed):
            tokens[row, : len(ids)] = ids
            segments[row, : len(ids)] = numbers
        hidden = self.masking.hide(tokens, real, seed, epoch, rows)
        places, targets = widened(hidden.places, 0), widened(hidden.targets, IGNORED)
        inputs: Any = as_ids(hidden.tokens)
        if self.is_segmented:
            inputs = Segmented(inputs, as_ids(segments))
        follows = None if spans.random is None else as_ids(spans.random[rows])
        mask = None if real.all() else torch.from_numpy(real)
        return MaskedBatch(inputs, mask, as_ids(places), as_ids(targets), follows)

    def framed(self, spans: Spans, row: int) -> tuple[list[int], list[int]]:
        """An example's tokens within their frame, and their segments."""
        tokens = self.documents.tokens
        texts = [tokens[slice(*part[row])].tolist() for part in (spans.firsts, spans.seconds) if part is not None]
        if self.frame is None:
            return texts[0], [0] * len(texts[0])
        return self.frame.around(*texts)[:2]


def check_room(examples: MaskedExamples, length: int) -> None:
    """Refuses rows that the frame fills, and pairs where nothing can be paired."""
    least = examples.added + (2 if examples.is_paired else 1)
    if length < least:
        raise UserError(
            f"training.length ({length}) must be at least {least}, of which the tokenizer's frame takes"
            f" {examples.added}"
        )
    if not examples.is_paired:
        return
    if examples.frame is None:
        raise UserError(
            "the tokenizer puts nothing between two texts, so none can be read together; set task.next_sentence=false"
        )
    if examples.documents.num_documents < 2:
        raise UserError(
            "the training part is one document, and next-sentence prediction takes texts from two; part documents by"
            " blank lines, or set task.next_sentence=false"
        )


def rounded(length: int) -> int:
    return -(-length // STEP) * STEP if length > STEP // 2 else 1 << max(length - 1, 0).bit_length()


def widened(rows: np.ndarray, value: int) -> np.ndarray:
    """Rows with more columns of a value, so that there are few widths."""
    return np.pad(rows, ((0, 0), (0, rounded(rows.shape[1]) - rows.shape[1])), constant_values=value)


def as_ids(numbers: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.int64))
