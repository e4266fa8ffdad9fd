import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.drawing.branches import BOX, ROW, branches, lay_out, spread, within
from clew.drawing.parts import Branch, Branches
from clew.drawing.shapes import Box, Stroke


def beam(steps: int, width: int = 5, children: int = 2) -> list[Branch]:
    """Every kept node has children, of which the first ones are kept."""
    nodes, front = [Branch(None, "<s>", 0.0)], [0]
    for step in range(steps):
        made = [(parent, child) for child in range(children) for parent in front]
        start = len(nodes)
        nodes += [
            Branch(parent, f"w{step}", -float(step + place), kept=place < width)
            for place, (parent, _) in enumerate(made)
        ]
        front = [number for number in range(start, len(nodes)) if nodes[number].kept]
    return nodes


def test_a_step_is_a_column_and_nothing_overlaps() -> None:
    nodes = beam(30)
    placed = lay_out(nodes)
    columns: dict[float, list[float]] = {}
    for node, at in zip(nodes, placed, strict=True):
        columns.setdefault(at.x, []).append(at.y)
        if node.parent is not None:
            assert at.x > placed[node.parent].x + placed[node.parent].width
    assert len(columns) == 31
    for heights in columns.values():
        heights.sort()
        assert all(below - above >= ROW - 1e-6 for above, below in zip(heights, heights[1:], strict=False))
    assert max(at.y for at in placed) - min(at.y for at in placed) <= ROW * 10, "five beams of two stay on one screen"


def test_lines_do_not_cross() -> None:
    nodes = beam(6)
    placed = lay_out(nodes)
    for x in {at.x for at in placed}:
        column = sorted(
            (at.y, placed[node.parent].y)
            for node, at in zip(nodes, placed, strict=True)
            if at.x == x and node.parent is not None
        )
        assert [parent for _, parent in column] == sorted(parent for _, parent in column)


def test_the_best_path_is_bold_and_what_was_dropped_is_faint() -> None:
    nodes = [
        Branch(None, "<s>", 0, best=True),
        Branch(0, "a", -1, best=True, note="rank 1"),
        Branch(0, "b", -2),
        Branch(0, "c", -3, kept=False),
    ]
    picture = branches(Branches(nodes))
    boxes = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert [box.kind for box in boxes] == ["best", "best", "kept", "dropped"]
    assert boxes[1].title == "a: -1, best path; rank 1" and boxes[3].title == "c: -3, dropped"
    assert [box.number for box in boxes] == [(0, -1), (1, 0), (2, 0), (3, 0)]
    assert [shape.kind for shape in picture.shapes if isinstance(shape, Stroke)] == [
        "dropped-line",
        "kept-line",
        "best-line",
    ]
    assert all(box.y >= 0 and box.y + BOX <= picture.height and box.x + box.width <= picture.width for box in boxes)


def test_a_parent_that_comes_later_is_an_error() -> None:
    with pytest.raises(ValueError, match="node 0 has the parent 1; parents come before their children"):
        branches(Branches([Branch(1, "a", 0), Branch(None, "b", 0)]))
    assert branches(Branches([])).svg("v").startswith("<svg")


@given(st.lists(st.floats(-100, 100), max_size=12).map(sorted))
def test_places_are_apart_and_as_near_as_they_can_be(targets: list[float]) -> None:
    """Moving any place a little, as far as its neighbours let it, brings the sum of squares no lower."""
    places = spread(targets, 10)
    assert all(below - above >= 10 - 1e-6 for above, below in zip(places, places[1:], strict=False))
    cost = sum((a - b) ** 2 for a, b in zip(places, targets, strict=True))
    for start in range(len(places)):
        for stop in range(start + 1, len(places) + 1):
            for step in (-0.01, 0.01):
                moved = [at + step if start <= place < stop else at for place, at in enumerate(places)]
                if all(below - above >= 10 for above, below in zip(moved, moved[1:], strict=False)):
                    assert sum((a - b) ** 2 for a, b in zip(moved, targets, strict=True)) >= cost - 1e-6


def test_places_are_moved_into_a_band() -> None:
    assert within([-50, 0, 5], 10, 20) == [-20, 0, 10] and within([15, 40], 10, 20) == [10, 20]
