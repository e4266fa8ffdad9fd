"""The common part of the config section `data`. Each kind of data adds its own fields, in its own file."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.data.files.given_files import expand_home, given_file
from clew.data.formats import FORMATS
from clew.data.lines import find_encoding

Files = str | list[str]
"""A path, or the two of parallel text."""
Column = str | int


class DataSection(Section):
    """Where the data come from: a corpus by name, or your own files."""

    corpus: str | None = Field(
        None,
        description=(
            "an embedded or generated corpus, or one in the folder that CLEW_DATA names; several for documents: ptb+ewt"
        ),
    )
    train: Files | None = Field(
        None, description="a text, a folder of them, a table or a treebank; [source file, target file] of parallel text"
    )
    valid: Files | None = Field(None, description="the same for validation; by default a part of the training data")
    test: Files | None = None
    valid_fraction: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="the share kept for validation: the end of a text, or examples chosen by a hash",
    )
    test_fraction: float = Field(0.0, ge=0, lt=1, description="the share kept for testing")
    faults: Literal["refuse", "skip"] = Field("refuse", description="what to do with records that cannot be used")
    encoding: str | None = Field(
        None,
        description=(
            "the encoding of the files: utf-8, cp1252, latin-1, utf-16, ...; by default UTF-8, or guessed if they"
            " are not"
        ),
    )

    def for_files(self) -> Self:
        """Return the section for your own files: without its corpus, and without the options that choose within it."""
        return self.model_copy(update={"corpus": None})

    def with_encoding(self, file: Any) -> Any:
        """Attach the config's encoding and delimiter to a file; return anything but a path unchanged."""
        return (
            given_file(file, self.encoding, getattr(self, "delimiter", None)) if isinstance(file, (str, Path)) else file
        )

    def encodings(self) -> list[str]:
        """Return a message for each file whose encoding was guessed because it is not UTF-8; folders are skipped."""
        named = [
            each
            for files in (self.train, self.valid, self.test)
            for each in (files if isinstance(files, list) else [files])
        ]
        paths = [
            path
            for file in named
            if file is not None and self.encoding is None and (path := expand_home(file)).is_file()
        ]
        guesses = [(path, guess) for path in paths if (guess := find_encoding(path)) is not None]
        return [
            f"{path}: read as {guess.encoding}, as {guess.reason}; data.encoding=NAME overrides this"
            for path, guess in guesses
        ]

    def check_given(self, how: str) -> None:
        """Refuse data that are given twice or not at all."""
        if self.corpus is None and self.train is None:
            raise UserError(how)
        if self.corpus is not None and self.train is not None:
            raise UserError(
                "data.corpus and data.train exclude each other; give one of them (data.corpus=null for your own data)"
            )


class ExampleData(DataSection):
    """Where the data come from: a corpus by name, or your own files."""

    format: str | None = Field(None, description=f"{', '.join(FORMATS)}; detected from the file by default")
    limit: int | None = Field(
        None, ge=1, description="use only this many training examples, drawn by the seed; by default all"
    )


class TableData(ExampleData):
    """Where the data come from: a corpus by name, or your own files."""

    header: bool | None = Field(
        None, description="whether the first line of a table names its columns; detected by default"
    )
    delimiter: str | None = Field(
        None, description="the separator of a table's fields: , ; | tab or another character; detected by default"
    )


class DrawnData(TableData):
    """Where the data come from: a corpus by name, a generated one, or your own files."""

    size: int = Field(10_000, ge=1, description="a generated corpus: the number of examples")
    shortest: int = Field(1, ge=1, description="a generated corpus: the shortest sequence, or gap")
    longest: int = Field(20, ge=1, description="a generated corpus: the longest")
