"""Programs that read a text whole: what a task tells of it, or the vectors of every level."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.tag_schemes import plain_tags
from clew.interop.signatures import SIZES, Program, Sizes, Tensors, drawn
from clew.layers.context import Context, Pieces
from clew.layers.embeddings import Segmented, Words
from clew.runs.loaded import Run
from clew.sources.words import is_segmented, is_spelled
from clew.tasks.answers import Number
from clew.tasks.classification import ClassBatch
from clew.tasks.tagging import TagBatch
from clew.text.letters import LETTERS

Function = Callable[[Any, Tensors], tuple[Tensor, ...]]


CONTEXT = "context_"
"""How the names of what another body reads begin."""


class Reader(nn.Module):
    """A function of a task and of tensors with names, as a module that takes them in a row."""

    def __init__(self, task: Any, names: Sequence[str], function: Function):
        super().__init__()
        self.task = task
        self.names = list(names)
        self.function = function

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return self.function(self.task, dict(zip(self.names, tensors, strict=True)))


def reading(run: Run, name: str, function: Function, outputs: Sequence[str], example: Callable[[Sizes], Tensors] | None = None) -> Program:
    """A program that reads what a body reads, or what `example` has."""
    given = example or (lambda sizes: read_tensors(run.task.body, sizes))
    return Program(name, Reader(run.task, list(given(SIZES)), function), given, outputs)


def levels(run: Run) -> list[Program]:
    """The vectors (batch, length, dim) of every level, the embedding's first."""
    program = reading(run, "levels", lambda task, tensors: tuple(task.body.levels(as_read(task.body, tensors), tensors["mask"])), [])
    with torch.no_grad():
        found = program.module(*program.tensors)
    names = [f"level.{number}" for number in range(len(found))]
    return [Program(program.name, program.module, program.example, names)]


def masked_language_model(run: Run) -> list[Program]:
    outputs = ["log_probs"] if run.task.next_sentence is None else ["log_probs", "follows"]
    return [reading(run, "filler", fill, outputs), *levels(run)]


def fill(task: Any, tensors: Tensors) -> tuple[Tensor, ...]:
    """log p of every token at every place, and the probability that the second text follows the first."""
    hidden, _ = task.body(as_read(task.body, tensors), tensors["mask"])
    log_probs = task.logits(hidden).float().log_softmax(-1)
    return (log_probs,) if task.next_sentence is None else (log_probs, task.followed(hidden).float().softmax(-1)[:, 0])


def representation(run: Run) -> list[Program]:
    return [reading(run, "embedder", lambda task, tensors: (task(pieces_of(task.body, tensors)),), ["vectors"]), *levels(run)]


def question_answering(run: Run) -> list[Program]:
    return [reading(run, "reader", answer, ["scores"])]


def answer(task: Any, tensors: Tensors) -> tuple[Tensor, ...]:
    """Of every place as an answer's first and last (batch, 2, length)."""
    hidden, _ = task.body(as_read(task.body, tensors), tensors["mask"])
    return (task.output(hidden).float().mT,)


def tagging(run: Run) -> list[Program]:
    def example(sizes: Sizes) -> Tensors:
        tensors = read_tensors(run.task.body, sizes)
        if not run.task.reader.is_whole:
            starts, mask = drawn(1, sizes["batch"], sizes["words"])
            tensors |= {"starts": starts, "ends": starts + 1, "word_mask": mask}
        return tensors

    return [reading(run, "tagger", tag, ["scores", "tags"], example)]


def tag(task: Any, tensors: Tensors) -> tuple[Tensor, ...]:
    """A score for every tag of every word, and the tags that are best: of a CRF, those that are best together; of phrases IOB2's."""
    words = tensors.get("word_mask", tensors["mask"])
    scores = task.emissions(TagBatch(pieces_of(task.body, tensors), words, words))
    tags = scores.argmax(-1) if task.crf is None else task.crf.viterbi(scores, words)[0]
    if task.scheme:
        plain = plain_tags(task.tags.names)
        table = torch.tensor([*plain.after, plain.first], device=tags.device)  # (tag before or none, tag)
        # Padded, then cut: a length of one less would make torch.export ask whether it is one.
        before = F.pad(tags, (1, 0), value=len(plain.after))[:, :-1]
        tags = table[before, tags]
    return scores, tags.masked_fill(~words, 0)


def classification(run: Run) -> list[Program]:
    body, task = run.task.body, run.task

    def example(sizes: Sizes) -> Tensors:
        tensors = read_tensors(body, sizes)
        if task.config.pair == "apart":
            second = read_tensors(body, {**sizes, "length": sizes["second"]})
            tensors |= {f"second_{name}": tensor for name, tensor in second.items()}
        return tensors

    outputs = ["number"] if isinstance(task.answer, Number) else ["logits", "probabilities"]
    return [reading(run, "classifier", classify, outputs, example)]


def classify(task: Any, tensors: Tensors) -> tuple[Tensor, ...]:
    """Logits and probabilities of the labels, or the number."""
    second = {name.removeprefix("second_"): tensor for name, tensor in tensors.items() if name.startswith("second_")}
    texts = tuple(pieces_of(task.body, side) for side in (tensors, second) if side)
    answer, logits = task.answer, task.logits(ClassBatch(texts, tensors["mask"]))
    if isinstance(answer, Number):
        return (answer.mean + answer.scale * logits[:, 0],)
    return logits, answer.probabilities(logits / answer.temperature)


def read_tensors(body: Any, sizes: Sizes) -> Tensors:
    """What a body reads of a text: tokens where it has a table of them, letters or segments where it reads those, the same for another
    body whose vectors it reads, and which are real."""
    tokens, mask = drawn(body.vocabulary, sizes["batch"], sizes["length"])
    tensors = {} if body.embedding.tokens is None else {"tokens": tokens}
    if is_spelled(body):
        letters, _ = drawn(LETTERS - 1, sizes["batch"] * sizes["length"], sizes["letters"])
        tensors["letters"] = (letters + 1).unflatten(0, tokens.shape)
    elif is_segmented(body):
        tensors["segments"] = torch.zeros_like(tokens)
    if (other := context_of(body)) is not None:
        inner = read_tensors(other, {**sizes, "length": sizes["context"]})
        tensors |= {CONTEXT + name: tensor for name, tensor in inner.items()}
        tensors |= {f"{CONTEXT}starts": torch.zeros_like(tokens), f"{CONTEXT}ends": torch.ones_like(tokens)}
    return {**tensors, "mask": mask}


def as_read(body: Any, tensors: Tensors) -> Tensor | Words | Segmented:
    """The same as a body takes it."""
    other, letters = context_of(body), tensors.get("letters")
    if other is not None:
        inner = {name.removeprefix(CONTEXT): tensor for name, tensor in tensors.items() if name.startswith(CONTEXT)}
        return Words(tensors.get("tokens", inner["starts"]), letters, pieces_of(other, inner))
    if letters is not None:
        return Words(tensors.get("tokens", letters[..., 0]), letters)
    return Segmented(tensors["tokens"], tensors["segments"]) if is_segmented(body) else tensors["tokens"]


def context_of(body: Any) -> Any:
    """The other body whose vectors a body reads of each word; None where there is none."""
    return next((part.body for part in body.embedding.parts if isinstance(part, Context)), None)


def pieces_of(body: Any, tensors: Tensors) -> Pieces:
    """A text as tasks take it; where each word's pieces are is told, or not asked for."""
    mask = tensors["mask"]
    return Pieces(as_read(body, tensors), mask, tensors.get("starts", mask), tensors.get("ends", mask))
