"""What a task is to the rest of the house: one entry in TASKS. Knows no task, no run, no command line and no server.

An entry says how a task is built, what it learns from, and what may be asked of a trained run: its uses. The command line, the server,
JSON, model cards and evaluation are generic over entries, so that a task is one file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from torch import nn

from clew.baselines.beside import Fit, no_baselines
from clew.core.config import Section, TaskSection
from clew.core.errors import UserError
from clew.data.kinds.section import DataSection
from clew.tasks.learning import Learning

R = TypeVar("R", bound=Section)
A = TypeVar("A")

Objects = list[dict[str, Any]]
"""JSON objects that tell one answer."""


class Answered(NamedTuple, Generic[R, A]):
    """A row, its number from 1 on, and the answer to it; None where the row is blank."""

    number: int
    row: R
    answer: A | None


Format = Callable[[Iterator[list[Answered[Any, Any]]], Any], Iterator[str]]
"""`format(answered, options)`: from answers, some at a time, to the text that is written, as soon as it is there."""


def line_each(line: Callable[[Any, Any], str]) -> Format:
    """A format with a line for each answer: `line(row, answer)`."""

    def write(answered: Iterator[list[Answered[Any, Any]]], options: Any) -> Iterator[str]:
        for some in answered:
            yield "".join(f"{line(each.row, each.answer)}\n" for each in some)

    return write


class Options(Section):
    """What may be chosen when a run is asked: --flags, fields of JSON, keywords in Python. Fields that the run's config has too, in its
    section `decoding` or at its top, such as `seed`, are the run's where they are not given."""

    @classmethod
    def over(cls, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """The run's own values, and those that are given in their place."""
        return {**own, **given}


@dataclass(frozen=True)
class Watch(Generic[R, A]):
    """What a server counts of rows and answers, and what of the training examples it is held against."""

    tokens: Callable[[Any, R], tuple[list[int], int | None]]
    """A row's tokens as `task` reads them, without what is put around them, and the id of the unknown one."""
    confidence: Callable[[A], float | None] = lambda answer: None
    """The mean probability of what was told."""
    labels: Callable[[Any, A], Sequence[str]] = lambda task, answer: ()
    row_of: Callable[[Any], R | None] = lambda example: None
    """A training example as it would be asked."""
    own_labels: Callable[[Any, Any], Sequence[str]] = lambda task, example: ()
    is_cheap: bool = False
    """Whether answers are quick enough to ask for those to some training examples when a server starts."""


@dataclass(frozen=True)
class Use(Generic[R, A]):
    """What may be asked of a run: typed rows in, typed answers out, as JSON and as text."""

    about: str
    """One line: what a person gets."""
    row: type[R]
    """What is asked about: the fields of JSON, the columns of a table. The first is TEXT on the command line."""
    options: type[Options]
    answer: Callable[[Sequence[Any], Sequence[R], Any, Sequence[int]], Sequence[A | None]]
    """`answer(tasks, rows, options, numbers)`: of one task, or of several together where `together`; a row that is refused is named by its
    number, and sampling draws by it."""
    objects: Callable[[int, R, A | None, Any], Objects]
    """`objects(number, row, answer, options)`: an answer as JSON."""
    formats: Mapping[str, Format]
    """An answer as text; the first is the default. `json` is there besides."""
    help: str = ""
    """What `--help` says: how rows are given, examples, what is written."""
    row_for: Callable[[Any], type[R]] | None = None
    """`row_for(data)`: the row that a run with this data section takes, where that depends on it."""
    read_file: Callable[[Path, Any], Iterator[R] | None] | None = None
    """`read_file(path, data)`: the rows of a file of another kind than lines and tables (CoNLL, SQuAD); None where this is no such file."""
    stream: Callable[[Any, R, Any, int], Iterator[str]] | None = None
    """`stream(task, row, options, number)`: one answer piece by piece."""
    together: bool = False
    """Whether several runs may answer together, as an ensemble."""
    lines: bool = True
    """Whether rows are lines of standard input where none are given; else one empty row is asked for."""
    samples: bool = False
    """Whether the option `samples` asks for several answers to every row."""
    sample: str = ""
    """A text to show it with, where the training data has none."""
    remarks: Callable[[Sequence[Any], Sequence[Answered[R, A]], Any], Iterator[str]] | None = None
    """`remarks(tasks, answered, options)`: what a person should know of the answers, a line each, on standard error."""
    watch: Watch[R, A] | None = None


@dataclass(frozen=True)
class TaskEntry:
    """A task in TASKS. `build(body, vocabularies, config)` makes the module; `needs` is what it asks of a body; `vocabularies` has the type
    of each by role. The first of `uses` is what a run of it is for; where there are none, other runs read its vectors."""

    config: type[TaskSection]
    build: Callable[..., nn.Module]
    needs: tuple[str, ...] = ()
    vocabularies: Mapping[str, Any] = field(default_factory=dict)
    learning: Learning[Any, Any] | None = None
    """How it learns; None where there is nothing to learn."""
    baselines: Fit = no_baselines
    verb: str = "generate"
    uses: Mapping[str, Use[Any, Any]] = field(default_factory=dict)
    pipeline: str | None = None
    """What other libraries call such a model, for model cards."""

    @property
    def section(self) -> type[DataSection]:
        """The section `data` of its configs."""
        return DataSection if self.learning is None else self.learning.section

    @property
    def learns(self) -> Learning[Any, Any]:
        """How it learns; refused where there is nothing to learn."""
        if self.learning is None:
            raise UserError(
                f"the task {self.config().name} has nothing to learn, and so nothing to be scored by; train another task on its run, "
                "e.g. `clew train finetune-classify transfer.from=RUN data.train=FILE`"
            )
        return self.learning

    @property
    def is_running(self) -> bool:
        """Whether its bodies learn from running text."""
        return self.learning is not None and self.learning.is_running
