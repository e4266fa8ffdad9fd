"""The `Reads` and `HasVectors` capabilities of a task whose body reads one text. A user's own task may inherit them."""

from typing import Any

from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.layers.blocks import block_ends
from clew.sources.windows import cut_text, encode_pieces
from clew.sources.words import EncodedWords, WordReader
from clew.tasks.offers import Carried, Levels, ModelInput, Reading, TextBody
from clew.text.tokenizer import check_is_text


class RunsBody:
    """A task whose readings are run by calling its body with inputs and a mask."""

    body: Any

    def runs(self, reading: Reading) -> Tensor:
        hidden: Tensor = self.body(reading.batch.inputs, reading.batch.mask)[0]
        return hidden

    def levels(self, reading: Reading) -> list[Levels]:
        return [levels_of(self.body, self.body.levels(reading.batch.inputs, reading.batch.mask), reading.pieces)]


class ReadsText(RunsBody):
    """A task with a `body` and a `reader`, or with a method `vectors` that returns the body and its reader."""

    reader: WordReader
    text_name = "text"
    """The name of the input text in messages."""
    reads_masks = False
    """Whether [MASK] in a text is a token to predict."""

    def vectors(self) -> TextBody:
        return TextBody(self.body, self.reader)

    def reads(self, model_input: ModelInput, *, any_length: bool = False) -> Reading:
        check_is_text(model_input.text, "text")
        reader, limit = self.vectors().reader, self.body.max_length
        encoded, spans = encode_text(reader, model_input.text, masked=self.reads_masks)
        if limit is not None and len(encoded.tokens) > limit and not any_length:
            raise UserError(
                f"the text has {len(encoded.tokens)} tokens, but the model has only {limit} positions; shorten it"
            )
        batch = to_device(reader.collate([encoded]), self.body.embedding.like.device)
        names = tuple(map(reader.tokenizer.token, encoded.tokens))
        return Reading(
            self,
            model_input.text,
            names,
            tuple(encoded.tokens),
            batch,
            spans=spans,
            tokenizer=reader.tokenizer,
            limit=limit,
        )

    def carries(self, reading: Reading) -> Carried | None:
        tokens = reading.batch.inputs
        if not self.body.causal or not isinstance(tokens, Tensor):
            return None
        return Carried(lambda t, state: self.body(tokens[:, t : t + 1], None, state), self.body.initial_state(1))

    def entrance(self, reading: Reading) -> str:
        return "body.embedding"


def levels_of(body: Any, levels: list[Tensor], tokens: tuple[str, ...], half: str = "") -> Levels:
    """Return the embedding and the end of each block from levels (1, places, dim)."""
    ends = block_ends(body, len(levels))
    names = ("embedding", *(f"layer {number}" for number in range(1, len(ends))))
    return Levels(half, tokens, names, [levels[end][0] for end in ends])


def no_text() -> UserError:
    return UserError("there is no text to read; give at least one word")


def encode_text(
    reader: WordReader, text: str, *, masked: bool = False
) -> tuple[EncodedWords, tuple[tuple[int, int] | None, ...]]:
    """Encode a whole text, at least one token, in the tokenizer's frame; return it with the characters that each
    token stands for. If `masked`, [MASK] is a token to predict."""
    if reader.by_words:
        cut = cut_text(reader, text)
        part, spans = encode_pieces(reader, cut), cut.offsets.tolist()
    else:
        tokens, spans = (
            reader.tokenizer.encode_masked_with_offsets if masked else reader.tokenizer.encode_with_offsets
        )(text)
        part = EncodedWords(tokens, [], [])
    if not spans:
        raise no_text()
    encoded = reader.framed(part)
    frame = reader.tokenizer.frame
    before = int(reader.mark is not None) + (0 if frame is None else len(frame.before))
    around = [None] * before, [None] * (len(encoded.tokens) - before - len(spans))
    return encoded, (*around[0], *(tuple(span) for span in spans), *around[1])
