"""Pictures and sounds on the page, without a browser: uploaded once, usable by every instrument, never read by path."""

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
"""Instruments that are slow, or need more than a file."""


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


def upload(inspector: Inspector, task: str, data: bytes | None = None, name: str = "mine") -> dict[str, Any]:
    content = (FROZEN / task / FILES[task]).read_bytes() if data is None else data
    return inspector.upload(
        UploadRequest(runs=(name_of(inspector, task),), data=b64encode(content).decode(), name=name)
    )


@pytest.mark.parametrize("task", quickly(FILES, "captioning", "transcription"))
def test_every_instrument_treats_an_uploaded_file_like_a_path(task: str, inspector: Inspector) -> None:
    run, name = inspector.runs[name_of(inspector, task)], name_of(inspector, task)
    file = upload(inspector, task, name=FILES[task])["file"]
    for instrument in fitting(subject_of(run)):
        if "text" not in INSTRUMENTS[instrument].options.model_fields or instrument in LONG:
            continue
        by_path = clew.look(run, instrument, text=str(FROZEN / task / FILES[task]))
        by_file = inspector.view(instrument, LookRequest(runs=(name,), options={"text": file}))
        assert [type(part) for part in by_file.parts] == [type(part) for part in by_path.parts], instrument
        assert by_file.title == by_path.title
    saved = inspector.file("levels", FileRequest(runs=(name,), options={"text": file}, format="svg"))
    assert saved.startswith("<svg")


def test_a_captioner_can_be_stepped_through_with_a_file(inspector: Inspector) -> None:
    file = upload(inspector, "captioning")["file"]
    step = inspector.step(StepRequest(runs=(name_of(inspector, "captioning"),), text=file))
    assert step["next"]["tokens"][0] == "a"


PATHS = ["0.png", str(FROZEN / "captioning" / "0.png"), "/etc/passwd", "file-0", "../0.png", {"data": ""}, ["0.png"], 3]


@pytest.mark.parametrize("text", PATHS, ids=str)
def test_no_path_is_read(text: Any, inspector: Inspector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FROZEN / "captioning")
    with pytest.raises(UserError, match="the page only uploaded ones"):
        inspector.look("caption", LookRequest(runs=(name_of(inspector, "captioning"),), options={"text": text}))


def test_runs_describe_their_files_and_offer_samples(inspector: Inspector) -> None:
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


def test_a_file_is_described_and_its_bytes_are_never_served_as_html(app: Any, inspector: Inspector) -> None:
    hostile = png(np.zeros((2, 400, 3), np.uint8)) + b"<script>alert(1)</script>"
    body = {"runs": [name_of(inspector, "captioning")], "data": b64encode(hostile).decode(), "name": "<b>.png"}
    sent = ask(app, "/api/files", **body).json()
    assert (
        sent["name"] == "<b>.png"
        and sent["about"] == "400 x 2 pixels"
        and sent["picture"].startswith("data:image/png;base64,")
    )
    described = ask(app, f"/api/files/{sent['file']}").json()
    assert described == {key: value for key, value in sent.items() if key != "seconds"}
    content = ask(app, f"/api/files/{sent['file']}/content")
    assert content.content == hostile and content.headers["content-type"] == "application/octet-stream"
    assert content.headers["content-disposition"] == "attachment"
    sound = upload(inspector, "transcription")
    assert sound["plays"] == "audio/wav" and sound["about"] == "0.30 seconds, 4,000 samples per second"


INVALID = [
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


@pytest.mark.parametrize(("task", "data", "why"), INVALID, ids=range(len(INVALID)))
def test_an_unreadable_file_is_rejected_on_upload(
    task: str, data: bytes, why: str, app: Any, inspector: Inspector
) -> None:
    body = {"runs": [name_of(inspector, task)], "data": b64encode(data).decode(), "name": "mine"}
    response = ask(app, "/api/files", **body)
    assert response.status_code == 422 and why in response.json()["error"]


def test_invalid_requests_are_rejected_with_the_reason(app: Any, inspector: Inspector) -> None:
    name = name_of(inspector, "captioning")
    requests = [
        ({"runs": ["gpt"], "data": ""}, "gpt reads texts, not files; type a text"),
        ({"runs": [name], "data": "!"}, "data is not base64"),
        ({"runs": [name]}, "data"),
        ({"runs": [name, "gpt"]}, "data"),
    ]
    for body, why in requests:
        response = ask(app, "/api/files", **body)
        assert response.status_code == 422 and why in response.json()["error"], response.text
    for path in ("/api/files/file-0", "/api/files/file-0/content", "/api/files/%2e%2e%2fpage.py"):
        response = ask(app, path)
        assert response.status_code in (404, 422) and set(response.json()) == {"error"}
    mixed = LookRequest(runs=(name, "gpt"), options={"text": upload(inspector, "captioning")["file"]})
    with pytest.raises(UserError, match="reads files and .*gpt reads texts; look at them separately"):
        inspector.look("levels", mixed)


def test_the_least_recently_used_file_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [FileBytes(f"{level}.png", png(np.full((1, 1, 3), level, np.uint8))) for level in range(4)]
    monkeypatch.setattr(held_files, "MOST_HELD", 3 * len(pictures[0].data))
    files = HeldFiles([(pictures[0], "picture")])
    first, second, third = (files.put(file, "picture")["file"] for file in pictures[1:])
    assert files.get(first) and files.get(second) and files.get(third)
    files.get(first)
    last = files.put(FileBytes("more.png", pictures[0].data), "picture")["file"]
    assert files.get(second) is None and files.get(first) and files.get(last)
    assert files.put(pictures[0], "picture")["file"] in files.samples and files.size <= held_files.MOST_HELD
    with pytest.raises(UserError, match="the server no longer has this file; choose it again"):
        files.find(second)


def test_a_view_of_a_file_is_plain_json(inspector: Inspector) -> None:
    file = upload(inspector, "captioning", name="<i>.png")["file"]
    view = inspector.look("caption", LookRequest(runs=(name_of(inspector, "captioning"),), options={"text": file}))
    assert json.loads(json.dumps(view))["facts"]["picture"] == "<i>.png" and "<i>" not in view["html"]
