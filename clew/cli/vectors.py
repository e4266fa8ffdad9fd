"""Train word vectors on a text, and write them to a text file, which can initialise any model: embedding.vectors=FILE.

FILE is a plain text, or a folder of .txt files, gzipped or not, with a sentence per line. Words are separated by white
space, and with --split also by punctuation. Words of similar meaning get vectors of similar direction: `clew vectors
neighbours` shows them.

  clew vectors book.txt --split --lowercase --out vectors.txt
  clew vectors --corpus tinyshakespeare --split --method pmi --dim 50
  clew vectors book.txt --method cbow --window 8 --epochs 10 --min-count 2 --out vectors.txt.gz

skip-gram and cbow (Mikolov et al. 2013) learn to predict neighbouring words. pmi (Levy and Goldberg 2014) counts all
pairs of neighbours and factorises the matrix of counts, which is faster and better on a small text.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import clock, say

METHODS = ("skip-gram", "cbow", "pmi")
EVERY = 5.0
"""Seconds between two progress lines."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", nargs="?", help="a text file, or a folder of text files")
    add(
        "--corpus",
        metavar="NAME",
        help="train on the training part of a text corpus instead, such as tinyshakespeare or ptb",
    )
    add("--method", choices=METHODS, default="skip-gram", help="how to learn the vectors (default: skip-gram)")
    add("--dim", type=int, default=100, metavar="N", help="dimension of the vectors (default: 100)")
    add("--window", type=int, default=5, metavar="N", help="neighbouring words on each side (default: 5)")
    add("--min-count", type=int, default=5, metavar="N", help="ignore words with fewer occurrences (default: 5)")
    add("--epochs", type=int, metavar="N", help="passes over the text, for skip-gram and cbow (default: 5)")
    add("--lowercase", action="store_true", help="convert the text to lower case first")
    add("--split", action="store_true", help="split punctuation from words; each mark is a word")
    add("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    add(
        "--out",
        metavar="FILE",
        default="vectors.txt",
        help="the file to write (default: vectors.txt); .gz is compressed",
    )


def run(options: argparse.Namespace) -> int:
    from clew.baselines.word_vectors import fit_pmi, fit_word2vec
    from clew.core.errors import UserError, command, counted

    out = Path(options.out).expanduser()
    if not out.parent.is_dir():
        raise UserError(f"no such folder for --out: {out.parent}; create it first")
    if out.is_dir():
        raise UserError(f"{out} is a folder; --out takes a file, such as {out / 'vectors.txt'}")
    if options.seed < 0:
        raise UserError(f"--seed ({options.seed}) must be at least 0")
    if options.method == "pmi" and options.epochs is not None:
        raise UserError("--epochs is for skip-gram and cbow, but pmi reads the text once; leave it out")
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
        say(f"{counted(len(vectors.words), 'word')} allow only {vectors.dim:,} dimensions, not {options.dim:,}")
    say(f"next:  {command('clew', 'vectors', 'neighbours', out, example)}")
    return 0


def find_source(options: argparse.Namespace) -> Any:
    from clew.core.errors import UserError
    from clew.data.corpora import find_corpus
    from clew.data.files.text_files import find_text

    if (options.file is None) == (options.corpus is None):
        raise UserError("give either a text file or --corpus NAME, e.g. `clew vectors book.txt`")
    return find_text(options.file if options.corpus is None else find_corpus(options.corpus).train)


class Sentences:
    """The words of every line, read again by every iteration."""

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
    """Prints progress on standard error every few seconds: the words read so far, and the time left."""

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
