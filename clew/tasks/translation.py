"""What a person does with a task from source to target: targets written for sources, and given ones scored and aligned,
by one model or several together."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.data.examples import Pair
from clew.data.plans import batches_by_length
from clew.decoding.ensemble import Ensemble
from clew.tasks.shared.alignment import Alignment, attention_weights, tokens_of, with_marks
from clew.tasks.use import Blocks, Objects, TextRow, Use, Watch, WritingOptions, tokens_read
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import check_is_text

if TYPE_CHECKING:
    from clew.tasks.shared.sequence import SequenceBatch, SequenceToSequence, Sides, Written

BATCH_TOKENS = 4096
"""Places of a batch, padding counted."""

Tasks = Sequence["SequenceToSequence"]


@dataclass(frozen=True)
class Translation:
    """One target of a source. `log_prob` is of all its tokens and its end, `score` what it was chosen by; `str()` is
    its text."""

    source: str
    text: str
    tokens: list[int]
    log_prob: float
    score: float
    attention: Alignment | None = None

    def __repr__(self) -> str:
        return brief(self, self.text, log_prob=self.log_prob)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class ScoredPair:
    """A given target's tokens, its end the last, and the log-probability of each."""

    source: str
    target: str
    tokens: list[str]
    log_probs: list[float]

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)

    def __repr__(self) -> str:
        return brief(self, self.target, log_prob=self.log_prob)


def translate(
    tasks: Tasks,
    examples: Sequence[Pair],
    config: DecodingConfig,
    *,
    with_attention: bool = False,
    layer: int | None = None,
    replace_unknown: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
) -> list[list[Translation]]:
    """The best targets of every example's source, in the order given; several models write by the mean of their
    log-probabilities.

    A blank source has a blank target. Sources have `numbers`, 1, 2, ... where none are given: sampling draws by them,
    and a source that is refused is named by its own. With `replace_unknown` a word that is unknown to the model is the
    source's word that it looked at most.
    """
    if replace_unknown:
        check_words(tasks)
    numbers = range(1, len(examples) + 1) if numbers is None else numbers
    encoded = encode_pairs(tasks, [example._replace(target="") for example in examples], numbers)
    found = [[Translation(example.source, "", [], 0.0, 0.0)] for example in examples]
    there = [row for row, example in enumerate(examples) if example.source.strip()]
    with evaluating(tasks):
        for rows, batch in batches(tasks[0], encoded, there, batch_tokens):
            for row, written in zip(
                rows, write_together(tasks, batch, config, seed, [numbers[row] for row in rows]), strict=True
            ):
                found[row] = [Translation(examples[row].source, *hypothesis) for hypothesis in written] or found[row]
    if not (with_attention or replace_unknown):
        return found
    each = [(row, translation) for row in there for translation in found[row]]
    aligned = align(
        tasks,
        [examples[row]._replace(target=one.text) for row, one in each],
        [one.tokens for _, one in each],
        layer,
        batch_tokens,
    )
    for row in there:
        found[row] = []
    for (row, one), alignment in zip(each, aligned, strict=True):
        text = with_source_words(tasks[0], one.tokens, alignment, examples[row].into) if replace_unknown else one.text
        found[row].append(replace(one, text=text, attention=alignment if with_attention else None))
    return found


def translate_through(
    tasks: Tasks, examples: Sequence[Pair], config: DecodingConfig, pivot: str, **options: Any
) -> tuple[list[str], list[str]]:
    """The best targets of every example by way of another language, and what was written in that."""
    between = [
        found[0].text
        for found in translate(tasks, [example._replace(into=pivot) for example in examples], config, **options)
    ]
    onward = [example._replace(source=text) for example, text in zip(examples, between, strict=True)]
    return [found[0].text for found in translate(tasks, onward, config, **options)], between


def write_together(
    tasks: Tasks, batch: "SequenceBatch", config: DecodingConfig, seed: int, row_numbers: Sequence[int]
) -> list[list["Written"]]:
    for task in tasks:
        task.check_decoding(config)
    steppers = [task.stepper(batch, covering=config.covers) for task in tasks]
    together = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
    config = config.model_copy(update={"max_new": min(task.most_new(config) for task in tasks)})
    return tasks[0].write(batch, config, seed, together, row_numbers)


def score_pairs(
    tasks: Tasks, pairs: Sequence[Pair], *, batch_tokens: int = BATCH_TOKENS, first: int = 1
) -> list[ScoredPair]:
    """log p of every token of given targets, over several models the mean of theirs, as when they write."""
    encoded = encode_pairs(tasks, pairs, first)
    found: dict[int, list[float]] = {}
    with evaluating(tasks):
        for rows, batch in batches(tasks[0], encoded, range(len(pairs)), batch_tokens):
            log_probs = torch.stack([given_log_probs(task, batch) for task in tasks]).mean(0)
            found |= dict(zip(rows, log_probs.tolist(), strict=True))
    target = tasks[0].target
    return [
        ScoredPair(
            pair.source,
            pair.target,
            [*tokens_of(target, pair.target, sides.target).texts, target.token(tasks[0].end)],
            found[row][: len(sides.target) + 1],
        )
        for row, (pair, sides) in enumerate(zip(pairs, encoded, strict=True))
    ]


def given_log_probs(task: "SequenceToSequence", batch: "SequenceBatch") -> Tensor:
    """log p (batch, length) of a batch's targets."""
    return task.log_probs(task.decode(batch)[0]).gather(-1, batch.targets[..., None])[..., 0]


def align(
    tasks: Tasks,
    pairs: Sequence[Pair],
    targets: Sequence[Sequence[int]] | None = None,
    layer: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    first: int = 1,
) -> list[Alignment]:
    """How given targets look at their sources, the mean over models; `targets` are their ids, where they are others
    than their texts are encoded to. `layer` is as in `attention_weights`."""
    task = tasks[0]
    encoded = encode_pairs(tasks, pairs, first, targets)
    weights: dict[int, Tensor] = {}
    with evaluating(tasks):
        for rows, batch in batches(task, encoded, range(len(pairs)), batch_tokens):
            looked = torch.stack([attention_weights(each, batch, layer) for each in tasks]).mean(0).cpu()
            weights |= dict(zip(rows, looked, strict=True))
    found = []
    for row, (pair, sides) in enumerate(zip(pairs, encoded, strict=True)):
        before, after = task.around(pair.into)
        source = tokens_of(task.source, pair.source, sides.source[len(before) : -len(after)])
        target = tokens_of(task.target, pair.target, sides.target)
        source = with_marks(source, *([task.source.token(id) for id in marks] for marks in (before, after)))
        target = with_marks(target, [], [task.target.token(task.end)])
        found.append(Alignment(source, target, weights[row][: len(target.texts), : len(source.texts)]))
    return found


def with_source_words(task: "SequenceToSequence", ids: Sequence[int], alignment: Alignment, into: str) -> str:
    """Words that were written, in place of each unknown one the source's word that was looked at most (Luong et al.
    2015b)."""
    before, after = map(len, task.around(into))
    places = (
        before + alignment.weights[:, before:-after].argmax(1)
    ).tolist()  # neither the language asked for nor the end
    words = [
        alignment.source.texts[place] if id == task.target.unknown else task.target.token(id)
        for id, place in zip(ids, places, strict=False)
    ]
    return " ".join(words)


def encode_pairs(
    tasks: Tasks,
    pairs: Sequence[Pair],
    numbers: int | Sequence[int] = 1,
    targets: Sequence[Sequence[int]] | None = None,
) -> list["Sides"]:
    """Sources and targets as ids; a text that is none, or is longer than a model's positions, is refused with its line:
    each has a number, or the first has."""
    numbers = range(numbers, numbers + len(pairs)) if isinstance(numbers, int) else numbers
    for number, pair in zip(numbers, pairs, strict=True):
        for text in (pair.source, pair.target):
            check_is_text(text, f"text in line {number}")
    encoded = tasks[0].encode(pairs)
    if targets is not None:
        encoded = [sides._replace(target=list(target)) for sides, target in zip(encoded, targets, strict=True)]
    for number, sides in zip(numbers, encoded, strict=True):
        for task in tasks:
            task.check_length(sides, f"line {number}")
    return encoded


def batches(
    task: "SequenceToSequence", encoded: Sequence["Sides"], rows: Sequence[int], budget: int
) -> Iterator[tuple[list[int], Any]]:
    """The rows of every batch, those of like length together, and the batch."""
    if budget < 1:
        raise UserError(f"batch_tokens ({budget}) must be at least 1")
    lengths = np.array([task.lengths(encoded[row]) for row in rows]).reshape(len(rows), 2)
    for numbers in batches_by_length(lengths, budget):
        some = [rows[number] for number in numbers]
        yield some, to_device(task.collate([encoded[row] for row in some]), next(task.parameters()).device)


def check_words(tasks: Tasks) -> None:
    target = tasks[0].target
    if target.unit != "word" or target.unknown is None:
        raise UserError(
            f"this model writes {target.unit}s, of which none is unknown; replacing unknown words is for"
            " text.tokenizer=word"
        )


class TranslateOptions(WritingOptions):
    into: str = Field(
        "",
        description="the language to write, where the model writes several",
        json_schema_extra={"metavar": "LANGUAGE"},
    )
    replace_unknown: bool = Field(
        False, description="models of words: for an unknown word the source word that was looked at most"
    )
    with_attention: bool = Field(False, description="with how much each word looked at each of the source's")
    layer: int | None = Field(
        None, description="which of the decoder's layers that shows, from 1; the last but one where not given"
    )


def translate_rows(
    tasks: Tasks, rows: Sequence[TextRow], options: TranslateOptions, numbers: Sequence[int]
) -> list[list[Translation]]:
    return translate(
        tasks,
        [Pair(row.text, "", into=options.into) for row in rows],
        options.decoding,
        with_attention=options.with_attention,
        layer=options.layer,
        replace_unknown=options.replace_unknown,
        seed=options.seed,
        numbers=numbers,
    )


def translated_objects(
    number: int, row: TextRow, answer: list[Translation] | None, options: TranslateOptions
) -> Objects:
    names = ("source", "text", "tokens", "log_prob", "score")
    found = []
    for rank, each in enumerate(answer or (), start=1):
        aligned = {} if each.attention is None else {"attention": each.attention.as_json()}
        found.append({"line": number, "rank": rank, **{name: getattr(each, name) for name in names}, **aligned})
    return found


def as_lines(blocks: Blocks, options: TranslateOptions, alone: bool) -> Iterator[str]:
    """A line each; of several its score too, and an empty line behind them."""
    several = options.n_best > 1
    for some in blocks:
        for _, _, translations in some:
            for one in translations or ():
                text = " ".join(one.text.splitlines())
                yield text.replace("\t", " ") + f"\t{one.score:.4f}\n" if several else f"{text}\n"
            if several:
                yield "\n"


def confidence_of(answer: Sequence[Any]) -> float | None:
    """The geometric mean over the tokens of the best text."""
    best = answer[0] if answer else None
    return math.exp(min(best.log_prob / len(best.tokens), 0.0)) if best is not None and best.tokens else None


TRANSLATE: Use[TextRow, list[Translation]] = Use(
    about="translate lines with a trained run, or with several",
    row=TextRow,
    options=TranslateOptions,
    answer=translate_rows,
    objects=translated_objects,
    formats={"lines": as_lines},
    together=True,
    answers_blank=True,
    tables=False,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.source, [row.text]),
        confidence=confidence_of,
        row_of=lambda example: TextRow(text=example.source),
    ),
    help="""Every TEXT, or else every line of standard input or of --file, is one source; its translation is one line
of standard output, in the same order and as soon as it is there. What else a task writes from a source (a summary, an
answer, a sorted list) is written in the same way.

  clew translate runs/tatoeba-transformer 'Wo ist der Bahnhof?'
  echo 'Wo ist der Bahnhof?' | clew translate runs/tatoeba-transformer
  clew translate runs/tatoeba-transformer --file sentences.de --beams 8 > sentences.en
  clew translate runs/tatoeba-transformer runs/tatoeba-transformer-2 --file sentences.de
  clew translate runs/tatoeba-transformer --file sentences.de --n-best 3 --json
  clew translate runs/tatoeba-transformer --file sentences.de --attention alignments.svg
  clew translate runs/tatoeba-transformer --file sentences.de --score sentences.en

Several runs write as an ensemble, by the mean of their log-probabilities; they must have been trained with the same
vocabularies. Of the words behind the first, those that are run directories are runs, and the others texts. With
--n-best, every source has so many lines, `translation<TAB>score`, and an empty line after them. The score is log p /
length^X, X being --length-penalty. With --score nothing is written: line n of TARGETS is scored as the translation of
line n, and its log-probability printed; --json has that of every token.

--attention writes which source words were looked at for every word. A file that ends in .jsonl has one object a
translation with the words of both sides and the weights, a row a target word; .svg, .png and .pdf are pictures (the
last two need matplotlib) of the first 50 translations, the best of each line.""",
)
