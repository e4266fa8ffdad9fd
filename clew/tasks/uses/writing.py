"""How text is generated: the settings, and the generation of many rows by any decoding algorithm over a stepper.
Knows no task."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.core.config import Section
from clew.core.masks import row_lengths
from clew.decoding.beam import beam_search
from clew.decoding.beam_step import EarlyStop
from clew.decoding.drafts import Draft
from clew.decoding.ends import End
from clew.decoding.filters import with_filters
from clew.decoding.forced_end import ForcedEnd
from clew.decoding.ranking import LengthForm, Ranking
from clew.decoding.sampling import greedy_sequences, sample_sequences
from clew.decoding.speculative import speculative_sequences
from clew.decoding.stepper import Stepper


class DecodingConfig(Section):
    """How text is generated."""

    method: Literal["sample", "greedy", "beam"] = Field("sample", description="how the next token is chosen")
    max_new: int = Field(300, ge=1, description="maximum number of tokens generated")
    temperature: float = Field(1.0, gt=0, description="below 1 sharpens the distribution, above 1 flattens it")
    top_k: int | None = Field(None, ge=1, description="sample from the k most probable tokens only")
    top_p: float | None = Field(
        None, gt=0, le=1, description="sample from the most probable tokens whose mass reaches p"
    )
    repetition_penalty: float = Field(
        1.0, gt=0, description="multiplies the log-probabilities of tokens that are already in the text"
    )
    no_repeat_ngram: int | None = Field(None, ge=1, description="never repeat an n-gram of this size")
    beams: int = Field(4, ge=1, description="beam search's width")
    length_penalty: float = Field(1.0, description="beam scores are log p / length^length_penalty")
    length_form: LengthForm = Field(
        "power",
        description=(
            "beam scores are log p / length^length_penalty, or with gnmt log p / ((5 + length) / 6)^length_penalty"
        ),
    )
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        description=(
            "add this times the sum over source tokens of log(min(attention, 1)) to beam scores; GNMT used 0.2"
        ),
    )
    n_best: int = Field(
        1, ge=1, description="number of hypotheses that beam search returns; it uses at least as many beams"
    )
    early_stop: EarlyStop | None = Field(
        None,
        description=(
            "end beam search as transformers does, where only the best candidates of a step may end: when no running"
            " hypothesis can still win (never), when none would win at its present length (likely), or when as many as"
            " there are beams have ended (full)"
        ),
    )
    forced_end: bool = Field(False, description="make the last of max_new tokens the end token, at no cost")
    stop: bool | str | list[str] | None = Field(
        None,
        description=(
            "stop at the tokenizer's end token (true), or at this token or these tokens; by default only subword models"
            " stop"
        ),
    )

    @property
    def ranking(self) -> Ranking:
        return Ranking(self.length_penalty, self.length_form, self.coverage_penalty)

    @property
    def covers(self) -> bool:
        """Whether beam search scores how much of the source has been attended to."""
        return self.method == "beam" and self.coverage_penalty > 0


class Guessed(NamedTuple):
    """Acceptance counts of a draft for one continuation: calls of the model after the prompt, guesses, and accepted
    guesses."""

    rounds: int
    proposed: int
    accepted: int


class Hypothesis(NamedTuple):
    """One continuation: its ids without the end, log p of the ids and the end, and the score that beam search ranks
    it by."""

    tokens: list[int]
    log_prob: float
    score: float
    guessed: Guessed | None = None


def write(
    stepper: Stepper,
    prompt: Tensor,
    config: DecodingConfig,
    *,
    mask: Tensor | None = None,
    end: End,
    max_new: int | Tensor,
    seed: int = 0,
    row_numbers: Sequence[int] | None = None,
    draft: Draft | None = None,
) -> list[list[Hypothesis]]:
    """Return the continuations of each row of a prompt (rows, length), best first: `n_best` with beam search, else
    one.

    `max_new` may be one limit per row (rows,). Sampling depends on a row's number in `row_numbers`, not on its batch.
    A `draft` guesses tokens for every method but beam search.
    """
    stepper = ending_as(config, stepper, prompt, mask, end=end, max_new=max_new)
    if config.method == "beam":
        best = beam_search(
            stepper,
            prompt,
            mask,
            beams=max(config.beams, config.n_best),
            max_new=max_new,
            end=end,
            length_penalty=config.length_penalty,
            length_form=config.length_form,
            coverage_penalty=config.coverage_penalty,
            n_best=config.n_best,
            early_stop=config.early_stop,
        )
        return [
            [
                Hypothesis(without_end(tokens[:length], end), log_prob, score)
                for tokens, length, log_prob, score in zip(*row, strict=True)
                if length
            ]
            for row in zip(
                best.tokens.tolist(), best.lengths.tolist(), best.log_probs.tolist(), best.scores.tolist(), strict=True
            )
        ]
    limits = torch.as_tensor(max_new, device=prompt.device).expand(len(prompt))
    longest, guessed = int(limits.max()), list[Guessed | None]([None] * len(prompt))
    if draft is not None:
        sampling_seed = None if config.method == "greedy" else seed
        sequences, acceptance = speculative_sequences(
            stepper, draft, prompt, mask, max_new=longest, end=end, seed=sampling_seed, row_numbers=row_numbers
        )
        guessed = [Guessed(*row) for row in torch.stack(acceptance, 1).tolist()]
    elif config.method == "greedy":
        sequences = greedy_sequences(stepper, prompt, mask, max_new=longest, end=end)
    else:
        sequences = sample_sequences(
            stepper, prompt, mask, max_new=longest, end=end, seed=seed, row_numbers=row_numbers
        )
    is_within = torch.arange(sequences.tokens.shape[1], device=prompt.device) < limits[:, None]
    lengths, log_probs = (
        torch.minimum(sequences.lengths, limits),
        torch.where(is_within, sequences.log_probs, 0.0).sum(1),
    )
    rows = zip(sequences.tokens.tolist(), lengths.tolist(), log_probs.tolist(), guessed, strict=True)
    return [
        [
            Hypothesis(
                without_end(tokens[:length], end),
                log_prob,
                log_prob / config.ranking.divisor(max(length, 1)),
                acceptance_counts,
            )
        ]
        for tokens, length, log_prob, acceptance_counts in rows
    ]


def filtered_as(config: DecodingConfig, stepper: Stepper, banned: tuple[int, ...]) -> Stepper:
    """Return a stepper with the filters of `config`, and with some tokens banned."""
    return with_filters(
        stepper,
        temperature=config.temperature,
        top_k=config.top_k,
        top_p=config.top_p,
        repetition_penalty=config.repetition_penalty,
        no_repeat_ngram=config.no_repeat_ngram,
        banned=banned,
    )


def ending_as(
    config: DecodingConfig,
    stepper: Stepper,
    prompt: Tensor,
    mask: Tensor | None = None,
    *,
    end: End,
    max_new: int | Tensor,
) -> Stepper:
    """Return a stepper whose last token is the end, if `config` asks for it."""
    if not config.forced_end:
        return stepper
    return ForcedEnd(stepper, end=end, max_new=max_new, prompt=prompt.shape[1] if mask is None else row_lengths(mask))


def without_end(ids: list[int], end: End) -> list[int]:
    ends = end if isinstance(end, Sequence) else [end]
    return ids[:-1] if ids and ids[-1] in ends else ids
