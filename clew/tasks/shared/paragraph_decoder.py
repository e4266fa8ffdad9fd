"""A decoder of paragraphs: it plans sentences one by one over a picture's places, and generates each word by word
(Krause et al. 2017). Knows nothing about examples, metrics and files."""

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
from clew.core.wording import argument_name
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
    """Several sentences about a picture."""

    name: Literal["paragraphs"] = "paragraphs"
    input: Annotated[Part, one_of("reader of pictures", PICTURES)] = Field(
        "convolved", description="how a picture is read; regions reads the boxes given with it"
    )
    dim: int = Field(128, ge=1, description="width of both recurrent states, of sentences and of words")
    embedding_dim: int = Field(128, ge=1, description="width of the word embedding")
    score: Annotated[Part, one_of("score", SCORES)] = "additive"
    phrases: bool = Field(
        False, description="words also attend to the phrases that the data give for the picture's boxes"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout before the output layer, in addition to the body's")
    stop_weight: float = Field(
        1.0, ge=0, description="weight of the loss of stopping where the paragraph ends, relative to that of the words"
    )
    most_sentences: int = Field(10, ge=1, le=1000, description="maximum number of sentences in a generated paragraph")
    longest: int = Field(
        10_000, ge=1, description="training leaves out pictures with more places or sentences with more tokens"
    )
    measures: list[str] = Field(
        ["bleu", "repeated_trigrams"],
        description=(
            f"metrics against references: {', '.join(CAPTION_MEASURES)}; for generated scenes, also of what the text"
            " mentions"
        ),
    )
    best: str = Field(
        "loss", description="what selects the best checkpoint: the lowest loss, or the highest value of this metric"
    )

    @property
    def values(self) -> list[str]:
        """Names of the metrics for which higher is better."""
        names = [
            name
            for measure in self.measures
            for name in VALUES.get(measure, [measure])
            if measure != "repeated_trigrams"
        ]
        return [*names, *OF_SCENES]


class ParagraphBatch(NamedTuple):
    inputs: Any
    mask: Tensor | None  # (batch, places)
    tokens: Tensor  # (batch, sentences, words), the targets one step late
    targets: Tensor  # (batch, sentences, words)
    real: Tensor  # (batch, sentences, words)
    phrases: Tensor | None = None  # (batch, phrase words) of all regions, concatenated
    regions: Tensor | None = None  # (batch, phrase words) the region of each word
    phrase_mask: Tensor | None = None  # (batch, phrase words)
    fresh: bool = True


class PictureMemory(NamedTuple):
    """An encoded picture: its regions, and the phrases of its boxes."""

    regions: Memory
    phrases: Memory | None


class ParagraphDecoder(nn.Module):
    """Paragraphs about a picture:

        P(paragraph | picture) = product over sentences j of (1 - p(stop_j)) P(words of j | topic_j),
                                 times p(stop) after the last

    Sentences and words both attend to the body's vectors of the picture's places (`clew.layers.paragraphs`). A
    generated sentence is read by a separate recurrence, so that in training all sentences are read, planned and
    generated at once.
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
        """Return a vector for each word (batch, sentences, words, dim), and the logits of stopping (batch, sentences
        + 1)."""
        rows, sentences = batch.tokens.shape[:2]
        seen = self.read(batch)
        # Nothing before the first sentence.
        previous_targets = (
            F.pad(batch.targets, (0, 0, 1, 0)),
            F.pad(batch.real, (0, 0, 1, 0)),
        )
        previous = self.read_sentences(previous_targets[0].flatten(0, 1), previous_targets[1].flatten(0, 1)).unflatten(
            0, (rows, sentences + 1)
        )
        plan, _ = self.planner(previous, self.planner.initial_state(seen.regions))
        state = self.writer.initial_state(plan.topics[:, :-1].flatten(0, 1), *seen)
        hidden, _ = self.writer(self.embedding(batch.tokens.flatten(0, 1)), batch.real.flatten(0, 1), state)
        return hidden.unflatten(0, (rows, sentences)), plan.stops

    def read(self, batch: ParagraphBatch) -> PictureMemory:
        regions = Memory(self.body(batch.inputs, batch.mask)[0], batch.mask)
        if self.phrase_region is None:
            return PictureMemory(regions, None)
        assert batch.phrases is not None and batch.regions is not None
        each = torch.arange(len(batch.phrases), device=batch.phrases.device)[:, None]
        of_regions = self.phrase_region(regions.values)[each, batch.regions]  # (batch, phrase words, embedding_dim)
        return PictureMemory(regions, Memory(self.embedding(batch.phrases) + of_regions, batch.phrase_mask))

    def read_sentences(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Encode sentences (rows, words), their ends included, as one vector each (rows, dim); 0 for a missing
        sentence."""
        _, state = self.sentence_reader(self.embedding(tokens), real)
        hidden: Tensor = state.cell.hidden
        return hidden

    def log_probs(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.output(hidden)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)

    def stop_losses(self, batch: ParagraphBatch, stops: Tensor) -> Tensor:
        """Return -log p(stop or continue) before each sentence and after the last (batch, sentences + 1), 0 on
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
        """Generate a paragraph for each picture: return the ids of its sentences, and log p of them all.

        Each sentence is generated by the decoding algorithm, and read before the next one is planned. A paragraph has
        at least one sentence, and stops when stopping is more probable than not.
        """
        self.check_decoding(config)
        seen = self.read(batch)
        rows, device = len(batch.tokens), batch.tokens.device
        paragraphs: list[list[list[int]]] = [[] for _ in range(rows)]
        log_prob, is_open = [0.0] * rows, [True] * rows
        state: PlannerState = self.planner.initial_state(seen.regions)
        previous = seen.regions.values.new_zeros(rows, 1, self.config.dim)
        starts = torch.full((rows, 1), self.end, device=device)
        for number in range(self.config.most_sentences):
            plan, state = self.planner(previous, state)
            stop = plan.stops[:, 0].double()
            continues = [bool(number == 0 or logit <= 0) for logit in stop.tolist()]
            for row, (log_stop, log_continue) in enumerate(
                zip(F.logsigmoid(stop).tolist(), F.logsigmoid(-stop).tolist(), strict=True)
            ):
                if is_open[row]:
                    log_prob[row] += log_continue if continues[row] else log_stop
                    is_open[row] = continues[row]
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
                    paragraphs[row].append(hypothesis.tokens)
                    log_prob[row] += hypothesis.log_prob
            tokens, mask = padded([[*hypothesis.tokens, self.end] for hypothesis in best])
            real = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            previous = self.read_sentences(tokens.to(device), real.to(device))[:, None]
        return list(zip(paragraphs, log_prob, strict=True))

    @property
    def never_written(self) -> tuple[int, ...]:
        return () if self.target.pad is None else (self.target.pad,)

    def check_decoding(self, config: DecodingConfig) -> None:
        if config.n_best > 1:
            raise UserError(
                f"{argument_name('n_best')} ({config.n_best}) must be 1: each sentence of a paragraph is generated"
                " after the best"
                " sentence before it"
            )
        if config.covers:
            raise UserError(
                f"{argument_name('coverage_penalty')} ({config.coverage_penalty}) must be 0: a sentence need not"
                " look at the whole picture"
            )


class SentenceStepper:
    """A stepper that generates sentences on topics (pictures, dim); the hypotheses of a sentence share its picture."""

    def __init__(self, task: ParagraphDecoder, topics: Tensor, seen: PictureMemory):
        self.task, self.topics, self.seen = task, topics, seen
        self.vocabulary = task.target.vocabulary

    def initial_state(self, rows: int, capacity: int | None = None) -> State:
        return self.task.writer.initial_state(self.topics.repeat_interleave(rows // len(self.topics), 0), *self.seen)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: State) -> tuple[Tensor, State]:
        hidden, state = self.task.writer(self.task.embedding(tokens), mask, state)
        return self.task.log_probs(hidden), state
