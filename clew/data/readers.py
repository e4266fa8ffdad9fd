"""Read examples from a file of any format that can hold them, or from a list of tuples. One function for each kind of
example.

Files are read lazily. Columns are given by name or by number from 1. By default, a column with the name of its role is
used (`text`, `label`, `source`, `target`, `words`, `tags`); in a table without column names, the only column is the
text, and of two columns the first is the source. Texts are not changed; white space around labels is removed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from clew.core.errors import UserError
from clew.data.examples import Labelled, Pair, Parsed, Question, Sentence, Text
from clew.data.files.given_files import expand_home
from clew.data.format import Format
from clew.data.formats import FORMATS, find_format
from clew.data.formats.json_files import dotted_names, value_at
from clew.data.formats.line_files import find_parallel, read_parallel
from clew.data.formats.squad_files import question_from_row
from clew.data.notes import Notes
from clew.data.records import Column, Record, are_numbered, check_found, find_role
from clew.data.syntax.heads import read_heads
from clew.data.syntax.trees import read_trees
from clew.data.values import Faulty, as_labels, as_text, as_words

FilePath = Path | str
OPTIONAL = ("id", "answer", "answer_start")
FORMS = [("question", "passage"), ("question", "passage", "answer"), ("question", "passage", "answer", "answer_start")]
Row = tuple[Mapping[str, Any], str]
"""The values of a record by role, and its place."""

E = TypeVar("E")


def read_texts(
    data: FilePath | Iterable[Any],
    *,
    text: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Text]:
    """Read texts: one for each line, or a column. From Python: strings."""
    notes = Notes() if notes is None else notes
    if isinstance(data, (Path, str)):
        rows = table_rows(expand_home(data), "texts", {"text": text}, format, header, notes)
    else:
        rows = listed_rows(data, Text, [("text",)])
    return build_examples(rows, lambda values, place: Text(as_text(values, "text"), place), data, notes)


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
    """Read texts with labels from columns. From Python: (text, label) or (text, second, label).

    A label is one string; with a `label_separator`, or if JSON has a list, there may be several labels, or none.
    Without `with_labels` (to predict them), the label column may be missing.
    """
    notes = Notes() if notes is None else notes
    if isinstance(data, (Path, str)):
        roles = {
            "text": text,
            **({} if second is None else {"second": second}),
            **({"label": label} if with_labels else {}),
        }
        rows = table_rows(expand_home(data), "labelled texts", roles, format, header, notes)
    else:
        forms = [("text", "label"), ("text", "second", "label")] if with_labels else [("text",), ("text", "second")]
        rows = listed_rows(data, Labelled, forms)

    def make(values: Mapping[str, Any], place: str) -> Labelled:
        labels = as_labels(values["label"], label_separator) if with_labels else ()
        return Labelled(
            as_text(values, "text"), labels, as_text(values, "second") if "second" in values else None, place
        )

    return build_examples(rows, make, data, notes)


def read_pairs(
    data: FilePath | Iterable[Any],
    *,
    source: Column | None = None,
    target: Column | None = None,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Pair]:
    """Read pairs from two columns of a table, or line by line from two files. Two files are given as a list, or as the
    beginning of their names, with `source` and `target` as the endings (corpus/train, en, de: corpus/train.en and
    corpus/train.de). From Python: (source, target)."""
    notes = Notes() if notes is None else notes
    rows: Iterable[Row]
    files = parallel_files(data, source, target, format)
    if files is not None:
        rows = ((record.values, record.place) for record in read_parallel(*files, notes=notes))
    elif isinstance(data, (Path, str)):
        rows = table_rows(expand_home(data), "pairs", {"source": source, "target": target}, format, header, notes)
    else:
        rows = listed_rows(data, Pair, [("source", "target")])
    return build_examples(
        rows,
        lambda values, place: Pair(as_text(values, "source"), as_text(values, "target"), place, values.get("into", "")),
        data,
        notes,
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
    """Read words with tags and, if there are any, heads: from CoNLL columns (by default, words are the first and tags
    the last), CoNLL-U (`form`, `upos`, `head`, `deprel`), or JSON lines with lists. From Python: (words, tags) or
    (words, tags, heads)."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        forms = [("words", "tags"), ("words", "tags", "heads")] if with_tags else [("words",)]
        return build_examples(listed_rows(data, Sentence, forms), make_sentence, data, notes)
    path = expand_home(data)
    format = find_format(path, format)
    reader = FORMATS[format].sentences
    if reader is not None:
        columns = {"words": words, "tags": tags, "heads": heads, "relations": relations}
        return reader(path, **columns, with_tags=with_tags, with_heads=with_heads, notes=notes)
    if not FORMATS[format].has_lists:
        raise wrong_format(
            path, format, "words with tags", lambda other: other.sentences is not None or other.has_lists
        )
    roles = {
        "words": words,
        **({"tags": tags} if with_tags else {}),
        **({"heads": heads} if heads and with_heads else {}),
    }
    return build_examples(table_rows(path, "words with tags", roles, format, None, notes), make_sentence, data, notes)


def read_questions(
    data: FilePath | Iterable[Any],
    *,
    question: Column | None = None,
    passage: Column | None = None,
    answer: Column | None = None,
    answer_start: Column | None = None,
    with_answers: bool = True,
    format: str | None = None,
    header: bool | None = None,
    notes: Notes | None = None,
) -> Iterator[Question]:
    """Read questions on passages from SQuAD's JSON or a table. From Python: (question, passage, answer), with the index
    of the answer's first character as a fourth value if it is not its first occurrence; without an answer if there is
    none."""
    notes = Notes() if notes is None else notes
    if not isinstance(data, (Path, str)):
        return build_examples(listed_rows(data, Question, FORMS), question_from_row, data, notes)
    path = expand_home(data)
    format = find_format(path, format)
    if (reader := FORMATS[format].questions) is not None:
        return reader(path, notes, with_answers)
    roles = {"question": question, "passage": passage, "id": None}
    if with_answers:
        roles |= {"answer": answer, "answer_start": answer_start}
    optional = tuple(role for role in OPTIONAL if role != "answer")
    rows = table_rows(path, "questions on passages", roles, format, header, notes, optional=optional)
    return build_examples(rows, question_from_row, data, notes)


def read_parsed(paths: FilePath | Sequence[FilePath]) -> Iterator[Parsed]:
    """Read bracketed trees, numbered within their file. A file that cannot be read to its end is refused."""
    for path in [paths] if isinstance(paths, (Path, str)) else paths:
        for number, tree in enumerate(read_trees(expand_home(path)), start=1):
            yield Parsed(tree, f"{path}:tree {number}")


def table_rows(
    path: Path,
    kind: str,
    roles: Mapping[str, Column | None],
    format: str | None,
    header: bool | None,
    notes: Notes,
    optional: Collection[str] = (),
    names: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[Row]:
    """Yield the columns of every record, by role; `optional` ones may be missing. `names` are the names that the column
    of a role may have, if they are not the usual ones."""
    format = find_format(path, format, tables_alone=True)
    read, has_lists, columns_of = FORMATS[format].records, FORMATS[format].has_lists, FORMATS[format].columns
    if read is None or (FORMATS[format].is_single and len(roles) > 1):
        raise wrong_format(path, format, kind, lambda other: other.records is not None)
    named = [column for column in roles.values() if column is not None]
    if columns_of is not None:
        columns = list(columns_of(path))
        places = find_roles(columns, available_roles(columns, roles, optional), str(path), names)
        return json_rows(read(path, header=header, wanted=list(places.values()), notes=notes), places, notes, optional)
    records = read(path, header=header, wanted=named, notes=notes)
    first = next(records, None)
    check_found(first is not None, path, False, notes)
    assert first is not None
    columns = dotted_names(first.values) if has_lists else list(first.values)
    places = find_roles(
        columns, available_roles(columns, roles, optional), first.place if has_lists else str(path), names
    )
    if has_lists:
        return json_rows(chain([first], records), places, notes, optional)
    return (
        ({role: record.values[column] for role, column in places.items()}, record.place)
        for record in chain([first], records)
    )


def available_roles(
    columns: Sequence[str], roles: Mapping[str, Column | None], optional: Collection[str]
) -> dict[str, Column | None]:
    """Return the roles and their columns, without optional ones that are missing."""
    return {
        role: column
        for role, column in roles.items()
        if column is not None or role not in optional or column_for(columns, role)
    }


def json_rows(
    records: Iterable[Record], places: Mapping[str, str], notes: Notes, optional: Collection[str] = ()
) -> Iterator[Row]:
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
            names = ", ".join(dotted_names(record.values)) or "none"
            notes.fault("missing field", record.place, f"no field '{missing}'; there are: {names}")


def find_roles(
    columns: list[str],
    roles: Mapping[str, Column | None],
    place: str,
    names: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, str]:
    """Find a column for every role."""
    names, defaults = names or {}, dict[str, str]()
    is_only = list(roles) in (["text"], ["source"]) and len(columns) == 1
    if is_only or (list(roles) == ["source", "target"] and are_numbered(columns) and len(columns) == 2):
        defaults = dict(zip(roles, columns, strict=True))
    elif list(roles) == ["source"] and are_numbered(columns) and len(columns) == 2:  # pairs, without the target
        defaults = {"source": columns[0]}
    defaults |= {role: name for role in roles if (name := column_for(columns, role, names.get(role))) is not None}
    return {role: find_role(columns, column, role, place, defaults.get(role)) for role, column in roles.items()}


def column_for(columns: Collection[str], role: str, names: Sequence[str] | None = None) -> str | None:
    """Return the column with the name of a role, or with one of its other names."""
    return next((name for name in names or (role, *OTHER_NAMES.get(role, ())) if name in columns), None)


def listed_rows(data: Iterable[Any], kind: type[NamedTuple], forms: Sequence[tuple[str, ...]]) -> Iterator[Row]:
    """Yield the rows of a list in Python: examples, or tuples of values in the order of one of the forms."""
    by_length = {len(form): form for form in forms}
    for number, item in enumerate(data, start=1):
        place = f"example {number}"
        if isinstance(item, kind):
            values = {
                ROLES.get(name, name): value
                for name, value in item._asdict().items()
                if value is not None and name != "id"
            }
            yield values, item.id or place  # type: ignore[attr-defined]
            continue
        if isinstance(item, str) and 1 in by_length:
            item = (item,)
        if not isinstance(item, (tuple, list)) or len(item) not in by_length:
            shown = " or ".join(f"({', '.join(form)}{',' if len(form) == 1 else ''})" for form in forms)
            raise UserError(f"{place}: expected {shown}, found {item!r:.200}")
        yield dict(zip(by_length[len(item)], item, strict=True)), place


OTHER_NAMES = {
    "passage": ("context",),
    "answer": ("answers.text", "answers"),
    "answer_start": ("answers.answer_start",),
    "image": ("picture", "file", "file_name", "filename", "path"),
    "caption": ("captions",),
    "sound": ("audio", "image", "picture", "file", "file_name", "filename", "path"),
}
"""Other names of the columns for a role."""
ROLES = {"labels": "label"}
"""Fields of examples whose column has another name."""


def build_examples(
    rows: Iterable[Row], make: Callable[[Mapping[str, Any], str], E], data: FilePath | Iterable[Any], notes: Notes
) -> Iterator[E]:
    """Build examples from rows; a faulty row is refused or left out, as the notes say."""
    has_examples = False
    for values, place in rows:
        try:
            example = make(values, place)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))
            continue
        has_examples = True
        yield example
    check_found(has_examples, data if isinstance(data, (Path, str)) else "the list of examples", False, notes)


def make_sentence(values: Mapping[str, Any], place: str) -> Sentence:
    columns = {role: as_words(values[role], role) for role in values if role != "heads"}
    numbers = values.get("heads")
    heads = None
    if numbers is not None:
        heads, fault = read_heads([str(number) for number in numbers])
        if fault is not None:
            raise Faulty("bad head", fault.sentence)
    lengths = {role: len(column) for role, column in [*columns.items(), ("heads", heads)] if column is not None}
    if len(set(lengths.values())) > 1:
        counts = " and ".join(f"{count} {role}" for role, count in lengths.items())
        raise Faulty("unequal lengths", f"expected as many tags as words, found {counts}")
    return Sentence(columns["words"], columns.get("tags"), heads, columns.get("relations"), place)


def parallel_files(
    data: FilePath | Iterable[Any], source: Column | None, target: Column | None, format: str | None
) -> tuple[Path, Path] | None:
    """Return the two files of parallel text, if `data` names such; None for a table or a list of tuples."""
    if isinstance(data, (list, tuple)) and len(data) == 2 and all(isinstance(path, (Path, str)) for path in data):
        return expand_home(data[0]), expand_home(data[1])
    if not isinstance(data, (Path, str)):
        return None
    if source is None or target is None:
        if format == "parallel":
            raise UserError(
                f"{data}: parallel text is two files, such as {data}.en and {data}.de; name them with data.source=en"
                " data.target=de"
            )
        return None
    path = expand_home(data)
    return (
        find_parallel(path, str(source), str(target))
        if format == "parallel" or (format is None and not path.exists())
        else None
    )


def wrong_format(path: Path, format: str, kind: str, is_able: Callable[[Format], bool]) -> UserError:
    """The error for a file whose format cannot hold a kind of example; it names the formats that can."""
    able = [name for name, other in FORMATS.items() if is_able(other) and name != format and not other.kinds]
    return UserError(
        f"{path}: this is {FORMATS[format].about} ({format}), which holds no {kind}; if it is in another format, set"
        f" data.format to one of: {', '.join(able)}"
    )
