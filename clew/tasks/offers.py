"""Capabilities: what an instrument, an export or the page may ask of a model. Knows no task, no run and no instrument.

A capability is a method that a model has or has not. Whoever needs one asks `lacking(model, name)`, never which task a
model is of:

    reads          a text as one row of tokens, its vectors and its levels     -> Reading
    predicts       the tokens of a reading that have a probability             -> list[Predicted]
    expects        what may come next, or stands in the place of a mask        -> list[Expected]
    scores_tokens  what each vector of a reading says of tokens                -> TokenScores
    own_target     what is written for a text: a translation, a tree           -> str
    steps          writing token by token                                      -> Begun
    streams        a text of any length, read token by token                   -> Streamed
    judges         the labels of a text, a number, or the tags of its words    -> Judged
    explains       one score as a function of what is read                     -> Explained
    spells         what is said in a sound, and where each letter lies         -> Heard
    aligns         which token of the source each token written looks at       -> Alignment
    looks          where in a picture each word written looks                  -> list[SentenceLooks]
    vectors        a vector for every word of a text by itself                 -> TextBody
    programs       what is written for another runtime (`tasks.uses.programs`)      -> list[ReadingProgram | SteppingProgram]

A model that has the method may still be built so that it cannot: its `without(name)` says why. `languages` are those
that a text may go into.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor, nn

from clew.core.layouts import Layout
from clew.core.modes import evaluating
from clew.core.types import State
from clew.decoding.stepper import Stepper
from clew.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from clew.sources.words import WordReader
    from clew.tasks.shared.alignment import Alignment
    from clew.tasks.shared.picture_looks import SentenceLooks
    from clew.tasks.shared.transcripts import Heard
    from clew.tasks.uses.explaining import Explained
    from clew.tasks.uses.writing import DecodingConfig


class Given(NamedTuple):
    """What a model is given: a text; where it reads files, the path or the bytes of one, or what its reader takes. The
    target and the language of one that writes; the other text of one that judges two together. The boxes [left, top,
    right, bottom] of a picture, in pixels, and a phrase for each, of one that reads them."""

    text: Any
    target: str | None = None
    into: str = ""
    second: str | None = None
    boxes: Sequence[Sequence[int]] = ()
    phrases: Sequence[str] = ()


@dataclass(frozen=True)
class Reading:
    """One row as `model` reads it: `tokens` and `ids` of every place; of a model that writes besides, `written` and
    `written_ids` of every place of its target, its end the last, and `begin`, which its decoder reads first. `batch` is
    what its body takes. `spans` are the characters [start, stop) of the text that each place stands for; None of what
    was put around it."""

    model: "Reads"
    text: str
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    batch: Any
    written: tuple[str, ...] = ()
    written_ids: tuple[int, ...] = ()
    spans: tuple[tuple[int, int] | None, ...] = ()
    tokenizer: Tokenizer | None = None
    target: Tokenizer | None = None
    begin: str = ""
    limit: int | None = None
    """How many positions the model can tell apart, where that is bounded."""
    layout: Layout | None = None
    """How the places lie, where what is read is no text."""

    @property
    def places(self) -> Layout:
        """What stands at each place of what is read, and how places lie."""
        return Layout(self.pieces) if self.layout is None else self.layout

    @property
    def written_places(self) -> Layout:
        """Of what is written."""
        return Layout(self.written)

    @property
    def module(self) -> nn.Module:
        """What is run, and watched by the paths of its parts."""
        module: nn.Module = self.model if isinstance(self.model, nn.Module) else getattr(self.model, "module")  # noqa: B009
        return module

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text itself, place by place; the token where that is no part of it."""
        found = zip(self.tokens, self.spans or [None] * len(self.tokens), strict=True)
        return tuple(token if span is None or span[0] >= span[1] else self.text[slice(*span)] for token, span in found)

    @property
    def writes(self) -> bool:
        return bool(self.written)

    @property
    def read_by_decoder(self) -> tuple[str, ...]:
        """What a decoder reads at each place: what it wrote before."""
        return (self.begin, *self.written[:-1])

    def num_unknown(self, ids: Sequence[int]) -> int:
        """How many of these ids stand for all that the model does not know."""
        unknown = {tokenizer.unknown for tokenizer in (self.tokenizer, self.target) if tokenizer is not None} - {None}
        return sum(id in unknown for id in ids)

    def is_by_character(self, *, written: bool = False) -> bool:
        """Whether a token is a character, of what is read or of what is written."""
        tokenizer = self.target if written else self.tokenizer
        return tokenizer is not None and tokenizer.unit == "character"

    def forward(self) -> Tensor:
        """The body's vectors (1, length, dim), with gradients where they are on: of what is read, or of what is
        written."""
        return self.model.runs(self)

    def hidden(self) -> Tensor:
        """The same without gradients, in evaluation mode."""
        with evaluating([self.module]):
            return self.forward()

    def levels(self) -> list["Levels"]:
        """What the embedding and every block give, without gradients."""
        with evaluating([self.module]):
            return self.model.levels(self)


class Levels(NamedTuple):
    """What each level of one half of a model gives: `values` (places, dim) by `names`, the lowest first, at the places
    `tokens` name."""

    half: str
    tokens: tuple[str, ...]
    names: tuple[str, ...]
    values: list[Tensor]


class Carried(NamedTuple):
    """Reading a token at a time: `step(t, state)` gives the body's vector (1, 1, dim) at t and the state after it."""

    step: Callable[[int, State], tuple[Tensor, State]]
    state: State


class Predicted(NamedTuple):
    """Tokens that have a probability: their `places` among `tokens`, their `ids`, and the vectors `hidden` (places,
    dim) of which `output` makes scores (places, vocabulary). `pseudo`: each is told by both sides of it, so that the
    sum is no probability of the text."""

    tokens: tuple[str, ...]
    places: Sequence[int]
    ids: Tensor
    hidden: Tensor
    output: Callable[[Tensor], Tensor]
    tokenizer: Tokenizer
    name: str = ""
    pseudo: bool = False

    def log_probs(self, places: slice = slice(None)) -> Tensor:
        """(places, vocabulary), in nats."""
        return self.output(self.hidden[places]).float().cpu().log_softmax(-1)


class Expected(NamedTuple):
    """What may stand somewhere: log p (vocabulary,) in nats, and where that is, where there are several places."""

    log_probs: Tensor
    tokenizer: Tokenizer
    at: str = ""


class TokenScores(NamedTuple):
    """What the vectors of a reading say of tokens: `output` makes scores (..., vocabulary) of them, `log_probs` the
    logarithms of their softmax. `ids` are what the first vectors are to name. `levels` gives every layer's output (1,
    places, dim) of `body`, whose last is what `output` reads. `comes_after`: a place tells the token after it, and not
    its own."""

    output: Callable[[Tensor], Tensor]
    log_probs: Callable[[Tensor], Tensor]
    ids: tuple[int, ...]
    tokenizer: Tokenizer
    body: Any
    levels: Callable[[], list[Tensor]]
    comes_after: bool = False


@dataclass(frozen=True)
class Begun:
    """Writing that has begun: `stepper` goes on from `start` (1, length), for `most` tokens or up to one of `ends`.
    `before` is the text that is gone on from, `end` the token that ends one whatever is asked for, and `limit` how many
    positions there are."""

    stepper: Stepper
    start: Tensor
    tokenizer: Tokenizer
    end: int | None
    ends: tuple[int, ...]
    most: int
    text_of: Callable[[Sequence[int]], str]
    before: str = ""
    limit: int | None = None

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens say that were written, their end left out."""
        ids = list(tokens)
        return self.text_of(ids[:-1] if ids and ids[-1] in self.ends else ids)


class Streamed(NamedTuple):
    """A text as one stream of tokens, of which the first `before` are none of its own; the characters of each of the
    others."""

    tokens: list[int]
    before: int
    offsets: list[tuple[int, int]]


class JudgedWord(NamedTuple):
    word: str
    tag: str
    probability: float


class JudgedSpan(NamedTuple):
    label: str
    text: str
    probability: float


@dataclass(frozen=True)
class Judged:
    """Labels, the likeliest first, and the probability of each; or a number; or words with their tags, and phrases."""

    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    number: float | None = None
    words: tuple[JudgedWord, ...] = ()
    spans: tuple[JudgedSpan, ...] = ()

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else "|".join(self.labels)


class TextBody(NamedTuple):
    """The body that has a vector for each place of a text, and the reader that encodes texts for it."""

    body: Any
    reader: "WordReader"


class Reads(Protocol):
    """A text is one row of tokens, and the model has a vector for each."""

    def reads(self, given: Given, *, any_length: bool = False) -> Reading:
        """The row; refused where it is empty, or longer than the model's positions, unless the model is not to be
        run."""

    def runs(self, reading: Reading) -> Tensor:
        """The body's vectors (1, length, dim), of what is read or of what is written."""

    def levels(self, reading: Reading) -> list[Levels]:
        """What the embedding and every block give; of a model that reads and writes, of each half."""

    def carries(self, reading: Reading) -> Carried | None:
        """The same row a token at a time; None where a model sees all of it at once."""

    def entrance(self, reading: Reading) -> str:
        """The path of the part whose output the layers read; empty where vectors are given, and none are looked up."""


class Predicts(Protocol):
    def predicts(self, reading: Reading) -> list[Predicted]:
        """A language model one, one that reads both ways two, a masked one each token masked in its turn, a translator
        its target."""


class Expects(Protocol):
    def expects(self, given: Given) -> list[Expected]:
        """What comes after a text, or after what was written of its target; of a masked model, what stands at each
        mask."""


class ScoresTokens(Protocol):
    def scores_tokens(self, reading: Reading) -> TokenScores:
        """What each vector says of tokens, with nothing masked that is given."""


class WritesTarget(Protocol):
    def own_target(self, given: Given, config: "DecodingConfig | None" = None) -> str:
        """The best target for a text, greedily."""


class Steps(Protocol):
    def steps(self, given: Given, config: "DecodingConfig | None" = None) -> Begun:
        """Writing token by token: by the model's own probabilities, or filtered and ended as a config asks for."""


class Streams(Protocol):
    def streams(self, text: str) -> Streamed:
        """A text of any length as a stream of tokens."""


class Judges(Protocol):
    def judges(self, given: Given) -> Judged:
        """The labels of a text or of two together, a number, or the tags of its words."""


class Explains(Protocol):
    def explains(self, given: Given, of: str | None = None, place: int | None = None) -> "Explained":
        """The score of a class, a tag or a token, the likeliest where none is said; at a word, a mask or a token of the
        target."""


class Aligns(Protocol):
    def aligns(self, given: Given, layer: int | None = None) -> "Alignment":
        """How much each token written looks at each of the source."""

    def around(self, into: str) -> tuple[list[int], list[int]]:
        """The tokens that stand before and behind a source's own."""


class LooksAtPictures(Protocol):
    def looks(
        self, given: Given, layer: int | None = None, config: "DecodingConfig | None" = None
    ) -> "list[SentenceLooks]":
        """Where in a picture each word of its target looks, sentence by sentence; of the best target where none is
        given."""


class Spells(Protocol):
    def spells(self, given: Given, config: "DecodingConfig | None" = None) -> "Heard":
        """What is said in a sound, or stands in a line of writing, and where in it each letter lies."""


class HasVectors(Protocol):
    def vectors(self) -> TextBody:
        """What has a vector for each word of a text by itself."""


class Capability(NamedTuple):
    """`missing` goes on from the name of a model that has it not."""

    protocol: type
    missing: str


CAPABILITIES: dict[str, Capability] = {
    "reads": Capability(Reads, "reads no text by itself"),
    "predicts": Capability(Predicts, "gives no probability to a token"),
    "expects": Capability(Expects, "predicts no next token"),
    "scores_tokens": Capability(ScoresTokens, "has no output layer over tokens to look through"),
    "own_target": Capability(WritesTarget, "writes no target"),
    "steps": Capability(Steps, "writes no text step by step"),
    "streams": Capability(Streams, "is no language model, which reads a text of any length"),
    "judges": Capability(Judges, "gives no labels"),
    "explains": Capability(Explains, "gives no single score to explain"),
    "aligns": Capability(Aligns, "writes no target that could be aligned"),
    "looks": Capability(LooksAtPictures, "writes no text on pictures"),
    "spells": Capability(Spells, "writes down neither sounds nor lines of writing"),
    "vectors": Capability(HasVectors, "has no vectors of the words of a text"),
}


def lacking(model: Any, name: str) -> str | None:
    """Why a model has not a capability, as a sentence goes on from its name; None where it has it."""
    without = getattr(model, "without", None)
    why = without(name) if callable(without) else None
    return why if why is not None or callable(getattr(model, name, None)) else CAPABILITIES[name].missing


def offered(model: Any) -> list[str]:
    """The names of all capabilities that a model has."""
    return [name for name in CAPABILITIES if lacking(model, name) is None]


def reads_files(model: Any) -> bool:
    """Whether what it is given as a text is a file: a picture, a sound."""
    return bool(getattr(model, "names_files", False))


def languages_of(model: Any) -> list[str]:
    """Those that a text may go into; none where there is one alone."""
    return list(getattr(model, "languages", ()))
