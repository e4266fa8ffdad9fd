"""Targets written by a stepper that has read its source: by any decoding algorithm, for many sources at once."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from clew.decoding.beam import beam_search
from clew.decoding.sampling import greedy_sequences, sample_sequences
from clew.decoding.stepper import Stepper
from clew.tasks.generation import DecodingConfig, filtered_as, without_end


class Hypothesis(NamedTuple):
    """One target: its ids without the end, log p of them and the end, and the score by which beam search chose it."""

    tokens: list[int]
    log_prob: float
    score: float


def write(
    stepper: Stepper,
    rows: int,
    config: DecodingConfig,
    *,
    end: int,
    max_new: int,
    banned: tuple[int, ...] = (),
    seed: int = 0,
    row_numbers: Sequence[int] | None = None,
    device: torch.device | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each row, best first: `n_best` of beam search, else one. `end` starts a target and ends it.

    `row_numbers` are what sampling draws a row by, whatever batch it is in.
    """
    prompt = torch.full((rows, 1), end, device=device)
    filtered = filtered_as(config, stepper, banned)
    if config.method == "beam":
        best = beam_search(
            filtered,
            prompt,
            beams=max(config.beams, config.n_best),
            max_new=max_new,
            end=end,
            length_penalty=config.length_penalty,
            n_best=config.n_best,
        )
        return [
            [
                Hypothesis(without_end(tokens[:length], end), log_prob, score)
                for tokens, length, log_prob, score in zip(*row, strict=True)
                if length
            ]
            for row in zip(best.tokens.tolist(), best.lengths.tolist(), best.log_probs.tolist(), best.scores.tolist(), strict=True)
        ]
    if config.method == "greedy":
        found = greedy_sequences(filtered, prompt, max_new=max_new, end=end)
    else:
        found = sample_sequences(filtered, prompt, max_new=max_new, end=end, seed=seed, row_numbers=row_numbers)
    rows_found = zip(found.tokens.tolist(), found.lengths.tolist(), found.log_probs.sum(1).tolist(), strict=True)
    return [
        [Hypothesis(without_end(tokens[:length], end), log_prob, log_prob / max(length, 1) ** config.length_penalty)]
        for tokens, length, log_prob in rows_found
    ]
