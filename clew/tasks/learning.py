"""How a task learns: how it reads data, makes vocabularies and batches of it, and is evaluated. Knows no task, no run
and no training loop.

`tasks.learnings` has three ways: examples, streams and documents. A task's entry names one of them. Everything from
higher packages is passed in: tokenizers, batch sizes, progress, autocast, how processes share a model.
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
"""A part of the data as read: a list of examples, a text, or documents."""
E = TypeVar("E")
"""A part of the data as token ids."""

Autocast = Callable[[], AbstractContextManager[Any]]
PartFiles = Sequence[Path | str] | Sequence[Path | str | TextString]
"""The files of a part; for text and documents also what was read from standard input."""


class Batching(Protocol):
    """The fields of the section `training` that describe batches."""

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
    """Tokenizers as the section `text` configures them, trained on the training part; or, for a fine-tuned run, the
    tokenizer of its base run."""

    @property
    def joint(self) -> bool:
        """Whether source and target share a tokenizer."""

    def of_text(self, texts: Iterable[str], *, framed: bool = False) -> Tokenizer:
        """Return a tokenizer for running text. `framed` puts texts between [CLS] and [SEP], if it has these tokens."""

    def of_stream(self, stream: TextStream) -> Tokenizer:
        """Return a tokenizer for a stream of running text, trained on its beginning, which is recorded with the
        stream."""

    def of_sequences(self, texts: Iterable[str], specials: Sequence[str] = ()) -> Tokenizer:
        """Return a tokenizer for sequences that end, in which each of `specials` is a token."""


@dataclass(frozen=True)
class Encoding:
    """How a part is encoded: its name, whether the run trains on it, by how many processes, and where token ids are
    cached."""

    name: str
    training: Batching
    to_train: bool = False
    workers: int = 1
    progress: Callable[[int, int], None] | None = None
    cache: Path = field(default_factory=cache_folder)
    vocabularies: Mapping[str, Any] = field(default_factory=dict)
    """The task's tokenizers and label tables by role: part of the key under which ids are cached."""


@dataclass(frozen=True)
class Evaluation:
    """How a part is evaluated. A final evaluation decodes as `decoding` says, one during training greedily.
    `interrupted` says when to stop; only a process that runs alone may. Within `whole(task)` each process may call the
    task as often as it likes."""

    training: Batching
    decoding: DecodingConfig
    seed: int
    is_final: bool = False
    most_tokens: int | None = None
    """About how many tokens of a part to read at most: the same ones every time."""
    autocast: Autocast = nullcontext
    interrupted: Callable[[], bool] = lambda: False
    progress: Callable[[int, int], None] = lambda done, total: None
    """Called after each batch of this process with the number of batches done and the total."""
    whole: Callable[[nn.Module], AbstractContextManager[Any]] = lambda task: nullcontext()


class Learning(Protocol[P, E]):
    """A way to learn. Methods with a body are optional: the body is the default."""

    @property
    def section(self) -> type[DataSection]:
        """The type of the config's section `data`."""

    @property
    def reads(self) -> str:
        """A sentence that describes the training data."""

    is_running: ClassVar[bool] = False
    """Whether it learns from running text, where line ends separate sentences."""
    can_cap: ClassVar[bool] = False
    """Whether an evaluation may read only a fraction of a part."""
    has_examples: ClassVar[bool] = False
    """Whether an evaluation is over examples, each with its prediction and score."""

    def read(self, data: Any, seed: int, notes: Notes) -> dict[str, P]:
        """Return the parts of a config by name: train, valid, and test if there is one. Skipped data are noted."""

    def read_files(self, files: PartFiles, data: Any, notes: Notes) -> P:
        """Read one part from files, as the config says."""

    def check(self, task: Any, training: Batching) -> None:
        """Raise UserError for training settings that the task's body does not support, before anything is encoded."""

    def content(self, part: P) -> str | None:
        """Return a string that identifies the content of a large part; None for a small one, which is quick to read
        again."""
        return None

    def vocabularies(self, train: P, tokenizers: Tokenizers, task: TaskSection) -> dict[str, Any]:
        """Build every tokenizer and label table from the training part, by role."""

    def encode(self, task: Any, part: P, encoding: Encoding) -> E:
        """Encode a part as ids, once. Raises UserError for data the task cannot read. Every process must call it."""

    def prepare(self, task: Any, encoded: E) -> None:
        """Set what a new task computes from the encoded training part and does not train."""
        return None

    def batches(self, task: Any, encoded: E, training: Batching, seed: int) -> Batches:
        """Return the batches of all processes together, by epoch and number."""

    def judge(self, task: Any, forward: Any, part: P, encoded: E, evaluation: Evaluation) -> Score | None:
        """Score a part, each process its share; None if interrupted. `forward` is the task or its compiled form."""

    def settle(self, task: Any, part: P, encoded: E, evaluation: Evaluation) -> bool:
        """After training, fit parameters that only depend on the validation part, such as a threshold. Return whether
        the task changed."""
        return False

    def known(self, task: Any, part: P, encoded: Callable[[], E]) -> Any:
        """Return a part as the task's baselines read it. It is encoded only when they ask for it."""

    def identity(self, part: P, encoded: E, training: Batching, seed: int) -> dict[str, Known]:
        """Return what must be the same when a run is resumed: the training part and the order of its batches."""

    def describe(self, vocabularies: Mapping[str, Any], parts: Mapping[str, P], encoded: Mapping[str, E]) -> str:
        """Describe the data in a sentence."""

    def remarks(self, task: Any, parts: Mapping[str, P], encoded: Mapping[str, E]) -> list[str]:
        """Return what a person should know about the data, one line each."""
        return []

    def judged_remarks(self, task: Any, name: str, part: P) -> list[str]:
        """Return what a person should know about an evaluated part, one line each."""
        return []

    def apart(self, parts: Mapping[str, P], data: Any) -> dict[str, P]:
        """Return the parts by name, divided where one score over a whole part would say little."""
        return dict(parts)

    def lines(self, part: P) -> Iterator[str]:
        """Iterate over a part, one sentence or line of text at a time."""
