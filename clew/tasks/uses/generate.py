"""The use of a language model: its options, the texts to continue, and the continuations as JSON and as text."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from clew.core.errors import UserError, shown
from clew.core.wording import argument, argument_name
from clew.metrics.diversity import distinct, repetition
from clew.tasks.translation import translation_confidence
from clew.tasks.use import Answered, Blocks, Objects, TextRow, Use, Watch, WritingOptions, tokens_read
from clew.tasks.uses.drafting import PROMPT
from clew.tasks.uses.generation import Generated, RefusedPrompt, generate_rows, stream
from clew.tasks.uses.joining import JOINING

if TYPE_CHECKING:
    from clew.tasks.language_model import LanguageModel


class GenerateOptions(WritingOptions):
    samples: int = Field(1, ge=1, description="number of continuations of each text")
    measure: bool = Field(
        False,
        description="print distinct-n and repetition of the samples, and a draft's acceptance rate, to standard error",
    )
    draft: str | None = Field(
        None,
        description=(
            "speculative decoding: a smaller run with the same vocabulary, or `prompt` for n-grams of the text, guesses"
            " tokens that the run checks several at a time; only the speed changes"
        ),
        json_schema_extra={"metavar": "RUN|prompt"},
    )

    @classmethod
    def over(cls, own: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
        settings = super().over(own, requested)
        if requested.get("samples", 1) != 1 and (method := settings.get("method", "sample")) != "sample":
            remedy = f"; use {argument('n_best')} for several texts of beam search" if method == "beam" else ""
            raise UserError(
                f"{argument_name('samples')} is for sampling, and {argument_name('method')} is {method}, which"
                f" writes the same text each time{remedy}"
            )
        if settings.get("draft") is not None and settings.get("method") == "beam":
            raise UserError(
                f"{argument_name('draft')} is for sampling and greedy decoding, and {argument_name('method')} is"
                " beam; leave one of them out"
            )
        return settings


def generate_answers(
    tasks: Sequence["LanguageModel"], rows: Sequence[TextRow], options: GenerateOptions, numbers: Sequence[int]
) -> list[list[Generated]]:
    prompts, row_numbers = [row.text for row in rows], [number - 1 for number in numbers]
    with named_rows(row_numbers, options.samples):
        return generate_rows(
            tasks[0], prompts, options.decoding, options.seed, row_numbers, draft=drafting(tasks, options)
        )


def drafting(tasks: Sequence["LanguageModel"], options: GenerateOptions) -> "LanguageModel | str | None":
    """Return the draft: the second model if there is one, else the option."""
    return tasks[1] if len(tasks) > 1 else options.draft


def draft_run(options: GenerateOptions) -> str | None:
    """Return the folder of the draft run, or None if the draft is not a run."""
    if options.draft is None or options.draft == PROMPT:
        return None
    if not Path(options.draft).is_dir():
        raise UserError(
            f"{argument_name('draft')} is {shown(options.draft)}, which is not the folder of a run; give a run, or"
            f" {PROMPT} for n-grams of"
            " the text"
        )
    return options.draft


@contextmanager
def named_rows(row_numbers: Sequence[int], samples: int) -> Iterator[None]:
    """Name the prompt by its number in errors raised within this context, if there are several."""
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
    """Return one object per continuation. They are not numbered, but contain their prompt."""
    objects = []
    for sample in samples or ():
        fields = {"prompt": sample.prompt, "text": sample.text, "tokens": sample.tokens, "log_prob": sample.log_prob}
        acceptance = {} if sample.guessed is None else sample.guessed._asdict()
        objects.append({**fields, **({"score": sample.score} if sample.score is not None else {}), **acceptance})
    return objects


def as_texts(blocks: Blocks, options: GenerateOptions, alone: bool) -> Iterator[str]:
    """Write a single text as it is; several under their numbers."""
    samples = (sample for block in blocks for answered in block for sample in answered.answer)
    first = list(islice(samples, 2))
    for number, sample in enumerate(chain(first, samples), start=1):
        score = f" (score {sample.score:.3f})" if sample.score is not None else ""
        yield f"--- {number}{score}\n{sample}\n" if len(first) > 1 else f"{sample}\n"


def diversity(
    tasks: Sequence["LanguageModel"], answered: Sequence[Answered[TextRow, list[Generated]]], options: GenerateOptions
) -> Iterator[str]:
    if options.measure:
        samples = [sample.tokens for each in answered for sample in each.answer or ()]
        for n in range(1, min(4, max(map(len, samples), default=0)) + 1):
            shares = f"distinct {distinct(samples, n):.3f}, repeated {repetition(samples, n):.3f}"
            yield f"{tasks[0].tokenizer.unit} {n}-grams: {shares}"
        counts = [sample.guessed for each in answered for sample in each.answer or () if sample.guessed is not None]
        if rounds := sum(each.rounds for each in counts):
            proposed, accepted = sum(each.proposed for each in counts), sum(each.accepted for each in counts)
            yield (
                f"draft: {accepted / rounds:.2f} of {proposed / rounds:.2f} guesses per call were accepted, in {rounds}"
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
    helper=draft_run,
    remarks=diversity,
    watch=Watch(tokens=lambda task, row: tokens_read(task.tokenizer, [row.text]), confidence=translation_confidence),
    help="""Continue every TEXT. Without TEXT, a new text begins: after the end-of-document token, if the model was
trained with one; else after an empty line, if the model has learnt that empty lines separate paragraphs; else after
a newline. A single sample is shown while it is written.

  clew generate runs/shakespeare-lstm 'ROMEO:' --temperature 0.7
  clew generate runs/shakespeare-lstm 'ROMEO:' 'JULIET:' --method beam --beams 8 --n-best 3 --max-new 80
  clew generate runs/shakespeare-lstm --samples 20 --measure --json
  clew generate runs/shakespeare-llama 'ROMEO:' --draft runs/shakespeare-gru --max-new 400

A draft changes the speed, not the distribution of texts: greedy decoding writes the same text, and sampling draws
from the same distribution, though not the same text for the same seed.""",
)
