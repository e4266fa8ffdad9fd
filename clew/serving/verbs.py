"""What is done for each verb: what may be asked of it, how rows are answered, and how answers are told. Knows no server.

A request has texts and options. Its rows are what the model is given, each with its number in the request, from 1; rows of several
requests with equal options may be answered by one call. Sampling draws a row by its number, so that an answer is the same whichever
other rows it is found with.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError, counted
from clew.data.examples import Question
from clew.runs import as_json
from clew.runs.explaining import read_section
from clew.runs.given import searching
from clew.runs.loaded import Run
from clew.tasks.generation import generate_rows
from clew.tasks.writing import DecodingConfig
from clew.text.tokenizer import check_is_text

MOST_TEXTS, MOST_ROWS = 256, 1024
LONGEST_TEXT = 10_000
"""Characters of a text, where nothing else is said."""
LIMITS = {"max_new": 4096, "beams": 64, "n_best": 64}
"""What a request may ask for at most; the run's own settings may be larger."""


class Asked(Section):
    """What every request says."""

    text: str | None = Field(None, description="one text")
    texts: list[str] | None = Field(None, description=f"or several, at most {MOST_TEXTS}")


class AskedPairs(Asked):
    text: str | list[str] | None = Field(None, description="one text, or two that are read together, in a list")  # type: ignore[assignment]
    texts: list[str | list[str]] | None = Field(None, description=f"or several, at most {MOST_TEXTS}")  # type: ignore[assignment]
    second: str | None = Field(None, description="of one text: the other that is read with it")


class AskedGenerate(Asked, DecodingConfig):
    samples: int = Field(1, ge=1, le=64, description="continuations of every text")
    seed: int | None = Field(None, description="another seed writes another text; where not given, the run's")
    stream: bool = Field(False, description="send the text piece by piece")


class AskedTranslate(Asked, DecodingConfig):
    into: str = Field("", description="the language to write, where the model writes several")
    replace_unknown: bool = Field(False, description="models of words: for an unknown word the source word that was looked at most")
    seed: int | None = Field(None, description="another seed samples other translations; where not given, the run's")


class AskedParse(Asked, DecodingConfig):
    seed: int | None = Field(None, description="where trees are sampled")


class AskedTag(Asked):
    text: str | list[str] | None = Field(None, description="one sentence, or its words in a list")  # type: ignore[assignment]
    texts: list[str | list[str]] | None = Field(None, description=f"or several, at most {MOST_TEXTS}")  # type: ignore[assignment]
    tokenised: bool = Field(False, description="words stand apart by spaces already; nothing else is split")


class AskedFill(AskedPairs):
    top: int = Field(5, ge=1, le=1000, description="guesses at each mask")


class AskedAnswer(Asked):
    text: str | None = Field(None, description="one question")
    passage: str = Field(description="what holds the answers")
    n_best: int = Field(1, ge=1, le=64, description="so many pieces of the passage for each question")
    threshold: float | None = Field(
        None, description="no answer where none scores by more above the best piece; the run's own if not given"
    )


class AskedEmbed(Asked):
    layer: int | str = Field("last", description="a level's number, 0 being the embedding, or a mix of levels")
    pooling: str | None = Field(None, description="what a text's vectors become: first, last, max, mean; where not given, the run's own")
    normalise: bool | None = Field(None, description="vectors of length 1; where not given, as the run's own are")
    tokens: bool = Field(False, description="a vector for every token instead of one a text")


class Verb(NamedTuple):
    """`answer(run, asked, rows, numbers)` gives an answer a row; `tell(asked, number, row, answer)` its objects."""

    about: str
    asked: type[Asked]
    answer: Callable[[Run, Any, list[Any], list[int]], Sequence[Any]]
    tell: Callable[[Any, int, Any, Any], as_json.Objects]


@dataclass(frozen=True)
class Call:
    """A request, read and found right: calls of one `key` may be answered together."""

    run: Run
    verb: str
    asked: Any
    rows: list[Any]
    key: tuple[Any, ...]

    def told(self, answers: Sequence[Any]) -> as_json.Objects:
        tell = SERVED[self.verb].tell
        answered = enumerate(zip(self.rows, answers, strict=True), start=1)
        return [one for number, (row, answer) in answered for one in tell(self.asked, number, row, answer)]


def call_of(run: Run, verb: str, body: Mapping[str, Any], longest: int = LONGEST_TEXT) -> Call:
    """What a request asks, or one sentence that says what is wrong with it."""
    kind = SERVED[verb].asked
    decoding: dict[str, Any] = run.config.decoding.model_dump() if issubclass(kind, DecodingConfig) else {}
    asked: Any = read_section(kind, {**decoding, **body})
    for name, most in LIMITS.items():
        if name in body and getattr(asked, name) > most:
            raise UserError(f"{name} must be at most {most} here, not {getattr(asked, name)}")
    if decoding and verb != "generate":
        given = {name: getattr(asked, name) for name in body if name in DecodingConfig.model_fields}
        asked = asked.model_copy(update=searching(run.config.decoding, given).model_dump())
    rows = rows_of(verb, asked, longest)
    options = asked.model_dump(mode="json", exclude={"text", "texts", "second", "passage", "stream"})
    is_alone = verb != "generate" and getattr(asked, "method", None) == "sample"  # its numbers have to follow one another
    return Call(run, verb, asked, rows, (str(run.folder), verb, json.dumps(options, sort_keys=True), *([object()] if is_alone else [])))


def rows_of(verb: str, asked: Any, longest: int) -> list[Any]:
    """What the model is given, one after the other."""
    if (asked.text is None) == (asked.texts is None):
        raise UserError('give "text", or several in "texts"' + ("; not both" if asked.text is not None else ""))
    texts: list[Any] = [asked.text] if asked.texts is None else asked.texts
    if not 1 <= len(texts) <= MOST_TEXTS:
        raise UserError(f"texts are 1 to {MOST_TEXTS} in a request, not {len(texts)}")
    if second := getattr(asked, "second", None):
        if asked.texts is not None or not isinstance(asked.text, str):
            raise UserError("second goes with one text; of several, each that has a second is a list of both")
        texts = [[asked.text, second]]
    for number, text in enumerate(texts, start=1):
        check_text(text, f"text {number}", longest)
    if verb == "answer":
        check_text(asked.passage, "passage", longest)
        if not asked.passage.strip():
            raise UserError("the passage is empty; give a text that may hold the answer")
        if blank := next((number for number, text in enumerate(texts, start=1) if not text.strip()), None):
            raise UserError(f"question {blank} is empty; ask something")
        return [(text, asked.passage) for text in texts]
    rows = [tuple(text) if isinstance(text, list) else text for text in texts for _ in range(getattr(asked, "samples", 1))]
    if len(rows) > MOST_ROWS:
        raise UserError(f"{counted(len(texts), 'text')} of {asked.samples} samples each are more than {MOST_ROWS} at once; ask in parts")
    if getattr(asked, "stream", False) and (len(rows) > 1 or asked.method == "beam"):
        raise UserError("stream is for one text, one sample, and method sample or greedy; beam search chooses only at the end")
    return rows


def check_text(text: str | list[str], what: str, longest: int) -> None:
    whole = text if isinstance(text, str) else " ".join(text)
    check_is_text(whole, what)
    if len(whole) > longest:
        raise UserError(f"{what} has {len(whole):,} characters, and at most {longest:,} are taken here; shorten it, or send it in parts")


def decoding_of(asked: Any) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in DecodingConfig.model_fields}


def generate(run: Run, asked: AskedGenerate, rows: list[str], numbers: list[int]) -> Sequence[Any]:
    seed = run.config.seed if asked.seed is None else asked.seed
    return generate_rows(run.task, rows, DecodingConfig(**decoding_of(asked)), seed, [number - 1 for number in numbers])


def translate(run: Run, asked: AskedTranslate, rows: list[str], numbers: list[int]) -> Sequence[Any]:
    options = {"into": asked.into, "replace_unknown": asked.replace_unknown, "seed": asked.seed}
    return run.translate(rows, first=numbers[0], **options, **decoding_of(asked))


def parse(run: Run, asked: AskedParse, rows: list[str], numbers: list[int]) -> Sequence[Any]:
    return run.parse(rows, seed=asked.seed, first=numbers[0], **decoding_of(asked))


def tag(run: Run, asked: AskedTag, rows: list[Any], numbers: list[int]) -> Sequence[Any]:
    return run.tag(rows, tokenised=asked.tokenised, first=numbers[0])


def classify(run: Run, asked: AskedPairs, rows: list[Any], numbers: list[int]) -> Sequence[Any]:
    return run.classify(rows, first=numbers[0])


def fill(run: Run, asked: AskedFill, rows: list[Any], numbers: list[int]) -> Sequence[Any]:
    return run.fill(rows, top=asked.top, first=numbers[0])


def answer(run: Run, asked: AskedAnswer, rows: list[tuple[str, str]], numbers: list[int]) -> Sequence[Any]:
    questions = [Question(text, passage, (), f"question {number}") for (text, passage), number in zip(rows, numbers, strict=True)]
    return run.task.answer(questions, asked.n_best, asked.threshold)


def embed(run: Run, asked: AskedEmbed, rows: list[str], numbers: list[int]) -> Sequence[Any]:
    vectors = run.text_vectors(layer=asked.layer, pooling=asked.pooling, normalise=asked.normalise)
    return vectors.of_tokens(rows, numbers[0]) if asked.tokens else list(vectors.of(rows, numbers[0]))


def without_options(tell: Callable[[int, Any, Any], as_json.Objects]) -> Callable[[Any, int, Any, Any], as_json.Objects]:
    return lambda asked, number, row, found: tell(number, row, found)


def served_verbs(run: Run) -> list[str]:
    """What may be asked of a run: what its task does, and vectors where it has some."""
    found = [run.verb] if run.verb in SERVED else []
    if run.verb != "embed":
        try:
            run.text_vectors()
        except UserError:
            return found
        found.append("embed")
    return found


SERVED: dict[str, Verb] = {
    "generate": Verb("go on from a text", AskedGenerate, generate, without_options(as_json.generated)),
    "translate": Verb(
        "the translation of a text, or what else is written from it", AskedTranslate, translate, without_options(as_json.translated)
    ),
    "parse": Verb("the tree of a sentence", AskedParse, parse, without_options(as_json.parsed)),
    "tag": Verb("the tags of a sentence's words", AskedTag, tag, without_options(as_json.tagged)),
    "classify": Verb("the label of a text, or a number", AskedPairs, classify, without_options(as_json.classified)),
    "fill": Verb("what stands in the places of [MASK]", AskedFill, fill, without_options(as_json.filled)),
    "answer": Verb(
        "the answer to a question on a passage",
        AskedAnswer,
        answer,
        lambda asked, number, row, found: as_json.answered(number, row[0], found, asked.n_best),
    ),
    "embed": Verb("a vector of a text, or of its tokens", AskedEmbed, embed, without_options(as_json.embedded)),
}
