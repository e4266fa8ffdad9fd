"""Which programs a run gives, by its task."""

from collections.abc import Callable

from clew.core.errors import UserError
from clew.interop.generators import language_model, sequence
from clew.interop.readers import classification, levels, masked_language_model, question_answering, representation, tagging
from clew.interop.signatures import Program
from clew.runs.loaded import Run

PROGRAMS: dict[str, Callable[[Run], list[Program]]] = {
    "language_model": language_model,
    "bidirectional_language_model": levels,
    "masked_language_model": masked_language_model,
    "translation": sequence,
    "sequence": sequence,
    "classification": classification,
    "tagging": tagging,
    "question_answering": question_answering,
    "representation": representation,
}
REFUSED = {
    "tree_classification": "reads trees, and each has a shape of its own",
    "parsing": "holds what it writes to trees, which no program does",
}


def programs_of(run: Run) -> list[Program]:
    name = run.config.task.name
    if name not in PROGRAMS:
        why = REFUSED.get(name, "has no programs")
        raise UserError(f"{run.folder} is a run of the task {name}, which {why}; programs are written of {', '.join(PROGRAMS)}")
    return PROGRAMS[name](run)
