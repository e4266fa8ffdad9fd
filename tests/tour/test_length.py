"""Texts longer than in training."""

import pytest
import torch

from clew.layers.positions import POSITIONS
from clew.tour.length import CLAIMS, by_length, run, smoothed


def test_bits_are_grouped_by_multiples_of_the_trained_length() -> None:
    places = torch.arange(16.0).repeat(2, 1)  # bits equal their position; the trained length is 2
    assert by_length(places, 2) == pytest.approx([1.0, 2.5, 5.5, 11.5])


def test_a_curve_is_drawn_by_means_of_equal_pieces() -> None:
    assert smoothed(torch.tensor([1.0, 3.0, 5.0, 7.0, 9.0]), 2) == ([1.0, 3.0], [2.0, 6.0])


@pytest.mark.slow
def test_every_encoding_is_tried_and_has_a_claim() -> None:
    finding = run("quick", 0, lambda line: None)
    assert [what.rsplit(": ", 1)[1] for what, _, _ in finding.rows] == list(POSITIONS) == list(CLAIMS)
