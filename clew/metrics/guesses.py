"""Scores of a masked language model: predictions of masked tokens, and of whether two texts follow each other."""

from dataclasses import astuple, dataclass

from clew.core.errors import counted
from clew.metrics.perplexity import per, perplexity


@dataclass(frozen=True)
class Guessed:
    """Sums of -log p in nats, counts, and counts of right predictions, for tokens and for pairs of texts. Parts add.

    loss       = nats / tokens
    perplexity = exp(loss)
    accuracy   = 100 right / tokens          likewise for pairs
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
        """Losses, perplexity and accuracies by name, with the counts that they are means over."""
        values = {
            "loss": self.loss,
            "perplexity": perplexity(self.nats, self.tokens),
            "accuracy": 100 * self.right / self.tokens,
        }
        values["tokens"] = self.tokens
        if self.pairs:
            values |= {
                "next_sentence_loss": self.pair_nats / self.pairs,
                "next_sentence_accuracy": 100 * self.right_pairs / self.pairs,
            }
            values["pairs"] = self.pairs
        return values

    def describe(self, unit: str = "token") -> str:
        values = self.measures()
        text = f"loss {values['loss']:.4f}, perplexity {values['perplexity']:.2f} and accuracy {values['accuracy']:.2f}"
        text += f" of {counted(self.tokens, f'masked {unit}')}"
        if self.pairs:
            losses = f"loss {values['next_sentence_loss']:.4f} and accuracy {values['next_sentence_accuracy']:.2f}"
            text += f"; next sentence: {losses} of {counted(self.pairs, 'pair')}"
        return text
