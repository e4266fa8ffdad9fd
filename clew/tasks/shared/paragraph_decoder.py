"""What writes paragraphs: sentences that are planned one by one over a picture's places, and written word by word
(Krause et al. 2017). Knows nothing of examples, measures and files."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.core.batches import padded
from clew.core.config import Part, TaskSection, build_part, one_of
from clew.core.errors import UserError
from clew.core.types import Memory, State
from clew.layers.cells import LSTM
from clew.layers.losses import CrossEntropy
from clew.layers.paragraphs import PlannerState, SentencePlanner, SentenceWriter
from clew.layers.recurrent import Recurrent
from clew.layers.scores import SCORES
from clew.metrics.captioning import CAPTION_MEASURES
from clew.sources.readers import PICTURES
from clew.tasks.captioning import VALUES
from clew.tasks.shared.paragraph_measures import OF_SCENES
from clew.tasks.shared.sequence import end_of
from clew.tasks.uses.writing import DecodingConfig, Hypothesis, filtered_as, write
from clew.text.tokenizer import Tokenizer

GREEDY = DecodingConfig(method="greedy")


class ParagraphsConfig(TaskSection):
    """Several sentences on a picture."""

    name: Literal["paragraphs"] = "paragraphs"
    input: Annotated[Part, one_of("reader of pictures", PICTURES)] = Field(
        "convolved", description="how a picture is read; regions reads the boxes that are given with it"
    )
    dim: int = Field(128, ge=1, description="width of both recurrent states, that of sentences and that of words")
    embedding_dim: int = Field(128, ge=1, description="width of the words' embedding")
    score: Annotated[Part, one_of("score", SCORES)] = "additive"
    phrases: bool = Field(
        False, description="the words attend to the phrases of the picture's boxes too, which the data give"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of what the output layer reads; besides the body's own")
    stop_weight: float = Field(
        1.0, ge=0, description="how much it counts, beside the words, to stop where the paragraph does"
    )
    most_sentences: int = Field(
        10, ge=1, le=1000, description="a paragraph that is written has at most so many sentences"
    )
    longest: int = Field(
        10_000, ge=1, description="pictures of more places, or sentences of more tokens, are left out, and counted"
    )
    measures: list[str] = Field(
        ["bleu", "repeated_trigrams"],
        description=(
            f"paragraphs are held against their references by {', '.join(CAPTION_MEASURES)}; those of drawn scenes by"
            " what they speak of too"
        ),
    )
    best: str = Field(
        "loss", description="the best evaluation is that of the lowest loss, or of the highest value of this measure"
    )

    @property
    def values(self) -> list[str]:
        """The names of what is measured and best when highest."""
        found = [
            name
            for measure in self.measures
            for name in VALUES.get(measure, [measure])
            if measure != "repeated_trigrams"
        ]
        return [*found, *OF_SCENES]


class ParagraphBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None  # (batch, places)
    tokens: Tensor  # (batch, sentences, words), the targets one step late
    targets: Tensor  # (batch, sentences, words)
    real: Tensor  # (batch, sentences, words)
    phrases: Tensor | None = None  # (batch, phrase words) of all regions, one behind the other
    regions: Tensor | None = None  # (batch, phrase words) the region that each is of
    phrase_mask: Tensor | None = None  # (batch, phrase words)
    fresh: bool = True


class Seen(NamedTuple):
    """A picture as it is written on."""

    regions: Memory
    phrases: Memory | None


class ParagraphDecoder(nn.Module):
    """P(paragraph | picture) = product over sentences j of (1 - p(stop_j)) P(words of j | topic_j), times p(stop)
    behind the last.

    The body's vectors of the picture's places are what both levels attend to (`clew.layers.paragraphs`). A sentence
    that was written is read by a recurrence of its own, so that in training all sentences are read, planned and written
    at once.
    """

    config: ParagraphsConfig

    def __init__(self, body: Any, target: Tokenizer, config: ParagraphsConfig):
        super().__init__()
        self.body = body
        self.target = target
        self.config = config
        self.end = end_of(target)
        dim, word_dim = config.dim, config.embedding_dim
        self.embedding = nn.Embedding(target.vocabulary, word_dim)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.sentence_reader = Recurrent(LSTM(word_dim, dim))
        self.planner = SentencePlanner(dim, body.dim, dim, self.score)
        self.writer = SentenceWriter(
            word_dim, body.dim, dim, phrase_dim=word_dim if config.phrases else None, score=self.score
        )
        self.phrase_region = nn.Linear(body.dim, word_dim) if config.phrases else None
        self.output = nn.Linear(dim, target.vocabulary)
        self.dropout = nn.Dropout(config.dropout)
        self.cross_entropy = CrossEntropy()

    def score(self, query_dim: int, key_dim: int) -> Any:
        return build_part("score", self.config.score, SCORES, query_dim, key_dim)

    def decode(self, batch: ParagraphBatch) -> tuple[Tensor, Tensor]:
        """A vector for each word (batch, sentences, words, dim), and the logits of stopping (batch, sentences + 1)."""
        rows, sentences = batch.tokens.shape[:2]
        seen = self.read(batch)
        ends = F.pad(batch.targets, (0, 0, 1, 0)), F.pad(batch.real, (0, 0, 1, 0))  # nothing before the first sentence
        before = self.read_sentences(ends[0].flatten(0, 1), ends[1].flatten(0, 1)).unflatten(0, (rows, sentences + 1))
        plan, _ = self.planner(before, self.planner.initial_state(seen.regions))
        state = self.writer.initial_state(plan.topics[:, :-1].flatten(0, 1), *seen)
        hidden, _ = self.writer(self.embedding(batch.tokens.flatten(0, 1)), batch.real.flatten(0, 1), state)
        return hidden.unflatten(0, (rows, sentences)), plan.stops

    def read(self, batch: ParagraphBatch) -> Seen:
        regions = Memory(self.body(batch.inputs, batch.mask)[0], batch.mask)
        if self.phrase_region is None:
            return Seen(regions, None)
        assert batch.phrases is not None and batch.regions is not None
        each = torch.arange(len(batch.phrases), device=batch.phrases.device)[:, None]
        of_regions = self.phrase_region(regions.values)[each, batch.regions]  # (batch, phrase words, embedding_dim)
        return Seen(regions, Memory(self.embedding(batch.phrases) + of_regions, batch.phrase_mask))

    def read_sentences(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Sentences (rows, words), their ends among them, each as one vector (rows, dim); 0 where there is none."""
        _, state = self.sentence_reader(self.embedding(tokens), real)
        found: Tensor = state.cell.hidden
        return found

    def log_probs(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.output(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)

    def stop_losses(self, batch: ParagraphBatch, stops: Tensor) -> Tensor:
        """-log p(stop or go on) of each sentence and of the one behind the last (batch, sentences + 1), 0 on
        padding."""
        number = torch.arange(stops.shape[1], device=stops.device)
        ends = batch.real[..., 0].sum(1)[:, None]  # (batch, 1)
        losses = F.binary_cross_entropy_with_logits(stops, (number == ends).to(stops), reduction="none")
        return losses.masked_fill(number > ends, 0.0)

    @torch.no_grad()
    def write(
        self,
        batch: ParagraphBatch,
        config: DecodingConfig = GREEDY,
        seed: int = 0,
        row_numbers: Sequence[int] | None = None,
    ) -> list[tuple[list[list[int]], float]]:
        """The sentences on each picture as ids, and log p of them all. Each is written by the decoding algorithm, and
        read before the next one is planned; a paragraph stops where that is more probable than not, behind its first
        sentence."""
        self.check_decoding(config)
        seen = self.read(batch)
        rows, device = len(batch.tokens), batch.tokens.device
        found: list[list[list[int]]] = [[] for _ in range(rows)]
        log_prob, is_open = [0.0] * rows, [True] * rows
        state: PlannerState = self.planner.initial_state(seen.regions)
        before = seen.regions.values.new_zeros(rows, 1, self.config.dim)
        starts = torch.full((rows, 1), self.end, device=device)
        for number in range(self.config.most_sentences):
            plan, state = self.planner(before, state)
            stop = plan.stops[:, 0].double()
            goes_on = [bool(number == 0 or logit <= 0) for logit in stop.tolist()]
            for row, (ends, stays) in enumerate(
                zip(F.logsigmoid(stop).tolist(), F.logsigmoid(-stop).tolist(), strict=True)
            ):
                if is_open[row]:
                    log_prob[row] += stays if goes_on[row] else ends
                    is_open[row] = goes_on[row]
            if not any(is_open):
                break
            stepper = filtered_as(config, SentenceStepper(self, plan.topics[:, 0], seen), self.never_written)
            sentences = write(
                stepper,
                starts,
                config,
                end=self.end,
                max_new=config.max_new,
                seed=seed + 7919 * number,
                row_numbers=row_numbers,
            )
            best = [row[0] if row else Hypothesis([], 0.0, 0.0) for row in sentences]
            for row, hypothesis in enumerate(best):
                if is_open[row]:
                    found[row].append(hypothesis.tokens)
                    log_prob[row] += hypothesis.log_prob
            tokens, mask = padded([[*hypothesis.tokens, self.end] for hypothesis in best])
            real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            before = self.read_sentences(tokens.to(device), real.to(device))[:, None]
        return list(zip(found, log_prob, strict=True))

    @property
    def never_written(self) -> tuple[int, ...]:
        return () if self.target.pad is None else (self.target.pad,)

    def check_decoding(self, config: DecodingConfig) -> None:
        if config.n_best > 1:
            raise UserError(
                f"n_best ({config.n_best}) must be 1: a paragraph is written sentence by sentence, each from the best"
                " before it"
            )
        if config.covers:
            raise UserError(
                f"coverage_penalty ({config.coverage_penalty}) must be 0: a sentence need not look at the whole picture"
            )


class SentenceStepper:
    """Writes sentences on topics (pictures, dim); the hypotheses of a sentence share its picture."""

    def __init__(self, task: ParagraphDecoder, topics: Tensor, seen: Seen):
        self.task, self.topics, self.seen = task, topics, seen
        self.vocabulary = task.target.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.task.writer.initial_state(self.topics.repeat_interleave(rows // len(self.topics), 0), *self.seen)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        hidden, state = self.task.writer(self.task.embedding(tokens), mask, state)
        return self.task.log_probs(hidden), state
