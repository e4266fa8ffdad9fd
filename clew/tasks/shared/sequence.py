"""Sequence to sequence: a source line in, a target line out. Works with any body that encodes; translation and
parsing are this task with other data."""

import weakref
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import BeforeValidator, Field
from torch import Tensor, nn

from clew.core.batches import padded
from clew.core.config import Part, TaskSection, build_part, one_of
from clew.core.errors import UserError, unknown
from clew.core.masks import real_positions, row_lengths
from clew.core.types import Memory, State, Term, Tree
from clew.core.wording import argument
from clew.data.examples import Pair
from clew.data.kinds.pairs import PAIRS
from clew.decoding.engine import called
from clew.decoding.stepper import Stepper, picked
from clew.layers.embeddings import tokens_of
from clew.layers.losses import CrossEntropy
from clew.metrics.measures import MEASURES, VALUES, Measured
from clew.metrics.statistics import Statistics
from clew.tasks.entry import TaskEntry
from clew.tasks.learning import Batching
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.shared.alignment import aligned_attention, by_row
from clew.tasks.shared.coverage import CoveringStepper, uneven_coverage, watch_attention
from clew.tasks.shared.scheduled_sampling import DECAYS, Decay, draw_tokens, mix_tokens
from clew.tasks.shared.source_to_target import ReadsAndWrites
from clew.tasks.translation import TRANSLATE
from clew.tasks.uses.programs import SteppingProgram
from clew.tasks.uses.writing import DecodingConfig, Hypothesis, filtered_as, write
from clew.text.tokenizer import HIDDEN, Tokenizer
from clew.text.train import Texts

GREEDY = DecodingConfig(method="greedy")


def known_measures(names: Any) -> Any:
    for name in names if isinstance(names, list) else ():
        if name not in MEASURES:
            raise unknown("measure", name, MEASURES)
    return names


Measures = Annotated[list[str], BeforeValidator(known_measures)]


class SequenceConfig(TaskSection):
    """A decoder that generates the target after an encoder has read the source."""

    name: Literal["sequence"] = "sequence"
    tied: bool | None = Field(
        None, description="the output layer shares the target embedding's weight (default: if their widths agree)"
    )
    bias: bool = Field(True, description="the output layer has a bias")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout before the output layer, in addition to the body's")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="the share of a target that is spread over the vocabulary in training"
    )
    scheduled_sampling: Annotated[Part, one_of("scheduled_sampling", DECAYS)] | None = Field(
        None,
        description=(
            "in training the decoder reads its own prediction instead of a target with probability 1 - eps(step); eps"
            " has linear, exponential or inverse_sigmoid decay, with options"
        ),
    )
    coverage_weight: float = Field(
        0.0,
        ge=0,
        description=(
            "weight of a loss that makes the total attention on every source token 1 (doubly stochastic attention)"
        ),
    )
    start: Literal["end", "pad"] = Field(
        "end", description="the token that the decoder reads first: the end of a target, or padding"
    )
    longest: int = Field(
        256,
        ge=1,
        description=("training leaves out examples with more tokens than this on a side, the end included"),
    )
    measures: Measures = Field(
        ["exact_match", "edit_distance"],
        description=f"metrics of the output against its target: {', '.join(MEASURES)}",
    )
    max_ratio: float | None = Field(
        None, gt=0, description="maximum length of a target: this many tokens per source token, plus 10"
    )
    lowercase: bool = Field(False, description="metrics ignore case")
    exact_space: bool = Field(
        False,
        description="keep white space in the output and in metrics, as for code; else any run of it is one space",
    )
    best: str = Field(
        "loss", description="what selects the best checkpoint: the lowest loss, or the highest value of this metric"
    )

    @property
    def values(self) -> list[str]:
        """Names of the metrics for which higher is better."""
        return [name for measure in self.measures for name in VALUES.get(measure, [measure])]


class TranslationConfig(SequenceConfig):
    """A translation of the source, measured by sacreBLEU and chrF."""

    name: Literal["translation"] = "translation"  # type: ignore[assignment]
    measures: Measures = Field(
        ["bleu", "chrf"], description=f"metrics of the output against its target: {', '.join(MEASURES)}"
    )
    max_ratio: float | None = Field(
        3.0, gt=0, description="maximum length of a target: this many tokens per source token, plus 10"
    )
    best: str = Field(
        "bleu", description="what selects the best checkpoint: the lowest loss, or the highest value of this metric"
    )


class Sides(NamedTuple):
    """An example as ids: the source, which ends with its end token, and the target without its end. `words` is the
    number of words of a parse tree."""

    source: list[int]
    target: list[int]
    words: int = 0


class SequenceBatch(NamedTuple):
    source: Any  # what the encoder's embedding takes: tokens (batch, source length), or vectors
    source_mask: Tensor | None
    tokens: Tensor  # (batch, length), the target one step late
    targets: Tensor  # (batch, length)
    mask: Tensor | None
    words: Tensor  # (batch,)
    fresh: bool = True
    step: Tensor | None = None  # (batch,) the training step, if the task asks for it


class Written(NamedTuple):
    """A target generated for a source. `log_prob` is of all its tokens and its end, `score` is what it was ranked
    by."""

    text: str
    tokens: list[int]
    log_prob: float
    score: float


class SequenceToSequence(ReadsAndWrites):
    """Sequence to sequence, trained on the sum of -log P:

        P(y | x) = product over t of softmax(V d_t + b)[y_t],  d_t = dropout(decoder(y_<t, encoder(x)))

    Both sides end with a token; a source may end with that of its tokenizer's frame. The target's end is also the
    first token that the decoder reads, unless task.start is `pad`. A source begins with the token `<2L>` if its pair
    asks for a translation into L. These tokens cannot occur inside a sequence: if words are tokens, a newline is
    skipped.
    """

    needs = ("encodes",)
    can_bucket = True
    writes = True

    def __init__(self, body: Any, source: Tokenizer, target: Tokenizer, config: SequenceConfig | None = None):
        super().__init__()
        config = config or SequenceConfig()
        check_best(config)
        check_vocabularies(body, source, target)
        if config.tied and body.embedding.dim != body.dim:
            raise UserError(
                f"a tied output layer needs the body's width ({body.dim}) to be the embedding's ({body.embedding.dim});"
                " make them equal or set task.tied=false"
            )
        tied = body.embedding.dim == body.dim if config.tied is None else config.tied
        self.body = body
        self.source = source
        self.target = target
        self.config = config
        # the tokenizer of a pre-trained encoder may have no end
        self.source_end, self.end = source.end or 0, end_of(target)
        if config.start == "pad" and target.pad is None:
            raise UserError(f"task.start=pad needs a padding token, but {target!r} has none; set task.start=end")
        self.start = self.end if config.start == "end" or target.pad is None else target.pad
        self.output_weight = None if tied else nn.Parameter(torch.empty(body.vocabulary, body.dim))
        self.output_bias = nn.Parameter(torch.zeros(body.vocabulary)) if config.bias else None
        if self.output_weight is not None:
            nn.init.uniform_(self.output_weight, -(body.dim**-0.5), body.dim**-0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.cross_entropy = CrossEntropy(config.label_smoothing)
        sampling = config.scheduled_sampling
        self.decay: Decay | None = None if sampling is None else build_part("scheduled_sampling", sampling, DECAYS)
        if config.coverage_weight and (why := self.without_soft_attention()) is not None:
            raise UserError(
                f"task.coverage_weight ({config.coverage_weight}) is for soft attention, but this model {why}; set it"
                " to 0"
            )

    def forward(self, batch: SequenceBatch, state: State = None) -> tuple[dict[str, Term], State]:
        memory = self.read(batch)
        batch = self.with_own_tokens(batch, memory)
        counts = self.counts(batch)
        if "coverage" in counts:
            with watch_attention(aligned_attention(self)) as recorded:
                hidden, state = self.decode(batch, memory)
        else:
            hidden, state = self.decode(batch, memory)
        dropped = self.dropout(hidden)
        losses = self.cross_entropy(dropped, self.weight, self.output_bias, batch.targets, real_positions(batch.mask))
        terms = {"loss": Term(losses.loss, counts["loss"])}
        if "smoothing" in counts:  # reported separately from the loss, but both have a gradient
            terms = {
                "loss": Term(losses.plain, counts["loss"]),
                "smoothing": Term(losses.loss - losses.plain, counts["smoothing"]),
            }
        if "policy" in counts:
            with torch.no_grad():
                log_probs = self.log_probs(dropped).gather(-1, batch.targets[..., None])[..., 0]
            terms |= {
                name: term._replace(count=counts[name])
                for name, term in self.body.hard_terms(state, log_probs, batch.mask).items()
            }
        if "coverage" in counts:
            uneven = uneven_coverage(by_row(recorded[0], len(batch.tokens)), batch.mask, memory.mask)
            terms["coverage"] = Term(uneven, counts["coverage"], self.config.coverage_weight)
        return terms, None

    def with_own_tokens(self, batch: SequenceBatch, memory: Memory) -> SequenceBatch:
        """Return the batch that the decoder reads in training: its targets, some of them replaced by its own
        predictions under scheduled sampling."""
        if self.decay is None or not self.training or batch.step is None:
            return batch
        with torch.no_grad():
            hidden, _ = self.decode(batch, memory)
            predicted = draw_tokens(self.dropout(hidden), self.log_probs)
        return batch._replace(tokens=mix_tokens(batch.tokens, predicted, self.decay(batch.step.float())))

    def without_soft_attention(self) -> str | None:
        """Return why there are no attention weights to learn from, or None."""
        return (
            "samples the places that it attends to (model.hard=true)" if self.body.is_hard else self.without("aligns")
        )

    def check_training(self, training: Batching) -> None:
        if self.config.coverage_weight and getattr(training, "compile", False):
            raise UserError(
                "task.coverage_weight needs attention weights, which compiled code does not show; set"
                " training.compile=false"
            )

    def counts(self, batch: SequenceBatch) -> dict[str, Tensor]:
        """Return the number of targets that each term sums over, from the batch alone."""
        real = real_positions(batch.mask)
        targets = torch.full((), batch.targets.numel(), device=batch.targets.device) if real is None else real.sum()
        names = ["loss"]
        if self.training and self.cross_entropy.label_smoothing:
            names.append("smoothing")
        if self.training and self.body.is_hard:
            names += ["policy", "entropy"]
        if self.training and self.config.coverage_weight:
            names.append("coverage")
        return dict.fromkeys(names, targets)

    @property
    def best(self) -> str:
        """The metric that selects the best checkpoint."""
        return self.config.best

    def decode(self, batch: SequenceBatch, memory: Memory | None = None) -> tuple[Tensor, State]:
        """Return a vector for each given target; `memory` is the encoded source, if it is known."""
        memory = self.read(batch) if memory is None else memory
        hidden_and_state: tuple[Tensor, State] = self.body(
            batch.tokens, batch.mask, self.body.initial_state(len(batch.tokens), memory)
        )
        return hidden_and_state

    def read(self, batch: SequenceBatch) -> Memory:
        memory: Memory = called(self.body.encode, (batch.source, batch.source_mask), ("encode", weakref.ref(self)))
        return memory

    @property
    def weight(self) -> Tensor:
        """V (vocabulary, dim): the output layer's own, or the target embedding's."""
        return self.body.embedding.weight if self.output_weight is None else self.output_weight

    def looked_up(self) -> list[Tensor]:
        """Return tables that are only looked up, never multiplied with a vector: they cost no FLOPs."""
        tables = {
            id(table): table
            for embedding in (self.body.source_embedding, self.body.embedding)
            for table in embedding.looked_up()
        }
        tables.pop(id(self.weight), None)
        return list(tables.values())

    def log_probs(self, hidden: Tensor) -> Tensor:
        logits = F.linear(hidden, self.weight, self.output_bias)
        return logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))

    def encode(self, examples: Sequence[Pair]) -> list[Sides]:
        """Encode all sources and targets as ids."""
        targets = self.target.encode_batch([pair.target for pair in examples])
        sides = zip(self.encode_sources(examples), targets, strict=True)
        marks = {self.end, *language_tokens(self.target).values()}
        return [Sides(source, without(marks, target)) for source, target in sides]

    def encode_sources(self, examples: Sequence[Pair]) -> list[list[int]]:
        sources = self.source.encode_batch([pair.source for pair in examples])
        pairs = zip(examples, sources, strict=True)
        marks = {self.source.end, *language_tokens(self.source).values()}
        encoded = []
        for pair, ids in pairs:
            before, after = self.around(pair.into)
            encoded.append([*before, *without(marks, ids), *after])
        return encoded

    def around(self, into: str) -> tuple[list[int], list[int]]:
        """Return the ids before and after a source's own tokens: the target language's token and the end, or the
        tokenizer's frame if a pre-trained encoder expects one."""
        language_ids = self.target_language_ids(into)
        if (frame := self.source.frame) is not None:
            framed = frame.around([])
            return framed.tokens[: framed.starts[0]], framed.tokens[framed.starts[0] :]
        return language_ids, [self.source_end]

    @cached_property
    def languages(self) -> list[str]:
        """The target languages; empty if the model has only one."""
        return [token[2:-1] for token in language_tokens(self.source)]

    def target_language_ids(self, into: str) -> list[int]:
        """Return the token for a target language."""
        languages = self.languages
        if not into and languages:
            raise UserError(f"this model translates into {', '.join(languages)}; choose one with {argument('into')}")
        if into and into not in languages:
            known = f"it translates into {', '.join(languages)}" if languages else "it knows no languages by name"
            raise UserError(f"the model was not trained to write '{into}'; {known}")
        return [self.source.id(language_token(into))] if into else []

    def lengths(self, sides: Sides) -> tuple[int, int]:
        """Return the number of places of each side in a batch."""
        return len(sides.source), len(sides.target) + 1

    @property
    def longest(self) -> int:
        """The maximum number of places on a side in training."""
        limits = [self.config.longest, self.body.source_max_length, self.body.max_length]
        longest: int = min(limit for limit in limits if limit is not None)
        return longest

    def check_length(self, sides: Sides, place: str) -> None:
        """Refuse an example that is longer than the body's positions."""
        for side, length, limit in zip(
            ("source", "target"), self.lengths(sides), (self.body.source_max_length, self.body.max_length), strict=True
        ):
            if limit is not None and length > limit:
                raise UserError(
                    f"{place}: the {side} has {length} tokens, but the model has only {limit} positions; shorten it, or"
                    " train with a larger model.max_length or another model.position"
                )

    def collate(self, examples: Sequence[Sides]) -> SequenceBatch:
        source, source_mask = padded([sides.source for sides in examples])
        whole, mask = padded([[self.start, *sides.target, self.end] for sides in examples], shifted=True)
        words = torch.tensor([sides.words for sides in examples])
        step = None if self.decay is None else torch.zeros(len(examples), dtype=torch.long)
        return SequenceBatch(
            source, source_mask, whole[:, :-1], whole[:, 1:], None if mask is None else mask[:, 1:], words, step=step
        )

    def stepper(self, batch: SequenceBatch, *, covering: bool = False) -> Stepper:
        """Return a stepper for a batch. With `covering`, its state holds how much of the source has been attended
        to."""
        memory = self.read(batch)
        stepper = SequenceStepper(self, memory)
        return CoveringStepper(stepper, aligned_attention(self), memory) if covering else stepper

    @torch.no_grad()
    def write(
        self,
        batch: SequenceBatch,
        config: DecodingConfig = GREEDY,
        seed: int = 0,
        stepper: Stepper | None = None,
        row_numbers: Sequence[int] | None = None,
    ) -> list[list[Written]]:
        """Generate the best targets for each source. A `stepper` of several models makes them an ensemble."""
        self.check_decoding(config)
        filtered = filtered_as(
            config, self.stepper(batch, covering=config.covers) if stepper is None else stepper, self.never_written
        )
        starts = torch.full((len(batch.tokens), 1), self.start, device=batch.tokens.device)
        max_new = self.max_new(batch, config)
        hypotheses = write(filtered, starts, config, end=self.end, max_new=max_new, seed=seed, row_numbers=row_numbers)
        return [[self.written(hypothesis) for hypothesis in row] for row in hypotheses]

    @cached_property
    def never_written(self) -> tuple[int, ...]:
        """Tokens that are never generated: padding, and the language tokens if both sides share a vocabulary."""
        pad = [] if self.target.pad is None else [self.target.pad]
        return (*pad, *language_tokens(self.target).values())

    def check_decoding(self, config: DecodingConfig) -> None:
        """Refuse a coverage penalty if there are no attention weights."""
        if config.covers and (why := self.without("aligns")) is not None:
            raise UserError(
                f"decoding.coverage_penalty ({config.coverage_penalty}) needs attention weights, but this model {why};"
                " set it to 0"
            )

    def most_new(self, config: DecodingConfig) -> int:
        """Return the maximum number of tokens of a target of any source."""
        return config.max_new if self.body.max_length is None else min(config.max_new, self.body.max_length)

    def max_new(self, batch: SequenceBatch, config: DecodingConfig) -> Tensor:
        """Return the maximum number of tokens of each target, its end included, (batch,)."""
        most = self.most_new(config)
        rows = torch.full_like(batch.tokens[:, 0], most)
        if self.config.max_ratio is None:
            return rows
        whole = torch.full_like(rows, tokens_of(batch.source).shape[1])
        lengths = whole if batch.source_mask is None else row_lengths(batch.source_mask)
        return (self.config.max_ratio * lengths + 10).long().clamp(max=most)

    def written(self, hypothesis: Hypothesis) -> Written:
        text = self.target.decode(hypothesis.tokens)
        tokens, log_prob, score, _ = hypothesis
        return Written(text if self.config.exact_space else text.strip(), tokens, log_prob, score)

    def predict(
        self,
        batch: SequenceBatch,
        config: DecodingConfig = GREEDY,
        seed: int = 0,
        row_numbers: Sequence[int] | None = None,
    ) -> list[str]:
        """Return the best target for each source."""
        return [best[0].text if best else "" for best in self.write(batch, config, seed, row_numbers=row_numbers)]

    def measure(self, examples: Sequence[Pair], predictions: Sequence[str]) -> Measured:
        """Return every metric of the predictions."""
        targets, outputs = self.measured([pair.target for pair in examples]), self.measured(predictions)
        results = [MEASURES[name].corpus(outputs, targets, self.config.lowercase) for name in self.config.measures]
        values = {name: value for result in results for name, value in result.values.items()}
        return Measured(values, ", ".join(result.text for result in results))

    def described(self, example: Pair, prediction: str) -> dict[str, str]:
        """Return an example and its prediction as text."""
        into = {"into": example.into} if example.into else {}
        return {"source": example.source, **into, "target": example.target, "prediction": prediction}

    def sentence_scores(self, examples: Sequence[Pair], predictions: Sequence[str]) -> list[float]:
        """Return one score per example by the first metric; higher is better."""
        sentence = MEASURES[self.config.measures[0]].sentence if self.config.measures else lambda a, b, c: float(a == b)
        targets, outputs = self.measured([pair.target for pair in examples]), self.measured(predictions)
        return [sentence(text, target, self.config.lowercase) for text, target in zip(outputs, targets, strict=True)]

    def statistics(self, examples: Sequence[Pair], predictions: Sequence[str]) -> list[Statistics]:
        """Return the statistics of every metric."""
        targets, outputs = self.measured([pair.target for pair in examples]), self.measured(predictions)
        metric_statistics = [
            MEASURES[name].statistics(outputs, targets, self.config.lowercase) for name in self.config.measures
        ]
        return [
            {name: row for each in metric_statistics for name, row in each[place].items()}
            for place in range(len(examples))
        ]

    def row_losses(self, batch: SequenceBatch) -> list[list[float]]:
        log_probs = self.log_probs(self.decode(batch)[0]).gather(-1, batch.targets[..., None])[..., 0].double()
        real = real_positions(batch.mask)
        real = torch.ones_like(batch.targets, dtype=torch.bool) if real is None else real
        losses: list[list[float]] = torch.stack([-(log_probs * real).sum(1), real.sum(1).double()], 1).tolist()
        return losses

    def measured(self, texts: Sequence[str]) -> list[str]:
        """Return texts as metrics see them."""
        return list(texts) if self.config.exact_space else [" ".join(text.split()) for text in texts]

    def programs(self) -> list[SteppingProgram]:
        languages = {token[2:-1]: id for token, id in language_tokens(self.source).items()}
        before, after = self.around(next(iter(languages), ""))
        facts = {"source_max_length": self.body.source_max_length, "languages": languages or None}
        return [
            SteppingProgram(
                True, {**facts, "source_before": before, "source_after": after, "start": self.start, "end": self.end}
            )
        ]


class SequenceStepper:
    """The task as a stepper. The source is in the state, so it is called like a language model's."""

    def __init__(self, task: SequenceToSequence, memory: Memory):
        self.task = task
        self.memory = memory
        self.vocabulary = task.body.vocabulary

    @property
    def signature(self) -> Hashable:
        return type(self), weakref.ref(self.task)

    @property
    def starts_from(self) -> Tree:
        return self.memory

    def initial_state(self, rows: int, capacity: int | None = None, starts_from: Tree = None) -> State:
        return self.task.body.initial_state(rows, self.memory if starts_from is None else starts_from, capacity)

    def __call__(
        self, tokens: Tensor, mask: Tensor | None, state: State, at: Tensor | None = None
    ) -> tuple[Tensor, State]:
        hidden, state = self.task.body(tokens, mask, state)
        return self.task.log_probs(picked(hidden, at)), state


def without(marks: Collection[int | None], ids: list[int]) -> list[int]:
    return ids if set(marks).isdisjoint(ids) else [id for id in ids if id not in marks]


def language_token(language: str) -> str:
    """Return the token at the beginning of a source that asks for a language (Johnson et al. 2017)."""
    return f"<2{language}>"


def language_tokens(tokenizer: Tokenizer) -> dict[str, int]:
    """Return a tokenizer's language tokens and their ids. They are added by id: `<2d>` as a word of a text is not one
    of them, so no text can ask for a language."""
    return {token: id for token, id in tokenizer.specials.items() if token.startswith("<2") and token.endswith(">")}


def train_sequence_vocabularies(
    train: TrainTokenizer, joint: bool, pairs: Sequence[Pair], config: SequenceConfig
) -> dict[str, Tokenizer]:
    """Train one tokenizer per side, or one for both. The source's has a token for each target language that the pairs
    name."""
    languages = sorted({language_token(pair.into) for pair in pairs if pair.into})
    sources, targets = Texts(lambda: (pair.source for pair in pairs)), Texts(lambda: (pair.target for pair in pairs))
    if joint:
        both = train(Texts(lambda: chain(sources, targets)), languages)
        return {"source": both, "target": both}
    return {"source": train(sources, languages), "target": train(targets, [])}


def check_best(config: SequenceConfig) -> None:
    names = ["loss", *config.values]
    if config.best not in names:
        raise unknown("value for task.best", config.best, names)


def check_vocabularies(body: Any, source: Tokenizer, target: Tokenizer) -> None:
    if body.shares_embeddings and source.hash != target.hash and not same_ids(source, target):
        raise UserError(
            "shared embeddings need one vocabulary for both sides; set text.joint=true or model.shared_embeddings=false"
        )


def same_ids(source: Tokenizer, target: Tokenizer) -> bool:
    """Whether two tokenizers have the same tokens, even if each finds some of them in a text that the other does
    not."""
    return [token.removeprefix(HIDDEN) for token in source.tokens] == [
        token.removeprefix(HIDDEN) for token in target.tokens
    ]


def end_of(tokenizer: Tokenizer) -> int:
    if tokenizer.end is None:
        raise UserError(
            f"{tokenizer!r} has no token that ends a sequence, such as <eos>; use the tokenizer that the run was"
            " trained with"
        )
    return tokenizer.end


def build_sequence(body: Any, vocabularies: dict[str, Any], config: SequenceConfig) -> SequenceToSequence:
    return SequenceToSequence(body, vocabularies["source"], vocabularies["target"], config)


SIDES = {"source": Tokenizer, "target": Tokenizer}

SEQUENCE = TaskEntry(
    config=SequenceConfig,
    build=build_sequence,
    needs=SequenceToSequence.needs,
    vocabularies=SIDES,
    takes_encoder=True,
    learning=Examples(PAIRS, train_sequence_vocabularies),
    uses={"translate": TRANSLATE},
)
TRANSLATION = replace(SEQUENCE, config=TranslationConfig, pipeline="translation")
