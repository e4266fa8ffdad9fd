"""The programs of a run: those that its task defines, as modules that can be traced. This file knows no task by
name."""

from typing import Any

from clew.core.errors import UserError
from clew.interop.default_programs import default_programs
from clew.interop.generators import stepping
from clew.interop.readers import reading
from clew.interop.signatures import Program
from clew.runs.loaded import Run
from clew.tasks.uses.programs import ReadingProgram, SteppingProgram


def programs_of(run: Run) -> list[Program]:
    """Return the programs of the run's task. A task without programs raises a UserError with its own reason."""
    try:
        offered = run.task.programs() if hasattr(run.task, "programs") else default_programs(run)
        return [program for each in offered for program in modules_of(run.task, each)]
    except UserError as error:
        raise UserError(f"{run.folder}: {error}") from None


def modules_of(task: Any, defined: ReadingProgram | SteppingProgram | Program) -> list[Program]:
    if isinstance(defined, Program):
        return [defined]
    return stepping(task, defined) if isinstance(defined, SteppingProgram) else [reading(task, defined)]
