"""Baselines for questions on passages."""

from collections.abc import Iterator, Sequence

from clew.baselines.baseline import Baseline, Train
from clew.baselines.word_overlap import fit_word_overlap
from clew.data.examples import Question
from clew.metrics.answers import score_answers
from clew.metrics.measures import Measured

MOST_CHARACTERS = 20_000_000
"""The most characters of passages in which words are counted."""


def question_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """The sentence that shares the most words with the question."""
    examples: Sequence[Question] = train()
    passages = list(dict.fromkeys(example.passage for example in examples))
    if sum(map(len, passages)) > MOST_CHARACTERS:
        return
    overlap = fit_word_overlap(passages)

    def measure(part: Sequence[Question]) -> Measured:
        answers = [example.passage[slice(*overlap.answer(example.question, example.passage))] for example in part]
        scores = score_answers(answers, [example.texts for example in part])
        exact, f1 = 100 * scores.mean("exact"), 100 * scores.mean("f1")
        return Measured(
            {"baseline_word_overlap": f1, "baseline_word_overlap_exact_match": exact},
            f"exact match {exact:.2f}, F1 {f1:.2f}",
        )

    yield Baseline("the sentence that shares most words has", measure)
