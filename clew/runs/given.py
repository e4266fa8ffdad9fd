"""What a run is given from Python: one text or several, of the kind that it reads, and options. Knows no run: what one was trained on is
passed in."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from clew.core.errors import UserError, shown
from clew.data.examples import Sentence
from clew.data.formats import EXTENSIONS
from clew.data.kinds.section import DataSection
from clew.runs.explaining import explain
from clew.tasks.writing import DecodingConfig


def listed_texts(texts: Any, first: int) -> list[Any]:
    """One text or several, each a string or a list of strings; what is neither is refused."""
    if not isinstance(texts, Iterable):
        raise UserError(f"expected a text, or a list of texts, found {shown(texts)}")
    given = [texts] if isinstance(texts, str) else list(texts)
    for number, text in enumerate(given, start=first):
        if not isinstance(text, Sequence) or not all(isinstance(part, str) for part in text):
            raise UserError(f"text {number}: expected a string, or several in a list or tuple, found {shown(text)}")
    return given


def answered(
    given: Sequence[Any], first: int, answer: Callable[[list[Any], list[int]], Iterable[Any]], is_empty: Callable[[Any], bool]
) -> list[Any]:
    """What `answer` gives to all that is not empty, with their numbers from `first` on; None in the place of what is."""
    rows = [row for row, each in enumerate(given) if not is_empty(each)]
    answers = dict(zip(rows, answer([given[row] for row in rows], [first + row for row in rows]), strict=True))
    return [answers.get(row) for row in range(len(given))]


def is_blank(text: str | Sequence[str]) -> bool:
    """Whether a text, or each of several, is spaces at most."""
    return not "".join(text).strip()


def check_sides(texts: Sequence[Any], first: int, reads_pairs: bool, folder: Path) -> None:
    """A classifier reads two texts together where it was trained so, and else one."""
    for number, text in enumerate(texts, start=first):
        is_fit = (not isinstance(text, str) and len(text) == 2) if reads_pairs else isinstance(text, str)
        if not is_fit and not is_blank(text):
            need = "two texts together: give both in a tuple" if reads_pairs else "one text: give it as a string"
            raise UserError(f"text {number}: {folder} was trained to judge {need}")


def check_tree_kinds(trees: Sequence[Any], numbers: Sequence[int], data: DataSection, folder: Path) -> None:
    """Refuses dependency trees where a run was trained on bracketed ones, and the other way round; what the name of its data does not tell
    is not checked."""
    format = getattr(data, "format", None)
    files = [data.train] if isinstance(data.train, str) else data.train or []
    formats = {format or EXTENSIONS.get(Path(file.removesuffix(".gz")).suffix.lower()) for file in files}
    if data.corpus is None and (len(formats) != 1 or formats & {None, "lines"}):
        return
    reads_heads = data.corpus is None and formats == {"conllu"}
    for number, tree in zip(numbers, trees, strict=True):
        if isinstance(tree, Sentence) != reads_heads:
            kinds = ("dependency trees; give CoNLL-U", "brackets") if reads_heads else ("bracketed trees; give those", "words with heads")
            raise UserError(f"tree {number}: {folder} was trained on {kinds[0]}, not {kinds[1]}")


def searching(config: DecodingConfig, options: dict[str, Any]) -> DecodingConfig:
    """The decoding section of a run that writes targets; `beams` or `n_best` asks for beam search."""
    if {"beams", "n_best"} & options.keys():
        options = {"method": "beam", **options}
    found = decoding_config(config, options)
    if options.get("n_best", 1) > 1 and found.method != "beam":
        raise UserError(f"n_best={found.n_best} is for beam search; with method={found.method} one is found")
    return found


def decoding_config(config: DecodingConfig, options: dict[str, Any]) -> DecodingConfig:
    """The run's decoding section with some fields changed."""
    try:
        return DecodingConfig(**{**config.model_dump(), **options})
    except ValidationError as error:
        raise UserError(explain(error, DecodingConfig, prefix="decoding.")) from None
