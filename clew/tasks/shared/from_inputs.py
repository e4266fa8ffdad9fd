"""Generate a target from an input that is not text: a caption from a picture, a transcript from a sound. Works with
any body that encodes.

It differs from a translator in its source: the encoder reads vectors of an input instead of tokens of a line.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import padded, to_device
from clew.core.errors import plural
from clew.core.layouts import Layout
from clew.core.modes import evaluating
from clew.data.plans import batches_by_length
from clew.sources.inputs import Decoded, Input, InputReader
from clew.tasks.offers import ModelInput, Reading
from clew.tasks.shared.alignment import Tokens, displayed_tokens, with_marks
from clew.tasks.shared.input_lengths import file_in
from clew.tasks.shared.sequence import SequenceBatch, SequenceConfig, SequenceToSequence, without
from clew.tasks.uses.explaining import Explained
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer

BATCH_PLACES = 65_536
"""Places of inputs per batch, padding included."""


class InputSides(NamedTuple):
    """An example: its input, and the ids of the target without their end."""

    source: Input
    target: list[int]
    words: int = 0


class WritesFromInput(SequenceToSequence):
    """A target generated from a picture or a sound, with vectors x:

        P(y | x) = product over t of softmax(V d_t + b)[y_t],  d_t = decoder(y_<t, encoder(x))

    An example has an `input` and a `target`. A member defines the metrics of its examples.
    """

    text_name = "input"
    can_bucket = False
    names_files = True
    languages: Any = ()

    def __init__(self, body: Any, reader: InputReader, target: Tokenizer, config: SequenceConfig):
        super().__init__(body, reader, target, config)  # type: ignore[arg-type]
        self.reader = reader
        self.decoded = Decoded()

    def without(self, capability: str) -> str | None:
        if capability == "vectors":
            return f"reads {plural(self.reader.unit)} of an input, so it has no text vectors"
        return super().without(capability)

    def encode(self, examples: Sequence[Any]) -> list[InputSides]:  # type: ignore[override]
        targets = self.target.encode_batch([example.target for example in examples])
        return [
            InputSides(self.reader.measured(example.input), without({self.end}, target))
            for example, target in zip(examples, targets, strict=True)
        ]

    def around(self, into: str) -> tuple[list[int], list[int]]:
        return [], []

    def lengths(self, sides: Any) -> tuple[int, int]:
        return sides.source.length, len(sides.target) + 1

    def collate(self, examples: Sequence[Any]) -> SequenceBatch:
        source, source_mask = self.reader.collate([sides.source for sides in examples], self.decoded)
        whole, mask = padded([[self.start, *sides.target, self.end] for sides in examples])
        words = torch.zeros(len(examples), dtype=torch.long)
        return SequenceBatch(
            source, source_mask, whole[:, :-1], whole[:, 1:], None if mask is None else mask[:, 1:], words
        )

    def write_for(
        self, inputs: Sequence[Any], config: DecodingConfig, seed: int = 0, numbers: Sequence[int] | None = None
    ) -> list[Any]:
        """Return the best targets for each input, in the given order. An error names the input by its number."""
        numbers = range(1, len(inputs) + 1) if numbers is None else numbers
        encoded = []
        for number, input in zip(numbers, inputs, strict=True):
            sides: Any = InputSides(self.reader.measured(input), [])
            self.check_length(sides, f"{self.text_name} {number}")
            encoded.append(sides)
        targets: dict[int, Any] = {}
        device = next(self.parameters()).device
        lengths = torch.tensor([sides.source.length for sides in encoded]).reshape(-1, 1).numpy()
        with evaluating([self]):
            for rows in batches_by_length(lengths, BATCH_PLACES):
                batch = to_device(self.collate([encoded[row] for row in rows]), device)
                written = self.write(batch, config, seed, row_numbers=[numbers[row] for row in rows])
                targets |= dict(zip(rows, written, strict=True))
        return [targets[row] for row in range(len(encoded))]

    def described(self, example: Any, prediction: str) -> dict[str, str]:
        return {"source": str(example.input), "target": example.target, "prediction": prediction}

    def one_row(self, model_input: ModelInput) -> tuple[Any, SequenceBatch]:
        target = without({self.end}, self.target.encode(model_input.target or ""))
        sides: Any = InputSides(self.reader.measured(file_in(model_input, self.text_name)), target)
        self.check_length(sides, model_input.text)
        return sides, to_device(self.collate([sides]), self.body.embedding.like.device)

    def named_sides(self, model_input: ModelInput, sides: Any) -> tuple[Tokens, Tokens]:
        names = self.reader.places(model_input.text, sides.source.length)
        target = displayed_tokens(self.target, model_input.target or "", sides.target)
        return Tokens(names, names, [*range(len(names))]), with_marks(target, [], [self.target.token(self.end)])

    def source_layout(self, model_input: ModelInput, sides: Any) -> Layout:
        return self.reader.layout(model_input.text, sides.source.length)

    def explained(
        self,
        model_input: ModelInput,
        reading: Reading,
        score: Callable[[Any], Tensor],
        own: tuple[bool, ...],
        what: str,
    ) -> Explained:
        """Explain a score by the numbers that the encoder's embedding reads."""
        canvas, tap = self.reader.canvas(model_input.text), "body.encoder.embedding.given"
        return Explained.of_input(self, reading.batch.source, score, what, reading.places, canvas, tap)

    def source_ids(self, sides: Any) -> tuple[int, ...]:
        return ()

    @property
    def source_tokenizer(self) -> None:
        return None
