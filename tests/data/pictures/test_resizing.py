"""Resizing, against explicit sums over pixels."""

import numpy as np
import pytest
import torch

from clew.core.errors import UserError
from clew.data.pictures.resizing import bounded, centre_crop, fitted, random_crop, random_flip, random_part, resized
from tests.data.pictures.written_pictures import pixels


def triangle_weights(old: int, new: int) -> np.ndarray:
    """The weight of each old pixel in each new one, (new, old): a triangle as wide as two new pixels, or as two old
    ones if those are wider."""
    scale = old / new
    width = max(scale, 1.0)
    weights = np.zeros((new, old))
    for place in range(new):
        centre = (place + 0.5) * scale
        for pixel in range(old):
            weights[place, pixel] = max(0.0, 1 - abs(pixel + 0.5 - centre) / width)
        weights[place] /= weights[place].sum()
    return weights


@pytest.mark.parametrize(("height", "width"), [(3, 4), (13, 20), (7, 2), (1, 1), (6, 9)])
def test_resizing_weighs_every_pixel_by_a_triangle(height: int, width: int) -> None:
    array = pixels(6, 9)
    expected = np.einsum("yh,xw,hwc->yxc", triangle_weights(6, height), triangle_weights(9, width), array.astype(float))
    actual = resized(torch.from_numpy(array), height, width)
    assert actual.dtype == torch.uint8 and np.abs(actual.numpy() - expected).max() <= 0.5 + 1e-3
    exact = resized(torch.from_numpy(array).double(), height, width).numpy()
    assert np.allclose(exact, expected, atol=1e-9)


def test_a_fitted_picture_keeps_its_proportions_and_middle() -> None:
    picture = torch.zeros(10, 40, 1)
    picture[:, 12:28] = 1
    assert fitted(picture, 5, 5).min() == 1
    assert fitted(torch.arange(6.0).reshape(2, 3, 1), 2, 2)[..., 0].tolist() == [[0, 1], [3, 4]]
    assert bounded(torch.ones(10, 40, 3), 20).shape == (5, 20, 3) and bounded(picture, 99) is picture
    assert bounded(torch.ones(1, 5000, 1), 10).shape == (1, 10, 1)


def test_crops_take_the_given_part() -> None:
    picture = torch.arange(20).reshape(4, 5, 1)
    assert centre_crop(picture, 2, 2)[..., 0].tolist() == [[6, 7], [11, 12]]
    generator = torch.Generator().manual_seed(1)
    corners = {int(random_crop(picture, 3, 3, generator=generator)[0, 0]) for _ in range(100)}
    assert corners == {0, 1, 2, 5, 6, 7}
    mirrored = [bool(random_flip(picture, generator=generator)[0, 0] == 4) for _ in range(200)]
    assert 70 < sum(mirrored) < 130
    torch.manual_seed(3)
    first = random_crop(picture, 2, 2)
    torch.manual_seed(3)
    assert torch.equal(first, random_crop(picture, 2, 2))


def test_a_random_crop_has_at_least_the_given_share() -> None:
    columns = torch.arange(100.0)[None, :, None].expand(100, 100, 1)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        part = random_part(columns, 10, 10, smallest=0.25, generator=generator)
        assert part.shape == (10, 10, 1) and 0.49 * 90 <= float(part.max() - part.min()) <= 99


def test_impossible_sizes_are_refused() -> None:
    picture = torch.zeros(4, 5, 3)
    with pytest.raises(
        UserError, match="a picture of 4 x 5 pixels is too small for a crop of 5 x 5; resize it first, or use"
    ):
        random_crop(picture, 5, 5)
    with pytest.raises(UserError, match="a picture must have at least 1 x 1 pixels, not 0 x 3"):
        resized(picture, 0, 3)
    with pytest.raises(UserError, match=r"smallest \(0\) must be a fraction of the picture's area, above 0"):
        random_part(picture, 2, 2, smallest=0)
