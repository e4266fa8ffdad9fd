"""Baselines of masked language models: the most frequent tokens and the more frequent answer about pairs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from clew.baselines.baseline import Baseline, Train
from clew.metrics.measures import Measured
from clew.metrics.perplexity import Likelihood


@dataclass(frozen=True)
class KnownDocuments:
    """Documents in the form of these baselines: the counts of their tokens; and the masked tokens, with, for pairs of
    texts, which second texts are random."""

    counts: Callable[[], np.ndarray]
    answers: Callable[[], tuple[np.ndarray, np.ndarray | None]]


def guess_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """Token frequencies in the training part, plus one for every token; for pairs, the more frequent answer."""
    known: KnownDocuments = train()
    counts = known.counts() + 1

    def measure(part: KnownDocuments) -> Measured:
        targets, random = part.answers()
        likelihood = Likelihood(-float(np.log(counts[targets] / counts.sum()).sum()), len(targets))
        accuracy = 100 * float((targets == counts.argmax()).mean())
        values = {"baseline_frequencies": likelihood.perplexity, "baseline_most_frequent_token": accuracy}
        text = f"perplexity {likelihood.perplexity:.2f} and accuracy {accuracy:.2f}"
        if random is not None:
            share = float(random.mean())
            values["baseline_next_sentence"] = 100 * max(share, 1 - share)
            text += f", of the next sentence {values['baseline_next_sentence']:.2f}"
        return Measured(values, text)

    yield Baseline("the most frequent answers have", measure)
