"""Vectors of texts, one per text (pooled over its places) or one per token, from any body that reads one sequence.
For an encoder-decoder this is its encoder.

A text is read as the body's task reads it: in the tokenizer's frame, and word by word if the tokenizer has one token
per word. A text with more places than the body has positions is read in windows, and all windows are pooled together;
or it is truncated, if the task asks for that. An empty text has the zero vector.
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
from clew.core.wording import argument_name
from clew.layers.context import Pieces
from clew.layers.pooling import MIXES, POOLINGS, Last, Pooler
from clew.sources.windows import CutText, cut_text, encode_pieces, window_starts
from clew.sources.words import EncodedWords, WordReader
from clew.tasks.offers import lacking
from clew.tasks.use import Objects, Options, TextRow, Use, Watch, tokens_read
from clew.tasks.uses.level_vectors import batches_of, block_levels, ends_of_blocks, layer_of, layer_vectors, mix_of
from clew.text.tokenizer import check_is_text

MOST = 2048
"""Tokens read at once by a body without a limit on positions."""
ENDLESS = 10**9
LAYERS = [name for name in MIXES if name != "learned"]
WITHOUT_WEIGHTS = ("first", "last", "max", "mean")
"""Poolings that every run has."""


class TokenVectors(NamedTuple):
    """The tokens of a text: their character offsets [start, stop) (tokens, 2) and their vectors (tokens, dim)."""

    offsets: np.ndarray
    vectors: np.ndarray


class Row(NamedTuple):
    """A window of a text, and the places in it of the text's own tokens."""

    text: int
    encoded: EncodedWords
    places: list[int]


class TextVectors:
    """Compute the vectors of texts with a body.

    `layer` is a level's number (0 is the embedding), `last`, or the name of a mix of levels. `pooling` is a module,
    or the name of a pooling without weights. With `longest`, texts are truncated to so many tokens. `num_empty` and
    `num_long` count the empty texts and those read in windows or truncated.

    With `carry` = n, for ELMo, texts are read n at a time in the given order, and each text continues from the states
    of the text in the same position of the previous n, as AllenNLP does. The first n start from the initial states,
    and empty texts are read too.
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
        self.layer = check_layer(layer, widths)
        self.width = width_of(self.layer, widths)
        self.pooling = self.find_pooling(pooling)
        most = MOST if carry is None else ENDLESS  # with windows, a text would be several rows
        limit = min(limit for limit in (longest, body.max_length, most) if limit is not None)
        if limit <= reader.num_added:
            raise UserError(
                f"{limit} tokens leave no room for a text beside special tokens; use a run with a larger"
                " model.max_length"
            )
        self.room = limit - reader.num_added

    def widths(self) -> list[int]:
        """Return the width of every level."""
        with evaluating([self.body]):
            _, batch = next(batches_of(self.body, self.reader, self.reader.encode([["_"]])))
            return [level.shape[-1] for level in block_levels(self.body, batch)]

    def find_pooling(self, pooling: str | nn.Module) -> nn.Module:
        if isinstance(pooling, nn.Module):
            if list(pooling.parameters()) and self.layer != "last":
                raise UserError(
                    "a pooling with weights was trained on the last layer; leave the layer out, or choose another"
                    " pooling"
                )
            return pooling
        if pooling not in POOLINGS:
            raise unknown("pooling", pooling, POOLINGS)
        if pooling not in WITHOUT_WEIGHTS:
            raise UserError(
                f"the pooling {named(pooling)} has weights, which this run has not trained; choose"
                f" {', '.join(WITHOUT_WEIGHTS)}"
            )
        halves = self.body.halves and self.layer not in (0, "first")
        return Last(self.body.dim, halves=True) if pooling == "last" and halves else POOLINGS[pooling](self.body.dim)

    def of(self, texts: Sequence[str], first: int = 1) -> np.ndarray:
        """Return one vector per text (texts, dim), float32. An error names a text by its number, counted from
        `first`."""
        rows = self.rows([self.cut(text, number) for number, text in enumerate(texts, start=first)])
        has_one_window = np.bincount([row.text for row in rows], minlength=len(texts)) == 1
        vector_of: dict[int, Tensor] = {}
        hidden_of: dict[int, dict[int, Tensor]] = {}
        with evaluating([self.body, self.pooling]):
            for numbers, batch, hidden in self.read(rows):
                pooled = self.pooling(hidden, batch.mask)
                for position, number in enumerate(numbers):
                    row = rows[number]
                    if not row.places:
                        continue
                    if has_one_window[row.text]:
                        vector_of[row.text] = pooled[position]
                    else:
                        hidden_of.setdefault(row.text, {})[number] = hidden[position, : len(row.encoded.tokens)]
            for text, windows in hidden_of.items():
                vector_of[text] = self.pooling(torch.cat([windows[number] for number in sorted(windows)])[None])[0]
        vectors = torch.zeros(len(texts), self.width)
        for text, vector in vector_of.items():
            vectors[text] = vector.cpu()
        return (F.normalize(vectors, dim=-1) if self.normalise else vectors).numpy()

    def of_tokens(self, texts: Sequence[str], first: int = 1) -> list[TokenVectors]:
        """Return the vectors of each text's tokens, without the tokens of the frame."""
        cuts = [self.cut(text, number) for number, text in enumerate(texts, start=first)]
        rows = self.rows(cuts)
        window_vectors: dict[int, np.ndarray] = {}
        with evaluating([self.body]):
            for numbers, _, hidden in self.read(rows):
                hidden = F.normalize(hidden, dim=-1) if self.normalise else hidden
                for position, number in enumerate(numbers):
                    window_vectors[number] = hidden[position, rows[number].places].cpu().numpy()
        vectors: list[list[np.ndarray]] = [[np.zeros((0, self.width), dtype=np.float32)] for _ in texts]
        for number, row in enumerate(rows):
            vectors[row.text].append(window_vectors[number])
        joined = [np.concatenate(windows) for windows in vectors]
        return [
            TokenVectors(cut.offsets[: len(text_vectors)], text_vectors)
            for cut, text_vectors in zip(cuts, joined, strict=True)
        ]

    def read(self, rows: Sequence[Row]) -> Iterator[tuple[list[int], Pieces, Tensor]]:
        """Yield batches of rows by their numbers, with their vectors (rows, length, dim): rows of similar length
        together, or `carry` rows in order."""
        encoded = [row.encoded for row in rows]
        if self.carry is None:
            for numbers, batch in batches_of(self.body, self.reader, encoded):
                yield numbers, batch, layer_vectors(self.body, batch, self.layer).float()
            return
        for start in range(0, len(rows), self.carry):
            encoded_rows = encoded[start : start + self.carry]
            batch = to_device(self.reader.collate(encoded_rows), self.body.embedding.like.device)
            levels, self.carried = self.body.carried_levels(batch.inputs, batch.mask, self.carried)
            yield (
                [*range(start, start + len(encoded_rows))],
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
        """Return the windows of every text in order; only the first one if texts are truncated."""
        rows = []
        for text, cut in enumerate(cuts):
            if self.carry is not None and not len(cut):
                rows.append(Row(text, self.reader.encode([[]])[0], []))
            starts = window_starts(len(cut), self.room, self.room) if len(cut) else []
            for start in starts if self.longest is None else starts[:1]:
                part = self.reader.framed(encode_pieces(self.reader, cut, start, start + self.room))
                rows.append(Row(text, part, self.places(part, cut, min(self.room, len(cut) - start))))
        return rows

    def places(self, part: EncodedWords, cut: CutText, length: int) -> list[int]:
        if cut.words is not None:
            return part.starts
        frame = self.reader.tokenizer.frame
        before = 0 if frame is None else frame.around([]).starts[0]
        return [*range(before, before + length)]


def check_carry(body: Any, carry: int | None) -> None:
    if carry is not None and carry < 1:
        raise UserError(f"{argument_name('carry')} ({carry}), the number of texts read at a time, must be at least 1")
    if carry is not None and not hasattr(body, "carried_levels"):
        raise UserError(
            f"{argument_name('carry')} is for ELMo, whose states are carried from text to text in AllenNLP; this run"
            " has another body:"
            " leave it out"
        )


def check_layer(layer: int | str, widths: Sequence[int]) -> int | str:
    """Return a level's number or the name of a mix; raise an error for anything else."""
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
    """Create the `TextVectors` of a task that reads single texts. By default, they use the task's own pooling and
    normalisation, if it has them."""
    if (why := lacking(task, "vectors")) is not None:
        raise UserError(f"this model {why}")
    body, reader = task.vectors()
    config = getattr(task, "config", None)
    own = getattr(config, "pooling", None)
    chosen: str | nn.Module = "mean" if own is None else task.pooling
    if pooling is not None and (own is None or pooling != part_name(own)):
        learnt = getattr(task, "pooling", None)  # a masked model's pooler, trained with next-sentence prediction
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
    layer: int | str = Field("last", description="the number of a level (0 is the embedding), or a mix of levels")
    pooling: str | None = Field(
        None, description="how a text's vectors are pooled: first, last, max, mean (default: as in training)"
    )
    normalise: bool | None = Field(None, description="scale vectors to length 1 (default: as in training)")
    tokens: bool = Field(False, description="one vector per token instead of one per text")


def embed_rows(
    tasks: Sequence[Any], rows: Sequence[TextRow], options: EmbedOptions, numbers: Sequence[int]
) -> Sequence[np.ndarray | TokenVectors]:
    vectors = text_vectors(tasks[0], layer=options.layer, pooling=options.pooling, normalise=options.normalise)
    texts = [row.text for row in rows]
    return vectors.of_tokens(texts, numbers[0]) if options.tokens else list(vectors.of(texts, numbers[0]))


def embedded_objects(
    number: int, row: TextRow, answer: np.ndarray | TokenVectors | None, options: EmbedOptions
) -> Objects:
    """Return a text's vector, or the vectors of its tokens with their offsets."""
    assert answer is not None
    if not isinstance(answer, TokenVectors):
        return [{"line": number, "text": row.text, "vector": answer.tolist()}]
    pairs = zip(answer.offsets.tolist(), answer.vectors.tolist(), strict=True)
    tokens = [
        {"token": row.text[start:stop], "start": start, "stop": stop, "vector": vector}
        for (start, stop), vector in pairs
    ]
    return [{"line": number, "text": row.text, "tokens": tokens}]


def vector_of(answer: np.ndarray | TokenVectors) -> list[float]:
    assert isinstance(answer, np.ndarray)
    return [float(value) for value in answer]


def reads_texts(task: Any) -> bool:
    """Whether a task reads single texts, so that they have vectors."""
    return lacking(task, "vectors") is None


def tokens_of(task: Any, row: TextRow) -> tuple[list[int], int | None]:
    reader = task.vectors()[1]
    return tokens_read(reader.tokenizer, [row.text], by_words=reader.by_words)


EMBED: Use[TextRow, np.ndarray | TokenVectors] = Use(
    about="compute vectors of texts or of their tokens, and search with them",
    row=TextRow,
    options=EmbedOptions,
    answer=embed_rows,
    objects=embedded_objects,
    formats={},
    answers_blank=True,
    vector=vector_of,
    watch=Watch(tokens=tokens_of),
)
