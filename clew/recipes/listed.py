"""Examples from Python: they are kept as JSON lines among what clew caches, so that their run can be resumed and evaluated as any other."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, shown, unknown
from clew.core.files import cache_folder, write_text
from clew.data.example_splits import PARTS
from clew.data.examples import Labelled, Pair, Question, Sentence
from clew.data.readers import read_labelled, read_pairs, read_sentences
from clew.data.squad_files import read_questions
from clew.recipes.running import config_of
from clew.tasks import TASKS

Listed = Iterable[Any] | Mapping[str, Iterable[Any]]
"""Examples to train on; or those of each part: train, valid, test."""


def listed_settings(recipe: str, assignments: Sequence[str], data: Listed) -> list[str]:
    """The settings that train a recipe on these examples."""
    given = next((name for name in assignments if name.startswith(("data.corpus=", *(f"data.{part}=" for part in PARTS)))), None)
    if given is not None:
        raise UserError(f"examples are given by data=, and by {given} too; leave one of them out")
    kind = TASKS[config_of(recipe, assignments).task.name].data
    if kind not in KINDS:
        raise UserError(
            f"data= is for labelled texts, tagged words, pairs and questions, and {recipe} learns from {kind.replace('_', ' ')}; "
            "name a file of it with data.train=FILE"
        )
    parts = data if isinstance(data, Mapping) else {"train": data}
    for part in parts:
        if part not in PARTS:
            raise unknown("part of data", part, PARTS)
    if "train" not in parts:
        raise UserError("data= has no part 'train'; give examples to train on")
    rows = {part: list(KINDS[kind](some_of(examples, part))) for part, examples in parts.items()}
    columns = {column: f"data.{column}={column}" for column in rows["train"][0]}
    return ["data.corpus=null", "data.format=jsonl", *columns.values(), *(f"data.{part}={keep(rows[part])}" for part in rows)]


def some_of(examples: Any, part: str) -> list[Any]:
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise UserError(f"data= takes a list of examples, or one for each part, and the part '{part}' is {shown(examples)}")
    found = list(examples)
    if not found:
        raise UserError(f"data= has an empty list for the part '{part}'; give a list with examples in it")
    return found


def keep(rows: Sequence[Mapping[str, Any]]) -> Path:
    """The file with these rows, named by what is in it."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path = cache_folder().absolute() / "examples" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return path


def labelled_rows(data: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """(text, label), or (text, second, label); several labels are a list."""
    example: Labelled
    for example in read_labelled(data):
        second = {} if example.second is None else {"second": example.second}
        yield {"text": example.text, **second, "label": example.labels[0] if len(example.labels) == 1 else example.labels}


def tagged_rows(data: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """(words, tags)."""
    example: Sentence
    for example in read_sentences(data):
        yield {"words": example.words, "tags": example.tags}


def pair_rows(data: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """(source, target)."""
    example: Pair
    for example in read_pairs(data):
        yield {"source": example.source, "target": example.target}


def question_rows(data: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """(question, passage, answer), with where it begins; or (question, passage) where there is no answer."""
    example: Question
    for example in read_questions(data):
        starts = [answer.start for answer in example.answers]
        yield {"question": example.question, "passage": example.passage, "answer": example.texts, "answer_start": starts}


KINDS: dict[str, Callable[[Iterable[Any]], Iterator[dict[str, Any]]]] = {
    "labelled": labelled_rows,
    "tagged": tagged_rows,
    "pairs": pair_rows,
    "questions": question_rows,
}
