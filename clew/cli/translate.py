"""Translate lines with a trained run, or with several runs together.

Every TEXT, or else every line of standard input or of --file, is one source; its translation is one line of standard output,
in the same order and as soon as it is there. What else a task writes from a source (a summary, an answer, a sorted list) is
written in the same way.

  clew translate runs/tatoeba-transformer 'Wo ist der Bahnhof?'
  echo 'Wo ist der Bahnhof?' | clew translate runs/tatoeba-transformer
  clew translate runs/tatoeba-transformer --file sentences.de --beams 8 > sentences.en
  clew translate runs/tatoeba-transformer runs/tatoeba-transformer-2 --file sentences.de
  clew translate runs/tatoeba-transformer --file sentences.de --n-best 3 --json
  clew translate runs/tatoeba-transformer --file sentences.de --attention alignments.svg
  clew translate runs/tatoeba-transformer --file sentences.de --score sentences.en

Several runs write as an ensemble, by the mean of their log-probabilities; they must have been trained with the same
vocabularies. Of the words behind the first, those that are run directories are runs, and the others texts. With --n-best,
every source has so many lines, `translation<TAB>score`, and an empty line after them. The score is log p / length^X, X being
--length-penalty. With --score nothing is written: line n of TARGETS is scored as the translation of line n, and its
log-probability printed; --json has that of every token.

--attention writes which source words were looked at for every word. A file that ends in .jsonl has one object a
translation with the words of both sides and the weights, a row a target word; .svg, .png and .pdf are pictures (the
last two need matplotlib) of the first 50 translations, the best of each line.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from clew.cli.decoding import add_decoding, decoding_options
from clew.cli.progress import say

PICTURES = (".svg", ".png", ".pdf")
MOST_PICTURES = 50


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory; several translate together")
    add("words", metavar="RUN|TEXT", nargs="*", default=[], help="more runs, and what to translate (default: standard input)")
    add("--file", metavar="FILE", help="what to translate, a source a line (default: standard input)")
    add("--into", metavar="LANGUAGE", default="", help="the language to write, where the model writes several")
    add_decoding(parser)
    add("--n-best", type=int, metavar="N", help="translations shown of each line, by beam search")
    add("--seed", type=int, metavar="N", help="another seed samples other translations (default: the run's)")
    add("--score", metavar="TARGETS", help="score the lines of this file as translations, instead of translating")
    add("--attention", metavar="FILE", help="write alignments to FILE.jsonl, .svg, .png or .pdf")
    add("--layer", type=int, metavar="N", help="which of the decoder's layers --attention shows, from 1 (default: the last but one)")
    add("--replace-unknown", action="store_true", help="models of words: for an unknown word the source word that was looked at most")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    add("--json", action="store_true", help="one JSON object a translation")


def run(options: argparse.Namespace) -> int:
    from clew.cli.texts import check_texts, place_of, placed
    from clew.runs.loaded import check_together, load_run

    folders, options.texts = parted(options.folder, options.words)
    check_texts(options)
    changed = decoding_options(options)
    check_used(options, changed)
    alignments = None if options.attention is None else Alignments(options.attention)
    code = None if options.code is None else Path(options.code)
    runs = [load_run(folder, device=options.device, code=code) for folder in folders]
    check_together(runs)
    with alignments or nullcontext(), placed(place_of(options.texts, options.file)):
        if options.score is None:
            translate_lines(runs, options, changed, alignments)
        else:
            score_lines(runs, options, alignments)
    return 0


def translate_lines(runs: list[Any], options: argparse.Namespace, changed: dict[str, Any], alignments: "Alignments | None") -> None:
    from clew.cli.lines import json_line
    from clew.cli.texts import some_texts
    from clew.runs.as_json import translated
    from clew.runs.loaded import translate_together

    first = 1
    for lines in some_texts(options.texts, options.file, "lines"):
        found = translate_together(
            runs,
            lines,
            into=options.into,
            with_attention=alignments is not None,
            layer=options.layer,
            replace_unknown=options.replace_unknown,
            seed=options.seed,
            first=first,
            **changed,
        )
        for number, translations in enumerate(found, start=first):
            several = isinstance(translations, list)
            for rank, translation in enumerate(translations if several else [translations], start=1):
                if alignments is not None:
                    alignments.add(number, rank, translation.attention)
                if not options.json:
                    show(translation, several)
            if options.json:
                print(*map(json_line, translated(number, None, translations)), sep="\n")
            if several and not options.json:
                print()
        sys.stdout.flush()
        first += len(lines)


def show(translation: Any, several: bool) -> None:
    text = " ".join(translation.text.splitlines())
    print(text.replace("\t", " ") + f"\t{translation.score:.4f}" if several else text)


def score_lines(runs: list[Any], options: argparse.Namespace, alignments: "Alignments | None") -> None:
    from clew.data.examples import Pair
    from clew.tasks.translation import align, score_pairs

    tasks, first = [run.task for run in runs], 1
    for lines in some_pairs(options.texts, options.file, options.score):
        pairs = [Pair(source, target, into=options.into) for source, target in lines]
        for number, scored in enumerate(score_pairs(tasks, pairs, first=first), start=first):
            if options.json:
                fields = {name: getattr(scored, name) for name in ("source", "target", "log_prob", "tokens", "log_probs")}
                print(json.dumps({"line": number, **fields}, ensure_ascii=False))
            else:
                print(f"{scored.log_prob:.4f}")
        if alignments is not None:
            for number, alignment in enumerate(align(tasks, pairs, layer=options.layer, first=first), start=first):
                alignments.add(number, 1, alignment)
        sys.stdout.flush()
        first += len(lines)


def some_pairs(texts: list[str], sources: str | None, targets: str) -> Iterator[list[tuple[str, str]]]:
    """Sources, each with the line of the targets which stands where it does."""
    from clew.cli.texts import some_texts
    from clew.core.errors import UserError
    from clew.data.lines import read_lines

    where = "the command" if texts else "standard input" if sources in (None, "-") else sources
    partners, count = read_lines(Path(targets)), 0
    for lines in some_texts(texts, sources, "lines"):
        found = list(islice(partners, len(lines)))
        yield list(zip(lines, found, strict=False))
        count += len(found)
        if len(found) < len(lines):
            raise UserError(f"{targets} has {count:,} lines, and {where} has more: line {count + 1} has no partner")
    if next(partners, None) is not None:
        raise UserError(f"{where} has {count:,} lines, and {targets} has more: line {count + 1} has no partner")


def parted(first: str, words: list[str]) -> tuple[list[str], list[str]]:
    """The runs and the texts among the words of the command. What looks like a run's path and is none is refused, not translated."""
    from clew.cli.texts import is_file
    from clew.runs.directory import CONFIG, check_run

    runs, texts = [first], list[str]()
    for word in words:
        is_one = is_file(str(Path(word, CONFIG)))
        if not is_one and not any(map(str.isspace, word)) and "/" in word and Path(word).parent.is_dir():
            check_run(Path(word))
        (runs if is_one else texts).append(word)
    return runs, texts


def check_used(options: argparse.Namespace, changed: dict[str, Any]) -> None:
    """Refuses what would change nothing."""
    from clew.core.errors import UserError

    if options.layer is not None and options.attention is None:
        raise UserError("--layer says which layer --attention shows; give a file with --attention, or leave it out")
    if options.score is None:
        return
    names = [*changed, *(["seed"] if options.seed is not None else []), *(["replace_unknown"] if options.replace_unknown else [])]
    if names:
        raise UserError(f"--{names[0].replace('_', '-')} is for writing, and --score scores what is written already; leave one of them out")


class Alignments:
    """The file that --attention names: lines as they come, or a picture at the end."""

    def __init__(self, name: str):
        from clew.core.errors import UserError

        self.path = Path(name)
        self.kind = self.path.suffix.lower()
        self.seen: list[Any] = []
        self.count = 0
        if self.kind not in (".jsonl", *PICTURES):
            raise UserError(f"--attention ({name}) must end in .jsonl, {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")
        if not self.path.parent.is_dir():
            raise UserError(f"no such folder: {self.path.parent}, where --attention is to write; make it first")
        if self.kind in PICTURES[1:]:
            from clew.drawing.figures import load_matplotlib

            load_matplotlib("take .svg, which needs nothing")

    def __enter__(self) -> None:
        self.lines = self.path.open("w", encoding="utf-8") if self.kind == ".jsonl" else None

    def add(self, line: int, rank: int, alignment: Any) -> None:
        """A blank line has none."""
        if alignment is None:
            return
        weights = alignment.by_word().tolist()
        if self.lines is not None:
            fields = {"line": line, "rank": rank, "source": alignment.source.words, "target": alignment.target.words}
            rounded = [[round(weight, 5) for weight in row] for row in weights]
            print(json.dumps({**fields, "weights": rounded}, ensure_ascii=False), file=self.lines, flush=True)
        elif rank == 1:
            self.count += 1
            if len(self.seen) < MOST_PICTURES:
                self.seen.append((alignment.source.words, alignment.target.words, weights))

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self.lines is not None:
            self.lines.close()
        elif kind is None or issubclass(kind, KeyboardInterrupt):
            self.draw()

    def draw(self) -> None:
        from clew.drawing.alignments import Drawn, alignment_figure, alignment_svg
        from clew.drawing.figures import save_figure

        drawn = [Drawn(*each) for each in self.seen]
        if not drawn:
            say(f"nothing was translated, so that there is no picture in {self.path}")
        elif self.kind == ".svg":
            self.path.write_text(alignment_svg(drawn), encoding="utf-8")
        else:
            save_figure(alignment_figure(drawn), self.path)
        if self.count > len(drawn):
            say(f"{self.path} shows the first {len(drawn)} of {self.count:,} translations; FILE.jsonl has all of them")
