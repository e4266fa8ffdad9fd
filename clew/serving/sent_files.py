"""Files in requests: bytes in base64, and a name that is never used to open anything. Knows no route and no run."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, shown
from clew.data.files.file_bytes import FileBytes
from clew.runs.settings.explaining import read_section

MOST_FILE_BYTES = 16_000_000
MOST_BODY = 24_000_000
"""The maximum size of a request with files, in bytes; base64 takes four bytes for three."""
LONGEST_NAME = 255


class SentFile(Section):
    """A file in a request."""

    data: str = Field(description="the bytes of the file, in base64")
    name: str | None = Field(
        None, max_length=LONGEST_NAME, description="the file's name in answers; never used to open anything"
    )


def read_sent_file(value: Any, what: str) -> FileBytes:
    """The file sent as `what`, such as `picture 2`. A path is refused, since a client must not choose which files are
    read here."""
    if not isinstance(value, Mapping):
        raise UserError(
            f'{what}: expected {{"data": BASE64, "name": NAME}}, found {shown(value)}; send the bytes of the file, not'
            " a path"
        )
    sent = read_section(SentFile, value, what)
    try:
        data = b64decode("".join(sent.data.split()), validate=True)
    except ValueError:  # also raised for non-ASCII characters
        raise UserError(
            f"{what}: data is not base64 (letters, digits, +, /, and = at the end); encode the file's bytes"
        ) from None
    if len(data) > MOST_FILE_BYTES:
        raise UserError(
            f"{what}: the file has {len(data):,} bytes, but at most {MOST_FILE_BYTES:,} are read; scale it down, or"
            " cut it"
        )
    return FileBytes(last_part(sent.name or "") or what, data)


def last_part(name: str) -> str:
    """The last part of a name, since some programs send a path."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2].strip()
