"""What may be asked of a language model: texts to go on from, how, and the continuations as JSON and as text."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from clew.core.errors import UserError, shown
from clew.metrics.diversity import distinct, repetition
from clew.tasks.translation import confidence_of
from clew.tasks.use import Answered, Blocks, Objects, TextRow, Use, Watch, WritingOptions, tokens_read
from clew.tasks.uses.drafting import PROMPT
from clew.tasks.uses.generation import Generated, RefusedPrompt, generate_rows, stream
from clew.tasks.uses.joining import JOINING

if TYPE_CHECKING:
    from clew.tasks.language_model import LanguageModel


class GenerateOptions(WritingOptions):
    samples: int = Field(1, ge=1, description="continuations of every text")
    measure: bool = Field(
        False, description="distinct-n and repetition of the samples, and how well a draft guessed, on standard error"
    )
    draft: str | None = Field(
        None,
        description=(
            "a smaller run with the same vocabulary, or `prompt` for n-grams of the text, guesses tokens that the run"
            " then reads several at a time: how long it takes changes, and nothing else"
        ),
        json_schema_extra={"metavar": "RUN|prompt"},
    )

    @classmethod
    def over(cls, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        found = super().over(own, given)
        if given.get("samples", 1) != 1 and (method := found.get("method", "sample")) != "sample":
            remedy = "; n_best has several of beam search" if method == "beam" else ""
            raise UserError(
                f"samples is for sampling, and method is {method}, which writes the same text each time{remedy}"
            )
        if found.get("draft") is not None and found.get("method") == "beam":
            raise UserError("draft is for sampling and greedy decoding, and method is beam; leave one of them out")
        return found


def generate_answers(
    tasks: Sequence["LanguageModel"], rows: Sequence[TextRow], options: GenerateOptions, numbers: Sequence[int]
) -> list[list[Generated]]:
    prompts, row_numbers = [row.text for row in rows], [number - 1 for number in numbers]
    with named_rows(row_numbers, options.samples):
        return generate_rows(
            tasks[0], prompts, options.decoding, options.seed, row_numbers, draft=drafting(tasks, options)
        )


def drafting(tasks: Sequence["LanguageModel"], options: GenerateOptions) -> "LanguageModel | str | None":
    """The model of another run that guesses, which comes behind the one that is asked."""
    return tasks[1] if len(tasks) > 1 else options.draft


def draft_run(options: GenerateOptions) -> str | None:
    if options.draft is None or options.draft == PROMPT:
        return None
    if not Path(options.draft).is_dir():
        raise UserError(
            f"draft is {shown(options.draft)}, which is not the folder of a run; name one, or say {PROMPT} for n-grams"
            " of the text"
        )
    return options.draft


@contextmanager
def named_rows(row_numbers: Sequence[int], samples: int) -> Iterator[None]:
    """Within this context what is said of one prompt among several names it by its number."""
    try:
        yield
    except RefusedPrompt as error:
        if len(row_numbers) == 1 and row_numbers[0] == 0:
            raise
        raise UserError(f"text {row_numbers[error.row] // samples + 1}: {error}") from None


def stream_row(
    tasks: Sequence["LanguageModel"], row: TextRow, options: GenerateOptions, number: int
) -> Iterator[str] | None:
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
            yield (
                f"draft: {accepted / rounds:.2f} of {proposed / rounds:.2f} guesses a call were accepted, in {rounds}"
                " calls of the model"
            )


GENERATE: Use[TextRow, list[Generated]] = Use(
    about="write text with a trained run",
    row=TextRow,
    options=GenerateOptions,
    answer=generate_answers,
    objects=generated_objects,
    formats={"text": as_texts},
    stream=stream_row,
    joins=JOINING,
    answers_blank=True,
    skips_blank=True,
    tables=False,
    begins=True,
    local=("measure", "draft"),
    beside=draft_run,
    remarks=diversity,
    watch=Watch(tokens=lambda task, row: tokens_read(task.tokenizer, [row.text]), confidence=confidence_of),
    help="""Every TEXT is continued. Without one a text is begun: after the end of another, where the model has learnt
from documents apart or knows such a token; else after an empty line, where it has learnt that paragraphs are parted
by these; else after the end of a line. A single sample is shown as it is written.

  clew generate runs/shakespeare-lstm 'ROMEO:' --temperature 0.7
  clew generate runs/shakespeare-lstm 'ROMEO:' 'JULIET:' --method beam --beams 8 --n-best 3 --max-new 80
  clew generate runs/shakespeare-lstm --samples 20 --measure --json
  clew generate runs/shakespeare-llama 'ROMEO:' --draft runs/shakespeare-gru --max-new 400

A draft changes how long a text takes and not which texts are written: greedy decoding writes the same one, and
sampling draws from the same distribution, though not the same text for the same seed.""",
)
