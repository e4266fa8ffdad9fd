"""Questions on passages: SQuAD's JSON, tables, and generated questions."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pydantic import Field

from clew.core.errors import unknown
from clew.data.examples import Question
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut, cut_files
from clew.data.kinds.section import Column, DrawnData
from clew.data.notes import Notes
from clew.data.readers import read_questions
from clew.data.synthetic.questions import FACTS, synthetic_questions


class QuestionsData(DrawnData):
    """Where the questions come from: a generated corpus, or your own files."""

    question: Column | None = Field(
        None, description="questions in a table: the column of the question, by name or number"
    )
    passage: Column | None = Field(None, description="questions in a table: the column of the passage")
    answer: Column | None = Field(
        None, description="questions in a table: the column of the answer; empty if the passage has none"
    )
    answer_start: Column | None = Field(
        None, description="questions in a table: the column of the index of the answer's first character"
    )


def read_question_parts(data: QuestionsData, seed: int, notes: Notes) -> Parts:
    """Read questions on passages; no passage is in two parts."""
    data.check_given(
        "there is no training data; name your questions with data.train, e.g. `clew train answer"
        " data.train=train-v1.1.json`"
    )
    if data.corpus is None:
        return cut_files(lambda files: read_question_files(files, data, notes), data, seed)
    if data.corpus != FACTS:
        raise unknown("corpus of questions", data.corpus, [FACTS])
    return cut(synthetic_questions(data.size, seed, data.shortest, data.longest), data, seed)


def read_question_files(files: PartFiles, data: QuestionsData, notes: Notes) -> Iterator[Question]:
    columns = {role: getattr(data, role) for role in ("question", "passage", "answer", "answer_start")}
    options: dict[str, Any] = {**columns, "format": data.format, "header": data.header}
    return chain.from_iterable(read_questions(file, notes=notes, **options) for file in files)


def question_rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
    """Yield (question, passage, answers, the index of each answer's first character)."""
    for example in read_questions(examples, notes=notes):
        starts = [answer.start for answer in example.answers]
        yield {
            "question": example.question,
            "passage": example.passage,
            "answer": example.texts,
            "answer_start": starts,
        }


QUESTIONS = Kind(
    name="questions",
    section=QuestionsData,
    read_parts=read_question_parts,
    read_files=read_question_files,
    rows=question_rows,
)
