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


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of units, the second of which goes with the first property and the third against the second; two booleans
    and a number."""
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
    return drawn(), drawn()


def test_the_best_cut_of_every_cell_is_the_one_that_trying_all_finds(texts) -> None:
    fitted_on, judged_on = texts
    cuts = fit_cuts(tally_of(*fitted_on))
    told = judge_cuts(cuts, tally_of(*judged_on))
    train = judge_cuts(cuts, tally_of(*fitted_on))
    thresholds = np.array([threshold_of(edge) for edge in range(BINS + 1)])
    for prop in range(2):
        for unit in range(UNITS):
            best, _, _ = references.best_cut(fitted_on[0][:, unit], fitted_on[1][:, prop], thresholds)
            assert train.f1[prop, unit].item() == pytest.approx(best)
            cut, above = threshold_of(int(cuts.edges[prop, unit])), bool(cuts.above[prop, unit])
            said = (judged_on[0][:, unit] >= cut) == above
            assert told.f1[prop, unit].item() == pytest.approx(references.f1(said, judged_on[1][:, prop]))
            assert told.accuracy[prop, unit].item() == pytest.approx((said == judged_on[1][:, prop]).mean())
    assert cuts.above[0, 1] and not cuts.above[1, 2]
    assert told.skill[0].argmax() == 1 and told.skill[1].argmax() == 2


def test_constant_answers_are_what_a_cell_is_compared_with(texts) -> None:
    tally = tally_of(*texts[0])
    told = judge_cuts(fit_cuts(tally), tally)
    for prop, wanted in enumerate(texts[0][1].T):
        assert told.always[prop].item() == pytest.approx(references.f1(np.ones(POSITIONS, bool), wanted))
        assert told.majority[prop].item() == pytest.approx(max(wanted.mean(), 1 - wanted.mean()))
    assert (told.skill > -1e-12).all()  # always saying yes is one of the cuts that were tried


def test_a_cell_that_is_the_property_has_skill_one() -> None:
    booleans = torch.tensor([[True], [False], [True], [False], [False]])
    tally = Tally(1, 1, 1)
    tally.add(booleans.double() * 2 - 1, booleans, booleans.double() * 7 + 2)
    assert judge_cuts(fit_cuts(tally), tally).skill.item() == 1
    assert judge_lines(fit_lines(tally), tally).item() == pytest.approx(1)


def test_lines_are_fitted_on_one_text_and_judged_on_the_other(texts) -> None:
    (values, _, numbers), (held_values, _, held_numbers) = texts
    fit = fit_lines(tally_of(*texts[0]))
    found = judge_lines(fit, tally_of(*texts[1]))
    r = correlations(tally_of(*texts[1]))
    for unit in range(UNITS):
        expected = references.line_r2(values[:, unit], numbers[:, 0], held_values[:, unit], held_numbers[:, 0])
        assert found[0, unit].item() == pytest.approx(expected)
        assert r[0, unit].item() == pytest.approx(np.corrcoef(held_values[:, unit], held_numbers[:, 0])[0, 1])


def test_a_dead_cell_tells_nothing() -> None:
    tally = Tally(1, 1, 1)
    tally.add(torch.zeros(4, 1), torch.tensor([[True], [False], [False], [False]]), torch.arange(4.0)[:, None])
    assert judge_cuts(fit_cuts(tally), tally).skill.item() == 0
    assert judge_lines(fit_lines(tally), tally).item() == 0
    assert correlations(tally).item() == 0
