"""The beginning of a language model's own corpus, for instruments if the user gives no text."""

from clew.core.errors import UserError
from clew.core.wording import argument
from clew.data.files.text_files import beginning
from clew.data.notes import Notes
from clew.instruments.subjects.subject import Subject
from clew.runs.folder.run_files import IMPORTED
from clew.runs.loaded import Run
from clew.runs.trust import check_paths
from clew.tasks import TASKS


def has_corpus_text(subject: Subject) -> bool:
    """Whether the subject is a run that was trained, not imported, on a text read as one stream."""
    return subject.run is not None and subject.run.config.recipe != IMPORTED and subject.has("streams")


def own_text(subject: Subject, part: str, characters: int) -> str:
    """Return the first characters of a part of the subject's corpus, at most `characters`."""
    if subject.run is None:
        raise UserError(f"{subject.name} is a module without its own text; pass one as text=")
    return corpus_text(subject.run, part, characters)


def corpus_text(run: Run, part: str, characters: int) -> str:
    """Return the first characters of a part of a run's corpus, at most `characters`."""
    check_paths(run.folder, run.config.data)
    try:
        return beginning(
            TASKS[run.config.task.name].learns.read(run.config.data, run.config.seed, Notes())[part], characters
        )
    except UserError as error:
        raise UserError(
            f"{str(error).rstrip('.')}; this is the run's own text; pass another with {argument('text')}"
        ) from None
