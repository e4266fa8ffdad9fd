"""Every command and every snippet of the README, the guides and the course runs, in order and in short form."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.data import corpora
from clew.data.corpora import samples
from clew.data.formats import FORMATS
from clew.instruments import INSTRUMENTS
from clew.layers.cells import CELLS
from clew.recipes import RECIPES
from clew.tasks import TASKS
from tests.documents.files import write_corpora, write_own_files
from tests.documents.prepared import EXCEPTIONS, PREPARED, REJECTED, SERVED
from tests.documents.reading import DOCUMENTS, Snippet, inline_commands, name_of, parse_line, steps_of
from tests.documents.shell import Failed, Typist
from tests.documents.small import save_heads
from tests.runs.pretrained import save_pretrained


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the starts of all corpora, for runs that several documents use."""
    folder = tmp_path_factory.mktemp("documents")
    embedded = save_heads(samples.EMBEDDED, folder / "embedded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "EMBEDDED", embedded)
        patch.setattr(corpora, "EMBEDDED", embedded)
        patch.setattr(corpora, "DEBIAN", str(folder / "none"))
        patch.setenv("CLEW_DATA", str(write_corpora(folder / "data", embedded)))
        patch.setenv("CLEW_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture(scope="module")
def stock(shared_folder: Path) -> Callable[[str], Path]:
    """A function that trains the run of a recipe in short form, once per name; NAME-2 has another seed."""
    shelf = shared_folder / "stock"
    shelf.mkdir()

    def make_run(name: str) -> Path:
        folder = shelf / "runs" / name
        if not folder.exists():
            recipe, again = (name.removesuffix("-2"), ["seed=2"]) if name.endswith("-2") else (name, [])
            if recipe not in RECIPES:
                raise Failed(f"runs/{name} is made by no command before, and is no recipe's run")
            before = os.getcwd()
            os.chdir(shelf)
            try:
                if not (shelf / "bert").exists():
                    write_own_files(shelf)
                    save_pretrained(shelf / "bert")
                typist = Typist(shelf, make_run)
                typist.clew(
                    ["train", recipe, *STOCKED.get(recipe, []), *again, "--out", str(folder)],
                    "",
                    f"clew train {recipe}",
                )
            finally:
                os.chdir(before)
        return folder

    return make_run


DONE: set[str] = set()
STOCKED = {
    "answer": ["data.train=train-v1.1.json", "data.valid=dev-v1.1.json", "transfer.from=bert"],
    "classify": ["data.train=tickets.csv"],
    "text-gpt": ["data.train=book.txt"],
    "text-llama": ["data.train=book.txt"],
    "text-lstm": ["data.train=book.txt"],
    "gpt2": ["data.train=book.txt"],
    "tag": ["data.train=names.conll"],
    "classify-trees": ["data.train=train.conllu", "data.label=s_type"],
}
"""Data of a run that a document assumes to exist, where its recipe names none."""


@pytest.fixture
def typist(tmp_path: Path, stock: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    monkeypatch.chdir(tmp_path)
    write_own_files(tmp_path)
    tables: list[dict[str, Any]] = [CELLS, TASKS, INSTRUMENTS, FORMATS]
    contents = [dict(table) for table in tables]
    typist = Typist(tmp_path, stock)
    yield typist
    typist.stop()
    for table, before in zip(tables, contents, strict=True):
        table.clear()
        table.update(before)


def entry_for(text: str, table: dict[str, str]) -> str | None:
    """The value of the key with which a line starts, if there is one."""
    return next((value for start, value in table.items() if text.startswith(start)), None)


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_and_snippet_of_a_document_runs(document: Path, typist: Typist) -> None:
    name = name_of(document)
    if name in PREPARED:
        PREPARED[name](typist.folder)
    steps = [*steps_of(document), *(inline_commands(document) if document.stem == "course" else [])]
    if document.stem == "course":  # steps of other documents are not repeated
        steps = list({step.text: step for step in steps if step.text not in DONE}.values())
    faults = []
    for step in steps:
        start_time = time.monotonic()
        try:
            if isinstance(step, Snippet):
                for mark, command in SERVED.get(name, {}).items():
                    if mark in step.text:
                        typist.type(parse_line(command))
                typist.python(step.text)
            elif (value := entry_for(step.text, REJECTED.get(name, {}))) is not None:
                with pytest.raises(Failed, match=re.escape(value)):
                    typist.type(step)
            elif entry_for(step.text, EXCEPTIONS.get(name, {})) is None:
                typist.type(step)
        except Exception as error:
            faults.append(f"{step.text}\n{type(error).__name__}: {error}")
        DONE.add(step.text)
        if os.environ.get("CLEW_TIMES"):
            print(f"{time.monotonic() - start_time:6.1f} s  {step.text.splitlines()[0][:120]}")
    assert not faults, "\n\n".join(faults)
