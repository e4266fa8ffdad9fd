"""`python -m docs.pictures`: draw the pictures of the documentation whose figures it records itself.

thread.svg        the lineage as a thread
bottleneck.svg    the table of BLEU by source length in results.md
alignment.svg     the weights in the picture itself, in the present style
"""

from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.by_length import BINS, bin_name, view_of
from clew.drawing.alignments import CELL, GAP, Drawn, alignment_svg
from clew.drawing.shapes import Dot, Label, Picture, Place, Shape, Stroke
from clew.drawing.standalone import below_each_other

DOCS = Path(__file__).parent
SVG = "{http://www.w3.org/2000/svg}"
STOPS = (
    ("Elman RNN", 1990),
    ("LSTM", 1997),
    ("window NLM", 2003),
    ("GRU, attention", 2014),
    ("Transformer", 2017),
    ("GPT", 2018),
    ("Llama", 2023),
)
WIDTH, HEIGHT = 960, 210
BALL, RADIUS = (66.0, 100.0), 30.0
FIRST, STEP, HIGH, LOW = 176.0, 109.0, 76.0, 134.0
"""The place of the first model, the distance of two, and the heights of the upper and the lower ones."""
YARN = (
    ((-26, -15), (0, 15), (26, -13)),
    ((-24, 13), (0, -17), (24, 15)),
    ((-12, -27), (-4, 1), (-10, 27)),
    ((12, -27), (2, 1), (10, 27)),
)
"""The windings of the ball, from its middle: a start, a control point and an end."""


def thread() -> str:
    places = [(FIRST + STEP * number, LOW if number % 2 else HIGH) for number in range(len(STOPS))]
    start, end = (BALL[0] + RADIUS, BALL[1]), (WIDTH - 20.0, BALL[1] + 6)
    shapes: list[Shape] = [Stroke(through([start, *places, end]), "line-3", curved=True)]
    shapes += [Dot(*BALL, RADIUS, "ring-3"), Dot(*BALL, RADIUS - 8, "ring-3")]
    shapes += [Stroke(winding(*points), "line-3", curved=True) for points in YARN]
    shapes.append(Label(BALL[0], BALL[1] + RADIUS + 26, "clew", "brand"))
    for (name, year), (x, y) in zip(STOPS, places, strict=True):
        above = y == HIGH
        shapes.append(Dot(x, y, 6, "point-3"))
        shapes.append(Label(x, y - 36 if above else y + 32, name, "stop"))
        shapes.append(Label(x, y - 17 if above else y + 51, str(year), "stop-note"))
    about = "The lineage of neural sequence models as a thread: " + ", ".join(f"{name} {year}" for name, year in STOPS)
    return below_each_other([Picture(WIDTH, HEIGHT, shapes)], about)


def through(points: list[Place]) -> list[Place]:
    """A curve through points that is level at each."""
    curve = points[:1]
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = (x + next_x) / 2
        curve += [(middle, y), (middle, next_y), (next_x, next_y)]
    return curve


def winding(start: Place, control: Place, end: Place) -> list[Place]:
    """A quadratic curve of the ball as a cubic one."""
    inner = [((other[0] + 2 * control[0]) / 3, (other[1] + 2 * control[1]) / 3) for other in (start, end)]
    return [(BALL[0] + x, BALL[1] + y) for x, y in (start, *inner, end)]


def bottleneck(results: str) -> str:
    """The table of BLEU by source length in results.md as a picture."""
    header, *rows = (
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in results.partition("### BLEU by source length")[2].partition("\n### ")[0].splitlines()
        if line.startswith("| ")
    )
    assert header[1:] == [bin_name(*each) for each in BINS]
    return view_of(
        {name: {each: (0, float(score)) for each, score in zip(BINS, scores, strict=True)} for name, *scores in rows}
    ).svg()


def alignment(picture: str) -> str:
    """A picture of one alignment, drawn again from the words and the weights that it contains."""
    root = ElementTree.fromstring(picture)
    labels = [each for each in root.iter(f"{SVG}text") if each.get("class", "").startswith("word")]
    source, target = ([each for each in labels if ("transform" in each.attrib) is leaning] for leaning in (True, False))
    left, top = float(target[0].attrib["x"]) + GAP, float(source[0].attrib["y"]) + GAP
    weights = [[0.0] * len(source) for _ in target]
    for box in root.iter(f"{SVG}rect"):
        if "fill-opacity" in box.attrib:
            row, column = (float(box.attrib["y"]) - top) / CELL, (float(box.attrib["x"]) - left) / CELL
            weights[round(row)][round(column)] = float(box.attrib["fill-opacity"])
    return alignment_svg([Drawn([each.text or "" for each in source], [each.text or "" for each in target], weights)])


def pictures() -> dict[str, str]:
    """The content of each file."""
    return {
        "thread.svg": thread(),
        "bottleneck.svg": bottleneck((DOCS / "results.md").read_text(encoding="utf-8")),
        "alignment.svg": alignment((DOCS / "alignment.svg").read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (DOCS / name).write_text(picture.rstrip("\n") + "\n", encoding="utf-8")
