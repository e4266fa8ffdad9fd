"""Extractive question answering: the span of a passage that answers a question (Devlin et al. 2019, section 4.2). Any
body.

Question and passage are read together. A passage that is too long for one window is read in several overlapping ones,
each with the question; the best span over all windows is the answer. Such an example is several rows of a batch, each
with its own loss.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.question_baselines import question_baselines
from clew.core.batches import num_rows, rows_of, to_device
from clew.core.config import Section, TaskSection
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.core.types import State, Term
from clew.core.wording import argument_name
from clew.data.examples import Question
from clew.data.formats import find_format
from clew.data.kinds.questions import QUESTIONS
from clew.data.readers import read_questions
from clew.decoding.answer_spans import Spans, best_spans
from clew.layers.context import Pieces
from clew.metrics.answers import AnswerScores, best_threshold, score_answers
from clew.metrics.bootstrap import Interval, bootstrap_interval
from clew.metrics.measures import Measured, in_words
from clew.metrics.statistics import Statistics, share_of
from clew.sources.windows import CutText, cut_text, encode_pieces, window_starts
from clew.sources.words import EncodedWords, WordReader, is_spelled, one_word_each, places_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.shared.reading import ReadsText
from clew.tasks.use import Blocks, Objects, Options, Use, Watch, tokens_read
from clew.tasks.uses.programs import ReadingProgram, Traced
from clew.text.tokenizer import Tokenizer, check_is_text
from clew.text.train import Texts
from clew.text.words import words_of

ROWS = 64
"""Windows per batch when answering questions."""
SAMPLES = 2000
"""Resamples of a bootstrap's interval."""
ALL = 2**62
"""More tokens than any example has: with windows, a passage may have any length."""
SURE = 1e9
"""The margin of no answer if there is no span to choose."""
NOT = -1e30
SCORES_USAGE = """\
print(run("reader", tensors)["scores"][0])  # of every position as the first and the last of the answer
"""
ANSWER_USAGE = """
tokenizer = read_tokenizer("tokenizer")
question, passage = (tokenizer.encode(text, add_special_tokens=False) for text in ("QUESTION", "TEXT"))
around = about["pair"]
parts = [(around["before"], 0), (question.ids, 0), (around["between"], 0), (passage.ids, 1), (around["after"], 1)]
tensors = {
    "tokens": np.array([[id for ids, _ in parts for id in ids]]),
    "segments": np.array([[around["segments"][side] for ids, side in parts for _ in ids]]),
}
tensors["mask"] = np.ones_like(tensors["tokens"], dtype=bool)
first = sum(len(ids) for ids, _ in parts[:3])
starts, ends = run("reader", tensors)["scores"][0][:, first : first + len(passage.ids)]
best = max((starts[i] + ends[j], i, j) for i in range(len(starts)) for j in range(i, len(ends)))
print("TEXT"[passage.offsets[best[1]][0] : passage.offsets[best[2]][1]])
"""
"""The example code of a program in its card."""


class QuestionAnsweringConfig(TaskSection):
    """The span of a passage that answers a question."""

    name: Literal["question_answering"] = "question_answering"
    window: int = Field(384, ge=1, description="the most tokens read at once, including those of the question")
    stride: int = Field(
        128,
        ge=1,
        description="passage tokens from the start of one window to that of the next; at most half a window",
    )
    longest_question: int = Field(64, ge=1, description="the most tokens of a question; the rest is cut off")
    longest_answer: int = Field(30, ge=1, description="the most tokens of an answer")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input, besides the body's own dropout")
    best: Literal["f1", "exact_match", "loss"] = Field("f1", description="the metric that selects the best checkpoint")


class Window(NamedTuple):
    """A question and a part of its passage as one row: where the part begins in the row (`place`) and in the passage
    (`begin`), the characters of its tokens (tokens, 2), and the positions of the answer's first and last token."""

    words: EncodedWords
    place: int
    begin: int
    offsets: np.ndarray
    target: tuple[int, int]


class EncodedQuestion(NamedTuple):
    windows: tuple[Window, ...]
    has_answer: bool


class QuestionBatch(NamedTuple):
    """Rows are windows; `question` numbers the question of each."""

    pieces: Pieces
    inside: Tensor  # (windows, length), where an answer may begin and end
    offsets: Tensor  # (windows, length, 2), characters of the passage
    nowhere: Tensor  # (windows,), the position that stands for no answer
    targets: Tensor  # (windows, 2)
    spans: Tensor  # (windows, 3): position in the row, position in the passage, number of tokens
    question: Tensor  # (windows,)
    fresh: bool = True

    @property
    def num_tokens(self) -> int:
        return self.pieces.num_tokens


@dataclass(frozen=True)
class AnswerSpan:
    """The characters [start, stop) of a passage, and the probability that they are the answer."""

    text: str
    start: int
    stop: int
    probability: float


@dataclass(frozen=True)
class AnsweredQuestion:
    """The answer to a question, None if the passage has none, and the most probable spans, best first. `no_answer` is
    the probability that there is none; None if the task always answers."""

    id: str
    question: str
    answer: AnswerSpan | None
    n_best: tuple[AnswerSpan, ...]
    no_answer: float | None

    @property
    def text(self) -> str:
        return "" if self.answer is None else self.answer.text

    @property
    def probability(self) -> float:
        return self.answer.probability if self.answer is not None else self.no_answer or 0.0

    def __repr__(self) -> str:
        return brief(self, self.text, probability=self.probability)

    def __str__(self) -> str:
        return self.text


class QuestionAnswering(ReadsText, ExampleTask):
    """A start score s and an end score e for every position i of the passage, and for the null position 0.

        s_i = u . h_i             e_i = v . h_i
        p(start = i) = softmax(s)_i
        p(end = j) = softmax(e)_j
        answer = argmax_{i <= j} s_i + e_j

    The null position means that this window has no answer: it is the first of the row, or the last if the body only
    reads forward. The task gives no answer if the null score, the lowest of all windows, exceeds that of the best span
    by more than `threshold`. The threshold is infinite if every training question had an answer, else the best one on
    the validation part.
    """

    threshold: Tensor
    one_row_each = False  # an example has one row per window

    def __init__(self, body: Any, reader: WordReader, config: QuestionAnsweringConfig | None = None):
        super().__init__()
        self.config = config = config or QuestionAnsweringConfig()
        self.body = body
        self.reader = reader
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(body.dim, 2)
        self.register_buffer("threshold", torch.tensor(math.inf))
        frame = reader.tokenizer.frame
        self.ends = body.causal and (frame is None or isinstance(frame.pair[-1].what, str))
        """Whether a token is added after the passage, to stand for no answer."""
        self.window = min(config.window, body.max_length or config.window)
        self.num_added = (1 if frame is None else frame.num_added(pair=True)) + self.ends
        if self.window <= self.num_added + min(config.longest_question, 1):
            raise UserError(f"task.window ({self.window}) leaves no room for a passage; raise it, or model.max_length")

    def forward(self, batch: QuestionBatch, state: State = None) -> tuple[dict[str, Term], State]:
        logits = self.logits(batch).flatten(0, 1)  # (windows * 2, length)
        loss = F.cross_entropy(logits, batch.targets.flatten(), reduction="sum") / 2
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def counts(self, batch: QuestionBatch) -> dict[str, Tensor]:
        """Return the number of windows."""
        return {"loss": torch.full((), len(batch.targets), device=batch.targets.device)}

    def logits(self, batch: QuestionBatch) -> Tensor:
        """Return the scores of every position as the first and the last of the answer (windows, 2, length)."""
        hidden, _ = self.body(batch.pieces.inputs, batch.pieces.mask)
        allowed = batch.inside.scatter(1, batch.nowhere[:, None], True)
        logits: Tensor = self.output(self.dropout(hidden)).float().mT.masked_fill(~allowed[:, None], NOT)
        return logits

    def prepare(self, encoded: Sequence[EncodedQuestion]) -> None:
        self.threshold.fill_(math.inf if all(each.has_answer for each in encoded) else 0.0)

    def settle(self, batches: Iterable[tuple[Sequence[Question], QuestionBatch]]) -> bool:
        """Set the threshold that is best on the validation part, if some training questions have no answer."""
        if math.isinf(float(self.threshold)):
            return False
        margins, texts, golds = [], [], []
        with evaluating([self]):
            for examples, batch in batches:
                for example, spans in zip(examples, self.spans(batch), strict=True):
                    best = best_spans(spans, 1, math.inf)["spans"]
                    margins.append(spans.none - float(spans.scores.max()) if best else SURE)
                    texts.append(example.passage[best[0][0] : best[0][1]] if best else "")
                    golds.append(example.texts)
        scores = score_answers(texts, golds)
        self.threshold.fill_(best_threshold(margins, scores.f1, scores.answerable))
        return True

    def encode(self, examples: Sequence[Question]) -> list[EncodedQuestion]:
        cuts: dict[str, CutText] = {}
        encoded = []
        for example in examples:
            if example.passage not in cuts:
                cuts[example.passage] = cut_text(self.reader, example.passage)
            encoded.append(EncodedQuestion(tuple(self.windows(example, cuts[example.passage])), bool(example.answers)))
        return encoded

    def windows(self, example: Question, cut: CutText) -> Iterable[Window]:
        question = encode_pieces(self.reader, cut_text(self.reader, example.question), 0, self.config.longest_question)
        capacity = self.window - self.num_added - len(question.tokens)
        if capacity < 1:
            raise UserError(
                f"{example.id}: the question's {len(question.tokens)} tokens leave no room for the passage in"
                f" task.window ({self.window}); lower task.longest_question, or raise task.window"
            )
        answer = pieces_of(example, cut)
        # Half a window at most, so that an answer cut by one window is whole in another.
        stride = min(self.config.stride, max(capacity // 2, 1))
        for begin in window_starts(len(cut), capacity, stride):
            offsets = cut.offsets[begin : begin + capacity]
            words, place = self.joined(question, self.part(cut, begin, begin + capacity))
            target = (self.nowhere(words),) * 2
            if answer is not None and begin <= answer[0] and answer[1] < begin + len(offsets):
                target = (answer[0] - begin + place, answer[1] - begin + place)
            yield Window(words, place, begin, offsets, target)

    def part(self, cut: CutText, start: int, stop: int) -> EncodedWords:
        """Return some tokens of a passage, followed by the token that stands for no answer if there is one."""
        if not self.ends:
            return encode_pieces(self.reader, cut, start, stop)
        end = self.reader.tokenizer.end or 0
        if cut.words is not None:
            return self.reader.encode([[*cut.words[start:stop], self.reader.tokenizer.token(end)]], framed=False)[0]
        return EncodedWords([*cut.tokens[start:stop], end], [], [])

    def joined(self, question: EncodedWords, part: EncodedWords) -> tuple[EncodedWords, int]:
        """Return both as one row, and where the part of the passage begins in it."""
        frame = self.reader.tokenizer.frame
        place = len(question.tokens) + 1 if frame is None else frame.around(question.tokens, part.tokens).starts[1]
        return self.reader.joined(question, part), place

    def nowhere(self, words: EncodedWords) -> int:
        return len(words.tokens) - 1 if self.body.causal else 0

    def lengths(self, encoded: EncodedQuestion) -> tuple[int]:
        return (sum(places_of(window.words) for window in encoded.windows),)

    @property
    def longest(self) -> int:
        return ALL

    def check_length(self, encoded: EncodedQuestion, place: str) -> None:
        """Do nothing: windows never exceed the maximum length."""

    def collate(self, examples: Sequence[EncodedQuestion]) -> QuestionBatch:
        windows = [window for example in examples for window in example.windows]
        pieces = self.reader.collate([window.words for window in windows])
        length = max(len(window.words.tokens) for window in windows)
        offsets = np.zeros((len(windows), length, 2), dtype=np.int64)
        for row, window in zip(offsets, windows, strict=True):
            row[window.place : window.place + len(window.offsets)] = window.offsets
        placed = torch.from_numpy(offsets)
        return QuestionBatch(
            pieces,
            placed[..., 1] > placed[..., 0],
            placed,
            torch.tensor([self.nowhere(window.words) for window in windows]),
            torch.tensor([window.target for window in windows]),
            torch.tensor([(window.place, window.begin, len(window.offsets)) for window in windows]),
            torch.tensor([number for number, example in enumerate(examples) for _ in example.windows]),
        )

    @torch.no_grad()
    def predict(
        self, batch: QuestionBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None
    ) -> list[dict[str, Any]]:
        """Return the most probable spans of each question, [start, stop, probability], and the probability of no answer
        if the task may give none."""
        # Training cuts a batch between any two rows; a batch to predict is whole, with all windows of each question.
        return self.best_spans(batch, 1 if decoding is None else decoding.n_best)

    def best_spans(self, batch: QuestionBatch, n_best: int, threshold: float | None = None) -> list[dict[str, Any]]:
        limit = float(self.threshold) if threshold is None else threshold
        return [best_spans(spans, n_best, limit) for spans in self.spans(batch)]

    def spans(self, batch: QuestionBatch) -> list[Spans]:
        """Return the scores of all spans of each question; the best score of a span that several windows have."""
        rows = range(0, num_rows(batch), ROWS)
        logits = torch.cat([self.logits(rows_of(batch, slice(start, start + ROWS))) for start in rows]).cpu()
        inside, offsets, nowhere, question = (
            batch.inside.cpu(),
            batch.offsets.cpu(),
            batch.nowhere.cpu(),
            batch.question.tolist(),
        )
        firsts = [number for number in range(len(question)) if not number or question[number] != question[number - 1]]
        places: list[list[int]] = batch.spans.tolist()
        all_spans = []
        for start, stop in zip(firsts, [*firsts[1:], len(question)], strict=True):
            total = max(begin + length for _, begin, length in places[start:stop])
            longest = max(min(self.config.longest_answer, total), 1)
            scores = torch.full((total, longest), -math.inf)
            characters = torch.zeros(total, 2, dtype=torch.long)
            none = math.inf
            for row in range(start, stop):
                place, begin, length = places[row]
                window = slice(place, place + length)
                first, last = logits[row, :, window].masked_fill(~inside[row, window], -math.inf)
                ends = F.pad(last, (0, longest - 1), value=-math.inf).unfold(0, longest, 1)  # (tokens, longest)
                scores[begin : begin + length] = torch.maximum(scores[begin : begin + length], first[:, None] + ends)
                characters[begin : begin + length] = offsets[row, window]
                none = min(none, float(logits[row, :, nowhere[row]].sum()))
            all_spans.append(Spans(scores, characters, none))
        return all_spans

    def answer(
        self, questions: Sequence[Question], n_best: int = 1, threshold: float | None = None
    ) -> list[AnsweredQuestion]:
        """Answer each question. `threshold` overrides the task's own."""
        for example in questions:
            check_is_text(f"{example.question} {example.passage}", f"question or passage of {example.id}")
        encoded = self.encode(questions)
        answers: list[AnsweredQuestion] = []
        rows: list[int] = []
        with evaluating([self]):
            for row in range(len(encoded)):
                rows.append(row)
                if row + 1 < len(encoded) and sum(len(encoded[number].windows) for number in rows) < ROWS:
                    continue
                batch = to_device(self.collate([encoded[number] for number in rows]), self.output.weight.device)
                answers += [
                    answered(questions[number], prediction)
                    for number, prediction in zip(rows, self.best_spans(batch, n_best, threshold), strict=True)
                ]
                rows = []
        return answers

    @property
    def best(self) -> str:
        return self.config.best

    def scores(self, examples: Sequence[Question], predictions: Sequence[Any]) -> AnswerScores:
        texts = [answered(example, prediction).text for example, prediction in zip(examples, predictions, strict=True)]
        return score_answers(texts, [example.texts for example in examples])

    def measure(self, examples: Sequence[Question], predictions: Sequence[Any]) -> Measured:
        scores = self.scores(examples, predictions)
        values = {"exact_match": 100 * scores.mean("exact"), "f1": 100 * scores.mean("f1")}
        if len(set(scores.answerable)) == 2:
            values |= {
                f"f1_{which}": 100 * scores.mean("f1", answerable=which == "answerable")
                for which in ("answerable", "unanswerable")
            }
        return Measured(values, in_words(values))

    def intervals(self, examples: Sequence[Question], predictions: Sequence[Any]) -> dict[str, Interval]:
        scores = self.scores(examples, predictions)
        named = {"exact_match": scores.exact, "f1": scores.f1}
        return {name: bootstrap_interval(values, samples=SAMPLES).times(100) for name, values in named.items()}

    def sentence_scores(self, examples: Sequence[Question], predictions: Sequence[Any]) -> list[float]:
        """Return the F1 of each answer."""
        return [100 * score for score in self.scores(examples, predictions).f1]

    def statistics(self, examples: Sequence[Question], predictions: Sequence[Any]) -> list[Statistics]:
        scores = self.scores(examples, predictions)
        return [
            {
                "exact_match": share_of(exact, 1),
                "f1": share_of(f1, 1),
                "f1_answerable": share_of(f1 * has, float(has)),
                "f1_unanswerable": share_of(f1 * (not has), float(not has)),
            }
            for exact, f1, has in zip(scores.exact, scores.f1, scores.answerable, strict=True)
        ]

    def row_losses(self, batch: QuestionBatch) -> list[list[float]]:
        """Return the loss of each question, summed over its windows, and the number of windows."""
        losses = (
            F.cross_entropy(self.logits(batch).flatten(0, 1), batch.targets.flatten(), reduction="none")
            .view(-1, 2)
            .sum(1)
            / 2
        )
        sums = torch.zeros(int(batch.question.max()) + 1, 2, dtype=torch.float64)
        sums.index_add_(0, batch.question.cpu(), torch.stack([losses, torch.ones_like(losses)], 1).double().cpu())
        rows: list[list[float]] = sums.tolist()
        return rows

    def described(self, example: Question, prediction: Any) -> dict[str, Any]:
        answer = answered(example, prediction)
        span = {} if answer.answer is None else {"start": answer.answer.start, "stop": answer.answer.stop}
        return {
            "source": example.question,
            "target": " | ".join(example.texts),
            "prediction": answer.text,
            **span,
            "probability": round(answer.probability, 6),
        }

    def programs(self) -> list[ReadingProgram]:
        plain = not is_spelled(self.body) and self.reader.context is None
        usage = ANSWER_USAGE if plain else SCORES_USAGE
        return [
            ReadingProgram(
                "reader", ["scores"], self.score_places, usage=usage, alone=plain, facts={"pair": self.around_pair()}
            )
        ]

    def score_places(self, inputs: Traced) -> tuple[Tensor]:
        """Return the scores of every position as the first and the last of the answer (batch, 2, length)."""
        hidden, _ = self.body(inputs.texts[0].inputs, inputs.texts[0].mask)
        return (self.output(hidden).float().mT,)

    def around_pair(self) -> dict[str, list[int]]:
        """Return the ids before, between and after question and passage, and the segments of the two."""
        tokenizer = self.reader.tokenizer
        end = [tokenizer.end or 0]
        if tokenizer.frame is None:
            return {"before": [], "between": end, "after": end if self.ends else [], "segments": [0, 0]}
        tokens, _, (first, second) = tokenizer.frame.around([], [])
        _, segments, places = tokenizer.frame.around([0], [0])
        parts = {
            "before": tokens[:first],
            "between": tokens[first:second],
            "after": tokens[second:] + (end if self.ends else []),
        }
        return {**parts, "segments": [segments[place] for place in places]}


def pieces_of(example: Question, cut: CutText) -> tuple[int, int] | None:
    """Return the first and the last token that overlap the first answer."""
    if not example.answers:
        return None
    answer = example.answers[0]
    starts, stops = cut.offsets.T
    inside = np.flatnonzero((stops > answer.start) & (starts < answer.start + len(answer.text)) & (stops > starts))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


def train_question_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Question], config: QuestionAnsweringConfig
) -> dict[str, Any]:
    """Train a tokenizer on all passages, each once, and questions. A word tokenizer sees words split from
    punctuation."""
    texts = Texts(
        lambda: chain(once_each(example.passage for example in examples), (example.question for example in examples))
    )
    tokenizer = train(texts, [])
    if tokenizer.unit == "word":
        tokenizer = train(Texts(lambda: (one_word_each(words_of(text)) for text in texts)), [])
    return {"tokenizer": tokenizer}


def once_each(texts: Iterable[str]) -> Iterator[str]:
    """Iterate over the distinct texts. Only their hashes are kept in memory."""
    seen = set()
    for text in texts:
        hashed = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if hashed not in seen:
            seen.add(hashed)
            yield text


def build_question_answering(
    body: Any, vocabularies: dict[str, Any], config: QuestionAnsweringConfig
) -> QuestionAnswering:
    return QuestionAnswering(body, WordReader.of(body, vocabularies), config)


def answered(example: Question, prediction: Any) -> AnsweredQuestion:
    """Return a prediction with the texts of its spans."""
    spans = tuple(
        AnswerSpan(example.passage[start:stop], start, stop, share) for start, stop, share in prediction["spans"]
    )
    none = prediction["none"]
    has_answer = bool(spans) and (none is None or spans[0].probability >= none)
    return AnsweredQuestion(example.id, example.question, spans[0] if has_answer else None, spans, none)


class QuestionRow(Section):
    question: str = Field(description="a question", json_schema_extra={"metavar": "QUESTION"})
    passage: str = Field(
        description="the passage with the answers: a file, or the text itself; in a table, its column",
        json_schema_extra={"metavar": "FILE|TEXT|COLUMN", "file": True},
    )
    id: str = Field("", description="its name in the output", json_schema_extra={"column": False})


class AnswerOptions(Options):
    n_best: int = Field(1, ge=1, description="the number of spans for each question")
    threshold: float | None = Field(
        None,
        description="give no answer if the score of no answer exceeds that of the best span by more than this; by"
        " default the run's own threshold",
    )


def answer_rows(
    tasks: Sequence[QuestionAnswering], rows: Sequence[QuestionRow], options: AnswerOptions, numbers: Sequence[int]
) -> list[AnsweredQuestion]:
    questions = []
    for row, number in zip(rows, numbers, strict=True):
        if not row.passage.strip():
            raise UserError("the passage is empty; give a text that may contain the answer")
        if not row.question.strip():
            raise UserError(f"question {number} is empty; ask something")
        questions.append(Question(row.question, row.passage, (), row.id or f"question {number}"))
    return tasks[0].answer(questions, options.n_best, options.threshold)


def answered_objects(number: int, row: QuestionRow, answer: AnsweredQuestion | None, options: AnswerOptions) -> Objects:
    assert answer is not None
    span: dict[str, Any] = {"answer": None, "start": None, "stop": None, "probability": answer.probability}
    if answer.answer is not None:
        span = {
            "answer": answer.text,
            "start": answer.answer.start,
            "stop": answer.answer.stop,
            "probability": answer.probability,
        }
    no_answer = {} if answer.no_answer is None else {"no_answer": answer.no_answer}
    n_best = {"n_best": [asdict(each) for each in answer.n_best]} if options.n_best > 1 else {}
    return [{"id": answer.id, "question": answer.question, **span, **no_answer, **n_best}]


def answer_lines(blocks: Blocks, options: AnswerOptions, alone: bool) -> Iterator[str]:
    """Write one line per question, or with `n_best` one per span, among them one for no answer if that is more
    probable than the last span."""
    for block in blocks:
        for _, _, answer in block:
            rows = [(answer.text, answer.probability)]
            if options.n_best > 1:
                rows = [(span.text, span.probability) for span in answer.n_best]
                if answer.no_answer is not None:
                    rows = sorted([*rows, ("", answer.no_answer)], key=lambda row: -row[1])[: options.n_best]
            yield "".join(
                f"{' '.join(text.split())}\t{share:.4f}\t{' '.join(answer.question.split())}\n" for text, share in rows
            )


def official_form(blocks: Blocks, options: AnswerOptions, alone: bool) -> Iterator[str]:
    """Write one object for all questions, {id: answer}: the input of SQuAD's own evaluation script."""
    answers = {answered.answer.id: answered.answer.text for block in blocks for answered in block}
    yield json.dumps(answers, ensure_ascii=False) + "\n"


def check_official(task: QuestionAnswering, format: str, options: AnswerOptions) -> None:
    if format == "official" and options.n_best > 1:
        raise UserError(
            f"the official format has exactly one answer for each question; leave {argument_name('n_best')} out"
        )


def question_rows(path: Path, data: Any, columns: Mapping[str, str]) -> Iterator[QuestionRow] | None:
    """Read the questions of a file that also has the passages: SQuAD's JSON, or a table."""
    if columns and find_format(path) == "squad":
        raise UserError(
            f"{argument_name(next(iter(columns)))} names a column of a table, and {path} is JSON in SQuAD's format;"
            " leave it out"
        )
    questions = read_questions(
        path, with_answers=False, **{"question": data.question, "passage": data.passage, **columns}
    )
    return (QuestionRow(question=each.question, passage=each.passage, id=each.id) for each in questions)


ANSWER: Use[QuestionRow, AnsweredQuestion] = Use(
    about="answer questions from a passage",
    row=QuestionRow,
    options=AnswerOptions,
    answer=answer_rows,
    objects=answered_objects,
    formats={"lines": answer_lines, "official": official_form},
    read_file=question_rows,
    check=check_official,
    answers_blank=True,
    skips_blank=True,
    try_it=lambda fields: (["--passage", "passage.txt", fields.get("source", "who?")], None),
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.reader.tokenizer, [row.question, row.passage], by_words=True),
        confidence=lambda answered: answered.probability,
        row_of=lambda example: QuestionRow(question=example.question, passage=example.passage),
    ),
    help="""Questions are arguments, or lines of standard input; --passage is a file or the text itself. Each question
gives one line of standard output: `answer<TAB>probability<TAB>question`. The answer is empty if the passage has none.
A file of questions is SQuAD's JSON, or a table (.csv, .tsv, .jsonl) with the columns `question` and `passage` (or
`context`), or with those that --question and --passage name.

  clew answer runs/answer-facts --passage 'Ada lives in Rome. Bo likes tea.' 'Where does Ada live?'
  clew answer runs/answer --passage report.txt 'When was it built?' 'By whom?' --n-best 3
  clew answer runs/answer --file dev-v2.0.json --json
  clew answer runs/answer --file asked.csv --question what --passage text
  clew answer runs/answer --file dev-v1.1.json --official --out predictions.json

--json prints one object per question, with the characters [start, stop) of the answer in the passage, from 0.
--n-best N prints up to N spans, best first, one per line. --official writes {id: answer}, the input of SQuAD's own
evaluation script.""",
)


QUESTION_ANSWERING = TaskEntry(
    config=QuestionAnsweringConfig,
    build=build_question_answering,
    vocabularies={"tokenizer": Tokenizer},
    learning=Examples(QUESTIONS, train_question_vocabularies),
    baselines=question_baselines,
    uses={"answer": ANSWER},
    pipeline="question-answering",
)
