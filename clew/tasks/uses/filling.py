"""Fill the masks of a text with a masked language model, and score whether one text follows another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from pydantic import Field

from clew.core.batches import padded, to_device
from clew.core.errors import UserError
from clew.core.reprs import brief
from clew.data.plans import batches_by_length
from clew.layers.embeddings import Segmented
from clew.sources.words import is_segmented
from clew.tasks.use import Blocks, Objects, Options, PairRow, Use, Watch
from clew.text.frames import Framed
from clew.text.tokenizer import MARK, Tokenizer, check_is_text

if TYPE_CHECKING:
    from clew.tasks.masked_language_model import MaskedLanguageModel

BATCH_TOKENS = 2**14


class Guess(NamedTuple):
    """A token for a mask, its probability, and the text with the token in place of the mask."""

    token: str
    id: int
    probability: float
    text: str


@dataclass(frozen=True)
class Filled:
    """A text, or a pair of texts read together, with the guesses for each mask, best first. `str()` is the text with
    the best guesses.

    `follows` is the probability that the second text comes after the first.
    """

    text: str
    masks: list[list[Guess]]
    second: str | None = None
    follows: float | None = None

    def __repr__(self) -> str:
        return brief(
            self, str(self), probability=self.masks[0][0].probability if self.masks else None, follows=self.follows
        )

    def __str__(self) -> str:
        number = len(MARK.findall(self.text))
        return filled(self.text, [guesses[0].token for guesses in self.masks[:number]])


def fill(
    task: "MaskedLanguageModel",
    texts: Sequence[str | tuple[str, str]],
    top: int = 5,
    numbers: Sequence[int] | None = None,
) -> list[Filled]:
    """Return the `top` guesses for every mask of each text, each mask independently. An error names the text by its
    number, if `numbers` are given."""
    if top < 1:
        raise UserError(f"top ({top}) must be at least 1")
    names = [f"text {number}" for number in numbers or range(1, len(texts) + 1)]
    pairs: list[tuple[str, str | None]] = [(text, None) if isinstance(text, str) else text for text in texts]
    framed = [framed_text(task, *pair, name) for pair, name in zip(pairs, names, strict=True)]
    answers: dict[int, Filled] = {}
    was_training = task.training
    task.eval()
    try:
        lengths = np.array([[len(each.tokens)] for each in framed])
        for rows in batches_by_length(lengths, BATCH_TOKENS) if len(framed) else []:
            filled_batch = fill_batch(task, [framed[row] for row in rows], [pairs[row] for row in rows], top)
            answers.update(zip(rows, filled_batch, strict=True))
    finally:
        task.train(was_training)
    return [answers[row] for row in range(len(texts))]


@torch.no_grad()
def fill_batch(
    task: "MaskedLanguageModel", framed: Sequence[Framed], texts: Sequence[tuple[str, str | None]], top: int
) -> list[Filled]:
    tokenizer, device = task.tokenizer, task.output_bias.device
    tokens, mask = padded([pair.tokens for pair in framed])
    inputs: Any = (
        Segmented(tokens, padded([pair.segments for pair in framed])[0]) if is_segmented(task.body) else tokens
    )
    hidden, _ = task.body(*to_device((inputs, mask), device))
    tokens = tokens.to(device)
    rows, places = tokens.eq(tokenizer.mask or 0).nonzero(as_tuple=True)
    best = (
        task.logits(hidden[rows, places])
        .float()
        .softmax(-1)[:, : tokenizer.vocabulary]
        .topk(min(top, tokenizer.vocabulary))
    )
    guesses = [
        list(zip(*token_probabilities, strict=True))
        for token_probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]
    follow_probs = None if task.next_sentence is None else task.followed(hidden).float().softmax(-1)[:, 0].tolist()
    answers = []
    for row, (text, second) in enumerate(texts):
        row_guesses = [guess for guess, at in zip(guesses, rows.tolist(), strict=True) if at == row]
        number = len(MARK.findall(text))
        sides = [(text, at) for at in range(number)] + [(second or "", at) for at in range(len(row_guesses) - number)]
        masks = [
            [as_guess(tokenizer, *side, *pair) for pair in guess]
            for side, guess in zip(sides, row_guesses, strict=True)
        ]
        answers.append(
            Filled(text, masks, second, None if second is None or follow_probs is None else follow_probs[row])
        )
    return answers


def as_guess(tokenizer: Tokenizer, text: str, number: int, id: int, probability: float) -> Guess:
    token = tokenizer.token(id)
    if tokenizer.kind != "wordpiece":
        token = tokenizer.decode([id]).strip() or token
    marks = [mark[0] for mark in MARK.finditer(text)]
    marks[number] = token
    return Guess(token, id, probability, filled(text, marks))


def filled(text: str, tokens: Sequence[str]) -> str:
    """Return a text with tokens in place of its masks; a token that continues a word is joined to it."""
    first, *rest = MARK.split(text)
    for token, part in zip(tokens, rest, strict=True):
        first = (first.rstrip() + token.removeprefix("##") if token.startswith("##") else first + token) + part
    return first


def framed_text(task: "MaskedLanguageModel", text: str, second: str | None, name: str) -> Framed:
    """Encode a text, or a pair, as the model reads it; raise an error if there is nothing to guess or too much to
    read."""
    tokenizer, limit = task.tokenizer, task.body.max_length
    for side in (text, second or ""):
        check_is_text(side, name)
    if second is None and not MARK.search(text):
        raise UserError(f"{name} has no [MASK]; write [MASK] in place of each word to guess")
    if second is not None and (tokenizer.frame is None or task.next_sentence is None):
        raise UserError(
            f"{name} is a pair, and this model was not trained to predict whether one text follows another; give one"
            " text"
        )
    sides = [tokenizer.encode_masked(side) for side in (text, second) if side is not None]
    framed = Framed(sides[0], [0] * len(sides[0]), [0]) if tokenizer.frame is None else tokenizer.frame.around(*sides)
    if limit is not None and len(framed.tokens) > limit:
        raise UserError(
            f"{name} has {len(framed.tokens)} tokens, special tokens included, but the model has only {limit}"
            " positions; shorten it"
        )
    return framed


class FillOptions(Options):
    top: int = Field(5, ge=1, le=1000, description="number of guesses for each mask")


def fill_rows(
    tasks: Sequence["MaskedLanguageModel"], rows: Sequence[PairRow], options: FillOptions, numbers: Sequence[int]
) -> list[Filled]:
    return fill(
        tasks[0], [row.text if row.second is None else (row.text, row.second) for row in rows], options.top, numbers
    )


def filled_objects(number: int, row: PairRow, answer: Filled | None, options: FillOptions) -> Objects:
    if answer is None:
        return [{"line": number, "text": "", "masks": []}]
    fields: dict[str, Any] = {"line": number, "text": answer.text}
    if answer.second is not None:
        fields |= {"second": answer.second, "follows": answer.follows}
    masks = [
        [{"token": guess.token, "probability": guess.probability, "text": guess.text} for guess in guesses]
        for guesses in answer.masks
    ]
    return [{**fields, "masks": masks, "filled": str(answer)}]


def as_guesses(blocks: Blocks, options: FillOptions, alone: bool) -> Iterator[str]:
    """Write one line per guess; with several texts, an empty line after each."""
    for block in blocks:
        for _, _, filled in block:
            lines = (
                []
                if filled is None or filled.follows is None
                else [f"{filled.follows:.4f}\t[follows]\t{on_one_line(filled.second)}"]
            )
            guesses = [guess for guesses in filled.masks for guess in guesses] if filled is not None else []
            lines += [f"{guess.probability:.4f}\t{guess.token}\t{on_one_line(guess.text)}" for guess in guesses]
            yield "".join(f"{line}\n" for line in (lines if alone else [*lines, ""]))


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def masked_tokens(task: "MaskedLanguageModel", row: PairRow) -> tuple[list[int], int | None]:
    sides = [text for text in (row.text, row.second) if text is not None]
    return [token for side in sides for token in task.tokenizer.encode_masked(side)], task.tokenizer.unknown


FILL: Use[PairRow, Filled] = Use(
    about="guess the words in place of [MASK]",
    row=PairRow,
    options=FillOptions,
    answer=fill_rows,
    objects=filled_objects,
    formats={"lines": as_guesses},
    try_it=lambda fields: (["This is the [MASK]."], None),
    watch=Watch(
        tokens=masked_tokens,
        confidence=lambda filled: fmean(guesses[0].probability for guesses in filled.masks) if filled.masks else None,
    ),
    help="""Write [MASK] in place of each word to guess. Every guess is a line of standard output,
`probability<TAB>token<TAB>text`, best first, where the text has the guess in place of its mask. Several masks of a
text are guessed independently. Without TEXT, every line of --file or of standard input is a text, and an empty line
follows the guesses of each.

  clew fill runs/shakespeare-bert 'To be or not to [MASK]' --top 3
  clew fill runs/shakespeare-bert 'The [MASK] of my [MASK] is gone.' --json
  clew fill runs/shakespeare-bert 'What is your name?' --second 'My name is [MASK].'
  clew fill runs/shakespeare-bert --file gaps.txt
  clew fill runs/shakespeare-bert --file pairs.csv --text first --second then

With --second, or if a line has two texts separated by a tab, the first line is
`probability<TAB>[follows]<TAB>second text`: the probability that the second text comes after the first. The run must
have been trained with next-sentence prediction, and no mask is needed. For a table (.csv, .tsv, .jsonl), --text and
--second name the columns.""",
)
