"""Pictures and sounds in a request are read from their bytes as from files; unreadable ones are rejected."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew.data.files.file_bytes import FileBytes
from clew.drawing.png import png
from clew.runs.loaded import Run, load_run
from clew.serving.guard import MOST_BYTES, MOST_LARGE, Guard
from clew.serving.sent_files import MOST_BODY, MOST_FILE_BYTES
from clew.serving.service import Service
from clew.serving.worker import Worker
from tests.serving.test_service import ask, ask_all, equal

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"
USES = {
    "captioning": ("caption", "picture", "0.png"),
    "picture_classification": ("predict", "picture", "3.png"),
    "transcription": ("transcribe", "sound", "3.wav"),
}
Serve = Callable[[str], Service]


def frozen(name: str) -> Run:
    return load_run(FROZEN / name / "run", device="cpu")


def encoded(data: bytes, name: str | None = None) -> dict[str, str]:
    return {"data": b64encode(data).decode(), **({} if name is None else {"name": name})}


def content(name: str) -> bytes:
    return (FROZEN / name / USES[name][2]).read_bytes()


@pytest.fixture
def serve() -> Iterator[Serve]:
    workers: list[Worker] = []

    def make_service(name: str) -> Service:
        workers.append(Worker())
        return Service([frozen(name)], workers[-1], wait=0.0)

    yield make_service
    for worker in workers:
        assert worker.close(10.0)


@pytest.mark.parametrize("name", USES)
def test_a_sent_file_is_answered_like_its_path_on_the_command_line(name: str, serve: Serve) -> None:
    verb, field, file = USES[name]
    run, service = frozen(name), serve(name)
    use = run.uses[verb]
    (answer,) = run.ask(verb, [str(FROZEN / name / file)])
    expected = use.objects(1, use.row(**{field: str(FROZEN / name / file)}), answer, use.options())
    bodies: list[dict[str, Any]] = [
        {field: encoded(content(name), file)},
        {"text": encoded(content(name), file)},
        {"texts": [encoded(content(name), file)]},
        {"texts": [{field: encoded(content(name), file)}]},
    ]
    for body in bodies:
        response = ask(service, f"/{verb}", body)
        assert response.status_code == 200, response.text
        for actual, expected_object in zip(response.json()["answers"], expected, strict=True):
            assert actual.pop("picture" if "picture" in actual else "sound" if "sound" in actual else "input") == file
            assert equal(actual, {key: value for key, value in expected_object.items() if key in actual})


def test_file_bytes_are_accepted_from_python() -> None:
    for name, (verb, _, file) in USES.items():
        run = frozen(name)
        by_path, by_bytes = (
            run.ask(verb, [file_input]) for file_input in (str(FROZEN / name / file), FileBytes(file, content(name)))
        )
        assert str(by_path[0]).replace(str(FROZEN / name / file), file) == str(by_bytes[0])


@pytest.mark.parametrize(
    "value", ["/etc/passwd", str(FROZEN / "captioning" / "0.png"), ["0.png"], 3, {"name": "0.png"}, {"path": "0.png"}]
)
def test_a_path_is_rejected_even_if_the_file_exists(value: Any, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FROZEN / "captioning")
    service = serve("captioning")
    for body in ({"picture": value}, {"text": value}, {"texts": [value]}, {"texts": [{"picture": value}]}):
        response = ask(service, "/caption", body)
        assert response.status_code == 400 and len(response.json()["error"]) < 400
        assert "data" in response.json()["error"] and "root:" not in response.text
        if not isinstance(value, dict):
            assert 'expected {"data": BASE64, "name": NAME}, found ' in response.json()["error"]
            assert "; send the bytes of the file, not a path" in response.json()["error"]


def test_a_name_is_only_a_name(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FROZEN / "captioning")
    service = serve("captioning")
    response = ask(service, "/caption", {"picture": encoded(content("captioning"), "../../1.png")})
    assert response.json()["answers"][0]["picture"] == "1.png"
    # A file of this name exists in the working directory.
    broken = ask(service, "/caption", {"picture": encoded(b"no picture", "0.png")})
    assert broken.status_code == 400 and "0.png: this is not a picture in a known format" in broken.json()["error"]


def wav(frames: int, claimed: int | None = None) -> bytes:
    size = 2 * (frames if claimed is None else claimed)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 4000, 8000, 2, 16)
    return (
        b"RIFF" + struct.pack("<I", 36 + size) + b"WAVE" + form + b"data" + struct.pack("<I", size) + bytes(2 * frames)
    )


def bomb() -> bytes:
    """A picture of few bytes whose header gives a width and height of 60,000 pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    plain = png(np.zeros((1, 1, 3), np.uint8))
    return plain[:12] + header + struct.pack(">I", zlib.crc32(header)) + plain[33:]


BROKEN: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("captioning", b"", "the file is empty; use a picture file"),
    "text": ("captioning", b"hello, world", "this is not a picture in a known format"),
    "cut off": ("captioning", content("captioning")[:-30], "the picture is damaged or truncated"),
    "a sound": ("captioning", wav(400), "this is not a picture in a known format"),
    "a bomb": (
        "captioning",
        png(np.zeros((1, 1, 3), np.uint8)).replace(struct.pack(">II", 1, 1), struct.pack(">II", 60000, 60000)),
        "damaged",
    ),
    "a picture": ("transcription", content("captioning"), "this is not a sound file in a known format"),
    "an empty sound": ("transcription", wav(0), "the sound has no samples"),
    "a short sound": ("transcription", wav(100, 4000), "the file is truncated"),
    "too long a sound": (
        "transcription",
        wav(4000 * 900),
        "frames, but at most 10,000 are read here; scale it down, or cut it",
    ),
    "a pickle": ("captioning", b"\x80\x04\x95\x10", "this is not a picture in a known format"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_unreadable_files_are_rejected_in_one_sentence(case: str, serve: Serve) -> None:
    name, data, why = BROKEN[case]
    verb, field, file = USES[name]
    service = serve(name)
    response = ask(service, f"/{verb}", {field: encoded(data, "mine.bin")})
    assert response.status_code == 400 and why in response.json()["error"] and "mine.bin" in response.json()["error"], (
        response.text
    )
    assert (
        "Traceback" not in response.text
        and ask(service, f"/{verb}", {field: encoded(content(name), file)}).status_code == 200
    )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, 'give "picture", or several in "texts"'),
    (
        {"picture": {"data": "%%%"}},
        "picture 1: data is not base64 (letters, digits, +, /, and = at the end); encode the file's bytes",
    ),
    ({"picture": {"data": "é"}}, "picture 1: data is not base64"),
    ({"picture": {"data": 3}}, "data takes"),
    ({"picture": {"data": "", "kind": "png"}}, "kind"),
    ({"picture": {"data": "", "name": 5}}, "name takes"),
    ({"picture": {"data": "", "name": "x" * 300}}, "name"),
    ({"texts": [{"data": ""}] * 33}, "texts takes 1 to 32 items in a request, not 33"),
    ({"texts": [encoded(content("captioning")), {"data": "AAAA"}]}, "picture 2: this is not a picture"),
]


@pytest.mark.parametrize(("body", "why"), WRONG, ids=range(len(WRONG)))
def test_invalid_fields_are_named(body: dict[str, Any], why: str, serve: Serve) -> None:
    response = ask(serve("captioning"), "/caption", body)
    assert response.status_code == 400 and why in response.json()["error"], response.text


def test_a_file_may_be_larger_than_a_text_up_to_a_limit(serve: Serve) -> None:
    service = serve("captioning")
    assert service.most_bytes == MOST_BODY > 4 * MOST_FILE_BYTES / 3
    guard = Guard(service.app(), most_bytes=service.most_bytes)
    pixels = np.random.default_rng(0).integers(0, 256, (700, 700, 3)).astype(np.uint8)
    large, larger = encoded(png(pixels)), encoded(bytes(MOST_FILE_BYTES + 1))
    assert len(large["data"]) > MOST_BYTES
    actual, two, three = ask_all(
        guard, [("/caption", {"picture": each}) for each in (large, larger, {"data": "A" * MOST_BODY})]
    )
    assert actual.status_code == 200
    assert (
        two.status_code == 400
        and "16,000,001 bytes, but at most 16,000,000 are read; scale it down, or cut it" in two.json()["error"]
    )
    assert three.status_code == 413 and "24,000,000 bytes" in three.json()["error"]
    assert guard.reserved == 0


def test_too_many_large_bodies_at_once_are_rejected_temporarily() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("it was let in")

    guard = Guard(app, most_bytes=MOST_BODY)
    guard.reserved = MOST_LARGE * MOST_BODY - MOST_BYTES
    (response,) = ask_all(guard, [("/caption", {"picture": {"data": "A" * 2 * MOST_BYTES}})])
    assert response.status_code == 503 and "try again" in response.json()["error"]


def test_the_routes_describe_how_to_send_a_file(serve: Serve) -> None:
    service = serve("captioning")
    described = ask(service, "/").json()["paths"]["/caption"]["post"]
    fields = described["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert fields["picture"]["type"] == "object" and fields["picture"]["required"] == ["data"] and "text" not in fields
    assert fields["texts"]["maxItems"] == 32
    assert described["responses"]["413"]["description"] == "more than 24,000,000 bytes"


def test_sent_files_are_not_kept(serve: Serve) -> None:
    service = serve("captioning")
    ask(service, "/caption", {"picture": encoded(content("captioning"))})
    (run,) = service.runs.values()
    assert not run.task.decoded.kept
    with pytest.raises(TypeError):
        hash(FileBytes("a", b""))


def test_a_file_in_memory_is_read_like_a_file_on_disk() -> None:
    name, (_, _, file) = "transcription", USES["transcription"]
    run, path = frozen(name), str(FROZEN / name / file)
    in_memory = FileBytes(file, content(name))
    assert run.task.reader.measured(in_memory).length == run.task.reader.measured(path).length
    assert (run.task.reader.read(in_memory) == run.task.reader.read(path)).all()
    assert repr(in_memory) == f"FileBytes('3.wav', {len(in_memory.data):,} bytes)" and str(in_memory) == "3.wav"
