"""A dictionary between two languages, read off their word vectors: one space is turned until translations lie on each
other.

SOURCE and TARGET are files of vectors (GloVe, word2vec, fastText, gzipped or not; navec's .tar), or runs, whose tables
of words are taken. --train has the pairs that the rotation is learnt from (orthogonal Procrustes), a word and its
translation a line; without it, words that are spelt alike in both are. --test measures: any of a word's translations
counts as right.

  clew vectors lexicon glove.txt.gz navec.tar --train train.en-ru.tsv --test test.en-ru.tsv
  clew vectors lexicon glove.txt.gz navec.tar --train train.en-ru.tsv dog water --n 5
  clew vectors lexicon english.vec german.vec --train pairs.tsv --out dictionary.tsv --first 20000
  clew vectors lexicon runs/english runs/german --train pairs.tsv --test more.tsv --rounds 2 --json

A translation is the nearest by CSLS (Conneau et al. 2018), which holds against a word that it is near to many; --by
nearest takes the plain cosine. What is done to the vectors first, and whether the rotation is refined by pairs that it
finds itself, is what translates best by cross-validation on the --train pairs, unless --prepare and --rounds say.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clew.cli.terminal.progress import say

FIRST = 50_000
PREPARATIONS = ("unit", "centre", "unit_centre")
WAYS = ("nearest", "csls")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE", help="vectors of the language to translate from: a file, or a run")
    add("target", metavar="TARGET", help="vectors of the language to translate into")
    add("words", metavar="WORD", nargs="*", default=[], help="translate these")
    add(
        "--train",
        metavar="FILE",
        help="pairs to learn from, a word and its translation a line (default: words spelt alike in both)",
    )
    add("--test", metavar="FILE", help="pairs to measure on")
    add("--by", default="csls", choices=WAYS, help="how a translation is found (default: csls)")
    add("--n", type=int, default=1, metavar="N", help="translations of each word (default: 1)")
    add(
        "--first",
        type=int,
        default=FIRST,
        metavar="N",
        help=f"the first N words of either language, as a rule the most frequent ({FIRST:,})",
    )
    add(
        "--prepare",
        default="auto",
        choices=["auto", *PREPARATIONS],
        help="what is done to the vectors: lengths of 1, the mean taken away",
    )
    add(
        "--rounds",
        default="auto",
        metavar="N",
        help="rounds of refinement, 0 and more (default: 0 or 1, as cross-validation says)",
    )
    add("--out", metavar="FILE", help="write a dictionary: source word, target word, score, with tabs between")
    add(
        "--words",
        dest="num_words",
        type=int,
        default=10_000,
        metavar="N",
        help="source words of that dictionary (default: the first 10,000)",
    )
    add("--json", action="store_true", help="JSON lines")


class Side(NamedTuple):
    """A language: its words, their places, and their vectors."""

    name: str
    words: list[str]
    place: dict[str, int]
    vectors: Any

    def find(self, word: str) -> int | None:
        """A word's place, that of its lower case where it has none itself."""
        return self.place.get(word, self.place.get(word.lower()))


def run(options: argparse.Namespace) -> int:
    from clew.inspection.lexicon import PREPARATIONS as prepare
    from clew.inspection.lexicon import align, space_of

    check(options)
    source, target = (read_side(name, options) for name in (options.source, options.target))
    pairs, told = training_pairs(options, source, target)
    test = None if options.test is None else read_pairs(options.test, source, target)
    preparation, rounds = chosen(options, source, target, pairs)
    x, y = prepare[preparation](source.vectors), prepare[preparation](target.vectors)
    rotation = align(x, y, pairs, rounds=rounds)
    spaces = {
        way: space_of(x, y, rotation, csls=way == "csls") for way in (WAYS if test is not None else (options.by,))
    }
    facts = {
        "source": {"vectors": source.name, "words": len(source.words), "dim": source.vectors.shape[1]},
        "target": {"vectors": target.name, "words": len(target.words), "dim": target.vectors.shape[1]},
        "train": {"pairs": len(pairs), "from": told},
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
            raise UserError(f"--rounds takes a number, 0 and more, or auto, not {options.rounds!r}")
        options.rounds = int(options.rounds)
    if options.test is None and not options.words and options.out is None:
        raise UserError(
            "there is nothing to do; give --test FILE to measure, words to translate, or --out FILE for a dictionary"
        )
    if options.out is not None and not Path(options.out).expanduser().parent.is_dir():
        raise UserError(f"no such folder: {Path(options.out).parent}, where --out is to write; make it first")


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
    """Rows (pairs, 2) of those that have vectors; how many pairs and how many source words the file has."""

    rows: Any
    num_pairs: int
    num_words: int


def read_pairs(file: str, source: Side, target: Side) -> Pairs:
    import numpy as np

    from clew.data.formats.lexicon_files import read_lexicon

    lexicon = read_lexicon(file)
    found = [(source.find(one), target.find(other)) for one, other in lexicon]
    rows = np.array([pair for pair in dict.fromkeys(found) if None not in pair], dtype=np.int64).reshape(-1, 2)
    return Pairs(rows, len(lexicon), len({one for one, _ in lexicon}))


def training_pairs(options: argparse.Namespace, source: Side, target: Side) -> tuple[Any, str]:
    import numpy as np

    from clew.core.errors import UserError

    if options.train is None:
        alike = [(row, target.place[word]) for word, row in source.place.items() if word in target.place]
        rows, told = np.array(alike, dtype=np.int64).reshape(-1, 2), "words that are spelt alike"
    else:
        pairs = read_pairs(options.train, source, target)
        rows, told = pairs.rows, options.train
        say(f"{options.train}: {len(rows):,} of {pairs.num_pairs:,} pairs have vectors on both sides")
    if len(rows) < 10:
        raise UserError(
            f"the rotation is learnt from ten pairs with vectors on both sides at least; of {told} there are"
            f" {len(rows)}"
        )
    return rows, told


def chosen(options: argparse.Namespace, source: Side, target: Side, pairs: Any) -> tuple[str, int]:
    """What was asked for, or what cross-validation on the training pairs prefers."""
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
    from clew.inspection.lexicon import KS, precision, translations

    gold = translations(test.rows)
    found = {way: precision(space, gold, test.num_words) for way, space in spaces.items()}
    if options.json:
        for way, each in found.items():
            scores = {f"precision@{k}": value for k, value in each.at.items()}
            everything = {f"precision@{k}_of_all": value for k, value in each.of_all().items()}
            print(
                json.dumps(
                    {
                        "by": way,
                        **scores,
                        **everything,
                        "words": each.num_words,
                        "words_in_all": each.num_in_all,
                        **facts,
                    }
                )
            )
        return
    header = ["by", *(f"P@{k}" for k in KS), *(f"P@{k} of all" for k in KS)]
    rows = [[way, *(f"{v:.1f}" for v in (*each.at.values(), *each.of_all().values()))] for way, each in found.items()]
    show_table(header, rows, right=range(1, len(header)))
    asked = found["csls"]
    print(
        f"{asked.num_words:,} of {asked.num_in_all:,} words of {options.test} have vectors on both sides; of all: the"
        f" others are wrong. Candidates: {facts['target']['words']:,} words; learnt from {facts['train']['pairs']:,}"
        f" pairs ({facts['preparation']}, {facts['rounds']} rounds)"
    )


def translate(options: argparse.Namespace, space: Any, source: Side, target: Side) -> None:
    import numpy as np

    from clew.core.errors import UserError, did_you_mean, named

    rows = []
    for word in options.words:
        row = source.find(word)
        if row is None:
            near = did_you_mean(word, source.words[:20_000])
            more = " --first takes more" if len(source.words) == options.first else ""
            raise UserError(
                f"no vector for {named(word)} among {len(source.words):,} words of {source.name}{near}{more}"
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
    found, scores = space.nearest(rows, num)
    return [
        (source.words[row], target.words[place], float(score))
        for row, places, values in zip(rows.tolist(), found.tolist(), scores.tolist(), strict=True)
        for place, score in zip(places, values, strict=True)
    ]


def tsv(line: tuple[str, str, float]) -> str:
    from clew.core.errors import printable

    return f"{printable(line[0])}\t{printable(line[1])}\t{line[2]:.4f}"
