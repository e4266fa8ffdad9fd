"""Limits the time and the memory that a tokenizer may take. Knows no tokenizer but its JSON.

A published tokenizer.json may contain any regular expression, and the library matches it by backtracking: `(a+)+$`
takes 2^n steps on n times `a`. The library gives up on one match after ten million steps, a fifth of a second, with a
panic. But a match may start at every character of a text, so 10,000 characters can take minutes, during which the
library holds Python's lock and no other thread runs.

Alternatives fail: cutting texts into pieces changes the tokens at every cut; probing a pattern on import finds only the
attacks that the probe knows; and a thread cannot be stopped. A process can. So a server encodes texts in a separate
process if a pattern is more than one class of characters, repeated or not, which takes one step per character. A
process that exceeds its time is ended, and the next text starts another. This limits every pattern and every text, does
not change the tokens, and costs nothing for ordinary tokenizers; an encoding in the process takes about 0.1 ms longer.

The same applies to parts that take superlinear time without a pattern. WordPiece tries every end of a word at every
place, which is cubic in the longest word that it reads, a number in its file: a word of 10,000 letters takes 80
seconds. Unigram tries every piece at every place. And repeated replacements by longer texts fill any memory.
"""

import json
import math
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

ONE_CLASS = re.compile(
    r"(\[(?:[^\[\]\\]|\\.)+\]|\\[pP]\{\w+\}|\\.|[^\\()\[\]|*+?{}^$])([+*]|\{\d{1,3}(,\d{0,3})?\})?", re.DOTALL
)
"""A character or a class of characters, optionally with a repetition."""
LONGEST_WORD, LONGEST_PIECE = 200, 100
"""The limits, in characters, of a word that WordPiece cuts and of a piece of Unigram, up to which 10,000 of them take a
fraction of a second. Published tokenizers have 100 and about 16."""
MOST_GROWTH = 100
"""The largest factor by which a text may grow before it is cut; a newline written out as a token has seven
characters."""


class TokenizerFault(UserError):
    """A tokenizer failed on a text, or took too long. The tokenizer is at fault, not the text."""


def slow_parts(description: Any) -> list[str]:
    """The parts of a tokenizer's JSON whose time may grow faster than the text, in words: patterns, replacements,
    models of long words."""
    patterns = [f"pattern {named(pattern)}" for pattern in slow_patterns(description)]
    factor = growth(description)
    growing = [f"replacement, which may make a text {factor:,.0f} times as long," for _ in range(factor > MOST_GROWTH)]
    return [*patterns, *growing, *slow_models(description.get("model", {}))]


def slow_models(model: Any) -> list[str]:
    longest_word = model.get("max_input_chars_per_word")
    if isinstance(longest_word, int) and longest_word > LONGEST_WORD:
        return [f"limit of {longest_word:,} characters a word"]
    pieces = model.get("vocab") if model.get("type") == "Unigram" else None
    longest_piece = max((len(piece) for piece, _ in pieces), default=0) if isinstance(pieces, list) else 0
    return [f"piece of {longest_piece:,} characters"] if longest_piece > LONGEST_PIECE else []


def growth(description: Any) -> float:
    """The factor by which replacements may lengthen a text, each applied to the result of the one before."""
    if isinstance(description, list):
        return math.prod(map(growth, description))
    if not isinstance(description, dict):
        return 1.0
    pattern, content = (
        description.get("pattern"),
        description.get("content") if description.get("type") == "Replace" else None,
    )
    replaced = pattern.get("String") if isinstance(pattern, dict) else None
    factor = (
        len(content) / max(len(replaced) if isinstance(replaced, str) else 1, 1) if isinstance(content, str) else 1.0
    )
    return max(factor, 1.0) * growth(
        [value for name, value in description.items() if name not in ("model", "added_tokens")]
    )


def slow_patterns(description: Any) -> list[str]:
    """The patterns in a tokenizer's JSON whose matching time is not known to be bounded."""
    return [pattern for pattern in patterns_in(description) if not ONE_CLASS.fullmatch(pattern)]


def patterns_in(description: Any) -> Iterator[str]:
    if isinstance(description, dict):
        for name, value in description.items():
            if name == "Regex" and isinstance(value, str):
                yield value
            elif name != "model":
                yield from patterns_in(value)
    elif isinstance(description, list):
        for element in description:
            yield from patterns_in(element)


def is_panic(error: BaseException) -> bool:
    """Whether an error is a panic of a Rust library. Its class cannot be imported, and is not an Exception."""
    return type(error).__name__ == "PanicException"


class Apart:
    """A tokenizer in its own process. `ask(method, arguments)` answers within `seconds`, or raises an error that names
    the part to blame."""

    def __init__(self, tokenizer: str, blame: str, seconds: float):
        self.tokenizer = tokenizer
        self.blame = blame
        self.seconds = seconds
        self.lock = threading.Lock()
        self.process: subprocess.Popen[str] | None = None
        self.ending: weakref.finalize[Any, Any] | None = None

    def ask(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        with self.lock:
            process, is_late = self._started(), threading.Event()

            def end_it() -> None:
                is_late.set()
                process.kill()

            ending = threading.Timer(self.seconds, end_it)
            ending.start()
            try:
                self._write(process, [method, list(arguments)])
                line = process.stdout.readline()  # type: ignore[union-attr]
            except OSError:  # the process was ended during the write
                line = ""
            finally:
                ending.cancel()
            if is_late.is_set() or not line.endswith("\n"):
                self.close()
                what = f"takes longer than {self.seconds:g} seconds" if is_late.is_set() else "takes too much memory"
                raise TokenizerFault(f"the tokenizer's {self.blame} {what} on this text; {REMEDY}")
        answer = json.loads(line)
        if "error" in answer:
            raise TokenizerFault(f"the tokenizer's {self.blame} gives up on this text ({answer['error']}); {REMEDY}")
        results: list[Any] = answer["found"]
        return results

    def close(self) -> None:
        """End the process; the next text starts another."""
        if self.ending is not None:
            self.ending()
        self.process = None

    def _started(self) -> "subprocess.Popen[str]":
        """The running process. Starting one takes as long as the vocabulary is large, and does not count as time of a
        text."""
        if self.process is None or self.process.poll() is not None:
            self.close()
            command = [sys.executable, "-P", str(Path(__file__).with_name("encoding_process.py"))]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.process = subprocess.Popen(command, text=True, encoding="ascii", **pipes)
            self.ending = weakref.finalize(self, end, self.process)
            try:
                self._write(self.process, self.tokenizer)
                self._write(self.process, ["encode", [""]])
                has_begun = bool(self.process.stdout.readline())  # type: ignore[union-attr]
            except OSError:
                has_begun = False
            if not has_begun:
                self.close()
                raise TokenizerFault(
                    "the process that encodes the texts of an imported tokenizer ended at its start; check whether"
                    f" `{sys.executable} -c 'import tokenizers'` works here"
                )
        return self.process

    def _write(self, process: "subprocess.Popen[str]", value: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(value) + "\n")
        process.stdin.flush()


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # closing may flush a request that nobody reads
            pipe.close()  # type: ignore[union-attr]
    process.wait()


REMEDY = "ask with another text, or import the model again with a tokenizer without this"
