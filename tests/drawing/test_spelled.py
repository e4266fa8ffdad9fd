import numpy as np

from clew.drawing.parts import Spelled
from clew.drawing.shapes import Label, Raster
from clew.drawing.spelled import spelled


def test_letters_lie_below_the_input_over_the_same_width() -> None:
    shown, weights = np.arange(12.0).reshape(3, 4), np.array([[0.0, 0.5], [1.0, 0.0]])
    picture = spelled(Spelled(shown, weights, ["a", " "], 2.0, "seconds", "log-mel"))
    above, below = [shape for shape in picture.shapes if isinstance(shape, Raster)]
    assert (above.x, above.width) == (below.x, below.width) and above.y + above.height < below.y
    assert above.levels[0, 0] == 0 and above.levels[-1, -1] == 255
    assert below.levels.tolist() == [[0, 128], [255, 0]]
    texts = [shape.text for shape in picture.shapes if isinstance(shape, Label)]
    assert texts[:3] == ["log-mel", "a", "·"] and texts[-1] == "seconds" and "2.0" in texts
