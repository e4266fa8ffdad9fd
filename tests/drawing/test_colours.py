import pytest

from clew.drawing.colours import COLOURS, DARK, DARK_COLOURS, LIGHT, UNDER_TEXT, contrast, mixed, number_kind, style
from clew.drawing.kinds import KINDS


def test_twelve_groups_and_more_have_looks_of_their_own() -> None:
    assert len({style(number) for number in range(32)}) == 32


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(("colours", "paper"), [(COLOURS, "#ffffff"), (DARK_COLOURS, "#14171c")], ids=["light", "dark"])
def test_every_colour_stands_out_from_its_paper(colours: tuple[str, ...], paper: str) -> None:
    """A contrast of 3 to 1, as WCAG 2.1 asks of graphics."""
    for colour in colours:
        light, dark = sorted([luminance(colour), luminance(paper)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3.0, colour
        assert contrast(colour, paper) == pytest.approx((light + 0.05) / (dark + 0.05))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_all_words_can_be_read_on_what_they_stand_on(colours: dict[str, str]) -> None:
    """A contrast of 4.5 to 1, as WCAG 2.1 asks of text: on paper, on boxes, and on the strongest colour behind a
    text."""
    for kind, look in KINDS.items():
        if look.size and not kind.startswith("number"):
            assert min(contrast(colours[look.fill], colours[ground]) for ground in ("paper", "raised")) >= 4.5, kind
    for heat in ("heat", "cold"):
        assert contrast(colours["ink"], mixed(colours[heat], colours["paper"], UNDER_TEXT)) >= 4.5, heat


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("heat", ["heat", "cold"])
def test_numbers_can_be_read_on_cells_of_any_strength(colours: dict[str, str], heat: str) -> None:
    for share in range(101):
        kind = number_kind(heat, share / 100)
        assert contrast(colours[KINDS[kind].fill], mixed(colours[heat], colours["paper"], share / 100)) >= 4.5, share


def test_mixing_goes_from_paper_to_the_colour() -> None:
    assert [mixed("#ff0000", "#ffffff", share) for share in (0, 0.5, 1)] == ["#ffffff", "#ff8080", "#ff0000"]
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
