"""The residual network is its equations, written pixel by pixel, for each picture of a ragged batch as if it were
alone."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.layers.shapes.resnet import BasicBlock, PictureNorm, PlaceNorm, ResNet
from tests.references import pictures as references
from tests.references.agreement import assert_agrees, randn, randomise

SIZES = torch.tensor([[4, 5], [2, 3], [1, 1]])


@pytest.mark.parametrize("stem_stride", [1, 2])
def test_a_residual_network_equals_its_paper_in_values_and_gradients(stem_stride: int) -> None:
    network = randomise(ResNet(2, widths=(2, 4), blocks=1, stem_stride=stem_stride, groups=2))
    assert_agrees(
        network,
        lambda x: network(x[None])[0],
        lambda p, x: references.resnet(p, x, 2, 1, stem_stride, 2),
        randn(4, 5, 2),
        entries=2,
    )


def test_blocks_of_one_width_hand_their_input_on() -> None:
    network = randomise(ResNet(1, widths=(2,), blocks=2, groups=1))
    assert {name.split(".")[2] for name, _ in network.blocks.named_parameters("blocks")} == {
        *("first", "first_norm", "second", "second_norm")
    }
    assert_agrees(
        network,
        lambda x: network(x[None])[0],
        lambda p, x: references.resnet(p, x, 1, 2, 1, 1),
        randn(3, 4, 1),
        entries=2,
    )


@pytest.mark.parametrize(("stem_stride", "stages"), [(1, 1), (1, 3), (2, 2)])
def test_each_picture_of_a_ragged_batch_is_read_as_if_alone(stem_stride: int, stages: int) -> None:
    """Values and gradients; what stands in the padding does not matter."""
    network = randomise(ResNet(2, widths=(2, 4, 4)[:stages], blocks=1, stem_stride=stem_stride, groups=2))
    parameters = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    pixels = 5 * randn(3, 4, 5, 2)
    together = network(pixels, SIZES)
    losses = []
    for row, (height, width) in enumerate(SIZES.tolist()):
        picture = pixels[row, :height, :width]
        rows, columns = network.grid_sizes(SIZES[row : row + 1])[0].tolist()
        found = together[row, :rows, :columns]
        wanted = references.resnet(parameters, picture.numpy(), stages, 1, stem_stride, 2)
        np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-9, atol=1e-9)
        assert not together[row, rows:].any() and not together[row, :, columns:].any()
        weights = randn(*found.shape, seed=row)
        losses.append(((found * weights).sum(), (network(picture[None])[0] * weights).sum()))
    padded, alone = (torch.autograd.grad(sum(side), list(network.parameters())) for side in zip(*losses, strict=True))  # type: ignore[arg-type]
    for one, other in zip(padded, alone, strict=True):
        torch.testing.assert_close(one, other)


def test_a_masked_norm_is_torchs_over_the_real_pixels() -> None:
    norm = randomise(PictureNorm(6, 3))
    x = randn(2, 6, 4, 5)
    real = torch.ones(2, 1, 4, 5, dtype=torch.bool)
    torch.testing.assert_close(norm(x, real), norm(x))
    real[1, :, 2:] = False
    torch.testing.assert_close(norm(x, real)[1, :, :2], norm(x[1:, :, :2])[0])


def test_a_vector_stands_for_the_pixels_that_the_cell_says() -> None:
    network = ResNet(3, widths=(8, 16, 24), blocks=1, stem_stride=2)
    assert network.cell == (8, 8) and network.width == 24
    sizes = torch.tensor([[64, 48], [17, 1]])
    assert network.grid_sizes(sizes).tolist() == [[8, 6], [3, 1]]
    assert network(torch.zeros(1, 17, 33, 3)).shape == (1, 3, 5, 24)


def test_a_network_starts_with_signals_of_one_size() -> None:
    torch.manual_seed(0)
    network = ResNet(3, widths=(16, 32, 64), blocks=2)
    grid = network(torch.randn(4, 32, 32, 3))
    assert 0.3 < float(grid.detach().std()) < 5


def test_impossible_widths_are_refused() -> None:
    with pytest.raises(UserError, match=r"the width of a stage \(12\) must be divisible by groups \(8\)"):
        BasicBlock(8, 12)
    with pytest.raises(UserError, match=r"widths \(\[\]\), blocks \(2\) and stem_stride \(1\) must be at least 1"):
        ResNet(3, widths=())


def norm_places(p: dict, x: np.ndarray) -> np.ndarray:
    """Every pixel's channels (batch, channels, height, width) by themselves."""
    y = np.zeros_like(x)
    for row in range(x.shape[0]):
        for down in range(x.shape[2]):
            for across in range(x.shape[3]):
                channels = x[row, :, down, across]
                mean = sum(channels) / len(channels)
                variance = sum((channel - mean) ** 2 for channel in channels) / len(channels)
                for number, channel in enumerate(channels):
                    y[row, number, down, across] = (
                        p["weight"][number] * (channel - mean) / (variance + 1e-5) ** 0.5 + p["bias"][number]
                    )
    return y


def test_a_norm_of_places_is_that_of_each_pixels_channels() -> None:
    norm = randomise(PlaceNorm(4))
    assert_agrees(norm, norm, norm_places, randn(2, 4, 2, 3))


def test_with_a_norm_of_places_nothing_far_away_reaches_a_place() -> None:
    for kind, is_far in (("place", False), ("picture", True)):
        network = randomise(ResNet(1, widths=(4, 4), blocks=1, stem_stride=2, groups=2, norm=kind)).eval()
        picture, other = randn(1, 64, 64, 1), randn(1, 64, 64, 1, seed=1)
        other[:, :40] = picture[:, :40]  # the last rows are others
        with torch.no_grad():
            assert bool((network(picture)[:, 0] != network(other)[:, 0]).any()) == is_far


def test_a_norm_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="unknown norm of a picture 'places'; did you mean 'place'"):
        ResNet(3, norm="places")
