"""Questions on passages: SQuAD's JSON (Rajpurkar et al. 2016, 2018), or a table with one question per record.

    {"data": [{"paragraphs": [{"context": "...", "qas": [
        {"id": "17", "question": "...", "answers": [{"text": "...", "answer_start": 12}]}]}]}]}

A question with empty `answers`, or with `is_impossible`, has no answer in its passage. An answer that is not at the
stated position is a faulty record. A table has the columns `question`, `passage` or `context`, `answer` and
`answer_start`; JSON lines may have lists in `answers.text` and `answers.answer_start`. Without `answer_start`, an
answer begins at its first occurrence in the passage.
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
from clew.data.values import Faulty, as_text, check_unicode, value_kind

SHAPE = '{"data": [{"paragraphs": [{"context": ..., "qas": [...]}]}]}'
BEGINNING = re.compile(r'\s*\{\s*("version"\s*:\s*"[^"]*"\s*,\s*)?"data"\s*:\s*\[')


def read_squad(path: Path, notes: Notes | None = None, *, with_answers: bool = True) -> Iterator[Question]:
    """Yield the questions of SQuAD's JSON. Ids must be unique. Without `with_answers` the answers are not read."""
    notes = Notes() if notes is None else notes
    ids: set[str] = set()
    for number, (context, values) in enumerate(squad_records(path), start=1):
        own_id = values.get("id")
        name = str(own_id) if isinstance(own_id, (str, int)) and str(own_id) else f"{path}: question {number}"
        place = f"{path}: question {name}" if own_id else name
        try:
            if name in ids:
                raise Faulty("duplicate id", "another question above has the same id")
            example = question_from_squad(context, values if with_answers else {**values, "answers": []}, name)
        except Faulty as fault:
            notes.fault(fault.reason, place, str(fault))
            continue
        ids.add(name)
        yield example
    check_found(bool(ids), path, False, notes)


def squad_records(path: Path) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield every question with its passage. A file of another shape is refused."""
    content = read_json_file(path)
    for article in list_field(content, "data", path, "the file"):
        for paragraph in list_field(article, "paragraphs", path, "an article"):
            for values in list_field(paragraph, "qas", path, "a paragraph"):
                if not isinstance(values, dict):
                    raise UserError(f"{path}: a question is {KINDS[type(values)]}, not an object; the shape is {SHAPE}")
                yield paragraph.get("context"), values


def list_field(value: Any, name: str, path: Path, what: str) -> list[Any]:
    """Return the list in a field of an object; `what` names the object in messages."""
    if not isinstance(value, dict) or not isinstance(value.get(name), list):
        if isinstance(value, dict):
            problem = f"has the fields {', '.join(value) or 'none'}, but no list '{name}'"
        else:
            problem = f"is {KINDS[type(value)]}, not an object with the list '{name}'"
        raise UserError(f"{path}: {what} {problem}; the shape is {SHAPE}")
    return value[name]


def question_from_squad(context: Any, values: Mapping[str, Any], name: str) -> Question:
    answers = values.get("answers", [])
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        raise Faulty("wrong kind", f"answers must be a list of objects, not {shown(answers)}")
    texts, starts = ([answer.get(field) for answer in answers] for field in ("text", "answer_start"))
    if values.get("is_impossible"):
        texts, starts = [], []
    return checked_question(values.get("question"), context, texts, starts, name)


def question_from_row(values: Mapping[str, Any], place: str) -> Question:
    if "answers" in values:  # an example from Python
        texts, starts = [answer.text for answer in values["answers"]], [answer.start for answer in values["answers"]]
    else:
        texts, starts = (as_list(values.get(role)) for role in ("answer", "answer_start"))
    name = values.get("id")
    return checked_question(
        values["question"], values["passage"], texts, starts or None, str(name) if name not in (None, "") else place
    )


def checked_question(question: Any, passage: Any, texts: list[Any], starts: list[Any] | None, name: str) -> Question:
    """Return a question after checking that its answers are at their positions in the passage."""
    roles = {"question": question, "passage": passage}
    question, passage = (as_text(roles, role) for role in roles)
    starts = [None] * len(texts) if starts is None else starts
    if len(texts) != len(starts):
        raise Faulty(
            "unequal lengths", f"expected a start for each answer, found {len(texts)} answers and {len(starts)} starts"
        )
    answers = [locate_answer(text, start, passage) for text, start in zip(texts, starts, strict=True)]
    return Question(question, passage, tuple(dict.fromkeys(answers)), name)


def locate_answer(text: Any, start: Any, passage: str) -> Answer:
    if not isinstance(text, str) or not text.strip():
        raise Faulty(
            "wrong kind", f"an answer must be a text, not {shown(text) if isinstance(text, str) else value_kind(text)}"
        )
    check_unicode(text, "answer")
    if start is None:
        if text not in passage:
            raise Faulty("answer elsewhere", f"the answer {shown(text)} does not occur in its passage")
        return Answer(text, passage.index(text))
    if isinstance(start, str) and start.strip().isdecimal():
        start = int(start)
    if not isinstance(start, int) or isinstance(start, bool):
        raise Faulty("wrong kind", f"the start of an answer must be a character number from 0, not {shown(start)}")
    text_at_start = passage[max(start, 0) : max(start, 0) + len(text)]
    if start < 0 or text_at_start != text:
        raise Faulty(
            "answer elsewhere",
            f"the answer {shown(text)} does not begin at character {start} of its passage, which has"
            f" {shown(text_at_start)} there",
        )
    return Answer(text, start)


def as_list(value: Any) -> list[Any]:
    """Return the values of a field, which may be a list, a single value or empty."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def is_squad(lines: Sequence[str]) -> bool:
    """Whether a file begins as an object whose field `data` is a list."""
    return bool(BEGINNING.match("\n".join(lines)[:1000]))


def question_rows(path: Path, header: bool | None, notes: Notes) -> Iterator[Row]:
    """Yield the questions with their first answer, which is empty if the passage has none."""
    for example in read_squad(path, notes):
        texts = {"question": example.question, "passage": example.passage, "answer": "".join(example.texts[:1])}
        yield (
            f"{path}: question {example.id}",
            {name: text_field(text)._replace(labels=()) for name, text in texts.items()},
        )


SQUAD = Format(
    about="questions on passages (SQuAD)",
    rows=question_rows,
    extensions=(".json",),
    fits=is_squad,
    questions=lambda path, notes, with_answers: read_squad(path, notes, with_answers=with_answers),
    use=lambda columns, shown: Use("answer", {"transfer.from": "RUN"}),
)
