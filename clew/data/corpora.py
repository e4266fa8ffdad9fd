"""Text corpora by name: those that ship with the package, and those that a person has under the folder that CLEW_DATA names."""

import os
from dataclasses import dataclass
from pathlib import Path

from clew.core.errors import UserError, unknown
from clew.data.samples import sample_path


@dataclass(frozen=True)
class Corpus:
    """Where a corpus's files stand below CLEW_DATA, who publishes it, and the recipe to try without it. An embedded one has no
    files to find."""

    train: str = ""
    valid: str | None = None
    test: str | None = None
    published: str = ""
    instead: str = ""


@dataclass(frozen=True)
class Files:
    train: Path
    valid: Path | None = None
    test: Path | None = None


def find_corpus(name: str) -> Files:
    """The corpus's files, or a sentence on how to get them."""
    if name not in CORPORA:
        raise unknown("corpus", name, CORPORA)
    corpus = CORPORA[name]
    if not corpus.train:
        return Files(sample_path(name))
    root = os.environ.get("CLEW_DATA")
    wanted = [path for path in (corpus.train, corpus.valid, corpus.test) if path is not None]
    missing = wanted if root is None else [path for path in wanted if not (Path(root) / path).is_file()]
    if missing:
        place = f"below CLEW_DATA ({root})" if root else "below a folder, and set CLEW_DATA to that folder"
        raise UserError(
            f"the corpus {name} does not ship with clew; put {', '.join(missing)} {place}; {corpus.published}; "
            f"without it, try `clew train {corpus.instead}`"
        )
    assert root is not None
    return Files(*(Path(root) / path if path is not None else None for path in (corpus.train, corpus.valid, corpus.test)))  # type: ignore[arg-type]


CORPORA = {
    "tinyshakespeare": Corpus(),
    "ptb": Corpus(
        "ptb/ptb.train.txt",
        "ptb/ptb.valid.txt",
        "ptb/ptb.test.txt",
        published="it is Mikolov's version of the Penn Treebank, published with his RNNLM toolkit as simple-examples/data",
        instead="shakespeare-lstm",
    ),
}
