"""A process that encodes and decodes for another, which may end it at any time. It is run as a file and knows nothing of clew.

The first line of its input is a tokenizer's JSON, in JSON; every other one asks: ["encode", [texts]], ["normalize", [texts]] or
["decode", [ids]]. A line answers each: {"found": [...]}, or {"error": "..."}.
"""

import json
import sys
from typing import Any

import tokenizers


def main() -> None:
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
    }
    for line in sys.stdin:
        method, given = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"found": [methods[method](each) for each in given]}
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
