"""A request as rows and options of one of the run's uses. Knows no server and no task.

    {"text": ...}                 one row: its fields, the first of which is always `text` too
    {"texts": [...]}              several: of each the first field, its fields in a list, or an object; other fields hold for all rows

and the use's options. Of a use that reads files the first field is one, {"data": BASE64, "name": NAME}, and never a path. Rows of several
requests with equal options may be answered by one call.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.core.errors import UserError, counted, shown
from clew.data.file_bytes import FileBytes
from clew.runs.asking import answer_rows, find_use, own_values, read_options, read_row
from clew.runs.loaded import Run
from clew.serving.sent_files import file_of
from clew.tasks.use import Objects, Use
from clew.text.tokenizer import check_is_text

MOST_TEXTS, MOST_ROWS = 256, 1024
MOST_FILES = 32
"""Of a request: each is decoded, however small it is."""
LONGEST_TEXT = 10_000
"""Characters of a text, or places of a file, where nothing else is said."""
LIMITS = {"max_new": 4096, "beams": 64, "n_best": 64, "samples": 64}
"""What a request may ask for at most; the run's own settings may be larger."""
MOST_WRITTEN = 100_000
"""Tokens that a request may have written: texts x samples x max_new x beams. For one text the run's own settings may ask for more."""
CHARACTERS = 4
"""Characters read that are as much work as one token written, roughly."""
BYTES = 256
"""Bytes of a file that are as much work as one character."""


@dataclass(frozen=True)
class Call:
    """A request, read and found right: calls of one `key` may be answered together."""

    run: Run
    verb: str
    use: Use[Any, Any]
    options: Any
    rows: list[Any]
    key: tuple[str, ...]
    is_stream: bool = False
    longest: int = LONGEST_TEXT

    @property
    def joins(self) -> bool:
        """Whether its rows may be written in a batch that others join and leave."""
        return self.use.joins is not None and self.use.joins.fits(self.options)

    @property
    def samples(self) -> int:
        """Rows of one text."""
        return getattr(self.options, "samples", 1)

    def size(self, rows: Sequence[Any]) -> float:
        """How much work some of its rows are at most: tokens written, and what is read in the same measure."""
        return written_of(self.use, rows, self.options) + characters_of(rows) / CHARACTERS

    def answered(self, rows: Sequence[Any], numbers: Sequence[int]) -> list[Any]:
        check_places(self.use, self.run.task, rows, self.longest)
        return answer_rows(self.use, [self.run.task], rows, self.options, numbers)

    def told(self, answers: Sequence[Any]) -> Objects:
        answered = enumerate(zip(self.rows, answers, strict=True), start=1)
        return [one for number, (row, answer) in answered for one in self.use.objects(number, row, answer, self.options)]

    def pieces(self) -> Iterator[str]:
        assert self.use.stream is not None
        pieces = self.use.stream([self.run.task], self.rows[0], self.options, 1)
        if pieces is None:
            raise UserError("stream is for one text, one sample, and method sample or greedy; beam search chooses only at the end")
        return pieces

    @property
    def first_text(self) -> str:
        """What a streamed answer goes on from."""
        return str(next(value for _, value in self.rows[0]))


def call_of(run: Run, verb: str, body: Mapping[str, Any], longest: int = LONGEST_TEXT) -> Call:
    """What a request asks, or one sentence that says what is wrong with it."""
    use = find_use(run, verb)
    given = dict(body)
    is_stream = use.stream is not None and given.pop("stream", False)
    if not isinstance(is_stream, bool):
        raise UserError("stream takes true or false")
    named = {name: given.pop(name) for name in (*use.row.model_fields, "text", "texts") if name in given}
    fields = {name: value for name, value in named.items() if value is not None}
    for name in use.local:
        given.pop(name, None)
    options = read_options(use, run.config, given)
    for name, most in LIMITS.items():
        if name in body and getattr(options, name, 0) > most:
            raise UserError(f"{name} must be at most {most} here, not {getattr(options, name)}")
    rows = rows_of(use.row_type(run.config.data, options), fields, longest, str(run.folder), files=use.names_files)
    samples = getattr(options, "samples", 1)
    if len(rows) * samples > MOST_ROWS:
        raise UserError(f"{counted(len(rows), 'text')} of {samples} samples each are more than {MOST_ROWS} at once; ask in parts")
    if is_stream and (len(rows) > 1 or samples > 1):
        raise UserError("stream is for one text, one sample, and method sample or greedy; beam search chooses only at the end")
    rows = [row for row in rows for _ in range(samples)]
    check_work(use, rows, options, options.model_copy(update=own_values(run.config, use.options)), longest)
    key = (str(run.folder), verb, json.dumps(options.model_dump(mode="json"), sort_keys=True))
    return Call(run, verb, use, options, rows, key, is_stream, longest)


def check_work(use: Use[Any, Any], rows: Sequence[Any], options: Any, own: Any, longest: int) -> None:
    """Refuses what would keep the model busy for minutes, whichever of its options says so. `own` are the run's own."""
    work, most = written_of(use, rows, options), max(MOST_WRITTEN, written_of(use, rows[:1], own))
    if work > most:
        raise UserError(
            f"{counted(len(rows), 'text')} with {counted(beams_of(options), 'beam')} are up to {work:,} tokens to write, and a request has "
            f"at most {most:,} (texts x samples x max_new x beams); ask for less, or in parts"
        )
    given = getattr(options, "choices", None) or ()
    choices = list(given.values()) if isinstance(given, Mapping) else given.split(",") if isinstance(given, str) else given
    template = len(getattr(options, "template", None) or "")
    read = characters_of(rows) + len(rows) * (template + sum(template + len(choice) for choice in choices))
    if read > MOST_TEXTS * longest:
        raise UserError(
            f"{counted(len(rows), 'text')} and {counted(len(choices), 'choice')} for each are {read:,} characters to read, and a request "
            f"has at most {MOST_TEXTS * longest:,}; ask in parts"
        )


def beams_of(options: Any) -> int:
    return max(options.beams, options.n_best) if getattr(options, "method", None) == "beam" else 1


def written_of(use: Use[Any, Any], rows: Sequence[Any], options: Any) -> int:
    """Tokens that are written for rows at most, every beam counted."""
    return beams_of(options) * sum(use.writes(row, options) for row in rows)


def characters_of(rows: Sequence[Any]) -> int:
    return sum(weight_of(value) for row in rows for _, value in row if value is not None)


def weight_of(value: Any) -> int:
    return -(-len(value.data) // BYTES) if isinstance(value, FileBytes) else len(str(value))


def check_places(use: Use[Any, Any], task: Any, rows: Sequence[Any], longest: int) -> None:
    """Refuses a file that would be read as more places than a text may have characters, before it is decoded."""
    for row in rows if use.places is not None else ():
        if (count := use.places(task, row)) > longest:  # type: ignore[misc]
            raise UserError(
                f"{next(value for _, value in row)}: it takes {counted(count, task.reader.unit)}, and at most {longest:,} are read here; "
                "scale it down, or cut it"
            )


def rows_of(kind: Any, fields: Mapping[str, Any], longest: int, name: str, *, files: bool = False) -> list[Any]:
    """What the model is given, one after the other."""
    first = next(iter(kind.model_fields))
    what, most = (first, MOST_FILES) if files else ("text", MOST_TEXTS)
    fields = dict(fields)
    if first not in fields and "text" in fields:
        fields[first] = fields.pop("text")
    texts = fields.pop("texts", None)
    if (first in fields) == (texts is not None) and (first in fields or kind.model_fields[first].is_required() or not fields):
        raise UserError(f'give "{what}", or several in "texts"' + ("; not both" if first in fields else ""))
    given: Sequence[Any] = [fields] if texts is None else texts
    if not isinstance(given, list):
        raise UserError(f"texts takes a list, not {shown(given)}")
    if not 1 <= len(given) <= most:
        raise UserError(f"texts are 1 to {most} in a request, not {len(given)}")
    if files:
        given = [with_file(first, each, f"{first} {number}") for number, each in enumerate(given, start=1)]
    if texts is not None and fields:
        given = [{**dict(read_partly(kind, each)), **fields} for each in given]
    rows = [read_row(kind, each, f"{what} {number}", name) for number, each in enumerate(given, start=1)]
    assert not files or all(isinstance(getattr(row, first), FileBytes) for row in rows)  # no path, whatever a request says
    for number, row in enumerate(rows, start=1):
        for field, value in row:
            check_text(value, f"{what} {number}" if field == first else field, longest)
    return rows


def with_file(first: str, given: Any, what: str) -> dict[str, Any]:
    """A row's fields, of which the first is a file; `given` is the file alone, or an object with the fields."""
    is_row = isinstance(given, Mapping) and "data" not in given
    row = dict(given) if is_row else {first: given}
    return {**row, first: file_of(row.get(first), what)}


def read_partly(kind: Any, given: Any) -> Mapping[str, Any]:
    """A row that has its other fields elsewhere in the request."""
    return given if isinstance(given, Mapping) else {next(iter(kind.model_fields)): given}


def check_text(value: Any, what: str, longest: int) -> None:
    whole = value if isinstance(value, str) else " ".join(map(str, value)) if isinstance(value, list) else ""
    check_is_text(whole, what)
    if len(whole) > longest:
        raise UserError(f"{what} has {len(whole):,} characters, and at most {longest:,} are taken here; shorten it, or send it in parts")
