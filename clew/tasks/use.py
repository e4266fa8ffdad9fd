"""What a trained run can do: typed rows in, typed answers out, as JSON and as text. Knows no task, no command line, no
server.

The command line, the server, Python and model cards are generic over `Use`, so each task declares its uses once.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.core.wording import argument_name
from clew.decoding.continuous import Continuous, RowRequest
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer
from clew.text.words import words_of

R = TypeVar("R", bound=Section)
A = TypeVar("A")

Objects = list[dict[str, Any]]
"""One answer as JSON objects."""


class TextRow(Section):
    text: str = Field(description="a text")


class PairRow(Section):
    text: str = Field(description="a text")
    second: str | None = Field(
        None, description="a second text, read together with the first", json_schema_extra={"metavar": "TEXT|COLUMN"}
    )


class TwoTexts(PairRow):
    second: str = Field(description="the second text, read together with the first")


class Options(Section):
    """The options of a use: --flags, JSON fields, keywords in Python. The default of an option is the value in the
    run's config, in its section `decoding` or at the top level (such as `seed`), if it has one of that name."""

    @classmethod
    def over(cls, own: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return the run's own values, overridden by the requested ones."""
        return {**own, **requested}


class WritingOptions(DecodingConfig, Options):
    """How tokens are generated. `beams`, `n_best` or `early_stop` selects beam search."""

    seed: int = Field(0, description="the seed of sampling", json_schema_extra={"metavar": "N"})

    @classmethod
    def over(cls, own: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
        method = requested.get("method")
        beam_options = [name for name in ("beams", "n_best", "early_stop") if requested.get(name) is not None]
        for name in beam_options:
            if method not in (None, "beam") and requested[name] != 1:
                raise UserError(
                    f"{argument_name(name)} is for beam search, and {argument_name('method')} is {method}; leave one"
                    " of them out"
                )
        selects_beams = method is None and bool(beam_options)
        return {**own, **({"method": "beam"} if selects_beams else {}), **requested}

    @property
    def decoding(self) -> DecodingConfig:
        return DecodingConfig(**{name: getattr(self, name) for name in DecodingConfig.model_fields})


class Answered(NamedTuple, Generic[R, A]):
    """A row, its number (from 1), and its answer; None if the row is blank."""

    number: int
    row: R
    answer: A | None


Blocks = Iterator[list[Any]]
"""Lists of `Answered`, one block at a time."""
Format = Callable[[Blocks, Any, bool], Iterator[str]]
"""`format(blocks, options, alone)` yields the text to write, as soon as answers arrive. `alone` means that the only row
was given on the command line."""


def line_each(line: Callable[[Answered[Any, Any]], str]) -> Format:
    """Return a format that writes one line per answer."""

    def write(blocks: Blocks, options: Any, alone: bool) -> Iterator[str]:
        for block in blocks:
            yield "".join(f"{line(answered)}\n" for answered in block)

    return write


def tokens_read(tokenizer: Tokenizer, texts: Sequence[str], *, by_words: bool = False) -> tuple[list[int], int | None]:
    """Return the tokens of the texts, and the id of the unknown token. With `by_words`, a word tokenizer reads the
    texts split into words."""
    by_words = by_words and tokenizer.unit == "word"
    ids = [token for text in texts for token in tokenizer.encode(" ".join(words_of(text)) if by_words else text)]
    return ids, tokenizer.unknown


@dataclass(frozen=True)
class Watch(Generic[R, A]):
    """What a server monitors of rows and answers, compared with the training examples."""

    tokens: Callable[[Any, R], tuple[list[int], int | None]]
    """`tokens(task, row)`: a row's tokens as the task reads them, without special tokens around them, and the id of the
    unknown token."""
    confidence: Callable[[A], float | None] = lambda answer: None
    """`confidence(answer)`: the mean probability of its predictions."""
    labels: Callable[[Any, A], Sequence[str]] = lambda task, answer: ()
    row_of: Callable[[Any], R | None] | None = None
    """`row_of(example)`: a training example as a row."""
    own_labels: Callable[[Any, Any], Sequence[str]] = lambda task, example: ()
    is_quick: bool = False
    """Whether answers are cheap enough to run some training examples when a server starts."""


class Growing(Protocol):
    """A text that grows token by token."""

    def add(self, token: int) -> str:
        """Return what a token adds to the text; an empty string while a character is incomplete."""
        ...

    def rest(self) -> str:
        """Return what is left of an incomplete character at the end."""
        ...


@dataclass(frozen=True)
class Joining(Generic[R, A]):
    """How rows of a use are generated with continuous batching, where rows join and leave a running batch
    (`decoding.continuous`). A prompt is a text or tokens."""

    fits: Callable[[Any], bool]
    """`fits(options)`: whether rows with these options may join; other options need another algorithm."""
    batch: Callable[[Any, int, int], Continuous]
    """`batch(task, most_rows, most_bytes)`: a batch that caches at most `most_bytes` of prefixes shared by prompts."""
    prompt: Callable[[R], str]
    tokens: Callable[[Any, str | Sequence[int], int | None], list[int]]
    """`tokens(task, prompt, number)`: the tokens that the model reads. Raises UserError for a prompt it cannot read;
    the message names the prompt by its number, if it has one."""
    request: Callable[[Any, Sequence[int], Any, int], RowRequest]
    """`request(task, tokens, options, number)`: what to generate after the prompt."""
    growing: Callable[[Any, str | Sequence[int]], Growing]
    """`growing(task, prompt)`: the text after a prompt, token by token."""
    answer: Callable[[Any, R, Sequence[int], float], A]
    """`answer(task, row, tokens, log_prob)`: the answer made of the generated tokens, without the final end token."""


@dataclass(frozen=True)
class Use(Generic[R, A]):
    """One thing a run can do. The first field of `row` is TEXT on the command line and `text` in JSON."""

    about: str
    """One line that says what it does."""
    row: type[R]
    """An input: the fields of a JSON object, the columns of a table."""
    options: type[Options]
    answer: Callable[[Sequence[Any], Sequence[R], Any, Sequence[int]], Sequence[A | None]]
    """`answer(tasks, rows, options, numbers)`: the answers of one task, of one task and a second that helps it
    (`helper`), or of an ensemble (`together`). Messages name a row by its number, and sampling is seeded by it, so an
    answer does not depend on the other rows of the call."""
    objects: Callable[[int, R, A | None, Any], Objects]
    """`objects(number, row, answer, options)`: an answer as JSON."""
    formats: Mapping[str, Format]
    """Text formats of answers; the first is the default. `json` is always available too."""
    help: str = ""
    """The rest of `--help`: the input, examples, the output."""
    row_for: Callable[[Any, Any], type[R]] | None = None
    """`row_for(data, options)`: the type of rows for a run with this data section, if it depends on the run."""
    read_file: Callable[[Path, Any, Mapping[str, str]], Iterator[R] | None] | None = None
    """`read_file(path, data, columns)`: the rows of a file in a format that only this use reads (CoNLL, SQuAD); None if
    the file is lines of text or a table."""
    stream: Callable[[Sequence[Any], R, Any, int], Iterator[str] | None] | None = None
    """`stream(tasks, row, options, number)`: one answer piece by piece; None if the options do not allow it."""
    joins: Joining[R, A] | None = None
    """How rows are generated with continuous batching, if they can be."""
    vector: Callable[[A], Sequence[float]] | None = None
    """`vector(answer)`: the answer as one vector, if it is one."""
    helper: Callable[[Any], str | None] = lambda options: None
    """`helper(options)`: the folder of a second run that helps to answer; its task follows the first in `tasks`."""
    writes: Callable[[R, Any], int] = lambda row, options: getattr(options, "max_new", 0)
    """`writes(row, options)`: the most tokens that the answer to a row may take, 0 if nothing is generated. A server
    bounds its work by it."""
    together: bool = False
    """Whether several runs may answer as an ensemble."""
    answers_blank: bool = False
    """Whether a blank row gets an answer."""
    skips_blank: bool = False
    """Whether blank lines of a file or of standard input are skipped."""
    tables: bool = True
    """Whether a table is read by columns. If not, one of text is read as lines unless a column is named."""
    begins: bool = False
    """Whether it needs no input: without TEXT and file it begins a text and does not read standard input."""
    places: Callable[[Any, R], int] | None = None
    """`places(task, row)`, where the first field of a row is a file (a path or its bytes): the number of positions it
    takes, computed from the header alone. A server bounds its work by it. A server takes bytes, never paths: a client
    must not choose which files it reads."""
    local: tuple[str, ...] = ()
    """Options that only the command line has."""
    remarks: Callable[[Sequence[Any], Sequence[Answered[R, A]], Any], Iterator[str]] | None = None
    """`remarks(tasks, answered, options)`: what a person should know about all answers, one line each."""
    check: Callable[[Any, str, Any], None] | None = None
    """`check(task, format, options)` raises UserError for a format that the run does not have."""
    try_it: Callable[[Mapping[str, Any]], tuple[list[str], str | None]] | None = None
    """Maps an example, as an evaluation describes it, to the arguments of a command that answers it, and to its
    standard input."""
    watch: Watch[R, A] | None = None

    def __repr__(self) -> str:
        return f"Use({self.about!r}: {', '.join(self.row.model_fields)})"

    @property
    def names_files(self) -> bool:
        """Whether the first field of a row names a file."""
        return self.places is not None

    def row_type(self, data: Any, options: Any) -> type[R]:
        return self.row if self.row_for is None else self.row_for(data, options)


class Shared(NamedTuple):
    """A use that several tasks share: those for which `offered(task)` is true."""

    use: Use[Any, Any]
    offered: Callable[[Any], bool]
