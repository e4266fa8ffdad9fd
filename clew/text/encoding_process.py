"""A process that encodes and decodes text for another process, which may end it at any time. Run as a file; knows
nothing about clew.

The first line of its input is a tokenizer's JSON, as a JSON string. Every other line is a request: ["encode", [texts]],
["normalize", [texts]], ["decode", [ids]] or ["join", [tokens]]. Each is answered by a line: {"found": [...]}, or
{"error": "..."}.
"""

import json
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import tokenizers

MOST_MEMORY = 4 * 2**30
"""The limit of the address space in bytes; a large vocabulary and a long text take a fraction of it."""


def limit_memory() -> None:
    """Limit the memory, if the system can: a text that grows without end then ends only this process."""
    with suppress(ImportError, ValueError, OSError):
        resource = import_module("resource")
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def main() -> None:
    limit_memory()
    tokenizer = tokenizers.Tokenizer.from_str(json.loads(sys.stdin.readline()))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.encode_special_tokens = True

    def encoded(text: str) -> tuple[list[int], list[tuple[int, int]]]:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    methods = {
        "encode": encoded,
        "normalize": lambda text: text if tokenizer.normalizer is None else tokenizer.normalizer.normalize_str(text),
        "decode": lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
        "join": lambda tokens: tokenizer.decoder.decode(tokens),
    }
    for line in sys.stdin:
        method, values = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"found": [methods[method](value) for value in values]}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
