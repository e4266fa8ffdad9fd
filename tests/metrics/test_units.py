import pytest

from clew.metrics.units import unit_of, with_unit


@pytest.mark.parametrize(
    ("measure", "unit"),
    [
        ("valid.loss", "nats"),
        ("valid.next_sentence_loss", "nats"),
        ("best.test.bits_per_character", "bits"),
        ("tokens_per_second", "tokens/s"),
        ("peak_memory", "bytes"),
        ("valid.macro_f1", "%"),
        ("valid.accuracy", "%"),
        ("valid.calibration_error", "%"),
        ("valid.perplexity", ""),
        ("valid.pearson", ""),
    ],
)
def test_a_measure_has_its_unit_by_its_name(measure: str, unit: str) -> None:
    assert unit_of(measure) == unit and with_unit(measure) == (f"{measure} ({unit})" if unit else measure)


def test_the_loss_of_a_run_that_learns_numbers_is_not_in_nats() -> None:
    assert unit_of("valid.loss", ["valid.pearson", "valid.error"]) == ""
