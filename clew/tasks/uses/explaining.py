"""Scores that an attribution explains, as functions of the embedding's output vectors.

A score is the logit of a class or of a tag, or the log-probability of the next token, of a token in the place of
[MASK], or of a token that a translator writes. The embedding's output is replaced by intervening, which works the
same way for every body.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from clew.core.batches import map_batch
from clew.core.errors import UserError, unknown
from clew.core.layouts import Layout
from clew.core.wording import argument_name
from clew.inspection.recording import intervene, record
from clew.layers.context import Context
from clew.layers.embeddings import Words, tokens_of
from clew.sources.canvases import Canvas
from clew.tasks.shared.reading import no_text
from clew.text.tokenizer import Tokenizer

G = TypeVar("G")


@dataclass(frozen=True)
class Explained:
    """A score to explain, and the inputs that it depends on.

    `score` takes the body's inputs as rows. `tokens` are the names of the places, `own` marks the tokens that belong
    to the text itself, and `what` describes the score. `embedding` is the path of the part that turns `inputs` into
    vectors, or None if `inputs` are vectors.
    """

    module: nn.Module
    inputs: Any  # one row
    score: Callable[[Any], Tensor]
    tokens: tuple[str, ...]
    own: tuple[bool, ...]
    what: str
    tokenizer: Tokenizer | None
    embedding: str | None = "body.embedding"
    movable: bool = True
    """Whether the score has the same meaning after a token is removed."""
    unit: str = "nats"
    """The unit of the score: nats for a logit or a log-probability, empty for a number."""
    layout: Layout | None = None
    """How the places are arranged, if the input is not text."""
    canvas: Canvas | None = None
    """The canvas that a map over the input is drawn on, if it is a picture or a sound. The input's numbers are then
    what the score is attributed to."""

    @classmethod
    def of_input(
        cls,
        module: nn.Module,
        inputs: Any,
        score: Callable[[Any], Tensor],
        what: str,
        layout: Layout,
        canvas: Canvas,
        tap: str,
        *,
        unit: str = "nats",
    ) -> "Explained":
        """Create the score of a picture or a sound. `tap` is the path of the tap that shows the embedding's input."""
        own = (True,) * len(layout.names)
        return cls(module, inputs, score, layout.names, own, what, None, tap, False, unit, layout, canvas)

    @property
    def places(self) -> Layout:
        return Layout(self.tokens) if self.layout is None else self.layout

    def vectors(self, inputs: Any = None) -> Tensor:
        """Return the embedding's output (places, dim); for a picture or a sound its input numbers, such as pixels
        (height, width, channels)."""
        inputs = self.inputs if inputs is None else inputs
        if self.embedding is None:
            vectors: Tensor = inputs[0].detach()
            return vectors
        with torch.no_grad(), record(self.module, self.embedding) as recording:
            self.score(inputs)
        return recording[self.embedding][0]

    def of_vectors(self, x: Tensor) -> Tensor:
        """Return the scores with vectors (rows, places, dim) in place of the embedding's output, or of an input's
        numbers."""
        if self.embedding is None:
            return self.score(x)
        with intervene(self.module, {self.embedding: lambda _: x}):
            return self.score(repeated(self.inputs, len(x)))

    @property
    def is_by_character(self) -> bool:
        return self.tokenizer is not None and self.tokenizer.unit == "character"

    @property
    def substitute(self) -> int | None:
        """The token used as a neutral replacement: the mask, the unknown word, padding, or the end of a text."""
        if self.tokenizer is None:
            return None
        candidates = (self.tokenizer.mask, self.tokenizer.unknown, self.tokenizer.pad, self.tokenizer.end)
        return next((token for token in candidates if token is not None), None)

    def why_irreplaceable(self) -> str | None:
        """Return why no token can be replaced by another one, or None if one can."""
        if self.tokenizer is None or self.embedding is None:
            return "this model has no neutral token to replace others with"
        if self.substitute is None:
            return f"{self.tokenizer!r} has no neutral token to replace others with"
        if any(isinstance(part, Context) for part in self.module.get_submodule(self.embedding).parts):  # type: ignore[union-attr]
            return "the model reads contextual vectors of another run, so a single word cannot be replaced"
        return None

    def replaced(self) -> Tensor:
        """Return the embedding's output with the substitute in every place of the text; the tokens around the text
        stay."""
        if (why := self.why_irreplaceable()) is not None:
            raise UserError(f"{why}; set baseline=zero")
        tokens = tokens_of(self.inputs)
        own = torch.tensor([self.own], device=tokens.device)
        return self.vectors(with_tokens(self.inputs, tokens.masked_fill(own, self.substitute or 0)))

    def without_each(self) -> list[float]:
        """Return the score without each token of the text. For the tokens around the text it is the full score."""
        if not self.movable or isinstance(self.inputs, Words):
            what = "word of this model's text" if self.canvas is None else f"{self.places.unit} of this model's input"
            raise UserError(
                f"the score depends on the place of every {what}, so none can be removed; set occlude=replace"
            )
        length = tokens_of(self.inputs).shape[1]
        with torch.no_grad():
            full_score = float(self.score(self.inputs)[0])
            if sum(self.own) < 2:
                raise UserError("a text needs at least two tokens for one to be removed; give a longer text")
            kept_places = [
                torch.tensor([at for at in range(length) if at != place]) for place in range(length) if self.own[place]
            ]
            rows = map_batch(
                lambda part: torch.cat([part[:, kept.to(part.device)] for kept in kept_places]), self.inputs
            )
            scores = iter(self.score(rows).tolist())
        return [next(scores) if own else full_score for own in self.own]


def repeated(inputs: G, rows: int) -> G:
    repeats: G = map_batch(lambda part: part.expand(rows, *part.shape[1:]), inputs)
    return repeats


def with_tokens(inputs: Any, tokens: Tensor) -> Any:
    """Return the embedding's inputs with other tokens and without letters."""
    if isinstance(inputs, Tensor):
        return tokens
    return inputs._replace(tokens=tokens, letters=None) if isinstance(inputs, Words) else inputs._replace(tokens=tokens)


def named_places(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """Return the tokens of a text in its frame, and which of them belong to the text."""
    around = [] if tokenizer.frame is None else tokenizer.frame.around([]).tokens
    return tuple(map(tokenizer.token, ids)), tuple(id not in around for id in ids)


def chosen_label(names: Sequence[str], logits: Callable[[Any], Tensor], inputs: Any, of: str | None) -> int:
    if of is None:
        with torch.no_grad():
            return int(logits(inputs)[0].argmax())
    if of not in names:
        raise unknown("label", of, names)
    return list(names).index(of)


def chosen_token(tokenizer: Tokenizer, log_probs: Callable[[Any], Tensor], inputs: Any, of: str | None) -> int:
    """Find a token by its name, or by a text that is one token; without a name, the most probable one."""
    if of is None:
        with torch.no_grad():
            return int(log_probs(inputs)[0, : tokenizer.vocabulary].argmax())
    id = tokenizer.inner.token_to_id(of)
    ids = [id] if id is not None else tokenizer.encode(of)
    if len(ids) != 1 or (id is None and ids[0] == tokenizer.unknown):
        raise UserError(f"of={of!r} must be one token that the model knows; it is {len(ids)} tokens, or unknown")
    return ids[0]


def check_not_empty(text: str) -> None:
    if not text.strip():
        raise no_text()


def check_no_place(place: int | None) -> None:
    """Refuse `place` for models that score the whole text, or what comes after it."""
    if place is not None:
        raise UserError(
            f"{argument_name('place')} selects a tagged word, a generated token or a mask, and this model has none of"
            " these; leave it out"
        )
