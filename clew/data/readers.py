"""Examples from a file of any format that can hold them, or from a list of tuples. One function a kind of example.

Files are read as they are consumed. Columns are given by name or by number from 1. Where none is given, a column that is called like
its role is taken (`text`, `label`, `source`, `target`, `words`, `tags`); in a table without names, the only column is the text, and of
two the first is the source. Texts stay as they stand; white space around labels goes.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from clew.core.errors import UserError
from clew.data.conll_files import read_conll
from clew.data.conllu_files import read_conllu
from clew.data.examples import Labelled, Pair, Parsed, Sentence, Text
from clew.data.formats import FORMATS, find_format, read_records, tables
from clew.data.heads import read_heads
from clew.data.json_files import KINDS, NUMBERS_FOR_NAMES, dotted_names, is_list_of_numbers, value_at
from clew.data.line_files import find_parallel, read_parallel
from clew.data.notes import Notes
from clew.data.records import Column, Record, are_numbered, as_number, check_found, find_role
from clew.data.trees import read_trees

FilePath = Path | str
Row = tuple[Mapping[str, Any], str]
"""Values by role, and their place."""

E = TypeVar("E")


class Faulty(Exception):
    """A record that cannot be made an example: the reason by which it is counted, and the sentence."""

    def __init__(self, reason: str, sentence: str):
        super().__init__(sentence)
        self.reason = reason


def read_texts(
    data: FilePath | Iterable[Any],
    *,
    text: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Text]:
    """Texts: a line each, or a column. From Python: strings."""
    notes = Notes() if notes is None else notes
    if isinstance(data, (Path, str)):
        rows = table_rows(as_path(data), "texts", {"text": text}, format, header, notes)
    else:
        rows = listed_rows(data, Text, [("text",)])
    return built(rows, lambda values, place: Text(as_text(values, "text"), place), data, notes)


def read_labelled(
    data: FilePath | Iterable[Any],
    *,
    text: Column | None = None,
    second: Column | None = None,
    label: Column | None = None,
    label_separator: str | None = None,
    with_labels: bool = True,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Labelled]:
    """Texts with labels: columns. From Python: (text, label) or (text, second, label).

    A label is one string; with a `label_separator`, or where JSON has a list, several, or none. Without `with_labels` (to predict them) the
    label column need not be there.
    """
    notes = Notes() if notes is None else notes
    if isinstance(data, (Path, str)):
        wanted = {"text": text, **({} if second is None else {"second": second}), **({"label": label} if with_labels else {})}
        rows = table_rows(as_path(data), "labelled texts", wanted, format, header, notes)
    else:
        forms = [("text", "label"), ("text", "second", "label")] if with_labels else [("text",), ("text", "second")]
        rows = listed_rows(data, Labelled, forms)

    def make(values: Mapping[str, Any], place: str) -> Labelled:
        labels = as_labels(values["label"], label_separator) if with_labels else ()
        return Labelled(as_text(values, "text"), labels, as_text(values, "second") if "second" in values else None, place)

    return built(rows, make, data, notes)


def read_pairs(
    data: FilePath | Iterable[Any],
    *,
    source: Column | None = None,
    target: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Pair]:
    """Pairs: two columns of a table; or two files line by line, given as a list of both, or as what their names begin with, `source` and
    `target` then being what they end with (corpus/train, en, de: corpus/train.en and corpus/train.de). From Python: (source, target)."""
    notes = Notes() if notes is None else notes
    rows: Iterable[Row]
    files = parallel_files(data, source, target, format)
    if files is not None:
        rows = ((record.values, record.place) for record in read_parallel(*files, notes=notes))
    elif isinstance(data, (Path, str)):
        rows = table_rows(as_path(data), "pairs", {"source": source, "target": target}, format, header, notes)
    else:
        rows = listed_rows(data, Pair, [("source", "target")])
    return built(
        rows, lambda values, place: Pair(as_text(values, "source"), as_text(values, "target"), place, values.get("into", "")), data, notes
    )


def read_sentences(
    data: FilePath | Iterable[Any],
    *,
    words: Column | None = None,
    tags: Column | None = None,
    heads: Column | None = None,
    relations: Column | None = None,
    with_tags: bool = True,
    with_heads: bool = True,
    format: str | None = None,
    notes: Notes | None = None,
) -> Iterator[Sentence]:
    """Words with tags and, where there are any, heads: CoNLL columns (words are the first and tags the last where no number is given),
    CoNLL-U (`form`, `upos`, `head`, `deprel`), or JSON lines and formats of one's own with lists. From Python: (words, tags) or
    (words, tags, heads)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        forms = [("words", "tags"), ("words", "tags", "heads")] if with_tags else [("words",)]
        return built(listed_rows(data, Sentence, forms), make_sentence, data, notes)
    path = as_path(data)
    format = find_format(path, format)
    if format == "conllu":
        return read_conllu(
            path,
            words="form" if words is None else words,
            tags=("upos" if tags is None else tags) if with_tags else None,
            heads=("head" if heads is None else heads) if with_heads else None,
            relations=("deprel" if relations is None else relations) if with_heads else None,
            notes=notes,
        )
    if format == "conll":
        return read_conll(
            path,
            words=column_number(1 if words is None else words, "words"),
            tags=column_number(-1 if tags is None else tags, "tags") if with_tags else None,
            heads=column_number(heads, "heads") if heads is not None and with_heads else None,
            relations=column_number(relations, "relations") if relations is not None and with_heads else None,
            notes=notes,
        )
    if not FORMATS[format].nested:
        holding = ("conll", "conllu", *(name for name in tables() if FORMATS[name].nested))
        raise holds_no(path, format, "words with tags", holding)
    wanted = {"words": words, **({"tags": tags} if with_tags else {}), **({"heads": heads} if heads and with_heads else {})}
    return built(table_rows(path, "words with tags", wanted, format, None, notes), make_sentence, data, notes)


def read_parsed(paths: FilePath | Sequence[FilePath]) -> Iterator[Parsed]:
    """Bracketed trees, each numbered within its file. A file that cannot be read to its end is refused."""
    for path in [paths] if isinstance(paths, (Path, str)) else paths:
        for number, tree in enumerate(read_trees(as_path(path)), start=1):
            yield Parsed(tree, f"{path}:tree {number}")


def table_rows(
    path: Path,
    kind: str,
    wanted: Mapping[str, Column | None],
    format: str | None,
    header: bool | None,
    notes: Notes,
    optional: Collection[str] = (),
) -> Iterator[Row]:
    """The columns that are wanted, by role, of every record; those that are `optional` need not be there."""
    format = find_format(path, format, tables_alone=True)
    if FORMATS[format].read is None or (format == "lines" and len(wanted) > 1):
        raise holds_no(path, format, kind, tables())
    named = [column for column in wanted.values() if column is not None]
    records = read_records(path, format, header=header, wanted=named, notes=notes)
    first = next(records, None)
    check_found(first is not None, path, False, notes)
    assert first is not None
    nested = FORMATS[format].nested
    columns = dotted_names(first.values) if nested else list(first.values)
    there = {role: column for role, column in wanted.items() if column is not None or role not in optional or other_name(columns, role)}
    places = find_roles(columns, there, first.place if nested else str(path))
    if nested:
        return json_rows(chain([first], records), places, notes, optional)
    return (({role: record.values[column] for role, column in places.items()}, record.place) for record in chain([first], records))


def json_rows(records: Iterable[Record], places: Mapping[str, str], notes: Notes, optional: Collection[str] = ()) -> Iterator[Row]:
    for record in records:
        values: dict[str, Any] = {}
        missing = None
        for role, column in places.items():
            try:
                values[role] = value_at(record.values, column)
            except KeyError:
                if role not in optional:
                    missing = missing or column
        if missing is None:
            yield values, record.place
        else:
            there = ", ".join(dotted_names(record.values)) or "none"
            notes.fault("missing field", record.place, f"no field '{missing}'; there are: {there}")


def find_roles(columns: list[str], wanted: Mapping[str, Column | None], place: str) -> dict[str, str]:
    """A column for every role."""
    instead: dict[str, str] = {}
    if are_numbered(columns) and len(columns) == len(wanted) and list(wanted) in (["text"], ["source", "target"]):
        instead = dict(zip(wanted, columns, strict=True))
    elif list(wanted) == ["text"] and len(columns) == 1:
        instead = {"text": columns[0]}
    instead |= {role: name for role in wanted if (name := other_name(columns, role)) is not None}
    return {role: find_role(columns, column, role, place, instead.get(role)) for role, column in wanted.items()}


def other_name(columns: Collection[str], role: str) -> str | None:
    """The column that is called like a role, or as it is called elsewhere."""
    return next((name for name in (role, *OTHER_NAMES.get(role, ())) if name in columns), None)


def listed_rows(data: Iterable[Any], kind: type[NamedTuple], forms: Sequence[tuple[str, ...]]) -> Iterator[Row]:
    """What a list from Python holds: examples, or tuples of values in the order of one of the forms."""
    by_length = {len(form): form for form in forms}
    for number, item in enumerate(data, start=1):
        place = f"example {number}"
        if isinstance(item, kind):
            values = {ROLES.get(name, name): value for name, value in item._asdict().items() if value is not None and name != "id"}
            yield values, item.id or place  # type: ignore[attr-defined]
            continue
        if isinstance(item, str) and 1 in by_length:
            item = (item,)
        if not isinstance(item, (tuple, list)) or len(item) not in by_length:
            shown = " or ".join(f"({', '.join(form)}{',' if len(form) == 1 else ''})" for form in forms)
            raise UserError(f"{place}: expected {shown}, found {item!r:.200}")
        yield dict(zip(by_length[len(item)], item, strict=True)), place


OTHER_NAMES = {"passage": ("context",), "answer": ("answers.text", "answers"), "answer_start": ("answers.answer_start",)}
"""What columns are called besides their role."""
ROLES = {"labels": "label"}
"""Fields of examples that are called otherwise than the column they come from."""


def built(rows: Iterable[Row], make: Callable[[Mapping[str, Any], str], E], data: FilePath | Iterable[Any], notes: Notes) -> Iterator[E]:
    """Examples of rows; a faulty one is refused or left out as the notes say."""
    found = False
    for values, place in rows:
        try:
            example = make(values, place)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))
            continue
        found = True
        yield example
    check_found(found, data if isinstance(data, (Path, str)) else "the list of examples", False, notes)


def make_sentence(values: Mapping[str, Any], place: str) -> Sentence:
    columns = {role: as_words(values[role], role) for role in values if role != "heads"}
    given = values.get("heads")
    heads = None
    if given is not None:
        heads, fault = read_heads([str(head) for head in given])
        if fault is not None:
            raise Faulty("bad head", fault.sentence)
    lengths = {role: len(column) for role, column in [*columns.items(), ("heads", heads)] if column is not None}
    if len(set(lengths.values())) > 1:
        counts = " and ".join(f"{count} {role}" for role, count in lengths.items())
        raise Faulty("unequal lengths", f"expected as many tags as words, found {counts}")
    return Sentence(columns["words"], columns.get("tags"), heads, columns.get("relations"), place)


def as_words(value: Any, role: str) -> tuple[str, ...]:
    if is_list_of_numbers(value):
        raise Faulty("wrong kind", f"data.{role} takes a list of strings, found {NUMBERS_FOR_NAMES}")
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise Faulty("wrong kind", f"data.{role} takes a list of strings, found {kind_of(value)}")
    if not value or "" in value:
        raise Faulty("empty field", f"the field for data.{role} is empty, or a string in it is")
    return tuple(check_unicode(word, role) for word in value)


def as_text(values: Mapping[str, Any], role: str) -> str:
    """A text that is not empty; a number is its digits."""
    value = values[role]
    if isinstance(value, str):
        if not value or value.isspace():
            raise Faulty("empty field", f"the field for data.{role} is empty")
        return value if value.isascii() else check_unicode(value, role)
    if value is None:
        raise Faulty("empty field", f"the field for data.{role} is null")
    if isinstance(value, (int, float)):
        return json.dumps(value)
    raise Faulty("wrong kind", f"data.{role} takes a text, found {kind_of(value)}")


def as_labels(value: Any, separator: str | None) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(as_text({"label": label}, "label").strip() for label in value)
    if separator is not None and isinstance(value, str):
        return tuple(label.strip() for label in value.split(separator) if label.strip())
    return (as_text({"label": value}, "label").strip(),)


def check_unicode(text: str, role: str) -> str:
    r"""A text that UTF-8 can write; JSON's \ud800 is half a character."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Faulty("half a character", f"the field for data.{role} has half a character, {text[error.start]!r}") from None
    return text


def kind_of(value: Any) -> str:
    return KINDS.get(type(value), type(value).__name__)


def parallel_files(
    data: FilePath | Iterable[Any], source: Column | None, target: Column | None, format: str | None
) -> tuple[Path, Path] | None:
    """The two files of parallel text, where `data` is such; None where it is a table or a list of tuples."""
    if isinstance(data, (list, tuple)) and len(data) == 2 and all(isinstance(path, (Path, str)) for path in data):
        return as_path(data[0]), as_path(data[1])
    if not isinstance(data, (Path, str)):
        return None
    if source is None or target is None:
        if format == "parallel":
            raise UserError(
                f"{data}: parallel text is two files, such as {data}.en and {data}.de; name them with data.source=en data.target=de"
            )
        return None
    path = as_path(data)
    return find_parallel(path, str(source), str(target)) if format == "parallel" or (format is None and not path.exists()) else None


def holds_no(path: Path, format: str, kind: str, formats: Iterable[str]) -> UserError:
    return UserError(
        f"{path}: this is {FORMATS[format].about} ({format}), which holds no {kind}; if it is something else, say so with data.format: "
        f"{', '.join(name for name in formats if name != format)}"
    )


def column_number(column: Column, role: str) -> int:
    number = as_number(column)
    if number is None:
        raise UserError(f"CoNLL columns have no names; data.{role} takes a number from 1, or from -1 at the last, not {column!r}")
    return number


def as_path(path: FilePath) -> Path:
    return Path(path).expanduser()
