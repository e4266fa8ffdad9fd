"""Parses a request into rows and options of one of the run's uses. Knows no server and no task.

    {"text": ...}       one row by its fields; the first field may always be called `text`
    {"texts": [...]}    several rows, each its first field, a list of fields, or an object; other fields apply to all

together with the use's options. If the use reads files, the first field is a file, {"data": BASE64, "name": NAME}, and
never a path. Rows of several requests with equal options may be answered by one call.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from clew.core.errors import UserError, counted, shown
from clew.data.files.file_bytes import FileBytes
from clew.runs.asking import answer_rows, find_use, own_values, read_options, read_row
from clew.runs.loaded import Run
from clew.serving.sent_files import read_sent_file
from clew.tasks.use import Objects, Use
from clew.text.tokenizer import check_is_text

MOST_TEXTS, MOST_ROWS = 256, 1024
MOST_FILES = 32
"""The maximum number of files in a request; each is decoded, however small."""
LONGEST_TEXT = 10_000
"""The default limit of a text in characters, and of a file in positions."""
LIMITS = {"max_new": 4096, "beams": 64, "n_best": 64, "samples": 64}
"""The maximum values in a request; the run's own settings may be larger."""
MOST_WRITTEN = 100_000
"""The maximum number of generated tokens of a request: texts x samples x max_new x beams. The run's own settings may
exceed it for one text."""
CHARACTERS = 4
"""The number of characters read that cost about as much as one generated token."""
BYTES = 256
"""The number of bytes of a file that cost as much as one character."""


@dataclass(frozen=True)
class Call:
    """A valid request."""

    run: Run
    verb: str
    use: Use[Any, Any]
    options: Any
    rows: list[Any]
    is_stream: bool = False
    longest: int = LONGEST_TEXT

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Calls with the same key may be answered together."""
        return str(self.run.folder), self.verb, json.dumps(self.options.model_dump(mode="json"), sort_keys=True)

    @property
    def joins(self) -> bool:
        """Whether its rows can be generated in a running batch."""
        return self.use.joins is not None and self.use.joins.fits(self.options)

    @property
    def samples(self) -> int:
        """The number of rows per text."""
        return getattr(self.options, "samples", 1)

    def size(self, rows: Sequence[Any]) -> float:
        """The maximum work of some of its rows, in generated tokens; characters read are converted."""
        return num_generated(self.use, rows, self.options) + characters_of(rows) / CHARACTERS

    def answer(self, rows: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
        check_places(self.use, self.run.task, rows, self.longest)
        return answer_rows(self.use, [self.run.task], rows, self.options, numbers)

    def objects(self, answers: Sequence[Any]) -> Objects:
        """Return the JSON objects of all answers."""
        numbered = enumerate(zip(self.rows, answers, strict=True), start=1)
        return [
            item for number, (row, answer) in numbered for item in self.use.objects(number, row, answer, self.options)
        ]

    def pieces(self) -> Iterator[str]:
        assert self.use.stream is not None
        pieces = self.use.stream([self.run.task], self.rows[0], self.options, 1)
        if pieces is None:
            raise UserError(
                "stream needs one text, one sample, and method sample or greedy; beam search chooses only at the end"
            )
        return pieces

    @property
    def first_text(self) -> str:
        """The prompt of a streamed answer."""
        return str(next(value for _, value in self.rows[0]))


def call_of(run: Run, verb: str, body: Mapping[str, Any], longest: int = LONGEST_TEXT) -> Call:
    """Parse a request; an invalid one raises a UserError."""
    use = find_use(run, verb)
    option_fields = dict(body)
    is_stream = use.stream is not None and option_fields.pop("stream", False)
    if not isinstance(is_stream, bool):
        raise UserError("stream takes true or false")
    row_names = (*use.row.model_fields, "text", "texts")
    row_fields = {name: option_fields.pop(name) for name in row_names if name in option_fields}
    fields = {name: value for name, value in row_fields.items() if value is not None}
    for name in use.local:
        option_fields.pop(name, None)
    options = read_options(use, run.config, option_fields)
    for name, most in LIMITS.items():
        if name in body and getattr(options, name, 0) > most:
            raise UserError(f"{name} must be at most {most} here, not {getattr(options, name)}")
    rows = rows_of(use.row_type(run.config.data, options), fields, longest, str(run.folder), files=use.names_files)
    samples = getattr(options, "samples", 1)
    if len(rows) * samples > MOST_ROWS:
        raise UserError(
            f"{counted(len(rows), 'text')} with {samples} samples each are more than {MOST_ROWS} rows; send several"
            " requests"
        )
    if is_stream and (len(rows) > 1 or samples > 1):
        raise UserError(
            "stream needs one text, one sample, and method sample or greedy; beam search chooses only at the end"
        )
    rows = [row for row in rows for _ in range(samples)]
    check_work(run, use, rows, options, longest)
    return Call(run, verb, use, options, rows, is_stream, longest)


def check_work(run: Run, use: Use[Any, Any], rows: Sequence[Any], options: Any, longest: int) -> None:
    """Refuse a request that would keep the model busy for minutes."""
    work = num_generated(use, rows, options)
    if work > MOST_WRITTEN and work > (most := most_generated(run, use, rows[0], options)):
        raise UserError(
            f"{counted(len(rows), 'text')} with {counted(beams_of(options), 'beam')} may generate {work:,} tokens, but"
            f" a request may generate at most {most:,} (texts x samples x max_new x beams); ask for less, or send"
            " several requests"
        )
    choices = getattr(options, "choices", None) or ()
    if isinstance(choices, Mapping):
        choices = list(choices.values())
    elif isinstance(choices, str):
        choices = choices.split(",")
    template = len(getattr(options, "template", None) or "")
    read = characters_of(rows) + len(rows) * (template + sum(template + len(choice) for choice in choices))
    if read > MOST_TEXTS * longest:
        raise UserError(
            f"{counted(len(rows), 'text')} with {counted(len(choices), 'choice')} each are {read:,} characters to read,"
            f" but a request may have at most {MOST_TEXTS * longest:,}; send several requests"
        )


def most_generated(run: Run, use: Use[Any, Any], row: Any, options: Any) -> int:
    """Return the maximum number of tokens that a request may generate: the run's own options may exceed MOST_WRITTEN
    for one text."""
    own_options = options.model_copy(update=own_values(run.config, use.options))
    return max(MOST_WRITTEN, num_generated(use, [row], own_options))


def beams_of(options: Any) -> int:
    return max(options.beams, options.n_best) if getattr(options, "method", None) == "beam" else 1


def num_generated(use: Use[Any, Any], rows: Sequence[Any], options: Any) -> int:
    """Return the maximum number of tokens generated for the rows, over all beams."""
    return beams_of(options) * sum(use.writes(row, options) for row in rows)


def characters_of(rows: Sequence[Any]) -> int:
    return sum(weight_of(value) for row in rows for _, value in row if value is not None)


def weight_of(value: Any) -> int:
    return -(-len(value.data) // BYTES) if isinstance(value, FileBytes) else len(str(value))


def check_places(use: Use[Any, Any], task: Any, rows: Sequence[Any], longest: int) -> None:
    """Refuse a file with more positions than a text may have characters, by its header, before anything is decoded."""
    for row in rows if use.places is not None else ():
        if (count := use.places(task, row)) > longest:  # type: ignore[misc]
            raise UserError(
                f"{next(value for _, value in row)}: it has {counted(count, task.reader.unit)}, but at most {longest:,}"
                " are read here; scale it down, or cut it"
            )


def rows_of(kind: Any, fields: Mapping[str, Any], longest: int, name: str, *, files: bool = False) -> list[Any]:
    """Return the rows of a request, validated."""
    first = next(iter(kind.model_fields))
    what, most = (first, MOST_FILES) if files else ("text", MOST_TEXTS)
    fields = dict(fields)
    if first not in fields and "text" in fields:
        fields[first] = fields.pop("text")
    texts = fields.pop("texts", None)
    if (first in fields) == (texts is not None) and (
        first in fields or kind.model_fields[first].is_required() or not fields
    ):
        raise UserError(f'give "{what}", or several in "texts"' + ("; not both" if first in fields else ""))
    items: Sequence[Any] = [fields] if texts is None else texts
    if not isinstance(items, list):
        raise UserError(f"texts takes a list, not {shown(items)}")
    if not 1 <= len(items) <= most:
        raise UserError(f"texts takes 1 to {most} items in a request, not {len(items)}")
    if files:
        items = [with_file(first, each, f"{first} {number}") for number, each in enumerate(items, start=1)]
    if texts is not None and fields:
        items = [{**dict(read_partly(kind, each)), **fields} for each in items]
    rows = [read_row(kind, each, f"{what} {number}", name) for number, each in enumerate(items, start=1)]
    # Never a path, whatever the request contains.
    assert not files or all(isinstance(getattr(row, first), FileBytes) for row in rows)
    for number, row in enumerate(rows, start=1):
        for field, value in row:
            check_text(value, f"{what} {number}" if field == first else field, longest)
    return rows


def with_file(first: str, value: Any, what: str) -> dict[str, Any]:
    """Return the fields of a row whose first field is a file; `value` is only the file, or an object with all
    fields."""
    is_row = isinstance(value, Mapping) and "data" not in value
    row = dict(value) if is_row else {first: value}
    return {**row, first: read_sent_file(row.get(first), what)}


def read_partly(kind: Any, row: Any) -> Mapping[str, Any]:
    """A row whose other fields are at the top level of the request."""
    return row if isinstance(row, Mapping) else {next(iter(kind.model_fields)): row}


def check_text(value: Any, what: str, longest: int) -> None:
    whole = value if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, list) else ""
    check_is_text(whole, what)
    if len(whole) > longest:
        raise UserError(
            f"{what} has {len(whole):,} characters, but at most {longest:,} are read here; shorten it, or send it in"
            " parts"
        )
