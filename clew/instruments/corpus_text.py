"""The beginning of a part of the text that a language model was trained on, for instruments that are given none."""

from clew.core.errors import UserError
from clew.data.text_files import beginning
from clew.runs.build import find_texts
from clew.runs.directory import IMPORTED
from clew.runs.loaded import Run


def has_corpus_text(run: Run) -> bool:
    """Whether a run is a language model's that was trained here."""
    return run.verb == "generate" and run.config.recipe != IMPORTED


def corpus_text(run: Run, part: str, characters: int) -> str:
    """As many characters as there are, or as are asked for."""
    try:
        return beginning(find_texts(run.config.data)[part], characters)
    except UserError as error:
        raise UserError(f"{str(error).rstrip('.')}; that is the run's own text: give another (--text, --file)") from None
