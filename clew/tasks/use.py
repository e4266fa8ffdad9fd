"""What may be asked of a trained run: typed rows in, typed answers out, as JSON and as text. Knows no task, no command
line, no server.

The command line, the server, Python and model cards are generic over `Use`, so that a task says once what it can be
asked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.decoding.continuous import Continuous, Wanted
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer
from clew.text.words import words_of

R = TypeVar("R", bound=Section)
A = TypeVar("A")

Objects = list[dict[str, Any]]
"""JSON objects that tell one answer."""


class TextRow(Section):
    text: str = Field(description="a text")


class PairRow(Section):
    text: str = Field(description="a text")
    second: str | None = Field(
        None, description="a second text that is read with it", json_schema_extra={"metavar": "TEXT|COLUMN"}
    )


class TwoTexts(PairRow):
    second: str = Field(description="the second text, which is read with the first")


class Options(Section):
    """What may be chosen when a run is asked: --flags, fields of JSON, keywords in Python. A field that the run's
    config has too, in its section `decoding` or at its top, such as `seed`, is the run's own where it is not given."""

    @classmethod
    def over(cls, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """The run's own values with those that are given in their place."""
        return {**own, **given}


class WritingOptions(DecodingConfig, Options):
    """How tokens are written. `beams`, `n_best` or `early_stop` asks for beam search."""

    seed: int = Field(0, description="another seed samples other texts", json_schema_extra={"metavar": "N"})

    @classmethod
    def over(cls, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        method = given.get("method")
        wide = [name for name in ("beams", "n_best", "early_stop") if given.get(name) is not None]
        for name in wide:
            if method not in (None, "beam") and given[name] != 1:
                raise UserError(f"{name} is for beam search, and method is {method}; leave one of them out")
        asks_for_beams = method is None and bool(wide)
        return {**own, **({"method": "beam"} if asks_for_beams else {}), **given}

    @property
    def decoding(self) -> DecodingConfig:
        return DecodingConfig(**{name: getattr(self, name) for name in DecodingConfig.model_fields})


class Answered(NamedTuple, Generic[R, A]):
    """A row, its number from 1 on, and the answer to it; None where the row is blank."""

    number: int
    row: R
    answer: A | None


Blocks = Iterator[list[Any]]
"""Lists of `Answered`, some at a time."""
Format = Callable[[Blocks, Any, bool], Iterator[str]]
"""`format(blocks, options, alone)`: the text that is written, as soon as it is there. `alone`: one row was given, on
the command line."""


def line_each(line: Callable[[Answered[Any, Any]], str]) -> Format:
    """A format with a line for each answer."""

    def write(blocks: Blocks, options: Any, alone: bool) -> Iterator[str]:
        for some in blocks:
            yield "".join(f"{line(each)}\n" for each in some)

    return write


def tokens_read(tokenizer: Tokenizer, texts: Sequence[str], *, by_words: bool = False) -> tuple[list[int], int | None]:
    """The tokens of texts and the id of the unknown one; `by_words` where a tokenizer of words is given them one by
    one."""
    by_words = by_words and tokenizer.unit == "word"
    ids = [token for text in texts for token in tokenizer.encode(" ".join(words_of(text)) if by_words else text)]
    return ids, tokenizer.unknown


@dataclass(frozen=True)
class Watch(Generic[R, A]):
    """What a server counts of rows and answers, beside the same of training examples."""

    tokens: Callable[[Any, R], tuple[list[int], int | None]]
    """`tokens(task, row)`: a row's tokens as the task reads them, nothing around them, and the id of the unknown
    one."""
    confidence: Callable[[A], float | None] = lambda answer: None
    """The mean probability of what was told."""
    labels: Callable[[Any, A], Sequence[str]] = lambda task, answer: ()
    row_of: Callable[[Any], R | None] | None = None
    """A training example as it would be asked."""
    own_labels: Callable[[Any, Any], Sequence[str]] = lambda task, example: ()
    is_quick: bool = False
    """Whether some training examples may be asked about when a server starts."""


class Growing(Protocol):
    """A text that grows token by token."""

    def add(self, token: int) -> str:
        """What a token adds to the text; nothing where it is a part of a character."""
        ...

    def rest(self) -> str:
        """What waits for bytes that will not come."""
        ...


@dataclass(frozen=True)
class Joining(Generic[R, A]):
    """How the rows of a use are written in a batch that others join and leave (`decoding.continuous`). A prompt is a
    text or tokens."""

    fits: Callable[[Any], bool]
    """`fits(options)`: whether a row with these options may; others ask for another algorithm."""
    batch: Callable[[Any, int, int], Continuous]
    """`batch(task, most_rows, most_bytes)`: a batch that holds at most so many bytes of what prompts have in common."""
    prompt: Callable[[R], str]
    tokens: Callable[[Any, str | Sequence[int], int | None], list[int]]
    """`tokens(task, prompt, number)`: what the model reads of it, or the sentence that refuses it, which names it by a
    number if it has one."""
    wanted: Callable[[Any, Sequence[int], Any, int], Wanted]
    """`wanted(task, tokens, options, number)`: what a row is to write behind what is read."""
    growing: Callable[[Any, str | Sequence[int]], Growing]
    """`growing(task, prompt)`: the text behind a prompt, token by token."""
    answer: Callable[[Any, R, Sequence[int], float], A]
    """`answer(task, row, tokens, log_prob)`: of the tokens that were written, without the one that ended them."""


@dataclass(frozen=True)
class Use(Generic[R, A]):
    """What may be asked of a run. The first field of `row` is TEXT on the command line and `text` in JSON."""

    about: str
    """One line: what a person gets."""
    row: type[R]
    """What is asked about: fields of JSON, columns of a table."""
    options: type[Options]
    answer: Callable[[Sequence[Any], Sequence[R], Any, Sequence[int]], Sequence[A | None]]
    """`answer(tasks, rows, options, numbers)`: of one task, with one behind it that helps (`beside`), or of several
    where they may answer `together`. A row that is refused is named by its number, and sampling draws by it, so that an
    answer is the same whichever other rows it is found with."""
    objects: Callable[[int, R, A | None, Any], Objects]
    """`objects(number, row, answer, options)`: an answer as JSON."""
    formats: Mapping[str, Format]
    """Answers as text; the first is the default. `json` is there besides."""
    help: str = ""
    """What `--help` says besides: how rows are given, examples, what is written."""
    row_for: Callable[[Any, Any], type[R]] | None = None
    """`row_for(data, options)`: the row that a run with this data section takes, where it depends on that."""
    read_file: Callable[[Path, Any, Mapping[str, str]], Iterator[R] | None] | None = None
    """`read_file(path, data, columns)`: the rows of a file that is neither lines nor a table (CoNLL, SQuAD); None where
    it is no such."""
    stream: Callable[[Sequence[Any], R, Any, int], Iterator[str] | None] | None = None
    """`stream(tasks, row, options, number)`: one answer piece by piece; None where the options do not allow it."""
    joins: Joining[R, A] | None = None
    """How rows are written in a batch that others join and leave, where they may be."""
    vector: Callable[[A], Sequence[float]] | None = None
    """`vector(answer)`: the one vector that an answer is, where it is one."""
    beside: Callable[[Any], str | None] = lambda options: None
    """`beside(options)`: the folder of another run that the answer takes help from; its task comes behind the one that
    is asked."""
    writes: Callable[[R, Any], int] = lambda row, options: getattr(options, "max_new", 0)
    """`writes(row, options)`: how many tokens the answer to a row may take, 0 where none are written; what a server
    bounds its work by."""
    together: bool = False
    """Whether several runs may answer as an ensemble."""
    answers_blank: bool = False
    """Whether a blank row has an answer too."""
    skips_blank: bool = False
    """Whether blank lines of a file or of standard input are left out."""
    tables: bool = True
    """Whether a file that is a table by its name is read by its columns; else as lines, unless a column is named."""
    begins: bool = False
    """Whether it may be asked about nothing: without TEXT and file it begins a text, and reads no standard input."""
    places: Callable[[Any, R], int] | None = None
    """`places(task, row)`, where the first field of a row is a file, a path or its bytes: how many places it takes, by
    its header alone. A server bounds its work by it, and takes the bytes of files and no paths: a client must not
    choose which files it reads."""
    local: tuple[str, ...] = ()
    """Options of the command line alone."""
    remarks: Callable[[Sequence[Any], Sequence[Answered[R, A]], Any], Iterator[str]] | None = None
    """`remarks(tasks, answered, options)`: what a person should know of all answers, a line each."""
    check: Callable[[Any, str, Any], None] | None = None
    """`check(task, format, options)` refuses a format that such a run has not."""
    try_it: Callable[[Mapping[str, Any]], tuple[list[str], str | None]] | None = None
    """From an example as an evaluation describes it to the words of a command that asks about it, and what it reads on
    standard input."""
    watch: Watch[R, A] | None = None

    def __repr__(self) -> str:
        return f"Use({self.about!r}: {', '.join(self.row.model_fields)})"

    @property
    def names_files(self) -> bool:
        """Whether the first field of a row is a file."""
        return self.places is not None

    def row_type(self, data: Any, options: Any) -> type[R]:
        return self.row if self.row_for is None else self.row_for(data, options)


class Shared(NamedTuple):
    """A use that runs of several tasks have: those whose task is one that is `offered` it."""

    use: Use[Any, Any]
    offered: Callable[[Any], bool]
