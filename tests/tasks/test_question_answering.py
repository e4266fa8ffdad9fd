import math
import random

import pytest
import torch

from clew.core.batches import rows_of
from clew.core.errors import UserError
from clew.data.examples import Answer, Question
from clew.decoding.answer_spans import Spans, best_spans
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.sources.words import WordReader
from clew.tasks.question_answering import QuestionAnswering, QuestionAnsweringConfig, train_question_vocabularies
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS, framed_as_bert

PASSAGE = (
    "In the  Äpfel-Haus at 5 Rue Noir, Ada (born 1815) wrote: “It's late!”\nThen she left for Rome, and Bo for Oslo."
)
WORDS = ["Äpfel", "1815", "Rome", "late", "Oslo"]


def example(answer: str = "", question: str = "Where did Ada go?", passage: str = PASSAGE) -> Question:
    answers = (Answer(answer, passage.index(answer)),) if answer else ()
    return Question(question, passage, answers, "q")


def tokenizer(kind: str) -> Tokenizer:
    vocabularies = train_question_vocabularies(
        lambda texts, specials: TOKENIZERS[kind](texts, specials=["<eos>"] if kind == "character" else []),
        False,
        [example(question=question) for question in ("Where did Ada go?", "Who left for Rome?")],
        QuestionAnsweringConfig(),
    )
    return framed_as_bert(vocabularies["tokenizer"]) if kind == "wordpiece" else vocabularies["tokenizer"]


def build(kind: str = "word", family: str = "recurrent", *, model: dict | None = None, **options) -> QuestionAnswering:
    word_tokenizer = tokenizer(kind)
    options = {"window": 24, "stride": 5, "longest_answer": 4, **options}
    torch.manual_seed(1)
    config = MODELS[family].config(**{"dim": 16, **(model or {})})
    body = MODELS[family].build(config, Tokens(word_tokenizer.vocabulary))
    result = QuestionAnswering(
        body, WordReader.of(body, {"tokenizer": word_tokenizer}), QuestionAnsweringConfig(**options)
    )
    return result.eval()


BIDIRECTIONAL = {"bidirectional": True}
BERT = {"num_heads": 2, "num_layers": 1, "max_length": 40}


@pytest.mark.parametrize(
    ("kind", "family", "model"),
    [
        ("word", "recurrent", BIDIRECTIONAL),
        ("wordpiece", "bert", BERT),
        ("bpe", "gpt", {**BERT, "max_length": 64}),
        ("unigram", "recurrent", BIDIRECTIONAL),
        ("character", "recurrent", {}),
    ],
)
@pytest.mark.parametrize("answer", WORDS)
def test_the_target_is_the_answer_in_the_untouched_passage(kind: str, family: str, model: dict, answer: str) -> None:
    task = build(kind, family, model=model, window=64)
    (encoded,) = task.encode([example(answer)])
    num_answers = 0
    for window in encoded.windows:
        assert len(window.words.tokens) <= 64
        nowhere = task.nowhere(window.words)
        if window.target != (nowhere, nowhere):
            first, last = (window.offsets[place - window.place] for place in window.target)
            assert answer in PASSAGE[first[0] : last[1]] and len(PASSAGE[first[0] : last[1]]) <= len(answer) + 5
            num_answers += 1
    assert num_answers > 0


def test_windows_overlap_by_the_stride_and_hold_every_token() -> None:
    task = build(model=BIDIRECTIONAL)
    (encoded,) = task.encode([example("Oslo")])
    begins = [window.begin for window in encoded.windows]
    capacity = len(encoded.windows[0].offsets)
    assert begins == [*range(0, len(begins) * 5, 5)] and capacity == 24 - 1 - len(["Where", "did", "Ada", "go", "?"])
    starts = {int(start) for window in encoded.windows for start, _ in window.offsets}
    assert {PASSAGE.index(word) for word in WORDS} <= starts
    targets = [window.target for window in encoded.windows]
    assert targets[0] == (0, 0) and targets[-1] != (0, 0)  # Oslo is only in the last window
    batch = task.collate([encoded])
    assert task.counts(batch)["loss"] == len(begins) == task(batch)[0]["loss"].count


def test_the_best_span_over_windows_equals_enumeration() -> None:
    """Against all spans of at most four words within a window, enumerated."""
    task = build(model=BIDIRECTIONAL)
    task.threshold.fill_(0.3)
    (encoded,) = task.encode([example("Rome")])
    batch = task.collate([encoded])
    with torch.no_grad():
        logits = task.logits(batch)
        prediction = task.best_spans(batch, 5)[0]
    scores: dict[tuple[int, int], float] = {}
    no_answer = math.inf
    for row, window in enumerate(encoded.windows):
        for first in range(len(window.offsets)):
            for last in range(first, min(first + 4, len(window.offsets))):
                span = int(window.offsets[first, 0]), int(window.offsets[last, 1])
                score = float(logits[row, 0, window.place + first] + logits[row, 1, window.place + last])
                scores[span] = max(scores.get(span, -math.inf), score)
        no_answer = min(no_answer, float(logits[row, :, 0].sum()))
    total = sum(map(math.exp, scores.values())) + math.exp(no_answer - 0.3)
    best = sorted(scores, key=lambda span: -scores[span])[:5]
    assert [tuple(span[:2]) for span in prediction["spans"]] == best
    assert [span[2] for span in prediction["spans"]] == pytest.approx(
        [math.exp(scores[span]) / total for span in best], rel=1e-4
    )
    assert prediction["none"] == pytest.approx(math.exp(no_answer - 0.3) / total, rel=1e-4)


def test_a_question_has_the_same_answer_in_any_batch() -> None:
    task = build("wordpiece", "bert", model=BERT)
    questions = [example(), example(question="Who?", passage="Bo left."), example(question="Who left for Rome?")]
    together = task.answer(questions, n_best=3)
    for question, together_answer in zip(questions, together, strict=True):
        (alone,) = task.answer([question], n_best=3)
        assert [(span.start, span.stop) for span in alone.n_best] == [
            (span.start, span.stop) for span in together_answer.n_best
        ]
        assert alone.probability == pytest.approx(together_answer.probability, rel=1e-4)
        assert together_answer.text == question.passage[together_answer.answer.start : together_answer.answer.stop]


def test_losses_of_windows_add_up_over_any_micro_batches() -> None:
    task = build(model=BIDIRECTIONAL)
    batch = task.collate(task.encode([example("Rome"), example(), example("Ada", passage="Ada sat.")]))
    task.requires_grad_(False)
    parts = [task(rows_of(batch, part))[0]["loss"] for part in (slice(0, 2), slice(2, 5), slice(5, None))]
    whole = task(batch)[0]["loss"]
    assert sum(float(part.sum) for part in parts) == pytest.approx(float(whole.sum), rel=1e-5)
    assert sum(int(part.count) for part in parts) == int(whole.count)


def test_no_answer_is_decided_by_a_threshold_fitted_to_validation() -> None:
    task = build(model=BIDIRECTIONAL)
    questions = [example("Rome"), example()]
    encoded = task.encode(questions)
    task.prepare(encoded[:1])
    assert math.isinf(task.threshold) and not task.settle([(questions, task.collate(encoded))])
    assert task.answer(questions)[1].answer is not None and task.answer(questions)[1].no_answer is None
    task.prepare(encoded)
    assert task.threshold == 0
    task.spans = lambda batch: [spans(best=2.0, none=1.0), spans(best=2.0, none=4.0)]  # type: ignore[method-assign]
    assert task.settle([(questions, task.collate(encoded))])
    assert -1 < float(task.threshold) < 2
    predictions = task.predict(task.collate(encoded))
    assert [prediction["none"] > prediction["spans"][0][2] for prediction in predictions] == [False, True]
    measured = task.measure(questions, predictions)
    assert measured.values == {"exact_match": 100, "f1": 100, "f1_answerable": 100, "f1_unanswerable": 100}
    assert task.described(questions[0], predictions[0])["prediction"] == "Rome"


def spans(best: float, none: float) -> Spans:
    """Spans over two words of the passage: 'Rome' scores `best`, and 'Rome, and' and 'and' score less."""
    start = PASSAGE.index("Rome")
    scores = torch.tensor([[best, best - 2], [best - 3, -math.inf]])
    return Spans(scores, torch.tensor([[start, start + 4], [start + 6, start + 9]]), none)


def test_without_spans_there_is_no_answer() -> None:
    nothing = Spans(torch.full((0, 1), -math.inf), torch.zeros(0, 2, dtype=torch.long), 1.0)
    assert best_spans(nothing, 3, 0.0) == {"spans": [], "none": 1.0}
    assert best_spans(nothing, 3, math.inf) == {"spans": [], "none": None}


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"task.window \(2\) leaves no room for a passage; raise it, or model.max_length"
    ):
        build(window=2)
    with pytest.raises(
        UserError,
        match=r"q: the question.s 5 tokens leave no room for the passage in task.window \(6\)"
        "; lower task.longest_question, or raise task.window",
    ):
        build(window=6).encode([example()])


@pytest.mark.slow
@pytest.mark.parametrize(("family", "steps"), [("mixed", 80), ("recurrent", 220)])
def test_the_digit_after_a_letter_is_learnt(family: str, steps: int) -> None:
    """For `a 7 c 2 d 4 .` and the question `c` the answer is 2. A missing letter has no answer."""
    draw = random.Random(1)
    letters, digits = "abcd", "0123"

    def drawn(number: int) -> Question:
        chosen = draw.sample(letters, k=2)
        passage = "".join(f"{letter} {draw.choice(digits)} . " for letter in chosen).rstrip()
        letter_asked = draw.choice(letters)
        answers = (Answer(passage[(at := passage.index(letter_asked) + 2)], at),) if letter_asked in chosen else ()
        return Question(letter_asked, passage, answers, f"{number}")

    train, valid = [[drawn(number) for number in range(size)] for size in (256, 64)]
    word_tokenizer = TOKENIZERS["word"]([each.passage for each in train])
    torch.manual_seed(1)
    if family == "mixed":
        layers = [{"name": "convolution", "causal": False}, {"name": "attention", "causal": False}, "feedforward"]
        config = MODELS[family].config(dim=32, layers=layers)
    else:
        config = MODELS[family].config(dim=48, embedding_dim=32)
    body = MODELS[family].build(config, Tokens(word_tokenizer.vocabulary))
    task = QuestionAnswering(
        body, WordReader.of(body, {"tokenizer": word_tokenizer}), QuestionAnsweringConfig(window=16)
    )
    encoded = task.encode(train)
    task.prepare(encoded)
    batch = task.collate(encoded)
    optimiser = torch.optim.Adam(task.parameters(), 1e-2)
    for _ in range(steps):
        loss = task(batch)[0]["loss"]
        optimiser.zero_grad()
        (loss.sum / loss.count).backward()
        optimiser.step()
    held_out = task.collate(task.encode(valid))
    assert task.settle([(valid, held_out)])
    values = task.measure(valid, task.predict(held_out)).values
    assert values["exact_match"] > 90, values
