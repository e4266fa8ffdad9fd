"""Give words their tags with a trained tagger.

Every TEXT, or else every line of standard input or of --file, is a sentence. It is cut into words first, punctuation apart;
with --tokenised it is cut at spaces alone, for text whose words stand apart already. A line's words come out as soon as they
are there.

  clew tag runs/conll-tagger 'Ada Lovelace met Mr. Babbage in London.' --format inline
  echo 'Ada Lovelace met Mr. Babbage in London.' | clew tag runs/conll-tagger
  clew tag runs/ewt-tagger --file sentences.txt --tokenised > sentences.conll
  clew tag runs/conll-tagger --file sentences.txt --format spans
  clew tag runs/conll-tagger --file sentences.txt --format inline
  clew tag runs/conll-tagger --file sentences.txt --json
  clew tag runs/ewt-tagger --file corpus.conllu
  clew tag runs/conll-tagger --file letters.csv --text body

Of a CoNLL or CoNLL-U file (.conll, .conllu) the words are tagged as they stand; what else it has is not looked at. Of a table
(.csv, .tsv, .jsonl) --text names the column, by name or number, that has a sentence in each of its cells.

--format conll has a line a word, `word<TAB>tag<TAB>probability`, and an empty line after each sentence. spans has a line
a phrase, `label<TAB>text<TAB>start<TAB>stop`, and an empty line too. inline has a line a sentence, as it stood, with
`[PER Ada Lovelace]` for a phrase, or `rains/VERB` where tags are of single words. json has one object a sentence with its
words and phrases. start and stop count the characters of the line, the first being 0; stop is behind the last.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("texts", metavar="TEXT", nargs="*", default=[], help="sentences to tag (default: lines of --file, or of standard input)")
    add("--file", metavar="FILE", help="what to tag: a sentence a line, CoNLL, CoNLL-U or a table (default: standard input)")
    add("--text", metavar="COLUMN", help="FILE is a table, and this column, by name or number, has the sentences")
    add("--tokenised", action="store_true", help="words stand apart by spaces already; nothing else is split")
    add("--format", choices=["conll", "spans", "inline", "json"], default="conll", help="how tags are shown (default: conll)")
    add("--json", action="store_const", dest="format", const="json", help="the same as --format json")
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def run(options: argparse.Namespace) -> int:
    from clew.cli.texts import check_texts, placed
    from clew.core.errors import UserError
    from clew.runs.loaded import check_verb, load_run

    check_texts(options)
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    check_verb(run, "tag")
    if options.format == "spans" and run.task.scheme is None:
        raise UserError(f"--format spans is for tags of phrases, such as B-PER, and those of {options.folder} are of single words")
    place, found = sentences(run, options)
    with (
        Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout) as file,
        placed(place),
    ):
        first = 1
        for some in found:
            for number, tagged in enumerate(run.tag(some, tokenised=options.tokenised, first=first), start=first):
                file.write(FORMATS[options.format](number, tagged) + "\n")
                file.flush()
            first += len(some)
    return 0


def sentences(run: Any, options: argparse.Namespace) -> tuple[str, Iterator[Sequence[str | Sequence[str]]]]:
    """What is to be tagged, some at a time: sentences that are given, lines as they arrive, cells of a table, or lists of words; and what
    comes before a sentence's number."""
    from clew.cli.lines import is_table, table_fields
    from clew.cli.texts import place_of, some_texts
    from clew.core.errors import UserError
    from clew.data.formats import find_format

    texts, file = options.texts, options.file
    name = (file or "").removesuffix(".gz").lower()
    if file is not None and options.text is not None:
        cells = table_fields(file, {"text": options.text})
        return place_of(texts, file, "record"), ([sentence for _, (sentence,) in records] for records in cells)
    if file is not None and (name.endswith((".conll", ".conllu")) or (is_table(file) and find_format(Path(file)) == "conll")):
        return place_of(texts, file, "sentence"), listed_sentences(run, file)
    if is_table(file):
        raise UserError(f"{file} is a table; say with --text COLUMN which of its columns has the sentences")
    return place_of(texts, file), some_texts(texts, file, "sentences")


def listed_sentences(run: Any, file: str) -> Iterator[list[tuple[str, ...]]]:
    """The words of a CoNLL or CoNLL-U file; of CoNLL in the column that the run was trained with, where that was a number."""
    from clew.cli.lines import MOST
    from clew.data.formats import find_format
    from clew.data.readers import read_sentences
    from clew.data.records import as_number

    words = run.config.data.words
    if words is not None and (find_format(Path(file)) == "conllu" or as_number(words) is None):
        words = None
    found = read_sentences(file, words=words, with_tags=False, with_heads=False)
    while some := [sentence.words for sentence in islice(found, MOST)]:
        yield some


def as_conll(number: int, tagged: Any) -> str:
    return f"{tagged}\n" if tagged.words else ""


def as_spans(number: int, tagged: Any) -> str:
    rows = ((span.label, span.text.replace("\t", " "), str(span.start), str(span.stop)) for span in tagged.spans)
    return "".join("\t".join(row) + "\n" for row in rows)


def as_inline(number: int, tagged: Any) -> str:
    """The line as it stood, with marks in it."""
    if tagged.spans:
        marks = [(span.start, span.stop, f"[{span.label} {span.text}]") for span in tagged.spans]
    elif any(word.tag != "O" for word in tagged.words):
        marks = [(word.start, word.stop, f"{word.word}/{word.tag}") for word in tagged.words]
    else:
        marks = []
    text, end = "", 0
    for start, stop, mark in marks:
        between = tagged.text[end:start] or (" " if end else "")
        text, end = text + between + mark, stop
    return text + tagged.text[end:]


def as_json(number: int, tagged: Any) -> str:
    from clew.cli.lines import json_line
    from clew.runs import as_json as objects

    return "\n".join(map(json_line, objects.tagged(number, tagged.text, tagged)))


FORMATS = {"conll": as_conll, "spans": as_spans, "inline": as_inline, "json": as_json}
