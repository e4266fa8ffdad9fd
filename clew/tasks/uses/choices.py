"""Zero-shot classification: the choice that a language model finds most probable in a template around a text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from clew.core.batches import padded
from clew.core.errors import UserError, named, shown, unknown
from clew.core.modes import evaluating
from clew.core.state import select_rows
from clew.core.types import State
from clew.core.wording import argument, argument_name
from clew.data.examples import Labelled
from clew.data.plans import batches_by_length
from clew.tasks.classification import CLASSIFY, Classified, class_confidence, classified_objects, texts_of
from clew.tasks.language_model import LanguageModel
from clew.tasks.shared.judging import Judging, unlabelled_texts
from clew.tasks.use import Answered, Options, PairRow, TextRow, TwoTexts, Use, Watch, tokens_read
from clew.tasks.uses.answers import OneLabel, Prediction
from clew.text.labels import Labels

NORMALISED = ("none", "tokens", "characters")
FIELDS = re.compile(r"\{(text|second)\}")
CHOICE = "{choice}"
BATCH_TOKENS = 2**14
CHUNK = 512
"""Positions that are read at a time."""


@dataclass(frozen=True)
class Choices:
    """The choices by label, and the template that a text and a choice are put into.

        score = log p(choice and the rest of the template | the template before the choice)

    `normalise` divides the score by its length in tokens or characters. `calibrate` subtracts the same score without
    the texts in the template, so that a choice which is frequent anyway is not preferred (Zhao et al. 2021, Holtzman
    et al. 2021).
    """

    words: Mapping[str, str]
    template: str = f"{{text}} {CHOICE}"
    normalise: str = "none"
    calibrate: bool = False

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            raise UserError(
                f"{argument_name('choices')} needs at least two, separated by commas; found {shown(list(self.words))}"
            )
        for label, words in self.words.items():
            if not words.strip() or not label.strip():
                raise UserError("a choice is empty; give each choice some words")
        if self.template.count(CHOICE) != 1:
            raise UserError(
                f"a template must contain {CHOICE} exactly once, in the place of the choice; found it"
                f" {self.template.count(CHOICE)} times"
            )
        if "{text}" not in self.template:
            raise UserError(
                f"a template must contain {{text}} in the place of the text, e.g. 'Review: {{text}} It was {CHOICE}.'"
            )
        if self.normalise not in NORMALISED:
            raise unknown("way to normalise", self.normalise, NORMALISED)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.words)

    @property
    def reads_pairs(self) -> bool:
        return "{second}" in self.template

    def filled(self, words: str, texts: Mapping[str, str]) -> tuple[str, str]:
        """Return the text before the choice, and the choice with the text after it."""
        before, behind = (FIELDS.sub(lambda field: texts[field[1]], part) for part in self.template.split(CHOICE))
        return before, words + behind


def choices_of(choices: Sequence[str] | Mapping[str, str], **options: Any) -> Choices:
    """Return `Choices` from a list, whose items are their own labels, or from a dict of label to words."""
    if isinstance(choices, str) or not isinstance(choices, (Mapping, Sequence)):
        raise UserError(f"choices must be a list of texts, or a dict of label to words; found {shown(choices)}")
    pairs = list(choices.items() if isinstance(choices, Mapping) else ((choice, choice) for choice in choices))
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise UserError(f"choices and their labels must be strings; found {shown(choices)}")
    if len({label for label, _ in pairs}) < len(pairs):
        raise UserError(f"a choice is given twice in {shown(list(choices))}")
    return Choices(dict(pairs), **options)


@dataclass(frozen=True, repr=False)
class Chosen(Classified):
    """The most probable choice, the probability of every choice (highest first), and their log-probabilities in the
    template. `left_out` counts the tokens cut from the beginning of a text that the model cannot read whole."""

    log_probs: Mapping[str, float] | None = None
    left_out: int = 0

    def more(self) -> dict[str, Any]:
        return {"log_probs": self.log_probs, "left_out": self.left_out}


class ChoicePrompt(NamedTuple):
    """A text with each choice, as tokens. The prefix that all have in common is read once."""

    shared: list[int]
    branches: list[list[int]]  # the remaining tokens; the first one is read and never scored
    starts: list[int]  # where the choice begins in each branch
    lengths: list[int]  # of the choice and the text after it, in characters
    left_out: int


class Chooser(Judging):
    """Choose one of several choices, and measure the answers like a classifier's."""

    writes = False
    best = "accuracy"

    def __init__(self, task: LanguageModel, choices: Choices):
        self.task = task
        self.choices = choices
        self.answer = OneLabel(Labels(choices.labels), calibrate=False)
        for label, words in choices.words.items():
            task.tokenizer.check(words, f"choice '{label}'")

    def choose(self, texts: Sequence[str | tuple[str, ...]], numbers: Sequence[int] | None = None) -> list[Chosen]:
        """Return the choice for each text or pair of texts. An error names the text by its number."""
        examples = unlabelled_texts(texts, numbers)
        answers = []
        for example, prompt, log_probs, scores in zip(examples, *self.score(examples), strict=True):
            prediction = self.answer.predictions(torch.tensor([scores]))[0]
            ranked = sorted(range(len(scores)), key=lambda number: -scores[number])
            probabilities = {self.choices.labels[number]: prediction["probabilities"][number] for number in ranked}
            log_prob_of = {self.choices.labels[number]: log_probs[number] for number in ranked}
            answers.append(
                Chosen(
                    example.text,
                    tuple(prediction["labels"]),
                    probabilities,
                    None,
                    example.second,
                    log_prob_of,
                    prompt.left_out,
                )
            )
        return answers

    def predict(self, examples: Sequence[Labelled]) -> tuple[Sequence[Prediction], float]:
        """Return a prediction for each example, and the mean of -log p(right choice), where p is normalised over the
        choices."""
        for example in examples:
            if example.label not in self.answer.labels:
                choices = ", ".join(self.choices.labels)
                raise UserError(
                    f"{example.id}: the label '{example.label}' is not among the choices ({choices}); add it, as"
                    " LABEL=WORDS if its words differ from the label"
                )
        scores = torch.tensor(self.score(examples)[2])
        gold = torch.tensor([self.answer.labels.id(example.label) for example in examples])
        loss = -scores.log_softmax(-1).gather(1, gold[:, None]).mean()
        return self.answer.predictions(scores), float(loss)

    def score(self, examples: Sequence[Labelled]) -> tuple[list[ChoicePrompt], list[list[float]], list[list[float]]]:
        """Return for each example its prompt, the log-probabilities of its choices, and their scores."""
        prompts = [self.prompt(example) for example in examples]
        baseline_prompts = (
            [self.prompt(Labelled("", (), "", "the template without its text"))] if self.choices.calibrate else []
        )
        *log_probs, baselines = [
            *self.log_probs([*prompts, *baseline_prompts]),
            *([] if baseline_prompts else [[0.0] * len(self.choices.labels)]),
        ]
        scores = []
        for prompt, choice_log_probs in zip(prompts, log_probs, strict=True):
            sizes = {"none": [1] * len(choice_log_probs), "characters": prompt.lengths, "tokens": num_scored(prompt)}[
                self.choices.normalise
            ]
            scores.append(
                [
                    (log_prob - baseline) / size
                    for log_prob, baseline, size in zip(choice_log_probs, baselines, sizes, strict=True)
                ]
            )
        return prompts, log_probs, scores

    def prompt(self, example: Labelled) -> ChoicePrompt:
        """Encode a text with each choice.

        The whole text is encoded at once, so that a choice has the tokens that it would have in a text; the first of
        them may begin with the space before the choice.
        """
        tokenizer, limit = self.task.tokenizer, self.task.body.max_length
        frame = [] if tokenizer.frame is None else tokenizer.frame.before
        rows, starts, lengths = [], [], []
        for label, words in self.choices.words.items():
            before, behind = self.choices.filled(words, {"text": example.text, "second": example.second or ""})
            tokens, offsets = tokenizer.encode_with_offsets(before + behind)
            start = sum(1 for _ in takewhile(lambda span: span[1] <= len(before), offsets))  # noqa: B023
            if start == len(tokens):
                raise UserError(
                    f"{example.id}: the tokenizer has no token for the choice {named(label)}; give it other words"
                )
            if start == 0 and not frame:
                tokens, start = [self.first_token(example), *tokens], 1
            rows.append(tokens)
            starts.append(start)
            lengths.append(len(behind))
        cut = 0 if limit is None else max(0, len(frame) + max(map(len, rows)) - 1 - limit)
        if cut and cut + (not frame) > min(starts):
            raise UserError(
                f"{example.id}: the model has only {limit} positions, and the longest choice with the template after"
                " it leaves no room for anything before it; shorten it"
            )
        rows, starts = [frame + row[cut:] for row in rows], [len(frame) + start - cut for start in starts]
        num_shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False)))
        shared = max(min(num_shared, *starts) - 1, 0)
        return ChoicePrompt(
            rows[0][:shared], [row[shared:] for row in rows], [start - shared for start in starts], lengths, cut
        )

    def first_token(self, example: Labelled) -> int:
        """Return the token that is read when nothing precedes a choice: the end of the previous document."""
        if self.task.tokenizer.end is None:
            raise UserError(
                f"{example.id}: there is nothing before the choice for the model to read; put words before {CHOICE} in"
                " the template"
            )
        return self.task.tokenizer.end

    def log_probs(self, prompts: Sequence[ChoicePrompt]) -> list[list[float]]:
        """Return log p of every choice for every text."""
        sums: dict[int, list[float]] = {}
        sizes = [len(prompt.branches) * (len(prompt.shared) + max(map(len, prompt.branches))) for prompt in prompts]
        with evaluating([self.task]):
            for rows in batches_by_length(np.array(sizes).reshape(-1, 1), BATCH_TOKENS):
                batch = [prompts[row] for row in rows]
                sums |= dict(zip(rows, self.batch_log_probs(batch), strict=True))
        return [sums[row] for row in range(len(prompts))]

    def batch_log_probs(self, prompts: Sequence[ChoicePrompt]) -> list[list[float]]:
        device = self.task.body.embedding.like.device
        state: State = None
        if any(prompt.shared for prompt in prompts):
            tokens, mask = padded([prompt.shared for prompt in prompts])
            for start in range(0, tokens.shape[1], CHUNK):
                piece = slice(start, start + CHUNK)
                _, state = self.task.body(
                    tokens[:, piece].to(device), None if mask is None else mask[:, piece].to(device), state
                )
            owners = [row for row, prompt in enumerate(prompts) for _ in prompt.branches]
            state = select_rows(state, torch.tensor(owners, device=device))
        branches = [branch for prompt in prompts for branch in prompt.branches]
        starts = torch.tensor([start for prompt in prompts for start in prompt.starts])
        sums = self.branch_log_probs(branches, starts, state, device)
        sizes = [len(prompt.branches) for prompt in prompts]
        return [part.tolist() for part in sums.split(sizes)]

    def branch_log_probs(
        self, branches: Sequence[list[int]], starts: Tensor, state: State, device: torch.device
    ) -> Tensor:
        """Return the sum of log p over each branch's tokens from its start on, (branches,)."""
        tokens, mask = padded([branch[:-1] for branch in branches])
        targets, _ = padded([branch[1:] for branch in branches])
        is_scored = torch.arange(tokens.shape[1]) >= starts[:, None] - 1
        is_scored = is_scored if mask is None else is_scored & mask
        sums = torch.zeros(len(branches), dtype=torch.float64)
        for start in range(0, tokens.shape[1], CHUNK):
            piece = slice(start, start + CHUNK)
            hidden, state = self.task.body(
                tokens[:, piece].to(device), None if mask is None else mask[:, piece].to(device), state
            )
            rows, columns = is_scored[:, piece].nonzero(as_tuple=True)
            for chunk in torch.arange(len(rows)).split(CHUNK):
                row, column = rows[chunk], columns[chunk]
                log_probs = self.task.logits(hidden[row.to(device), column.to(device)]).float().log_softmax(-1)
                target_log_probs = log_probs.gather(1, targets[:, piece][row, column].to(device)[:, None])[:, 0]
                sums.index_add_(0, row, target_log_probs.cpu().double())
        return sums


def num_scored(prompt: ChoicePrompt) -> list[int]:
    return [len(branch) - start for branch, start in zip(prompt.branches, prompt.starts, strict=True)]


def parse_choices(text: str) -> dict[str, str]:
    """Parse `good,bad`, or `1=good,0=bad` with labels; surrounding white space is stripped."""
    choices: dict[str, str] = {}
    for part in text.split(","):
        label, equals, words = part.partition("=")
        label, words = label.strip(), words.strip() if equals else label.strip()
        if label in choices:
            raise UserError(f"the choice '{label}' is given twice")
        choices[label] = words
    return choices


class ChoiceOptions(Options):
    choices: str | list[str] | dict[str, str] | None = Field(
        None,
        description="for a language model: choose the most probable of these after the text; LABEL=WORDS sets a label",
        json_schema_extra={"metavar": "A,B,..."},
    )
    template: str | None = Field(
        None,
        description="the prompt around text and choice, default '{text} {choice}'; {second} is the second text",
    )
    normalise: Literal["none", "tokens", "characters"] | None = Field(
        None, description="divide a choice's log-probability by its length (default: none)"
    )
    calibrate: bool = Field(False, description="subtract the choice's log-probability in the template without the text")

    def read(self) -> Choices:
        settings = {name: value for name in ("template", "normalise", "calibrate") if (value := getattr(self, name))}
        if self.choices is None:
            if settings:
                raise UserError(
                    f"{argument_name(next(iter(settings)))} is for {argument_name('choices')}, and none are given;"
                    " give some, e.g."
                    f" {argument('choices', 'good,bad')}"
                )
            raise UserError(
                f"{argument_name('choices')} is needed, because a language model was not trained to classify; give"
                " some, e.g."
                f" {argument('choices', 'good,bad')}"
            )
        return choices_of(parse_choices(self.choices) if isinstance(self.choices, str) else self.choices, **settings)


def takes_choices(task: Any) -> bool:
    """Whether a task scores choices after a text."""
    return isinstance(task, LanguageModel)


def choose_rows(
    tasks: Sequence[LanguageModel], rows: Sequence[Any], options: ChoiceOptions, numbers: Sequence[int]
) -> list[Chosen]:
    chooser = Chooser(tasks[0], options.read())
    return chooser.choose([texts[0] if len(texts) == 1 else texts for texts in map(texts_of, rows)], numbers)


def choice_row_for(data: Any, options: ChoiceOptions) -> type[Any]:
    return TwoTexts if options.read().reads_pairs else TextRow


def choice_remarks(
    tasks: Sequence[LanguageModel], answered: Sequence[Answered[Any, Chosen]], options: ChoiceOptions
) -> Iterator[str]:
    if num_cut := sum(bool(answer.answer and answer.answer.left_out) for answer in answered):
        limit = tasks[0].body.max_length
        yield (
            f"{num_cut:,} of the texts are longer than the {limit} tokens that the model can read; only their ends were"
            " read"
        )


CHOOSE: Use[PairRow, Chosen] = Use(
    about="choose the most probable of several choices after a text",
    row=PairRow,
    options=ChoiceOptions,
    answer=choose_rows,
    objects=classified_objects,
    formats=CLASSIFY.formats,
    row_for=choice_row_for,
    remarks=choice_remarks,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.tokenizer, texts_of(row)),
        confidence=class_confidence,
        labels=lambda task, answer: answer.labels,
    ),
)
