"""Learning from a stream of texts: its windows are encoded while the model trains on the window before, and each is cut
into batches as a text is that was encoded as a whole."""

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
from clew.data.caching.encoded import TokenFile
from clew.data.caching.shards import Shards
from clew.data.streams.encoding_ahead import EncodingAhead
from clew.data.streams.text_streams import Place, TextStream, Window
from clew.tasks.learning import Batching
from clew.text.tokenizer import Tokenizer

LEAST = 128
"""Characters of a window for each token of a batch, at least. What does not fill a batch at the end of a window is left
out, and is then one part in fifty of it or so."""
SAMPLE = 2**18
"""Characters that tell how many tokens there are to a character."""
REMEMBERED = 4
"""Windows whose places are kept: the one that is trained on, and those around it."""


@dataclass(frozen=True, eq=False)
class StreamedText:
    """A stream with what encodes it: nothing is encoded yet."""

    stream: TextStream
    tokenizer: Tokenizer
    cache: Path
    workers: int = 1
    apart: bool = False


class Opened(NamedTuple):
    """A window that is trained on: its batches, which are those of the epoch up to `stop`."""

    epoch: int
    place: Place
    batches: Batches
    stop: int
    next: tuple[int, int]
    """The block and the document with which the next window begins."""


class StreamedBatches(Batches):
    """Batches of a stream, in its order alone. `batches_of(text, seed)` are those of one window, which is a text of its
    own: rows that carry a state begin anew with it."""

    is_stream = True

    def __init__(
        self, text: StreamedText, batches_of: Callable[[TokenFile, int], Batches], training: Batching, seed: int
    ):
        super().__init__(self.estimate, self.batch, self.rows)
        self.text = text
        self.batches_of = batches_of
        self.batch_tokens = training.batch_size * training.length
        self.seed = seed
        self.opened: deque[Opened] = deque(maxlen=REMEMBERED)

    def check(self) -> None:
        """Refuses a stream that is too short for one batch, before a folder is made."""
        if self.text.stream.characters() <= LEAST * self.batch_tokens:  # one window, which takes no time
            self.batch(0, 0)

    def estimate(self, epoch: int) -> int:
        """About how many batches an epoch has; they are counted nowhere before they are trained on."""
        tokens = self.num_tokens
        if tokens == inf:
            raise UserError(
                "training.epochs is for data whose size can be told, and a long iterable does not tell it; say how long"
                " to train with training.steps"
            )
        return max(1, round(tokens / self.batch_tokens))

    @cached_property
    def num_tokens(self) -> float:
        """About how many tokens there are; infinite where that cannot be told."""
        sample = list(self.text.stream.first_documents(SAMPLE))
        length = sum(map(len, sample))
        return self.text.stream.characters() * sum(map(len, self.text.tokenizer.encode_batch(sample))) / max(length, 1)

    def batch(self, epoch: int, batch: int) -> Any:
        """A batch of a window that is open, or found by reading the epoch up to it."""
        if self.window_of(epoch, batch) is not None:
            return self.rows(epoch, batch, 0, 1)
        with closing(self.ahead(epoch, batch)) as batches:
            return next(batches)[2]

    def rows(self, epoch: int, batch: int, part: int, parts: int) -> Any:
        opened = self.window_of(epoch, batch)
        assert opened is not None, f"batch {batch} of epoch {epoch} is in no window that is open"
        return opened.batches.share(epoch, batch - opened.place.batch, part, parts)

    def window_of(self, epoch: int, batch: int) -> Opened | None:
        return next(
            (each for each in self.opened if each.epoch == epoch and each.place.batch <= batch < each.stop), None
        )

    def place(self, epoch: int, batch: int) -> Place | None:
        """The place of the window that has a batch; of one behind an open window, the place where that ends."""
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
        """From a position on. Without its place the epoch is read from its beginning, to the same batches."""
        start = Place() if place is None else Place(*place)
        while True:
            fault: UserError | None = None
            found = start != Place()
            windows = self.text.stream.windows(self.seed, epoch, start, LEAST * self.batch_tokens)
            cache, workers = self.text.cache, self.text.workers
            with closing(EncodingAhead(windows, self.text.tokenizer, cache, workers, rank(), world_size())) as encoding:
                first = start.batch
                for window, tokens in together(encoding):
                    batches = self.batches_of(replace(tokens, apart=self.text.apart), derived(self.seed, window.number))
                    try:
                        num_batches = batches.per_epoch(epoch)
                    except UserError as error:  # too short for a batch; so is a stream where all its windows are
                        fault = error
                        continue
                    found = True
                    at = Place(window.number, first, window.block, window.document)
                    self.opened.append(Opened(epoch, at, batches, first + num_batches, window.next))
                    for number in range(max(batch, first), first + num_batches):
                        yield epoch, number, self.rows(epoch, number, part, parts)
                    first += num_batches
            if not found:
                raise fault or UserError(
                    f"{self.text.stream}: nothing is left to read, though there was; let no other program write there"
                )
            epoch, batch, start = epoch + 1, 0, Place()


def together(encoding: EncodingAhead) -> Iterator[tuple[Window, TokenFile]]:
    """The windows, of which each process has encoded its part: all of them, on every process. They exchange them here,
    between two steps, where every process asks for the next window; one that cannot read on ends the others too."""
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
                "another process cannot read the stream any further, and says why; go on by --resume when that is"
                " mended"
            )
        if encoded is None:
            return
        yield encoded.window, encoded.text if world_size() == 1 else gathered(encoded.text)


def gathered(text: TokenFile) -> TokenFile:
    """The parts of a text that the processes have, one after the other."""
    assert isinstance(text.tokens, Shards)
    ids, begins = text.tokens.map(0)
    counts = gather_rows(torch.tensor([len(ids)]))
    before = int(counts[: rank()].sum())
    whole = gather_rows(torch.from_numpy(np.array(ids).view(np.uint8))).numpy().view(ids.dtype)
    places = gather_rows(torch.from_numpy(np.asarray(begins, np.int64) + before)).numpy()
    return replace(text, tokens=Shards.of_arrays(whole, places, text.tokens.opened))
