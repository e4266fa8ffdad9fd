"""The embedded corpora never change, because results of recipes are compared on them."""

import hashlib
from pathlib import Path

import clew

EMBEDDED = Path(clew.__file__).parent / "data" / "embedded"
LINES = (Path(__file__).parent / "embedded.sha256").read_text(encoding="utf-8").splitlines()


def test_no_file_of_an_embedded_corpus_has_changed() -> None:
    recorded = {name: digest for digest, name in (line.split("  ./") for line in LINES)}
    digests = {
        path.relative_to(EMBEDDED).as_posix(): path
        for path in EMBEDDED.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert set(digests) == set(recorded)
    assert [
        name for name, path in digests.items() if hashlib.sha256(path.read_bytes()).hexdigest() != recorded[name]
    ] == []
