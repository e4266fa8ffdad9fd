"""The capabilities of a task that reads a source and generates a target: how it reads a pair, predicts the target,
generates token by token, and what it attends to. Works with any body that encodes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.layouts import Layout
from clew.core.modes import evaluating
from clew.data.examples import Pair
from clew.layers.attending.heads import CROSS, attending_layers
from clew.layers.embeddings import tokens_of as tokens_in
from clew.layers.shapes.pyramid import at_every_place, shared_out
from clew.sources.words import SourceReader
from clew.tasks.learnings.examples import ExampleTask
from clew.tasks.offers import Begun, Carried, Expected, Levels, ModelInput, Predicted, Reading, TextBody, TokenScores
from clew.tasks.shared.alignment import Alignment, Tokens, attention_weights, displayed_tokens, with_marks
from clew.tasks.shared.reading import levels_of, no_text
from clew.tasks.uses.explaining import Explained, chosen_token
from clew.tasks.uses.writing import DecodingConfig, filtered_as
from clew.text.tokenizer import Tokenizer, check_is_text

if TYPE_CHECKING:
    from clew.tasks.shared.sequence import SequenceBatch, Sides

GREEDY = DecodingConfig(method="greedy")


class ReadsAndWrites(ExampleTask):
    """A task with a `body` that encodes, tokenizers `source` and `target`, and the tokens `start` and `end` of a
    target."""

    body: Any
    text_name = "source"

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def without(self, capability: str) -> str | None:
        """Return why the task lacks a capability that other sequence-to-sequence tasks have, or None."""
        if capability == "vectors" and self.languages:
            return "reads a text together with its target language, so it has no vectors of a text alone"
        if capability == "aligns" and not any(layer.kind == CROSS for layer in attending_layers(self)):
            return "does not attend to its source (model.attention=none)"
        return None

    def vectors(self) -> TextBody:
        """Return the encoder and its reader."""
        return TextBody(self.body.encoder, SourceReader(self.source, self.source_end))

    def one_row(self, model_input: ModelInput) -> "tuple[Sides, SequenceBatch]":
        """Return a source and its target (empty if not given) as ids and as a batch of one row."""
        if not model_input.text.strip():
            raise no_text()
        for text in (model_input.text, model_input.target or ""):
            check_is_text(text, "text")
        sides = self.encode_given(model_input)
        self.check_length(sides, "the text")
        return sides, to_device(self.collate([sides]), self.body.embedding.like.device)

    def encode_given(self, model_input: ModelInput) -> "Sides":
        sides: Sides = self.encode([Pair(model_input.text, model_input.target or "", into=model_input.into)])[0]
        return sides

    def source_ids(self, sides: "Sides") -> tuple[int, ...]:
        """Return the token at each place of a source; empty if the source is not text."""
        return tuple(sides.source)

    @property
    def source_tokenizer(self) -> Tokenizer | None:
        """The source's tokenizer, or None if the source is not text."""
        tokenizer: Tokenizer = self.source
        return tokenizer

    def named_sides(self, model_input: ModelInput, sides: "Sides") -> tuple[Tokens, Tokens]:
        """Return the tokens at each place of a source and of its target."""
        before, after = self.around(model_input.into)
        source = displayed_tokens(self.source, model_input.text, sides.source[len(before) : -len(after)])
        target = displayed_tokens(self.target, model_input.target or "", sides.target)
        marks = ([self.source.token(id) for id in ids] for ids in (before, after))
        return with_marks(source, *marks), with_marks(target, [], [self.target.token(self.end)])

    def reads(self, model_input: ModelInput, *, any_length: bool = False) -> Reading:
        """Read a source with the given target, or with the model's best one."""
        model_input = (
            model_input if model_input.target is not None else model_input._replace(target=self.own_target(model_input))
        )
        sides, batch = self.one_row(model_input)
        source, target = self.named_sides(model_input, sides)
        return Reading(
            model=self,
            text=model_input.text,
            tokens=tuple(source.texts),
            ids=self.source_ids(sides),
            batch=batch,
            written=tuple(target.texts),
            written_ids=(*sides.target, self.end),
            tokenizer=self.source_tokenizer,
            target=self.target,
            begin=self.target.token(self.start),
            limit=self.body.max_length,
            layout=self.source_layout(model_input, sides),
        )

    def runs(self, reading: Reading) -> Tensor:
        hidden: Tensor = self.decode(reading.batch)[0]
        return hidden

    def levels(self, reading: Reading) -> list[Levels]:
        batch, body = reading.batch, self.body
        levels = [
            at_every_place(level[0], len(reading.pieces))[None]
            for level in body.encoder.levels(batch.source, batch.source_mask)
        ]
        encoder_levels = levels_of(body.encoder, levels, reading.pieces, "encoder")
        return [encoder_levels, levels_of(body.decoder, self.decoder_levels(batch), reading.read_by_decoder, "decoder")]

    def decoder_levels(self, batch: "SequenceBatch") -> list[Tensor]:
        levels: list[Tensor] = self.body.levels(batch.tokens, batch.mask, self.read(batch))
        return levels

    def carries(self, reading: Reading) -> Carried | None:
        tokens = reading.batch.tokens
        state = self.body.initial_state(1, self.read(reading.batch))
        return Carried(lambda t, state: self.body(tokens[:, t : t + 1], None, state), state)

    def entrance(self, reading: Reading) -> str:
        embedding_path: str = next(path for path, part in self.named_modules() if part is self.body.embedding)
        return embedding_path

    def source_entrance(self, reading: Reading) -> str:
        """Return the path of the part whose output the encoder's layers read."""
        embedding_path: str = next(path for path, part in self.named_modules() if part is self.body.source_embedding)
        return embedding_path

    def predicts(self, reading: Reading) -> list[Predicted]:
        """Return the predictions of the target, given its source."""
        ids = torch.tensor(reading.written_ids)
        return [Predicted(reading.written, range(len(ids)), ids, reading.forward()[0], self.log_probs, self.target)]

    def expects(self, model_input: ModelInput) -> list[Expected]:
        """Return the distribution of the token after the given part of the target."""
        _, batch = self.one_row(model_input)
        return [Expected(self.log_probs(self.decode(batch)[0][0, -1]), self.target)]

    def scores_tokens(self, reading: Reading) -> TokenScores:
        return TokenScores(
            output=self.log_probs,
            log_probs=self.log_probs,
            ids=reading.written_ids,
            tokenizer=self.target,
            body=self.body.decoder,
            levels=lambda: self.decoder_levels(reading.batch),
        )

    def own_target(self, model_input: ModelInput, config: DecodingConfig | None = None) -> str:
        _, batch = self.one_row(model_input._replace(target=None))
        with evaluating([self]):
            (hypotheses,) = self.write(batch, config or GREEDY)
        return hypotheses[0].text if hypotheses else ""

    def steps(self, model_input: ModelInput, config: DecodingConfig | None = None) -> Begun:
        _, batch = self.one_row(model_input._replace(target=None))
        if config is not None:
            self.check_decoding(config)
        stepper = self.stepper(batch, covering=config is not None and config.covers)
        return Begun(
            stepper=stepper if config is None else filtered_as(config, stepper, self.never_written),
            start=torch.full((1, 1), self.start, device=batch.tokens.device),
            tokenizer=self.target,
            end=self.end,
            ends=(self.end,),
            most=self.most_new(config or GREEDY),
            text_of=self.target.decode,
            limit=self.body.max_length,
        )

    def aligns(self, model_input: ModelInput, layer: int | None = None) -> Alignment:
        sides, batch = self.one_row(model_input)
        source, target = self.named_sides(model_input, sides)
        with evaluating([self]):
            weights = attention_weights(self, batch, layer)[0].cpu()
        return Alignment(source, target, shared_out(weights[: len(target.texts)], len(source.texts)))

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain log p of a target token, given the source and the tokens before it, by the source's places."""
        reading, place = self.reads(model_input), place or 1
        if place > len(reading.written):
            raise UserError(f"there is no token {place} in the target; it has {len(reading.written)} with its end")
        batch = reading.batch

        def log_probs_at_place(source: Any) -> Tensor:
            rows = len(tokens_in(source))
            hidden, _ = self.decode(
                batch._replace(source=source, source_mask=None, tokens=batch.tokens.expand(rows, -1), mask=None)
            )
            log_probs: Tensor = self.log_probs(hidden[:, place - 1])
            return log_probs

        token = (
            reading.written_ids[place - 1]
            if of is None
            else chosen_token(self.target, log_probs_at_place, batch.source, of)
        )
        before, after = (len(marks) for marks in self.around(model_input.into))
        own = tuple(before <= at < len(reading.tokens) - after for at in range(len(reading.tokens)))
        what = f"log p of {self.target.piece(token)!r} as token {place} of the target {' '.join(reading.written)!r}"
        return self.explained(model_input, reading, lambda rows: log_probs_at_place(rows)[:, token], own, what)

    def explained(
        self,
        model_input: ModelInput,
        reading: Reading,
        score: Callable[[Any], Tensor],
        own: tuple[bool, ...],
        what: str,
    ) -> Explained:
        """Explain a score of sources by the output of the encoder's embedding."""
        embedding = "body.encoder.embedding"
        return Explained(self, reading.batch.source, score, reading.tokens, own, what, self.source_tokenizer, embedding)

    def source_layout(self, model_input: ModelInput, sides: "Sides") -> Layout | None:
        """Return how the places of a source are arranged, or None for a text."""
        return None
