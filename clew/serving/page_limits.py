"""What a view of the page may cost: the length of its texts, the memory to find it, and the size of its picture. Knows no server.

Memory is estimated before anything is built, from the tokens that a model would read, n of a text and m of its target:

    weights   4 bytes x n x max(n, m) x heads x COPIES      heads of all layers where they are shown, else of the widest one
    scores    4 bytes x max(n, m) x vocabulary x 2          the logits, and what is made of them
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from clew.core.errors import UserError
from clew.inspection.heads import attending_layers
from clew.instruments.looking import find_instrument
from clew.runs.loaded import Run
from clew.tasks.offers import reads_files
from clew.text.tokenizer import Tokenizer

LONGEST_QUICK, LONGEST_SLOW = 20_000, 100_000
"""Characters of a text, for instruments that look while a text is typed, and for those that fit something on one."""
MOST_MEMORY = 4 * 10**9
MOST_ANSWER = 32_000_000
"""Bytes of a picture; one that is larger stops a browser."""
COPIES = 3
"""Of the weights of attention that exist at once: as the model has them, as arrays, and as they are drawn."""
SHOWING_HEADS = ("attention", "heads", "alignment")
DRAWN = 25
"""Bytes of a picture for every value, or four characters, that it shows by itself; what is an array is drawn as one image."""


def check_texts(name: str, options: Any) -> None:
    """Refuses a text that is longer than the page reads."""
    check_length(options, LONGEST_QUICK if find_instrument(name).quick else LONGEST_SLOW)


def check_files(name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> None:
    """Refuses a file that a request names: whoever asks must not choose what is read of this machine."""
    for run in runs:
        if options.get("text") and reads_files(run.task):
            raise UserError(f"{run.folder} reads files, and a page reads none that it names; use `clew look {name} {run.folder} FILE`")


def check_length(options: Any, longest: int) -> None:
    for text in texts_in(options):
        if len(text) > longest:
            raise UserError(
                f"the text has {len(text):,} characters, and the page reads at most {longest:,} here; shorten it, or use `clew look` on "
                "the command line"
            )


def check_memory(name: str, runs: Sequence[Run], options: Mapping[str, Any]) -> None:
    """Refuses what would take more memory than a page is worth; runs that are shown together are read one after the other."""
    texts = [options[field] for field in ("text", "target", "second") if isinstance(options.get(field), str)]
    for run in runs:
        need = memory(name, run, texts)
        if need > MOST_MEMORY:
            raise UserError(
                f"{name} of {run.folder.name} takes about {need / 1e9:,.1f} GB for this text, and a view of the page at most "
                f"{MOST_MEMORY / 1e9:g} GB; shorten the text"
            )


def memory(name: str, run: Run, texts: Sequence[str]) -> float:
    """Bytes that a view of texts takes, roughly."""
    tokenizers = [each for each in run.vocabularies.values() if isinstance(each, Tokenizer)]
    lengths = [max((len(each.encode(text)) for each in tokenizers), default=len(text)) for text in texts if is_text(text)]
    read, longest = (lengths[0], max(lengths)) if lengths else (0, 0)
    heads = [layer.num_heads for layer in attending_layers(run.task)]
    num_heads = sum(heads) if name in SHOWING_HEADS else max(heads, default=0)
    vocabulary = max((each.vocabulary for each in tokenizers), default=0)
    return 4.0 * read * longest * num_heads * COPIES + 8.0 * longest * vocabulary


def is_text(text: str) -> bool:
    """Half a character is refused elsewhere, with a sentence of its own."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def check_parts(parts: Any) -> None:
    """Refuses a picture before it is drawn, by the values that it shows."""
    check_answer(DRAWN * values_in(parts))


def check_answer(size: float) -> None:
    if size > MOST_ANSWER:
        raise UserError(
            f"the picture has about {size / 1e6:,.0f} MB, and the page shows at most {MOST_ANSWER / 1e6:g} MB; shorten the text, or ask "
            "for less of it"
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
