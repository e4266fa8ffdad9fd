"""Vectors of texts, or of their tokens, by any run that reads texts; and search by them.

Texts stand on the command line, or are lines of --file or of standard input; each has a vector, pooled of all its
places. An empty line has the zero vector, so that lines keep their numbers.

  clew embed runs/sentiment-lstm 'A fine film.' 'A waste of time.'
  clew embed runs/shakespeare-gpt --file lines.txt --out vectors.npy
  clew embed runs/ewt-tagger --file lines.txt --tokens --layer 1 --out tokens.npy
  clew embed runs/shakespeare-gpt --search 'a rose by any other name' --file lines.txt --top 5
  clew embed runs/shakespeare-gpt --search 'to be' --index vectors.npy --file lines.txt --json

--out FILE.npy is one float32 array, a row a line; with --tokens a row a token, and FILE.index.jsonl says of each line
where its rows begin and which characters each token is. Without it, or to FILE.jsonl, there is a JSON object a line.
--layer is a level's number as `clew look probe` counts them (0: the embedding), last, or a mix: sum (of the layers),
sum_with_embedding, sum_last_four, join_last_four. --search prints the lines of largest cosine, of lines that are
embedded as they are read, or of --index, vectors that were written before. What is longer than the model can read is
read in windows that are pooled together, or cut where the run says so.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from clew.cli.options.precision import add_precision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(columns=["text"], shared=[])
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("texts", metavar="TEXT", nargs="*", default=[], help="texts (default: lines of --file, or of standard input)")
    add("--file", metavar="FILE", help="a text a line, or a table (.csv, .tsv, .jsonl; default: standard input)")
    add("--text", metavar="COLUMN", help="FILE is a table, and this column, by name or number, has the text")
    add("--tokens", action="store_true", help="a vector for every token instead of one a text")
    add(
        "--layer",
        default="last",
        metavar="LAYER",
        help="a level's number, 0 being the embedding, or a mix of levels (default: last)",
    )
    add(
        "--pooling",
        metavar="NAME",
        help="what a text's vectors become: first, last, max, mean (default: the run's own, or mean)",
    )
    add(
        "--normalise",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="vectors of length 1 (default: as the run's own are)",
    )
    add(
        "--carry",
        type=int,
        metavar="N",
        help="of ELMo: N texts at a time, each going on from the one in its place before, as AllenNLP does",
    )
    add("--search", action="append", metavar="QUERY", help="the texts nearest this one by the cosine; may be repeated")
    add(
        "--index",
        metavar="FILE.npy",
        help="search these vectors, a row a line of --file, instead of embedding its lines",
    )
    add("--top", type=int, default=5, metavar="N", help="of --search: so many texts (default: 5)")
    add("--out", metavar="FILE", help="write vectors here: FILE.npy, or FILE.jsonl")
    add(
        "--json",
        action="store_true",
        help="JSON lines of what --search finds; vectors on standard output are in any case",
    )
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")
    add_precision(parser)


def run(options: argparse.Namespace) -> int:
    from clew.runs.loaded import load_run

    check_options(options)
    run = load_run(
        options.folder,
        device=options.device,
        code=None if options.code is None else Path(options.code),
        precision=options.precision,
    )
    vectors = run.text_vectors(
        layer=options.layer, pooling=options.pooling, normalise=options.normalise, carry=options.carry
    )
    if options.search:
        search(vectors, options)
    elif options.out is not None and options.out.endswith(".npy"):
        write_rows(vectors, options)
    else:
        write_lines(vectors, options)
    tell(vectors, run)
    return 0


def check_options(options: argparse.Namespace) -> None:
    from clew.cli.options.texts import check_texts
    from clew.core.errors import UserError

    check_texts(options, {} if options.text is None else {"text": options.text})
    if options.search and (options.tokens or options.out):
        raise UserError("--search compares whole texts and prints what it finds; leave --tokens and --out out")
    if options.tokens and options.pooling is not None:
        raise UserError(
            "--pooling makes one vector of a text's, and --tokens has a vector for each token; leave one of them out"
        )
    if options.index is not None and not options.search:
        raise UserError("--index is what --search looks through; say what to look for with --search")
    if options.index is not None and options.texts:
        raise UserError(
            "--index takes the place of texts on the command line; name the file of its lines with --file, or none"
        )
    if options.search and any(not query.strip() for query in options.search):
        raise UserError("--search is empty; say what to look for")
    if options.search and options.carry is not None:
        raise UserError(
            "--carry makes a text's vector depend on the texts before it, and --search compares texts by themselves;"
            " leave one out"
        )
    if options.top < 1:
        raise UserError(f"--top ({options.top}) must be at least 1")
    if options.out is not None:
        out = Path(options.out)
        if out.suffix not in (".npy", ".jsonl"):
            raise UserError(f"--out takes a name that ends in .npy or .jsonl, not {out.name}")
        if not out.parent.is_dir():
            raise UserError(f"no such folder: {out.parent}, where --out is to write; make it first")


def blocks(options: argparse.Namespace) -> Iterator[list[str]]:
    """The texts, some at a time; where they are carried, so many as go together."""
    if options.carry is None:
        yield from read_blocks(options)
        return
    waiting: list[str] = []
    for some in read_blocks(options):
        waiting += some
        whole = len(waiting) - len(waiting) % options.carry
        if whole:
            yield waiting[:whole]
        waiting = waiting[whole:]
    if waiting:
        yield waiting


def read_blocks(options: argparse.Namespace) -> Iterator[list[str]]:
    from clew.cli.options.lines import is_table, table_fields
    from clew.cli.options.texts import some_texts

    if is_table(options.file) or options.text is not None:
        for some in table_fields(options.file, {"text": options.text}):
            yield [text for _, (text,) in some]
    else:
        yield from some_texts(options.texts, options.file)


def write_rows(vectors: Any, options: argparse.Namespace) -> None:
    """One array; of tokens also an index, an object a text."""
    from clew.cli.terminal.progress import say
    from clew.data.files.npy_files import RowWriter

    path, number = Path(options.out), 1
    index_path = path.with_suffix(".index.jsonl")
    aside = index_path.with_name(index_path.name + ".partial")
    with ExitStack() as files:
        index = files.enter_context(aside.open("w", encoding="utf-8", newline="\n")) if options.tokens else None
        rows = files.enter_context(RowWriter(path, vectors.width))
        for texts in blocks(options):
            if index is None:
                rows.write(vectors.of(texts, number))
                number += len(texts)
            else:
                for text, found in zip(texts, vectors.of_tokens(texts, number), strict=True):
                    fields = {
                        "line": number,
                        "row": rows.num_rows,
                        "tokens": len(found.vectors),
                        "offsets": found.offsets.tolist(),
                    }
                    index.write(json.dumps({**fields, "text": text}, ensure_ascii=False) + "\n")
                    rows.write(found.vectors)
                    number += 1
    if options.tokens:
        aside.replace(index_path)
    say(f"wrote {rows.num_rows:,} vectors of {vectors.width} numbers to {path}")


def write_lines(vectors: Any, options: argparse.Namespace) -> None:
    """An object a text."""
    from clew.cli.options.lines import json_line
    from clew.tasks.use import TextRow
    from clew.tasks.uses.text_vectors import EMBED

    number = 1
    with ExitStack() as files:
        file: Any = sys.stdout
        if options.out is not None:
            file = files.enter_context(Path(options.out).open("w", encoding="utf-8", newline="\n"))
        for texts in blocks(options):
            found = vectors.of_tokens(texts, number) if options.tokens else vectors.of(texts, number)
            for text, each in zip(texts, found, strict=True):
                file.writelines(
                    json_line(one) + "\n" for one in EMBED.objects(number, TextRow(text=text), each, options)
                )
                number += 1
            file.flush()


def search(vectors: Any, options: argparse.Namespace) -> None:
    from clew.cli.terminal.tables import show_table
    from clew.core.errors import UserError, printable
    from clew.data.descriptions import shortened
    from clew.data.files.npy_files import open_rows, row_blocks
    from clew.metrics.nearest import Nearest

    nearest = Nearest(vectors.of(options.search), options.top)
    kept: dict[int, str] = {}
    if options.index is None:
        for texts in blocks(options):
            first = nearest.num_rows
            nearest.add(vectors.of(texts, first + 1))
            near = set(nearest.rows.flatten().tolist())
            kept |= dict(enumerate(texts, start=first))
            kept = {row: text for row, text in kept.items() if row in near}
    else:
        rows = open_rows(Path(options.index))
        for block in row_blocks(rows):
            nearest.add(block)
        if options.file is not None:
            near, number = set(nearest.rows.flatten().tolist()), 0
            for texts in blocks(options):
                kept |= {row: text for row, text in enumerate(texts, start=number) if row in near}
                number += len(texts)
            if number != len(rows):
                raise UserError(
                    f"{options.index} has {len(rows):,} vectors and {options.file} {number:,} lines; embed that file"
                    " again"
                )
    if not nearest.num_rows:
        raise UserError("there is no text to search; give some lines with --file, or on standard input")
    for number, (query, found) in enumerate(zip(options.search, nearest.found(), strict=True)):
        if options.json:
            for rank, (row, cosine) in enumerate(found, start=1):
                fields = {"query": query, "rank": rank, "line": row + 1, "cosine": cosine}
                print(
                    json.dumps({**fields, **({"text": kept[row]} if row in kept else {})}, ensure_ascii=False),
                    flush=True,
                )
        else:
            table = [(f"{cosine:.3f}", str(row + 1), printable(shortened(kept.get(row, "")))) for row, cosine in found]
            print(("\n" if number else "") + printable(query))
            show_table(("cosine", "line", "text"), table, right=(0, 1))


def tell(vectors: Any, run: Any) -> None:
    """What became of texts that were not read as they stand."""
    from clew.cli.terminal.progress import say
    from clew.core.errors import counted

    if vectors.num_empty:
        say(f"{counted(vectors.num_empty, 'text')} without a token: the zero vector stands there")
    if vectors.num_long:
        longer = f"{counted(vectors.num_long, 'text')} of more than {vectors.room} tokens"
        say(f"{longer}: {'read in windows that are pooled together' if vectors.longest is None else 'cut to that'}")
