"""Questions on passages: SQuAD's JSON (Rajpurkar et al. 2016, 2018), or a table with a question a record.

    {"data": [{"paragraphs": [{"context": "...", "qas": [
        {"id": "17", "question": "...", "answers": [{"text": "...", "answer_start": 12}]}]}]}]}

A question whose `answers` are empty, or that `is_impossible`, has no answer in its passage. An answer that does not
stand where the file says is a faulty record. A table has columns `question`, `passage` or `context`, `answer` and
`answer_start`; JSON lines may have lists in `answers.text` and `answers.answer_start`. Where no column says where an
answer begins, it is where the passage has it first.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown
from clew.data.described import Row, Use, text_field
from clew.data.examples import Answer, Question
from clew.data.format import Format
from clew.data.formats.json_files import KINDS, read_json_file
from clew.data.notes import Notes
from clew.data.records import check_found
from clew.data.values import Faulty, as_text, check_unicode, kind_of

SHAPE = '{"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}'
BEGINNING = re.compile(r'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[')


def read_squad(path: Path, notes: Notes | None = None, *, with_answers: bool = True) -> Iterator[Question]:
    """The questions of SQuAD's JSON, by their ids; without answers, where these are not looked at."""
    notes = Notes() if notes is None else notes
    seen: set[str] = set()
    for number, (context, values) in enumerate(squad_records(path), start=1):
        given = values.get("id")
        name = str(given) if isinstance(given, (str, int)) and str(given) else f"{path}: question {number}"
        place = f"{path}: question {name}" if given else name
        try:
            if name in seen:
                raise Faulty("an id twice", "another question above has the same id")
            example = made_from_squad(context, values if with_answers else {**values, "answers": []}, name)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))
            continue
        seen.add(name)
        yield example
    check_found(bool(seen), path, False, notes)


def squad_records(path: Path) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Every question with its passage; a file of another shape is refused."""
    whole = read_json_file(path)
    for article in listed(whole, "data", path, "the whole file"):
        for paragraph in listed(article, "paragraphs", path, "an article"):
            for values in listed(paragraph, "qas", path, "a paragraph"):
                if not isinstance(values, dict):
                    raise UserError(
                        f"{path}: a question is {KINDS[type(values)]}, and not an object; the shape is {SHAPE}"
                    )
                yield paragraph.get("context"), values


def listed(here: Any, name: str, path: Path, what: str) -> list[Any]:
    if not isinstance(here, dict) or not isinstance(here.get(name), list):
        found = f"has the fields {', '.join(here) or 'none'}" if isinstance(here, dict) else f"is {KINDS[type(here)]}"
        raise UserError(f"{path}: {what} {found}, and no list '{name}'; the shape is {SHAPE}")
    return here[name]


def made_from_squad(context: Any, values: Mapping[str, Any], name: str) -> Question:
    given = values.get("answers", [])
    if not isinstance(given, list) or not all(isinstance(answer, dict) for answer in given):
        raise Faulty("wrong kind", f"answers are a list of objects, not {shown(given)}")
    texts, starts = ([answer.get(field) for answer in given] for field in ("text", "answer_start"))
    if values.get("is_impossible"):
        texts, starts = [], []
    return made(values.get("question"), context, texts, starts, name)


def made_from_row(values: Mapping[str, Any], place: str) -> Question:
    if "answers" in values:  # of an example from Python
        texts, starts = [answer.text for answer in values["answers"]], [answer.start for answer in values["answers"]]
    else:
        texts, starts = (as_list(values.get(role)) for role in ("answer", "answer_start"))
    name = values.get("id")
    return made(
        values["question"], values["passage"], texts, starts or None, str(name) if name not in (None, "") else place
    )


def made(question: Any, passage: Any, texts: list[Any], starts: list[Any] | None, name: str) -> Question:
    """A question whose answers stand where they are said to."""
    roles = {"question": question, "passage": passage}
    asked, where = (as_text(roles, role) for role in roles)
    starts = [None] * len(texts) if starts is None else starts
    if len(texts) != len(starts):
        raise Faulty(
            "unequal lengths", f"expected a place for each answer, found {len(texts)} answers and {len(starts)} places"
        )
    answers = [located(text, start, where) for text, start in zip(texts, starts, strict=True)]
    return Question(asked, where, tuple(dict.fromkeys(answers)), name)


def located(text: Any, start: Any, passage: str) -> Answer:
    if not isinstance(text, str) or not text.strip():
        raise Faulty(
            "wrong kind", f"an answer is a text, not {shown(text) if isinstance(text, str) else kind_of(text)}"
        )
    check_unicode(text, "answer")
    if start is None:
        if text not in passage:
            raise Faulty("answer elsewhere", f"the answer {shown(text)} does not stand in its passage")
        return Answer(text, passage.index(text))
    if isinstance(start, str) and start.strip().isdecimal():
        start = int(start)
    if not isinstance(start, int) or isinstance(start, bool):
        raise Faulty("wrong kind", f"an answer begins at a character, by its number from 0, not at {shown(start)}")
    found = passage[max(start, 0) : max(start, 0) + len(text)]
    if start < 0 or found != text:
        raise Faulty(
            "answer elsewhere",
            f"the answer {shown(text)} does not begin at character {start} of its passage, where {shown(found)} is",
        )
    return Answer(text, start)


def as_list(value: Any) -> list[Any]:
    """The values of a field: those of a list, one, or none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def is_squad(lines: Sequence[str]) -> bool:
    """One object over the whole file, whose field `data` is a list."""
    return bool(BEGINNING.match("\n".join(lines)[:1000]))


def question_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    """Questions with their first answer, which is empty where the passage has none."""
    for example in read_squad(path, notes):
        texts = {"question": example.question, "passage": example.passage, "answer": "".join(example.texts[:1])}
        yield (
            f"{path}: question {example.id}",
            {name: text_field(text)._replace(labels=()) for name, text in texts.items()},
        )


SQUAD = Format(
    about="questions on passages, as SQuAD has them",
    rows=question_rows,
    extensions=(".json",),
    fits=is_squad,
    questions=lambda path, notes, with_answers: read_squad(path, notes, with_answers=with_answers),
    use=lambda columns, shown: Use("answer", {"transfer.from": "RUN"}),
)
