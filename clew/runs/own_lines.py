"""The lines of a run's own validation part, whatever its data are: of running text, of documents, or the texts of examples."""

from collections.abc import Iterator

from clew.core.errors import UserError
from clew.data.notes import Notes
from clew.data.text_files import TextSource
from clew.runs.build import find_texts
from clew.runs.directory import IMPORTED
from clew.runs.documents import find_documents
from clew.runs.examples import read_examples
from clew.runs.loaded import Run
from clew.tasks import TASKS


def own_lines(run: Run) -> Iterator[str]:
    config = run.config
    if config.recipe == IMPORTED:
        raise UserError(f"{run.folder} was imported and has no data of its own; name a corpus, such as corpus=ewt-sample")
    kind = TASKS[config.task.name].data
    if kind == "text":
        return text_lines(find_texts(config.data)["valid"])
    if kind == "documents":
        return iter(find_documents(config.data, Notes())["valid"])
    return (example.key for example in read_examples(kind, config.data, config.seed)["valid"])


def text_lines(source: TextSource) -> Iterator[str]:
    left = ""
    for piece in source:
        *lines, left = (left + piece).split("\n")
        yield from lines
    yield left
