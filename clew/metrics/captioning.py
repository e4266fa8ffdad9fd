"""Agreement of captions with references: BLEU, ROUGE-L and CIDEr-D, as in the COCO evaluation (Chen et al. 2015), and
chrF. For paragraphs also repetition, and which of the things in a picture they mention.


    BLEU-n   = 100 * brevity penalty * (p1 .. pn)^(1/n)             over the corpus, without smoothing
    ROUGE-L  = 100 * 2.44 P R / (R + 1.44 P)                        P, R: of the longest common subsequence, maximum
                                                                    over references
    CIDEr-D  = 1000 * mean over n = 1 .. 4 and references of
               exp(-(l - l')^2 / 72) * sum_g min(h_g, r_g) r_g / (|h| |r|)

    h_g, r_g: how often a caption and a reference contain the n-gram g, times log(pictures / pictures whose references
              contain g)
    l, l':    their numbers of bigrams

An example is a caption and its references. Each measure has statistics per example, from which the score of any set of
examples is computed (`clew.metrics.statistics`); those of CIDEr-D are each caption's value. The document frequencies
come from the references of the whole part, so all systems share them. They belong to the metric and do not change when
a test resamples examples.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from clew.core.errors import UserError, unknown
from clew.metrics.diversity import n_grams
from clew.metrics.measures import Measured, in_words
from clew.metrics.rouge import common_places
from clew.metrics.statistics import Statistics, score, share_of
from clew.metrics.translation import Bleu, Chrf

Words = Sequence[str]
Weights = dict[tuple[str, ...], float]

BETA = 1.2
"""The weight of recall relative to precision in ROUGE-L."""
SIGMA = 6.0
"""The standard deviation of the length penalty in CIDEr-D."""
ORDERS = (1, 2, 3, 4)

TOKEN = re.compile(
    r"n't(?!\w)|'(?:s|re|ve|ll|d|m)(?!\w)"  # split from the word before
    r"|can(?=not(?!\w))|(?:[a-z]\.){2,}|(?<!\w)(?:mr|mrs|ms|dr|st)\."  # u.s.
    r"|[^\W_]+?(?=n't(?!\w)|'(?:s|re|ve|ll|d|m)(?!\w))"  # the word before these
    r"|[^\W_]+(?:['.,:/@-][^\W_]+)*"  # t-shirt, 3.5, 10:30, o'clock
    r"|[&$%#@+=*/<>()°]"
)
BRACKETS = {"(": "-lrb-", ")": "-rrb-"}


class Captions(NamedTuple):
    """Metric values with their description, and each example's statistics."""

    measured: Measured
    statistics: list[Statistics]


def measure_captions(
    written: Sequence[str],
    references: Sequence[Sequence[str]],
    measures: Sequence[str] = ("bleu", "rouge_l", "cider"),
    *,
    tokenized: bool = False,
) -> Captions:
    """Compute some of CAPTION_MEASURES; `references[i]` belong to `written[i]`. `tokenized` texts are split at spaces;
    others are split by `caption_words`, similar to COCO's tokenizer."""
    for name in measures:
        if name not in CAPTION_MEASURES:
            raise unknown("measure of captions", name, CAPTION_MEASURES)
    split = str.split if tokenized else caption_words
    tokenized_references = [[split(text) for text in several] for several in checked(written, references)]
    captions = [split(text) for text in written]
    statistics: list[Statistics] = [{} for _ in captions]
    for name in measures:
        for example, measure_statistics in zip(
            statistics, CAPTION_MEASURES[name](captions, tokenized_references), strict=True
        ):
            example.update(measure_statistics)
    values = corpus_values(statistics)
    return Captions(Measured(values, in_words(values)), statistics)


def corpus_values(statistics: Sequence[Statistics]) -> dict[str, float]:
    """The value of every measure over all of these examples."""
    formulas = {name: next(iter(rows)) for name, rows in statistics[0].items()}
    return {
        name: score(formula, [example[name][formula] for example in statistics]) for name, formula in formulas.items()
    }


def checked(written: Sequence[str], references: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    if len(written) != len(references):
        raise UserError(f"there must be as many captions ({len(written)}) as lists of references ({len(references)})")
    if not written:
        raise UserError("no caption was written, so there is no score; give at least one and its references")
    for number, several in enumerate(references):
        if isinstance(several, str):
            raise UserError(
                f"the references of caption {number} are one string; give a list of references for each caption"
            )
        if not several:
            raise UserError(f"caption {number} has no reference; every caption needs at least one")
    return references


def caption_words(text: str) -> list[str]:
    """Split a caption into lower-case words without punctuation, nearly as the Penn Treebank tokenizer of COCO's
    evaluation does: `n't` and `'s` are separate words, brackets are -lrb- and -rrb-."""
    return [BRACKETS.get(word, word) for word in TOKEN.findall(text.lower().replace("’", "'"))]


def bleu_statistics(written: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[Statistics]:
    texts = [" ".join(words) for words in written]
    counts = Bleu(tokenizer="none").of_sentences(
        texts, [[" ".join(words) for words in several] for several in references]
    )
    return [{f"bleu_{order}": {f"bleu_{order}": row} for order in ORDERS} for row in counts]


def chrf_statistics(written: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[Statistics]:
    """chrF (Popovic 2015) of the words joined by spaces, against the reference with the highest score."""
    counts = Chrf().of_sentences(
        [" ".join(words) for words in written], [[" ".join(words) for words in several] for several in references]
    )
    return [{"chrf": {"chrf": row}} for row in counts]


def rouge_statistics(written: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[Statistics]:
    return [
        {"rouge_l": share_of(rouge_l(words, several), 1)} for words, several in zip(written, references, strict=True)
    ]


def rouge_l(words: Words, references: Sequence[Words]) -> float:
    """(1 + beta^2) P R / (R + beta^2 P), between 0 and 1; P and R may be from different references."""
    shared = [len(common_places(reference, words)) for reference in references]
    precision = max(shared) / len(words) if words else 0.0
    recall = max(
        common / len(reference) if reference else 0.0 for common, reference in zip(shared, references, strict=True)
    )
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if precision and recall else 0.0


def cider_statistics(written: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[Statistics]:
    return [{"cider": {"mean": [100 * value, 1]}} for value in ciders(written, references)]


def ciders(written: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """CIDEr-D of each caption (Vedantam et al. 2015), between 0 and 10, with the document frequencies of these
    references."""
    frequencies = document_frequencies(references)
    return [
        cider(words, several, frequencies, len(references)) for words, several in zip(written, references, strict=True)
    ]


def document_frequencies(references: Sequence[Sequence[Words]]) -> Counter[tuple[str, ...]]:
    """For each n-gram, the number of pictures with a reference that contains it."""
    frequencies: Counter[tuple[str, ...]] = Counter()
    for several in references:
        frequencies.update({gram for words in several for order in ORDERS for gram in grams_of(words, order)})
    return frequencies


def cider(words: Words, references: Sequence[Words], frequencies: Counter[tuple[str, ...]], num_pictures: int) -> float:
    total = 0.0
    for order in ORDERS:
        caption_weights = weights_of(words, order, frequencies, num_pictures)
        for reference in references:
            reference_weights = weights_of(reference, order, frequencies, num_pictures)
            difference = max(len(words) - 1, 0) - max(len(reference) - 1, 0)
            total += math.exp(-(difference**2) / (2 * SIGMA**2)) * clipped_cosine(caption_weights, reference_weights)
    return 10 * total / (len(ORDERS) * len(references))


def weights_of(words: Words, order: int, frequencies: Counter[tuple[str, ...]], num_pictures: int) -> Weights:
    counts = Counter(grams_of(words, order))
    return {gram: count * math.log(num_pictures / max(1, frequencies[gram])) for gram, count in counts.items()}


def clipped_cosine(caption: Weights, reference: Weights) -> float:
    """The cosine of two weight vectors, with the caption's weights clipped to the reference's."""
    shared = sum(
        min(weight, reference[gram]) * reference[gram] for gram, weight in caption.items() if gram in reference
    )
    norms = [math.sqrt(sum(weight**2 for weight in weights.values())) for weights in (caption, reference)]
    return shared / (norms[0] * norms[1]) if norms[0] and norms[1] else 0.0


def repetition_statistics(written: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[Statistics]:
    """The share of a text's trigrams that occur earlier in it."""
    trigrams = [list(grams_of(words, 3)) for words in written]
    return [{"repeated_trigrams": share_of(len(grams) - len(set(grams)), len(grams))} for grams in trigrams]


def mention_statistics(counts: Sequence[int], num_invented: int = 0) -> Statistics:
    """The statistics of one text, from how often it mentions each thing in its picture, and how often it mentions
    things that are not there. `coverage` is the share of things that it mentions, `mentioned_once` the share that it
    mentions exactly once, and `invented` the share of its mentions that are of nothing in the picture."""
    return {
        "coverage": share_of(sum(count > 0 for count in counts), len(counts)),
        "mentioned_once": share_of(sum(count == 1 for count in counts), len(counts)),
        "invented": share_of(num_invented, num_invented + sum(counts)),
    }


def paragraph_statistics(counts: Sequence[int], num_invented: int, is_true: bool) -> Statistics:
    """Also whether a paragraph mentions every thing exactly once and nothing else (`all_once`), and whether it is
    true."""
    once = num_invented == 0 and all(count == 1 for count in counts)
    return {
        "all_once": share_of(float(once), 1),
        **mention_statistics(counts, num_invented),
        "true": share_of(float(is_true), 1),
    }


def grams_of(words: Words, order: int) -> list[tuple[str, ...]]:
    return [tuple(map(str, gram)) for gram in n_grams(words, order)]


CAPTION_MEASURES: dict[str, Callable[[Sequence[Words], Sequence[Sequence[Words]]], list[Statistics]]] = {
    "bleu": bleu_statistics,
    "chrf": chrf_statistics,
    "rouge_l": rouge_statistics,
    "cider": cider_statistics,
    "repeated_trigrams": repetition_statistics,
}
"""`measure(written, references)`, of texts in words, returns each example's statistics."""
