"""Diversity of generated samples. A sample is a sequence of hashable items: words, or ids."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain

from clew.core.errors import UserError

Sample = Sequence[Hashable]


def distinct(samples: Sequence[Sample], n: int) -> float:
    """distinct-n (Li et al. 2016): the number of different n-grams in all samples together, divided by the number of
    n-grams."""
    grams = list(chain.from_iterable(n_grams(sample, n) for sample in samples))
    check_any(len(grams), n)
    return len(set(grams)) / len(grams)


def repetition(samples: Sequence[Sample], n: int) -> float:
    """rep-n (Welleck et al. 2020): the share of n-grams that occur earlier in the same sample, over all samples."""
    totals = [max(len(sample) - n + 1, 0) for sample in samples]
    different = [len(set(n_grams(sample, n))) for sample in samples]
    check_any(sum(totals), n)
    return 1 - sum(different) / sum(totals)


def n_grams(sample: Sample, n: int) -> Iterator[tuple[Hashable, ...]]:
    if n < 1:
        raise UserError(f"n ({n}) must be at least 1")
    return (tuple(sample[i : i + n]) for i in range(len(sample) - n + 1))


def check_any(count: int, n: int) -> None:
    if count == 0:
        raise UserError(
            f"no sample has {n} tokens, so there are no {n}-grams to count; give longer samples or a smaller n"
        )
