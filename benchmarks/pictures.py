"""Draw every picture of the project, from fixed values and from the frozen runs, and compare two folders of pictures.

    python -m benchmarks.pictures draw OUT
    python -m benchmarks.pictures compare BEFORE AFTER

To check that a change does not affect pictures, draw them before and after it. Numbers are compared with a tolerance,
embedded images by their pixels, and everything else exactly. Times and ids that are hashes of the content are ignored.

    OUT/fixed/      every kind of part, alignments, trees, learning curves and a tour's report, from fixed values
    OUT/looks/      views of the frozen runs by all instruments: RUN/INSTRUMENT.svg, .html and .txt
    OUT/commands/   pictures of other commands: translate --attention, parse, probe, prune, compare --curves, and look
                    with several runs
    OUT/tour/       the tour at its smallest scale
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
from clew.core.errors import counted
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
TIMED_STOP = "cost"
"""The stop of the tour that times layers, so its pictures change in every run."""


def fixed_parts() -> dict[str, Part]:
    """Build a part of every kind, in every form that is drawn differently."""
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
        for suffix in ("svg", "html", "json", "png"):
            view.save(out / f"view-{name}.{suffix}")
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
    """Draw all instruments that apply to each frozen run, with their recorded options."""
    for recorded in sorted(Path().glob("*/recorded.json")):
        name, run = recorded.parent.name, str(recorded.parent / "run")
        looks = {
            look["instrument"]: look["options"] for look in json.loads(recorded.read_text(encoding="utf-8"))["looks"]
        }
        if "tokens" in looks:
            looks["graph"] = looks["tokens"]
        code = [f"{run}/code.py"] if Path(run, "code.py").exists() else []
        loaded = clew.load(run, device="cpu", code=code[0] if code else None)
        (out / name).mkdir()
        for instrument, options in looks.items():
            view = clew.look(loaded, instrument, **options)
            for suffix in ("svg", "html"):
                view.save(out / name / f"{instrument}.{suffix}")
            settings = [
                f"{key}={','.join(map(str, value)) if isinstance(value, list) else value}"
                for key, value in options.items()
                if key != "text"
            ]
            text = ["--text", options["text"]] if "text" in options else []
            result = command(
                "look", instrument, run, *settings, *text, "--device", "cpu", *(["--code", *code] if code else [])
            )
            assert result.status == 0, result.err
            (out / name / f"{instrument}.txt").write_text(result.out, encoding="utf-8")


def draw_commands(out: Path) -> None:
    two_runs = ["language_model/run", "language_model_finetuned/run"]
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
        "curves.html": ["compare", *two_runs, "--curves", "FILE"],
        "curves.png": ["compare", *two_runs, "--curves", "FILE"],
        "compared-surprisal.html": ["look", "surprisal", *two_runs, *text, "--out", "FILE"],
        "compared-attention.svg": ["look", "attention", *two_runs, *text, "--out", "FILE"],
        "compared-cka.svg": ["look", "cka", *two_runs, "corpus=own", "sentences=12", "--out", "FILE"],
        "compared-curves.svg": ["look", "curves", *two_runs, "--out", "FILE"],
        "compared-contextuality.svg": [
            "look",
            "contextuality",
            *two_runs,
            "corpus=own",
            "sentences=12",
            "least=2",
            "--out",
            "FILE",
        ],
        "heads-off.svg": [
            "look",
            "attention",
            two_runs[0],
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
    for name, arguments in commands.items():
        result = command(*(str(out / name) if argument == "FILE" else argument for argument in arguments))
        assert result.status == 0, result.err
    result = command("prune", "language_model/run", "--heads", "0.5", "--points", "4", "--out", "pruned")
    assert result.status == 0, result.err
    shutil.copy("pruned/pruning.html", out / "pruning.html")


def draw_tour(out: Path) -> None:
    stops = [stop["name"] for stop in command("tour", "--list", "--json").objects if stop["name"] != TIMED_STOP]
    result = command(
        "tour", "--only", *stops, "--scale", "quick", "--folder", "tour", "--out", str(out / "report.html")
    )
    assert result.status == 0, result.err


DRAWINGS = {"fixed": draw_fixed, "looks": draw_looks, "commands": draw_commands, "tour": draw_tour}


def draw(out: Path, only: list[str]) -> None:
    """Draw pictures in a copy of the frozen runs, with one thread so that they are reproducible."""
    out = out.resolve()
    torch.set_num_threads(1)
    previous = os.getcwd()
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
            os.chdir(previous)


IMAGE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]+)")
IGNORED = [
    (re.compile(r"\bv[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b(?:\d[\d.,]*|a) (?:ms|seconds?|minutes?|s)\b"), "TIME"),
    (re.compile(r"torch \d[\w.+]*"), "TORCH"),
]
"""Text that may change without a change of the picture: ids that hash the content, times, and the version of torch."""
COLOUR = re.compile(r"#[0-9a-fA-F]{3,8}\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
MAX_DIFFERENCES = 3
"""The number of differences listed per file."""
PIXEL_TOLERANCE = 2 / 255
"""The allowed difference of a pixel's channel."""


def compare(before: Path, after: Path, relative: float) -> list[str]:
    """Describe every file that is missing, new or different."""
    names = [
        {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        for folder in (before, after)
    ]
    lines = [f"{name}: no longer drawn" for name in sorted(names[0] - names[1])]
    lines += [f"{name}: new" for name in sorted(names[1] - names[0])]
    for name in sorted(names[0] & names[1]):
        lines += [f"{name}: {difference}" for difference in differences(before / name, after / name, relative)]
    return lines


def differences(before: Path, after: Path, relative: float) -> list[str]:
    if before.read_bytes() == after.read_bytes():
        return []
    if before.suffix == ".png":
        return list(image_differences(before.read_bytes(), after.read_bytes()))
    return list(text_differences(before.read_text(encoding="utf-8"), after.read_text(encoding="utf-8"), relative))[
        :MAX_DIFFERENCES
    ]


def text_differences(before: str, after: str, relative: float) -> Iterator[str]:
    for pair in zip(IMAGE.findall(before), IMAGE.findall(after), strict=False):
        yield from image_differences(*map(b64decode, pair))
    old, new = split_at_numbers(before), split_at_numbers(after)
    if len(old) != len(new):
        yield (
            f"the text had {len(old) // 2} numbers and now has {len(new) // 2}; the first difference is at"
            f" {first_difference(old, new)}"
        )
        return
    for index, (then, now) in enumerate(zip(old, new, strict=True)):
        if then != now and not (index % 2 and numbers_agree(then, now, relative)):
            yield f"{context(old, index)} changed to {context(new, index)}"


def split_at_numbers(text: str) -> list[str]:
    """Split a text at its numbers: numbers have odd indices. Colours are not numbers."""
    text = IMAGE.sub("IMAGE", text)
    for pattern, placeholder in IGNORED:
        text = pattern.sub(placeholder, text)
    colours = COLOUR.findall(text)
    pieces = re.split(f"({NUMBER.pattern})", COLOUR.sub("\0", text))
    remaining = iter(colours)
    return [re.sub("\0", lambda _: next(remaining), piece) for piece in pieces]


def numbers_agree(old: str, new: str, relative: float) -> bool:
    """Whether two numbers differ by at most the relative tolerance, or by one in the last decimal place."""
    last_digit = max(
        10.0 ** -len(number.partition(".")[2]) if "." in number and "e" not in number else 0.0 for number in (old, new)
    )
    return abs(float(old) - float(new)) <= max(relative * max(abs(float(old)), abs(float(new))), 1.01 * last_digit)


def first_difference(old: list[str], new: list[str]) -> str:
    index = next(
        (index for index, (then, now) in enumerate(zip(old, new, strict=False)) if then != now),
        min(len(old), len(new)) - 1,
    )
    return context(old, index)


def context(pieces: list[str], index: int) -> str:
    before = "".join(pieces[max(index - 4, 0) : index])[-40:]
    after = "".join(pieces[index + 1 : index + 4])[:30]
    return repr(f"{before}[{pieces[index][:60]}]{after}")


def image_differences(before: bytes, after: bytes) -> Iterator[str]:
    old, new = (matplotlib.image.imread(io.BytesIO(content), format="png") for content in (before, after))
    if old.shape != new.shape:
        yield f"an image of {old.shape[1]} x {old.shape[0]} pixels now has {new.shape[1]} x {new.shape[0]}"
    elif (changed := np.abs(old - new).reshape(*old.shape[:2], -1).max(-1) > PIXEL_TOLERANCE).any():
        yield f"{changed.sum()} of {changed.size} pixels of an image differ"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pictures", description="draw all pictures, or compare two folders of them"
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw", help="draw all pictures")
    drawing.add_argument("out", type=Path)
    drawing.add_argument("--only", nargs="+", choices=list(DRAWINGS), default=[])
    comparing = verbs.add_parser("compare", help="compare two folders of pictures")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument(
        "--tolerance", type=float, default=1e-3, help="relative tolerance of numbers (default: 0.001)"
    )
    options: Any = parser.parse_args(arguments)
    if options.verb == "draw":
        draw(options.out, options.only)
        return 0
    lines = compare(options.before, options.after, options.tolerance)
    for line in lines:
        print(line)
    print(counted(len(lines), "difference") if lines else "no differences")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
