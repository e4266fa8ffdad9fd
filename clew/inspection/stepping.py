"""Writing one token at a time: how likely every next token is, after what was chosen so far. Knows no search."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.data.examples import Pair
from clew.decoding.stepper import Stepper, prefill
from clew.inspection.heads import heads_off
from clew.runs.loaded import Run
from clew.tasks.generation import continuation, prompt_batch
from clew.tasks.translation import encode_pairs
from clew.text.tokenizer import Tokenizer


class Candidate(NamedTuple):
    id: int
    token: str
    probability: float
    is_end: bool = False


class Step(NamedTuple):
    """`text` is what the chosen tokens say; `candidates` are the likeliest next ones, `rest` the probability of all others."""

    tokens: list[str]
    text: str
    log_prob: float
    candidates: list[dict[str, Any]]
    rest: float
    entropy: float
    """In bits."""
    ended: bool


def next_step(run: Run, text: str, written: Sequence[int], *, into: str = "", off: Sequence[str] = (), top: int = 12) -> Step:
    """The distribution after a prompt, or for a translator after a source, and the ids of tokens that were written so far."""
    with heads_off(run, off), evaluating([run.task]):
        stepper, start, tokenizer, end = beginning(run, text, into)
        check_written(run, written, start, tokenizer)
        log_probs = read(stepper, start, written)  # (1 + written, vocabulary)
    probabilities = log_probs[-1].double().exp()
    best = probabilities.topk(min(top, len(probabilities)))
    chosen = sum(float(log_probs[place, token]) for place, token in enumerate(written))
    found = [Candidate(id, tokenizer.token(id), p, id == end)._asdict() for p, id in zip(*(part.tolist() for part in best), strict=True)]
    ids = list(written[:-1] if written and written[-1] == end else written)
    return Step(
        tokens=[tokenizer.token(id) for id in written],
        text=continuation(tokenizer, text, ids) if run.verb == "generate" else tokenizer.decode(ids),
        log_prob=chosen,
        candidates=found,
        rest=max(0.0, 1.0 - float(best.values.sum())),
        entropy=float(-(probabilities * log_probs[-1].double().clamp(min=-1e4)).sum() / torch.log(torch.tensor(2.0, dtype=torch.float64))),
        ended=bool(written) and written[-1] == end,
    )


def beginning(run: Run, text: str, into: str) -> tuple[Stepper, Tensor, Tokenizer, int | None]:
    """What writes, what it reads before the first token (1, length), what its tokens are, and which of them ends a text."""
    task = run.task
    if run.verb == "generate":
        start, _ = prompt_batch(task, [text])
        return task.stepper(), start, task.tokenizer, task.tokenizer.end
    if run.verb not in ("translate", "parse"):
        raise UserError(f"{run.folder} writes no text step by step; runs that generate or translate do")
    if not text.strip():
        raise UserError("there is no text to read; give at least a word")
    batch = to_device(task.collate(encode_pairs([task], [Pair(text, "", into=into)], 1)), task.body.embedding.like.device)
    return task.stepper(batch), torch.full((1, 1), task.start, device=batch.source.device), task.target, task.end


def check_written(run: Run, written: Sequence[int], start: Tensor, tokenizer: Tokenizer) -> None:
    wrong = [id for id in written if not 0 <= id < tokenizer.vocabulary]
    if wrong:
        raise UserError(f"there is no token {wrong[0]}; ids are below {tokenizer.vocabulary}")
    limit = run.task.body.max_length
    if limit is not None and start.shape[1] + len(written) > limit:
        raise UserError(f"the text has {start.shape[1] + len(written)} tokens, but the model can tell apart {limit} positions; shorten it")


def read(stepper: Stepper, start: Tensor, written: Sequence[int]) -> Tensor:
    """log p (1 + written, vocabulary) of what comes after the start, and after every token that was written."""
    first, state = prefill(stepper, start, None, stepper.initial_state(1))
    if not written:
        return first
    after, _ = stepper(torch.tensor([list(written)], device=start.device), None, state)
    return torch.cat([first, after[0]])
