"""The units of logged and evaluated measures, by the last part of a measure's name."""

from collections.abc import Iterable

SHARES = ("accuracy", "precision", "recall", "f1", "exact_match", "complete_match", "error_rate", "calibration_error")
"""Name endings of measures between 0 and 100."""
SQUARED = "error"
"""A run with this measure, a root mean squared error, minimises a squared error, so its loss is not in nats."""
UNITS = {
    "loss": "nats",
    "bits_per_character": "bits",
    "tokens_per_second": "tokens/s",
    "words_per_second": "words/s",
    "peak_memory": "bytes",
    "seconds": "s",
}


def unit_of(measure: str, measures: Iterable[str] = ()) -> str:
    """`valid.loss` -> nats. `measures` are all measures of the run. Empty for a measure without a unit, such as
    perplexity."""
    name = measure.rpartition(".")[2]
    if name in UNITS:
        is_squared = name == "loss" and any(other.rpartition(".")[2] == SQUARED for other in measures)
        return "" if is_squared else UNITS[name]
    if name.endswith("_loss"):
        return UNITS["loss"]
    return "%" if name.endswith(SHARES) else ""


def with_unit(measure: str, measures: Iterable[str] = ()) -> str:
    """`valid.loss` -> `valid.loss (nats)`."""
    unit = unit_of(measure, measures)
    return f"{measure} ({unit})" if unit else measure
