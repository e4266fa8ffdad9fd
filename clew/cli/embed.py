"""Embed texts, or their tokens, as vectors, with any run that reads texts; or search texts by their vectors.

Texts are arguments, or the lines of --file or of standard input. The vector of a text is pooled over its tokens. An
empty line has the zero vector, so that line numbers are kept.

  clew embed runs/sentiment-lstm 'A fine film.' 'A waste of time.'
  clew embed runs/shakespeare-gpt --file lines.txt --out vectors.npy
  clew embed runs/ewt-tagger --file lines.txt --tokens --layer 1 --out tokens.npy
  clew embed runs/shakespeare-gpt --search 'a rose by any other name' --file lines.txt --top 5
  clew embed runs/shakespeare-gpt --search 'to be' --index vectors.npy --file lines.txt --json

--out FILE.npy is one float32 array with a row per line. With --tokens it has a row per token, and FILE.index.jsonl
gives the first row of each line and the characters of each token. Without --out, or with --out FILE.jsonl, there is one
JSON object per line. --layer is the number of a level, as in `clew look probe` (0 is the embedding), or last, or a mix
of levels: sum (of the layers), sum_with_embedding, sum_last_four, join_last_four. --search prints the lines with the
largest cosine; it embeds the lines as it reads them, or uses the vectors of --index. A text that is too long for the
model is read in windows and pooled over all of them, or truncated if the run says so.
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
    add(
        "texts", metavar="TEXT", nargs="*", default=[], help="texts (default: the lines of --file or of standard input)"
    )
    add(
        "--file",
        metavar="FILE",
        help="read texts from lines or a table, such as .csv, .jsonl or .parquet (default: standard input)",
    )
    add("--text", metavar="COLUMN", help="read the text from this column of a table, given by name or number")
    add("--tokens", action="store_true", help="one vector per token instead of one per text")
    add(
        "--layer",
        default="last",
        metavar="LAYER",
        help="the number of a level (0 is the embedding), or a mix of levels (default: last)",
    )
    add(
        "--pooling",
        metavar="NAME",
        help="how to pool the vectors of a text: first, last, max, mean (default: the run's, or mean)",
    )
    add(
        "--normalise",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="scale vectors to length 1 (default: as the run does)",
    )
    add(
        "--carry",
        type=int,
        metavar="N",
        help="for ELMo: read N texts at a time, each with the state of the text N before it, as AllenNLP does",
    )
    add(
        "--search",
        action="append",
        metavar="QUERY",
        help="find the texts with the largest cosine to this one; may be repeated",
    )
    add(
        "--index",
        metavar="FILE.npy",
        help="search these vectors, one row per line of --file, instead of embedding the lines",
    )
    add("--top", type=int, default=5, metavar="N", help="number of texts that --search prints (default: 5)")
    add("--out", metavar="FILE", help="write the vectors to FILE.npy or FILE.jsonl")
    add(
        "--json",
        action="store_true",
        help="print the results of --search as JSON lines; vectors are always printed as JSON lines",
    )
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="the device to run on")
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
    options.data = run.config.data
    if options.search:
        search(vectors, options)
    elif options.out is not None and options.out.endswith(".npy"):
        write_rows(vectors, options)
    else:
        write_lines(vectors, options)
    report_exceptions(vectors)
    return 0


def check_options(options: argparse.Namespace) -> None:
    from clew.cli.options.texts import check_texts
    from clew.core.errors import UserError

    check_texts(options, {} if options.text is None else {"text": options.text})
    if options.search and (options.tokens or options.out):
        raise UserError("--search compares whole texts and prints the results; leave --tokens and --out out")
    if options.tokens and options.pooling is not None:
        raise UserError(
            "--pooling makes one vector per text, but --tokens asks for one per token; leave one of them out"
        )
    if options.index is not None and not options.search:
        raise UserError("--index is only for --search; add --search QUERY, or leave --index out")
    if options.index is not None and options.texts:
        raise UserError(
            "--index replaces the texts to search; leave the texts out, and give their file with --file if you have it"
        )
    if options.search and any(not query.strip() for query in options.search):
        raise UserError("--search is empty; give a text to search for")
    if options.search and options.carry is not None:
        raise UserError(
            "--carry makes a text's vector depend on the texts before it, but --search compares independent texts;"
            " leave one of them out"
        )
    if options.top < 1:
        raise UserError(f"--top ({options.top}) must be at least 1")
    if options.out is not None:
        out = Path(options.out)
        if out.suffix not in (".npy", ".jsonl"):
            raise UserError(f"--out must end in .npy or .jsonl, not {out.name}")
        if not out.parent.is_dir():
            raise UserError(f"no such folder for --out: {out.parent}; create it first")


def batches(options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield batches of texts; with --carry, their sizes are multiples of it."""
    if options.carry is None:
        yield from read_batches(options)
        return
    waiting: list[str] = []
    for batch in read_batches(options):
        waiting += batch
        whole = len(waiting) - len(waiting) % options.carry
        if whole:
            yield waiting[:whole]
        waiting = waiting[whole:]
    if waiting:
        yield waiting


def read_batches(options: argparse.Namespace) -> Iterator[list[str]]:
    from clew.cli.options.lines import is_table_file, table_fields
    from clew.cli.options.texts import text_batches
    from clew.tasks.use import TextRow

    if is_table_file(options.file) or options.text is not None:
        chosen = {} if options.text is None else {"text": options.text}
        for batch in table_fields(options.file, TextRow, options.data, chosen):
            yield [fields["text"] for _, fields in batch]
    else:
        yield from text_batches(options.texts, options.file, data=options.data)


def write_rows(vectors: Any, options: argparse.Namespace) -> None:
    """Write one array, and with --tokens an index with one object per text."""
    from clew.cli.terminal.progress import say
    from clew.data.files.npy_files import RowWriter

    path, number = Path(options.out), 1
    index_path = path.with_suffix(".index.jsonl")
    aside = index_path.with_name(index_path.name + ".partial")
    with ExitStack() as files:
        index = files.enter_context(aside.open("w", encoding="utf-8", newline="\n")) if options.tokens else None
        rows = files.enter_context(RowWriter(path, vectors.width))
        for texts in batches(options):
            if index is None:
                rows.write(vectors.of(texts, number))
                number += len(texts)
            else:
                for text, embedded in zip(texts, vectors.of_tokens(texts, number), strict=True):
                    fields = {
                        "line": number,
                        "row": rows.num_rows,
                        "tokens": len(embedded.vectors),
                        "offsets": embedded.offsets.tolist(),
                    }
                    index.write(json.dumps({**fields, "text": text}, ensure_ascii=False) + "\n")
                    rows.write(embedded.vectors)
                    number += 1
    if options.tokens:
        aside.replace(index_path)
    say(f"wrote {rows.num_rows:,} vectors of {vectors.width} numbers to {path}")


def write_lines(vectors: Any, options: argparse.Namespace) -> None:
    """Write one JSON object per text, or per token."""
    from clew.cli.options.lines import json_line
    from clew.tasks.use import TextRow
    from clew.tasks.uses.text_vectors import EMBED

    number = 1
    with ExitStack() as files:
        file: Any = sys.stdout
        if options.out is not None:
            file = files.enter_context(Path(options.out).open("w", encoding="utf-8", newline="\n"))
        for texts in batches(options):
            embedded = vectors.of_tokens(texts, number) if options.tokens else vectors.of(texts, number)
            for text, vector in zip(texts, embedded, strict=True):
                file.writelines(
                    json_line(fields) + "\n" for fields in EMBED.objects(number, TextRow(text=text), vector, options)
                )
                number += 1
            file.flush()


def search(vectors: Any, options: argparse.Namespace) -> None:
    from clew.cli.terminal.tables import show_table
    from clew.core.errors import UserError, printable
    from clew.data.descriptions import shortened_value
    from clew.data.files.npy_files import open_rows, row_blocks
    from clew.metrics.nearest import Nearest

    nearest = Nearest(vectors.of(options.search), options.top)
    kept: dict[int, str] = {}
    if options.index is None:
        for texts in batches(options):
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
            for texts in batches(options):
                kept |= {row: text for row, text in enumerate(texts, start=number) if row in near}
                number += len(texts)
            if number != len(rows):
                raise UserError(
                    f"{options.index} has {len(rows):,} vectors, but {options.file} has {number:,} lines; embed"
                    " the file again"
                )
    if not nearest.num_rows:
        raise UserError("there is no text to search; give lines with --file or on standard input")
    for number, (query, matches) in enumerate(zip(options.search, nearest.neighbours(), strict=True)):
        if options.json:
            for rank, (row, cosine) in enumerate(matches, start=1):
                fields = {"query": query, "rank": rank, "line": row + 1, "cosine": cosine}
                print(
                    json.dumps({**fields, **({"text": kept[row]} if row in kept else {})}, ensure_ascii=False),
                    flush=True,
                )
        else:
            table = [
                (f"{cosine:.3f}", str(row + 1), printable(shortened_value(kept.get(row, ""))))
                for row, cosine in matches
            ]
            print(("\n" if number else "") + printable(query))
            show_table(("cosine", "line", "text"), table, right=(0, 1))


def report_exceptions(vectors: Any) -> None:
    """Report texts without tokens and texts that were too long."""
    from clew.cli.terminal.progress import say
    from clew.core.errors import counted

    if vectors.num_empty:
        say(f"{counted(vectors.num_empty, 'text')} without tokens: each has the zero vector")
    if vectors.num_long:
        longer = f"{counted(vectors.num_long, 'text')} of more than {vectors.room} tokens"
        say(f"{longer}: {'read in windows and pooled over all of them' if vectors.longest is None else 'truncated'}")
