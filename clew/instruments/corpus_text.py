"""The beginning of a part of the text that a language model was trained on, for instruments that are given none."""

from clew.core.errors import UserError
from clew.data.notes import Notes
from clew.data.text_files import beginning
from clew.runs.directory import IMPORTED
from clew.runs.loaded import Run
from clew.tasks import TASKS


def has_corpus_text(run: Run) -> bool:
    """Whether a run is a language model's that was trained here."""
    return run.verb == "generate" and run.config.recipe != IMPORTED


def corpus_text(run: Run, part: str, characters: int) -> str:
    """As many characters as there are, or as are asked for."""
    try:
        return beginning(TASKS[run.config.task.name].learns.read(run.config.data, run.config.seed, Notes())[part], characters)
    except UserError as error:
        raise UserError(f"{str(error).rstrip('.')}; that is the run's own text: give another (--text, --file)") from None
