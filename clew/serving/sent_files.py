"""Files as requests send them: bytes in base64 and a name that nothing is opened by. Knows no route and no run."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, shown
from clew.data.file_bytes import FileBytes
from clew.runs.explaining import read_section

MOST_FILE_BYTES = 16_000_000
MOST_BODY = 24_000_000
"""Bytes of a request that sends files: base64 takes four for three."""
LONGEST_NAME = 255


class SentFile(Section):
    """A file in a request."""

    data: str = Field(description="the bytes of the file, in base64")
    name: str | None = Field(None, max_length=LONGEST_NAME, description="what answers call the file; nothing is opened by it")


def file_of(given: Any, what: str) -> FileBytes:
    """The file that a request sends as `what`, such as `picture 2`. A path is refused: whoever asks must not choose what is read here."""
    if not isinstance(given, Mapping):
        raise UserError(
            f'{what}: expected {{"data": BASE64, "name": NAME}}, found {shown(given)}; a request sends the bytes of a file, and no path'
        )
    sent = read_section(SentFile, given, what)
    try:
        data = b64decode("".join(sent.data.split()), validate=True)
    except ValueError:  # letters that are none of ASCII's too
        raise UserError(f"{what}: data is no base64, which has letters, digits, +, / and = at the end; encode the file's bytes") from None
    if len(data) > MOST_FILE_BYTES:
        raise UserError(f"{what}: a file of {len(data):,} bytes, and {MOST_FILE_BYTES:,} are taken at most; scale it down, or cut it")
    return FileBytes(last_part(sent.name or "") or what, data)


def last_part(name: str) -> str:
    """Of a path, as some programs send it."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2].strip()
