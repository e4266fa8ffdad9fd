"""Every picture that the project draws, from fixed values and from the frozen runs; and what two folders of them differ
in.

    python -m benchmarks.pictures draw OUT
    python -m benchmarks.pictures compare BEFORE AFTER

A change that should leave pictures as they are draws them before and after. Numbers are compared to a tolerance,
embedded images by their pixels, and everything else exactly. Times and ids that are made of the content are passed
over.

    OUT/fixed/      every kind of part, alignments, trees, learning curves and a tour's report, from fixed values
    OUT/looks/      what instruments show of the frozen runs: RUN/INSTRUMENT.svg, .html and .txt
    OUT/commands/   what other commands draw: translate --attention, parse, probe, prune, compare --curves, look at
                    several runs
    OUT/tour/       the tour at its quickest
"""

import argparse
import io
import json
import os
import re
import shutil
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib.image
import numpy as np
import torch

import clew
from clew.data.syntax.trees import parse_tree
from clew.drawing.alignments import Drawn, alignment_figure, alignment_svg
from clew.drawing.curves import Curve, Curves, Panel, figure
from clew.drawing.curves_page import page
from clew.drawing.tree_drawing import tree_html, tree_svg, tree_text, trees_svg
from clew.drawing.views import (
    Bars,
    Branch,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Node,
    Note,
    Overlays,
    Part,
    Points,
    Series,
    Spelled,
    Table,
    View,
)
from clew.tour.experiment import Finding
from clew.tour.report import report_html
from tests.runs.frozen.asking import command

FROZEN = Path(__file__).parents[1] / "tests" / "runs" / "frozen" / "format-1"
WORDS = ["the", "ball", "of", "thread", "was", "small", "<and>", 'red & "old"', "猫"]
TREE = (
    "(S (NP (DT the) (JJ red) (NN thread)) (VP (VBZ leads) (PP (IN out) (PP (IN of) (NP (DT the) (NN maze))))) (. .))"
)
UNTIMED = "cost"
"""The stop of a tour that takes the time of layers."""


def fixed_parts() -> dict[str, Part]:
    """A part of every kind, and of those with forms that are drawn otherwise one of each form."""
    waves = np.sin(np.arange(54).reshape(6, 9) / 3)
    large = np.cos(np.arange(60 * 60).reshape(60, 60) / 97)
    x = list(range(1, 25))
    curves = [
        Series(f"model {n}", x, [3 / (n + step) + 0.5 for step in x], [0.1 / step for step in x]) for n in range(1, 4)
    ]
    groups = [Series("nouns", [0.1, 0.5, 0.9], [0.2, 0.7, 0.4]), Series("verbs", [0.3], [0.8])]
    powers = Series("power", [1, 10, 100, 1000], [1.0, 0.1, 0.012, 0.0009])
    nodes = [
        Branch(None, "<s>", 0.0, best=True),
        Branch(0, "the", -0.5, best=True),
        Branch(0, "a", -1.25, note="kept until here"),
    ]
    nodes += [
        Branch(1, "thread", -0.9, best=True),
        Branch(1, "door", -1.5, kept=False),
        Branch(2, "lamp", -2.0, kept=False),
    ]
    boxes = [
        Node("x", ["(1, 3)", "0.5"], "input"),
        Node("W", ["(3, 3)"], "parameter"),
        Node("matmul", ["(1, 3)"]),
        Node("loss", [], "output"),
    ]
    return {
        "note": Note("A paragraph that is long enough to be broken into lines, " * 4),
        "heatmap": Heatmap(waves, [f"row {n}" for n in range(6)], WORDS, "A small map", "target", "source"),
        "heatmap-diverging": Heatmap(
            waves, [f"row {n}" for n in range(6)], WORDS, "Around 0", low=-1.5, high=1.5, diverging=True
        ),
        "heatmap-large": Heatmap(
            large, [str(n) for n in range(60)], [str(n) for n in range(60)], "A large map", diverging=True
        ),
        "spelled": Spelled(
            large, large[:4], ["a", " ", "b", "<eos>"], 1.5, "seconds", "log-mel", "Letters over a sound"
        ),
        "heatmap-gaps": Heatmap(np.where(waves > 0.5, np.nan, waves), [str(n) for n in range(6)], WORDS, "With gaps"),
        "grid": Grid(
            [[waves[:4, :4], waves[2:, 2:]], [waves[1:5, 3:8], np.eye(3)]],
            ["layer 1", "layer 2"],
            ["head 1", "head 2"],
            "Heads",
        ),
        "lines": Lines(curves, "step", "loss", "Three models", thresholds=[("chance", 2.25)]),
        "lines-dashed": Lines([curves[0], Series("dashed", x, [1.0] * 24, dashed=True)], "step", "loss"),
        "lines-logarithmic": Lines([powers], "size", "error", "A power law", log_x=True, log_y=True),
        "bars": Bars(
            ["short", "long", "a name that is longer than the others"], [0.5, -0.25, 1.75], "difference", "Bars"
        ),
        "bars-groups": Bars(["one", "two"], [[0.1, 0.9], [0.4, 0.6]], "share", "In groups", groups=["before", "after"]),
        "points": Points(groups, [["a", "b", "c"], ["d"]], "x", "y", "Map"),
        "text": ColouredText(
            WORDS, [n / 8 for n in range(9)], "Surprisal", "bits", notes=[f"{n} bits" for n in range(9)]
        ),
        "text-joined": ColouredText(
            list("thread"), [0.5, -0.5, 1, -1, 0, 0.25], diverging=True, low=-1, high=1, joined=True
        ),
        "table": Table(
            ["name", "value", "share"],
            [["first", 12345, 0.5], ["second & third", None, 0.0001], ["<b>", -3, 1.0]],
            "Table",
        ),
        "branches": Branches(nodes, "A search"),
        "overlays": Overlays(
            np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3),
            WORDS[:2],
            [np.eye(2), waves[:2, :2] ** 2],
            (4, 4),
            "Looks",
        ),
        "network": Network(boxes, [(0, 2, "0.5"), (1, 2, ""), (2, 3, "1")], "A graph"),
    }


def draw_fixed(out: Path) -> None:
    parts = fixed_parts()
    views = {
        name: View(name.capitalize(), [part], "What it shows.\nAnd a second line.") for name, part in parts.items()
    }
    views["everything"] = View("Everything", list(parts.values()), "All parts below each other.")
    for name, view in views.items():
        for ending in ("svg", "html", "json", "png"):
            view.save(out / f"view-{name}.{ending}")
        (out / f"view-{name}-notebook.html").write_text(view._repr_html_(), encoding="utf-8")
    weights = [[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.25, 0.25, 0.5]]
    alignments = [
        Drawn(["der", "rote", "Faden"], ["the", "red", "thread"], weights),
        Drawn(["ja"], ["yes", "<s>"], [[1.0], [0.004]]),
    ]
    trees = [parse_tree(TREE), parse_tree("(TOP (X (Y a) (Z -LRB-)))")]
    panels = [
        Panel(
            "Training loss", "nats", tuple(Curves(f"group {n}", (curve(n, 80), curve(n + 0.25, 60))) for n in (1, 2))
        ),
        Panel("Validation loss", "nats", (Curves("group 1", (curve(1, 8),)), Curves("group 2", ()))),
    ]
    finding = Finding(
        "A claim", "It is claimed.", "It was found.", views["lines"], [("loss", "falls", "fell by 0.5")], 2.0
    )
    alignment_figure(alignments).savefig(out / "alignments.png")
    figure(panels, "Curves").savefig(out / "curves.png")
    texts = {
        **{f"alignments-{theme}.svg": alignment_svg(alignments, theme) for theme in ("auto", "light", "dark")},
        **{f"tree-{theme}.svg": tree_svg(trees[0], theme) for theme in ("auto", "light", "dark")},
        "trees.svg": trees_svg(trees),
        "tree.html": tree_html(trees[0]),
        "tree.txt": tree_text(trees[0]) + "\n" + tree_text(trees[0], ascii=True),
        "curves.html": page(panels, "Curves", "Two groups.", (["group", "loss"], [["1", "0.5"], ["2", "0.75"]])),
        "report.html": report_html({"models": finding, "reach": finding}, "quick", 0),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")


def curve(start: float, length: int) -> Curve:
    return Curve(tuple(range(1, length + 1)), tuple(start + 2 / step for step in range(1, length + 1)))


def draw_looks(out: Path) -> None:
    """All instruments that fit each frozen run, with the options that were recorded of them."""
    for folder in sorted(Path().glob("*/recorded.json")):
        name, run = folder.parent.name, str(folder.parent / "run")
        looks = {
            each["instrument"]: each["options"] for each in json.loads(folder.read_text(encoding="utf-8"))["looks"]
        }
        if "tokens" in looks:
            looks["graph"] = looks["tokens"]
        code = [f"{run}/code.py"] if Path(run, "code.py").exists() else []
        loaded = clew.load(run, device="cpu", code=code[0] if code else None)
        (out / name).mkdir()
        for instrument, options in looks.items():
            view = clew.look(loaded, instrument, **options)
            for ending in ("svg", "html"):
                view.save(out / name / f"{instrument}.{ending}")
            words = [
                f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}"
                for key, value in options.items()
                if key != "text"
            ]
            text = ["--text", options["text"]] if "text" in options else []
            told = command(
                "look", instrument, run, *words, *text, "--device", "cpu", *(["--code", *code] if code else [])
            )
            assert told.status == 0, told.err
            (out / name / f"{instrument}.txt").write_text(told.out, encoding="utf-8")


def draw_commands(out: Path) -> None:
    several = ["language_model/run", "language_model_finetuned/run"]
    text = ["--text", "the thread was cut"]
    commands = {
        "alignments.svg": ["translate", "translation/run", "--file", "translation/asked.txt", "--attention", "FILE"],
        "alignments-transformer.svg": [
            "translate",
            "translation_encoder/run",
            "door stands blue",
            "--attention",
            "FILE",
        ],
        "trees.svg": ["parse", "parsing/run", "--file", "parsing/asked.txt", "--format", "svg", "--out", "FILE"],
        "trees.txt": ["parse", "parsing/run", "--file", "parsing/asked.txt", "--format", "text", "--out", "FILE"],
        "probing.svg": ["probe", "language_model/run", "--limit", "40", "--control", "--out", "FILE"],
        "curves.html": ["compare", *several, "--curves", "FILE"],
        "curves.png": ["compare", *several, "--curves", "FILE"],
        "compared-surprisal.html": ["look", "surprisal", *several, *text, "--out", "FILE"],
        "compared-attention.svg": ["look", "attention", *several, *text, "--out", "FILE"],
        "compared-cka.svg": ["look", "cka", *several, "corpus=own", "sentences=12", "--out", "FILE"],
        "compared-curves.svg": ["look", "curves", *several, "--out", "FILE"],
        "compared-contextuality.svg": [
            "look",
            "contextuality",
            *several,
            "corpus=own",
            "sentences=12",
            "least=2",
            "--out",
            "FILE",
        ],
        "heads-off.svg": [
            "look",
            "attention",
            several[0],
            *text,
            "off=1.1",
            "layer=1",
            "head=2",
            "kind=scores",
            "--out",
            "FILE",
        ],
        "attribution-occlusion.svg": [
            "look",
            "attribution",
            "classification/run",
            *text,
            "method=occlusion",
            "--out",
            "FILE",
        ],
    }
    for name, words in commands.items():
        found = command(*(str(out / name) if word == "FILE" else word for word in words))
        assert found.status == 0, found.err
    found = command("prune", "language_model/run", "--heads", "0.5", "--points", "4", "--out", "pruned")
    assert found.status == 0, found.err
    shutil.copy("pruned/pruning.html", out / "pruning.html")


def draw_tour(out: Path) -> None:
    stops = [each["name"] for each in command("tour", "--list", "--json").objects if each["name"] != UNTIMED]
    found = command("tour", "--only", *stops, "--scale", "quick", "--folder", "tour", "--out", str(out / "report.html"))
    assert found.status == 0, found.err


DRAWINGS = {"fixed": draw_fixed, "looks": draw_looks, "commands": draw_commands, "tour": draw_tour}


def draw(out: Path, only: list[str]) -> None:
    """Draws in a copy of the frozen runs, by one thread, so that the same code draws the same."""
    out = out.resolve()
    torch.set_num_threads(1)
    there = os.getcwd()
    with TemporaryDirectory() as folder:
        shutil.copytree(FROZEN, folder, dirs_exist_ok=True)
        os.environ["CLEW_CACHE"] = f"{folder}/cache"
        os.chdir(folder)
        try:
            for name in only or DRAWINGS:
                shutil.rmtree(out / name, ignore_errors=True)
                (out / name).mkdir(parents=True)
                DRAWINGS[name](out / name)
                files = [path for path in (out / name).rglob("*") if path.is_file()]
                print(
                    f"{name}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB", flush=True
                )
        finally:
            os.chdir(there)


IMAGE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
PASSED_OVER = [
    (re.compile(r"\bv[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b(?:\d[\d.,]*|a) (?:ms|seconds?|minutes?|s)\b"), "TIME"),
    (re.compile(r"torch \d[\w.+]*"), "TORCH"),
]
"""What differs from one drawing to the next: ids that are a hash of the content, times, and the version of torch."""
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
MOST_SHOWN = 3
"""Differences that are shown of a file."""
PIXEL = 2 / 255
"""How far the channel of a pixel may be from the other."""


def compare(before: Path, after: Path, relative: float) -> list[str]:
    """A line for every file that is missing, new or different."""
    names = [
        {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        for folder in (before, after)
    ]
    found = [f"{name}: it is not drawn any more" for name in sorted(names[0] - names[1])]
    found += [f"{name}: it was not drawn before" for name in sorted(names[1] - names[0])]
    for name in sorted(names[0] & names[1]):
        found += [f"{name}: {difference}" for difference in differences(before / name, after / name, relative)]
    return found


def differences(before: Path, after: Path, relative: float) -> list[str]:
    if before.read_bytes() == after.read_bytes():
        return []
    if before.suffix == ".png":
        return list(image_differences(before.read_bytes(), after.read_bytes()))
    return list(text_differences(before.read_text(encoding="utf-8"), after.read_text(encoding="utf-8"), relative))[
        :MOST_SHOWN
    ]


def text_differences(before: str, after: str, relative: float) -> Iterator[str]:
    for pair in zip(IMAGE.findall(before), IMAGE.findall(after), strict=False):
        yield from image_differences(*map(b64decode, pair))
    one, other = prepared(before), prepared(after)
    if len(one) != len(other):
        yield (
            f"the text had {len(one) // 2} numbers and has {len(other) // 2}; it differs from"
            f" {first_difference(one, other)} on"
        )
        return
    for place, (then, now) in enumerate(zip(one, other, strict=True)):
        if then != now and not (place % 2 and numbers_agree(then, now, relative)):
            yield f"{context(one, place)} has become {context(other, place)}"


def prepared(text: str) -> list[str]:
    """A text cut at its numbers: pieces between them at even places, numbers at odd ones. Colours are no numbers."""
    text = IMAGE.sub("IMAGE", text)
    for pattern, instead in PASSED_OVER:
        text = pattern.sub(instead, text)
    colours = COLOUR.findall(text)
    pieces = re.split(f"({NUMBER.pattern})", COLOUR.sub("\0", text))
    remaining = iter(colours)
    return [re.sub("\0", lambda _: next(remaining), piece) for piece in pieces]


def numbers_agree(one: str, other: str, relative: float) -> bool:
    """Whether they differ by the tolerance, or in the last digit behind a point."""
    last = max(
        10.0 ** -len(each.partition("e")[0].partition(".")[2]) if "." in each and "e" not in each else 0.0
        for each in (one, other)
    )
    return abs(float(one) - float(other)) <= max(relative * max(abs(float(one)), abs(float(other))), 1.01 * last)


def first_difference(one: list[str], other: list[str]) -> str:
    place = next(
        (place for place, (then, now) in enumerate(zip(one, other, strict=False)) if then != now),
        min(len(one), len(other)) - 1,
    )
    return context(one, place)


def context(pieces: list[str], place: int) -> str:
    before = "".join(pieces[max(place - 4, 0) : place])[-40:]
    after = "".join(pieces[place + 1 : place + 4])[:30]
    return repr(f"{before}[{pieces[place][:60]}]{after}")


def image_differences(before: bytes, after: bytes) -> Iterator[str]:
    one, other = (matplotlib.image.imread(io.BytesIO(each), format="png") for each in (before, after))
    if one.shape != other.shape:
        yield (
            f"an image of {one.shape[1]} x {one.shape[0]} pixels has become one of {other.shape[1]} x {other.shape[0]}"
        )
    elif (changed := np.abs(one - other).reshape(*one.shape[:2], -1).max(-1) > PIXEL).any():
        yield f"{changed.sum()} of {changed.size} pixels of an image are others"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pictures", description="draw all pictures, or compare two folders of them"
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw", help="draw all pictures")
    drawing.add_argument("out", type=Path)
    drawing.add_argument("--only", nargs="+", choices=list(DRAWINGS), default=[])
    comparing = verbs.add_parser("compare", help="what two folders of pictures differ in")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument(
        "--tolerance", type=float, default=1e-3, help="how far numbers may be apart, relatively (default 0.001)"
    )
    options: Any = parser.parse_args(arguments)
    if options.verb == "draw":
        draw(options.out, options.only)
        return 0
    found = compare(options.before, options.after, options.tolerance)
    for line in found:
        print(line)
    print(f"{len(found)} differences" if found else "no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
