"""A bound on the time that a tokenizer's regular expressions take. Knows no tokenizer but its JSON.

A published tokenizer.json may hold any pattern, and the library matches it by backtracking: `(a+)+$` takes 2^n steps on n times `a`. The
library gives up on one match after ten million steps, a fifth of a second, with a panic; but a text has as many places where a match may
begin, so that 10,000 characters can take minutes, in which the library holds Python's lock and nothing else runs, no other thread either.

What would not do: cutting texts into pieces changes the tokens at every cut; a probe of the pattern when it is imported finds the
attacks that it was written for, since the worst text of a pattern is as hard to find as the pattern is to analyse; a thread cannot be
stopped. A process can. So where a pattern is anything but one class of characters, repeated or not, which needs one step a character, a
server has its texts encoded by a process of its own, which is ended when it takes longer than it may, and started again for the next
text. The bound holds for every pattern and every text, tokens stay as they are, and ordinary tokenizers pay nothing. An encoding
costs about 0.1 ms more.
"""

import json
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, named

ONE_CLASS = re.compile(r"(\[(?:[^\[\]\\]|\\.)+\]|\\[pP]\{\w+\}|\\.|[^\\()\[\]|*+?{}^$])([+*]|\{\d{1,3}(,\d{0,3})?\})?", re.DOTALL)
"""A class of characters or a character, and how often it stands there."""


class TokenizerFault(UserError):
    """A tokenizer broke down on a text, or took too long: the fault is its pattern's."""


def slow_patterns(description: Any) -> list[str]:
    """The patterns in a tokenizer's JSON whose time is not known to be bounded."""
    return [pattern for pattern in patterns_in(description) if not ONE_CLASS.fullmatch(pattern)]


def patterns_in(description: Any) -> Iterator[str]:
    if isinstance(description, dict):
        for name, value in description.items():
            if name == "Regex" and isinstance(value, str):
                yield value
            elif name != "model":
                yield from patterns_in(value)
    elif isinstance(description, list):
        for each in description:
            yield from patterns_in(each)


def is_panic(error: BaseException) -> bool:
    """Whether an error is that of a library in Rust, which has no name that could be imported, and is no Exception."""
    return type(error).__name__ == "PanicException"


class Apart:
    """A tokenizer in a process of its own: `ask(method, given)` is answered within `seconds`, or refused."""

    def __init__(self, tokenizer: str, patterns: Sequence[str], seconds: float):
        self.tokenizer = tokenizer
        self.patterns = patterns
        self.seconds = seconds
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None
        self.ending: weakref.finalize[Any, Any] | None = None

    def ask(self, method: str, given: Sequence[Any]) -> list[Any]:
        with self.lock:
            process = self._started()
            ending = threading.Timer(self.seconds, process.kill)
            ending.start()
            try:
                self._write(process, [method, list(given)])
                line = process.stdout.readline()  # type: ignore[union-attr]
            except OSError:  # it was ended while it was written to
                line = ""
            finally:
                ending.cancel()
            if not line.endswith("\n"):
                self.close()
                raise TokenizerFault(f"{self._blame()} takes longer than {self.seconds:g} seconds on this text; {REMEDY}")
        answer = json.loads(line)
        if "error" in answer:
            raise TokenizerFault(f"{self._blame()} gives up on this text ({answer['error']}); {REMEDY}")
        found: list[Any] = answer["found"]
        return found

    def close(self) -> None:
        """Ends the process; the next text starts another."""
        if self.ending is not None:
            self.ending()
        self.process = None

    def _started(self) -> "subprocess.Popen[str]":
        """A process that has read the tokenizer: that takes as long as the vocabulary is large, and is not counted."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            command = [sys.executable, "-P", str(Path(__file__).with_name("encoding_process.py"))]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, encoding="ascii", **pipes)
            self.ending = weakref.finalize(self, end, self.process)
            self._write(self.process, self.tokenizer)
            self._write(self.process, ["encode", [""]])
            self.process.stdout.readline()  # type: ignore[union-attr]
        return self.process

    def _write(self, process: "subprocess.Popen[str]", value: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(value) + "\n")
        process.stdin.flush()

    def _blame(self) -> str:
        return f"the tokenizer's pattern {named(self.patterns[0])}"


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what it was not given any more is dropped
            pipe.close()  # type: ignore[union-attr]
    process.wait()


REMEDY = "ask with another text, or import the model again with a tokenizer whose pattern does not go back over a text"
