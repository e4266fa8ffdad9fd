"""The section `data` of a config: what every kind of data shares. Each kind adds its own fields, in its own file."""

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
    """Where the data come from: a corpus by name, or files of one's own."""

    corpus: str | None = Field(
        None,
        description=(
            "an embedded or a drawn corpus, or one found under the folder CLEW_DATA names; of documents also several:"
            " ptb+ewt"
        ),
    )
    train: Files | None = Field(
        None, description="a text, a folder of them, a table or a treebank; [source file, target file] of parallel text"
    )
    valid: Files | None = Field(None, description="the same; a part of the training data where not given")
    test: Files | None = None
    valid_fraction: float = Field(
        0.1,
        gt=0,
        lt=1,
        description="the share kept for validation: of a text its end, of examples those that a hash draws",
    )
    test_fraction: float = Field(0.0, ge=0, lt=1, description="the share kept for testing")
    faults: Literal["refuse", "skip"] = Field("refuse", description="what becomes of records that cannot be used")
    encoding: str | None = Field(
        None,
        description=(
            "of the files: utf-8, cp1252, latin-1, utf-16, ...; where not given UTF-8, or guessed if they are not"
        ),
    )

    def for_files(self) -> Self:
        """The section for files of one's own: without its corpus, and what chooses within that."""
        return self.model_copy(update={"corpus": None})

    def given(self, file: Any) -> Any:
        """A file with what the config says of how it is written; what is no path stays what it is."""
        return (
            given_file(file, self.encoding, getattr(self, "delimiter", None)) if isinstance(file, (str, Path)) else file
        )

    def encodings(self) -> list[str]:
        """A sentence for each file that is read in another encoding than UTF-8 without being said to be; folders are
        passed over."""
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
            f"{path}: read as {guess.encoding}, as {guess.reason}; data.encoding=NAME says otherwise"
            for path, guess in guesses
        ]

    def check_given(self, how: str) -> None:
        """Refuses data that are given twice or not at all."""
        if self.corpus is None and self.train is None:
            raise UserError(how)
        if self.corpus is not None and self.train is not None:
            raise UserError(
                "data.corpus and data.train exclude each other; give one of them (data.corpus=null for your own data)"
            )


class ExampleData(DataSection):
    """Where the data come from: a corpus by name, or files of one's own."""

    format: str | None = Field(None, description=f"{', '.join(FORMATS)}; told from the file where not given")
    limit: int | None = Field(
        None, ge=1, description="so many of the training examples, drawn by the seed; all where not given"
    )


class TableData(ExampleData):
    """Where the data come from: a corpus by name, or files of one's own."""

    header: bool | None = Field(
        None, description="the first line of a table names its columns; told from it where not given"
    )
    delimiter: str | None = Field(
        None, description="what parts a table's fields: , ; | tab or another character; seen where not given"
    )


class DrawnData(TableData):
    """Where the data come from: a corpus by name, one that is drawn, or files of one's own."""

    size: int = Field(10_000, ge=1, description="a drawn corpus: how many examples")
    shortest: int = Field(1, ge=1, description="a drawn corpus: the shortest sequence, or gap")
    longest: int = Field(20, ge=1, description="a drawn corpus: the longest")
