"""Find the words nearest to a word: those whose vectors have the largest cosine with its own.

VECTORS is a file in the format of GloVe, word2vec (text or .bin), fastText or `clew vectors`, compressed or not; or a
run, whose token embeddings are used. Words joined by + and - are one query: what is to woman as king is to man? Without
a word, every line of standard input is a query; a query that fails is reported on standard error, and the next one is
answered.

  clew vectors neighbours vectors.txt king queen
  clew vectors neighbours vectors.txt king - man + woman --n 5
  clew vectors neighbours glove.6B.100d.txt.gz frog --first 50000 --json
  clew vectors neighbours runs/ptb-lstm-small monday
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Normalize = Callable[[str], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("vectors", metavar="VECTORS", help="a file of word vectors, or a run directory")
    add(
        "words",
        metavar="WORD",
        nargs="*",
        default=[],
        help="a word, or words joined by + and - (default: lines of standard input)",
    )
    add("--n", type=int, default=10, metavar="N", help="neighbours per query (default: 10)")
    add("--first", type=int, metavar="N", help="read only the first N words of a file, usually the most frequent")
    add("--json", action="store_true", help="print JSON lines")


class Query(NamedTuple):
    """The words to add and to subtract, and the query as written."""

    text: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError

    for name in ("n", "first"):
        if (count := getattr(options, name)) is not None and count < 1:
            raise UserError(f"--{name} ({count}) must be at least 1")
    lines = [options.words] if options.words else typed_lines()
    vectors, normalize = load_vectors(options)
    number = status = 0
    for words in lines:
        try:
            queries = [find_words(vectors, query, normalize) for query in read_queries(words)]
        except UserError as error:
            if options.words:
                raise
            print(f"clew: {error}", file=sys.stderr, flush=True)
            status = 2
            continue
        for query in queries:
            number += 1
            neighbours = vectors.nearest_sum(query.plus, query.minus, options.n)
            show(query, neighbours, number, options.json)
    return status


def typed_lines() -> Iterator[list[str]]:
    from clew.cli.options.lines import line_batches
    from clew.cli.terminal.progress import say

    if sys.stdin.isatty():
        say("reading words from the terminal; end with Ctrl-D")
    return (line.split() for lines in line_batches(None) for line in lines)


def load_vectors(options: argparse.Namespace) -> tuple[Any, Normalize]:
    """Return the vectors, and the function that normalizes a word for them."""
    path = Path(options.vectors).expanduser()
    if not path.is_dir():
        from clew.baselines.word_vectors import load_word_vectors

        return load_word_vectors(path, *([] if options.first is None else [options.first])), str
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run

    if options.first is not None:
        raise UserError(f"--first is for a file of vectors, but {path} is a folder; leave it out")
    return table_of(load_run(path, device="cpu", code=None if options.code is None else Path(options.code)))


def table_of(run: Any) -> tuple[Any, Normalize]:
    """Return a run's token embeddings with their tokens, and its tokenizer's normalization; in an encoder-decoder, the
    target's."""
    from clew.baselines.word_vectors import WordVectors
    from clew.baselines.words import Words
    from clew.core.errors import UserError

    table = run.task.body.embedding.tokens
    if table is None:
        raise UserError(
            f"{run.folder} has no word embeddings (embedding.words=false), since it reads words by their characters;"
            " use another run, or a file of vectors"
        )
    tokenizer = next(run.vocabularies[role] for role in ("tokenizer", "target") if role in run.vocabularies)
    tokens = tokenizer.tokens
    if tokenizer.unit == "subword":
        tokens = [tokenizer.decode([id]) or token for id, token in enumerate(tokens)]
    return WordVectors(Words(tokens), table.weight.detach().float()), tokenizer.normalize


def read_queries(words: Iterable[str]) -> Iterator[Query]:
    """Yield queries: a word after + or - belongs to the query before it, and any other word begins one."""
    from clew.core.errors import UserError

    parts = [part for word in words for part in (word.split() if set(word.split()) & {"+", "-"} else [word])]
    queries: list[list[str]] = []
    sign = ""
    for part in parts:
        if part in ("+", "-"):
            if sign or (part == "+" and not queries):
                raise UserError(f"a word is missing before the {part}; write it as king - man + woman")
            sign = part
            continue
        if sign and queries:
            queries[-1] += [sign, part]
        else:
            queries.append([sign or "+", part])
        sign = ""
    if sign:
        raise UserError(f"a word is missing after the {sign}; write it as king - man + woman")
    for terms in queries:
        signed = list(zip(terms[::2], terms[1::2], strict=True))
        plus, minus = (tuple(word for mark, word in signed if mark == which) for which in "+-")
        yield Query(" ".join(terms).removeprefix("+ "), plus, minus)


def find_words(vectors: Any, query: Query, normalize: Normalize) -> Query:
    """Return the query in words that have vectors: possibly in lower case, or with the space before a word that a
    subword vocabulary has. Other words are refused."""

    def find(word: str) -> str:
        spellings = (word, f" {word}", normalize(word), f" {normalize(word)}")
        known = next((spelling for spelling in spellings if spelling in vectors.words), word)
        vectors.vector(known)  # raises for an unknown word
        return known

    return Query(query.text, tuple(map(find, query.plus)), tuple(map(find, query.minus)))


def show(query: Query, neighbours: Sequence[tuple[str, float]], number: int, as_json: bool) -> None:
    from clew.cli.terminal.tables import text_table
    from clew.core.errors import printable

    if as_json:
        for rank, (word, cosine) in enumerate(neighbours, start=1):
            print(
                json.dumps({"question": query.text, "rank": rank, "word": word, "cosine": cosine}, ensure_ascii=False),
                flush=True,
            )
        return
    rows = [(printable(word), f"{cosine:.3f}") for word, cosine in neighbours]
    print(("\n" if number > 1 else "") + text_table((query.text, "cosine"), rows, right=(1,)), flush=True)
