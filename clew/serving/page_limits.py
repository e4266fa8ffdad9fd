"""Limits of a view on the page: the length of its texts, the memory to compute it, and the size of its picture. Knows
no server.

Memory is estimated before anything is computed, from the number of tokens, n of a text and m of its target:

    weights   4 bytes x n x max(n, m) x heads x COPIES    heads of all layers if they are shown, else of the widest one
    scores    4 bytes x max(n, m) x vocabulary x 2        the logits, and their log-probabilities
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from clew.core.errors import UserError, counted
from clew.data.files.file_bytes import FileBytes
from clew.inspection.heads import layers_with_heads
from clew.instruments.looking import find_instrument
from clew.runs.loaded import Run
from clew.text.tokenizer import Tokenizer

LONGEST_QUICK, LONGEST_SLOW = 20_000, 100_000
"""The maximum length of a text in characters, or of a file in positions, for quick instruments, which run while a text
is typed, and for slow ones."""
MOST_MEMORY = 4 * 10**9
MOST_ANSWER = 32_000_000
"""The maximum size of a picture in bytes; a larger one blocks a browser."""
COPIES = 3
"""The copies of attention weights that exist at once: in the model, as arrays, and as drawn."""
SHOWING_HEADS = ("attention", "heads", "alignment")
DRAWN = 25
"""Bytes of a picture per value, or per four characters, drawn as separate elements; an array is drawn as one image."""


def check_text_lengths(name: str, options: Any) -> None:
    """Refuse a text that is longer than the page's limit."""
    check_written_length(options, longest_of(name))


def longest_of(name: str) -> int:
    return LONGEST_QUICK if find_instrument(name).quick else LONGEST_SLOW


def check_places(run: Run, file: FileBytes, longest: int) -> int:
    """The number of positions of a file, from its header; a file with more than a text may have characters is refused.
    Boxes are options, limited like texts."""
    reader = run.task.reader
    if reader.reads_boxes:
        return 0
    count: int = reader.measured(file).length
    if count > longest:
        raise UserError(
            f"{file}: it has {counted(count, reader.unit)}, but the page reads at most {longest:,}; scale it down, or"
            " cut it"
        )
    return count


def check_written_length(options: Any, longest: int) -> None:
    for text in texts_in(options):
        if len(text) > longest:
            raise UserError(
                f"the text has {len(text):,} characters, but the page reads at most {longest:,} here; shorten it, or"
                " use `clew look` on the command line"
            )


def check_view_memory(name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> None:
    """Refuse a view that would take too much memory. Runs shown together are read one after the other."""
    text, texts = (
        options.get("text"),
        [options[field] for field in ("text", "target", "second") if isinstance(options.get(field), str)],
    )
    for run in runs:
        places = check_places(run, text, longest_of(name)) if isinstance(text, FileBytes) else 0
        need = memory(name, run, texts, places)
        if need > MOST_MEMORY:
            raise UserError(
                f"{name} of {run.folder.name} takes about {need / 1e9:,.1f} GB for this {'file' if places else 'text'},"
                f" but a view of the page may take at most {MOST_MEMORY / 1e9:g} GB;"
                f" {'cut it' if places else 'shorten the text'}"
            )


def memory(name: str, run: Run, texts: Sequence[str], places: int = 0) -> float:
    """The estimated memory in bytes of a view of texts, or of a file with `places` positions."""
    tokenizers = [each for each in run.vocabularies.values() if isinstance(each, Tokenizer)]
    lengths = [
        max((len(each.encode(text)) for each in tokenizers), default=len(text)) for text in texts if is_text(text)
    ]
    lengths = [places, *lengths] if places else lengths
    read, longest = (lengths[0], max(lengths)) if lengths else (0, 0)
    heads = [layer.num_heads for layer in layers_with_heads(run.task)]
    num_heads = sum(heads) if name in SHOWING_HEADS else max(heads, default=0)
    vocabulary = max((each.vocabulary for each in tokenizers), default=0)
    return 4.0 * read * longest * num_heads * COPIES + 8.0 * longest * vocabulary


def is_text(text: str) -> bool:
    """Whether a text has no lone surrogates, which are refused elsewhere."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_parts(parts: Any) -> None:
    """Refuse a picture before it is drawn, by its number of values."""
    check_answer(DRAWN * values_in(parts))


def check_answer(size: float) -> None:
    if size > MOST_ANSWER:
        raise UserError(
            f"the picture has about {size / 1e6:,.0f} MB, but the page shows at most {MOST_ANSWER / 1e6:g} MB; shorten"
            " the text, or ask for less of it"
        )


def values_in(part: Any) -> float:
    if is_dataclass(part):
        return sum(values_in(getattr(part, field.name)) for field in fields(part))
    if isinstance(part, Mapping):
        return sum(map(values_in, part.values()))
    if isinstance(part, list | tuple):
        return sum(map(values_in, part))
    if isinstance(part, np.ndarray):
        return 0
    return len(part) / 4 if isinstance(part, str) else 1


def texts_in(options: Any) -> list[str]:
    if isinstance(options, str):
        return [options]
    parts = options.values() if isinstance(options, Mapping) else options if isinstance(options, list | tuple) else ()
    return [text for part in parts for text in texts_in(part)]
