"""`clew serve` as a process that answers over a socket and ends on a signal. Other tests are in tests/serving."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Clew
from tests.runs.small import lstm_settings


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--batch", "0"], "--batch (0) must be at least 1"),
        (["--queue", "-1"], "--queue (-1) must be at least 1"),
        (["--longest", "0"], "--longest (0) must be at least 1"),
        (["--wait", "nan"], "--wait (nan) must be at least 0"),
        (["--wait", "5000"], "--wait (5000) is in milliseconds and must be at most 1000"),
        (["--timeout", "0"], "--timeout (0) is in seconds and must be above 0 and at most 3600"),
        (["--host", "0.0.0.0"], "add --allow-host NAME, the host name that they use"),
        (["--allow-host", "http://x"], "--allow-host takes a name such as hub.example.org"),
        (
            ["--host", "203.0.113.7", "--allow-host", "x.org"],
            "'203.0.113.7' is not an address of this machine"
            "; use 127.0.0.1 for local access, or 0.0.0.0 for all its addresses",
        ),
        (["--port", "70000"], "a port must be between 0 and 65535"),
        ([], "runs/nothing is not a run directory"),
    ],
)
def test_mistakes_are_reported_in_one_line(clew: Clew, arguments: list[str], sentence: str) -> None:
    result = clew("serve", "runs/nothing", *arguments)
    assert result.status == 2 and sentence in result.err and result.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_answers_and_ends_on_a_signal(clew: Clew, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    assert clew("train", "text-lstm", *lstm_settings(tmp_path), "--out", str(folder)).status == 0
    command = [sys.executable, "-m", "clew", "serve", str(folder), "--port", "0", "--device", "cpu"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    ) as server:
        assert server.stderr is not None
        try:
            first = next(line for line in server.stderr if line.startswith("serving "))
            address = first.split()[2]
            body = json.dumps({"text": "the", "max_new": 3}).encode()
            request = urllib.request.Request(f"{address}/generate", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert len(json.load(answer)["answers"]) == 1
            with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
                assert b'of="training"' in answer.read()
            server.send_signal(number)
            assert server.wait(30) == 128 + number
        finally:
            server.kill()
