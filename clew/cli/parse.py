"""Draw up the trees of sentences with a trained parser.

Every TEXT, or else every line of standard input or of --file, is a sentence whose words stand apart: nothing is split here,
so write 'It rains .' and not 'It rains.' Its tree is one line of standard output, in the same order and as soon as it is
there; an empty line has an empty one.

  clew parse runs/craft-parser 'The gene is expressed in the brain .' --format text
  echo 'The gene is expressed in the brain .' | clew parse runs/craft-parser
  clew parse runs/craft-parser --file sentences.txt --out trees.mrg
  clew parse runs/craft-parser --file sentences.txt --n-best 3
  clew parse runs/craft-parser --file sentences.txt --format text
  clew parse runs/craft-parser --file sentences.txt --format svg --out trees.svg

With --n-best, every sentence has so many lines, `tree<TAB>score`, and an empty line after them. The score is
log p / length^X, X being the run's decoding.length_penalty.

--format text draws trees for a terminal (`| less -S` for wide ones), svg as one picture of all of them, and json has one
object a tree.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("texts", metavar="TEXT", nargs="*", default=[], help="sentences to parse (default: lines of --file, or of standard input)")
    add("--file", metavar="FILE", help="what to parse, a sentence a line (default: standard input)")
    add("--beams", type=int, metavar="N", help="beam search's width (default: the run's)")
    add("--n-best", type=int, metavar="N", help="trees shown of each sentence, best first")
    add("--format", choices=["brackets", "text", "svg", "json"], default="brackets", help="how trees are shown (default: brackets)")
    add("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def run(options: argparse.Namespace) -> int:
    from clew.cli.texts import check_texts, place_of, placed
    from clew.runs.loaded import check_verb, load_run

    check_texts(options)
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    check_verb(run, "parse")
    changed = {name: getattr(options, name) for name in ("beams", "n_best") if getattr(options, name) is not None}
    texts = FORMATS[options.format](parsed_lines(run, options, changed))
    with (
        Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout) as file,
        placed(place_of(options.texts, options.file)),
    ):
        for text in texts:
            file.write(text)
            file.flush()
    return 0


class Line:
    """A sentence and its trees, best first; `several` are asked for."""

    def __init__(self, number: int, sentence: str, found: Any):
        self.number = number
        self.sentence = sentence
        self.several = isinstance(found, list)
        self.trees: list[Any] = found if isinstance(found, list) else [] if found is None else [found]


def parsed_lines(run: Any, options: argparse.Namespace, changed: dict[str, int]) -> Iterator[list[Line]]:
    """Some at a time, as they arrive."""
    from clew.cli.texts import some_texts

    first = 1
    for sentences in some_texts(options.texts, options.file, "sentences"):
        found = run.parse(sentences, first=first, **changed)
        yield [Line(number, *pair) for number, pair in enumerate(zip(sentences, found, strict=True), start=first)]
        first += len(sentences)


def as_brackets(parsed: Iterator[list[Line]]) -> Iterator[str]:
    for lines in parsed:
        for line in lines:
            trees = [f"{one}\t{one.score:.4f}" if line.several else str(one) for one in line.trees]
            yield "\n".join([*trees, ""] if line.several else trees) + "\n"


def as_text(parsed: Iterator[list[Line]]) -> Iterator[str]:
    from clew.drawing.tree_drawing import tree_text

    for lines in parsed:
        for line in lines:
            for one in line.trees:
                score = f"line {line.number}, score {one.score:.4f}\n" if line.several else ""
                yield f"{score}{tree_text(one.tree)}\n\n"


def as_svg(parsed: Iterator[list[Line]]) -> Iterator[str]:
    from clew.drawing.tree_drawing import trees_svg

    yield trees_svg([one.tree for lines in parsed for line in lines for one in line.trees]) + "\n"


def as_json(parsed: Iterator[list[Line]]) -> Iterator[str]:
    from clew.cli.lines import json_line
    from clew.runs import as_json as objects

    for lines in parsed:
        for line in lines:
            yield from (json_line(one) + "\n" for one in objects.parsed(line.number, line.sentence, line.trees))


FORMATS = {"brackets": as_brackets, "text": as_text, "svg": as_svg, "json": as_json}
