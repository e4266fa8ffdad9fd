"""Documented means it runs: every command and every snippet of the README, the guides and the course, in order, in
short form."""

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
from tests.documents.prepared import EXCEPTIONS, PREPARED, REFUSED, SERVED
from tests.documents.reading import DOCUMENTS, Snippet, inline_commands, name_of, parse_line, steps_of
from tests.documents.shell import Failed, Typist
from tests.documents.small import save_heads
from tests.runs.pretrained import save_pretrained


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The heads of all corpora, and a folder for runs that several documents use."""
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
def stock(place: Path) -> Callable[[str], Path]:
    """Makes a run by its name, once: that of the recipe, in short form; NAME-2 has another seed."""
    shelf = place / "stock"
    shelf.mkdir()

    def made(name: str) -> Path:
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
                typist = Typist(shelf, made)
                typist.clew(
                    ["train", recipe, *STOCKED.get(recipe, []), *again, "--out", str(folder)],
                    "",
                    f"clew train {recipe}",
                )
            finally:
                os.chdir(before)
        return folder

    return made


TYPED: set[str] = set()
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
"""The data of a run that a document takes for granted, where its recipe has none."""


@pytest.fixture
def typist(tmp_path: Path, stock: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    monkeypatch.chdir(tmp_path)
    write_own_files(tmp_path)
    tables: list[dict[str, Any]] = [CELLS, TASKS, INSTRUMENTS, FORMATS]
    kept = [dict(table) for table in tables]
    typist = Typist(tmp_path, stock)
    yield typist
    typist.stop()
    for table, before in zip(tables, kept, strict=True):
        table.clear()
        table.update(before)


def listed(text: str, table: dict[str, str]) -> str | None:
    """What a table says of a line that begins as one of its keys does."""
    return next((said for start, said in table.items() if text.startswith(start)), None)


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_a_document_says_to_type_runs(document: Path, typist: Typist) -> None:
    name = name_of(document)
    if name in PREPARED:
        PREPARED[name](typist.folder)
    steps = [*steps_of(document), *(inline_commands(document) if document.stem == "course" else [])]
    if document.stem == "course":  # what another document has typed is typed once
        steps = list({step.text: step for step in steps if step.text not in TYPED}.values())
    faults = []
    for step in steps:
        began = time.monotonic()
        try:
            if isinstance(step, Snippet):
                for mark, command in SERVED.get(name, {}).items():
                    if mark in step.text:
                        typist.type(parse_line(command))
                typist.python(step.text)
            elif (said := listed(step.text, REFUSED.get(name, {}))) is not None:
                with pytest.raises(Failed, match=re.escape(said)):
                    typist.type(step)
            elif listed(step.text, EXCEPTIONS.get(name, {})) is None:
                typist.type(step)
        except Exception as error:
            faults.append(f"{step.text}\n{type(error).__name__}: {error}")
        TYPED.add(step.text)
        if os.environ.get("CLEW_TIMES"):
            print(f"{time.monotonic() - began:6.1f} s  {step.text.splitlines()[0][:120]}")
    assert not faults, "\n\n".join(faults)
