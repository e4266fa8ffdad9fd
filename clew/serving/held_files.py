"""Uploaded files in memory, each named by a hash of its content. Knows no server.

The page sends a file once. Views, links and history then hold only the short name; a name that was never uploaded is no
file, so a request can never name a path of this machine.
"""

import hashlib
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any

from clew.core.errors import UserError
from clew.data.files.file_bytes import FileBytes
from clew.data.pictures.picture_files import read_picture
from clew.data.pictures.resizing import resized
from clew.data.sounds.sound_files import detect_format
from clew.drawing.png import png

MOST_HELD = 64_000_000
"""The maximum total size in bytes; the least recently used file is dropped first."""
THUMB = 160
"""The longer side of a thumbnail in pixels."""
PLAYED = {"WAV": "audio/wav", "FLAC": "audio/flac", "Ogg": "audio/ogg", "MP3": "audio/mpeg"}
"""Sound formats that browsers play, with their media types."""


class HeldFiles:
    """Files by id. `samples` are kept; uploads are kept while there is room."""

    def __init__(self, samples: Iterable[tuple[FileBytes, str]] = ()):
        self.lock = Lock()
        self.entries: OrderedDict[str, tuple[FileBytes, dict[str, Any]]] = OrderedDict()
        self.size = 0
        self.samples = {id: entry for file, media in samples for id, entry in [self.entry(file, media)]}

    def put(self, file: FileBytes, media: str) -> dict[str, Any]:
        """Add a file and describe it for the page, with its id; an unreadable file is refused."""
        id, entry = self.entry(file, media)
        with self.lock:
            if id not in self.samples and id not in self.entries:
                self.entries[id] = entry
                self.size += len(file.data)
            while self.size > MOST_HELD and len(self.entries) > 1:
                self.size -= len(self.entries.popitem(last=False)[1][0].data)
        return entry[1]

    def entry(self, file: FileBytes, media: str) -> tuple[str, tuple[FileBytes, dict[str, Any]]]:
        id = f"file-{hashlib.sha256(file.name.encode('utf-8', 'replace') + bytes(1) + file.data).hexdigest()[:24]}"
        return id, (file, {"file": id, "name": file.name, "media": media, **DESCRIBED[media](file)})

    def get(self, id: Any) -> tuple[FileBytes, dict[str, Any]] | None:
        if not isinstance(id, str):
            return None
        with self.lock:
            if id in self.entries:
                self.entries.move_to_end(id)
            return self.samples.get(id) or self.entries.get(id)

    def find(self, id: str) -> tuple[FileBytes, dict[str, Any]]:
        if (entry := self.get(id)) is None:
            raise UserError("the server no longer has this file; choose it again")
        return entry


def described_picture(file: FileBytes) -> dict[str, Any]:
    """The size of a picture, and a thumbnail."""
    pixels = read_picture(file)
    height, width = pixels.shape[:2]
    scale = min(1.0, THUMB / max(height, width))
    small = resized(pixels, max(1, round(height * scale)), max(1, round(width * scale)))
    data = b64encode(png(small.numpy())).decode()
    return {"about": f"{width:,} x {height:,} pixels", "picture": f"data:image/png;base64,{data}"}


def described_sound(file: FileBytes) -> dict[str, Any]:
    """The duration of a sound, and its media type if browsers play it."""
    sound = file.sound()
    return {
        "about": f"{sound.seconds:.2f} seconds, {sound.rate:,} samples per second",
        "plays": PLAYED.get(detect_format(file.open(), file.name)),
    }


DESCRIBED = {"picture": described_picture, "sound": described_sound}
