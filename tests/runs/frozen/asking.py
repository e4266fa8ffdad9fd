"""Repeat the recorded questions to a run, and compare its answers; numbers may differ by a tolerance."""

import io
import json
import math
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[\d,]*\d)?(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)")
DIGITS = 4
"""Significant digits of recorded numbers."""
RELATIVE, ABSOLUTE = 1e-3, 1e-5


@dataclass(frozen=True)
class Printed:
    """The output of a command, and its exit code."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[Any]:
        """The JSON object of every line."""
        assert self.status == 0, self.err
        return [json.loads(line) for line in self.out.splitlines()]


def command(*arguments: str, stdin: str = "") -> Printed:
    """Run `clew` with these arguments in this process."""
    from clew.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "stdin", io.StringIO(stdin)), redirect_stdout(out), redirect_stderr(err):
        try:
            status = main(list(arguments))
        except SystemExit as end:
            status = int(end.code or 0)
    return Printed(status, out.getvalue(), err.getvalue())


def ask(run: Any, method: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    """Call a method of a loaded run, and return its answer as JSON. Inner lists are passed as tuples of texts."""
    call_arguments = [
        [tuple(text) if isinstance(text, list) else text for text in each] if isinstance(each, list) else each
        for each in arguments
    ]
    answer = getattr(run, method)(*call_arguments, **options)
    return [answer_as_json(each) for each in answer] if isinstance(answer, list) else answer_as_json(answer)


def answer_as_json(answer: Any) -> Any:
    """An answer as JSON: the public attributes of its class."""
    if answer is None or isinstance(answer, str):
        return answer
    if isinstance(answer, list):
        return [answer_as_json(each) for each in answer]
    if hasattr(answer, "tolist"):
        return answer.tolist()
    fields = {name: plain(getattr(answer, name)) for name in ATTRIBUTES[type(answer).__name__]}
    return fields if type(answer).__str__ is object.__str__ else {"str": str(answer), **fields}


ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "Generated": ("text", "tokens", "log_prob", "score"),
    "Scored": ("tokens", "log_probs"),
    "Chosen": ("label", "labels", "probabilities", "log_probs"),
    "Translation": ("text", "tokens", "log_prob", "score"),
    "ScoredPair": ("tokens", "log_probs", "log_prob"),
    "Alignment": ("weights",),
    "Parse": ("log_prob", "score"),
    "TaggedText": ("words", "spans"),
    "TaggedWord": ("word", "tag", "probability", "start", "stop"),
    "TaggedSpan": ("label", "text", "probability", "start", "stop"),
    "Classified": ("labels", "probabilities", "number"),
    "ClassifiedTree": ("labels", "probabilities", "nodes"),
    "Filled": ("masks", "follows"),
    "Guess": ("token", "probability", "text"),
    "AnsweredQuestion": ("text", "probability", "no_answer", "n_best"),
    "Transcription": ("text", "log_prob"),
    "Caption": ("text", "tokens", "log_prob", "score"),
    "WrittenParagraph": ("sentences", "log_prob"),
    "JudgedInput": ("labels", "probabilities", "number"),
    "LabelledPicture": ("size", "labels", "probabilities"),
    "AnswerSpan": ("text", "start", "stop", "probability"),
}
"""The recorded attributes of each kind of answer; `str()` is recorded too if the class defines it."""


def plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if type(value).__name__ in ATTRIBUTES:
        return {name: plain(getattr(value, name)) for name in ATTRIBUTES[type(value).__name__]}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def rounded(value: Any) -> Any:
    """JSON with its numbers rounded to a few significant digits, so that a recording is short."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else value
    return value


def differences(
    recorded: Any, actual: Any, place: str = "", relative: float = RELATIVE, absolute: float = ABSOLUTE
) -> Iterator[str]:
    """The places where two JSON values differ. Names that were not recorded are ignored; recorded ones are required."""
    if isinstance(recorded, dict) and isinstance(actual, dict):
        for name, value in recorded.items():
            if name not in actual:
                yield f"{place}.{name} is missing"
            else:
                yield from differences(value, actual[name], f"{place}.{name}", relative, absolute)
    elif isinstance(recorded, list) and isinstance(actual, list):
        if len(recorded) != len(actual):
            yield f"{place}: {len(recorded)} were recorded, there are {len(actual)}"
        for number, pair in enumerate(zip(recorded, actual, strict=False)):
            yield from differences(*pair, f"{place}[{number}]", relative, absolute)
    elif isinstance(recorded, float) and is_number(actual):
        if not math.isclose(recorded, actual, rel_tol=relative, abs_tol=absolute):
            yield f"{place}: {recorded} was recorded, {actual} is there"
    elif isinstance(recorded, str) and isinstance(actual, str):
        if not texts_agree(recorded, actual, relative):
            yield f"{place}: {recorded!r} was recorded, {actual!r} is there"
    elif recorded != actual:
        yield f"{place}: {recorded!r} was recorded, {actual!r} is there"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts_agree(recorded: str, actual: str, relative: float = RELATIVE) -> bool:
    """Whether two texts are equal except for numbers, which may differ by the tolerance or in their last digit."""
    if recorded == actual:
        return True
    if NUMBER.split(recorded) != NUMBER.split(actual):
        return False
    return all(
        numbers_agree(*pair, relative) for pair in zip(NUMBER.findall(recorded), NUMBER.findall(actual), strict=True)
    )


def numbers_agree(one: str, other: str, relative: float) -> bool:
    last = max(unit_of(one), unit_of(other))
    one, other = one.replace(",", ""), other.replace(",", "")
    return math.isclose(float(one), float(other), rel_tol=relative, abs_tol=1.01 * last)


def unit_of(number: str) -> float:
    """The unit of the last digit of a decimal number; 0 for a whole number, which is a count."""
    mantissa, _, exponent = number.partition("e")
    _, point, digits = mantissa.partition(".")
    return 10.0 ** (int(exponent or 0) - len(digits)) if point or exponent else 0.0
