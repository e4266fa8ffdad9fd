"""Questions on passages: SQuAD's JSON, tables, and questions that are drawn."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic import Field

from clew.core.errors import unknown
from clew.data.examples import Question
from clew.data.kinds.kind import Given, Kind, Parts, cut, cut_files
from clew.data.kinds.section import Column, DrawnData
from clew.data.notes import Notes
from clew.data.readers import read_questions
from clew.data.synthetic.questions import FACTS, synthetic_questions


class QuestionsData(DrawnData):
    """Where the questions come from: a corpus that is drawn, or files of one's own."""

    question: Column | None = Field(
        None, description="questions in a table: the column of the question, by name or number"
    )
    passage: Column | None = Field(None, description="questions in a table: the column of the passage")
    answer: Column | None = Field(
        None, description="questions in a table: the column of the answer; empty where the passage has none"
    )
    answer_start: Column | None = Field(
        None, description="questions in a table: the column of the character at which the answer begins"
    )


def questions_of(data: QuestionsData, seed: int, notes: Notes) -> Parts:
    """Questions on passages; no passage is on two sides."""
    data.check_given("data.train names your questions, e.g. `clew train answer data.train=train-v1.1.json`")
    if data.corpus is None:
        return cut_files(lambda files: questions_in(files, data, notes), data, seed)
    if data.corpus != FACTS:
        raise unknown("corpus of questions", data.corpus, [FACTS])
    return cut(synthetic_questions(data.size, seed, data.shortest, data.longest), data, seed)


def questions_in(files: Given, data: QuestionsData, notes: Notes) -> Iterator[Question]:
    columns = {role: getattr(data, role) for role in ("question", "passage", "answer", "answer_start")}
    options: dict[str, Any] = {**columns, "format": data.format, "header": data.header}
    return chain.from_iterable(read_questions(file, notes=notes, **options) for file in files)


def question_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """(question, passage, answer), with where it begins; or (question, passage) where there is no answer."""
    for example in read_questions(examples, notes=notes):
        starts = [answer.start for answer in example.answers]
        yield {
            "question": example.question,
            "passage": example.passage,
            "answer": example.texts,
            "answer_start": starts,
        }


QUESTIONS = Kind(
    name="questions", section=QuestionsData, read_parts=questions_of, read_files=questions_in, rows=question_rows
)
