"""Baselines of masked language models: the most frequent answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from clew.baselines.beside import Baseline, Train
from clew.metrics.measures import Measured
from clew.metrics.perplexity import Likelihood


@dataclass(frozen=True)
class KnownDocuments:
    """Documents as these baselines read them: how often each token stands in them; the tokens that are to be guessed, and which second
    texts are random, where texts are paired."""

    counts: Callable[[], np.ndarray]
    answers: Callable[[], tuple[np.ndarray, np.ndarray | None]]


def guess_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """How often each token stands in the training part, one more for all; of pairs the more frequent answer."""
    known: KnownDocuments = train()
    counts = known.counts() + 1

    def measure(part: KnownDocuments) -> Measured:
        targets, random = part.answers()
        found = Likelihood(-float(np.log(counts[targets] / counts.sum()).sum()), len(targets))
        accuracy = 100 * float((targets == counts.argmax()).mean())
        values = {"baseline_frequencies": found.perplexity, "baseline_most_frequent_token": accuracy}
        text = f"perplexity {found.perplexity:.2f} and accuracy {accuracy:.2f}"
        if random is not None:
            share = float(random.mean())
            values["baseline_next_sentence"] = 100 * max(share, 1 - share)
            text += f", of the next sentence {values['baseline_next_sentence']:.2f}"
        return Measured(values, text)

    yield Baseline("the most frequent answers have", measure)
