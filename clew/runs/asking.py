"""Use a run: its uses by verb, rows and options read from plain values, and answers in the order of the rows. The
command line and the server both call this module; it knows neither of them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from clew.core.config import Section
from clew.core.errors import UserError, shown
from clew.core.wording import argument_name, call
from clew.runs.columns import plain_rows, row_of_dict
from clew.runs.config import Config
from clew.runs.settings.explaining import read_section
from clew.tasks import TASKS, USES
from clew.tasks.entry import TaskEntry
from clew.tasks.use import Options, Use

if TYPE_CHECKING:
    from clew.runs.loaded import Run


def entry_of(config: Config) -> TaskEntry:
    return TASKS[config.task.name]


def own_verb(config: Config) -> str:
    """Return the main verb of a run with this config; `evaluate` if its task defines no use."""
    return next(iter(entry_of(config).uses), "evaluate")


def uses_of(run: "Run") -> dict[str, Use[Any, Any]]:
    """Return a run's uses by verb: its task's own uses first, then those shared by many tasks."""
    own = entry_of(run.config).uses
    return {
        **own,
        **{verb: shared.use for verb, shared in USES.items() if verb not in own and shared.offered(run.task)},
    }


def find_use(run: "Run", verb: str) -> Use[Any, Any]:
    """Return a run's use; refuse a verb that it does not have and name one that it has."""
    own = entry_of(run.config).uses
    uses = own if verb in own else uses_of(run)
    if verb not in uses:
        task, does = run.config.task.name, own_verb(run.config)
        own_call = f"run.{does}(...)" if hasattr(run, does) else f"run.ask({does!r}, ...)"
        raise UserError(
            f"{run.folder} is a run of the task {task}, which cannot {verb}; use {call(own_call, f'clew {does}')}"
        )
    return uses[verb]


def takes_pairs(run: "Run") -> bool:
    """Whether a row of the run's main use has more than one required field, such as two texts."""
    use = next(iter(entry_of(run.config).uses.values()), None)
    if use is None:
        return False
    fields = use.row_type(run.config.data, use.options()).model_fields.values()
    num_required: int = sum(field.is_required() for field in fields)
    return num_required > 1


def own_values(config: Config, options: type[Options]) -> dict[str, Any]:
    """Return the values of the options that the run's config also has."""
    own, fields = {**config.decoding.model_dump(), "seed": config.seed}, options.model_fields
    return {name: value for name, value in own.items() if name in fields}


def read_options(use: Use[Any, Any], config: Config, requested: Mapping[str, Any]) -> Any:
    """Return the use's options: the requested values, with the run's own as defaults."""
    fields = use.options.model_fields
    requested = {
        name: value
        for name, value in requested.items()
        if value is not None or name not in fields or takes(use.options, name, None)
    }
    return read_section(use.options, use.options.over(own_values(config, use.options), requested), spell=argument_name)


def read_rows(kind: type[Section], rows: Any, name: str, first: int = 1, data: Any = None) -> list[Any]:
    """Read rows from plain values: each is a text, a tuple of its fields if it has several, or an object with its
    fields. `name` is the run's name, for error messages. With the run's section `data`, rows may also be a table, and
    objects may have the run's columns."""
    rows = rows if data is None else plain_rows(kind, data, rows)
    if not isinstance(rows, Iterable) or isinstance(rows, (Mapping, bytes)):
        raise UserError(f"expected a text, or a list of texts, found {shown(rows)}")
    return [read_row(kind, value, f"text {number}", name, data) for number, value in enumerate(rows, start=first)]


def read_row(kind: type[Section], row: Any, place: str, name: str, data: Any = None) -> Any:
    if isinstance(row, kind):
        return row
    if isinstance(row, Mapping):
        return read_section(kind, row if data is None else row_of_dict(kind, data, row, place), place)
    fields = list(kind.model_fields)
    values = [row] if takes(kind, fields[0], row) else row
    if not isinstance(values, (list, tuple)) or (values is row and not all(isinstance(part, str) for part in row)):
        raise UserError(f"{place}: expected a string, or several in a list or tuple, found {shown(row)}")
    needed = [field for field, info in kind.model_fields.items() if info.is_required()]
    if not len(needed) <= len(values) <= len(fields):
        need = (
            "one text; give it as a string"
            if len(fields) == 1
            else f"{' and '.join(needed)} together; give them in a tuple, and several rows in a list"
        )
        raise UserError(f"{place}: {name} takes {need}")
    return read_section(kind, dict(zip(fields, values, strict=False)), place)


def takes(kind: type[Section], field: str, value: Any) -> bool:
    """Whether a field accepts a value."""
    try:
        field_type(kind, field).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@cache
def field_type(kind: type[Section], field: str) -> TypeAdapter[Any]:
    """Return the validator of a field; cached because creating one takes longer than the rest of a short request."""
    annotation: Any = kind.model_fields[field].annotation
    return TypeAdapter(annotation)


def is_blank(row: Section) -> bool:
    """Whether a required field of a row is empty or only spaces; if no field is required, whether all fields are."""
    required = [getattr(row, name) for name, field in type(row).model_fields.items() if field.is_required()]
    return any(map(is_empty, required)) if required else all(is_empty(value) for _, value in row if value is not None)


def is_empty(value: Any) -> bool:
    return not value.strip() if isinstance(value, str) else value in ([], ())


def answer_rows(
    use: Use[Any, Any], tasks: Sequence[Any], rows: Sequence[Any], options: Any, numbers: Sequence[int] | None = None
) -> list[Any]:
    """Return the answer to each row; None for a blank row, unless the use answers those."""
    numbers = list(range(1, len(rows) + 1)) if numbers is None else numbers
    places = [place for place, row in enumerate(rows) if use.answers_blank or not is_blank(row)]
    answers = (
        use.answer(tasks, [rows[place] for place in places], options, [numbers[place] for place in places])
        if places
        else []
    )
    by_place = dict(zip(places, answers, strict=True))
    return [by_place.get(place) for place in range(len(rows))]


def check_together(runs: Sequence["Run"], verb: str) -> None:
    """Refuse an ensemble of runs that do not read and write the same tokens."""
    for run in runs:
        use = find_use(run, verb)
        if len(runs) > 1 and not use.together:
            raise UserError(f"several runs cannot {verb} together; give one of them")
        for role, vocabulary in runs[0].vocabularies.items():
            if role not in run.vocabularies or run.vocabularies[role].hash != vocabulary.hash:
                raise UserError(
                    f"runs that {verb} together need the same tokens, but the {role} vocabularies of {runs[0].folder}"
                    f" and {run.folder} differ; train them on the same data with the same text settings (seed and model"
                    " may differ)"
                )


def ask_runs(
    runs: Sequence["Run"],
    verb: str,
    rows: Any,
    requested: Mapping[str, Any],
    *,
    first: int = 1,
    helpers: Sequence["Run"] = (),
) -> list[Any]:
    """Return the answers of a run, or of several runs as an ensemble, to rows of plain values; None for a blank row.
    `helpers` are runs that help with the answer, such as a draft model."""
    check_together(runs, verb)
    use = find_use(runs[0], verb)
    options = read_options(use, runs[0].config, requested)
    rows = read_rows(use.row_type(runs[0].config.data, options), rows, str(runs[0].folder), first, runs[0].config.data)
    repeated = [row for row in rows for _ in range(getattr(options, "samples", 1))]
    numbers = range(first, first + len(repeated))
    return answer_rows(use, [run.task for run in (*runs, *helpers)], repeated, options, numbers)
