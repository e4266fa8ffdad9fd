"""Two language models in one: the next token from those before it, and the token before from those after it (Peters et
al. 2018)."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.text_baselines import text_baselines
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.core.masks import has_documents, real_positions
from clew.core.types import Body, State, Term
from clew.data.plans import TokenBatch
from clew.layers.dropouts import DROPOUTS
from clew.layers.losses import CrossEntropy
from clew.sources.words import WordReader
from clew.tasks.entry import TaskEntry
from clew.tasks.language_model import collate_texts
from clew.tasks.learnings.streams import Streams
from clew.tasks.offers import Predicted, Reading, TextBody
from clew.tasks.shared.reading import ReadsText
from clew.tasks.uses.programs import ReadingProgram, levels
from clew.text.tokenizer import Tokenizer


class BidirectionalLanguageModelConfig(TaskSection):
    """A softmax over the vocabulary at every position, for each of the two directions."""

    name: Literal["bidirectional_language_model"] = "bidirectional_language_model"
    predicted: int | None = Field(
        None,
        ge=2,
        description=(
            "predict this many of the most frequent words, and the others as <unk>; the input keeps all words"
        ),
    )
    unread: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="the share of those others that training also reads as <unk> (Lample et al. 2016)",
    )
    tied: bool = Field(False, description="the output layer's weight is the embedding's")
    bias: bool = Field(True, description="the output layer has a bias")
    init_scale: float | None = Field(None, gt=0, description="the output layer's weights from U(-s, s)")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input, besides the body's own dropout")
    dropout_kind: Literal["plain", "locked"] = Field("plain", description="locked: one mask per sequence")


class Directions(NamedTuple):
    """The vectors of each direction for its n targets in n + 1 tokens: the vector ahead at t predicts token t + 1, the
    vector back at t + 1 predicts token t."""

    ahead: Tensor  # (batch, n, dim)
    back: Tensor  # (batch, n, dim)
    nexts: Tensor  # (batch, n)
    previous: Tensor  # (batch, n)


class BidirectionalLanguageModel(ReadsText, nn.Module):
    """A forward and a backward language model over the halves of a body's vectors, h = [f; b].

        p(w_t | w_1 .. w_{t-1}) = softmax(V f_{t-1} + b)
        p(w_t | w_{t+1} .. w_n) = softmax(V b_{t+1} + b)
        loss = (mean of -log p(next) + mean of -log p(previous)) / 2

    Both halves of h share V and b, and neither has seen its target. Words that are read from their letters may be too
    rare to be predicted: V has the `predicted` most frequent words, and training reads some of the others as `<unk>`,
    as the words of another text will be. Both directions predict the same number of tokens, so the perplexity is the
    geometric mean of those of two language models.
    """

    needs = ("directions",)
    directions = ("forward", "backward")
    """Separate terms in evaluation, besides the loss."""

    def __init__(self, body: Body, tokenizer: Tokenizer, config: BidirectionalLanguageModelConfig | None = None):
        super().__init__()
        config = config or BidirectionalLanguageModelConfig()
        dim = body.dim // 2
        if config.tied and (width := body.embedding.weight.shape[1]) != dim:
            raise UserError(
                f"a tied output layer needs the width of a direction ({dim}) to be the embedding's ({width}); "
                "make them equal or set task.tied=false"
            )
        if config.predicted is not None and (tokenizer.unit != "word" or tokenizer.unknown is None):
            raise UserError(
                f"task.predicted counts words, the most frequent first, and a token is a {tokenizer.unit} here; leave"
                " it out"
            )
        self.body = body
        self.tokenizer = tokenizer
        self.predicted = min(config.predicted or body.vocabulary, body.vocabulary)
        self.unread = config.unread
        self.output_weight = None if config.tied else nn.Parameter(torch.empty(self.predicted, dim))
        self.output_bias = nn.Parameter(torch.zeros(self.predicted)) if config.bias else None
        if self.output_weight is not None:
            scale = config.init_scale or dim**-0.5
            nn.init.uniform_(self.output_weight, -scale, scale)
        self.dropout = DROPOUTS[config.dropout_kind](config.dropout)
        self.cross_entropy = CrossEntropy()

    def forward(self, batch: TokenBatch, state: State = None) -> tuple[dict[str, Term], None]:
        read, real, count = self.read(batch), real_positions(batch.mask), self.counts(batch)["loss"]
        sums = [
            self.cross_entropy(hidden, self.weight, self.output_bias, targets, real).loss
            for hidden, targets in ((read.ahead, read.nexts), (read.back, read.previous))
        ]
        terms = {"loss": Term((sums[0] + sums[1]) / 2, count)}
        if not self.training:
            terms.update({name: Term(total, count, 0.0) for name, total in zip(self.directions, sums, strict=True)})
        return terms, None

    def counts(self, batch: TokenBatch) -> dict[str, Tensor]:
        """Count the tokens that each direction predicts, from the batch alone."""
        real, tokens = real_positions(batch.mask), batch.tokens
        return {"loss": torch.full((), tokens.numel(), device=tokens.device) if real is None else real.sum()}

    def read(self, batch: TokenBatch) -> Directions:
        """Read the tokens and the last target as one row, so that each direction has a first token."""
        mask = batch.mask
        if has_documents(mask):
            raise UserError(
                "a bidirectional language model reads one document per row; pass a mask that is True at real tokens"
            )
        tokens = torch.cat([batch.tokens[:, :1], batch.targets], 1)  # (batch, n + 1)
        named = self.named(tokens)
        if self.training and self.predicted < self.body.vocabulary and self.unread:
            tokens = torch.where(torch.rand(tokens.shape, device=tokens.device) < self.unread, named, tokens)
        hidden, _ = self.body(tokens, None if mask is None else torch.cat([mask[:, :1], mask], 1))
        ahead, back = self.dropout(hidden).chunk(2, -1)
        return Directions(ahead[:, :-1], back[:, 1:], named[:, 1:], named[:, :-1])

    def named(self, tokens: Any) -> Any:
        """Replace the tokens that are not predicted, whose ids come last, by the unknown token. Takes tensors and
        arrays."""
        if self.predicted == self.body.vocabulary:
            return tokens
        kept = tokens < self.predicted
        return tokens * kept + self.tokenizer.unknown * ~kept

    @property
    def weight(self) -> Tensor:
        """V (predicted, dim / 2): the output layer's own, or the embedding's if tied."""
        return self.body.embedding.weight[: self.predicted] if self.output_weight is None else self.output_weight

    def looked_up(self) -> list[Tensor]:
        """Return the tables that are only indexed, never multiplied: they cost no FLOPs."""
        return [] if self.output_weight is None else self.body.embedding.looked_up()

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def collate(self, examples: Sequence[Sequence[int]]) -> TokenBatch:
        return collate_texts(examples, self.body.embedding.like.device)

    def predict(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Return log p of every next and of every previous token (each (batch, length)); 0 on padding."""
        read, real = self.read(batch), real_positions(batch.mask)

        def log_probs(hidden: Tensor, targets: Tensor) -> Tensor:
            logits = F.linear(hidden, self.weight, self.output_bias).float()
            picked = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
            return picked if real is None else picked.masked_fill(~real, 0.0)

        return log_probs(read.ahead, read.nexts), log_probs(read.back, read.previous)

    def vectors(self) -> TextBody:
        return TextBody(self.body, WordReader.of(self.body, {"tokenizer": self.tokenizer}, running=True))

    def predicts(self, reading: Reading) -> list[Predicted]:
        """Predict each token from those before it, and from those after it."""
        (ahead, back), named = reading.forward()[0].chunk(2, -1), self.named(torch.tensor(reading.ids))

        def output(half: Tensor) -> Tensor:
            return F.linear(half, self.weight, self.output_bias)

        def predicted(places: range, ids: Tensor, half: Tensor, name: str) -> Predicted:
            return Predicted(reading.pieces, places, ids, half, output, self.tokenizer, name)

        last = len(reading.ids) - 1
        return [
            predicted(range(1, last + 1), named[1:], ahead[:-1], "from the left"),
            predicted(range(last), named[:-1], back[1:], "from the right"),
        ]

    def programs(self) -> list[ReadingProgram]:
        return [levels(self.body)]


def build_bidirectional(
    body: Any, vocabularies: dict[str, Any], config: BidirectionalLanguageModelConfig
) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(body, vocabularies["tokenizer"], config)


BIDIRECTIONAL_LANGUAGE_MODEL = TaskEntry(
    config=BidirectionalLanguageModelConfig,
    build=build_bidirectional,
    needs=BidirectionalLanguageModel.needs,
    vocabularies={"tokenizer": Tokenizer},
    learning=Streams(),
    baselines=text_baselines,
)
