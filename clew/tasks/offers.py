"""Capabilities: what an instrument, an export or the page may ask of a model. Knows no task, no run and no instrument.

A capability is a method that a model may have. Code that needs one asks `lacking(model, name)`, never which task the
model was built for:

    reads          a text as one row of tokens, its vectors and its levels    -> Reading
    predicts       the tokens of a reading that have a probability            -> list[Predicted]
    expects        the distribution of the next token, or at each mask        -> list[Expected]
    scores_tokens  scores over tokens for each vector of a reading            -> TokenScores
    own_target     what is written for a text: a translation, a tree          -> str
    steps          generation token by token                                  -> Begun
    streams        a text of any length, read token by token                  -> Streamed
    judges         the labels of a text, a number, or the tags of its words   -> Judged
    explains       one score as a function of the input                       -> Explained
    spells         a transcript, and the position of each letter in the input -> Transcription
    aligns         attention from each target token to the source tokens      -> Alignment
    looks          attention from each written word to a picture              -> list[SentenceLooks]
    vectors        a vector for every word of a text                          -> TextBody
    programs       programs for another runtime (`tasks.uses.programs`)       -> list[ReadingProgram | SteppingProgram]

A model with the method may still lack the capability, depending on how it was built: its `without(name)` says why. A
model's `languages` are the target languages that it can write.
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
    from clew.tasks.shared.transcripts import Transcription
    from clew.tasks.uses.explaining import Explained
    from clew.tasks.uses.writing import DecodingConfig


class ModelInput(NamedTuple):
    """The input of a model. `text` is a text or, for a model that reads files, a path, the bytes of a file, or what its
    reader takes. A model that writes may have a `target` and a language (`into`); one that reads two texts together has
    a `second`. A captioner of regions reads the boxes [left, top, right, bottom] of a picture, in pixels, and a phrase
    for each."""

    text: Any
    target: str | None = None
    into: str = ""
    second: str | None = None
    boxes: Sequence[Sequence[int]] = ()
    phrases: Sequence[str] = ()


@dataclass(frozen=True)
class Reading:
    """One row as `model` reads it: the `tokens` and `ids` at every position. A model that writes also has `written` and
    `written_ids` at every position of its target, the end token last, and `begin`, the first input of its decoder.
    `batch` is the input of the body. `spans` are the characters [start, stop) of the text at each position; None for
    special tokens around it."""

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
    """The model's maximum length, if it has one."""
    layout: Layout | None = None
    """The arrangement of the positions, if the input is not a text."""

    @property
    def places(self) -> Layout:
        """The label of each input position, and how positions are arranged."""
        return Layout(self.pieces) if self.layout is None else self.layout

    @property
    def written_places(self) -> Layout:
        """The label of each target position."""
        return Layout(self.written)

    @property
    def module(self) -> nn.Module:
        """The module to run; recordings name its submodules by their paths."""
        module: nn.Module = self.model if isinstance(self.model, nn.Module) else getattr(self.model, "module")  # noqa: B009
        return module

    @property
    def pieces(self) -> tuple[str, ...]:
        """The characters of the text at each position, or the token where it covers none."""
        pairs = zip(self.tokens, self.spans or [None] * len(self.tokens), strict=True)
        return tuple(token if span is None or span[0] >= span[1] else self.text[slice(*span)] for token, span in pairs)

    @property
    def writes(self) -> bool:
        return bool(self.written)

    @property
    def read_by_decoder(self) -> tuple[str, ...]:
        """The decoder's input at each position: the token before, teacher forced."""
        return (self.begin, *self.written[:-1])

    def num_unknown(self, ids: Sequence[int]) -> int:
        """Count the unknown tokens among the ids."""
        unknown = {tokenizer.unknown for tokenizer in (self.tokenizer, self.target) if tokenizer is not None} - {None}
        return sum(id in unknown for id in ids)

    def is_by_character(self, *, written: bool = False) -> bool:
        """Return whether the tokens of the input, or of the target, are characters."""
        tokenizer = self.target if written else self.tokenizer
        return tokenizer is not None and tokenizer.unit == "character"

    def forward(self) -> Tensor:
        """Return the body's vectors (1, length, dim) of the input, or of the target if the model writes. Gradients flow
        if they are enabled."""
        return self.model.runs(self)

    def hidden(self) -> Tensor:
        """Return the same in evaluation mode, without gradients."""
        with evaluating([self.module]):
            return self.forward()

    def levels(self) -> list["Levels"]:
        """Return the output of the embedding and of every block, without gradients."""
        with evaluating([self.module]):
            return self.model.levels(self)


class Levels(NamedTuple):
    """The output of each level in one half of a model: `values` (positions, dim), one for each of `names`, the lowest
    level first. `tokens` label the positions."""

    half: str
    tokens: tuple[str, ...]
    names: tuple[str, ...]
    values: list[Tensor]


class Carried(NamedTuple):
    """A reading taken one token at a time: `step(t, state)` returns the body's vector (1, 1, dim) at t and the new
    state."""

    step: Callable[[int, State], tuple[Tensor, State]]
    state: State


class Predicted(NamedTuple):
    """Tokens that have a probability: their `places` among `tokens`, their `ids`, and the vectors `hidden` (positions,
    dim) that `output` maps to scores (positions, vocabulary). `pseudo` means that each prediction sees both sides of
    the token, so the sum of the log probabilities is not the text's log probability."""

    tokens: tuple[str, ...]
    places: Sequence[int]
    ids: Tensor
    hidden: Tensor
    output: Callable[[Tensor], Tensor]
    tokenizer: Tokenizer
    name: str = ""
    pseudo: bool = False

    def log_probs(self, places: slice = slice(None)) -> Tensor:
        """Return log p (positions, vocabulary), in nats."""
        return self.output(self.hidden[places]).float().cpu().log_softmax(-1)


class Expected(NamedTuple):
    """The distribution at one position: log p (vocabulary,) in nats, and the position's name if there are several."""

    log_probs: Tensor
    tokenizer: Tokenizer
    at: str = ""


class TokenScores(NamedTuple):
    """Scores over tokens for each vector of a reading: `output` maps vectors to scores (..., vocabulary), `log_probs`
    to log-softmax scores. `ids` are the targets of the first vectors. `levels` returns the output (1, positions, dim)
    of every layer of `body`; the last is the input of `output`. `comes_after` means that a position predicts the token
    after it, not its own."""

    output: Callable[[Tensor], Tensor]
    log_probs: Callable[[Tensor], Tensor]
    ids: tuple[int, ...]
    tokenizer: Tokenizer
    body: Any
    levels: Callable[[], list[Tensor]]
    comes_after: bool = False


@dataclass(frozen=True)
class Begun:
    """A generation that has started: `stepper` continues from `start` (1, length), for `most` tokens or until one of
    `ends`. `before` is the prompt's text, `end` the token that always ends a text, and `limit` the maximum length."""

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
        """Decode generated tokens, without their end token."""
        ids = list(tokens)
        return self.text_of(ids[:-1] if ids and ids[-1] in self.ends else ids)


class Streamed(NamedTuple):
    """A text as one stream of tokens. The first `before` are special tokens; `offsets` are the characters of each of
    the others."""

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
    """A prediction: labels, the most probable first, and the probability of each; or a number; or words with tags, and
    phrases."""

    labels: tuple[str, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    number: float | None = None
    words: tuple[JudgedWord, ...] = ()
    spans: tuple[JudgedSpan, ...] = ()

    def __str__(self) -> str:
        return f"{self.number:g}" if self.number is not None else "|".join(self.labels)


class TextBody(NamedTuple):
    """A body with a vector for each position of a text, and the reader that encodes texts for it."""

    body: Any
    reader: "WordReader"


class Reads(Protocol):
    """Reads a text as one row of tokens, with a vector for each."""

    def reads(self, model_input: ModelInput, *, any_length: bool = False) -> Reading:
        """Encode the input as a row. Raises UserError if it is empty, or longer than the model's maximum length unless
        `any_length`, for readings that are not run."""

    def runs(self, reading: Reading) -> Tensor:
        """Return the body's vectors (1, length, dim) of the input, or of the target."""

    def levels(self, reading: Reading) -> list[Levels]:
        """Return the output of the embedding and of every block; for an encoder-decoder, of each half."""

    def carries(self, reading: Reading) -> Carried | None:
        """Return the same row one token at a time; None if the model needs all of it at once."""

    def entrance(self, reading: Reading) -> str:
        """Return the path of the module whose output the layers read; empty if the input is already vectors."""


class Predicts(Protocol):
    def predicts(self, reading: Reading) -> list[Predicted]:
        """Return one prediction for a language model, two for one that reads both ways. A masked model masks each token
        in turn; a translator predicts its target."""


class Expects(Protocol):
    def expects(self, model_input: ModelInput) -> list[Expected]:
        """Return the distribution after a text, or after the given part of its target; for a masked model, at each
        mask."""


class ScoresTokens(Protocol):
    def scores_tokens(self, reading: Reading) -> TokenScores:
        """Return the scores over tokens at each position; no input token is masked."""


class WritesTarget(Protocol):
    def own_target(self, model_input: ModelInput, config: "DecodingConfig | None" = None) -> str:
        """Return the model's target for a text, greedily by default."""


class Steps(Protocol):
    def steps(self, model_input: ModelInput, config: "DecodingConfig | None" = None) -> Begun:
        """Start a generation: by the model's own probabilities, or filtered and ended as the config says."""


class Streams(Protocol):
    def streams(self, text: str) -> Streamed:
        """Encode a text of any length as a stream of tokens."""


class Judges(Protocol):
    def judges(self, model_input: ModelInput) -> Judged:
        """Predict the labels of one text or of two together, a number, or the tags of the words."""


class Explains(Protocol):
    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> "Explained":
        """Return the score of a class, a tag or a token (by default the most probable), at a word, a mask or a target
        token, as a function of the input."""


class Aligns(Protocol):
    def aligns(self, model_input: ModelInput, layer: int | None = None) -> "Alignment":
        """Return the attention weights from each target token to each source token."""

    def around(self, into: str) -> tuple[list[int], list[int]]:
        """Return the special tokens before and after a source."""


class LooksAtPictures(Protocol):
    def looks(
        self, model_input: ModelInput, layer: int | None = None, config: "DecodingConfig | None" = None
    ) -> "list[SentenceLooks]":
        """Return where in a picture each word of the target looks, per sentence. The model writes the target if none is
        given."""


class Spells(Protocol):
    def spells(self, model_input: ModelInput, config: "DecodingConfig | None" = None) -> "Transcription":
        """Transcribe a sound or a line of handwriting, with the position of each letter in it."""


class HasVectors(Protocol):
    def vectors(self) -> TextBody:
        """Return the body that has a vector for each word of a text."""


class Capability(NamedTuple):
    """`missing` completes a sentence that starts with the name of a model without the capability."""

    protocol: type
    missing: str


CAPABILITIES: dict[str, Capability] = {
    "reads": Capability(Reads, "reads no text by itself"),
    "predicts": Capability(Predicts, "gives no probability to a token"),
    "expects": Capability(Expects, "predicts no next token"),
    "scores_tokens": Capability(ScoresTokens, "has no output layer over tokens"),
    "own_target": Capability(WritesTarget, "writes no target"),
    "steps": Capability(Steps, "does not generate text token by token"),
    "streams": Capability(Streams, "is not a language model, and only those read a text of any length"),
    "judges": Capability(Judges, "predicts no labels"),
    "explains": Capability(Explains, "has no single score to explain"),
    "aligns": Capability(Aligns, "writes no target that could be aligned"),
    "looks": Capability(LooksAtPictures, "does not caption pictures"),
    "spells": Capability(Spells, "does not transcribe sounds or handwriting"),
    "vectors": Capability(HasVectors, "has no vectors for the words of a text"),
}


def lacking(model: Any, name: str) -> str | None:
    """Return why a model lacks a capability, to complete a sentence that starts with the model's name; None if it has
    the capability."""
    without = getattr(model, "without", None)
    reason = without(name) if callable(without) else None
    return reason if reason is not None or callable(getattr(model, name, None)) else CAPABILITIES[name].missing


def offered(model: Any) -> list[str]:
    """Return the names of all capabilities of a model."""
    return [name for name in CAPABILITIES if lacking(model, name) is None]


def reads_files(model: Any) -> bool:
    """Return whether the model's input is a file: a picture or a sound."""
    return bool(getattr(model, "names_files", False))


def languages_of(model: Any) -> list[str]:
    """Return the target languages of a multilingual model; empty for a model with one."""
    return list(getattr(model, "languages", ()))
