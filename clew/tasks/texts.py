"""The base of your own task on texts: you define its target, logits, loss, predictions and metrics.

    class Mine(TextTask):
        def target(self, example): ...           a number, or numbers, of an example
        def logits(self, batch: TextBatch): ...  from self.hidden(batch) or self.mean(batch); exports need the type
        def loss(self, batch): ...               the sum over the rows
        def predictions(self, batch): ...        one per row, as in JSON
        def sentence_scores(self, examples, predictions): ...
        def measure(self, examples, predictions): ...

    TASKS["mine"] = text_task(Mine, MineConfig, text_use("what it predicts of a text"))

Pass a file with these lines to any verb with `--code`.
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
"""Texts per batch of predictions."""
LONGEST = 512
"""The most tokens of a training text, if the config has no `longest`."""


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
    """A task on texts: each example has a `text`. Works with any body that reads one sequence."""

    reader: WordReader
    can_bucket = True
    best = "loss"
    """What selects the best checkpoint: the lowest "loss", or the highest value of a metric that `measure` returns."""

    def __init__(self, body: Any, reader: WordReader, config: Any):
        super().__init__()
        self.body = body
        self.reader = reader
        self.config = config

    def target(self, example: Any) -> Any:
        """Return the target of an example: a number, or numbers."""
        raise NotImplementedError

    def loss(self, batch: TextBatch) -> Tensor:
        """Return the loss, summed over the rows of a batch."""
        raise NotImplementedError

    def predictions(self, batch: TextBatch) -> list[Any]:
        """Return the prediction of each row, in a form that JSON can hold."""
        raise NotImplementedError

    @torch.no_grad()
    def predict(self, batch: TextBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[Any]:
        """Return the predictions, in the signature of an evaluation. Only tasks that generate tokens use the other
        arguments."""
        return self.predictions(batch)

    def measure(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Measured:
        """Return metrics over all predictions."""
        return Measured({}, "")

    def forward(self, batch: TextBatch, state: State = None) -> tuple[dict[str, Term], State]:
        return {"loss": Term(self.loss(batch), self.counts(batch)["loss"])}, None

    def counts(self, batch: TextBatch) -> dict[str, Tensor]:
        """Return the number of rows."""
        return {"loss": torch.full((), len(batch.targets), device=batch.targets.device)}

    def hidden(self, batch: TextBatch) -> Tensor:
        """Return the body's vectors (batch, length, dim)."""
        hidden: Tensor = self.body(batch.text.inputs, batch.text.mask)[0]
        return hidden

    def mean(self, batch: TextBatch) -> Tensor:
        """Return the mean of each text's vectors (batch, dim)."""
        hidden, mask = self.hidden(batch), batch.text.mask
        if mask is None:
            return hidden.mean(1)
        real = (mask > 0).to(hidden.dtype)
        return (hidden * real[..., None]).sum(1) / real.sum(1, keepdim=True)

    def encode(self, examples: Sequence[Any]) -> list[EncodedText]:
        texts = self.encode_texts([example.text for example in examples])
        return [EncodedText(text, self.checked_target(example)) for text, example in zip(texts, examples, strict=True)]

    def checked_target(self, example: Any) -> Any:
        """Return the target. Raises UserError with the example's place in the data if it has none."""
        try:
            return self.target(example)
        except (ValueError, KeyError) as error:
            label = getattr(example, "label", "")
            raise UserError(
                f"{example.id}: {type(self).__name__} has no target for the label {label!r} ({error}); correct the"
                " label, or leave the example out"
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
        """Return the prediction for each text. Errors name a text by its number."""
        numbers = range(1, len(texts) + 1) if numbers is None else numbers
        for text, number in zip(texts, numbers, strict=True):
            check_is_text(text, f"text {number}")
        blank = self.blank_target()
        encoded = [EncodedText(each, blank) for each in self.encode_texts(texts)]
        for each, number in zip(encoded, numbers, strict=True):
            self.check_length(each, f"text {number}")
        order = sorted(range(len(encoded)), key=lambda row: self.lengths(encoded[row]))
        predictions: dict[int, Any] = {}
        device = next(self.parameters()).device
        with evaluating([self]):
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                batch = to_device(self.collate([encoded[row] for row in rows]), device)
                predictions |= dict(zip(rows, self.predict(batch), strict=True))
        return [predictions[row] for row in range(len(texts))]

    def blank_target(self) -> Any:
        """The placeholder target of a text to predict; it does not affect the prediction."""
        return 0.0

    def sentence_scores(self, examples: Sequence[Any], predictions: Sequence[Any]) -> list[float]:
        """Return a score per example, higher is better. By default 100 if the prediction equals the label, else 0."""
        return [
            100.0 * (str(prediction) == example.label)
            for example, prediction in zip(examples, predictions, strict=True)
        ]

    def described(self, example: Any, prediction: Any) -> dict[str, Any]:
        """Describe an example and its prediction for a person."""
        return {"source": example.text, "target": str(example.label), "prediction": format_prediction(prediction)}


def format_prediction(prediction: Any) -> str:
    """Format a prediction for a person: numbers with four digits."""
    return f"{prediction:.4g}" if isinstance(prediction, float) else str(prediction)


def text_use(about: str, name: str = "prediction") -> Use[TextRow, Any]:
    """A use whose rows are texts and whose answers are predictions: `{"text": ..., name: ...}` in JSON, and
    `prediction<TAB>text` as a line."""

    def answer(tasks: Sequence[Any], rows: Sequence[TextRow], options: Options, numbers: Sequence[int]) -> list[Any]:
        predictions: list[Any] = tasks[0].answer_texts([row.text for row in rows], numbers)
        return predictions

    def line(each: Answered[TextRow, Any]) -> str:
        return "" if each.answer is None else f"{format_prediction(each.answer)}\t{' '.join(each.row.text.split())}"

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
    """Return the entry of a task on texts, for any body, with one tokenizer trained on the training texts. Its runs
    answer `clew predict`, or another `verb` of the command line."""

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
    """Train one tokenizer on the texts."""
    return {"tokenizer": train(Texts(lambda: (one_word_each(words_of(example.text)) for example in examples)), [])}


def watch_texts(**fields: Any) -> Watch[Any, Any]:
    """Return what a server monitors of a text task; `fields` are further fields of `Watch`."""
    return Watch(tokens=lambda task, row: tokens_read(task.reader.tokenizer, [row.text], by_words=True), **fields)
