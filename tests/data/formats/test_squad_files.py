import json
from pathlib import Path
from typing import Any

import pytest

from clew.core.errors import UserError
from clew.data.descriptions import describe
from clew.data.examples import Answer, Question
from clew.data.notes import Notes
from clew.data.readers import read_questions
from clew.data.synthetic.questions import synthetic_questions
from clew.data.uses import guess_use
from tests.data.written import write

PASSAGE = "Äda lives in Rome.\nBo likes tea."


def squad(path: Path, *questions: dict[str, Any], passage: Any = PASSAGE) -> Path:
    whole = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": passage, "qas": list(questions)}]}]}
    return write(path, json.dumps(whole))


def question(text: str = "Rome", start: Any = 13, **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Where?", "answers": [{"text": text, "answer_start": start}], **more}


def test_both_versions_are_read_with_ids_and_answer_positions(tmp_path: Path) -> None:
    unanswerable = {
        "id": 7,
        "question": "Who?",
        "answers": [],
        "is_impossible": True,
        "plausible_answers": [{"text": "Bo", "answer_start": 19}],
    }
    path = squad(tmp_path / "dev.json", question(), question("tea", 28, id="q2", answers=[]), unanswerable)
    questions = list(read_questions(path))
    assert [(example.id, example.answers) for example in questions] == [
        ("q1", (Answer("Rome", 13),)),
        ("q2", ()),
        ("7", ()),
    ]
    assert all(PASSAGE[answer.start :].startswith(answer.text) for example in questions for answer in example.answers)
    description = describe(path)
    assert (description.format, description.num_records) == ("squad", 3)
    use = guess_use(description)
    assert use is not None and use.recipe == "answer"


@pytest.mark.parametrize(
    ("data", "passage", "sentence"),
    [
        (
            question("Rome", 12),
            PASSAGE,
            "question q1: the answer 'Rome' does not begin at character 12 of its passage, which has ' Rom' there",
        ),
        (question("Rome", -1), PASSAGE, "the answer 'Rome' does not begin at character -1"),
        (question("Rome", "there"), PASSAGE, "the start of an answer must be a character number from 0, not 'there'"),
        (question(answers="Rome"), PASSAGE, "answers must be a list of objects, not 'Rome'"),
        (question(), " ", "the field for data.passage is empty"),
        (question(question=None), PASSAGE, "the field for data.question is null"),
    ],
)
def test_a_faulty_question_is_reported_or_skipped(
    tmp_path: Path, data: dict[str, Any], passage: str, sentence: str
) -> None:
    path = squad(tmp_path / "dev.json", data, passage=passage)
    with pytest.raises(UserError) as error:
        list(read_questions(path))
    assert sentence in str(error.value) and "data.faults=skip" in str(error.value)
    if passage == PASSAGE:
        path = squad(tmp_path / "dev.json", data, question(id="q2"))
        notes = Notes(faults="skip")
        assert [example.id for example in read_questions(path, notes=notes)] == ["q2"]
        assert notes.num_faults == 1


def test_every_answer_of_a_row_needs_a_start(tmp_path: Path) -> None:
    row = {"question": "Where?", "passage": PASSAGE, "answer": ["Rome"], "answer_start": [13, 28]}
    path = write(tmp_path / "q.jsonl", json.dumps(row))
    with pytest.raises(UserError, match="expected a start for each answer, found 1 answers and 2 starts"):
        list(read_questions(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"data": {}}', "the file has the fields data, but no list 'data'"),
        ('{"data": [{"paragraph": 1}]}', "an article has the fields paragraph, but no list 'paragraphs'"),
        ('{"data": [{"paragraphs": [3]}]}', "a paragraph is a number, not an object with the list 'qas'"),
        ('{"data": [{"paragraphs": [{"qas": [1]}]}]}', "a question is a number, not an object; the shape is {"),
        ('{"data": [', "this is not JSON"),
        ('{"data": []}', "there is no record in it"),
    ],
)
def test_json_of_another_structure_is_rejected(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        list(read_questions(write(tmp_path / "dev.json", text), format="squad"))
    assert sentence in str(error.value) and str(error.value).startswith(str(tmp_path / "dev.json"))


def test_tables_and_lists_give_the_same_questions(tmp_path: Path) -> None:
    expected = [((Answer("Rome", 13),)), ()]
    rows = [
        {
            "id": "a",
            "question": "Where?",
            "context": PASSAGE,
            "answers": {"text": ["Rome", "Rome"], "answer_start": [13, 13]},
        },
        {"question": "Who?", "context": PASSAGE, "answers": {"text": [], "answer_start": []}},
    ]
    lines = list(read_questions(write(tmp_path / "q.jsonl", "".join(json.dumps(row) + "\n" for row in rows))))
    assert [example.answers for example in lines] == expected and lines[0].id == "a"
    table = write(tmp_path / "q.csv", f'asked,passage,answer\nWhere?,"{PASSAGE}",Rome\nWho?,"{PASSAGE}",\n')
    assert [example.answers for example in read_questions(table, question="asked")] == expected
    listed = [("Where?", PASSAGE, "Rome"), Question("Who?", PASSAGE)]
    assert [example.answers for example in read_questions(listed)] == expected
    with pytest.raises(UserError, match="the answer 'Oslo' does not occur in its passage"):
        list(read_questions([("Where?", PASSAGE, "Oslo")]))


def test_synthetic_questions_have_their_answer_at_the_stated_position() -> None:
    drawn = synthetic_questions(200, 1, 2, 5)
    assert drawn == synthetic_questions(200, 1, 2, 5) != synthetic_questions(200, 2, 2, 5)
    assert all(
        example.passage[answer.start :].startswith(answer.text) for example in drawn for answer in example.answers
    )
    assert 0.1 < sum(not example.answers for example in drawn) / len(drawn) < 0.3
