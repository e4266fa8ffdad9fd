"""The residual network equals its equations, pixel by pixel, and reads each picture of a ragged batch as if it were
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


def test_blocks_of_one_width_add_their_input_unchanged() -> None:
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
    """In values and gradients, whatever the padding contains."""
    network = randomise(ResNet(2, widths=(2, 4, 4)[:stages], blocks=1, stem_stride=stem_stride, groups=2))
    parameters = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    pixels = 5 * randn(3, 4, 5, 2)
    together = network(pixels, SIZES)
    losses = []
    for row, (height, width) in enumerate(SIZES.tolist()):
        picture = pixels[row, :height, :width]
        rows, columns = network.grid_sizes(SIZES[row : row + 1])[0].tolist()
        actual = together[row, :rows, :columns]
        expected = references.resnet(parameters, picture.numpy(), stages, 1, stem_stride, 2)
        np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
        assert not together[row, rows:].any() and not together[row, :, columns:].any()
        weights = randn(*actual.shape, seed=row)
        losses.append(((actual * weights).sum(), (network(picture[None])[0] * weights).sum()))
    padded, alone = (torch.autograd.grad(sum(side), list(network.parameters())) for side in zip(*losses, strict=True))  # type: ignore[arg-type]
    for one, other in zip(padded, alone, strict=True):
        torch.testing.assert_close(one, other)


def test_a_masked_norm_equals_torch_over_the_real_pixels() -> None:
    norm = randomise(PictureNorm(6, 3))
    x = randn(2, 6, 4, 5)
    real = torch.ones(2, 1, 4, 5, dtype=torch.bool)
    torch.testing.assert_close(norm(x, real), norm(x))
    real[1, :, 2:] = False
    torch.testing.assert_close(norm(x, real)[1, :, :2], norm(x[1:, :, :2])[0])


def test_a_vector_represents_the_pixels_of_a_cell() -> None:
    network = ResNet(3, widths=(8, 16, 24), blocks=1, stem_stride=2)
    assert network.cell == (8, 8) and network.width == 24
    sizes = torch.tensor([[64, 48], [17, 1]])
    assert network.grid_sizes(sizes).tolist() == [[8, 6], [3, 1]]
    assert network(torch.zeros(1, 17, 33, 3)).shape == (1, 3, 5, 24)


def test_a_network_is_initialised_to_keep_the_scale_of_signals() -> None:
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
    """Normalise the channels of every pixel, (batch, channels, height, width)."""
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


def test_a_place_norm_normalises_each_pixels_channels() -> None:
    norm = randomise(PlaceNorm(4))
    assert_agrees(norm, norm, norm_places, randn(2, 4, 2, 3))


def test_with_a_place_norm_distant_pixels_do_not_affect_a_place() -> None:
    for kind, is_far in (("place", False), ("picture", True)):
        network = randomise(ResNet(1, widths=(4, 4), blocks=1, stem_stride=2, groups=2, norm=kind)).eval()
        picture, changed = randn(1, 64, 64, 1), randn(1, 64, 64, 1, seed=1)
        changed[:, :40] = picture[:, :40]  # only the last rows differ
        with torch.no_grad():
            assert bool((network(picture)[:, 0] != network(changed)[:, 0]).any()) == is_far


def test_an_unknown_norm_is_rejected() -> None:
    with pytest.raises(UserError, match="unknown norm of a picture 'places'; did you mean 'place'"):
        ResNet(3, norm="places")
