"""A corpus as an entry of the table of corpora."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.data.corpora.contents import Content, RunningText


@dataclass(frozen=True)
class Corpus:
    """The files of each part, below CLEW_DATA or in the package; their content; where the corpus is published; and the
    recipe to try without it.

    A part without files is split off the training part: of running text the end, as much as the config says; of
    examples the fraction in `cut`, by hash. Parts in `may_lack` are left out if their files are missing. The layout
    `other` is used if all its files exist. A `packaged` layout is that of a Debian package, in Debian's folder.
    """

    train: str | tuple[str, ...]
    valid: str | tuple[str, ...] | None = None
    test: str | tuple[str, ...] | None = None
    content: Content = RunningText()
    cut: Mapping[str, float] = field(default_factory=dict)
    may_lack: tuple[str, ...] = ()
    other: "Corpus | None" = None
    embedded: bool = False
    packaged: bool = False
    published: str = ""
    instead: str = ""
