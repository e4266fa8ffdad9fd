"""Lines of drawn handwriting: which pixels are ink, what varies, and that letters can be distinguished."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.core.errors import UserError
from clew.data.synthetic.handwriting import GLYPHS, Hand, columns, draw_stroke, render_line, smoothed
from tests.references.agreement import randn

PLAIN = Hand(slant=0.0, jitter=0.0, size=0.0, thickness=(1.0, 1.0))


def test_a_stroke_is_ink_where_pixels_are_near_its_pieces() -> None:
    """Compared with a hundred points on every piece."""
    points = np.array([[2.0, 3.0], [9.5, 4.0], [6.0, 11.0]])
    picture = np.zeros((14, 13), np.float32)
    draw_stroke(picture, points, 1.3)
    for y in range(14):
        for x in range(13):
            nearest = min(
                np.hypot(x - a[0] - t * (b[0] - a[0]), y - a[1] - t * (b[1] - a[1]))
                for a, b in zip(points, points[1:], strict=False)
                for t in np.linspace(0, 1, 101)
            )
            assert picture[y, x] == pytest.approx(min(max(1.8 - nearest, 0), 1), abs=2e-3)


def test_a_stroke_that_leaves_the_paper_is_cut_at_its_edge() -> None:
    small, large = np.zeros((6, 6), np.float32), np.zeros((20, 20), np.float32)
    points = np.array([[-3.0, 2.0], [4.0, 9.0]])
    draw_stroke(small, points, 1.0)
    draw_stroke(large, points + 7, 1.0)
    np.testing.assert_allclose(small, large[7:13, 7:13], atol=1e-6)
    draw_stroke(small, points - 50, 1.0)
    np.testing.assert_allclose(small, large[7:13, 7:13], atol=1e-6)


def test_a_spline_goes_through_its_points_and_is_straight_between_two() -> None:
    points = randn(5, 2).numpy()
    curve = smoothed(points)
    np.testing.assert_allclose(curve[::4], points, atol=1e-12)
    line = smoothed(points[:2])
    np.testing.assert_allclose(np.diff(line, axis=0), np.tile((points[1] - points[0]) / 4, (4, 1)), atol=1e-12)


def test_a_seed_determines_the_line() -> None:
    first, same, other = (render_line("three one four", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first, same)
    assert first.shape != other.shape or not torch.equal(first, other)
    assert first.shape[0] == 32 and first.dtype == torch.float32 and float(first.min()) == 0 and float(first.max()) == 1
    assert torch.equal(columns(first)[7], first[:, 7])


def test_no_letter_is_cut_off_at_any_size() -> None:
    for seed in range(6):
        picture = render_line("".join(GLYPHS), seed=seed, hand=Hand(jitter=0.0))
        edges = torch.cat([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert float(edges.max()) < 0.2, "no more than the faint edge of a thick stroke"


def test_a_line_grows_with_its_text_and_scales_with_its_height() -> None:
    widths = [render_line("ab " * count, hand=PLAIN).shape[1] for count in (1, 2, 4)]
    assert widths[0] < widths[1] < widths[2] and widths[2] - widths[1] == pytest.approx(
        2 * (widths[1] - widths[0]), abs=2
    )
    small, large = (render_line("quick", height=height, hand=PLAIN) for height in (32, 64))
    assert large.shape[0] == 64 and large.shape[1] == pytest.approx(2 * small.shape[1], rel=0.05)


def test_slant_moves_the_tops_and_thickness_adds_ink() -> None:
    def tops(picture: Tensor) -> float:
        return (
            float((picture[:16].sum(0) * torch.arange(picture.shape[1])).sum() / picture[:16].sum()) / picture.shape[1]
        )

    def bottoms(picture: Tensor) -> float:
        return tops(picture.flip(0))

    leaning = [render_line("llllll", seed=seed, hand=Hand(slant=0.6, jitter=0.0, size=0.0)) for seed in range(8)]
    assert len({round(tops(picture) - bottoms(picture), 2) > 0.02 for picture in leaning}) == 2, (
        "to the right and to the left"
    )
    thin, thick = (render_line("clew", hand=Hand(0, 0, 0, (width, width))) for width in (0.5, 1.5))
    assert float(thick.sum()) > 1.5 * float(thin.sum())


def test_most_handwritten_letters_are_nearest_to_their_own_plain_form() -> None:
    size = (32, 32)
    plain = {
        character: F.interpolate(render_line(character, hand=PLAIN)[None, None], size)[0, 0] for character in GLYPHS
    }
    right = total = 0
    for seed in range(3):
        for character in GLYPHS:
            hand = Hand(slant=0.1, jitter=0.1, size=0.05, thickness=(1.0, 1.0))
            written = F.interpolate(render_line(character, seed=seed, hand=hand)[None, None], size)[0, 0]
            nearest = min(plain, key=lambda other: float((plain[other] - written).square().sum()))
            right, total = right + (nearest == character), total + 1
    assert right / total > 0.8


def test_impossible_lines_are_rejected() -> None:
    with pytest.raises(UserError, match="there are no strokes for 'Zé'; a line may contain "):
        render_line("Zé one")
    with pytest.raises(UserError, match="a line must have 1 to 1,000 characters, not only spaces; this one has 2"):
        render_line("  ")
    with pytest.raises(UserError, match="this one has 1,001"):
        render_line("a" * 1001)
    with pytest.raises(UserError, match=r"height \(4\) must be at least 8 pixels"):
        render_line("a", height=4)
    with pytest.raises(
        UserError, match="slant, jitter and size must be at least 0, size below 1, and thickness a range above 0"
    ):
        Hand(jitter=-1)
