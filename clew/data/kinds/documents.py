"""Documents in parts, from corpora by name and from your own files."""

from pathlib import Path

from pydantic import Field

from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.data.documents import Documents, corpus_documents, documents_at, hold_out, joined
from clew.data.example_splits import PARTS
from clew.data.kinds.section import Column
from clew.data.kinds.text import PlainTextData
from clew.data.notes import Notes


class DocumentsData(PlainTextData):
    """Where the documents come from: corpora by name, and your own files."""

    format: str | None = Field(None, description="lines, jsonl; detected from the file by default")
    source: Column | None = Field(None, description="the language of a corpus")


def find_documents(data: DocumentsData, notes: Notes) -> dict[str, Documents]:
    """Return the parts by name: train, valid, and test if there is one. Several corpora (`ptb+ewt`) and files may be
    combined. If one of them lacks a valid or test part, it is cut off its end."""
    corpora = [] if data.corpus is None else data.corpus.split("+")
    if not corpora and data.train is None:
        raise UserError(
            "there is no training data; name your documents with data.train, e.g. `clew train text-bert"
            " data.train=articles.jsonl`"
        )
    language = None if data.source is None else str(data.source)
    sources = [corpus_documents(name, language) for name in corpora]
    if data.train is not None:
        sources.append({part: files for part in PARTS if (files := documents_of(data, part, notes)) is not None})
    elif data.valid is not None or data.test is not None:
        raise UserError("data.valid and data.test need data.train; give that too, or leave them out")
    fractions = {"valid": data.valid_fraction, "test": data.test_fraction}
    whole = []
    for source in sources:
        missing = {part: 0.0 if part in source else fraction for part, fraction in fractions.items()}
        whole.append({**source, **hold_out(source["train"], missing, cache_folder())})
    return {
        part: joined([source[part] for source in whole if part in source])
        for part in PARTS
        if any(part in each for each in whole)
    }


def documents_of(data: DocumentsData, part: str, notes: Notes) -> Documents | None:
    """The documents of the files that are given for a part; None if there are none."""
    paths = getattr(data, part)
    if paths is None:
        return None
    return joined([documents_named(data, path, notes) for path in ([paths] if isinstance(paths, str) else paths)])


def documents_named(data: DocumentsData, path: Path | str, notes: Notes) -> Documents:
    """The documents at a path, read as the config says."""
    return documents_at(data.with_encoding(path), notes, data.field, data.format)
