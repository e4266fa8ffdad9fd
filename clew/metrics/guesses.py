"""How well a masked language model guesses: the tokens that were taken out, and whether two texts follow each other."""

from dataclasses import astuple, dataclass

from clew.core.errors import counted
from clew.metrics.perplexity import per, perplexity


@dataclass(frozen=True)
class Guessed:
    """Sums of -log p in nats, counts, and how many were right, of tokens and of pairs of texts; those of parts add.

    loss       = nats / tokens
    perplexity = exp(loss)
    accuracy   = 100 right / tokens          the same of pairs
    """

    nats: float = 0.0
    tokens: int = 0
    right: int = 0
    pair_nats: float = 0.0
    pairs: int = 0
    right_pairs: int = 0

    def __add__(self, other: "Guessed") -> "Guessed":
        return Guessed(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def loss(self) -> float:
        return per(self.nats, self.tokens, "token")

    def measures(self) -> dict[str, float]:
        """Both losses, each with the count that it is a mean over."""
        found = {"loss": self.loss, "perplexity": perplexity(self.nats, self.tokens), "accuracy": 100 * self.right / self.tokens}
        found["tokens"] = self.tokens
        if self.pairs:
            found |= {"next_sentence_loss": self.pair_nats / self.pairs, "next_sentence_accuracy": 100 * self.right_pairs / self.pairs}
            found["pairs"] = self.pairs
        return found

    def describe(self, unit: str = "token") -> str:
        found = self.measures()
        text = f"loss {found['loss']:.4f}, perplexity {found['perplexity']:.2f} and accuracy {found['accuracy']:.2f}"
        text += f" of {counted(self.tokens, f'masked {unit}')}"
        if self.pairs:
            losses = f"loss {found['next_sentence_loss']:.4f} and accuracy {found['next_sentence_accuracy']:.2f}"
            text += f"; next sentence: {losses} of {counted(self.pairs, 'pair')}"
        return text
