"""Pictures and sounds on the page, asked without a browser: sent once, looked at by every instrument, and never by a
path."""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.core.errors import UserError
from clew.data.files.file_bytes import FileBytes
from clew.drawing.png import png
from clew.instruments import INSTRUMENTS
from clew.instruments.looking import fitting
from clew.instruments.subjects.subject import subject_of
from clew.runs.loaded import load_run
from clew.serving import held_files
from clew.serving.guard import MOST_BYTES
from clew.serving.held_files import HeldFiles
from clew.serving.inspector import FileRequest, Inspector, LookRequest, StepRequest, UploadRequest
from clew.serving.page import page_app
from clew.serving.sent_files import MOST_BODY
from clew.serving.worker import Worker
from tests.crossing import quickly
from tests.instruments.small_runs import small_run
from tests.serving.test_page import ask

FROZEN = Path(__file__).parents[1] / "runs" / "frozen" / "format-3"
FILES = {"captioning": "0.png", "picture_classification": "3.png", "transcription": "3.wav"}
LONG = ("cost", "ablation")
"""What takes seconds, or more than a file."""


@pytest.fixture(scope="module")
def inspector(folders: dict[str, Path]) -> Inspector:
    return Inspector(
        [load_run(folder, device="cpu") for folder in (*(FROZEN / name / "run" for name in FILES), folders["gpt"])]
    )


@pytest.fixture
def app(inspector: Inspector) -> Iterator[Any]:
    worker = Worker()
    yield page_app(inspector, worker)
    assert worker.close(10.0)


def name_of(inspector: Inspector, task: str) -> str:
    return next(name for name, run in inspector.runs.items() if task in str(run.folder))


def send(inspector: Inspector, task: str, data: bytes | None = None, name: str = "mine") -> dict[str, Any]:
    content = (FROZEN / task / FILES[task]).read_bytes() if data is None else data
    return inspector.upload(
        UploadRequest(runs=(name_of(inspector, task),), data=b64encode(content).decode(), name=name)
    )


@pytest.mark.parametrize("task", quickly(FILES, "captioning", "transcription"))
def test_every_instrument_sees_in_a_file_that_was_sent_what_it_sees_in_one_by_its_path(
    task: str, inspector: Inspector
) -> None:
    run, name = inspector.runs[name_of(inspector, task)], name_of(inspector, task)
    file = send(inspector, task, name=FILES[task])["file"]
    for instrument in fitting(subject_of(run)):
        if "text" not in INSTRUMENTS[instrument].options.model_fields or instrument in LONG:
            continue
        by_path = clew.look(run, instrument, text=str(FROZEN / task / FILES[task]))
        by_file = inspector.view(instrument, LookRequest(runs=(name,), options={"text": file}))
        assert [type(part) for part in by_file.parts] == [type(part) for part in by_path.parts], instrument
        assert by_file.title == by_path.title
    saved = inspector.file("levels", FileRequest(runs=(name,), options={"text": file}, format="svg"))
    assert saved.startswith("<svg")


def test_a_captioner_writes_step_by_step_from_a_file(inspector: Inspector) -> None:
    file = send(inspector, "captioning")["file"]
    found = inspector.step(StepRequest(runs=(name_of(inspector, "captioning"),), text=file))
    assert found["next"]["tokens"][0] == "a"


PATHS = ["0.png", str(FROZEN / "captioning" / "0.png"), "/etc/passwd", "file-0", "../0.png", {"data": ""}, ["0.png"], 3]


@pytest.mark.parametrize("text", PATHS, ids=str)
def test_no_path_is_read(text: Any, inspector: Inspector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FROZEN / "captioning")
    with pytest.raises(UserError, match="the page only uploaded ones"):
        inspector.look("caption", LookRequest(runs=(name_of(inspector, "captioning"),), options={"text": text}))


def test_runs_say_which_files_they_read_and_have_samples_that_can_be_looked_at_at_once(inspector: Inspector) -> None:
    runs = {run["name"]: run for run in inspector.describe()["runs"]}
    media = {
        name_of(inspector, task): media for task, media in zip(FILES, ("picture", "picture", "sound"), strict=True)
    }
    assert {name: run["media"] for name, run in runs.items()} == {**media, "gpt": ""}
    assert runs["gpt"]["samples"] == [] and runs["gpt"]["sample"].startswith("The ball of thread")
    for name in media:
        samples = runs[name]["samples"]
        assert len(samples) == 3 and runs[name]["sample"] == samples[0]["file"]
        assert all(
            inspector.look("levels", LookRequest(runs=(name,), options={"text": each["file"]}))["html"]
            for each in samples
        )
    assert inspector.most_bytes == MOST_BODY and Inspector([small_run("gpt")]).most_bytes == MOST_BYTES


def test_a_file_is_described_and_its_bytes_are_no_page(app: Any, inspector: Inspector) -> None:
    hostile = png(np.zeros((2, 400, 3), np.uint8)) + b"<script>alert(1)</script>"
    body = {"runs": [name_of(inspector, "captioning")], "data": b64encode(hostile).decode(), "name": "<b>.png"}
    sent = ask(app, "/api/files", **body).json()
    assert (
        sent["name"] == "<b>.png"
        and sent["about"] == "400 x 2 pixels"
        and sent["picture"].startswith("data:image/png;base64,")
    )
    found = ask(app, f"/api/files/{sent['file']}").json()
    assert found == {key: value for key, value in sent.items() if key != "seconds"}
    content = ask(app, f"/api/files/{sent['file']}/content")
    assert content.content == hostile and content.headers["content-type"] == "application/octet-stream"
    assert content.headers["content-disposition"] == "attachment"
    sound = send(inspector, "transcription")
    assert sound["plays"] == "audio/wav" and sound["about"] == "0.30 seconds, 4,000 samples per second"


REFUSED = [
    ("captioning", b"no picture", "mine: this is not a picture in a known format"),
    ("captioning", b"", "mine: the file is empty"),
    ("captioning", (FROZEN / "captioning" / "0.png").read_bytes()[:-30], "mine: the picture is damaged or truncated"),
    (
        "transcription",
        (FROZEN / "captioning" / "0.png").read_bytes(),
        "mine: this is not a sound file in a known format",
    ),
    (
        "transcription",
        (FROZEN / "transcription" / "3.wav").read_bytes()[:500],
        "mine: the file is truncated: its header says",
    ),
]


@pytest.mark.parametrize(("task", "data", "why"), REFUSED, ids=range(len(REFUSED)))
def test_a_file_that_cannot_be_read_is_refused_when_it_is_sent(
    task: str, data: bytes, why: str, app: Any, inspector: Inspector
) -> None:
    body = {"runs": [name_of(inspector, task)], "data": b64encode(data).decode(), "name": "mine"}
    found = ask(app, "/api/files", **body)
    assert found.status_code == 422 and why in found.json()["error"]


def test_what_is_wrong_with_a_request_is_said(app: Any, inspector: Inspector) -> None:
    name = name_of(inspector, "captioning")
    asked = [
        ({"runs": ["gpt"], "data": ""}, "gpt reads texts, not files; type a text"),
        ({"runs": [name], "data": "!"}, "data is not base64"),
        ({"runs": [name]}, "data"),
        ({"runs": [name, "gpt"]}, "data"),
    ]
    for body, why in asked:
        found = ask(app, "/api/files", **body)
        assert found.status_code == 422 and why in found.json()["error"], found.text
    for path in ("/api/files/file-0", "/api/files/file-0/content", "/api/files/%2e%2e%2fpage.py"):
        found = ask(app, path)
        assert found.status_code in (404, 422) and set(found.json()) == {"error"}
    mixed = LookRequest(runs=(name, "gpt"), options={"text": send(inspector, "captioning")["file"]})
    with pytest.raises(UserError, match="reads files and .*gpt reads texts; look at them separately"):
        inspector.look("levels", mixed)


def test_the_file_that_was_asked_for_longest_ago_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [FileBytes(f"{level}.png", png(np.full((1, 1, 3), level, np.uint8))) for level in range(4)]
    monkeypatch.setattr(held_files, "MOST_HELD", 3 * len(pictures[0].data))
    held = HeldFiles([(pictures[0], "picture")])
    first, second, third = (held.put(file, "picture")["file"] for file in pictures[1:])
    assert held.get(first) and held.get(second) and held.get(third)
    held.get(first)
    last = held.put(FileBytes("more.png", pictures[0].data), "picture")["file"]
    assert held.get(second) is None and held.get(first) and held.get(last)
    assert held.put(pictures[0], "picture")["file"] in held.samples and held.size <= held_files.MOST_HELD
    with pytest.raises(UserError, match="the server no longer has this file; choose it again"):
        held.find(second)


def test_a_view_of_a_file_is_plain_json(inspector: Inspector) -> None:
    file = send(inspector, "captioning", name="<i>.png")["file"]
    found = inspector.look("caption", LookRequest(runs=(name_of(inspector, "captioning"),), options={"text": file}))
    assert json.loads(json.dumps(found))["facts"]["picture"] == "<i>.png" and "<i>" not in found["html"]
