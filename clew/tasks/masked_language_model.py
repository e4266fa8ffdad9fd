"""Masked language modelling: tokens that were taken out of a text, from all that is left of it, and whether two texts follow each other
(Devlin et al. 2019). Any body that gives a vector a position."""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from clew.baselines.guess_baselines import guess_baselines
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.core.types import State, Term
from clew.layers.feedforward import ACTIVATIONS
from clew.layers.losses import IGNORED, CrossEntropy, summed
from clew.layers.norms import LayerNorm
from clew.layers.pooling import Pooler
from clew.metrics.guesses import Guessed
from clew.tasks.documents import MaskedDocuments
from clew.tasks.entry import TaskEntry
from clew.tasks.masked_examples import MaskedBatch
from clew.text.tokenizer import Tokenizer


class MaskedLanguageModelConfig(TaskSection):
    """A softmax over the vocabulary at the places that were chosen."""

    name: Literal["masked_language_model"] = "masked_language_model"
    chosen: float = Field(0.15, gt=0, lt=1, description="the share of a text's tokens that are to be predicted")
    masked: float = Field(0.8, ge=0, le=1, description="of these the share that is read as [MASK]")
    replaced: float = Field(0.1, ge=0, le=1, description="and the share that is read as a random token; the rest is read as it is")
    whole_words: bool = Field(False, description="all pieces of a word are chosen together")
    next_sentence: bool = Field(True, description="two texts are read, and whether the second follows the first is predicted too")
    tied: bool = Field(True, description="the output layer's weight is the embedding's")
    activation: str = Field("gelu", description="between body and output layer")
    norm_eps: float = Field(1e-12, gt=0)

    @model_validator(mode="after")
    def check_shares(self) -> "MaskedLanguageModelConfig":
        if self.masked + self.replaced > 1 + 1e-9:
            raise UserError(f"masked ({self.masked}) and replaced ({self.replaced}) are shares of one whole; lower one of them")
        return self


class MaskedLanguageModel(nn.Module):
    """p(w_i | the rest) = softmax(E norm(g(W h_i + b)) + c)    at the places i that were chosen
    p(follows) = softmax(V tanh(U h_1 + d))

    E is the embedding's table where it is tied. The loss is the sum of both means, each over its own count.
    """

    needs = ("whole",)

    def __init__(self, body: Any, tokenizer: Tokenizer, config: MaskedLanguageModelConfig | None = None):
        super().__init__()
        self.config = config = config or MaskedLanguageModelConfig()
        dim = body.dim
        if config.tied and (width := body.embedding.weight.shape[1]) != dim:
            raise UserError(
                f"a tied output layer needs the body's width ({dim}) to be the embedding's ({width}); "
                "make them equal or set task.tied=false"
            )
        if tokenizer.mask is None:
            raise UserError(f"{tokenizer!r} has no token to put in the place of those that are to be guessed; set text.tokenizer=wordpiece")
        self.body = body
        self.tokenizer = tokenizer
        self.transform = nn.Linear(dim, dim)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = LayerNorm(dim, eps=config.norm_eps)
        self.output_weight = None if config.tied else nn.Parameter(torch.empty(body.vocabulary, dim))
        self.output_bias = nn.Parameter(torch.zeros(body.vocabulary))
        self.pooling = Pooler(dim) if config.next_sentence else None
        self.next_sentence = nn.Linear(dim, 2) if config.next_sentence else None
        self.cross_entropy = CrossEntropy()
        for linear in (self.transform, *((self.pooling.dense, self.next_sentence) if self.pooling and self.next_sentence else ())):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=0.02)

    def forward(self, batch: MaskedBatch, state: State = None) -> tuple[dict[str, Term], None]:
        hidden, _ = self.body(batch.inputs, batch.mask)
        counts = self.counts(batch)
        chosen = hidden.gather(1, batch.places[..., None].expand(-1, -1, hidden.shape[-1]))
        costs = self.cross_entropy(self.read(chosen), self.weight, self.output_bias, batch.targets, batch.targets != IGNORED)
        terms = {"loss": Term(costs.loss, counts["loss"])}
        if batch.follows is not None and "next_sentence" in counts:
            follows = F.cross_entropy(self.followed(hidden), batch.follows, reduction="none")
            terms["next_sentence"] = Term(summed(follows), counts["next_sentence"])
        return terms, None

    def counts(self, batch: MaskedBatch) -> dict[str, Tensor]:
        """How many tokens, and how many pairs of texts, are predicted, from the batch alone."""
        counts = {"loss": (batch.targets != IGNORED).sum()}
        if self.next_sentence is not None and batch.follows is not None:
            counts["next_sentence"] = torch.full((), len(batch.follows), device=batch.follows.device)
        return counts

    def read(self, hidden: Tensor) -> Tensor:
        """What the output layer reads of the body's vectors."""
        return self.norm(self.activation(self.transform(hidden)))

    @property
    def weight(self) -> Tensor:
        """E (vocabulary, dim): the output layer's own, or the embedding's."""
        return self.body.embedding.weight if self.output_weight is None else self.output_weight

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., vocabulary) of the body's vectors."""
        return F.linear(self.read(hidden), self.weight, self.output_bias)

    def followed(self, hidden: Tensor) -> Tensor:
        """(batch, 2): the second text follows the first; it does not."""
        assert self.pooling is not None and self.next_sentence is not None
        return self.next_sentence(self.pooling(hidden))

    def looked_up(self) -> list[Tensor]:
        """Tables that no vector is multiplied with, or those of few places: they cost next to no FLOPs."""
        return [*self.body.embedding.looked_up(), *([] if self.output_weight is None else [self.output_weight])]

    def guess(self, batch: MaskedBatch) -> Guessed:
        """How well a batch is guessed: sums over its chosen tokens and its pairs."""
        hidden, _ = self.body(batch.inputs, batch.mask)
        real = batch.targets != IGNORED
        rows, columns = real.nonzero(as_tuple=True)
        targets = batch.targets[rows, columns]
        log_probs = log_softmax(self.logits(hidden[rows, batch.places[rows, columns]]))
        found = Guessed(-float(log_probs.gather(1, targets[:, None]).sum()), len(targets), int((log_probs.argmax(-1) == targets).sum()))
        if batch.follows is None or self.next_sentence is None:
            return found
        follows = log_softmax(self.followed(hidden))
        nats = -float(follows.gather(1, batch.follows[:, None]).sum())
        return found + Guessed(pair_nats=nats, pairs=len(follows), right_pairs=int((follows.argmax(-1) == batch.follows).sum()))


def log_softmax(scores: Tensor) -> Tensor:
    """In float32 at least."""
    return scores.log_softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def build_masked(body: Any, vocabularies: dict[str, Any], config: MaskedLanguageModelConfig) -> MaskedLanguageModel:
    return MaskedLanguageModel(body, vocabularies["tokenizer"], config)


MASKED_LANGUAGE_MODEL = TaskEntry(
    config=MaskedLanguageModelConfig,
    build=build_masked,
    needs=MaskedLanguageModel.needs,
    vocabularies={"tokenizer": Tokenizer},
    learning=MaskedDocuments(),
    baselines=guess_baselines,
    verb="fill",
)
