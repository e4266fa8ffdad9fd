"""Text from a language model: prompts in, continuations out, by any decoding algorithm over the task's Stepper."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.decoding.drafts import Draft, DraftStepper, PromptLookup
from clew.decoding.sampling import greedy, sample
from clew.decoding.sliding import Sliding
from clew.decoding.speculative import speculative
from clew.decoding.stepper import Stepper
from clew.metrics.diversity import distinct, repetition
from clew.tasks.drafting import PROMPT, check_draft
from clew.tasks.translation import confidence_of
from clew.tasks.use import Answered, Blocks, Objects, TextRow, Use, Watch, WritingOptions, tokens_read
from clew.tasks.writing import DecodingConfig, Guessed, ending_as, filtered_as, write
from clew.text.tokenizer import Tokenizer
from clew.text.train import END

if TYPE_CHECKING:
    from clew.tasks.language_model import LanguageModel

EXPECTED = 0.02
"""The probability from which on a model is said to expect a token."""


@dataclass(frozen=True)
class Generated:
    """One continuation. `str()` is the prompt and the continuation; `guessed` says how well a draft guessed it."""

    prompt: str
    text: str
    tokens: list[int]
    log_prob: float
    score: float | None = None
    guessed: Guessed | None = None

    def __str__(self) -> str:
        return self.prompt + self.text


class RefusedPrompt(UserError):
    """One of several prompts cannot be read: the row that it is."""

    def __init__(self, sentence: str, row: int):
        super().__init__(sentence)
        self.row = row


def generate(
    task: "LanguageModel", prompts: Sequence[str], config: DecodingConfig, seed: int = 0, *, draft: "LanguageModel | str | None" = None
) -> list[Generated]:
    """A continuation of every prompt (beam search: `n_best` of each), the prompts read together whatever their lengths."""
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
    """The continuations of every prompt by themselves. Sampling draws a row by its number: 0, 1, 2, ... or what `row_numbers` says, so
    that a prompt is continued alike whichever others it is read with. `draft` is a model that guesses, or `prompt`."""
    tokens, mask = prompt_batch(task, prompts)
    stepper = stepper_of(task, config, tokens)
    ends = ends_of(task.tokenizer, config)
    with evaluating([part for part in (task, draft) if isinstance(part, nn.Module)]):
        found = write(
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
        for prompt, row in zip(prompts, found, strict=True)
    ]


def stream(
    task: "LanguageModel", prompt: str, config: DecodingConfig, seed: int = 0, *, draft: "LanguageModel | str | None" = None
) -> Iterator[str]:
    """One continuation, piece by piece as it is generated; greedy or sampled."""
    if config.method == "beam":
        raise UserError("beam search chooses only at the end, so it cannot be streamed; use decoding.method=sample or greedy")
    tokens, mask = prompt_batch(task, [prompt])
    stepper = stepper_of(task, config, tokens)
    ends = ends_of(task.tokenizer, config)
    stepper = ending_as(config, stepper, tokens, mask, end=ends, max_new=config.max_new)
    guesses = draft_of(task, draft, config, tokens)
    if guesses is not None:
        drawn_by = None if config.method == "greedy" else seed
        steps = speculative(stepper, guesses, tokens, mask, max_new=config.max_new, end=ends, seed=drawn_by)
    elif config.method == "greedy":
        steps = greedy(stepper, tokens, mask, max_new=config.max_new, end=ends)
    else:
        steps = sample(stepper, tokens, mask, max_new=config.max_new, end=ends, seed=seed)
    models = [part for part in (task, draft) if isinstance(part, nn.Module)]
    return in_evaluation(models, pieces(task.tokenizer, prompt, (int(step[0]) for step in steps), ends))


def in_evaluation(models: Sequence[nn.Module], parts: Iterator[str]) -> Iterator[str]:
    """The parts, the models in evaluation mode from the first to the last of them."""
    were = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield from parts
    finally:
        for model, was in zip(models, were, strict=True):
            model.train(was)


def draft_of(task: "LanguageModel", draft: "LanguageModel | str | None", config: DecodingConfig, prompt: Tensor) -> Draft | None:
    """What guesses for a task: n-grams of the text, or a model with the same tokens, under the same filters so that it guesses what these
    leave."""
    if draft is None or isinstance(draft, str):
        return None if draft is None else PromptLookup()
    check_draft(task.tokenizer, draft.tokenizer)
    return DraftStepper(stepper_of(draft, config, prompt))


def pieces(tokenizer: Tokenizer, prompt: str, tokens: Iterator[int], ends: Sequence[int]) -> Iterator[str]:
    """The text of tokens as they come. What is not yet a whole character, its last bytes missing, waits for them."""
    ids: list[int] = []
    shown = ""
    for token in tokens:
        if token in ends:
            break
        ids.append(token)
        text = continuation(tokenizer, prompt, ids)
        if not text.endswith("\ufffd") and len(text) > len(shown):
            yield text[len(shown) :]
            shown = text
    if rest := continuation(tokenizer, prompt, ids)[len(shown) :]:
        yield rest


def prompt_batch(task: "LanguageModel", prompts: Sequence[str]) -> tuple[Tensor, Tensor | None]:
    """The prompts' tokens (rows, length), padded on the right, and their mask; an empty prompt is what starts a text."""
    if not prompts:
        raise UserError("there is no prompt; give at least one, empty if need be")
    rows = []
    frame = task.tokenizer.frame
    before = [] if frame is None else frame.before
    limit = task.body.max_length
    for row, prompt in enumerate(prompts):
        try:
            task.tokenizer.check(prompt)
        except UserError as error:
            raise RefusedPrompt(str(error), row) from None
        tokens = [*before, *task.encode(prompt)] or start_of(task)
        if limit is not None and len(tokens) > limit:
            remedy = "shorten it, or train with a larger model.max_length"
            raise RefusedPrompt(f"the prompt has {len(tokens)} tokens, but the model has learnt {limit} positions; {remedy}", row)
        rows.append(torch.tensor(tokens))
    device = task.body.embedding.like.device
    lengths = torch.tensor([len(row) for row in rows])
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = torch.arange(padded.shape[1]) < lengths[:, None]
    return padded.to(device), None if bool(mask.all()) else mask.to(device)


def stepper_of(task: "LanguageModel", config: DecodingConfig, prompt: Tensor) -> Stepper:
    """The task's stepper under the filters asked for; past a model's last position it goes on from the second half of what it has read."""
    stepper: Stepper = task.stepper()
    limit = task.body.max_length
    if limit is not None and prompt.shape[1] + config.max_new > limit:
        stepper = Sliding(stepper, limit=limit, keep=max(limit // 2, 1))
    tokenizer = task.tokenizer
    banned = [token for token in (tokenizer.unknown, tokenizer.pad) if token is not None]
    if not ends_of(tokenizer, config) and tokenizer.unit == "subword" and tokenizer.end is not None:
        banned.append(tokenizer.end)
    return filtered_as(config, stepper, tuple(banned))


def ends_of(tokenizer: Tokenizer, config: DecodingConfig) -> list[int]:
    """The tokens that end a text."""
    if isinstance(config.stop, (str, list)):
        return [tokenizer.id(token) for token in ([config.stop] if isinstance(config.stop, str) else config.stop)]
    stops = tokenizer.unit == "subword" if config.stop is None else config.stop
    return [tokenizer.end] if stops and tokenizer.end is not None else []


def start_of(task: "LanguageModel") -> list[int]:
    """What stands before the first word of a text: a document's end, where a checkpoint has one of its own; else what the model has learnt
    to expect after a line's end, be it a document's end or an empty line, and then a paragraph begins; else a line's end alone."""
    tokenizer = task.tokenizer
    newline, end = tokenizer.encode("\n"), tokenizer.end
    has_lines = bool(newline) and tokenizer.unknown not in newline
    if end is not None and (not has_lines or tokenizer.token(end) != END):
        return [end]
    if not has_lines:
        return [next(token for token in range(tokenizer.vocabulary) if token != tokenizer.unknown)]
    expected = after(task, newline)
    if end is not None and expected[end] >= EXPECTED and newline != [end]:
        return [end]
    is_parted = len(newline) == 1 and tokenizer.encode("\n\n") == 2 * newline and expected[newline[0]] >= EXPECTED
    return 2 * newline if is_parted else newline


def after(task: "LanguageModel", tokens: Sequence[int]) -> list[float]:
    """The probability of every token after some."""
    stepper = task.stepper()
    with evaluating([task]):
        log_probs, _ = stepper(torch.tensor([tokens], device=task.body.embedding.like.device), None, stepper.initial_state(1))
    return log_probs[0, -1].exp().tolist()


def continuation(tokenizer: Tokenizer, prompt: str, ids: Sequence[int]) -> str:
    """The text that the new tokens add to the prompt's: what the two give together, less what the prompt gives alone."""
    read = tokenizer.encode(prompt)
    text = tokenizer.decode([*read, *ids])[len(tokenizer.decode(read)) :]
    return text.removeprefix(" ") if tokenizer.kind in ("word", "wordpiece") and prompt[-1:].isspace() else text


class GenerateOptions(WritingOptions):
    samples: int = Field(1, ge=1, description="continuations of every text")
    measure: bool = Field(False, description="distinct-n and repetition of the samples, and how well a draft guessed, on standard error")
    draft: str | None = Field(
        None,
        description="a smaller run with the same vocabulary, or `prompt` for n-grams of the text, guesses tokens that the run then reads "
        "several at a time: faster, and nothing else changes",
        json_schema_extra={"metavar": "RUN|prompt"},
    )

    @classmethod
    def over(cls, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        found = super().over(own, given)
        if given.get("samples", 1) != 1 and (method := found.get("method", "sample")) != "sample":
            remedy = "; n_best has several of beam search" if method == "beam" else ""
            raise UserError(f"samples is for sampling, and method is {method}, which writes the same text each time{remedy}")
        if found.get("draft") is not None and found.get("method") == "beam":
            raise UserError("draft is for sampling and greedy decoding, and method is beam; leave one of them out")
        return found


def generate_answers(
    tasks: Sequence["LanguageModel"], rows: Sequence[TextRow], options: GenerateOptions, numbers: Sequence[int]
) -> list[list[Generated]]:
    prompts, row_numbers = [row.text for row in rows], [number - 1 for number in numbers]
    with named_rows(row_numbers, options.samples):
        return generate_rows(tasks[0], prompts, options.decoding, options.seed, row_numbers, draft=drafting(tasks, options))


def drafting(tasks: Sequence["LanguageModel"], options: GenerateOptions) -> "LanguageModel | str | None":
    """The model of another run that guesses, which comes behind the one that is asked."""
    return tasks[1] if len(tasks) > 1 else options.draft


def draft_run(options: GenerateOptions) -> str | None:
    return None if options.draft == PROMPT else options.draft


@contextmanager
def named_rows(row_numbers: Sequence[int], samples: int) -> Iterator[None]:
    """Within this context what is said of one prompt among several names it by its number."""
    try:
        yield
    except RefusedPrompt as error:
        if len(row_numbers) == 1 and row_numbers[0] == 0:
            raise
        raise UserError(f"text {row_numbers[error.row] // samples + 1}: {error}") from None


def stream_row(tasks: Sequence["LanguageModel"], row: TextRow, options: GenerateOptions, number: int) -> Iterator[str] | None:
    if options.method == "beam" or options.samples > 1 or options.measure:
        return None
    return stream(tasks[0], row.text, options.decoding, options.seed, draft=drafting(tasks, options))


def generated_objects(number: int, row: TextRow, samples: list[Generated] | None, options: GenerateOptions) -> Objects:
    """An object a continuation; these are not numbered, but have their prompt."""
    found = []
    for one in samples or ():
        fields = {"prompt": one.prompt, "text": one.text, "tokens": one.tokens, "log_prob": one.log_prob}
        guessed = {} if one.guessed is None else one.guessed._asdict()
        found.append({**fields, **({"score": one.score} if one.score is not None else {}), **guessed})
    return found


def as_texts(blocks: Blocks, options: GenerateOptions, alone: bool) -> Iterator[str]:
    """One text as it is; several each below its number."""
    samples = (one for some in blocks for each in some for one in each.answer)
    first = list(islice(samples, 2))
    for number, one in enumerate(chain(first, samples), start=1):
        score = f" (score {one.score:.3f})" if one.score is not None else ""
        yield f"--- {number}{score}\n{one}\n" if len(first) > 1 else f"{one}\n"


def diversity(
    tasks: Sequence["LanguageModel"], answered: Sequence[Answered[TextRow, list[Generated]]], options: GenerateOptions
) -> Iterator[str]:
    if options.measure:
        samples = [one.tokens for each in answered for one in each.answer or ()]
        for n in range(1, min(4, max(map(len, samples), default=0)) + 1):
            found = f"distinct {distinct(samples, n):.3f}, repeated {repetition(samples, n):.3f}"
            yield f"{tasks[0].tokenizer.unit} {n}-grams: {found}"
        guessed = [one.guessed for each in answered for one in each.answer or () if one.guessed is not None]
        if rounds := sum(each.rounds for each in guessed):
            proposed, accepted = sum(each.proposed for each in guessed), sum(each.accepted for each in guessed)
            yield f"draft: {accepted / rounds:.2f} of {proposed / rounds:.2f} guesses a call were accepted, in {rounds} calls of the model"


GENERATE: Use[TextRow, list[Generated]] = Use(
    about="write text with a trained run",
    row=TextRow,
    options=GenerateOptions,
    answer=generate_answers,
    objects=generated_objects,
    formats={"text": as_texts},
    stream=stream_row,
    answers_blank=True,
    skips_blank=True,
    tables=False,
    begins=True,
    local=("measure", "draft"),
    beside=draft_run,
    remarks=diversity,
    watch=Watch(tokens=lambda task, row: tokens_read(task.tokenizer, [row.text]), confidence=confidence_of),
    help="""Every TEXT is continued. Without one a text is begun: after the end of another, where the model has learnt from documents
apart or knows such a token; else after an empty line, where it has learnt that paragraphs are parted by these; else after the
end of a line. A single sample is shown as it is written.

  clew generate runs/shakespeare-lstm 'ROMEO:' --temperature 0.7
  clew generate runs/shakespeare-lstm 'ROMEO:' 'JULIET:' --method beam --beams 8 --n-best 3 --max-new 80
  clew generate runs/shakespeare-lstm --samples 20 --measure --json
  clew generate runs/shakespeare-llama 'ROMEO:' --draft runs/shakespeare-gru --max-new 400

A draft changes how long a text takes and not which texts are written: greedy decoding writes the same one, and sampling draws
from the same distribution, though not the same text for the same seed.""",
)
