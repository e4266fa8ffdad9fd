"""Masked language modelling: predict tokens hidden in a text from the rest of it, and whether one text follows another
(Devlin et al. 2019). Any body with a vector for every position."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from clew.baselines.guess_baselines import guess_baselines
from clew.core.batches import to_device
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.core.types import State, Term
from clew.layers.embeddings import Segmented, tokens_of
from clew.layers.feedforward import ACTIVATIONS
from clew.layers.losses import IGNORED, CrossEntropy, summed
from clew.layers.norms import LayerNorm
from clew.layers.pooling import Pooler
from clew.metrics.guesses import Guessed
from clew.sources.words import WordReader, is_segmented
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.documents import MaskedDocuments
from clew.tasks.learnings.masked_examples import MaskedBatch
from clew.tasks.offers import Expected, ModelInput, Predicted, Reading, TextBody, TokenScores
from clew.tasks.shared.reading import ReadsText
from clew.tasks.uses.explaining import Explained, chosen_token, named_places
from clew.tasks.uses.filling import FILL, framed_text
from clew.tasks.uses.programs import ReadingProgram, Traced, levels
from clew.text.frames import Framed
from clew.text.tokenizer import Tokenizer

FILLED = """\
tensors["tokens"][0, 1] = about["mask"]
outputs = run("filler", tensors)
print(tokenizer.id_to_token(int(outputs["log_probs"][0, 1].argmax())))
"""
"""The example code of a program in its card."""


class MaskedLanguageModelConfig(TaskSection):
    """A softmax over the vocabulary at the chosen positions."""

    name: Literal["masked_language_model"] = "masked_language_model"
    chosen: float = Field(0.15, gt=0, lt=1, description="the share of a text's tokens that are to be predicted")
    masked: float = Field(0.8, ge=0, le=1, description="the share of these that is replaced by [MASK]")
    replaced: float = Field(
        0.1, ge=0, le=1, description="the share of these that is replaced by a random token; the rest is unchanged"
    )
    whole_words: bool = Field(False, description="choose all pieces of a word together")
    next_sentence: bool = Field(
        True, description="read two texts, and also predict whether the second follows the first"
    )
    pairing: Literal["half", "released"] = Field(
        "half",
        description=(
            "half: the second text is random with probability 1/2; released: the same, but a single sentence always"
            " gets a random second text, as in BERT's released code"
        ),
    )
    tied: bool = Field(True, description="the output layer's weight is the embedding's")
    activation: str = Field("gelu", description="the activation between the body and the output layer")
    norm_eps: float = Field(1e-12, gt=0)

    @model_validator(mode="after")
    def check_shares(self) -> "MaskedLanguageModelConfig":
        if self.masked + self.replaced > 1 + 1e-9:
            raise UserError(
                f"masked ({self.masked}) and replaced ({self.replaced}) must not add up to more than 1; lower one of"
                " them"
            )
        return self


BATCH_TOKENS = 2**13
"""Positions per batch when each token is masked in turn."""


class MaskedLanguageModel(ReadsText, nn.Module):
    """p(w_i | the rest) = softmax(E norm(g(W h_i + b)) + c)    at the chosen positions i
    p(follows) = softmax(V tanh(U h_1 + d))

    E is the embedding's table if tied. The loss is the sum of both means, each over its own count.
    """

    needs = ("whole",)
    text_name = "text with [MASK]"
    reads_masks = True

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
            raise UserError(
                f"{tokenizer!r} has no [MASK] token, which masked language modelling needs; set"
                " text.tokenizer=wordpiece"
            )
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
        for linear in (
            self.transform,
            *((self.pooling.dense, self.next_sentence) if self.pooling and self.next_sentence else ()),
        ):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=0.02)

    def forward(self, batch: MaskedBatch, state: State = None) -> tuple[dict[str, Term], None]:
        hidden, _ = self.body(batch.inputs, batch.mask)
        counts = self.counts(batch)
        chosen = hidden.gather(1, batch.places[..., None].expand(-1, -1, hidden.shape[-1]))
        costs = self.cross_entropy(
            self.read(chosen), self.weight, self.output_bias, batch.targets, batch.targets != IGNORED
        )
        terms = {"loss": Term(costs.loss, counts["loss"])}
        if batch.follows is not None and "next_sentence" in counts:
            follows = F.cross_entropy(self.followed(hidden), batch.follows, reduction="none")
            terms["next_sentence"] = Term(summed(follows), counts["next_sentence"])
        return terms, None

    def counts(self, batch: MaskedBatch) -> dict[str, Tensor]:
        """Count the predicted tokens and the pairs of texts, from the batch alone."""
        counts = {"loss": (batch.targets != IGNORED).sum()}
        if self.next_sentence is not None and batch.follows is not None:
            counts["next_sentence"] = torch.full((), len(batch.follows), device=batch.follows.device)
        return counts

    def read(self, hidden: Tensor) -> Tensor:
        """Return the input of the output layer for the body's vectors."""
        transformed: Tensor = self.norm(self.activation(self.transform(hidden)))
        return transformed

    @property
    def weight(self) -> Tensor:
        """E (vocabulary, dim): the output layer's own, or the embedding's if tied."""
        return self.body.embedding.weight if self.output_weight is None else self.output_weight

    def logits(self, hidden: Tensor) -> Tensor:
        """Return scores (..., vocabulary) for the body's vectors."""
        return F.linear(self.read(hidden), self.weight, self.output_bias)

    def followed(self, hidden: Tensor) -> Tensor:
        """Return logits (batch, 2): the second text follows the first, or it does not."""
        assert self.pooling is not None and self.next_sentence is not None
        logits: Tensor = self.next_sentence(self.pooling(hidden))
        return logits

    def looked_up(self) -> list[Tensor]:
        """Return the tables that are only indexed, or multiplied at few positions: they cost next to no FLOPs."""
        return [*self.body.embedding.looked_up(), *([] if self.output_weight is None else [self.output_weight])]

    def guess(self, batch: MaskedBatch) -> Guessed:
        """Score a batch: sums over its chosen tokens and its pairs."""
        hidden, _ = self.body(batch.inputs, batch.mask)
        real = batch.targets != IGNORED
        rows, columns = real.nonzero(as_tuple=True)
        targets = batch.targets[rows, columns]
        log_probs = log_softmax(self.logits(hidden[rows, batch.places[rows, columns]]))
        guessed = Guessed(
            -float(log_probs.gather(1, targets[:, None]).sum()),
            len(targets),
            int((log_probs.argmax(-1) == targets).sum()),
        )
        if batch.follows is None or self.next_sentence is None:
            return guessed
        follows = log_softmax(self.followed(hidden))
        nats = -float(follows.gather(1, batch.follows[:, None]).sum())
        return guessed + Guessed(
            pair_nats=nats, pairs=len(follows), right_pairs=int((follows.argmax(-1) == batch.follows).sum())
        )

    @property
    def sample(self) -> str:
        """An example text."""
        return f"The {self.tokenizer.token(self.tokenizer.mask or 0)} sat on the mat."

    def vectors(self) -> TextBody:
        return TextBody(self.body, WordReader.of(self.body, {"tokenizer": self.tokenizer}))

    def predicts(self, reading: Reading) -> list[Predicted]:
        """Predict each token of the text with only that token masked (Salazar et al. 2020). Tokens that the text masks
        already are left out."""
        places = [
            place
            for place, span in enumerate(reading.spans)
            if span is not None and reading.ids[place] != self.tokenizer.mask
        ]
        if not places:
            raise UserError("every token of this text is a mask, so there is none to score; write at least one word")
        ids = torch.tensor(reading.ids)[places]
        vectors = self.masked_vectors(reading, places)
        return [Predicted(reading.pieces, places, ids, vectors, self.logits, self.tokenizer, pseudo=True)]

    def masked_vectors(self, reading: Reading, places: Sequence[int]) -> Tensor:
        """Return the body's vector (positions, dim) at each of the positions, with only that position masked."""
        vectors = []
        tokens = torch.tensor(reading.ids, device=self.body.embedding.like.device)
        rows = max(BATCH_TOKENS // len(tokens), 1)
        for start in range(0, len(places), rows):
            masked = torch.tensor(places[start : start + rows], device=tokens.device)
            inputs: Any = tokens.repeat(len(masked), 1).scatter(1, masked[:, None], self.tokenizer.mask or 0)
            if is_segmented(self.body):
                inputs = Segmented(inputs, reading.batch.inputs.segments.expand(len(masked), -1))
            hidden, _ = self.body(inputs, None)
            vectors.append(hidden[torch.arange(len(masked), device=masked.device), masked])
        return torch.cat(vectors)

    def expects(self, model_input: ModelInput) -> list[Expected]:
        framed = framed_text(self, model_input.text, None, "the text")
        inputs = self.one_row(framed)
        hidden, _ = self.body(inputs, None)
        places = tokens_of(inputs)[0].eq(self.tokenizer.mask or 0).nonzero()[:, 0].tolist()
        log_probs = self.logits(hidden[0, places]).float().log_softmax(-1)
        return [Expected(row, self.tokenizer, f"mask {number}") for number, row in enumerate(log_probs, start=1)]

    def one_row(self, framed: Framed) -> Any:
        """Return a framed text as the body's input."""
        tokens = torch.tensor([framed.tokens])
        inputs: Any = Segmented(tokens, torch.tensor([framed.segments])) if is_segmented(self.body) else tokens
        return to_device(inputs, self.output_bias.device)

    def scores_tokens(self, reading: Reading) -> TokenScores:
        batch = reading.batch
        return TokenScores(
            output=self.logits,
            log_probs=lambda hidden: self.logits(hidden).float().log_softmax(-1),
            ids=reading.ids,
            tokenizer=self.tokenizer,
            body=self.body,
            levels=lambda: self.body.levels(batch.inputs, batch.mask),
        )

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain log p of a token at a mask."""
        place = place or 1
        framed = framed_text(self, model_input.text, None, "the text")
        if place > framed.tokens.count(self.tokenizer.mask or 0):
            raise UserError(f"there is no mask {place}; the text has {framed.tokens.count(self.tokenizer.mask or 0)}")
        inputs = self.one_row(framed)

        def log_probs(inputs: Any) -> Tensor:
            masks = tokens_of(inputs).eq(self.tokenizer.mask or 0)
            at = (masks.cumsum(1).eq(place) & masks).int().argmax(1)
            hidden = self.body(inputs, None)[0]
            return self.logits(hidden[torch.arange(len(hidden), device=hidden.device), at]).float().log_softmax(-1)

        token = chosen_token(self.tokenizer, log_probs, inputs, of)
        names, own = named_places(self.tokenizer, framed.tokens)
        own = tuple(is_own and id != self.tokenizer.mask for is_own, id in zip(own, framed.tokens, strict=True))
        what = f"log p of {self.tokenizer.piece(token)!r} in the place of mask {place}"
        return Explained(self, inputs, lambda rows: log_probs(rows)[:, token], names, own, what, self.tokenizer)

    def programs(self) -> list[ReadingProgram]:
        outputs = ["log_probs"] if self.next_sentence is None else ["log_probs", "follows"]
        return [
            ReadingProgram("filler", outputs, self.filled, usage=FILLED, facts={"mask": self.tokenizer.mask}),
            levels(self.body),
        ]

    def filled(self, inputs: Traced) -> tuple[Tensor, ...]:
        """Return log p of every token at every position, and the probability that the second text follows the first."""
        hidden, _ = self.body(inputs.texts[0].inputs, inputs.texts[0].mask)
        log_probs = self.logits(hidden).float().log_softmax(-1)
        return (
            (log_probs,) if self.next_sentence is None else (log_probs, self.followed(hidden).float().softmax(-1)[:, 0])
        )


def log_softmax(scores: Tensor) -> Tensor:
    """log_softmax in at least float32."""
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
    uses={"fill": FILL},
    pipeline="fill-mask",
)
