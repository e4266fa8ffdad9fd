"""Whose run it is: what a run's config names is read without asking where the run was trained or accepted here.

A run folder may come from anyone, and its config may name any file as its data. A run of one's own is known by the hash
of its config, kept in a list outside of the run (`state_folder`), so that a folder that is moved or copied stays one's
own and one that is downloaded does not become so. Of any other run, such as one that was trained before there was a
list, files are read that are in its own folder, in the working directory or among the corpora; others are asked for:
`--trust` accepts a run, once and for all.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, named, shortened
from clew.core.files import LARGEST_WHOLE, cache_folder, create_private, private_folder, read_json, read_text

CONFIG = "config.json"
FILES = (
    CONFIG,
    "model.safetensors",
    "metrics.jsonl",
    "environment.json",
    "predictions.jsonl",
    "origin.json",
    "code.py",
)
VOCABULARY = "vocabulary"
OWN = "runs"
"""The list: a hash of a config a line."""
ACCEPTING: ContextVar[bool] = ContextVar("accepting", default=False)


def state_folder() -> Path:
    """Where what must outlive the cache is kept: CLEW_STATE, or the user's own folder for that."""
    if "CLEW_STATE" in os.environ:
        return Path(os.environ["CLEW_STATE"])
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "clew"


@contextmanager
def accepting(accepted: bool = True) -> Iterator[None]:
    """Within this context a run that is loaded is accepted: what its config names is read, now and later."""
    before = ACCEPTING.set(accepted)
    try:
        yield
    finally:
        ACCEPTING.reset(before)


def config_hash(folder: Path) -> str:
    """SHA-256 of what a run's config says, however it is laid out."""
    settings = read_json(folder / CONFIG)
    if isinstance(settings, dict):
        settings.pop("sha256", None)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def trust(folder: Path) -> None:
    """Puts a run on the list. Where the list cannot be written, the run is a stranger's later, and asked about."""
    with suppress(OSError):
        digest = config_hash(folder)
        if digest not in own_hashes():
            with create_private(private_folder(state_folder()) / OWN, "a") as file:
                file.write(f"{digest}\n")


def trust_like(folder: Path, sources: Iterable[Path]) -> None:
    """Puts a run on the list that was made of others, where all of these are one's own."""
    if all(is_trusted(source) for source in sources):
        trust(folder)


def is_trusted(folder: Path) -> bool:
    """Whether a run is one's own: it is on the list, or accepted now; or it is in memory alone, as whoever built it has
    it."""
    if not (folder / CONFIG).is_file():
        return True
    if ACCEPTING.get():
        trust(folder)
        return True
    return config_hash(folder) in own_hashes()


def own_hashes() -> set[str]:
    try:
        return set(read_text(state_folder() / OWN, 4 * LARGEST_WHOLE).split())
    except (OSError, ValueError):
        return set()


def check_links(folder: Path) -> None:
    """Refuses a file of a run that is a link to one elsewhere, as far as the run is not one's own."""
    files = [*(folder / name for name in (*FILES, VOCABULARY)), *(folder / VOCABULARY).glob("*")]
    leaving = [path for path in files if path.is_symlink() and not is_near(path, folder)]
    # The hash of a config that is itself elsewhere would have to be read there.
    if leaving and (folder / CONFIG in leaving or not is_trusted(folder)) and not ACCEPTING.get():
        raise UserError(
            f"{leaving[0]} is a link to {shortened(os.path.realpath(leaving[0]))}, outside of the run and of this"
            " folder; where you trust the run add --trust, or put the file itself in its place"
        )


def check_paths(folder: Path, data: Any, given: Iterable[str] = ()) -> None:
    """Refuses to read the files that a run's section `data` names, if they are elsewhere and the run is not one's own;
    those of the parts that were `given` by the user, as data.train=FILE, are."""
    for part in ("train", "valid", "test"):
        paths = getattr(data, part, None)
        if paths is None or any(setting.startswith(f"data.{part}=") for setting in given):
            continue
        for path in [paths] if isinstance(paths, str) else paths:
            check_path(folder, f"data.{part}", path, "or name data of your own")


def check_path(folder: Path, field: str, path: str, remedy: str) -> None:
    try:
        if is_near(Path(path).expanduser(), folder):
            return
    except (RuntimeError, ValueError, OSError):  # no path at all, of which whoever reads it tells
        return
    if not is_trusted(folder):
        raise Foreign(
            f"{folder} was not trained here, and its config names {named(path)} ({field}), which is outside of the run"
            f" and of this folder; where you trust the run add --trust, {remedy}"
        )


class Foreign(UserError):
    """A run names a file that is not read without being asked for."""


def is_near(path: Path, folder: Path) -> bool:
    """Whether a path leads into the run's folder, the working directory, the corpora or the examples of
    `clew.train(data=...)`, and in it through no hidden folder: a working directory may be all that a user has. One that
    is all of the system, as in a container, is none."""
    found = Path(os.path.realpath(path))
    places = [folder, Path.cwd(), *([Path(os.environ["CLEW_DATA"])] if os.environ.get("CLEW_DATA") else [])]
    roots = [root for root in (Path(os.path.realpath(place)) for place in places) if root != Path(root.anchor)]
    if found.is_relative_to(os.path.realpath(cache_folder() / "examples")):
        return True
    return any(
        found.is_relative_to(root) and not any(part.startswith(".") for part in found.relative_to(root).parts)
        for root in roots
    )
