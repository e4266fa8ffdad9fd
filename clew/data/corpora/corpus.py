"""What the table of corpora says of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.data.corpora.contents import Content, RunningText


@dataclass(frozen=True)
class Corpus:
    """Where the files of each part stand, below CLEW_DATA or in the package; what they hold; who publishes it; what to
    try without it.

    A part without files is cut off the training part: running text at its end, as much as a config says, examples by
    hash, as much as `cut` says. Parts that `may_lack` are left out where their files are not there. An `other` layout
    is taken where its files are there; one that is `packaged` is a Debian package's, and stands where that puts it.
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
