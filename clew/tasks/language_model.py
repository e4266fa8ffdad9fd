"""Language modelling: the next token from those before it. Any causal body."""

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.text_baselines import text_baselines
from clew.core.batches import map_batch
from clew.core.config import TaskSection
from clew.core.errors import UserError
from clew.core.masks import real_positions
from clew.core.types import Body, State, Term, Tree
from clew.data.plans import TokenBatch
from clew.decoding.stepper import picked
from clew.layers.dropouts import DROPOUTS
from clew.layers.losses import CrossEntropy, num_changes, squared_activations, squared_changes
from clew.sources.words import WordReader
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.streams import Streams
from clew.tasks.offers import Begun, Expected, ModelInput, Predicted, Reading, Streamed, TextBody, TokenScores
from clew.tasks.shared.reading import ReadsText
from clew.tasks.uses.explaining import Explained, check_no_place, chosen_token
from clew.tasks.uses.generate import GENERATE
from clew.tasks.uses.generation import continuation, ends_of, prompt_batch, stepper_of
from clew.tasks.uses.programs import SteppingProgram
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer


class LanguageModelConfig(TaskSection):
    """A softmax over the vocabulary at every position."""

    name: Literal["language_model"] = "language_model"
    tied: bool = Field(False, description="the output layer's weight is the embedding's")
    bias: bool = Field(True, description="the output layer has a bias")
    init_scale: float | None = Field(None, gt=0, description="the output layer's weights from U(-s, s)")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input, besides the body's own dropout")
    dropout_kind: Literal["plain", "locked"] = Field("plain", description="locked: one mask per sequence")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="the share of a target that training spreads over the vocabulary"
    )
    activation_penalty: float = Field(
        0.0, ge=0, description="the weight of the mean square of the output layer's input, in training"
    )
    temporal_penalty: float = Field(
        0.0, ge=0, description="the weight of the mean square change from step to step, in training"
    )


class LanguageModel(ReadsText, nn.Module):
    """p(w_t | w_1 .. w_{t-1}) = softmax(V d_{t-1} + b),  d = dropout(h).

        loss = mean(-log p) + activation_penalty * mean(d_t^2) + temporal_penalty * mean((h_t - h_{t-1})^2)

    The penalties (AR and TAR, Merity et al. 2018) and label smoothing apply in training only; evaluation has only the
    first term. h is the body's output: a body without dropout in its last layer leaves dropout to the task, as in that
    paper.
    """

    needs = ("causal",)

    def __init__(self, body: Body, tokenizer: Tokenizer, config: LanguageModelConfig | None = None):
        super().__init__()
        config = config or LanguageModelConfig()
        if config.tied and (width := body.embedding.weight.shape[1]) != body.dim:
            raise UserError(
                f"a tied output layer needs the body's width ({body.dim}) to be the embedding's ({width}); "
                "make them equal or set task.tied=false"
            )
        self.body = body
        self.tokenizer = tokenizer
        self.output_weight = None if config.tied else nn.Parameter(torch.empty(body.vocabulary, body.dim))
        self.output_bias = nn.Parameter(torch.zeros(body.vocabulary)) if config.bias else None
        if self.output_weight is not None:
            scale = config.init_scale or body.dim**-0.5
            nn.init.uniform_(self.output_weight, -scale, scale)
        self.dropout = DROPOUTS[config.dropout_kind](config.dropout)
        self.cross_entropy = CrossEntropy(config.label_smoothing)
        self.activation_penalty = config.activation_penalty
        self.temporal_penalty = config.temporal_penalty

    def forward(self, batch: TokenBatch, state: State = None) -> tuple[dict[str, Term], State]:
        hidden, state = self.body(batch.tokens, batch.mask, state)
        dropped = self.dropout(hidden)
        costs = self.cross_entropy(dropped, self.weight, self.output_bias, batch.targets, batch.counted)
        counts = self.counts(batch)
        terms = {"loss": Term(costs.loss, counts["loss"])}
        if "smoothing" in counts:  # two terms, so that the plain loss is reported; the gradient is that of both
            terms = {
                "loss": Term(costs.plain, counts["loss"]),
                "smoothing": Term(costs.loss - costs.plain, counts["smoothing"]),
            }
        if "activation" in counts:
            terms["activation"] = Term(
                squared_activations(dropped, batch.mask), counts["activation"], self.activation_penalty
            )
        if "temporal" in counts:
            terms["temporal"] = Term(squared_changes(hidden, batch.mask), counts["temporal"], self.temporal_penalty)
        return terms, state

    def counts(self, batch: TokenBatch) -> dict[str, Tensor]:
        """Count the targets, positions, or changes from step to step that each term sums over, from the batch alone."""
        real, tokens = real_positions(batch.mask), batch.tokens
        positions = torch.full((), tokens.numel(), device=tokens.device) if real is None else real.sum()
        targets = positions if batch.within is None else batch.within.sum()
        counts = {"loss": targets}
        if self.training and self.cross_entropy.label_smoothing:
            counts["smoothing"] = targets
        if self.training and self.activation_penalty:
            counts["activation"] = positions
        if self.training and self.temporal_penalty:
            counts["temporal"] = num_changes(batch.mask, tokens)
        return counts

    def initial_state(self, batch_size: int, capacity: int | None = None) -> State:
        return self.body.initial_state(batch_size, capacity=capacity)

    @property
    def weight(self) -> Tensor:
        """V (vocabulary, dim): the output layer's own, or the embedding's if tied."""
        return self.body.embedding.weight if self.output_weight is None else self.output_weight

    def looked_up(self) -> list[Tensor]:
        """Return the tables that are only indexed, never multiplied: they cost no FLOPs."""
        return [] if self.output_weight is None else self.body.embedding.looked_up()

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weight, self.output_bias)

    def log_probs(self, hidden: Tensor) -> Tensor:
        return self.logits(hidden).log_softmax(-1, dtype=torch.float32)

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def collate(self, examples: Sequence[Sequence[int]]) -> TokenBatch:
        return collate_texts(examples, self.body.embedding.like.device)

    def predict(self, batch: TokenBatch, state: State = None) -> tuple[Tensor, State]:
        """Return log p of every target (batch, length), given the state of the text before; 0 where none counts."""
        hidden, state = self.body(batch.tokens, batch.mask, state)
        log_probs = self.log_probs(hidden).gather(-1, batch.targets[..., None])[..., 0]
        counted = batch.counted
        return log_probs if counted is None else log_probs.masked_fill(~counted, 0.0), state

    def stepper(self) -> "LanguageStepper":
        return LanguageStepper(self)

    def vectors(self) -> TextBody:
        return TextBody(self.body, WordReader.of(self.body, {"tokenizer": self.tokenizer}, running=True))

    def predicts(self, reading: Reading) -> list[Predicted]:
        later = range(1, len(reading.ids))
        ids = torch.tensor(reading.ids[1:], dtype=torch.long)
        return [Predicted(reading.pieces, later, ids, reading.forward()[0, :-1], self.logits, self.tokenizer)]

    def expects(self, model_input: ModelInput) -> list[Expected]:
        tokens, mask = prompt_batch(self, [model_input.text])
        return [Expected(self.log_probs(self.body(tokens, mask)[0][0, -1]), self.tokenizer)]

    def scores_tokens(self, reading: Reading) -> TokenScores:
        batch = reading.batch
        return TokenScores(
            output=self.logits,
            log_probs=self.log_probs,
            ids=reading.ids[1:],
            tokenizer=self.tokenizer,
            body=self.body,
            levels=lambda: self.body.levels(batch.inputs, batch.mask),
            comes_after=True,
        )

    def steps(self, model_input: ModelInput, config: DecodingConfig | None = None) -> Begun:
        start, _ = prompt_batch(self, [model_input.text])
        end = self.tokenizer.end
        ends = tuple(ends_of(self.tokenizer, config)) if config is not None else () if end is None else (end,)
        return Begun(
            stepper=self.stepper() if config is None else stepper_of(self, config, start),
            start=start,
            tokenizer=self.tokenizer,
            end=end,
            ends=ends,
            most=(config or DecodingConfig()).max_new,
            text_of=lambda ids: continuation(self.tokenizer, model_input.text, ids),
            before=model_input.text,
            limit=self.body.max_length,
        )

    def streams(self, text: str) -> Streamed:
        tokens, offsets = self.tokenizer.encode_with_offsets(text)
        before = [] if self.tokenizer.frame is None else list(self.tokenizer.frame.before)
        return Streamed([*before, *tokens], len(before), offsets)

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain log p of the token after the text."""
        check_no_place(place)
        reading = self.reads(model_input)
        # The model has not read the end of the line yet.
        length = len(reading.ids) - int(self.tokenizer.unit == "word" and reading.spans[-1] is None)
        inputs = map_batch(lambda part: part[:, :length], reading.batch.inputs)

        def log_probs(inputs: Any) -> Tensor:
            return self.log_probs(self.body(inputs, None)[0][:, -1])

        token = chosen_token(self.tokenizer, log_probs, inputs, of)
        own = tuple(span is not None for span in reading.spans[:length])
        what = f"log p of {self.tokenizer.piece(token)!r} as the next token"
        return Explained(
            self, inputs, lambda rows: log_probs(rows)[:, token], reading.pieces[:length], own, what, self.tokenizer
        )

    def programs(self) -> list[SteppingProgram]:
        frame = self.tokenizer.frame
        return [SteppingProgram(source=False, facts={"before": [] if frame is None else frame.before})]


class LanguageStepper:
    """A language model as a stepper, for decoding."""

    def __init__(self, task: LanguageModel):
        self.task = task
        self.vocabulary = task.body.vocabulary

    @property
    def signature(self) -> Hashable:
        return type(self), weakref.ref(self.task)

    @property
    def starts_from(self) -> Tree:
        return ()

    def initial_state(self, rows: int, capacity: int | None = None, starts_from: Tree = None) -> State:
        return self.task.initial_state(rows, capacity)

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None
    ) -> tuple[Tensor, State]:
        hidden, state = self.task.body(tokens, mask, state)
        return self.task.log_probs(picked(hidden, at)), state


def collate_texts(examples: Sequence[Sequence[int]], device: torch.device) -> TokenBatch:
    """Collate texts as rows, in which the target of each token is the next one."""
    longest = max((len(tokens) for tokens in examples), default=0)
    if longest < 2:
        raise UserError("a text needs at least two tokens: one to read and one to predict")
    rows = torch.zeros(len(examples), longest, dtype=torch.long)
    mask = torch.zeros(len(examples), longest - 1, dtype=torch.bool)
    for row, tokens in enumerate(examples):
        rows[row, : len(tokens)] = torch.as_tensor(tokens)
        mask[row, : max(len(tokens) - 1, 0)] = True
    return TokenBatch(
        rows[:, :-1].to(device), rows[:, 1:].to(device), None if bool(mask.all()) else mask.to(device), True
    )


def build_language_model(body: Body, vocabularies: dict[str, Any], config: LanguageModelConfig) -> LanguageModel:
    return LanguageModel(body, vocabularies["tokenizer"], config)


LANGUAGE_MODEL = TaskEntry(
    config=LanguageModelConfig,
    build=build_language_model,
    needs=LanguageModel.needs,
    uses={"generate": GENERATE},
    vocabularies={"tokenizer": Tokenizer},
    pipeline="text-generation",
    learning=Streams(),
    baselines=text_baselines,
)
