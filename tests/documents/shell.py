"""Runs the commands of a document: clew in this process, Python in one namespace per document, servers in processes."""

import base64
import glob
import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import clew
from clew.cli.main import main
from tests.documents.reading import Command, Line, parse_line
from tests.documents.small import short_settings, short_words
from tests.warm import Command as Process

SERVERS = ("serve", "inspect")
PORT = 8765
SHORTER = {
    "30_000": "2_000",
    "characters=200000": "characters=2000",
    "[64, 128, 256, 512], [16, 32, 64]": "[16, 32], [8, 16]",
}
"""Sizes in snippets, and their replacements in a short run."""


def named_fields(keywords: Mapping[str, Any]) -> set[str]:
    """The fields that keywords of `clew.train` set: device="cpu", model__dim=64, training={"steps": 9}."""
    sections = {f"{name}.{field}" for name, value in keywords.items() if isinstance(value, dict) for field in value}
    return sections | {name.replace("__", ".") for name in keywords}


class Failed(AssertionError):
    """A command of a document that failed."""


class Typist:
    """Runs one document in a folder. `stock` trains a run that the document assumes to exist."""

    def __init__(self, folder: Path, stock: Callable[[str], Path]):
        self.folder = folder
        self.stock = stock
        self.stocked: set[str] = set()
        self.names: dict[str, Any] = {"__name__": "document"}
        self.server: Process | None = None
        self.port = PORT

    def type(self, line: Line) -> str:
        """Run a line; return the standard output of its last command."""
        output = ""
        if "$(base64 -w 0 " in line.text:
            line = parse_line(
                re.sub(
                    r"\$\(base64 -w 0 (\S+)\)",
                    lambda file: base64.b64encode(Path(file[1]).read_bytes()).decode(),
                    line.text,
                )
            )
        for command in line.commands:
            stdin = Path(command.source).read_text(encoding="utf-8") if command.source is not None else output
            output = self.run(command, stdin, line.text)
            if command.target is not None:
                Path(command.target).write_text(output, encoding="utf-8")
        return output

    def run(self, command: Command, stdin: str, text: str) -> str:
        program, *words = command.words
        words = [name for word in words for name in (sorted(glob.glob(word)) if word.startswith("*.") else [word])]
        if program == "echo":
            return " ".join(words) + "\n"
        if program == "curl":
            return self.curl(words)
        if program == "torchrun":  # may repeat a training of an earlier command
            shutil.rmtree(f"runs/{words[words.index('train') + 1]}", ignore_errors=True)
            words = [word for word in words[words.index("clew") + 1 :] if not word.startswith("training.parallel=")]
        elif program != "clew":
            raise Failed(f"{text}: no way to run {program} here")
        return self.clew(words, stdin, text)

    def clew(self, words: Sequence[str], stdin: str, text: str) -> str:
        verb = words[0]
        words = self.shortened(words) if verb == "train" else short_words(words)
        self.bring_runs(words)
        if verb in SERVERS:
            self.serve(words)
            return ""
        out, err = io.StringIO(), io.StringIO()
        before, sys.stdin = sys.stdin, io.StringIO(stdin)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                try:
                    status = main(list(words))
                except SystemExit as end:
                    status = int(end.code or 0)
        finally:
            sys.stdin = before
        if status != 0:
            raise Failed(f"{text}\n(as: clew {' '.join(words)})\nended with {status}: {err.getvalue().strip()[-1500:]}")
        return out.getvalue()

    def shortened(self, words: Sequence[str]) -> list[str]:
        """The arguments of a training in its short form."""
        options = [number for number, word in enumerate(words) if word.startswith("--")]
        valued = {number + 1 for number in options if words[number] in ("--out", "--code")}
        plain = [word for number, word in enumerate(words) if number not in valued and not word.startswith("--")]
        rest = [word for number, word in enumerate(words) if number in valued or word.startswith("--")]
        self.bring_runs(plain[2:])
        folder = f"runs/{plain[1]}"
        if "--out" not in rest and folder in self.stocked:  # the document trains this run itself
            shutil.rmtree(folder)
            self.stocked.remove(folder)
        return ["train", plain[1], *short_settings(plain[1], plain[2:]), "device=cpu", *rest]

    def bring_runs(self, words: Sequence[str]) -> None:
        """Copy the runs that a command needs and no earlier command has trained."""
        out = words[words.index("--out") + 1] if "--out" in words else None
        for word in words:
            for name in re.findall(r"(?:^|=)runs/([\w-]+)$", word):
                folder = f"runs/{name}"
                if folder != out and not os.path.exists(folder):
                    shutil.copytree(self.stock(name), folder)
                    self.stocked.add(folder)

    def python(self, code: str) -> str:
        """Run a snippet with the runs that it loads, and with short trainings."""
        for match in re.finditer(r'load\("(runs/[\w-]+)"', code):
            if f'"{match[1]}"' not in code[: match.start()]:  # otherwise the snippet trains it
                self.bring_runs([match[1]])
        for whole, short in SHORTER.items():
            code = code.replace(whole, short)
        code = code.replace(f":{PORT}", f":{self.port}")
        train = clew.train

        def short(recipe: str, *settings: str, **more: Any) -> Any:
            more["quiet"] = True
            named = named_fields(more)
            added = [
                setting
                for setting in (*short_settings(recipe, settings), "device=cpu")
                if setting.partition("=")[0] not in named
            ]
            return train(recipe, *added, **more)

        out = io.StringIO()
        try:
            clew.train = short  # type: ignore[assignment]
            with redirect_stdout(out), redirect_stderr(io.StringIO()):
                exec(compile(code, "snippet", "exec"), self.names)
        finally:
            clew.train = train
        return out.getvalue()

    def serve(self, words: Sequence[str]) -> None:
        """Start a server in a process and wait until it listens; it runs until the next server or the end."""
        self.stop()
        server_folder = Path(tempfile.mkdtemp(dir=self.folder))
        with_port = [] if "--port" in words else ["--port", "0"]
        runs = [str(self.folder / word) if word.startswith("runs/") else word for word in words]
        no_browser = ["--no-browser"] if words[0] == "inspect" and "--no-browser" not in words else []
        self.server = Process([*runs, *with_port, *no_browser], server_folder)
        deadline = time.monotonic() + 60
        log = server_folder / "standard-err"
        while (match := re.search(r"http://\S+:(\d+)", log.read_text() if log.exists() else "")) is None:
            if not self.server.process.is_alive() or time.monotonic() > deadline:
                raise Failed(f"clew {' '.join(words)} serves nothing: {log.read_text() if log.exists() else ''}")
            time.sleep(0.05)
        self.port = int(match[1])

    def curl(self, words: Sequence[str]) -> str:
        headers = dict(words[n + 1].split(": ", 1) for n, word in enumerate(words) if word == "-H")
        body = next((words[n + 1] for n, word in enumerate(words) if word == "-d"), None)
        if body is not None and body.startswith("@"):
            body = Path(body[1:]).read_text(encoding="utf-8")
        address = next(word for word in words if word.startswith("http://")).replace(f":{PORT}", f":{self.port}")
        request = urllib.request.Request(address, None if body is None else body.encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def stop(self) -> None:
        if self.server is not None and self.server.process.is_alive():
            os.kill(self.server.process.pid, signal.SIGTERM)
            self.server.process.join(20)
            if self.server.process.is_alive():
                self.server.process.kill()
        self.server, self.port = None, PORT
