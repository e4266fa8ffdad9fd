"""The lines of a run's own validation part: of running text, of documents, or the texts of examples."""

from collections.abc import Iterator

from clew.core.errors import UserError
from clew.data.notes import Notes
from clew.runs.folder.run_files import IMPORTED
from clew.runs.loaded import Run
from clew.runs.trust import check_paths
from clew.tasks import TASKS


def own_lines(run: Run) -> Iterator[str]:
    config = run.config
    if config.recipe == IMPORTED:
        raise UserError(
            f"{run.folder} was imported and has no data of its own; name a corpus, such as corpus=ewt-sample"
        )
    check_paths(run.folder, config.data)
    learning = TASKS[config.task.name].learns
    return learning.lines(learning.read(config.data, config.seed, Notes(faults=config.data.faults))["valid"])
