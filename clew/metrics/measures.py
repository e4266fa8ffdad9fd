"""Measures of generated texts. Members of MEASURES compare hypotheses with their references; they know no model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import NamedTuple

from clew.metrics.error_rates import Errors, character_errors, word_errors
from clew.metrics.rouge import rouge, score_rouge
from clew.metrics.statistics import Statistics, share_of
from clew.metrics.strings import character_error_rate, edit_distance, exact_match, word_error_rate
from clew.metrics.translation import Bleu, Chrf, Ter, bleu, chrf, sentence_bleu, sentence_chrf, sentence_ter, ter

Texts = Sequence[str]


class Measured(NamedTuple):
    """Values by name, with shares and scores between 0 and 100, and a sentence that lists them."""

    values: dict[str, float]
    text: str


def in_words(values: Mapping[str, float]) -> str:
    """All values with their names, in one line."""
    return ", ".join(f"{measure_name(name)} {value:.2f}" for name, value in values.items())


def measure_name(measure: str) -> str:
    """A measure's name as written in sentences."""
    return NAMES.get(measure, measure.replace("_", " "))


NAMES = {
    "bleu": "BLEU",
    **{f"bleu_{orders}": f"BLEU-{orders}" for orders in (1, 2, 3, 4)},
    "cer": "CER",
    "chrf": "chrF",
    "cider": "CIDEr-D",
    "f1": "F1",
    "f1_answerable": "F1 where there is an answer",
    "f1_unanswerable": "F1 where there is none",
    "iou": "IoU",
    "macro_f1": "macro F1",
    "matthews": "Matthews",
    "micro_f1": "micro F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "ter": "TER",
    "wer": "WER",
}


def no_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    return [{} for _ in hypotheses]


class Measure(NamedTuple):
    """`corpus(hypotheses, references, lowercase)` scores all sentences together; `sentence` scores one, and a higher
    score is better. Significance tests resample the `statistics` of sentences to compute `corpus` on samples."""

    corpus: Callable[[Texts, Texts, bool], Measured]
    sentence: Callable[[str, str, bool], float]
    statistics: Callable[[Texts, Texts, bool], list[Statistics]] = no_statistics


def measure_bleu(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    score = bleu(hypotheses, references, lowercase=lowercase)
    return Measured({"bleu": score.score}, score.describe())


def measure_chrf(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    score = chrf(hypotheses, references, lowercase=lowercase)
    return Measured({"chrf": score.score}, score.describe())


def measure_ter(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    score = ter(hypotheses, references, lowercase=lowercase)
    return Measured({"ter": score.score}, score.describe())


def measure_wer(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    errors = sum(word_errors(cased(hypotheses, lowercase), cased(references, lowercase)), Errors())
    return Measured({"wer": 100 * errors.rate}, f"WER {100 * errors.rate:.2f} ({errors.describe('word')})")


def measure_cer(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    errors = sum(character_errors(cased(hypotheses, lowercase), cased(references, lowercase)), Errors())
    return Measured({"cer": 100 * errors.rate}, f"CER {100 * errors.rate:.2f} ({errors.describe('character')})")


def measure_rouge(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    score = rouge(hypotheses, references)
    parts = {"rouge_1": score.one, "rouge_2": score.two, "rouge_l": score.longest, "rouge_lsum": score.summary}
    return Measured({name: 100 * part.f1 for name, part in parts.items()}, score.describe())


def measure_exact_match(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    share = 100 * exact_match(cased(hypotheses, lowercase), cased(references, lowercase)).value
    return Measured({"exact_match": share}, f"{share:.2f} % right")


def measure_edit_distance(hypotheses: Texts, references: Texts, lowercase: bool) -> Measured:
    hypotheses, references = cased(hypotheses, lowercase), cased(references, lowercase)
    words = 100 * word_error_rate(hypotheses, references).value
    characters = 100 * character_error_rate(hypotheses, references).value
    return Measured(
        {"word_error_rate": words, "character_error_rate": characters},
        f"edits {words:.2f} % of words, {characters:.2f} % of characters",
    )


def bleu_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    return [{"bleu": {"bleu": counts}} for counts in Bleu(lowercase=lowercase).of_sentences(hypotheses, references)]


def chrf_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    return [{"chrf": {"chrf": counts}} for counts in Chrf(lowercase=lowercase).of_sentences(hypotheses, references)]


def ter_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    return [{"ter": {"ter": counts}} for counts in Ter(lowercase=lowercase).of_sentences(hypotheses, references)]


def wer_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    return [
        {"wer": {"error_rate": errors.row}}
        for errors in word_errors(cased(hypotheses, lowercase), cased(references, lowercase))
    ]


def cer_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    return [
        {"cer": {"error_rate": errors.row}}
        for errors in character_errors(cased(hypotheses, lowercase), cased(references, lowercase))
    ]


def rouge_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    scores = [
        score_rouge(hypothesis, [reference]) for hypothesis, reference in zip(hypotheses, references, strict=True)
    ]
    parts = [
        {"rouge_1": score.one, "rouge_2": score.two, "rouge_l": score.longest, "rouge_lsum": score.summary}
        for score in scores
    ]
    return [{name: share_of(part.f1, 1) for name, part in score.items()} for score in parts]


def exact_match_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    pairs = zip(cased(hypotheses, lowercase), cased(references, lowercase), strict=True)
    return [{"exact_match": share_of(float(hypothesis == reference), 1)} for hypothesis, reference in pairs]


def edit_statistics(hypotheses: Texts, references: Texts, lowercase: bool) -> list[Statistics]:
    pairs = zip(cased(hypotheses, lowercase), cased(references, lowercase), strict=True)
    return [
        {
            "word_error_rate": share_of(*astuple(word_error_rate([hypothesis], [reference]))),
            "character_error_rate": share_of(*astuple(character_error_rate([hypothesis], [reference]))),
        }
        for hypothesis, reference in pairs
    ]


def cased(texts: Texts, lowercase: bool) -> list[str]:
    return [text.lower() if lowercase else text for text in texts]


MEASURES: dict[str, Measure] = {
    "bleu": Measure(
        measure_bleu,
        lambda hypothesis, reference, lowercase: sentence_bleu(hypothesis, reference, lowercase=lowercase),
        bleu_statistics,
    ),
    "chrf": Measure(
        measure_chrf,
        lambda hypothesis, reference, lowercase: sentence_chrf(hypothesis, reference, lowercase=lowercase),
        chrf_statistics,
    ),
    "ter": Measure(
        measure_ter,
        lambda hypothesis, reference, lowercase: -sentence_ter(hypothesis, reference, lowercase=lowercase),
        ter_statistics,
    ),
    "rouge": Measure(
        measure_rouge,
        lambda hypothesis, reference, lowercase: 100 * score_rouge(hypothesis, [reference]).longest.f1,
        rouge_statistics,
    ),
    "exact_match": Measure(
        measure_exact_match,
        lambda hypothesis, reference, lowercase: (
            100.0 * (cased([hypothesis], lowercase) == cased([reference], lowercase))
        ),
        exact_match_statistics,
    ),
    "edit_distance": Measure(
        measure_edit_distance,
        lambda hypothesis, reference, lowercase: (
            -float(edit_distance(*(text.split() for text in cased([hypothesis, reference], lowercase))))
        ),
        edit_statistics,
    ),
    "wer": Measure(
        measure_wer,
        lambda hypothesis, reference, lowercase: -measure_wer([hypothesis], [reference], lowercase).values["wer"],
        wer_statistics,
    ),
    "cer": Measure(
        measure_cer,
        lambda hypothesis, reference, lowercase: -measure_cer([hypothesis], [reference], lowercase).values["cer"],
        cer_statistics,
    ),
}

VALUES = {
    "rouge": ["rouge_1", "rouge_2", "rouge_l", "rouge_lsum"],
    "edit_distance": [],
    "ter": [],
    "wer": [],
    "cer": [],
}
"""The names of a measure's values for which higher is better, if they differ from the measure's own name."""

LOWEST = frozenset({"loss", "perplexity", "edit_distance", "ter", "wer", "cer"})
"""Values for which lower is better."""
