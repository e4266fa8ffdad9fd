import numpy as np
import pytest
import torch

from clew.inspection.tracking import (
    BINS,
    Tally,
    correlations,
    fit_cuts,
    fit_lines,
    judge_cuts,
    judge_lines,
    threshold_of,
)
from tests.references import tracking as references

GENERATOR = np.random.default_rng(3)
POSITIONS, UNITS = 90, 4


def random_units() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of units, with the second correlated with the first property, and the third negatively with the second;
    two booleans and a number."""
    booleans = GENERATOR.random((POSITIONS, 2)) < 0.3
    values = GENERATOR.normal(size=(POSITIONS, UNITS)) * np.array([1.0, 0.4, 0.7, 5.0])
    values[:, 1] += booleans[:, 0]
    values[:, 2] -= 2 * booleans[:, 1]
    numbers = 3 * values[:, 3:4] + GENERATOR.normal(size=(POSITIONS, 1))
    return values, booleans, numbers


def tally_of(values: np.ndarray, booleans: np.ndarray, numbers: np.ndarray, pieces: int = 3) -> Tally:
    tally = Tally(values.shape[1], booleans.shape[1], numbers.shape[1])
    for part in zip(*(np.array_split(whole, pieces) for whole in (values, booleans, numbers)), strict=True):
        tally.add(*map(torch.tensor, part))
    return tally


@pytest.fixture(scope="module")
def texts() -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    return random_units(), random_units()


def test_the_best_cut_of_every_cell_equals_exhaustive_search(texts) -> None:
    fitted_on, judged_on = texts
    cuts = fit_cuts(tally_of(*fitted_on))
    judged = judge_cuts(cuts, tally_of(*judged_on))
    train = judge_cuts(cuts, tally_of(*fitted_on))
    thresholds = np.array([threshold_of(edge) for edge in range(BINS + 1)])
    for prop in range(2):
        for unit in range(UNITS):
            best, _, _ = references.best_cut(fitted_on[0][:, unit], fitted_on[1][:, prop], thresholds)
            assert train.f1[prop, unit].item() == pytest.approx(best)
            cut, above = threshold_of(int(cuts.edges[prop, unit])), bool(cuts.above[prop, unit])
            predicted = (judged_on[0][:, unit] >= cut) == above
            assert judged.f1[prop, unit].item() == pytest.approx(references.f1(predicted, judged_on[1][:, prop]))
            assert judged.accuracy[prop, unit].item() == pytest.approx((predicted == judged_on[1][:, prop]).mean())
    assert cuts.above[0, 1] and not cuts.above[1, 2]
    assert judged.skill[0].argmax() == 1 and judged.skill[1].argmax() == 2


def test_a_cell_is_compared_with_constant_answers(texts) -> None:
    tally = tally_of(*texts[0])
    judged = judge_cuts(fit_cuts(tally), tally)
    for prop, expected in enumerate(texts[0][1].T):
        assert judged.always[prop].item() == pytest.approx(references.f1(np.ones(POSITIONS, bool), expected))
        assert judged.majority[prop].item() == pytest.approx(max(expected.mean(), 1 - expected.mean()))
    assert (judged.skill > -1e-12).all()  # always answering yes is one of the candidate cuts


def test_a_cell_equal_to_the_property_has_skill_one() -> None:
    booleans = torch.tensor([[True], [False], [True], [False], [False]])
    tally = Tally(1, 1, 1)
    tally.add(booleans.double() * 2 - 1, booleans, booleans.double() * 7 + 2)
    assert judge_cuts(fit_cuts(tally), tally).skill.item() == 1
    assert judge_lines(fit_lines(tally), tally).item() == pytest.approx(1)


def test_lines_are_fitted_on_one_text_and_evaluated_on_the_other(texts) -> None:
    (values, _, numbers), (held_values, _, held_numbers) = texts
    fit = fit_lines(tally_of(*texts[0]))
    judged = judge_lines(fit, tally_of(*texts[1]))
    r = correlations(tally_of(*texts[1]))
    for unit in range(UNITS):
        expected = references.line_r2(values[:, unit], numbers[:, 0], held_values[:, unit], held_numbers[:, 0])
        assert judged[0, unit].item() == pytest.approx(expected)
        assert r[0, unit].item() == pytest.approx(np.corrcoef(held_values[:, unit], held_numbers[:, 0])[0, 1])


def test_a_dead_cell_has_no_skill() -> None:
    tally = Tally(1, 1, 1)
    tally.add(torch.zeros(4, 1), torch.tensor([[True], [False], [False], [False]]), torch.arange(4.0)[:, None])
    assert judge_cuts(fit_cuts(tally), tally).skill.item() == 0
    assert judge_lines(fit_lines(tally), tally).item() == 0
    assert correlations(tally).item() == 0
