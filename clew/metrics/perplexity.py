"""Perplexity: how well a language model predicts a text."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from clew.core.errors import UserError


@dataclass(frozen=True)
class Likelihood:
    """-log p of a text in nats, with its numbers of tokens and characters.

        loss                = nats / tokens
        perplexity          = exp(loss)
        bits per character  = nats / log(2) / characters

    Parts of a text add, so each process can score a share. Losses and perplexities compare only between models with the
    same tokens; bits per character compare between all. A bidirectional model's nats are the mean of `directions`, the
    nats of each by name.
    """

    nats: float = 0.0
    tokens: int = 0
    characters: int = 0
    directions: Mapping[str, float] = field(default_factory=dict)

    def __add__(self, other: "Likelihood") -> "Likelihood":
        names = dict.fromkeys([*self.directions, *other.directions])
        directions = {name: self.directions.get(name, 0.0) + other.directions.get(name, 0.0) for name in names}
        return Likelihood(
            self.nats + other.nats, self.tokens + other.tokens, self.characters + other.characters, directions
        )

    @property
    def loss(self) -> float:
        return per(self.nats, self.tokens, "token")

    @property
    def perplexity(self) -> float:
        return perplexity(self.nats, self.tokens)

    @property
    def bits_per_character(self) -> float:
        return per(self.nats, self.characters, "character") / math.log(2)

    def losses(self) -> dict[str, float]:
        """The loss of each direction, if there are two."""
        return {name: per(nats, self.tokens, "token") for name, nats in self.directions.items()}

    def describe(self, unit: str = "token") -> str:
        """One line that says what each number is per; `unit` names a token."""
        parts = ", ".join(f"{loss:.4f} {name}" for name, loss in self.losses().items())
        return (
            f"loss {self.loss:.4f}{f' ({parts})' if parts else ''} nats per {unit}, perplexity {self.perplexity:.2f}"
            f" per {unit}, {self.bits_per_character:.4f} bits per character"
        )


def perplexity(nats: float, count: int) -> float:
    """exp(nats / count): per token, or per word if a subword model's nats are divided by the number of words."""
    mean = per(nats, count, "token")
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


def per(nats: float, count: int, unit: str) -> float:
    if count < 1:
        raise UserError(f"no {unit} was scored, so there is no mean; give a text of at least 2 tokens")
    return nats / count
