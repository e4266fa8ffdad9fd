import re

import pytest

from clew.drawing.shapes import Stroke


def test_corners_are_round_and_smaller_where_there_is_no_room() -> None:
    path = Stroke([(0, 0), (0, 20), (4, 20), (4, 40)], "frame", bend=6).svg("")
    numbers = [float(number) for number in re.findall(r"[\d.]+", path.split('"')[3])]
    assert numbers == pytest.approx([0, 0, 0, 18, 0, 20, 2, 20, 2, 20, 4, 20, 4, 22, 4, 40])
    assert path.split('"')[3] == "M0 0L0 18Q0 20 2 20L2 20Q4 20 4 22L4 40"
    assert Stroke([(0, 0), (5, 5)], "frame", bend=6).svg("").split('"')[3] == "M0 0L5 5"
