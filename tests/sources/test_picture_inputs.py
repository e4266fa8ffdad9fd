"""Readers of pictures: the kind of positions is an option, and readers of earlier runs are unchanged."""

import json

import pytest
import torch

from clew.core.errors import UserError
from clew.layers.shapes.patches import LearnedGrid, SinusoidalGrid
from clew.sources.picture_inputs import ConvolvedReader, PatchesReader, PixelsReader
from clew.sources.readers import AnyReader


def test_positions_may_be_learnt_for_as_many_rows_and_columns_as_pixels() -> None:
    embedding = PixelsReader(side=80, positions="learned").source().embedding(4)
    assert isinstance(embedding.places, LearnedGrid) and embedding.places.rows.shape == (80, 4)
    assert isinstance(PatchesReader().source().embedding(4).places, SinusoidalGrid)


def test_learnt_rows_and_columns_are_added_to_the_vectors() -> None:
    reader = PatchesReader(side=16, size=8, positions="learned")
    embedding = reader.source().embedding(4).eval()
    pictures, _ = reader.collated([torch.zeros(16, 16, 3, dtype=torch.uint8)])
    vectors = embedding.read(pictures)[0]
    p = embedding.places
    for place, (row, column) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        plain = embedding.map(torch.full((192,), -1.0))  # black is -1 once it is normalised
        torch.testing.assert_close(vectors[place], plain + p.rows[row] + p.columns[column])


def test_the_reader_of_an_earlier_run_keeps_its_hash() -> None:
    options = {"name": "convolved", "side": 48, "grey": False, "shift": 0, "flip": False}
    options |= {"stages": 3, "first_dim": 32, "blocks": 1, "stem_stride": 2}
    text = json.dumps(options, indent=2) + "\n"
    assert AnyReader.from_json(text).to_json() == text
    learned = ConvolvedReader(side=48, positions="learned")
    assert AnyReader.from_json(learned.to_json()) == learned and learned.hash != ConvolvedReader(side=48).hash


def test_positions_out_of_range_are_rejected() -> None:
    with pytest.raises(UserError, match=r"unknown value for task.input.positions 'learnt'; did you mean 'learned'\?"):
        ConvolvedReader(positions="learnt")
    with pytest.raises(UserError, match=r"unknown value for task.input.norm 'batch'; known: picture, place"):
        ConvolvedReader(norm="batch")


def test_a_gain_scales_the_initial_map() -> None:
    maps = []
    for gain in (1.0, 6.0):
        torch.manual_seed(0)
        maps.append(PatchesReader(gain=gain).source().embedding(4).map)
    torch.testing.assert_close(maps[1].weight, 6 * maps[0].weight)
    torch.testing.assert_close(maps[1].bias, maps[0].bias)
    with pytest.raises(UserError, match=r"task.input.gain \(0\) must be between 0.01 and 100"):
        PatchesReader(gain=0.0)
