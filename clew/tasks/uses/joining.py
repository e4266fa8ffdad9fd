"""Continuations written in a continuous batch, which rows join and leave."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew.core.errors import UserError
from clew.decoding.choosing import Choice
from clew.decoding.continuous import CHUNK, Continuous, RowRequest
from clew.decoding.filters import with_filters
from clew.decoding.prefixes import Prefixes
from clew.tasks.use import Joining, TextRow, WritingOptions
from clew.tasks.uses.generation import (
    Generated,
    Growing,
    RefusedPrompt,
    banned_end,
    check_length,
    continuation,
    ends_of,
    kept_of,
    never_written,
    prompt_tokens,
    with_frame,
)

if TYPE_CHECKING:
    from clew.tasks.language_model import LanguageModel


def fits(options: Any) -> bool:
    """Whether a row with these options can join a continuous batch. Beam search, drafts, and penalties that depend on
    all previous tokens need other algorithms."""
    looks_back = options.repetition_penalty != 1.0 or options.no_repeat_ngram is not None
    return (
        options.method != "beam"
        and not options.forced_end
        and not looks_back
        and options.draft is None
        and not options.measure
    )


def batch_of(task: "LanguageModel", most_rows: int, most_bytes: int) -> Continuous:
    limit = task.body.max_length
    return Continuous(
        with_filters(task.stepper(), banned=never_written(task.tokenizer)),
        device=task.body.embedding.like.device,
        most_rows=most_rows,
        limit=limit,
        keep=None if limit is None else kept_of(limit),
        prefixes=Prefixes(CHUNK, most_bytes) if most_bytes else None,
    )


def tokens_of(task: "LanguageModel", prompt: str | Sequence[int], number: int | None = None) -> list[int]:
    try:
        return prompt_tokens(task, prompt) if isinstance(prompt, str) else checked_tokens(task, prompt)
    except RefusedPrompt as error:
        raise UserError(str(error) if number is None else f"text {number}: {error}") from None


def checked_tokens(task: "LanguageModel", prompt: Sequence[int]) -> list[int]:
    vocabulary = task.tokenizer.vocabulary
    if invalid := [token for token in prompt if not 0 <= token < vocabulary]:
        raise UserError(f"the prompt has the token {invalid[0]}; the model's tokens are 0 to {vocabulary - 1}")
    tokens = with_frame(task, prompt)
    check_length(task, tokens)
    return tokens


def request_of(task: "LanguageModel", tokens: Sequence[int], options: WritingOptions, number: int) -> RowRequest:
    choice = Choice(
        options.method == "greedy",
        options.temperature,
        options.top_k,
        options.top_p,
        banned_end(task.tokenizer, options),
    )
    return RowRequest(
        tokens, options.max_new, tuple(ends_of(task.tokenizer, options)), choice, options.seed, number - 1
    )


def answer_of(task: "LanguageModel", row: TextRow, tokens: Sequence[int], log_prob: float) -> list[Generated]:
    return [Generated(row.text, continuation(task.tokenizer, row.text, tokens), list(tokens), log_prob)]


JOINING: Joining[TextRow, list[Generated]] = Joining(
    fits=fits,
    batch=batch_of,
    prompt=lambda row: row.text,
    tokens=tokens_of,
    request=request_of,
    growing=lambda task, prompt: Growing(task.tokenizer, prompt),
    answer=answer_of,
)
