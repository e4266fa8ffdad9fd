"""How text is written: the settings, and many rows written at once by any decoding algorithm over a stepper. Knows no
task."""

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
    max_new: int = Field(300, ge=1, description="tokens generated at most")
    temperature: float = Field(1.0, gt=0, description="below 1 sharpens the distribution, above 1 flattens it")
    top_k: int | None = Field(None, ge=1, description="only the k most probable tokens")
    top_p: float | None = Field(None, gt=0, le=1, description="only the most probable tokens whose mass reaches p")
    repetition_penalty: float = Field(
        1.0, gt=0, description="multiplies log-probabilities of tokens that stand in the text already"
    )
    no_repeat_ngram: int | None = Field(None, ge=1, description="no n-gram of this size twice")
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
            "beam scores have this times the sum over source tokens of log(min(attention, 1)) added; GNMT's took 0.2"
        ),
    )
    n_best: int = Field(1, ge=1, description="hypotheses returned by beam search, which is at least so wide")
    early_stop: EarlyStop | None = Field(
        None,
        description=(
            "beam search as transformers has it, where only the best candidates of a step may end: until no running one"
            " can win (never), would win at its present length (likely), or as many as there are beams have ended"
            " (full)"
        ),
    )
    forced_end: bool = Field(False, description="the last of max_new tokens is the end, at no cost")
    stop: bool | str | list[str] | None = Field(
        None,
        description=(
            "end at the tokenizer's end token, or at the token or tokens that are named; where not given, only for"
            " subwords"
        ),
    )

    @property
    def ranking(self) -> Ranking:
        return Ranking(self.length_penalty, self.length_form, self.coverage_penalty)

    @property
    def covers(self) -> bool:
        """Whether a search weighs how much of the source was looked at."""
        return self.method == "beam" and self.coverage_penalty > 0


class Guessed(NamedTuple):
    """How well a draft guessed a continuation: calls of the model after the prompt, guesses, and those of them that
    were accepted."""

    rounds: int
    proposed: int
    accepted: int


class Hypothesis(NamedTuple):
    """One continuation: its ids without the end, log p of them and the end, and the score by which beam search
    chooses."""

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
    """Continuations of each row of a prompt (rows, length), best first: `n_best` of beam search, else one.

    `max_new` may be each row's own (rows,). `row_numbers` are what sampling draws a row by, whatever batch it is in. A
    `draft` guesses tokens, for all methods but beam search.
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
        drawn_by = None if config.method == "greedy" else seed
        found, acceptance = speculative_sequences(
            stepper, draft, prompt, mask, max_new=longest, end=end, seed=drawn_by, row_numbers=row_numbers
        )
        guessed = [Guessed(*row) for row in torch.stack(acceptance, 1).tolist()]
    elif config.method == "greedy":
        found = greedy_sequences(stepper, prompt, mask, max_new=longest, end=end)
    else:
        found = sample_sequences(stepper, prompt, mask, max_new=longest, end=end, seed=seed, row_numbers=row_numbers)
    is_within = torch.arange(found.tokens.shape[1], device=prompt.device) < limits[:, None]
    lengths, log_probs = torch.minimum(found.lengths, limits), torch.where(is_within, found.log_probs, 0.0).sum(1)
    rows = zip(found.tokens.tolist(), lengths.tolist(), log_probs.tolist(), guessed, strict=True)
    return [
        [
            Hypothesis(
                without_end(tokens[:length], end), log_prob, log_prob / config.ranking.divisor(max(length, 1)), how
            )
        ]
        for tokens, length, log_prob, how in rows
    ]


def filtered_as(config: DecodingConfig, stepper: Stepper, banned: tuple[int, ...]) -> Stepper:
    """A stepper under the filters that a config asks for, some tokens banned besides."""
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
    """A stepper whose last token is the end, where a config asks for that."""
    if not config.forced_end:
        return stepper
    return ForcedEnd(stepper, end=end, max_new=max_new, prompt=prompt.shape[1] if mask is None else row_lengths(mask))


def without_end(ids: list[int], end: End) -> list[int]:
    ends = end if isinstance(end, Sequence) else [end]
    return ids[:-1] if ids and ids[-1] in ends else ids
