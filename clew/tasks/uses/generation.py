"""Generate text with a language model: prompts in, continuations out, by any decoding algorithm over the task's
Stepper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.decoding.drafts import Draft, DraftStepper, PromptLookup
from clew.decoding.sampling import greedy, sample
from clew.decoding.sliding import Sliding
from clew.decoding.speculative import speculative
from clew.decoding.stepper import Stepper, prefill
from clew.tasks.uses.drafting import check_draft
from clew.tasks.uses.writing import DecodingConfig, Guessed, ending_as, filtered_as, write
from clew.text.tokenizer import Tokenizer
from clew.text.train import END

if TYPE_CHECKING:
    from clew.tasks.language_model import LanguageModel

EXPECTED = 0.02
"""The model expects a token if its probability is at least this."""

CONTEXT = 16
"""Number of previous tokens that are decoded together with a new one, because a token's text may depend on those
before it."""


@dataclass(frozen=True)
class Generated:
    """One continuation. `str()` is the prompt and the continuation; `guessed` counts how well a draft guessed it."""

    prompt: str
    text: str
    tokens: list[int]
    log_prob: float
    score: float | None = None
    guessed: Guessed | None = None

    def __repr__(self) -> str:
        return brief(self, str(self), log_prob=self.log_prob)

    def __str__(self) -> str:
        return self.prompt + self.text


class RefusedPrompt(UserError):
    """A prompt that the model cannot read, and its row among several."""

    def __init__(self, sentence: str, row: int):
        super().__init__(sentence)
        self.row = row


def generate(
    task: "LanguageModel",
    prompts: Sequence[str],
    config: DecodingConfig,
    seed: int = 0,
    *,
    draft: "LanguageModel | str | None" = None,
) -> list[Generated]:
    """Return a continuation of every prompt (with beam search, `n_best` of each). Prompts of any lengths are read in
    one batch."""
    return [sample for row in generate_rows(task, prompts, config, seed, draft=draft) for sample in row]


def generate_rows(
    task: "LanguageModel",
    prompts: Sequence[str],
    config: DecodingConfig,
    seed: int = 0,
    row_numbers: Sequence[int] | None = None,
    *,
    draft: "LanguageModel | str | None" = None,
) -> list[list[Generated]]:
    """Return a list of continuations for every prompt.

    Sampling depends on a row's number (0, 1, 2, ..., or `row_numbers`), so that the continuation of a prompt does not
    depend on the rest of the batch. `draft` is a model, or `prompt` for n-grams of the text.
    """
    tokens, mask = prompt_batch(task, prompts)
    stepper = stepper_of(task, config, tokens)
    ends = ends_of(task.tokenizer, config)
    with evaluating(models_of(task, draft)):
        hypotheses = write(
            stepper,
            tokens,
            config,
            mask=mask,
            end=ends,
            max_new=config.max_new,
            seed=seed,
            row_numbers=row_numbers,
            draft=draft_of(task, draft, config, tokens),
        )
    return [
        [
            Generated(
                prompt,
                continuation(task.tokenizer, prompt, hypothesis.tokens),
                hypothesis.tokens,
                hypothesis.log_prob,
                hypothesis.score if config.method == "beam" else None,
                hypothesis.guessed,
            )
            for hypothesis in row
        ]
        for prompt, row in zip(prompts, hypotheses, strict=True)
    ]


def stream(
    task: "LanguageModel",
    prompt: str,
    config: DecodingConfig,
    seed: int = 0,
    *,
    draft: "LanguageModel | str | None" = None,
) -> Iterator[str]:
    """Generate one continuation, greedy or sampled, and yield it piece by piece."""
    if config.method == "beam":
        raise UserError(
            "beam search chooses a text only at the end, so it cannot be streamed; set decoding.method to sample or"
            " greedy"
        )
    tokens, mask = prompt_batch(task, [prompt])
    stepper = stepper_of(task, config, tokens)
    ends = ends_of(task.tokenizer, config)
    stepper = ending_as(config, stepper, tokens, mask, end=ends, max_new=config.max_new)
    guesses = draft_of(task, draft, config, tokens)
    if guesses is not None:
        sampling_seed = None if config.method == "greedy" else seed
        steps = speculative(stepper, guesses, tokens, mask, max_new=config.max_new, end=ends, seed=sampling_seed)
    elif config.method == "greedy":
        steps = greedy(stepper, tokens, mask, max_new=config.max_new, end=ends)
    else:
        steps = sample(stepper, tokens, mask, max_new=config.max_new, end=ends, seed=seed)
    return yield_in_evaluation(
        models_of(task, draft), pieces(task.tokenizer, prompt, (int(step[0]) for step in steps), ends)
    )


def yield_in_evaluation(models: Sequence[nn.Module], pieces: Iterator[str]) -> Iterator[str]:
    """Yield the pieces with the models in evaluation mode from the first piece to the last."""
    was_training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield from pieces
    finally:
        for model, mode in zip(models, was_training, strict=True):
            model.train(mode)


def models_of(task: "LanguageModel", draft: "LanguageModel | str | None") -> list[nn.Module]:
    """Return the models that generate a text together."""
    return [task] if draft is None or isinstance(draft, str) else [task, draft]


def draft_of(
    task: "LanguageModel", draft: "LanguageModel | str | None", config: DecodingConfig, prompt: Tensor
) -> Draft | None:
    """Return the draft: n-grams of the text, or a model with the same vocabulary under the same filters, so that it
    guesses only tokens that these allow."""
    if draft is None or isinstance(draft, str):
        return None if draft is None else PromptLookup()
    check_draft(task.tokenizer, draft.tokenizer)
    return DraftStepper(stepper_of(draft, config, prompt))


def pieces(tokenizer: Tokenizer, prompt: str, tokens: Iterator[int], ends: Sequence[int]) -> Iterator[str]:
    """Yield the text of tokens as they come."""
    growing = Growing(tokenizer, prompt)
    for token in tokens:
        if token in ends:
            break
        if piece := growing.add(token):
            yield piece
    if rest := growing.rest():
        yield rest


class Growing:
    """The text of a continuation, decoded token by token.

    An incomplete character waits for its last bytes. Only the last tokens are decoded again, so that a token of a
    long text costs no more than one of a short text.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str | Sequence[int]):
        self.tokenizer = tokenizer
        self.ids = (tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt))[-CONTEXT:]
        self.shown = len(tokenizer.decode(self.ids))
        self.drops_space = isinstance(prompt, str) and drops_space(tokenizer, prompt)

    def add(self, token: int) -> str:
        self.ids.append(token)
        text = self.tokenizer.decode(self.ids)
        return self._new(text) if not text.endswith("\ufffd") and len(text) > self.shown else ""

    def rest(self) -> str:
        """Return the text of the bytes that still wait for the rest of a character."""
        return self._new(self.tokenizer.decode(self.ids))

    def _new(self, text: str) -> str:
        new, self.shown = text[self.shown :], len(text)
        if len(self.ids) > 2 * CONTEXT:
            self.ids = self.ids[-CONTEXT:]
            self.shown = len(self.tokenizer.decode(self.ids))
        if new and self.drops_space:
            new, self.drops_space = new.removeprefix(" "), False
        return new


def prompt_batch(task: "LanguageModel", prompts: Sequence[str]) -> tuple[Tensor, Tensor | None]:
    """Return the prompts' tokens (rows, length), padded on the right, and their mask. An empty prompt becomes the
    tokens that start a text."""
    if not prompts:
        raise UserError("there is no prompt; give at least one, which may be empty")
    rows = [torch.tensor(prompt_tokens(task, prompt, row)) for row, prompt in enumerate(prompts)]
    device = task.body.embedding.like.device
    lengths = torch.tensor([len(row) for row in rows])
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.arange(padded.shape[1]) < lengths[:, None]
    return padded.to(device), None if bool(mask.all()) else mask.to(device)


def prompt_tokens(task: "LanguageModel", prompt: str, row: int = 0) -> list[int]:
    """Return the tokens that the model reads for a prompt."""
    try:
        task.tokenizer.check(prompt)
    except UserError as error:
        raise RefusedPrompt(str(error), row) from None
    tokens = with_frame(task, task.encode(prompt))
    check_length(task, tokens, row)
    return tokens


def with_frame(task: "LanguageModel", tokens: Sequence[int]) -> list[int]:
    """Add the frame's tokens to a prompt's own. An empty prompt without a frame becomes the tokens that start a
    text."""
    frame = task.tokenizer.frame
    return [*(() if frame is None else frame.before), *tokens] or start_of(task)


def check_length(task: "LanguageModel", tokens: Sequence[int], row: int = 0) -> None:
    limit = task.body.max_length
    if limit is not None and len(tokens) > limit:
        remedy = "shorten it, or train with a larger model.max_length"
        raise RefusedPrompt(
            f"the prompt has {len(tokens)} tokens, but the model has only {limit} positions; {remedy}", row
        )


def stepper_of(task: "LanguageModel", config: DecodingConfig, prompt: Tensor) -> Stepper:
    """Return the task's stepper with the filters of `config`. If the text exceeds the model's positions, the stepper
    continues from the second half of the tokens that it has read."""
    stepper: Stepper = task.stepper()
    limit = task.body.max_length
    if limit is not None and prompt.shape[1] + config.max_new > limit:
        stepper = Sliding(stepper, limit=limit, keep=kept_of(limit))
    end = banned_end(task.tokenizer, config)
    return filtered_as(config, stepper, (*never_written(task.tokenizer), *(() if end is None else (end,))))


def kept_of(limit: int) -> int:
    """Return the number of positions that are read again when all of a model's positions are used."""
    return max(limit // 2, 1)


def never_written(tokenizer: Tokenizer) -> tuple[int, ...]:
    return tuple(token for token in (tokenizer.unknown, tokenizer.pad) if token is not None)


def banned_end(tokenizer: Tokenizer, config: DecodingConfig) -> int | None:
    """Return the end token if it does not end the text but would be visible in it."""
    return tokenizer.end if not ends_of(tokenizer, config) and tokenizer.unit == "subword" else None


def ends_of(tokenizer: Tokenizer, config: DecodingConfig) -> list[int]:
    """Return the tokens that end a text."""
    if isinstance(config.stop, (str, list)):
        return [tokenizer.id(token) for token in ([config.stop] if isinstance(config.stop, str) else config.stop)]
    stops = tokenizer.unit == "subword" if config.stop is None else config.stop
    return [tokenizer.end] if stops and tokenizer.end is not None else []


def start_of(task: "LanguageModel") -> list[int]:
    """Return the tokens before the first word of a text.

    This is the end of a document, if a checkpoint has a special token for it. Otherwise it is what the model expects
    after a newline: the end of a document, or an empty line, after which a paragraph begins. Otherwise it is a
    newline.
    """
    tokenizer = task.tokenizer
    newline, end = tokenizer.encode("\n"), tokenizer.end
    has_lines = bool(newline) and tokenizer.unknown not in newline
    if end is not None and (not has_lines or tokenizer.token(end) != END):
        return [end]
    if not has_lines:
        return [next(token for token in range(tokenizer.vocabulary) if token != tokenizer.unknown)]
    expected = next_probabilities(task, newline)
    if end is not None and expected[end] >= EXPECTED and newline != [end]:
        return [end]
    has_empty_lines = len(newline) == 1 and tokenizer.encode("\n\n") == 2 * newline and expected[newline[0]] >= EXPECTED
    return 2 * newline if has_empty_lines else newline


def next_probabilities(task: "LanguageModel", tokens: Sequence[int]) -> list[float]:
    """Return the probability of every token after the given ones."""
    stepper = task.stepper()
    with evaluating([task]):
        log_probs, _ = prefill(
            stepper, torch.tensor([tokens], device=task.body.embedding.like.device), None, stepper.initial_state(1)
        )
    return log_probs[0].exp().tolist()


def continuation(tokenizer: Tokenizer, prompt: str, ids: Sequence[int]) -> str:
    """Return the text that new tokens add to a prompt: the text of both together without the text of the prompt
    alone."""
    read = tokenizer.encode(prompt)
    text = tokenizer.decode([*read, *ids])[len(tokenizer.decode(read)) :]
    return text.removeprefix(" ") if drops_space(tokenizer, prompt) else text


def drops_space(tokenizer: Tokenizer, prompt: str) -> bool:
    """Whether the prompt already has the space that comes before the next word."""
    return tokenizer.kind in ("word", "wordpiece") and prompt[-1:].isspace()
