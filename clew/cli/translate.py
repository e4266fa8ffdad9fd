"""`clew translate`: translate lines, score existing translations, and draw alignments. The options shared with
`clew predict` come from the form."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from itertools import islice
from pathlib import Path
from typing import Any

from clew.cli.options.forms import add_form, read_forms
from clew.cli.terminal.progress import say

PICTURES = (".svg", ".png", ".pdf")
MOST_PICTURES = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_form(parser, "translate", read_forms()["translate"])
    add = parser.add_argument
    add("--score", metavar="TARGETS", help="score the lines of this file as translations instead of translating")
    add("--attention", metavar="FILE", help="write alignments to FILE.jsonl, .svg, .png or .pdf")


def run(options: argparse.Namespace) -> int:
    from clew.cli.options.ask import ask, load_runs, row_values, split_runs
    from clew.cli.options.texts import check_texts, errors_at, place_of
    from clew.runs.asking import check_together

    folders, options.texts = split_runs(options)
    check_texts(options, row_values(options))
    check_used(options)
    alignments = None if options.attention is None else Alignments(options.attention)
    runs = load_runs(options, folders)
    check_together(runs, "translate")
    with alignments or nullcontext():
        if options.score is not None:
            with written_to(options.out), errors_at(place_of(options.texts, options.file)):
                score_lines(runs, options, alignments)
            return 0
        if alignments is None:
            return ask(options, runs)
        return ask(options, runs, on_answer=alignments.see, with_attention=True)


@contextmanager
def written_to(name: str | None) -> Iterator[None]:
    """Redirect what is printed to a file within this context, if one is named."""
    if name is None:
        yield
        return
    with Path(name).open("w", encoding="utf-8", newline="\n") as file, redirect_stdout(file):
        yield


def score_lines(runs: list[Any], options: argparse.Namespace, alignments: "Alignments | None") -> None:
    from clew.data.examples import Pair
    from clew.tasks.translation import align, score_pairs

    tasks, first = [run.task for run in runs], 1
    sources = source_batches(runs[0], options)
    for lines in pair_batches(sources, options.texts, options.file, options.score):
        pairs = [Pair(source, target, into=options.into or "") for source, target in lines]
        for number, scored in enumerate(score_pairs(tasks, pairs, first=first), start=first):
            if options.format == "json":
                fields = {
                    name: getattr(scored, name) for name in ("source", "target", "log_prob", "tokens", "log_probs")
                }
                print(json.dumps({"line": number, **fields}, ensure_ascii=False))
            else:
                print(f"{scored.log_prob:.4f}")
        if alignments is not None:
            for number, alignment in enumerate(align(tasks, pairs, layer=options.layer, first=first), start=first):
                alignments.add(number, 1, alignment)
        sys.stdout.flush()
        first += len(lines)


def source_batches(run: Any, options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield batches of sources: texts, lines, or a column of a table."""
    from clew.cli.options.ask import row_values
    from clew.cli.options.lines import is_table_file, table_fields
    from clew.cli.options.texts import text_batches
    from clew.tasks.use import TextRow

    columns = row_values(options)
    if options.file is None or not (columns or is_table_file(options.file)):
        yield from text_batches(options.texts, options.file, "lines", run.config.data)
        return
    for batch in table_fields(options.file, TextRow, run.config.data, columns):
        yield [fields["text"] for _, fields in batch]


def pair_batches(
    batches: Iterator[list[str]], texts: list[str], sources: str | None, targets: str
) -> Iterator[list[tuple[str, str]]]:
    """Yield batches of sources, each with the target of the same line."""
    from clew.core.errors import UserError, counted
    from clew.data.lines import read_lines

    where = "the command line" if texts else "standard input" if sources in (None, "-") else sources
    target_lines, count = read_lines(Path(targets)), 0
    for lines in batches:
        partners = list(islice(target_lines, len(lines)))
        yield list(zip(lines, partners, strict=False))
        count += len(partners)
        if len(partners) < len(lines):
            raise UserError(
                f"{targets} has {counted(count, 'line')}, but {where} has more: line {count + 1} has no translation"
            )
    if next(target_lines, None) is not None:
        raise UserError(f"{where} has {counted(count, 'line')}, but {targets} has more: line {count + 1} has no source")


def check_used(options: argparse.Namespace) -> None:
    """Refuse options without effect."""
    from clew.core.errors import UserError

    if options.layer is not None and options.attention is None:
        raise UserError("--layer selects the layer that --attention shows; add --attention FILE, or leave --layer out")
    if options.score is None:
        return
    names = [name for name in options.known if name not in ("into", "layer") and getattr(options, name) is not None]
    if names:
        raise UserError(
            f"--{names[0].replace('_', '-')} controls decoding, but --score decodes nothing; leave one of them out"
        )


class Alignments:
    """The file that --attention names: written line by line, or drawn at the end."""

    def __init__(self, name: str):
        from clew.core.errors import UserError

        self.path = Path(name)
        self.kind = self.path.suffix.lower()
        self.kept: list[Any] = []
        self.count = 0
        if self.kind not in (".jsonl", *PICTURES):
            raise UserError(f"--attention ({name}) must end in .jsonl, {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")
        if not self.path.parent.is_dir():
            raise UserError(f"no such folder for --attention: {self.path.parent}; create it first")
        if self.kind in PICTURES[1:]:
            from clew.drawing.figures import load_matplotlib

            load_matplotlib("use .svg, which needs no other package")

    def __enter__(self) -> None:
        self.lines = self.path.open("w", encoding="utf-8") if self.kind == ".jsonl" else None

    def see(self, answered: Any) -> None:
        for rank, translation in enumerate(answered.answer or (), start=1):
            self.add(answered.number, rank, translation.attention)

    def add(self, line: int, rank: int, alignment: Any) -> None:
        """Write or keep an alignment; a blank line has none."""
        if alignment is None:
            return
        if self.lines is not None:
            print(
                json.dumps({"line": line, "rank": rank, **alignment.as_json()}, ensure_ascii=False),
                file=self.lines,
                flush=True,
            )
        elif rank == 1:
            self.count += 1
            if len(self.kept) < MOST_PICTURES:
                self.kept.append((alignment.source.words, alignment.target.words, alignment.by_word().tolist()))

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.lines is not None:
            self.lines.close()
        elif kind is None or issubclass(kind, KeyboardInterrupt):
            self.draw()

    def draw(self) -> None:
        from clew.drawing.alignments import Drawn, alignment_figure, alignment_svg
        from clew.drawing.figures import save_figure

        drawn = [Drawn(*alignment) for alignment in self.kept]
        if not drawn:
            say(f"nothing was translated, so {self.path} was not written")
        elif self.kind == ".svg":
            self.path.write_text(alignment_svg(drawn), encoding="utf-8")
        else:
            save_figure(alignment_figure(drawn), self.path)
        if self.count > len(drawn):
            say(f"{self.path} shows the first {len(drawn)} of {self.count:,} translations; FILE.jsonl has all of them")
