"""How a task learns: what it reads, how that becomes vocabularies and batches, and how it is judged. Knows no task, no
run and no loop.

`tasks.learnings` has three: examples, streams and documents. A task's entry names one of them. Everything from higher
packages is passed in: tokenizers, batch sizes, progress, autocast, how processes share a model.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from torch import nn

from clew.core.batches import Batches
from clew.core.config import TaskSection
from clew.core.files import cache_folder
from clew.core.identity import Known
from clew.data.files.text_files import TextString
from clew.data.kinds.section import DataSection
from clew.data.notes import Notes
from clew.data.streams.text_streams import TextStream
from clew.metrics.score import Score
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer

P = TypeVar("P")
"""A part of the data as it is read: a list of examples, a text, documents."""
E = TypeVar("E")
"""The same as ids."""

Autocast = Callable[[], AbstractContextManager[Any]]
Given = Sequence[Path | str] | Sequence[Path | str | TextString]
"""Files; of text and documents also what was read from standard input."""


class Batching(Protocol):
    """What the section `training` says of batches."""

    @property
    def batch_size(self) -> int: ...
    @property
    def batch_tokens(self) -> int | None: ...
    @property
    def evaluate_batch(self) -> int | None: ...
    @property
    def length(self) -> int: ...
    @property
    def batching(self) -> Literal["streams", "windows"]: ...
    @property
    def vary_length(self) -> bool: ...
    @property
    def documents(self) -> Literal["joined", "apart"]: ...
    @property
    def bucket(self) -> bool: ...


class Tokenizers(Protocol):
    """Tokenizers as the section `text` asks for them, trained on the training part; or that of the run whose body this
    one has."""

    @property
    def joint(self) -> bool:
        """Whether source and target share one."""

    def of_text(self, texts: Iterable[str], *, framed: bool = False) -> Tokenizer:
        """For running text; `framed` puts what it reads between [CLS] and [SEP], where it has these tokens."""

    def of_stream(self, stream: TextStream) -> Tokenizer:
        """For running text that is a stream, from its beginning; what that is, is noted with the stream."""

    def of_sequences(self, texts: Iterable[str], specials: Sequence[str] = ()) -> Tokenizer:
        """For sequences that end, with tokens of its own for `specials`."""


@dataclass(frozen=True)
class Encoding:
    """How a part is encoded: its name, whether it is trained on, by how many processes, and where ids are kept to be
    found again."""

    name: str
    training: Batching
    to_train: bool = False
    workers: int = 1
    progress: Callable[[int, int], None] | None = None
    cache: Path = field(default_factory=cache_folder)
    vocabularies: Mapping[str, Any] = field(default_factory=dict)
    """The task's tokenizers and label tables by role, by which ids of examples are found again."""


@dataclass(frozen=True)
class Evaluation:
    """How a part is judged. A final evaluation decodes as `decoding` says, those on the way greedily. `interrupted`
    says to stop, which a process alone may do; within `whole(task)` each process may run the task as often as it
    likes."""

    training: Batching
    decoding: DecodingConfig
    seed: int
    is_final: bool = False
    most_tokens: int | None = None
    """How much of a part is read at most, about: the same of it every time."""
    autocast: Autocast = nullcontext
    interrupted: Callable[[], bool] = lambda: False
    progress: Callable[[int, int], None] = lambda done, total: None
    """Called after each of this process's batches with how many are done, and how many there are."""
    whole: Callable[[nn.Module], AbstractContextManager[Any]] = lambda task: nullcontext()


class Learning(Protocol[P, E]):
    """A way to learn. Those that subclass it say nothing where there is nothing to say."""

    @property
    def section(self) -> type[DataSection]:
        """The section `data` of a config."""

    @property
    def reads(self) -> str:
        """What is learnt from, in a sentence."""

    is_running: ClassVar[bool] = False
    """Whether bodies learn from running text, whose sentences stand between ends of lines."""
    can_cap: ClassVar[bool] = False
    """Whether an evaluation may read a part of what there is."""
    has_examples: ClassVar[bool] = False
    """Whether what is judged are examples, each with a prediction and a score of its own."""

    def read(self, data: Any, seed: int, notes: Notes) -> dict[str, P]:
        """The parts of a config by name: train, valid, and test where there is one. What is passed over is noted."""

    def read_files(self, files: Given, data: Any, notes: Notes) -> P:
        """What files of one part hold, read as a config says."""

    def check(self, task: Any, training: Batching) -> None:
        """Refuses settings of training that the task's body cannot follow, before anything is encoded."""

    def content(self, part: P) -> str | None:
        """What tells a large part's content from any other; None for a small one, which is quickly read again."""
        return None

    def vocabularies(self, train: P, tokenizers: Tokenizers, task: TaskSection) -> dict[str, Any]:
        """Every tokenizer and label table by role, made of the training part."""

    def encode(self, task: Any, part: P, encoding: Encoding) -> E:
        """A part as ids, once; one that the task cannot read is refused. Every process has to ask."""

    def prepare(self, task: Any, encoded: E) -> None:
        """Gives a new task what it takes from the encoded training part and does not train."""
        return None

    def batches(self, task: Any, encoded: E, training: Batching, seed: int) -> Batches:
        """Batch b of epoch e, for all processes together."""

    def judge(self, task: Any, forward: Any, part: P, encoded: E, evaluation: Evaluation) -> Score | None:
        """The score of a part, each process its share; None where it was interrupted. `forward` is the task or its
        compiled form."""

    def settle(self, task: Any, part: P, encoded: E, evaluation: Evaluation) -> bool:
        """Gives a trained task what is taken from the validation part alone; whether that has changed it."""
        return False

    def known(self, task: Any, part: P, encoded: Callable[[], E]) -> Any:
        """A part as the task's baselines read it; what they ask for is then encoded."""

    def identity(self, part: P, encoded: E, training: Batching, seed: int) -> dict[str, Known]:
        """What a resumed run must find again: the training part, and the order of its batches."""

    def describe(self, vocabularies: Mapping[str, Any], parts: Mapping[str, P], encoded: Mapping[str, E]) -> str:
        """The data, in a sentence."""

    def remarks(self, task: Any, parts: Mapping[str, P], encoded: Mapping[str, E]) -> list[str]:
        """What a person should know of the data, a line each."""
        return []

    def judged_remarks(self, task: Any, name: str, part: P) -> list[str]:
        """What a person should know of a part that is judged, a line each."""
        return []

    def apart(self, parts: Mapping[str, P], data: Any) -> dict[str, P]:
        """Parts by name, cut where a score over all of one would say little."""
        return dict(parts)

    def lines(self, part: P) -> Iterator[str]:
        """What is read of a part, a sentence or a line of text at a time."""
