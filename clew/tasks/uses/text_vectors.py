"""Vectors of texts: one for each, pooled of all its places, or one for each of its tokens. Of any body that reads one
sequence; of an encoder-decoder that is its encoder.

A text is read as the body's task reads it: in the tokenizer's frame, and by words where the tokenizer has a token for
each. One that takes more places than the body can tell apart is read in windows, each by itself, whose places are
pooled together; or it is cut, where the task says so. An empty text has the zero vector.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.batches import to_device
from clew.core.config import part_name
from clew.core.errors import UserError, named, unknown
from clew.core.modes import evaluating
from clew.layers.context import Pieces
from clew.layers.pooling import MIXES, POOLINGS, Last, Pooler
from clew.sources.windows import CutText, cut_text, part_of, window_starts
from clew.sources.words import EncodedWords, WordReader
from clew.tasks.offers import lacking
from clew.tasks.use import Objects, Options, TextRow, Use, Watch, tokens_read
from clew.tasks.uses.level_vectors import batches_of, block_levels, ends_of_blocks, layer_of, layer_vectors, mix_of
from clew.text.tokenizer import check_is_text

MOST = 2048
"""Tokens that are read at once by a body whose positions have no bound."""
ENDLESS = 10**9
LAYERS = [name for name in MIXES if name != "learned"]
WITHOUT_WEIGHTS = ("first", "last", "max", "mean")
"""Poolings that any run has."""


class TokenVectors(NamedTuple):
    """The tokens of a text: the characters [start, stop) that each stands for (tokens, 2), and its vector (tokens,
    dim)."""

    offsets: np.ndarray
    vectors: np.ndarray


class Row(NamedTuple):
    """A window of a text as a body reads it, and the places in it of the text's own pieces."""

    text: int
    encoded: EncodedWords
    places: list[int]


class TextVectors:
    """What a body makes of texts. `layer` is a level's number, 0 being the embedding, `last`, or the name of a mix of
    levels; `pooling` a module, or the name of one without weights; texts are cut to `longest` tokens where that is
    given. How many texts were empty, and how many were read in windows or cut, is counted.

    With `carry` = n, of ELMo, texts are read n at a time in the order given, and the readers of each go on from where
    they ended with the text in its place of the n before, as AllenNLP runs it: the first n have nothing before them,
    and an empty text is read, too.
    """

    def __init__(
        self,
        body: Any,
        reader: WordReader,
        *,
        layer: int | str = "last",
        pooling: str | nn.Module = "mean",
        normalise: bool = False,
        longest: int | None = None,
        carry: int | None = None,
    ):
        check_carry(body, carry)
        self.carry = carry
        self.carried: Any = None
        self.body = body
        self.reader = reader
        self.longest = longest
        self.normalise = normalise
        self.num_empty = self.num_long = 0
        widths = self.widths()
        self.layer = known_layer(layer, widths)
        self.width = width_of(self.layer, widths)
        self.pooling = self.find_pooling(pooling)
        most = MOST if carry is None else ENDLESS  # a text in windows would be several rows
        limit = min(limit for limit in (longest, body.max_length, most) if limit is not None)
        if limit <= reader.num_added:
            raise UserError(f"{limit} tokens leave no room for a text; take a run with a larger model.max_length")
        self.room = limit - reader.num_added

    def widths(self) -> list[int]:
        """The width of every level."""
        with evaluating([self.body]):
            _, batch = next(batches_of(self.body, self.reader, self.reader.encode([["_"]])))
            return [level.shape[-1] for level in block_levels(self.body, batch)]

    def find_pooling(self, pooling: str | nn.Module) -> nn.Module:
        if isinstance(pooling, nn.Module):
            if list(pooling.parameters()) and self.layer != "last":
                raise UserError(
                    "a pooling with weights has learnt to read the last layer; leave the layer out, or take another"
                    " pooling"
                )
            return pooling
        if pooling not in POOLINGS:
            raise unknown("pooling", pooling, POOLINGS)
        if pooling not in WITHOUT_WEIGHTS:
            raise UserError(
                f"the pooling {named(pooling)} has weights, and this run has learnt none; take"
                f" {', '.join(WITHOUT_WEIGHTS)}"
            )
        halves = self.body.halves and self.layer not in (0, "first")
        return Last(self.body.dim, halves=True) if pooling == "last" and halves else POOLINGS[pooling](self.body.dim)

    def of(self, texts: Sequence[str], first: int = 1) -> np.ndarray:
        """A vector each (texts, dim), float32. A text that is refused is named by its number, the first one's being
        `first`."""
        rows = self.rows([self.cut(text, number) for number, text in enumerate(texts, start=first)])
        alone = np.bincount([row.text for row in rows], minlength=len(texts)) == 1
        found: dict[int, Tensor] = {}
        parts: dict[int, dict[int, Tensor]] = {}
        with evaluating([self.body, self.pooling]):
            for numbers, batch, hidden in self.read(rows):
                pooled = self.pooling(hidden, batch.mask)
                for place, number in enumerate(numbers):
                    row = rows[number]
                    if not row.places:
                        continue
                    if alone[row.text]:
                        found[row.text] = pooled[place]
                    else:
                        parts.setdefault(row.text, {})[number] = hidden[place, : len(row.encoded.tokens)]
            for text, windows in parts.items():
                found[text] = self.pooling(torch.cat([windows[number] for number in sorted(windows)])[None])[0]
        vectors = torch.zeros(len(texts), self.width)
        for text, vector in found.items():
            vectors[text] = vector.cpu()
        return (F.normalize(vectors, dim=-1) if self.normalise else vectors).numpy()

    def of_tokens(self, texts: Sequence[str], first: int = 1) -> list[TokenVectors]:
        """The vectors of each text's tokens, without those that stand around it."""
        cuts = [self.cut(text, number) for number, text in enumerate(texts, start=first)]
        rows = self.rows(cuts)
        found: dict[int, np.ndarray] = {}
        with evaluating([self.body]):
            for numbers, _, hidden in self.read(rows):
                hidden = F.normalize(hidden, dim=-1) if self.normalise else hidden
                for place, number in enumerate(numbers):
                    found[number] = hidden[place, rows[number].places].cpu().numpy()
        vectors: list[list[np.ndarray]] = [[np.zeros((0, self.width), dtype=np.float32)] for _ in texts]
        for number, row in enumerate(rows):
            vectors[row.text].append(found[number])
        joined = [np.concatenate(windows) for windows in vectors]
        return [TokenVectors(cut.offsets[: len(each)], each) for cut, each in zip(cuts, joined, strict=True)]

    def read(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Pieces, Tensor]]:
        """Some rows at a time by their numbers, and their vectors (rows, length, dim): those of like length together,
        or `carry` in order."""
        encoded = [row.encoded for row in rows]
        if self.carry is None:
            for numbers, batch in batches_of(self.body, self.reader, encoded):
                yield numbers, batch, layer_vectors(self.body, batch, self.layer).float()
            return
        for start in range(0, len(rows), self.carry):
            some = encoded[start : start + self.carry]
            batch = to_device(self.reader.collate(some), self.body.embedding.like.device)
            levels, self.carried = self.body.carried_levels(batch.inputs, batch.mask, self.carried)
            yield (
                [*range(start, start + len(some))],
                batch,
                layer_of(ends_of_blocks(self.body, levels), self.layer).float(),
            )

    def cut(self, text: str, number: int) -> CutText:
        check_is_text(text, f"text {number}")
        cut = cut_text(self.reader, text) if text.strip() else CutText(None, [], np.zeros((0, 2), dtype=np.int32))
        self.num_empty += not len(cut)
        self.num_long += len(cut) > self.room
        return cut

    def rows(self, cuts: Sequence[CutText]) -> list[Row]:
        """The windows of every text, in order; of one that is cut the first."""
        found = []
        for text, cut in enumerate(cuts):
            if self.carry is not None and not len(cut):
                found.append(Row(text, self.reader.encode([[]])[0], []))
            starts = window_starts(len(cut), self.room, self.room) if len(cut) else []
            for start in starts if self.longest is None else starts[:1]:
                part = self.reader.framed(part_of(self.reader, cut, start, start + self.room))
                found.append(Row(text, part, self.places(part, cut, min(self.room, len(cut) - start))))
        return found

    def places(self, part: EncodedWords, cut: CutText, length: int) -> list[int]:
        if cut.words is not None:
            return part.starts
        frame = self.reader.tokenizer.frame
        before = 0 if frame is None else frame.around([]).starts[0]
        return [*range(before, before + length)]


def check_carry(body: Any, carry: int | None) -> None:
    if carry is not None and carry < 1:
        raise UserError(f"carry ({carry}) must be at least 1: so many texts are read at a time")
    if carry is not None and not hasattr(body, "carried_levels"):
        raise UserError(
            "carry is for ELMo, whose two readers go on from text to text in AllenNLP; this run's body is another:"
            " leave carry out"
        )


def known_layer(layer: int | str, widths: Sequence[int]) -> int | str:
    """A level's number or the name of a mix; any other is refused."""
    if isinstance(layer, str) and layer.removeprefix("-").isdecimal():
        layer = int(layer)
    if isinstance(layer, bool) or not isinstance(layer, (int, str)) or (isinstance(layer, str) and layer not in LAYERS):
        raise UserError(
            f"unknown layer {named(layer)}; known: 0 (the embedding) to {len(widths) - 1}, and {', '.join(LAYERS)}"
        )
    if isinstance(layer, int) and not -len(widths) <= layer < len(widths):
        raise UserError(f"there is no layer {layer}; this model has 0 (the embedding) to {len(widths) - 1}")
    if isinstance(layer, str):
        return layer
    return "last" if layer in (-1, len(widths) - 1) else layer % len(widths)


def width_of(layer: int | str, widths: Sequence[int]) -> int:
    if isinstance(layer, int):
        return widths[layer]
    return mix_of(layer, widths).dim


def text_vectors(
    task: Any,
    *,
    layer: int | str = "last",
    pooling: str | None = None,
    normalise: bool | None = None,
    carry: int | None = None,
) -> TextVectors:
    """What makes vectors of texts, some at a time, by any task that reads a text by itself. Its own pooling, where it
    has one, and whether it normalises hold where nothing else is said."""
    if (why := lacking(task, "vectors")) is not None:
        raise UserError(f"this model {why}")
    body, reader = task.vectors()
    config = getattr(task, "config", None)
    own = getattr(config, "pooling", None)
    chosen: str | nn.Module = "mean" if own is None else task.pooling
    if pooling is not None and (own is None or pooling != part_name(own)):
        learnt = getattr(task, "pooling", None)  # a masked model tells by it whether a text follows
        chosen = learnt if pooling == "pooler" and isinstance(learnt, Pooler) else pooling
    return TextVectors(
        body,
        reader,
        layer=layer,
        pooling=chosen,
        normalise=getattr(config, "normalise", False) if normalise is None else normalise,
        longest=getattr(task, "longest_text", None),
        carry=carry,
    )


class EmbedOptions(Options):
    layer: int | str = Field("last", description="a level's number, 0 being the embedding, or a mix of levels")
    pooling: str | None = Field(
        None, description="what a text's vectors become: first, last, max, mean; where not given, the run's own"
    )
    normalise: bool | None = Field(None, description="vectors of length 1; where not given, as the run's own are")
    tokens: bool = Field(False, description="a vector for every token instead of one a text")


def embed_rows(
    tasks: Sequence[Any], rows: Sequence[TextRow], options: EmbedOptions, numbers: Sequence[int]
) -> Sequence[np.ndarray | TokenVectors]:
    vectors = text_vectors(tasks[0], layer=options.layer, pooling=options.pooling, normalise=options.normalise)
    texts = [row.text for row in rows]
    return vectors.of_tokens(texts, numbers[0]) if options.tokens else list(vectors.of(texts, numbers[0]))


def embedded_objects(
    number: int, row: TextRow, found: np.ndarray | TokenVectors | None, options: EmbedOptions
) -> Objects:
    """A vector, or with their places in the text those of its tokens."""
    assert found is not None
    if not isinstance(found, TokenVectors):
        return [{"line": number, "text": row.text, "vector": found.tolist()}]
    pairs = zip(found.offsets.tolist(), found.vectors.tolist(), strict=True)
    tokens = [
        {"token": row.text[start:stop], "start": start, "stop": stop, "vector": vector}
        for (start, stop), vector in pairs
    ]
    return [{"line": number, "text": row.text, "tokens": tokens}]


def vector_of(found: np.ndarray | TokenVectors) -> list[float]:
    assert isinstance(found, np.ndarray)
    return [float(value) for value in found]


def reads_texts(task: Any) -> bool:
    """Whether a task reads a text by itself, so that it has a vector."""
    return lacking(task, "vectors") is None


def tokens_of(task: Any, row: TextRow) -> tuple[list[int], int | None]:
    reader = task.vectors()[1]
    return tokens_read(reader.tokenizer, [row.text], by_words=reader.by_words)


EMBED: Use[TextRow, np.ndarray | TokenVectors] = Use(
    about="vectors of texts or of their tokens, and search by them",
    row=TextRow,
    options=EmbedOptions,
    answer=embed_rows,
    objects=embedded_objects,
    formats={},
    answers_blank=True,
    vector=vector_of,
    watch=Watch(tokens=tokens_of),
)
