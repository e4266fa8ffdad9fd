"""Inputs other than text, with a label or several: the common part of labelled pictures and labelled sounds."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from clew.data.examples import LabelledInput
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import Column, TableData
from clew.data.labelled_inputs import InputFiles, read_labelled_inputs
from clew.data.notes import Notes


class LabelledData(TableData):
    """Where the labels of inputs are found."""

    label: Column | None = Field(None, description="in a table: the column of the label")
    label_separator: str | None = Field(None, min_length=1, description="the separator of several labels in a field")


def labelled_inputs(
    section: type[LabelledData],
    files: InputFiles,
    corpus: Callable[[Any, int, Notes], Parts],
    example: str,
    folder: Callable[[Any], Path | None] = lambda data: None,
) -> Kind:
    """Build the kind for one sort of files. `corpus` reads what `data.corpus` names; `example` is a folder name for
    messages; `folder` is the folder that the paths of a table are relative to, if it is not the table's own."""

    def read_files(paths: PartFiles, data: Any, notes: Notes) -> Iterator[LabelledInput]:
        around = folder(data)
        for path in paths:
            yield from read_labelled_inputs(
                path,
                files,
                column=getattr(data, files.column),
                label=data.label,
                label_separator=data.label_separator,
                folder=around,
                format=data.format,
                header=data.header,
                notes=notes,
            )

    def read_parts(data: Any, seed: int, notes: Notes) -> Parts:
        """Read the parts. A set without parts is split so that labels keep their proportions."""
        data.check_given(
            f"there is no training data; name your {files.name}s with data.train, e.g. data.train={example}, a folder"
            " with one for each class in it"
        )
        if data.corpus is not None:
            return corpus(data, seed, notes)
        return cut_files(
            lambda paths: read_files(paths, data, notes),
            data,
            seed,
            by_label=True,
            key=split_key,
            check=lambda each: files.check(each.input),
        )

    def rows(examples: Iterable[Any], notes: Notes) -> Iterator[dict[str, Any]]:
        """Yield (path, label); several labels are a list."""
        for each in read_labelled_inputs(examples, files, notes=notes):
            yield {
                files.column: files.path(each.input),
                "label": each.labels[0] if len(each.labels) == 1 else list(each.labels),
            }

    return Kind(
        name=f"labelled {files.name}s",
        section=section,
        read_parts=read_parts,
        read_files=read_files,
        rows=rows,
        is_plain=False,
    )


def split_key(example: LabelledInput) -> str:
    """Return the key that decides the part of an input: its name with its folder's, wherever that folder is."""
    return "/".join(Path(example.key).parts[-2:])
