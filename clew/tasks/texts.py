"""A task on texts, for one's own: what is left to say is its target, its logits, its loss, its predictions and how they
are measured.

    class Mine(TextTask):
        def target(self, example): ...           a number, or numbers, of an example
        def logits(self, batch: TextBatch): ...  of self.hidden(batch) or self.mean(batch); by its type an export knows what it takes
        def loss(self, batch): ...               the sum over the rows
        def predictions(self, batch): ...        one a row, as JSON has them
        def sentence_scores(self, examples, predictions): ...
        def measure(self, examples, predictions): ...

    TASKS["mine"] = text_task(Mine, MineConfig, text_use("what it tells of a text"))

A file with these lines is given to a verb with `--code`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew.core.batches import to_device
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.types import State, Term
from clew.data.kinds.kind import Kind
from clew.data.kinds.labelled import LABELLED
from clew.layers.context import Pieces
from clew.metrics.measures import Measured
from clew.sources.words import EncodedWords, WordReader, check_words, one_word_each, places_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.shared.reading import ReadsText
from clew.tasks.use import Answered, Options, TextRow, Use, Watch, line_each, tokens_read
from clew.text.tokenizer import Tokenizer, check_is_text
from clew.text.train import Texts
from clew.text.words import words_of

BATCH = 128
"""Texts that are answered at a time."""
LONGEST = 512
"""Tokens of a training text at most, where the config has no `longest`."""


class EncodedText(NamedTuple):
    text: EncodedWords
    target: Any


class TextBatch(NamedTuple):
    text: Pieces
    targets: Tensor  # (batch,), or (batch, numbers)
    fresh: bool = True

    @property
    def num_tokens(self) -> int:
        return self.text.num_tokens


class TextTask(ReadsText, ExampleTask):
    """A task over texts, each example with a `text`; any body that reads one sequence."""

    reader: WordReader
    can_bucket = True
    best = "loss"
    """What the best evaluation is told by: loss, or the name of something that `measure` gives, highest being best."""

    def __init__(self, body: Any, reader: WordReader, config: Any):
        super().__init__()
        self.body = body
        self.reader = reader
        self.config = config

    def target(self, example: Any) -> Any:
        """What is to be told of an example: a number, or numbers."""
        raise NotImplementedError

    def loss(self, batch: TextBatch) -> Tensor:
        """The sum over the rows of a batch."""
        raise NotImplementedError

    def predictions(self, batch: TextBatch) -> list[Any]:
        """What is told of each row, as JSON has it."""
        raise NotImplementedError

    @torch.no_grad()
    def predict(self, batch: TextBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[Any]:
        """The same, as an evaluation asks for it. How tokens are written, and by which seed, is for tasks that write
        some."""
        return self.predictions(batch)

    def measure(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Measured:
        """Numbers of all predictions together."""
        return Measured({}, "")

    def forward(self, batch: TextBatch, state: State = None) -> tuple[dict[str, Term], State]:
        return {"loss": Term(self.loss(batch), self.counts(batch)["loss"])}, None

    def counts(self, batch: TextBatch) -> dict[str, Tensor]:
        """Rows."""
        return {"loss": torch.full((), len(batch.targets), device=batch.targets.device)}

    def hidden(self, batch: TextBatch) -> Tensor:
        """The body's vectors (batch, length, dim)."""
        found: Tensor = self.body(batch.text.inputs, batch.text.mask)[0]
        return found

    def mean(self, batch: TextBatch) -> Tensor:
        """The mean of each text's vectors (batch, dim)."""
        hidden, mask = self.hidden(batch), batch.text.mask
        if mask is None:
            return hidden.mean(1)
        real = (mask > 0).to(hidden.dtype)
        return (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True)

    def encode(self, examples: Sequence[Any]) -> list[EncodedText]:
        texts = self.encode_texts([example.text for example in examples])
        return [EncodedText(text, self.checked_target(example)) for text, example in zip(texts, examples, strict=True)]

    def checked_target(self, example: Any) -> Any:
        """The target; an example that has none is refused by its place."""
        try:
            return self.target(example)
        except (ValueError, KeyError) as error:
            label = getattr(example, "label", "")
            raise UserError(
                f"{example.id}: {type(self).__name__} has no target for the label {label!r} ({error}); mend it, or"
                " leave the example out"
            ) from error

    def encode_texts(self, texts: Sequence[str]) -> list[EncodedWords]:
        by_words = self.reader.tokenizer.unit == "word"
        return (
            self.reader.encode([words_of(text) or ["_"] for text in texts])
            if by_words
            else self.reader.encode_whole(texts)
        )

    def lengths(self, encoded: EncodedText) -> tuple[int]:
        return (places_of(encoded.text),)

    @property
    def longest(self) -> int:
        own = getattr(self.config, "longest", LONGEST)
        return min(own, self.body.max_length or own)

    def check_length(self, encoded: EncodedText, place: str) -> None:
        check_words(encoded.text, self.body.max_length, place)

    def collate(self, examples: Sequence[EncodedText]) -> TextBatch:
        return TextBatch(
            self.reader.collate([each.text for each in examples]), torch.tensor([each.target for each in examples])
        )

    def answer_texts(self, texts: Sequence[str], numbers: Sequence[int] | None = None) -> list[Any]:
        """What is predicted of texts; one that is refused is named by its number."""
        numbers = range(1, len(texts) + 1) if numbers is None else numbers
        for text, number in zip(texts, numbers, strict=True):
            check_is_text(text, f"text {number}")
        nothing = self.blank_target()
        encoded = [EncodedText(each, nothing) for each in self.encode_texts(texts)]
        for each, number in zip(encoded, numbers, strict=True):
            self.check_length(each, f"text {number}")
        order = sorted(range(len(encoded)), key=lambda row: self.lengths(encoded[row]))
        found: dict[int, Any] = {}
        device = next(self.parameters()).device
        with evaluating([self]):
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                batch = to_device(self.collate([encoded[row] for row in rows]), device)
                found |= dict(zip(rows, self.predict(batch), strict=True))
        return [found[row] for row in range(len(texts))]

    def blank_target(self) -> Any:
        """The target of a text that is asked about; no answer looks at it."""
        return 0.0

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[Any]) -> list[float]:
        """A number an example, higher being better: 100 where the prediction is the label, unless a task says more."""
        return [
            100.0 * (str(prediction) == example.label)
            for example, prediction in zip(examples, predictions, strict=True)
        ]

    def described(self, example: Any, prediction: Any) -> dict[str, Any]:
        """An example and what was predicted of it, as a person reads them."""
        return {"source": example.text, "target": str(example.label), "prediction": in_short(prediction)}


def in_short(prediction: Any) -> str:
    """A prediction as a person reads it: numbers to four digits."""
    return f"{prediction:.4g}" if isinstance(prediction, float) else str(prediction)


def text_use(about: str, name: str = "prediction") -> Use[TextRow, Any]:
    """Rows are texts, an answer is a prediction: `{"text": ..., name: ...}` in JSON, and `prediction<TAB>text` on a
    line."""

    def answer(tasks: Sequence[Any], rows: Sequence[TextRow], options: Options, numbers: Sequence[int]) -> list[Any]:
        found: list[Any] = tasks[0].answer_texts([row.text for row in rows], numbers)
        return found

    def line(each: Answered[TextRow, Any]) -> str:
        return "" if each.answer is None else f"{in_short(each.answer)}\t{' '.join(each.row.text.split())}"

    return Use(
        about=about,
        row=TextRow,
        options=Options,
        answer=answer,
        objects=lambda number, row, answer, options: [{"line": number, "text": row.text, name: answer}],
        formats={"lines": line_each(line)},
        watch=watch_texts(row_of=lambda example: TextRow(text=example.text)),
    )


def text_task(
    task: type[TextTask], config: type[TaskSection], use: Use[Any, Any], *, verb: str = "predict", kind: Kind = LABELLED
) -> TaskEntry:
    """The entry of a task on texts: any body, one tokenizer of the training texts. Its runs are asked by `clew
    predict`, or by another verb that the command has."""

    def build(body: Any, vocabularies: dict[str, Any], config: Any) -> nn.Module:
        return task(body, WordReader.of(body, vocabularies), config)

    return TaskEntry(
        config=config,
        build=build,
        vocabularies={"tokenizer": Tokenizer},
        learning=Examples(kind, train_text_vocabulary),
        uses={verb: use},
    )


def train_text_vocabulary(train: TrainTokenizer, joint: bool, examples: Sequence[Any], config: Any) -> dict[str, Any]:
    """One tokenizer, of the texts."""
    return {"tokenizer": train(Texts(lambda: (one_word_each(words_of(example.text)) for example in examples)), [])}


def watch_texts(**more: Any) -> Watch[Any, Any]:
    """What a server counts of a text task's rows."""
    return Watch(tokens=lambda task, row: tokens_read(task.reader.tokenizer, [row.text], by_words=True), **more)
