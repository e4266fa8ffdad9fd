"""CoNLL-U, the format of Universal Dependencies: ten tab-separated columns per word, comments before a sentence, and an
empty line after it.

Words are syntactic words. Ranges such as `1-2`, which stand for words written together, are skipped; so are empty nodes
such as `1.1`, which are not written at all.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from clew.core.errors import UserError, unknown
from clew.core.tree_nodes import head_nodes
from clew.data.described import Columns, Row, Shown, Use, text_field
from clew.data.examples import LabelledTree, Sentence
from clew.data.format import Format
from clew.data.formats.conll_files import Block, as_sentence, block_row, group_lines, line_groups
from clew.data.notes import Notes
from clew.data.records import Column, as_number, check_found, listed
from clew.data.syntax.dependency_graphs import read_deps
from clew.data.syntax.heads import read_heads

COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
SKIPPED_NUMBER = re.compile(r"\d+-\d+|\d+\.\d+")
FORM, HEAD, DEPS = COLUMNS.index("form"), COLUMNS.index("head"), COLUMNS.index("deps")
GRAPH_COLUMNS = {"words": "form", "heads": "head", "relations": "deprel"}
WORD_NUMBER = re.compile(r"\d+([-.]\d+)?")
WITHOUT_LABELS = ("form", "lemma", "head", "deps", "misc")
"""Columns of CoNLL-U that have no labels."""


def read_conllu(
    path: Path,
    *,
    words: Column = "form",
    tags: Column | None = "upos",
    heads: Column | None = "head",
    relations: Column | None = "deprel",
    notes: Notes | None = None,
) -> Iterator[Sentence]:
    """Yield the sentences. Columns are names or numbers; None leaves a column out. Heads are checked."""
    notes = Notes() if notes is None else notes
    columns_by_role = {"words": words, "tags": tags, "heads": heads, "relations": relations}
    indexes = {role: find_column_index(column) for role, column in columns_by_role.items() if column is not None}
    has_sentences = False
    for block in read_conllu_blocks(path, notes):
        columns = {role: tuple(row[index] for row in block.rows) for role, index in indexes.items()}
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is not None:
            has_sentences = True
            yield sentence
    check_found(has_sentences, path, False, notes)


def read_conllu_blocks(path: Path, notes: Notes) -> Iterator[Block]:
    return conllu_blocks(line_groups(path), path, notes)


def conllu_blocks(groups: Iterable[list[tuple[int, str]]], path: Path | str, notes: Notes) -> Iterator[Block]:
    """Yield the sentences with one row per syntactic word. Words that are not numbered 1, 2, 3, ... are a fault."""
    for group in groups:
        block = Block([], [], {})
        for number, line in group:
            if line.startswith("#"):
                name, _, value = line.removeprefix("#").partition("=")
                block.comments[name.strip()] = value.strip()
                continue
            row = line.split("\t")
            if len(row) != len(COLUMNS):
                notes.fault(
                    "wrong number of columns",
                    f"{path}:{number}",
                    f"expected {len(COLUMNS)} tab-separated columns, found {len(row)}",
                )
                break
            if SKIPPED_NUMBER.fullmatch(row[0]):
                continue
            if row[0] != str(len(block.rows) + 1):
                rule = (
                    f"the word's number is {row[0]!r}, expected {len(block.rows) + 1}; words are numbered from 1 in"
                    " each sentence"
                )
                notes.fault("wrong word number", f"{path}:{number}", rule)
                break
            block.rows.append(row)
            block.lines.append(number)
        else:
            if block.rows:
                yield block


def find_column_index(column: Column) -> int:
    number = as_number(column)
    if number is not None and 1 <= number <= len(COLUMNS):
        return number - 1
    if column not in COLUMNS:
        raise unknown("CoNLL-U column", str(column), COLUMNS)
    return COLUMNS.index(str(column))


def conllu_sentences(
    path: Path,
    *,
    words: Column | None,
    tags: Column | None,
    heads: Column | None,
    relations: Column | None,
    with_tags: bool,
    with_heads: bool,
    notes: Notes,
) -> Iterator[Sentence]:
    """Yield the sentences, by default with the columns form, upos, head and deprel."""
    return read_conllu(
        path,
        words="form" if words is None else words,
        tags=("upos" if tags is None else tags) if with_tags else None,
        heads=("head" if heads is None else heads) if with_heads else None,
        relations=("deprel" if relations is None else relations) if with_heads else None,
        notes=notes,
    )


def dependency_trees(path: Path, label: Column | None, notes: Notes) -> Iterator[LabelledTree]:
    """Yield sentences with heads as trees; the class of the root is in the comment `label`."""
    blocks = read_conllu_blocks(path, notes)
    first = next(blocks, None)
    if label is None and first is not None:
        comments = listed(list(first.comments)) or "none"
        raise UserError(
            f"{path}: the labels of CoNLL-U sentences are in comments; name one with data.label=NAME; there are:"
            f" {comments}"
        )
    for block in chain([] if first is None else [first], blocks):
        columns = {"words": tuple(row[FORM] for row in block.rows), "heads": tuple(row[HEAD] for row in block.rows)}
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is None:
            continue
        if sentence.heads is None or sentence.heads.count(0) > 1:
            rule = (
                "the words have no heads"
                if sentence.heads is None
                else f"{sentence.heads.count(0)} words have the head 0"
            )
            notes.fault("not a tree", sentence.id, f"{rule}; a tree has one root, and every other word has a head")
            continue
        if (name := label_of(block, str(label), sentence.id, notes)) is not None:
            labels = tuple(name if head == 0 else None for head in sentence.heads)
            yield LabelledTree(sentence.words, head_nodes(sentence.heads), labels, id=sentence.id)


def dependency_graphs(path: Path, label: str | None, notes: Notes) -> Iterator[Sentence]:
    """Yield sentences with heads and, if the file has them, the heads of the enhanced graph. Tags come from the column
    `label`; `feats:Number` means that feature, which is `_` for a word without it. Without a label, as for prediction,
    sentences may lack heads."""
    has_sentences = False
    for sentence in block_graphs(read_conllu_blocks(path, notes), path, label, notes):
        has_sentences = True
        yield sentence
    check_found(has_sentences, path, False, notes)


def parse_conllu(text: str, place: str) -> list[Sentence]:
    """Parse the sentences of a text in CoNLL-U; the list is empty for a text in another format."""
    lines = text.splitlines()
    if not is_conllu(lines):
        return []
    notes = Notes()
    return list(block_graphs(conllu_blocks(group_lines(lines), place, notes), place, None, notes))


def block_graphs(blocks: Iterable[Block], path: Path | str, label: str | None, notes: Notes) -> Iterator[Sentence]:
    label_index, feature = find_label(label)
    for block in blocks:
        columns = {role: tuple(row[COLUMNS.index(name)] for row in block.rows) for role, name in GRAPH_COLUMNS.items()}
        if label_index is not None:
            columns["tags"] = tuple(feature_of(row[label_index], feature) for row in block.rows)
        sentence = as_sentence(columns, str(path), block.lines, notes)
        if sentence is None:
            continue
        if sentence.heads is None and label is not None:
            notes.fault("no heads", sentence.id, "the words have no heads, so there is no graph; HEAD is column 7")
            continue
        deps, fault = read_deps([row[DEPS] for row in block.rows])
        if fault is not None:
            notes.fault("bad head", f"{path}:{block.lines[fault.word]}", fault.sentence)
            continue
        yield sentence._replace(deps=deps)


def find_label(label: str | None) -> tuple[int | None, str | None]:
    """Return the index of the column with the labels, and the name of the feature in it, if any."""
    if label is None:
        return None, None
    column, _, feature = label.partition(":")
    if feature and column != "feats":
        raise UserError(
            f"data.label={label}: only the column feats has features, as in feats:Number; name a column, or a feature"
        )
    return find_column_index(column), feature or None


def feature_of(text: str, name: str | None) -> str:
    """Return the value of a feature in `Number=Sing|Person=3`, or the whole text if no feature is named."""
    if name is None:
        return text
    return next((value for key, _, value in (part.partition("=") for part in text.split("|")) if key == name), "_")


def label_of(block: Block, name: str, place: str, notes: Notes) -> str | None:
    label = block.comments.get(name)
    if not label:
        notes.fault(
            "no label",
            place,
            f"no comment '# {name} = ...' before this sentence; there are: {listed(list(block.comments)) or 'none'}",
        )
    return label or None


def is_conllu(lines: Sequence[str]) -> bool:
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(len(row) == 10 and WORD_NUMBER.fullmatch(row[0]) for row in rows)


def conllu_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    """Yield the sentences with columns and comments by name. Heads that form no tree are a fault."""
    for block in read_conllu_blocks(path, notes):
        columns = dict(list(zip(COLUMNS, zip(*block.rows, strict=True), strict=True))[1:])
        _, fault = read_heads(columns["head"])
        if fault is not None:
            notes.fault("bad head", f"{path}:{block.lines[fault.word]}", fault.sentence)
            continue
        place, fields = block_row(path, block, columns, WITHOUT_LABELS)
        comments = {
            name: text_field(text)._replace(is_comment=True)
            for name, text in block.comments.items()
            if name not in fields
        }
        yield place, {**fields, **comments}


def conllu_use(columns: Columns, shown: Shown) -> Use | None:
    tags = (column for column in columns if len(column.labels or ()) > 1 and not column.is_comment)
    return next((Use("tag", {"data.tags": column.name}) for column in tags), None)


CONLLU = Format(
    about="CoNLL-U",
    rows=conllu_rows,
    extensions=(".conllu",),
    fits=is_conllu,
    sentences=conllu_sentences,
    labelled_trees=dependency_trees,
    dependency_graphs=dependency_graphs,
    use=conllu_use,
)
