"""What an attribution explains: a score that a model gives, as a function of the vectors that its embedding hands on.

The score is a class's logit, a tag's, the log-probability of the next token, of a token in the place of [MASK], or of a
token that a translator writes. The embedding's vectors are put in by intervening, so that it is the same for every
body.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from clew.core.batches import map_batch
from clew.core.errors import UserError, unknown
from clew.core.layouts import Layout
from clew.inspection.recording import intervene, record
from clew.layers.context import Context
from clew.layers.embeddings import Words, tokens_of
from clew.sources.canvases import Canvas
from clew.tasks.shared.reading import no_text
from clew.text.tokenizer import Tokenizer

G = TypeVar("G")


@dataclass(frozen=True)
class Explained:
    """`score` takes what the body reads as rows; `tokens` name its places, `own` are those of the text itself, and
    `what` is the score. `embedding` is the path of what makes vectors of `inputs`; None where these are vectors."""

    module: nn.Module
    inputs: Any  # one row
    score: Callable[[Any], Tensor]
    tokens: tuple[str, ...]
    own: tuple[bool, ...]
    what: str
    tokenizer: Tokenizer | None
    embedding: str | None = "body.embedding"
    movable: bool = True
    """Whether the score is the same question when a token is taken out."""
    unit: str = "nats"
    """The unit of the score: nats for a logit or a log-probability, empty for a number."""
    layout: Layout | None = None
    """How the places lie, where what is read is no text."""
    canvas: Canvas | None = None
    """What a map over the input is drawn on, where it is a picture or a sound. What is explained by are then the
    numbers that are read."""

    @classmethod
    def of_input(
        cls,
        module: nn.Module,
        inputs: Any,
        score: Callable[[Any], Tensor],
        what: str,
        layout: Layout,
        canvas: Canvas,
        given: str,
        *,
        unit: str = "nats",
    ) -> "Explained":
        """A score of a picture or a sound. `given` is the path of the tap that shows what the embedding is given."""
        own = (True,) * len(layout.names)
        return cls(module, inputs, score, layout.names, own, what, None, given, False, unit, layout, canvas)

    @property
    def places(self) -> Layout:
        return Layout(self.tokens) if self.layout is None else self.layout

    def vectors(self, inputs: Any = None) -> Tensor:
        """What the embedding hands on (places, dim); of an input the numbers that it is given, such as pixels (height,
        width, channels)."""
        given = self.inputs if inputs is None else inputs
        if self.embedding is None:
            found: Tensor = given[0].detach()
            return found
        with torch.no_grad(), record(self.module, self.embedding) as seen:
            self.score(given)
        return seen[self.embedding][0]

    def of_vectors(self, x: Tensor) -> Tensor:
        """The score of vectors (rows, places, dim) in the place of the embedding's, or of an input's numbers."""
        if self.embedding is None:
            return self.score(x)
        with intervene(self.module, {self.embedding: lambda _: x}):
            return self.score(repeated(self.inputs, len(x)))

    @property
    def is_by_character(self) -> bool:
        return self.tokenizer is not None and self.tokenizer.unit == "character"

    @property
    def substitute(self) -> int | None:
        """The token that stands for nothing: a mask, the unknown word, padding, or what ends a text."""
        if self.tokenizer is None:
            return None
        known = (self.tokenizer.mask, self.tokenizer.unknown, self.tokenizer.pad, self.tokenizer.end)
        return next((token for token in known if token is not None), None)

    def why_irreplaceable(self) -> str | None:
        """Why no token can be put in another's place, where that is so."""
        if self.tokenizer is None or self.embedding is None:
            return "no token is known that stands for nothing"
        if self.substitute is None:
            return f"{self.tokenizer!r} has no token that stands for nothing"
        if any(isinstance(part, Context) for part in self.module.get_submodule(self.embedding).parts):  # type: ignore[union-attr]
            return "the model reads vectors of another run, in which no word can be replaced alone"
        return None

    def replaced(self) -> Tensor:
        """The embedding's vectors with a token that says nothing in each place of the text; what stands around it
        stays."""
        if (why := self.why_irreplaceable()) is not None:
            raise UserError(f"{why}; take baseline=zero")
        tokens = tokens_of(self.inputs)
        own = torch.tensor([self.own], device=tokens.device)
        return self.vectors(with_tokens(self.inputs, tokens.masked_fill(own, self.substitute or 0)))

    def without_each(self) -> list[float]:
        """The score with each token of the text taken out; the score itself for what stands around it."""
        if not self.movable or isinstance(self.inputs, Words):
            what = "word of this model's text" if self.canvas is None else f"{self.places.unit} of this model's input"
            raise UserError(f"every {what} has a place of its own, so that none can be taken out; take occlude=replace")
        length = tokens_of(self.inputs).shape[1]
        with torch.no_grad():
            whole = float(self.score(self.inputs)[0])
            if sum(self.own) < 2:
                raise UserError("a text needs two tokens at least for one to be taken out")
            rest = [
                torch.tensor([at for at in range(length) if at != place]) for place in range(length) if self.own[place]
            ]
            rows = map_batch(lambda part: torch.cat([part[:, kept.to(part.device)] for kept in rest]), self.inputs)
            found = iter(self.score(rows).tolist())
        return [next(found) if own else whole for own in self.own]


def repeated(inputs: G, rows: int) -> G:
    found: G = map_batch(lambda part: part.expand(rows, *part.shape[1:]), inputs)
    return found


def with_tokens(inputs: Any, tokens: Tensor) -> Any:
    """What an embedding reads, with other tokens, whose letters are their own."""
    if isinstance(inputs, Tensor):
        return tokens
    return inputs._replace(tokens=tokens, letters=None) if isinstance(inputs, Words) else inputs._replace(tokens=tokens)


def named_places(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """The tokens of a text in its frame, and which are the text's own."""
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
    """A token by its name, or by a text that is one token; the likeliest where none is given."""
    if of is None:
        with torch.no_grad():
            return int(log_probs(inputs)[0, : tokenizer.vocabulary].argmax())
    found = tokenizer.inner.token_to_id(of)
    ids = [found] if found is not None else tokenizer.encode(of)
    if len(ids) != 1 or (found is None and ids[0] == tokenizer.unknown):
        raise UserError(f"of={of!r} is {len(ids)} tokens, or unknown to the model; give one token that it knows")
    return ids[0]


def check_not_empty(text: str) -> None:
    if not text.strip():
        raise no_text()


def check_no_place(place: int | None) -> None:
    """For models whose score is of the whole text, or of what comes after it."""
    if place is not None:
        raise UserError(
            "place= names a word that is tagged, a token that is written or a mask; this model has none of these"
        )
