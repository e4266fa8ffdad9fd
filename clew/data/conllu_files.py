"""CoNLL-U, the format of Universal Dependencies: ten tab-separated columns a word, comments before a sentence, an empty line after it.

The words are the syntactic ones: a range such as `1-2` names what is written together and is passed over, and so is an empty node such
as `1.1`, which is not written at all.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from clew.core.errors import unknown
from clew.data.conll_files import Block, as_sentence, line_groups
from clew.data.examples import Sentence
from clew.data.notes import Notes
from clew.data.records import Column, as_number, check_found

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
PASSED_OVER = re.compile(r"\d+-\d+|\d+\.\d+")


def read_conllu(
    path: Path,
    *,
    words: Column = "form",
    tags: Column | None = "upos",
    heads: Column | None = "head",
    relations: Column | None = "deprel",
    notes: Notes | None = None,
) -> Iterator[Sentence]:
    """The sentences; columns by their names or numbers, None for what is not wanted. Heads are checked."""
    notes = Notes() if notes is None else notes
    wanted = {"words": words, "tags": tags, "heads": heads, "relations": relations}
    places = {role: find_place(column) for role, column in wanted.items() if column is not None}
    found = False
    for block in read_conllu_blocks(path, notes):
        columns = {role: tuple(row[place] for row in block.rows) for role, place in places.items()}
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is not None:
            found = True
            yield sentence
    check_found(found, path, False, notes)


def read_conllu_blocks(path: Path, notes: Notes) -> Iterator[Block]:
    """The sentences with a row a syntactic word; one whose words are not numbered 1, 2, 3, ... is a fault."""
    for group in line_groups(path):
        block = Block([], [], {})
        for number, line in group:
            if line.startswith("#"):
                name, _, value = line.removeprefix("#").partition("=")
                block.comments[name.strip()] = value.strip()
                continue
            row = line.split("\t")
            if len(row) != len(COLUMNS):
                notes.fault(
                    "wrong number of columns", f"{path}:{number}", f"expected {len(COLUMNS)} tab-separated columns, found {len(row)}"
                )
                break
            if PASSED_OVER.fullmatch(row[0]):
                continue
            if row[0] != str(len(block.rows) + 1):
                rule = f"the word's number is {row[0]!r}, and {len(block.rows) + 1} comes next; words are numbered from 1 in each sentence"
                notes.fault("wrong word number", f"{path}:{number}", rule)
                break
            block.rows.append(row)
            block.lines.append(number)
        else:
            if block.rows:
                yield block


def find_place(column: Column) -> int:
    number = as_number(column)
    if number is not None and 1 <= number <= len(COLUMNS):
        return number - 1
    if column not in COLUMNS:
        raise unknown("CoNLL-U column", str(column), COLUMNS)
    return COLUMNS.index(str(column))
