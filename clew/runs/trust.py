"""Trusted runs: the files that a run's config names are read freely only if the run was trained or accepted here.

A run folder may come from anyone, and its config may name any file as its data. A trusted run is recognised by the hash
of its config in a list outside the run (`state_folder`), so a folder that is moved or copied stays trusted, and a
downloaded one does not become so. For any other run, including one trained before the list existed, only files in its
own folder, in the working directory or among the corpora are read; others are refused until the user accepts the run
permanently with `--trust`.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, named, shortened
from clew.core.files import (
    LARGEST_WHOLE,
    create_private,
    examples_folder,
    json_hash,
    private_folder,
    read_json,
    read_text,
)
from clew.core.wording import is_command

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
"""The file with the list: one config hash per line."""
ACCEPTING: ContextVar[bool] = ContextVar("accepting", default=False)


def state_folder() -> Path:
    """Return the folder for state that must outlive the cache: CLEW_STATE, or the user's state folder."""
    if "CLEW_STATE" in os.environ:
        return Path(os.environ["CLEW_STATE"])
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "clew"


@contextmanager
def accepting(accepted: bool = True) -> Iterator[None]:
    """Within this context loaded runs are trusted, permanently: the files that their configs name are read."""
    before = ACCEPTING.set(accepted)
    try:
        yield
    finally:
        ACCEPTING.reset(before)


def remedy_of_trust() -> str:
    """Return how to trust a run, for error messages."""
    return "add --trust" if is_command() else "load it within `with clew.runs.trust.accepting():`"


def config_hash(folder: Path) -> str:
    """Return the SHA-256 of a run's config, independent of the JSON formatting."""
    settings = read_json(folder / CONFIG)
    if isinstance(settings, dict):
        settings.pop("sha256", None)
    return json_hash(settings)


def trust(folder: Path) -> None:
    """Add a run to the list. If the list cannot be written, the run is not trusted later and needs `--trust`."""
    with suppress(OSError):
        digest = config_hash(folder)
        if digest not in own_hashes():
            with create_private(private_folder(state_folder()) / OWN, "a") as file:
                file.write(f"{digest}\n")


def trust_like(folder: Path, sources: Iterable[Path]) -> None:
    """Add a run that was made from other runs to the list if all of those are trusted."""
    if all(is_trusted(source) for source in sources):
        trust(folder)


def is_trusted(folder: Path) -> bool:
    """Whether a run is trusted: it is on the list, is being accepted now, or exists only in memory."""
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
    """Refuse an untrusted run whose files are links to files elsewhere."""
    files = [*(folder / name for name in (*FILES, VOCABULARY)), *(folder / VOCABULARY).glob("*")]
    outside = [path for path in files if path.is_symlink() and not is_near(path, folder)]
    # Hashing a config that is itself a link would already read the file elsewhere.
    if outside and (folder / CONFIG in outside or not is_trusted(folder)) and not ACCEPTING.get():
        raise UserError(
            f"{outside[0]} is a link to {shortened(os.path.realpath(outside[0]))}, outside the run and this"
            f" folder; if you trust the run, {remedy_of_trust()}, or replace the link by the file itself"
        )


def check_paths(folder: Path, data: Any, assignments: Iterable[str] = ()) -> None:
    """Refuse to read files that an untrusted run's section `data` names outside the run and the working directory;
    parts that the user's `assignments` set, such as data.train=FILE, are not checked."""
    for part in ("train", "valid", "test"):
        paths = getattr(data, part, None)
        if paths is None or any(setting.startswith(f"data.{part}=") for setting in assignments):
            continue
        for path in [paths] if isinstance(paths, str) else paths:
            check_path(folder, f"data.{part}", path, "or name your own data")


def check_path(folder: Path, field: str, path: str, remedy: str) -> None:
    try:
        if is_near(Path(path).expanduser(), folder):
            return
    except (RuntimeError, ValueError, OSError):  # not a valid path; reading it raises the error
        return
    if not is_trusted(folder):
        raise UntrustedPath(
            f"{folder} was not trained here, and its config names {named(path)} ({field}), which is outside the run"
            f" and this folder; if you trust the run, {remedy_of_trust()}, {remedy}"
        )


class UntrustedPath(UserError):
    """An untrusted run names a file elsewhere."""


def is_near(path: Path, folder: Path) -> bool:
    """Whether a path is in the run's folder, the working directory, the corpora, or the cached examples of
    `clew.train(data=...)`, and not in a hidden folder there: the working directory may be a user's home. A working
    directory that is the root of the file system, as in a container, does not count."""
    target = Path(os.path.realpath(path))
    places = [folder, Path.cwd(), *([Path(os.environ["CLEW_DATA"])] if os.environ.get("CLEW_DATA") else [])]
    roots = [root for root in (Path(os.path.realpath(place)) for place in places) if root != Path(root.anchor)]
    if target.is_relative_to(os.path.realpath(examples_folder())):
        return True
    return any(
        target.is_relative_to(root) and not any(part.startswith(".") for part in target.relative_to(root).parts)
        for root in roots
    )
