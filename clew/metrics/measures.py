"""Measures of written targets. Members of MEASURES compare the written with the wanted texts; they know no model."""

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


def no_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    return [{} for _ in written]


class Measure(NamedTuple):
    """`corpus(written, wanted, lowercase)` scores all sentences together. `sentence` scores one, higher being better.
    `statistics` are per sentence; tests resample them to compute `corpus` on other samples."""

    corpus: Callable[[Texts, Texts, bool], Measured]
    sentence: Callable[[str, str, bool], float]
    statistics: Callable[[Texts, Texts, bool], list[Statistics]] = no_statistics


def measure_bleu(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    score = bleu(written, wanted, lowercase=lowercase)
    return Measured({"bleu": score.score}, score.describe())


def measure_chrf(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    score = chrf(written, wanted, lowercase=lowercase)
    return Measured({"chrf": score.score}, score.describe())


def measure_ter(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    score = ter(written, wanted, lowercase=lowercase)
    return Measured({"ter": score.score}, score.describe())


def measure_wer(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    errors = sum(word_errors(cased(written, lowercase), cased(wanted, lowercase)), Errors())
    return Measured({"wer": 100 * errors.rate}, f"WER {100 * errors.rate:.2f} ({errors.describe('word')})")


def measure_cer(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    errors = sum(character_errors(cased(written, lowercase), cased(wanted, lowercase)), Errors())
    return Measured({"cer": 100 * errors.rate}, f"CER {100 * errors.rate:.2f} ({errors.describe('character')})")


def measure_rouge(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    score = rouge(written, wanted)
    parts = {"rouge_1": score.one, "rouge_2": score.two, "rouge_l": score.longest, "rouge_lsum": score.summary}
    return Measured({name: 100 * part.f1 for name, part in parts.items()}, score.describe())


def measure_exact_match(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    share = 100 * exact_match(cased(written, lowercase), cased(wanted, lowercase)).value
    return Measured({"exact_match": share}, f"{share:.2f} % right")


def measure_edit_distance(written: Texts, wanted: Texts, lowercase: bool) -> Measured:
    written, wanted = cased(written, lowercase), cased(wanted, lowercase)
    words, characters = 100 * word_error_rate(written, wanted).value, 100 * character_error_rate(written, wanted).value
    return Measured(
        {"word_error_rate": words, "character_error_rate": characters},
        f"edits {words:.2f} % of words, {characters:.2f} % of characters",
    )


def bleu_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    return [{"bleu": {"bleu": counts}} for counts in Bleu(lowercase=lowercase).of_sentences(written, wanted)]


def chrf_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    return [{"chrf": {"chrf": counts}} for counts in Chrf(lowercase=lowercase).of_sentences(written, wanted)]


def ter_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    return [{"ter": {"ter": counts}} for counts in Ter(lowercase=lowercase).of_sentences(written, wanted)]


def wer_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    return [
        {"wer": {"error_rate": errors.row}}
        for errors in word_errors(cased(written, lowercase), cased(wanted, lowercase))
    ]


def cer_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    return [
        {"cer": {"error_rate": errors.row}}
        for errors in character_errors(cased(written, lowercase), cased(wanted, lowercase))
    ]


def rouge_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    scores = [score_rouge(text, [target]) for text, target in zip(written, wanted, strict=True)]
    parts = [
        {"rouge_1": score.one, "rouge_2": score.two, "rouge_l": score.longest, "rouge_lsum": score.summary}
        for score in scores
    ]
    return [{name: share_of(part.f1, 1) for name, part in score.items()} for score in parts]


def exact_match_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    pairs = zip(cased(written, lowercase), cased(wanted, lowercase), strict=True)
    return [{"exact_match": share_of(float(text == target), 1)} for text, target in pairs]


def edit_statistics(written: Texts, wanted: Texts, lowercase: bool) -> list[Statistics]:
    pairs = zip(cased(written, lowercase), cased(wanted, lowercase), strict=True)
    return [
        {
            "word_error_rate": share_of(*astuple(word_error_rate([text], [target]))),
            "character_error_rate": share_of(*astuple(character_error_rate([text], [target]))),
        }
        for text, target in pairs
    ]


def cased(texts: Texts, lowercase: bool) -> list[str]:
    return [text.lower() if lowercase else text for text in texts]


MEASURES: dict[str, Measure] = {
    "bleu": Measure(
        measure_bleu,
        lambda written, wanted, lowercase: sentence_bleu(written, wanted, lowercase=lowercase),
        bleu_statistics,
    ),
    "chrf": Measure(
        measure_chrf,
        lambda written, wanted, lowercase: sentence_chrf(written, wanted, lowercase=lowercase),
        chrf_statistics,
    ),
    "ter": Measure(
        measure_ter,
        lambda written, wanted, lowercase: -sentence_ter(written, wanted, lowercase=lowercase),
        ter_statistics,
    ),
    "rouge": Measure(
        measure_rouge,
        lambda written, wanted, lowercase: 100 * score_rouge(written, [wanted]).longest.f1,
        rouge_statistics,
    ),
    "exact_match": Measure(
        measure_exact_match,
        lambda written, wanted, lowercase: 100.0 * (cased([written], lowercase) == cased([wanted], lowercase)),
        exact_match_statistics,
    ),
    "edit_distance": Measure(
        measure_edit_distance,
        lambda written, wanted, lowercase: (
            -float(edit_distance(*(text.split() for text in cased([written, wanted], lowercase))))
        ),
        edit_statistics,
    ),
    "wer": Measure(
        measure_wer,
        lambda written, wanted, lowercase: -measure_wer([written], [wanted], lowercase).values["wer"],
        wer_statistics,
    ),
    "cer": Measure(
        measure_cer,
        lambda written, wanted, lowercase: -measure_cer([written], [wanted], lowercase).values["cer"],
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
