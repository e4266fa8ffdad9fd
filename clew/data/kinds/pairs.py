"""Pairs of a source and a target text, from tables, parallel text, dialogues, corpora and generators."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Self

from pydantic import Field

from clew.core.errors import UserError, unknown
from clew.data.caching.parts import gather
from clew.data.corpora import CORPORA, read_corpus
from clew.data.example_splits import PARTS
from clew.data.examples import Dialogue, Pair
from clew.data.files.given_files import expand_home
from clew.data.formats.dialogue_files import read_dialogues, replies
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut, cut_files
from clew.data.kinds.section import Column, DrawnData
from clew.data.notes import Notes
from clew.data.readers import read_pairs
from clew.data.synthetic.sequences import SYNTHETIC, synthetic_lines


class PairsData(DrawnData):
    """Where the pairs come from: a corpus by name, a generated one, or your own files."""

    source: Column | None = Field(
        None, description="pairs: the column of the source, by name or number; for a corpus, a language"
    )
    target: Column | None = Field(None, description="pairs: the column of the target; for a corpus, a language")
    directions: list[str] | None = Field(
        None,
        description=(
            "language pairs for one model, such as [de-en, en-de]; of a corpus, or of files train.de, train.en, ..."
        ),
    )
    turns: int | None = Field(
        None,
        ge=1,
        description=(
            "the files are dialogues, a turn on each line, separated by empty lines: write a reply to this many turns"
        ),
    )

    def for_files(self) -> Self:
        languages = {} if self.corpus is None else {"source": None, "target": None}
        return self.model_copy(update={"corpus": None, "directions": None, **languages})


def read_pair_parts(data: PairsData, seed: int, notes: Notes) -> Parts:
    if data.turns is not None:
        return read_dialogue_parts(data, seed, notes)
    data.check_given(
        "there is no training data; name your pairs with data.train, e.g. `clew train translate data.train=pairs.tsv`"
        " or data.train=[train.de,train.en]"
    )
    if data.directions is not None:
        return many_directions(data, seed, notes)
    if data.corpus in SYNTHETIC:
        lines = synthetic_lines(data.corpus, data.size, seed, data.shortest, data.longest)
        pairs = (
            Pair(line.source, line.target, f"{data.corpus} {number}") for number, line in enumerate(lines, start=1)
        )
        return cut(gather(pairs), data, seed)
    if data.corpus is not None:
        if data.corpus not in CORPORA:
            raise unknown("corpus", data.corpus, [*CORPORA, *SYNTHETIC])
        source, target = language(data.source, "source"), language(data.target, "target")
        return dict(read_corpus(data.corpus, source=source, target=target, kind="pairs", seed=seed, notes=notes))
    return cut_files(lambda files: read_pair_files(files, data, notes), data, seed)


def read_pair_files(files: PartFiles, data: PairsData, notes: Notes) -> Iterator[Pair]:
    if data.turns is not None:
        return (pair for dialogue in read_dialogue_files(files, notes) for pair in replies(dialogue, data.turns))
    if len(files) > 2:
        raise UserError(f"pairs are in one file, or in two parallel files, not in {len(files)}")
    return read_pairs(
        files[0] if len(files) == 1 else files,
        source=data.source,
        target=data.target,
        format=data.format,
        header=data.header,
        notes=notes,
    )


def many_directions(data: PairsData, seed: int, notes: Notes) -> Parts:
    """Read the pairs of every direction, each marked with its target language."""
    if data.source is not None or data.target is not None:
        raise UserError("data.directions takes the place of data.source and data.target; leave these out")
    read: dict[tuple[str, str], Parts] = {}
    for direction in data.directions or []:
        source, dash, target = direction.partition("-")
        if not (source and dash and target):
            raise UserError(f"data.directions: '{direction}' is not two languages with a hyphen between, such as de-en")
        read[direction, target] = one_direction(data, source, target, seed, notes)
    if not read:
        raise UserError("data.directions is empty; name at least one, such as [de-en]")

    def marked(part: str) -> Iterator[Pair]:
        for (direction, target), parts in read.items():
            for pair in parts.get(part, ()):
                yield pair._replace(id=f"{pair.id} {direction}", into=target)

    return {part: gather(marked(part)) for part in dict.fromkeys(chain.from_iterable(read.values()))}


def one_direction(data: PairsData, source: str, target: str, seed: int, notes: Notes) -> Parts:
    """Read the pairs of one direction, from a corpus or from one file for each language: data.train=folder/train for
    folder/train.de, folder/train.en and so on. Lines are split by their number, so that a sentence is in the same part
    in every language."""
    if data.corpus is not None:
        return dict(read_corpus(data.corpus, source=source, target=target, kind="pairs", seed=seed, notes=notes))
    parts: dict[str, Sequence[Pair]] = {}
    for part in PARTS:
        if (files := getattr(data, part)) is None:
            continue
        if isinstance(files, list):
            raise UserError(f"with data.directions, data.{part} is what the names of its files begin with, not a list")
        parts[part] = gather(read_pairs(files, source=source, target=target, format="parallel", notes=notes))
    return cut(
        parts["train"], data, seed, parts.get("valid"), parts.get("test"), key=lambda pair: pair.id.rpartition(":")[2]
    )


def read_dialogue_parts(data: PairsData, seed: int, notes: Notes) -> Parts:
    """Read replies with the turns before them. Whole dialogues are split: no dialogue is in two parts."""
    if data.corpus is not None:
        raise UserError(
            f"data.turns is for files of dialogues, but data.corpus={data.corpus} is a corpus; leave one of them out"
        )
    data.check_given(
        "there is no training data; name your dialogues with data.train, one turn on each line, e.g. `clew train"
        " dialogue data.train=talk.txt`"
    )
    parts = cut_files(lambda files: read_dialogue_files(files, notes), data, seed)
    return {
        part: gather(pair for dialogue in parts[part] for pair in replies(dialogue, data.turns or 1)) for part in parts
    }


def read_dialogue_files(files: PartFiles, notes: Notes) -> Iterator[Dialogue]:
    for file in files:
        yield from read_dialogues(expand_home(file), notes=notes)


def language(name: str | int | None, role: str) -> str | None:
    if isinstance(name, int):
        raise UserError(f"data.{role} is a number ({name}), but a corpus needs a language; name one")
    return name


def pair_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield (source, target)."""
    for example in read_pairs(examples, notes=notes):
        yield {"source": example.source, "target": example.target}


def direction_ends(data: PairsData) -> Sequence[str]:
    """The id endings of each direction, if there are several: a score over all says little about any one."""
    return [f" {direction}" for direction in data.directions or [] if len(data.directions or []) > 1]


PAIRS = Kind(
    name="pairs",
    section=PairsData,
    read_parts=read_pair_parts,
    read_files=read_pair_files,
    rows=pair_rows,
    pieces=direction_ends,
)
