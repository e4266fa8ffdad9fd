"""Lengths, turns and similarities of levels, computed by hand and on every kind of run."""

import numpy as np
import pytest
import torch

from clew.instruments.levels import mean_cosine, measure
from clew.instruments.looking import look
from clew.instruments.reading import read
from clew.tasks.uses.level_vectors import block_levels
from tests.instruments.small_runs import RUNS, small_run

TEXT = "the walls were tall"


def test_levels_worked_by_hand():
    low, high = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[-4.0, 3.0], [0.0, 1.0]])
    half = measure([low, high, torch.ones(2, 3)])
    assert half.widths == [2, 2, 3]
    np.testing.assert_allclose(half.norms, [[5, 2], [5, 1], [3**0.5] * 2])
    np.testing.assert_allclose(half.turns[1], [1.0, 0.0], atol=1e-12)  # a right angle, and zero
    assert np.isnan(half.turns[[0, 2]]).all()
    assert half.alike == pytest.approx([0.8, 0.6, 1.0])


def test_similarity_is_the_mean_over_pairs_of_positions():
    units = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert mean_cosine(units) == pytest.approx(1 / 3) and mean_cosine(units[:1]) == 1.0


@pytest.mark.parametrize("name", ["lstm", "gpt", "bert", "elmo", "classifier", "tagger"])
def test_a_runs_levels_are_those_of_its_body(name):
    run = small_run(name)
    reading = read(run, TEXT)
    (levels,) = reading.levels()
    with torch.no_grad():
        expected = block_levels(run.task.body, reading.batch)
    assert len(levels.names) == len(expected) and levels.names[0] == "embedding"
    for level, values in zip(levels.values, expected, strict=True):
        torch.testing.assert_close(level, values[0])
    torch.testing.assert_close(levels.values[-1], reading.hidden()[0])


def test_both_halves_of_a_translator_have_levels_at_their_own_positions():
    reading = read(small_run("transformer"), TEXT, "tall were")
    encoder, decoder = reading.levels()
    assert encoder.half == "encoder" and encoder.tokens == reading.pieces
    assert decoder.half == "decoder" and decoder.tokens == ("<eos>", "tall", "were")
    torch.testing.assert_close(decoder.values[-1], reading.hidden()[0])


@pytest.mark.parametrize("name", RUNS)
def test_every_run_that_reads_has_a_view_of_its_levels(name):
    facts = look(small_run(name), "levels", {"text": TEXT}).facts["halves"]
    for half in facts:
        assert np.shape(half["norms"]) == (len(half["levels"]), len(half["tokens"])) and np.min(half["norms"]) > 0
        assert half["turns"][0] == [None] * len(half["tokens"])
        assert all(-1 <= alike <= 1 + 1e-9 for alike in half["alike"])
