"""Train word vectors on a text, and write them as a text file that any run can begin with: embedding.vectors=FILE.

FILE is a plain text, or a folder of .txt files, gzipped or not, a sentence a line; a word is what white space parts, or
with --split also what punctuation parts. Words nearer in meaning have vectors nearer in direction: `clew vectors
neighbours` shows them.

  clew vectors book.txt --split --lowercase --out vectors.txt
  clew vectors --corpus tinyshakespeare --split --method pmi --dim 50
  clew vectors book.txt --method cbow --window 8 --epochs 10 --min-count 2 --out vectors.txt.gz

skip-gram and CBOW (Mikolov et al. 2013) learn by guessing neighbours; pmi (Levy and Goldberg 2014) counts all pairs of
neighbours and factorises their table, which on a small text is both quicker and better.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import clock, say

METHODS = ("skip-gram", "cbow", "pmi")
EVERY = 5.0
"""Seconds between two lines about progress."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", help="a text of yours, or a folder of them")
    add(
        "--corpus",
        metavar="NAME",
        help="the training part of a corpus of running text instead, such as tinyshakespeare or ptb",
    )
    add("--method", choices=METHODS, default="skip-gram", help="how vectors are learnt (default: skip-gram)")
    add("--dim", type=int, default=100, metavar="N", help="numbers in a vector (default: 100)")
    add("--window", type=int, default=5, metavar="N", help="words on each side that count as neighbours (default: 5)")
    add("--min-count", type=int, default=5, metavar="N", help="rarer words have no vector (default: 5)")
    add("--epochs", type=int, metavar="N", help="skip-gram and cbow: how often the text is read (default: 5)")
    add("--lowercase", action="store_true", help="put the text in lower case first")
    add("--split", action="store_true", help="cut punctuation off words; each mark is a word by itself")
    add("--seed", type=int, default=1, metavar="N", help="everything random is derived from it (default: 1)")
    add(
        "--out",
        metavar="FILE",
        default="vectors.txt",
        help="where the vectors go (default: vectors.txt); .gz is zipped",
    )


def run(options: argparse.Namespace) -> int:
    from clew.baselines.word_vectors import fit_pmi, fit_word2vec
    from clew.core.errors import UserError, command, counted

    out = Path(options.out).expanduser()
    if not out.parent.is_dir():
        raise UserError(f"no such folder: {out.parent}, where --out is to write; make it first")
    if out.is_dir():
        raise UserError(f"{out} is a folder; --out takes the name of a file in it, such as {out / 'vectors.txt'}")
    if options.seed < 0:
        raise UserError(f"--seed ({options.seed}) must be at least 0")
    if options.method == "pmi" and options.epochs is not None:
        raise UserError("--epochs is for skip-gram and cbow; pmi counts the text once")
    sentences = Sentences(find_source(options), lowercase=options.lowercase, split=options.split)
    settings: dict[str, Any] = {
        "dim": options.dim,
        "window": options.window,
        "min_count": options.min_count,
        "seed": options.seed,
    }
    try:
        if options.method == "pmi":
            vectors = fit_pmi(sentences, progress=Pace("counting pairs"), **settings)
        else:
            settings["epochs"] = 5 if options.epochs is None else options.epochs
            vectors = fit_word2vec(sentences, options.method.replace("-", "_"), progress=Pace("reading"), **settings)
        vectors.save(out)
    except KeyboardInterrupt as stop:
        stop.args = (f"{out} was not written",)
        raise
    words = vectors.words.words
    example = next(
        (word for word in words if len(word) > 3 and word.isalpha()), next((w for w in words if w[0] != "-"), "WORD")
    )
    say(f"{out}: {counted(len(vectors.words), 'word')}, vectors of {vectors.dim}")
    if vectors.dim < options.dim:
        say(f"with {counted(len(vectors.words), 'word')}, vectors have {vectors.dim:,} numbers and not {options.dim:,}")
    say(f"next:  {command('clew', 'vectors', 'neighbours', out, example)}")
    return 0


def find_source(options: argparse.Namespace) -> Any:
    from clew.core.errors import UserError
    from clew.data.corpora import find_corpus
    from clew.data.files.text_files import find_text

    if (options.file is None) == (options.corpus is None):
        raise UserError("give a text of yours or --corpus NAME, one of them, e.g. `clew vectors book.txt`")
    return find_text(options.file if options.corpus is None else find_corpus(options.corpus).train)


class Sentences:
    """The words of every line, read anew each time."""

    def __init__(self, source: Any, *, lowercase: bool, split: bool):
        self.source = source
        self.lowercase = lowercase
        self.split = split

    def __iter__(self) -> Iterator[list[str]]:
        from clew.text.words import words_of

        for text in self.source:
            for line in (text.lower() if self.lowercase else text).split("\n"):
                yield words_of(line) if self.split else line.split()


class Pace:
    """Lines on standard error, one every few seconds: how many words were read, and how long the others will take."""

    def __init__(self, what: str):
        self.what = what
        self.began = self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.last < EVERY or not done:
            return
        self.last = now
        left = clock((now - self.began) / done * (total - done))
        say(f"{self.what}: {done:,} of {total:,} words, {left} left")
