"""Learning from a stream of texts. The next window is encoded while the model trains on the current one, and each
window is split into batches like a text that was encoded as a whole."""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.processes import derived, gather_rows, rank, sum_over_processes, world_size
from clew.core.wording import argument
from clew.data.caching.encoded import TokenFile
from clew.data.caching.shards import Shards
from clew.data.streams.encoding_ahead import EncodingAhead
from clew.data.streams.text_streams import Place, TextStream, Window
from clew.tasks.learning import Batching
from clew.text.tokenizer import Tokenizer

LEAST = 128
"""Minimum characters of a window per token of a batch. The rest of a window that does not fill a batch is dropped;
this keeps it to about one part in fifty."""
SAMPLE = 2**18
"""Characters read to estimate the number of tokens per character."""
REMEMBERED = 4
"""Number of windows whose positions are kept: the current one and those around it."""


@dataclass(frozen=True, eq=False)
class StreamedText:
    """A stream with its tokenizer; nothing is encoded yet."""

    stream: TextStream
    tokenizer: Tokenizer
    cache: Path
    workers: int = 1
    apart: bool = False


class OpenWindow(NamedTuple):
    """A window in training: its batches, which are those of the epoch up to `stop`."""

    epoch: int
    place: Place
    batches: Batches
    stop: int
    next: tuple[int, int]
    """The block and the document at which the next window begins."""


class StreamedBatches(Batches):
    """Batches of a stream, which can only be read in order. `batches_of(text, seed)` returns the batches of one
    window. A window is a separate text: rows that carry a state restart with it."""

    is_stream = True

    def __init__(
        self, text: StreamedText, batches_of: Callable[[TokenFile, int], Batches], training: Batching, seed: int
    ):
        super().__init__(self.estimate, self.batch, self.rows)
        self.text = text
        self.batches_of = batches_of
        self.batch_tokens = training.batch_size * training.length
        self.seed = seed
        self.opened: deque[OpenWindow] = deque(maxlen=REMEMBERED)

    def check(self) -> None:
        """Refuse a stream that is too short for one batch, before a folder is created."""
        if self.text.stream.characters() <= LEAST * self.batch_tokens:  # one window, which is quick to read
            self.batch(0, 0)

    def estimate(self, epoch: int) -> int:
        """Estimate the number of batches of an epoch; the exact number is unknown before training."""
        tokens = self.num_tokens
        if tokens == inf:
            raise UserError(
                "training.epochs needs data of known size, and the size of a long iterable is unknown; set"
                " training.steps instead"
            )
        return max(1, round(tokens / self.batch_tokens))

    @cached_property
    def num_tokens(self) -> float:
        """Estimated number of tokens; infinite if it cannot be estimated."""
        sample = list(self.text.stream.first_documents(SAMPLE))
        length = sum(map(len, sample))
        return self.text.stream.characters() * sum(map(len, self.text.tokenizer.encode_batch(sample))) / max(length, 1)

    def batch(self, epoch: int, batch: int) -> Any:
        """Return a batch, from an open window or by reading the epoch up to it."""
        if self.window_of(epoch, batch) is not None:
            return self.rows(epoch, batch, 0, 1)
        with closing(self.ahead(epoch, batch)) as batches:
            return next(batches)[2]

    def rows(self, epoch: int, batch: int, part: int, parts: int) -> Any:
        opened = self.window_of(epoch, batch)
        assert opened is not None, f"batch {batch} of epoch {epoch} is in no window that is open"
        return opened.batches.share(epoch, batch - opened.place.batch, part, parts)

    def window_of(self, epoch: int, batch: int) -> OpenWindow | None:
        return next(
            (each for each in self.opened if each.epoch == epoch and each.place.batch <= batch < each.stop), None
        )

    def place(self, epoch: int, batch: int) -> Place | None:
        """Return the place of the window that has a batch; if the batch is the first after an open window, the place
        where that window ends."""
        if (opened := self.window_of(epoch, batch)) is not None:
            return opened.place
        ends = (
            Place(each.place.window + 1, batch, *each.next)
            for each in self.opened
            if each.epoch == epoch and each.stop == batch
        )
        return next(ends, None)

    def ahead(
        self, epoch: int, batch: int, part: int = 0, parts: int = 1, place: Any = None
    ) -> Generator[tuple[int, int, Any], None, None]:
        """Yield batches from a position on. Without its place, the epoch is read from the beginning and gives the
        same batches."""
        start = Place() if place is None else Place(*place)
        while True:
            fault: UserError | None = None
            has_batches = start != Place()
            windows = self.text.stream.windows(self.seed, epoch, start, LEAST * self.batch_tokens)
            cache, workers = self.text.cache, self.text.workers
            with closing(EncodingAhead(windows, self.text.tokenizer, cache, workers, rank(), world_size())) as encoding:
                first = start.batch
                for window, tokens in gathered_windows(encoding):
                    batches = self.batches_of(replace(tokens, apart=self.text.apart), derived(self.seed, window.number))
                    try:
                        num_batches = batches.per_epoch(epoch)
                    except UserError as error:  # too short for a batch; raised below if all windows are
                        fault = error
                        continue
                    has_batches = True
                    at = Place(window.number, first, window.block, window.document)
                    self.opened.append(OpenWindow(epoch, at, batches, first + num_batches, window.next))
                    for number in range(max(batch, first), first + num_batches):
                        yield epoch, number, self.rows(epoch, number, part, parts)
                    first += num_batches
            if not has_batches:
                raise fault or UserError(
                    f"{self.text.stream}: the stream is empty now, but was not before; let no other program write to it"
                )
            epoch, batch, start = epoch + 1, 0, Place()


def gathered_windows(encoding: EncodingAhead) -> Iterator[tuple[Window, TokenFile]]:
    """Yield whole windows on every process, from the parts that each process has encoded.

    The processes exchange the parts here, between two steps, where every process asks for the next window. If one of
    them cannot read on, the others end too.
    """
    windows = iter(encoding)
    while True:
        encoded, fault = None, None
        try:
            encoded = next(windows, None)
        except Exception as error:
            fault = error
        failed = bool(sum_over_processes(torch.tensor(int(fault is not None))))
        if fault is not None:
            raise fault
        if failed:
            raise UserError(
                "another process could not read the stream any further and has reported why; fix that, then continue"
                f" with {argument('resume', True)}"
            )
        if encoded is None:
            return
        yield encoded.window, encoded.text if world_size() == 1 else gathered_text(encoded.text)


def gathered_text(text: TokenFile) -> TokenFile:
    """Concatenate the parts of a text that the processes have."""
    assert isinstance(text.tokens, Shards)
    ids, begins = text.tokens.map(0)
    counts = gather_rows(torch.tensor([len(ids)]))
    before = int(counts[: rank()].sum())
    whole = gather_rows(torch.from_numpy(np.array(ids).view(np.uint8))).numpy().view(ids.dtype)
    places = gather_rows(torch.from_numpy(np.asarray(begins, np.int64) + before)).numpy()
    return replace(text, tokens=Shards.of_arrays(whole, places, text.tokens.opened))
