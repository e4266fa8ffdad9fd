import json

import numpy as np

from clew.drawing.view_files import view_of
from clew.drawing.views import Heatmap, Series, View
from tests.instruments.samples import HOSTILE, every_part


def test_a_view_read_again_is_drawn_the_same() -> None:
    for text in ("name", HOSTILE[0]):
        view = View("a title", every_part(text), "about it", {"count": 3})
        again = view_of(json.loads(view.json()))
        assert again.html() == view.html() and again.json() == view.json()


def test_what_was_no_number_is_none_again() -> None:
    view = View("t", [Heatmap(np.array([[1.0, np.nan]]), ["a"], ["x", "y"])])
    (part,) = view_of(json.loads(view.json())).parts
    assert isinstance(part, Heatmap) and part.values[0, 0] == 1 and np.isnan(part.values[0, 1])


def test_every_kind_of_part_can_be_read() -> None:
    kinds = {type(part).__name__.lower() for part in every_part()}
    read = {part["kind"] for part in json.loads(View("t", every_part()).json())["parts"]}
    assert read == kinds and len(kinds) == 12
    assert Series("a", [1], [2]).spread is None


def test_a_picture_below_a_map_is_read_again() -> None:
    for shape in ((4, 6, 3), (4, 6)):
        picture = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        view = View("Over", [Heatmap(np.eye(2), (), (), backdrop=picture)])
        assert view_of(json.loads(view.json())).svg() == view.svg()
