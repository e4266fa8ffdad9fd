"""The words nearest a word: those whose vectors have the largest cosine with its own.

VECTORS is a file as GloVe, word2vec (text or .bin), fastText and `clew vectors` write it, packed or not; or a run,
whose table of words or other tokens is taken. Words that + and - join make one question: what is to woman as king is to
man? Without a word, every line of standard input is a question; one that has no answer is told on standard error, and
the next is still answered.

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
    add("--n", type=int, default=10, metavar="N", help="neighbours of each (default: 10)")
    add("--first", type=int, metavar="N", help="of a file, its first N words alone: as a rule the most frequent")
    add("--json", action="store_true", help="JSON lines")


class Question(NamedTuple):
    """What is added and what is taken away, and how that was written."""

    text: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError

    for name in ("n", "first"):
        if (given := getattr(options, name)) is not None and given < 1:
            raise UserError(f"--{name} ({given}) must be at least 1")
    questions = [options.words] if options.words else typed_lines()
    vectors, normalize = load_vectors(options)
    number = status = 0
    for words in questions:
        try:
            asked = [known(vectors, question, normalize) for question in read_questions(words)]
        except UserError as error:
            if options.words:
                raise
            print(f"clew: {error}", file=sys.stderr, flush=True)
            status = 2
            continue
        for question in asked:
            number += 1
            found = vectors.nearest_sum(question.plus, question.minus, options.n)
            show(question, found, number, options.json)
    return status


def typed_lines() -> Iterator[list[str]]:
    from clew.cli.options.lines import some_lines
    from clew.cli.terminal.progress import say

    if sys.stdin.isatty():
        say("reading words from the terminal; Ctrl-D ends them")
    return (line.split() for lines in some_lines(None) for line in lines)


def load_vectors(options: argparse.Namespace) -> tuple[Any, Normalize]:
    """The vectors, and how a word is written in them."""
    path = Path(options.vectors).expanduser()
    if not path.is_dir():
        from clew.baselines.word_vectors import load_word_vectors

        return load_word_vectors(path, *([] if options.first is None else [options.first])), str
    from clew.core.errors import UserError
    from clew.runs.loaded import load_run

    if options.first is not None:
        raise UserError(f"--first is for a file of vectors, and {path} is a folder; leave it out")
    return table_of(load_run(path, device="cpu", code=None if options.code is None else Path(options.code)))


def table_of(run: Any) -> tuple[Any, Normalize]:
    """A run's table of words, or of what else its tokens are, and what its tokenizer does to a text first; of a run
    with a source and a target, the target's."""
    from clew.baselines.word_vectors import WordVectors
    from clew.baselines.words import Words
    from clew.core.errors import UserError

    table = run.task.body.embedding.tokens
    if table is None:
        raise UserError(
            f"{run.folder} has no table of words (embedding.words=false): its words are read letter by letter"
        )
    tokenizer = next(run.vocabularies[role] for role in ("tokenizer", "target") if role in run.vocabularies)
    tokens = tokenizer.tokens
    if tokenizer.unit == "subword":
        tokens = [tokenizer.decode([id]) or token for id, token in enumerate(tokens)]
    return WordVectors(Words(tokens), table.weight.detach().float()), tokenizer.normalize


def read_questions(words: Iterable[str]) -> Iterator[Question]:
    """A word after + or - belongs to the question before it; any other begins one."""
    from clew.core.errors import UserError

    parts = [part for word in words for part in (word.split() if set(word.split()) & {"+", "-"} else [word])]
    found: list[list[str]] = []
    sign = ""
    for part in parts:
        if part in ("+", "-"):
            if sign or (part == "+" and not found):
                raise UserError(f"a word is missing before the {part}; write it as king - man + woman")
            sign = part
            continue
        if sign and found:
            found[-1] += [sign, part]
        else:
            found.append([sign or "+", part])
        sign = ""
    if sign:
        raise UserError(f"a word is missing after the {sign}; write it as king - man + woman")
    for terms in found:
        signed = list(zip(terms[::2], terms[1::2], strict=True))
        plus, minus = (tuple(word for mark, word in signed if mark == which) for which in "+-")
        yield Question(" ".join(terms).removeprefix("+ "), plus, minus)


def known(vectors: Any, question: Question, normalize: Normalize) -> Question:
    """The question in words that have vectors: as the run writes them, in lower case perhaps, and a subword that begins
    a word with a space before it. Any other is refused."""

    def find(word: str) -> str:
        ways = (word, f" {word}", normalize(word), f" {normalize(word)}")
        found = next((way for way in ways if way in vectors.words), word)
        vectors.vector(found)
        return found

    return Question(question.text, tuple(map(find, question.plus)), tuple(map(find, question.minus)))


def show(question: Question, found: Sequence[tuple[str, float]], number: int, as_json: bool) -> None:
    from clew.cli.terminal.tables import text_table
    from clew.core.errors import printable

    if as_json:
        for rank, (word, cosine) in enumerate(found, start=1):
            print(
                json.dumps(
                    {"question": question.text, "rank": rank, "word": word, "cosine": cosine}, ensure_ascii=False
                ),
                flush=True,
            )
        return
    rows = [(printable(word), f"{cosine:.3f}") for word, cosine in found]
    print(("\n" if number > 1 else "") + text_table((question.text, "cosine"), rows, right=(1,)), flush=True)
