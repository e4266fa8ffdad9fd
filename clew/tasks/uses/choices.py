"""A task without training for it: which of several choices a language model finds likeliest where a text has room for
one."""

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
from clew.core.errors import UserError, shown, unknown
from clew.core.modes import evaluating
from clew.core.state import select_rows
from clew.core.types import State
from clew.data.examples import Labelled
from clew.data.plans import batches_by_length
from clew.tasks.classification import CLASSIFY, Classified, classified_objects, confidence_of, texts_of
from clew.tasks.language_model import LanguageModel
from clew.tasks.shared.judging import Judging, unlabelled_texts
from clew.tasks.use import Answered, Options, PairRow, TextRow, TwoTexts, Use, Watch, tokens_read
from clew.tasks.uses.answers import Found, OneLabel
from clew.text.labels import Labels

NORMALISED = ("none", "tokens", "characters")
FIELDS = re.compile(r"\{(text|second)\}")
CHOICE = "{choice}"
BATCH_TOKENS = 2**14
CHUNK = 512
"""Positions that are read at a time."""


@dataclass(frozen=True)
class Choices:
    """What there is to choose from, by label, and how a text is asked for it.

        score = log p(choice and what the template has behind it | what it has before)

    By its length with `normalise`, in tokens or characters; with `calibrate` less the same where the texts are left out
    of the template, so that a choice which is frequent anyway is not preferred (Zhao et al. 2021, Holtzman et al.
    2021).
    """

    words: Mapping[str, str]
    template: str = f"{{text}} {CHOICE}"
    normalise: str = "none"
    calibrate: bool = False

    def __post_init__(self) -> None:
        if len(self.words) < 2:
            raise UserError(f"there must be at least two choices, not {shown(list(self.words))}; part them by commas")
        for label, words in self.words.items():
            if not words.strip() or not label.strip():
                raise UserError("a choice is empty; give each some words")
        if self.template.count(CHOICE) != 1:
            raise UserError(
                f"a template has {CHOICE} once, where the choice stands, and not {self.template.count(CHOICE)} times"
            )
        if "{text}" not in self.template:
            raise UserError(
                f"a template has {{text}} where the text stands, such as 'Review: {{text}} It was {CHOICE}.'"
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
        """What stands before a choice, and the choice with what stands behind it."""
        before, behind = (FIELDS.sub(lambda field: texts[field[1]], part) for part in self.template.split(CHOICE))
        return before, words + behind


def choices_of(given: Sequence[str] | Mapping[str, str], **options: Any) -> Choices:
    """Choices that are their own labels, or words by label."""
    if isinstance(given, str) or not isinstance(given, (Mapping, Sequence)):
        raise UserError(f"choices are a list of texts, or a dict with the words of each label, not {shown(given)}")
    pairs = list(given.items() if isinstance(given, Mapping) else ((each, each) for each in given))
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise UserError(f"a choice is a text, and so is its label; found {shown(given)}")
    if len({label for label, _ in pairs}) < len(pairs):
        raise UserError(f"a choice is given twice in {shown(list(given))}")
    return Choices(dict(pairs), **options)


@dataclass(frozen=True, repr=False)
class Chosen(Classified):
    """The likeliest choice, each one's probability among the choices, likeliest first, and its log-probability by
    itself; `left_out` are the tokens at the beginning of the text that did not fit into what the model can read."""

    log_probs: Mapping[str, float] | None = None
    left_out: int = 0

    def more(self) -> dict[str, Any]:
        return {"log_probs": self.log_probs, "left_out": self.left_out}


class Asked(NamedTuple):
    """A text with each choice. What is the same in all is read once."""

    shared: list[int]
    branches: list[list[int]]  # the tokens that follow, the first of them read and never scored
    starts: list[int]  # where in a branch the choice begins
    lengths: list[int]  # of the choice and what is behind it, in characters
    left_out: int


class Chooser(Judging):
    """Answers with one of several choices, and measures the answers as a classifier's are."""

    writes = False
    best = "accuracy"

    def __init__(self, task: LanguageModel, choices: Choices):
        self.task = task
        self.choices = choices
        self.answer = OneLabel(Labels(choices.labels), calibrate=False)
        for label, words in choices.words.items():
            task.tokenizer.check(words, f"choice '{label}'")

    def choose(self, texts: Sequence[str | tuple[str, ...]], numbers: Sequence[int] | None = None) -> list[Chosen]:
        """The choice of each text, or of each two texts together. One that is refused is named by its number."""
        examples = unlabelled_texts(texts, numbers)
        found = []
        for example, asked, log_probs, scores in zip(examples, *self.scored(examples), strict=True):
            answer = self.answer.told(torch.tensor([scores]))[0]
            order = sorted(range(len(scores)), key=lambda place: -scores[place])
            probabilities = {self.choices.labels[place]: answer["probabilities"][place] for place in order}
            of_each = {self.choices.labels[place]: log_probs[place] for place in order}
            found.append(
                Chosen(
                    example.text, tuple(answer["labels"]), probabilities, None, example.second, of_each, asked.left_out
                )
            )
        return found

    def predict(self, examples: Sequence[Labelled]) -> tuple[Sequence[Found], float]:
        """An answer to each, as JSON, and the mean of -log p(right choice), p being among the choices."""
        for example in examples:
            if example.label not in self.answer.labels:
                known = ", ".join(self.choices.labels)
                raise UserError(
                    f"{example.id}: the label '{example.label}' is none of the choices ({known}); "
                    "name it among them, with its words after = where these are others"
                )
        scores = torch.tensor(self.scored(examples)[2])
        right = torch.tensor([self.answer.labels.id(example.label) for example in examples])
        loss = -scores.log_softmax(-1).gather(1, right[:, None]).mean()
        return self.answer.told(scores), float(loss)

    def scored(self, examples: Sequence[Labelled]) -> tuple[list[Asked], list[list[float]], list[list[float]]]:
        """Of each example how it was asked, its choices' log-probabilities, and their scores."""
        asked = [self.ask(example) for example in examples]
        plain = [self.ask(Labelled("", (), "", "the template without its text"))] if self.choices.calibrate else []
        *found, nothing = [*self.log_probs([*asked, *plain]), *([] if plain else [[0.0] * len(self.choices.labels)])]
        scores = []
        for each, log_probs in zip(asked, found, strict=True):
            sizes = {"none": [1] * len(log_probs), "characters": each.lengths, "tokens": num_scored(each)}[
                self.choices.normalise
            ]
            scores.append(
                [(log_prob - base) / size for log_prob, base, size in zip(log_probs, nothing, sizes, strict=True)]
            )
        return asked, found, scores

    def ask(self, example: Labelled) -> Asked:
        """The whole of every text is encoded, so that a choice has the tokens that it would have in a text that was
        read; the first of them may begin with the space before it."""
        tokenizer, limit = self.task.tokenizer, self.task.body.max_length
        frame = [] if tokenizer.frame is None else tokenizer.frame.before
        rows, starts, lengths = [], [], []
        for label, words in self.choices.words.items():
            before, behind = self.choices.filled(words, {"text": example.text, "second": example.second or ""})
            tokens, offsets = tokenizer.encode_with_offsets(before + behind)
            start = sum(1 for _ in takewhile(lambda span: span[1] <= len(before), offsets))  # noqa: B023
            if start == len(tokens):
                raise UserError(f"{example.id}: the choice '{label}' has no token")
            if start == 0 and not frame:
                tokens, start = [self.beginning(example), *tokens], 1
            rows.append(tokens)
            starts.append(start)
            lengths.append(len(behind))
        cut = 0 if limit is None else max(0, len(frame) + max(map(len, rows)) - 1 - limit)
        if cut and cut + (not frame) > min(starts):
            raise UserError(
                f"{example.id}: the model can tell apart {limit} positions, and the longest choice with what is behind"
                " it leaves no room for anything before it; shorten it"
            )
        rows, starts = [frame + row[cut:] for row in rows], [len(frame) + start - cut for start in starts]
        same = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*rows, strict=False)))
        shared = max(min(same, *starts) - 1, 0)
        return Asked(
            rows[0][:shared], [row[shared:] for row in rows], [start - shared for start in starts], lengths, cut
        )

    def beginning(self, example: Labelled) -> int:
        """What is read where nothing stands before a choice: the end of the document before."""
        if self.task.tokenizer.end is None:
            raise UserError(
                f"{example.id}: nothing stands before the choice, and so nothing can be read; put words there in the"
                " template"
            )
        return self.task.tokenizer.end

    def log_probs(self, asked: Sequence[Asked]) -> list[list[float]]:
        """log p of every choice of every text."""
        found: dict[int, list[float]] = {}
        sizes = [len(each.branches) * (len(each.shared) + max(map(len, each.branches))) for each in asked]
        with evaluating([self.task]):
            for rows in batches_by_length(np.array(sizes).reshape(-1, 1), BATCH_TOKENS):
                some = [asked[row] for row in rows]
                found |= dict(zip(rows, self.batch_log_probs(some), strict=True))
        return [found[row] for row in range(len(asked))]

    def batch_log_probs(self, asked: Sequence[Asked]) -> list[list[float]]:
        device = self.task.body.embedding.like.device
        state: State = None
        if any(each.shared for each in asked):
            tokens, mask = padded([each.shared for each in asked])
            for start in range(0, tokens.shape[1], CHUNK):
                piece = slice(start, start + CHUNK)
                _, state = self.task.body(
                    tokens[:, piece].to(device), None if mask is None else mask[:, piece].to(device), state
                )
            owners = [row for row, each in enumerate(asked) for _ in each.branches]
            state = select_rows(state, torch.tensor(owners, device=device))
        branches = [branch for each in asked for branch in each.branches]
        starts = torch.tensor([start for each in asked for start in each.starts])
        sums = self.branch_log_probs(branches, starts, state, device)
        sizes = [len(each.branches) for each in asked]
        return [part.tolist() for part in sums.split(sizes)]

    def branch_log_probs(
        self, branches: Sequence[list[int]], starts: Tensor, state: State, device: torch.device
    ) -> Tensor:
        """The sum of what each branch's tokens from its start on cost, (branches,)."""
        tokens, mask = padded([branch[:-1] for branch in branches])
        targets, _ = padded([branch[1:] for branch in branches])
        counted = torch.arange(tokens.shape[1]) >= starts[:, None] - 1
        counted = counted if mask is None else counted & mask
        sums = torch.zeros(len(branches), dtype=torch.float64)
        for start in range(0, tokens.shape[1], CHUNK):
            piece = slice(start, start + CHUNK)
            hidden, state = self.task.body(
                tokens[:, piece].to(device), None if mask is None else mask[:, piece].to(device), state
            )
            rows, columns = counted[:, piece].nonzero(as_tuple=True)
            for some in torch.arange(len(rows)).split(CHUNK):
                row, column = rows[some], columns[some]
                log_probs = self.task.logits(hidden[row.to(device), column.to(device)]).float().log_softmax(-1)
                of_targets = log_probs.gather(1, targets[:, piece][row, column].to(device)[:, None])[:, 0]
                sums.index_add_(0, row, of_targets.cpu().double())
        return sums


def num_scored(asked: Asked) -> list[int]:
    return [len(branch) - start for branch, start in zip(asked.branches, asked.starts, strict=True)]


def parse_choices(text: str) -> dict[str, str]:
    """`good,bad`, or with labels of their own `1=good,0=bad`; white space around each goes."""
    found: dict[str, str] = {}
    for part in text.split(","):
        label, equals, words = part.partition("=")
        label, words = label.strip(), words.strip() if equals else label.strip()
        if label in found:
            raise UserError(f"the choice '{label}' is given twice")
        found[label] = words
    return found


class ChoiceOptions(Options):
    choices: str | list[str] | dict[str, str] | None = Field(
        None,
        description="of a language model: the likeliest of these follows the text; LABEL=WORDS has a label of its own",
        json_schema_extra={"metavar": "A,B,..."},
    )
    template: str | None = Field(
        None,
        description="how text and choice stand together, '{text} {choice}' where not given; {second} is a second text",
    )
    normalise: Literal["none", "tokens", "characters"] | None = Field(
        None, description="divide a choice's log-probability by its length; none where not given"
    )
    calibrate: bool = Field(False, description="less the choice's log-probability in the template without the text")

    def read(self) -> Choices:
        given = {name: value for name in ("template", "normalise", "calibrate") if (value := getattr(self, name))}
        if self.choices is None:
            if given:
                raise UserError(f"{next(iter(given))} is for choices, which a language model chooses from; give these")
            raise UserError(
                "choices is what a language model chooses from, which was not trained to classify; give some, e.g."
                " good,bad"
            )
        return choices_of(parse_choices(self.choices) if isinstance(self.choices, str) else self.choices, **given)


def takes_choices(task: Any) -> bool:
    """Whether a task says how likely a text goes on with a choice."""
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
    if cut := sum(bool(each.answer and each.answer.left_out) for each in answered):
        limit = tasks[0].body.max_length
        yield (
            f"{cut:,} of the texts are longer than the {limit} tokens that the model reads; their ends alone were read"
        )


CHOOSE: Use[PairRow, Chosen] = Use(
    about="the likeliest of several choices after a text",
    row=PairRow,
    options=ChoiceOptions,
    answer=choose_rows,
    objects=classified_objects,
    formats=CLASSIFY.formats,
    row_for=choice_row_for,
    remarks=choice_remarks,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.tokenizer, texts_of(row)),
        confidence=confidence_of,
        labels=lambda task, answer: answer.labels,
    ),
)
