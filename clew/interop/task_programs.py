"""The programs of a run: those that its task offers, as modules that can be traced."""

from typing import Any

from clew.core.errors import UserError
from clew.interop.default_programs import default_programs
from clew.interop.generators import stepping
from clew.interop.readers import reading
from clew.interop.signatures import Program
from clew.runs.loaded import Run
from clew.tasks.programs import ReadingProgram, SteppingProgram


def programs_of(run: Run) -> list[Program]:
    """A task that offers none is refused by name, with what it says of itself."""
    try:
        offered = run.task.programs() if hasattr(run.task, "programs") else default_programs(run)
        return [program for each in offered for program in made(run.task, each)]
    except UserError as error:
        raise UserError(f"{run.folder}: {error}") from None


def made(task: Any, offered: ReadingProgram | SteppingProgram | Program) -> list[Program]:
    if isinstance(offered, Program):
        return [offered]
    return stepping(task, offered) if isinstance(offered, SteppingProgram) else [reading(task, offered)]
