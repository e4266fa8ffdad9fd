"""Draw up the trees of sentences with a trained parser: a sentence a line, its words parted by spaces, from a file or standard input.

Words are taken as they are parted: write 'It rains .' and not 'It rains.' One tree a line comes out, in the same order, and an empty
line for an empty one. With --n-best, each tree's line begins with its sentence's number and its score, a tab after each.

  echo 'The gene is expressed in the brain .' | clew parse runs/craft-parser
  clew parse runs/craft-parser --file sentences.txt --out trees.mrg
  clew parse runs/craft-parser --file sentences.txt --format text --n-best 3
  clew parse runs/craft-parser --file sentences.txt --format svg --out trees.svg
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

BATCH = 64
"""Sentences that are read before they are parsed; at a terminal, each is."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="RUN", help="a run directory")
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", metavar="FILE", default="-", help="sentences, one a line; - is standard input (default)")
    add("--beams", type=int, metavar="N", help="beam search's width (default: the run's)")
    add("--n-best", type=int, metavar="N", help="trees of each sentence, best first, with their scores (default: the best alone)")
    add("--format", choices=["brackets", "text", "svg", "json"], default="brackets", help="brackets (default), drawings, or JSON lines")
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run

    given = {name: getattr(options, name) for name in ("beams", "n_best") if getattr(options, name) is not None}
    for name, value in given.items():
        if value < 1:
            raise UserError(f"--{name.replace('_', '-')} ({value}) must be at least 1")
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    with_scores = options.n_best is not None or run.config.decoding.n_best > 1
    show = {"brackets": as_brackets, "text": as_text, "svg": as_svg, "json": as_json}[options.format]
    with Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout) as file:
        for text in show(parsed(run, lines_of(options.file), given), with_scores):
            file.write(text)
            file.flush()
    return 0


Parsed = Iterator[tuple[str, list[Any]]]
"""Each line and its trees, best first."""


def parsed(run: Any, lines: Iterator[str], given: dict[str, int]) -> Parsed:
    size, first = 1 if sys.stdin.isatty() else BATCH, 1
    while some := list(islice(lines, size)):
        for line, found in zip(some, run.parse(some, first=first, **given), strict=True):
            yield line, found if isinstance(found, list) else [] if found is None else [found]
        first += len(some)


def as_brackets(parsed: Parsed, with_scores: bool) -> Iterator[str]:
    for number, (_, found) in enumerate(parsed, start=1):
        lines = [f"{number}\t{one.score:.4f}\t{one}\n" if with_scores else f"{one}\n" for one in found]
        yield "".join(lines) or "\n"


def as_text(parsed: Parsed, with_scores: bool) -> Iterator[str]:
    from clew.inspection.tree_drawing import tree_text

    for number, (_, found) in enumerate(parsed, start=1):
        for one in found:
            above = f"sentence {number}, score {one.score:.4f}\n" if with_scores else ""
            yield f"{above}{tree_text(one.tree)}\n\n"


def as_svg(parsed: Parsed, with_scores: bool) -> Iterator[str]:
    """One picture of all trees, one below the other, once the last is there."""
    from clew.inspection.tree_drawing import trees_svg

    yield trees_svg([one.tree for _, found in parsed for one in found])


def as_json(parsed: Parsed, with_scores: bool) -> Iterator[str]:
    for line, found in parsed:
        trees = [{"tree": str(one), "log_prob": one.log_prob, "score": one.score} for one in found]
        yield json.dumps({"sentence": line, "trees": trees}, ensure_ascii=False) + "\n"


def lines_of(name: str) -> Iterator[str]:
    """The lines of a file or of standard input, without their ends, as they come."""
    from clew.core.errors import UserError
    from clew.data.lines import opened

    if name != "-":
        with opened(Path(name)) as file:
            yield from without_ends(file)
        return
    try:
        yield from without_ends(sys.stdin)
    except UnicodeDecodeError:
        raise UserError("standard input is not UTF-8; convert it first, e.g. iconv -f latin1 -t utf-8") from None


def without_ends(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        yield (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
