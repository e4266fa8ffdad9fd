"""Using a sequence-to-sequence task: write targets for sources, and score and align given targets, with one model or an
ensemble."""

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
from clew.tasks.shared.alignment import Alignment, attention_weights, displayed_tokens, with_marks
from clew.tasks.use import Blocks, Objects, TextRow, Use, Watch, WritingOptions, tokens_read
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import check_is_text

if TYPE_CHECKING:
    from clew.tasks.shared.sequence import SequenceBatch, SequenceToSequence, Sides, Written

BATCH_TOKENS = 4096
"""Positions per batch, including padding."""

Tasks = Sequence["SequenceToSequence"]


@dataclass(frozen=True)
class Translation:
    """One target of a source. `log_prob` is that of all tokens and the end, `score` is what beam search ranked it by;
    `str()` is the text."""

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
    """The tokens of a given target, the end token last, and the log probability of each."""

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
    """Write the best targets of every example's source, in the order given. Several models write together, by the mean
    of their log probabilities.

    A blank source has a blank target. `numbers` of the sources are 1, 2, ... by default: sampling is seeded by them,
    and errors name a source by its number. With `replace_unknown`, an unknown word in the target is replaced by the
    source word with the highest attention.
    """
    if replace_unknown:
        check_words(tasks)
    numbers = range(1, len(examples) + 1) if numbers is None else numbers
    encoded = encode_pairs(tasks, [example._replace(target="") for example in examples], numbers)
    translations = [[Translation(example.source, "", [], 0.0, 0.0)] for example in examples]
    filled = [row for row, example in enumerate(examples) if example.source.strip()]
    with evaluating(tasks):
        for rows, batch in batches(tasks[0], encoded, filled, batch_tokens):
            for row, written in zip(
                rows, write_together(tasks, batch, config, seed, [numbers[row] for row in rows]), strict=True
            ):
                hypotheses = [Translation(examples[row].source, *hypothesis) for hypothesis in written]
                translations[row] = hypotheses or translations[row]
    if not (with_attention or replace_unknown):
        return translations
    flat = [(row, translation) for row in filled for translation in translations[row]]
    alignments = align(
        tasks,
        [examples[row]._replace(target=one.text) for row, one in flat],
        [one.tokens for _, one in flat],
        layer,
        batch_tokens,
    )
    for row in filled:
        translations[row] = []
    for (row, one), alignment in zip(flat, alignments, strict=True):
        text = with_source_words(tasks[0], one.tokens, alignment, examples[row].into) if replace_unknown else one.text
        translations[row].append(replace(one, text=text, attention=alignment if with_attention else None))
    return translations


def translate_through(
    tasks: Tasks, examples: Sequence[Pair], config: DecodingConfig, pivot: str, **options: Any
) -> tuple[list[str], list[str]]:
    """Translate every example by way of a pivot language. Return the targets and the texts in the pivot language."""
    pivots = [
        best[0].text
        for best in translate(tasks, [example._replace(into=pivot) for example in examples], config, **options)
    ]
    onward = [example._replace(source=text) for example, text in zip(examples, pivots, strict=True)]
    return [best[0].text for best in translate(tasks, onward, config, **options)], pivots


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
    """Return log p of every token of given targets; for several models the mean, as when they write together."""
    encoded = encode_pairs(tasks, pairs, first)
    scores: dict[int, list[float]] = {}
    with evaluating(tasks):
        for rows, batch in batches(tasks[0], encoded, range(len(pairs)), batch_tokens):
            log_probs = torch.stack([given_log_probs(task, batch) for task in tasks]).mean(0)
            scores |= dict(zip(rows, log_probs.tolist(), strict=True))
    target = tasks[0].target
    return [
        ScoredPair(
            pair.source,
            pair.target,
            [*displayed_tokens(target, pair.target, sides.target).texts, target.token(tasks[0].end)],
            scores[row][: len(sides.target) + 1],
        )
        for row, (pair, sides) in enumerate(zip(pairs, encoded, strict=True))
    ]


def given_log_probs(task: "SequenceToSequence", batch: "SequenceBatch") -> Tensor:
    """Return log p (batch, length) of a batch's targets."""
    return task.log_probs(task.decode(batch)[0]).gather(-1, batch.targets[..., None])[..., 0]


def align(
    tasks: Tasks,
    pairs: Sequence[Pair],
    targets: Sequence[Sequence[int]] | None = None,
    layer: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    first: int = 1,
) -> list[Alignment]:
    """Align given targets with their sources by attention, the mean over models. `targets` are their ids, if these
    differ from the encoded texts. `layer` is as in `attention_weights`."""
    task = tasks[0]
    encoded = encode_pairs(tasks, pairs, first, targets)
    weights: dict[int, Tensor] = {}
    with evaluating(tasks):
        for rows, batch in batches(task, encoded, range(len(pairs)), batch_tokens):
            means = torch.stack([attention_weights(each, batch, layer) for each in tasks]).mean(0).cpu()
            weights |= dict(zip(rows, means, strict=True))
    alignments = []
    for row, (pair, sides) in enumerate(zip(pairs, encoded, strict=True)):
        before, after = task.around(pair.into)
        source = displayed_tokens(task.source, pair.source, sides.source[len(before) : -len(after)])
        target = displayed_tokens(task.target, pair.target, sides.target)
        source = with_marks(source, *([task.source.token(id) for id in marks] for marks in (before, after)))
        target = with_marks(target, [], [task.target.token(task.end)])
        alignments.append(Alignment(source, target, weights[row][: len(target.texts), : len(source.texts)]))
    return alignments


def with_source_words(task: "SequenceToSequence", ids: Sequence[int], alignment: Alignment, into: str) -> str:
    """Return the written words, with each unknown one replaced by the source word of the highest attention (Luong et
    al. 2015b)."""
    before, after = map(len, task.around(into))
    # Neither the token of the target language nor the end token can replace a word.
    places = (before + alignment.weights[:, before:-after].argmax(1)).tolist()
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
    """Encode sources and targets as ids. Raises UserError, with the line number, for what is not text or is longer than
    a model's maximum length. `numbers` are those of all pairs, or that of the first."""
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
    """Iterate over batches of rows with similar lengths: the numbers of the rows, and the batch."""
    if budget < 1:
        raise UserError(f"batch_tokens ({budget}) must be at least 1")
    lengths = np.array([task.lengths(encoded[row]) for row in rows]).reshape(len(rows), 2)
    for numbers in batches_by_length(lengths, budget):
        chosen = [rows[number] for number in numbers]
        yield chosen, to_device(task.collate([encoded[row] for row in chosen]), next(task.parameters()).device)


def check_words(tasks: Tasks) -> None:
    target = tasks[0].target
    if target.unit != "word" or target.unknown is None:
        raise UserError(
            f"this model writes {target.unit}s, and none of them is unknown; replace_unknown needs a run with"
            " text.tokenizer=word"
        )


class TranslateOptions(WritingOptions):
    into: str = Field(
        "",
        description="the target language, if the model writes several",
        json_schema_extra={"metavar": "LANGUAGE"},
    )
    replace_unknown: bool = Field(
        False, description="replace an unknown word by the source word of the highest attention; for word tokenizers"
    )
    with_attention: bool = Field(False, description="add the attention of each word over the source words")
    layer: int | None = Field(
        None, description="the decoder layer whose attention is shown, from 1; by default the last but one"
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
    objects = []
    for rank, each in enumerate(answer or (), start=1):
        attention = {} if each.attention is None else {"attention": each.attention.as_json()}
        objects.append({"line": number, "rank": rank, **{name: getattr(each, name) for name in names}, **attention})
    return objects


def as_lines(blocks: Blocks, options: TranslateOptions, alone: bool) -> Iterator[str]:
    """Write one line per translation; with `n_best` also its score, and an empty line after those of a source."""
    several = options.n_best > 1
    for block in blocks:
        for _, _, translations in block:
            for translation in translations or ():
                text = " ".join(translation.text.splitlines())
                yield text.replace("\t", " ") + f"\t{translation.score:.4f}\n" if several else f"{text}\n"
            if several:
                yield "\n"


def translation_confidence(answer: Sequence[Any]) -> float | None:
    """Return the geometric mean of the token probabilities of the best text."""
    best = answer[0] if answer else None
    return math.exp(min(best.log_prob / len(best.tokens), 0.0)) if best is not None and best.tokens else None


TRANSLATE: Use[TextRow, list[Translation]] = Use(
    about="translate lines with a trained run, or with an ensemble of runs",
    row=TextRow,
    options=TranslateOptions,
    answer=translate_rows,
    objects=translated_objects,
    formats={"lines": as_lines},
    together=True,
    answers_blank=True,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.source, [row.text]),
        confidence=translation_confidence,
        row_of=lambda example: TextRow(text=example.source),
    ),
    help="""Each TEXT, or else each line of standard input or of --file, is one source. Of a table, each record is one:
its column --text, or the one that the run was trained on. A translation is one line of standard output, in the same
order and as soon as it is ready. Other targets (a summary, an answer, a sorted list) are written in the same way.

  clew translate runs/tatoeba-transformer 'Wo ist der Bahnhof?'
  echo 'Wo ist der Bahnhof?' | clew translate runs/tatoeba-transformer
  clew translate runs/tatoeba-transformer --file sentences.de --beams 8 > sentences.en
  clew translate runs/tatoeba-transformer runs/tatoeba-transformer-2 --file sentences.de
  clew translate runs/tatoeba-transformer --file sentences.de --n-best 3 --json
  clew translate runs/tatoeba-transformer --file sentences.de --attention alignments.svg
  clew translate runs/tatoeba-transformer --file sentences.de --score sentences.en

Several runs translate as an ensemble, by the mean of their log probabilities; they need the same vocabularies. Of the
arguments after the first, run directories are runs, and all others are texts. With --n-best N, each source has up to N
lines, `translation<TAB>score`, followed by an empty line. The score is log p / length^X, where X is --length-penalty.
With --score nothing is translated: line n of TARGETS is scored as the translation of line n, and its log probability is
printed; --json prints that of every token.

--attention writes the attention of each target word over the source words. A file that ends in .jsonl has one object
per translation, with the words of both sides and the weights, one row per target word. .svg, .png and .pdf files are
pictures (the last two need matplotlib) of the first 50 translations, the best of each line.""",
)
