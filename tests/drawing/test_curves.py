import math
from pathlib import Path

import numpy as np
import pytest

from clew.core.errors import UserError
from clew.drawing.curves import (
    Curve,
    Curves,
    Panel,
    figure,
    mean_curve,
    mean_of,
    smoothed,
    thinned,
    value_range,
)


def falling(steps: int, seed: int = 0, every: int = 1) -> Curve:
    noise = np.random.default_rng(seed).normal(scale=0.05, size=steps)
    at = range(every, steps * every + 1, every)
    return Curve(tuple(at), tuple(float(1 + 3 * math.exp(-5 * i / steps) + noise[i]) for i in range(steps)))


def panels(names: list[str], seeds: int = 2) -> list[Panel]:
    return [
        Panel(
            title,
            "nats per token",
            tuple(Curves(name, tuple(falling(40, 10 * i + s) for s in range(seeds))) for i, name in enumerate(names)),
        )
        for title in ("Training loss", "Validation loss")
    ]


def test_the_mean_is_at_the_steps_that_every_run_has() -> None:
    mean = mean_curve([Curve((1, 2, 3, 5), (1.0, 2.0, 3.0, 9.0)), Curve((2, 3, 4, 5), (4.0, 5.0, 6.0, 1.0))])
    assert mean == Curve((2, 3, 5), (3.0, 4.0, 5.0))
    assert mean_curve([Curve((1,), (1.0,)), Curve((2,), (1.0,))]) == Curve((), ())
    assert mean_curve([]) == Curve((), ())


def test_thinning_averages_neighbours_and_leaves_short_curves() -> None:
    assert thinned(Curve((1, 2, 3, 4), (1.0, 3.0, 5.0, 7.0)), most=2) == Curve((2, 4), (2.0, 6.0))
    long = falling(1000)
    short = thinned(long, 100)
    assert len(short.steps) == 100 and np.mean(short.values) == pytest.approx(np.mean(long.values))
    assert thinned(short, 100) is short


def test_smoothing_keeps_a_line_and_makes_noise_less() -> None:
    line = Curve(tuple(range(200)), tuple(0.5 * i for i in range(200)))
    assert smoothed(line).values == pytest.approx(line.values)
    noisy = falling(200)
    assert np.abs(np.diff(smoothed(noisy).values)).mean() < 0.5 * np.abs(np.diff(noisy.values)).mean()
    few = Curve((1, 2, 3), (3.0, 1.0, 2.0))
    assert smoothed(few) is few


def test_the_first_steep_values_do_not_decide_what_is_seen() -> None:
    values = (50.0, *[2.0 + 0.001 * i for i in range(199)])
    low, high = value_range([Curves("a", (Curve(tuple(range(200)), values),))])
    assert low < 2.0 and 2.19 < high < 3.0


def test_curves_without_spread_or_points_still_have_limits() -> None:
    low, high = value_range([Curves("a", (Curve((1, 2), (2.0, 2.0)),))])
    assert low < 2.0 < high
    assert value_range([Curves("a", (Curve((1,), (0.0,)),))]) == (-1.0, 1.0)
    assert value_range([Curves("a", ())]) == (0.0, 1.0)


def test_a_figure_draws_every_run_and_every_mean(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = ["$x$ costs $5", "_hidden", "plain"]
    drawn = figure(panels(names), "a $title$")
    left, right = drawn.axes
    assert [len(axis.lines) for axis in (left, right)] == [3 * (2 + 1)] * 2
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [f"{name} (mean of 2)" for name in names]
    assert (left.get_title(loc="left"), left.get_xlabel(), left.get_ylabel()) == (
        "Training loss",
        "training steps",
        "nats per token",
    )
    thick = max(left.lines, key=lambda line: line.get_linewidth())
    assert thick.get_ydata() == pytest.approx(mean_of(panels(names)[0].groups[0]).values)
    drawn.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_nothing_overlaps_with_twelve_groups_of_long_names() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for length in (10, 40, 200):
        drawn = figure(panels([f"{i}" + "x" * length for i in range(12)]), "title " * 40)
        FigureCanvasAgg(drawn).draw()
        legend = drawn.legends[0].get_window_extent()
        assert legend.x0 >= 0 and legend.y0 >= 0 and legend.x1 <= drawn.bbox.x1, length
        for axis in drawn.axes:
            assert not axis.get_tightbbox().overlaps(legend)
            assert not axis.get_tightbbox().overlaps(drawn._suptitle.get_window_extent())
        assert drawn._suptitle.get_window_extent().x1 <= drawn.bbox.x1


def test_without_matplotlib_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(UserError) as error:
        figure(panels(["a"]), "title")
    assert (
        str(error.value)
        == "pictures are drawn with matplotlib, which is not installed; `pip install 'clew[plot]'`, or draw a page:"
        " --curves FILE.html"
    )
