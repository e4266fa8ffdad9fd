"""Counted costs and exponents equal those of the formulas, and paths are as long as gradients show. Times are
not tested."""

import math

import pytest
import torch

from clew.inspection.cost import LAYER_KINDS, WINDOW, kinds_view, measure_kinds, slope
from clew.layers.attending.caches import RING_CHUNK
from clew.layers.sequence import Stack


@pytest.fixture(scope="module")
def measured():
    return {kind.name: kind for kind in measure_kinds([100, 200, 400], [8, 16, 32], length=24, width=8, repeats=0)}


def test_the_log_log_slope_of_a_power_is_its_exponent():
    assert slope([1, 2, 4, 8], [3, 12, 48, 192]) == pytest.approx(2.0)
    assert slope([1, 10], [5, 5]) == 0.0
    assert math.isnan(slope([1, 2], [0, 0])) and math.isnan(slope([1], [3]))


@pytest.mark.parametrize("name", ["self-attention", "recurrence", "convolution"])
def test_counted_operations_equal_the_formula(measured, name):
    assert measured[name].by_length.flops == measured[name].by_length.formula
    assert measured[name].by_width.flops == measured[name].by_width.formula


def test_windowed_attention_costs_one_chunk_more_than_the_formula(measured):
    costs = measured["windowed attention"].by_length
    more = [flops - formula for flops, formula in zip(costs.flops, costs.formula, strict=True)]
    assert costs.formula == [n * (8 * 8 * 8 + 4 * (WINDOW + 1) * 8) for n in costs.sizes]
    assert more == [4 * n * RING_CHUNK * 8 for n in costs.sizes]


def test_costs_grow_with_the_exponents_of_the_formulas(measured):
    lengths = {name: slope(kind.by_length.sizes, kind.by_length.flops) for name, kind in measured.items()}
    assert lengths["self-attention"] == pytest.approx(2.0, abs=0.15)
    for name in ("recurrence", "convolution", "windowed attention"):
        assert lengths[name] == pytest.approx(1.0, abs=0.01)
    for name in ("recurrence", "convolution"):
        assert slope(measured[name].by_width.sizes, measured[name].by_width.flops) == pytest.approx(2.0)
    memory = {name: slope(kind.by_length.sizes, kind.by_length.memory) for name, kind in measured.items()}
    assert memory["self-attention"] > 1.7 and memory["convolution"] < 1.1 and memory["recurrence"] < 1.1


def test_only_the_recurrence_has_a_sequential_product_per_position(measured):
    assert measured["recurrence"].by_length.chains == [100, 200, 400]
    for name in ("self-attention", "convolution", "windowed attention"):
        assert len(set(measured[name].by_length.chains)) == 1


@pytest.mark.parametrize("name", ["self-attention", "convolution", "windowed attention"])
@pytest.mark.parametrize("length", [2, 8, 70])
def test_the_ends_are_connected_by_the_stated_number_of_layers(name, length):
    """The last output depends on the first input through this number of layers, and not through fewer."""
    kind = LAYER_KINDS[name]
    for layers, reaches in ((kind.path(length), True), (kind.path(length) - 1, False)):
        if layers:
            torch.manual_seed(0)
            x = torch.randn(1, length, 8, dtype=torch.float64, requires_grad=True)
            stack = Stack([kind.build(8) for _ in range(layers)]).double()
            stack(x)[0][0, -1].sum().backward()
            assert bool(x.grad[0, 0].abs().sum() > 0) is reaches


def test_a_view_has_a_row_per_kind_and_dashed_formulas(measured):
    view = kinds_view(list(measured.values()), length=24, width=8)
    assert [row[0] for row in view.parts[0].rows] == list(LAYER_KINDS)
    assert [row[6] for row in view.parts[0].rows[:3]] == ["+0.0%"] * 3
    assert [series.dashed for series in view.parts[1].series] == [False, True] * len(LAYER_KINDS)
    assert view.facts["recurrence"]["by_length"]["seconds"] is None and WINDOW > 1
