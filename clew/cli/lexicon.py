"""Translate words between two languages by their word vectors: a rotation maps one vector space to the other.

SOURCE and TARGET are files of vectors (GloVe, word2vec, fastText, gzipped or not; navec's .tar), or runs, whose word
embeddings are used. The rotation is learned (orthogonal Procrustes) from the pairs in --train, a word and its
translation per line, or else from words that are spelled the same in both languages. --test measures precision; any of
a word's translations counts as correct.

  clew vectors lexicon glove.txt.gz navec.tar --train train.en-ru.tsv --test test.en-ru.tsv
  clew vectors lexicon glove.txt.gz navec.tar --train train.en-ru.tsv dog water --n 5
  clew vectors lexicon english.vec german.vec --train pairs.tsv --out dictionary.tsv --first 20000
  clew vectors lexicon runs/english runs/german --train pairs.tsv --test more.tsv --rounds 2 --json

A translation is the nearest word by CSLS (Conneau et al. 2018), which penalises words that are near to many others;
--by nearest uses the plain cosine. Cross-validation on the training pairs chooses how to normalise the vectors, and
whether to refine the rotation with the pairs that it finds, unless --prepare and --rounds are given.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.cli.terminal.progress import say

FIRST = 50_000
PREPARATIONS = ("unit", "centre", "unit_centre")
METHODS = ("nearest", "csls")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE", help="vectors of the source language: a file, or a run")
    add("target", metavar="TARGET", help="vectors of the target language: a file, or a run")
    add("words", metavar="WORD", nargs="*", default=[], help="words to translate")
    add(
        "--train",
        metavar="FILE",
        help="training pairs, a word and its translation per line (default: words spelled the same in both)",
    )
    add("--test", metavar="FILE", help="test pairs")
    add("--by", default="csls", choices=METHODS, help="how to find a translation (default: csls)")
    add("--n", type=int, default=1, metavar="N", help="translations per word (default: 1)")
    add(
        "--first",
        type=int,
        default=FIRST,
        metavar="N",
        help=f"use the first N words of each language, usually the most frequent (default: {FIRST:,})",
    )
    add(
        "--prepare",
        default="auto",
        choices=["auto", *PREPARATIONS],
        help="normalise the vectors: to length 1, by subtracting the mean, or both (default: auto)",
    )
    add(
        "--rounds",
        default="auto",
        metavar="N",
        help="rounds of refinement (default: 0 or 1, by cross-validation)",
    )
    add("--out", metavar="FILE", help="write a dictionary of tab-separated lines: source word, target word, score")
    add(
        "--words",
        dest="num_words",
        type=int,
        default=10_000,
        metavar="N",
        help="source words in that dictionary (default: the first 10,000)",
    )
    add("--json", action="store_true", help="print JSON lines")


class Side(NamedTuple):
    """A language: its words, their row numbers, and their vectors."""

    name: str
    words: list[str]
    place: dict[str, int]
    vectors: Any

    def find(self, word: str) -> int | None:
        """Return the row of a word, or else of the word in lower case."""
        return self.place.get(word, self.place.get(word.lower()))


def run(options: argparse.Namespace) -> int:
    from clew.inspection.lexicon import PREPARATIONS as prepare
    from clew.inspection.lexicon import align_spaces, space_of

    check(options)
    source, target = (read_side(name, options) for name in (options.source, options.target))
    pairs, origin = training_pairs(options, source, target)
    test = None if options.test is None else read_pairs(options.test, source, target)
    preparation, rounds = choose_settings(options, source, target, pairs)
    x, y = prepare[preparation](source.vectors), prepare[preparation](target.vectors)
    rotation = align_spaces(x, y, pairs, rounds=rounds)
    spaces = {
        method: space_of(x, y, rotation, csls=method == "csls")
        for method in (METHODS if test is not None else (options.by,))
    }
    facts = {
        "source": {"vectors": source.name, "words": len(source.words), "dim": source.vectors.shape[1]},
        "target": {"vectors": target.name, "words": len(target.words), "dim": target.vectors.shape[1]},
        "train": {"pairs": len(pairs), "from": origin},
        "preparation": preparation,
        "rounds": rounds,
    }
    if test is not None:
        measure(options, spaces, test, facts)
    if options.words:
        translate(options, spaces[options.by], source, target)
    if options.out is not None:
        write(options, spaces[options.by], source, target)
    return 0


def check(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    for name, value in (("n", options.n), ("first", options.first), ("words", options.num_words)):
        if value < 1:
            raise UserError(f"--{name} ({value}) must be at least 1")
    if options.rounds != "auto":
        if not options.rounds.isdecimal() or len(options.rounds) > 3:
            raise UserError(f"--rounds must be a number of at least 0, or auto, not {options.rounds!r}")
        options.rounds = int(options.rounds)
    if options.test is None and not options.words and options.out is None:
        raise UserError(
            "nothing to do; give words to translate, --test FILE to measure, or --out FILE to write a dictionary"
        )
    if options.out is not None and not Path(options.out).expanduser().parent.is_dir():
        raise UserError(f"no such folder for --out: {Path(options.out).parent}; create it first")


def read_side(name: str, options: argparse.Namespace) -> Side:
    from clew.baselines.word_vectors import load_word_vectors

    path = Path(name).expanduser()
    if path.is_dir():
        from clew.cli.neighbours import table_of
        from clew.runs.loaded import load_run

        table = table_of(load_run(path, device="cpu", code=None if options.code is None else Path(options.code)))[0]
    else:
        table = load_word_vectors(path, options.first)
    words = [word.strip() for word in table.words.words[: options.first]]
    place = {word: row for row, word in reversed(list(enumerate(words)))}
    return Side(name, words, place, table.vectors[: options.first].numpy())


class Pairs(NamedTuple):
    """Row numbers (pairs, 2) of the pairs with vectors; the numbers of pairs and of source words in the file."""

    rows: Any
    num_pairs: int
    num_words: int


def read_pairs(file: str, source: Side, target: Side) -> Pairs:
    import numpy as np

    from clew.data.formats.lexicon_files import read_lexicon

    lexicon = read_lexicon(file)
    matches = [(source.find(word), target.find(translation)) for word, translation in lexicon]
    rows = np.array([pair for pair in dict.fromkeys(matches) if None not in pair], dtype=np.int64).reshape(-1, 2)
    return Pairs(rows, len(lexicon), len({word for word, _ in lexicon}))


def training_pairs(options: argparse.Namespace, source: Side, target: Side) -> tuple[Any, str]:
    import numpy as np

    from clew.core.errors import UserError

    if options.train is None:
        identical = [(row, target.place[word]) for word, row in source.place.items() if word in target.place]
        rows, origin = np.array(identical, dtype=np.int64).reshape(-1, 2), "words that are spelled the same"
    else:
        pairs = read_pairs(options.train, source, target)
        rows, origin = pairs.rows, options.train
        say(f"{options.train}: {len(rows):,} of {pairs.num_pairs:,} pairs have vectors on both sides")
    if len(rows) < 10:
        raise UserError(
            f"the rotation needs at least 10 training pairs with vectors on both sides, but there are {len(rows)}"
            f" ({origin}); give more with --train FILE"
        )
    return rows, origin


def choose_settings(options: argparse.Namespace, source: Side, target: Side, pairs: Any) -> tuple[str, int]:
    """Return the preparation and rounds of the options, or else the best by cross-validation on the training pairs."""
    from clew.inspection.lexicon import cross_validate

    names = PREPARATIONS if options.prepare == "auto" else (options.prepare,)
    rounds = (0, 1) if options.rounds == "auto" else (options.rounds,)
    if len(names) * len(rounds) == 1:
        return names[0], rounds[0]
    say("cross-validation on the training pairs")
    choices = cross_validate(source.vectors, target.vectors, pairs, names, rounds)
    for choice in choices:
        say(f"  {choice.preparation}, {choice.rounds} rounds: precision at 1 {choice.precision:.1f}")
    return choices[0].preparation, choices[0].rounds


def measure(options: argparse.Namespace, spaces: dict[str, Any], test: Pairs, facts: dict[str, Any]) -> None:
    from clew.cli.terminal.tables import show_table
    from clew.inspection.lexicon import KS, precision_at, translations

    gold = translations(test.rows)
    precisions = {method: precision_at(space, gold, test.num_words) for method, space in spaces.items()}
    if options.json:
        for method, each in precisions.items():
            scores = {f"precision@{k}": value for k, value in each.at.items()}
            scores_of_all = {f"precision@{k}_of_all": value for k, value in each.of_all().items()}
            print(
                json.dumps(
                    {
                        "by": method,
                        **scores,
                        **scores_of_all,
                        "words": each.num_words,
                        "words_in_all": each.num_in_all,
                        **facts,
                    }
                )
            )
        return
    header = ["by", *(f"P@{k}" for k in KS), *(f"P@{k} of all" for k in KS)]
    rows = [
        [method, *(f"{value:.1f}" for value in (*each.at.values(), *each.of_all().values()))]
        for method, each in precisions.items()
    ]
    show_table(header, rows, right=range(1, len(header)))
    measured = precisions["csls"]
    print(
        f"{measured.num_words:,} of {measured.num_in_all:,} words of {options.test} have vectors on both sides; 'of"
        f" all' counts the others as wrong. Candidates: {facts['target']['words']:,} words; learned from"
        f" {facts['train']['pairs']:,} pairs ({facts['preparation']}, {facts['rounds']} rounds)"
    )


def translate(options: argparse.Namespace, space: Any, source: Side, target: Side) -> None:
    import numpy as np

    from clew.core.errors import UserError, did_you_mean, named

    rows = []
    for word in options.words:
        row = source.find(word)
        if row is None:
            near = did_you_mean(word, source.words[:20_000])
            advice = " --first N reads more" if len(source.words) == options.first else ""
            raise UserError(
                f"no vector for {named(word)} among {len(source.words):,} words of {source.name}{near}{advice}"
            )
        rows.append(row)
    for line in entries(space, np.array(rows), options.n, source, target):
        print(
            json.dumps(dict(zip(("source", "target", "score"), line, strict=True)), ensure_ascii=False)
            if options.json
            else tsv(line)
        )


def write(options: argparse.Namespace, space: Any, source: Side, target: Side) -> None:
    import numpy as np

    rows = np.arange(min(options.num_words, len(source.words)))
    path = Path(options.out).expanduser()
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(tsv(line) + "\n" for line in entries(space, rows, options.n, source, target))
    say(f"wrote {options.n * len(rows):,} translations of {len(rows):,} words to {path}")


def entries(space: Any, rows: Any, num: int, source: Side, target: Side) -> Sequence[tuple[str, str, float]]:
    neighbours, scores = space.nearest(rows, num)
    return [
        (source.words[row], target.words[place], float(score))
        for row, places, values in zip(rows.tolist(), neighbours.tolist(), scores.tolist(), strict=True)
        for place, score in zip(places, values, strict=True)
    ]


def tsv(line: tuple[str, str, float]) -> str:
    from clew.core.errors import printable

    return f"{printable(line[0])}\t{printable(line[1])}\t{line[2]:.4f}"
