"""Patches, and their positions in a grid."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.layers.shapes.patches import GRID_POSITIONS, LearnedGrid, PatchReader, SinusoidalGrid, cut_patches
from clew.layers.shapes.pictures import PictureEmbedding, grid_places
from clew.sources.pictures import Patches
from tests.references import pictures as references
from tests.references.agreement import randn, randomise


@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 2), (3, 2), (1, 5), (4, 7)])
def test_patches_are_cut_pixel_by_pixel(height: int, width: int) -> None:
    pixels = randn(2, 4, 5, 3)
    patches = cut_patches(pixels, height, width)
    for row in range(2):
        np.testing.assert_array_equal(patches[row].numpy(), references.patches(pixels[row].numpy(), height, width))
    reader = PatchReader(height, width)
    assert reader.width == patches.shape[-1] and reader.grid_sizes(torch.tensor([[4, 5]])).tolist() == [
        list(patches.shape[1:3])
    ]


def test_mapped_patches_equal_a_strided_convolution() -> None:
    """The patch embedding of Dosovitskiy et al. (2021), which most implementations write as a convolution."""
    embedding = randomise(Patches(size=2, places="none").embedding(5)).eval()
    assert isinstance(embedding, PictureEmbedding)
    inputs, _ = Patches(size=2).collate([torch.randint(256, (6, 4, 3), dtype=torch.uint8) for _ in range(2)])
    weight = embedding.map.weight.unflatten(1, (2, 2, 3)).permute(0, 3, 1, 2)  # (dim, channels, height, width)
    pixels = (inputs.pixels.double() / 255 - 0.5) / 0.5
    expected = torch.nn.functional.conv2d(pixels.movedim(-1, 1), weight, embedding.map.bias, stride=2)
    torch.testing.assert_close(embedding.read(inputs), expected.flatten(2).mT)


@pytest.mark.parametrize("dim", [2, 7, 8])
def test_sinusoids_of_row_and_column_are_concatenated(dim: int) -> None:
    rows, columns = torch.tensor([[0, 3, 11]]), torch.tensor([[5, 0, 2]])
    actual = SinusoidalGrid(dim)(rows, columns, torch.zeros((), dtype=torch.float64))[0]
    for place in range(3):
        expected = references.waves(int(rows[0, place]), int(columns[0, place]), dim)
        np.testing.assert_allclose(actual[place].numpy(), expected, atol=1e-6)


def test_learnt_positions_add_a_row_and_a_column() -> None:
    places = randomise(LearnedGrid(4, max_height=3, max_width=2))
    rows, columns = torch.tensor([[0, 2]]), torch.tensor([[1, 0]])
    actual = places(rows, columns, torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(
        actual[0], torch.stack([places.rows[0] + places.columns[1], places.rows[2] + places.columns[0]])
    )
    with pytest.raises(
        UserError,
        match="the grid has 3 columns, but the model has learnt 2; make the picture smaller or its patches larger",
    ):
        places(rows, torch.tensor([[2, 0]]), actual)
    with pytest.raises(
        UserError, match="the grid has 4 rows, but the model has learnt 3; .* train with a larger max_height"
    ):
        places(rows + 1, columns, actual)


def test_positions_are_counted_row_by_row_in_each_grid() -> None:
    places, mask = grid_places(torch.tensor([[2, 3], [1, 2], [3, 1]]), 4)
    assert places.tolist() == [[0, 1, 2, 4, 5, 6], [0, 1, 0, 0, 0, 0], [0, 4, 8, 0, 0, 0]]
    assert mask is not None and mask.sum(1).tolist() == [6, 2, 3]
    assert grid_places(torch.tensor([[2, 2], [2, 2]]), 2)[1] is None


def test_impossible_patches_are_refused() -> None:
    with pytest.raises(UserError, match="a patch must have at least 1 x 1 pixel and 1 channel, not 0 x 2 and 3"):
        PatchReader(0, 2)
    assert set(GRID_POSITIONS) == {"none", "sinusoidal", "learned"}
