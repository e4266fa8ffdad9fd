"""Programs that read a whole text: modules whose inputs are the tensors that the task's body reads, by name."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clew.interop.signatures import SIZES, Program, Sizes, Tensors, random_tokens
from clew.layers.context import Context, Pieces
from clew.layers.embeddings import Segmented, Words
from clew.sources.words import is_segmented, is_spelled
from clew.tasks.uses.programs import ReadingProgram, Traced
from clew.text.letters import LETTERS

CONTEXT, SECOND = "context_", "second_"
"""Prefixes of the inputs of the context body and of the second text."""


@dataclass(frozen=True)
class Example:
    """Example inputs of a task at given sizes."""

    body: Any
    texts: int
    words: bool

    def __call__(self, sizes: Sizes) -> Tensors:
        tensors = read_tensors(self.body, sizes)
        if self.words:
            starts, mask = random_tokens(1, sizes["batch"], sizes["words"])
            tensors |= {"starts": starts, "ends": starts + 1, "word_mask": mask}
        if self.texts == 2:
            second = read_tensors(self.body, {**sizes, "length": sizes["second"]})
            tensors |= {SECOND + name: tensor for name, tensor in second.items()}
        return tensors


class Reader(nn.Module):
    """A reading program as a module that takes tensors in the order of `names`."""

    def __init__(self, task: Any, reads: ReadingProgram, names: list[str]):
        super().__init__()
        self.task = task
        self.reads = reads
        self.names = names

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.reads.call(traced_text(self.task.body, dict(zip(self.names, tensors, strict=True)))))


def traced_text(body: Any, tensors: Tensors) -> Traced:
    second = {name.removeprefix(SECOND): tensor for name, tensor in tensors.items() if name.startswith(SECOND)}
    texts = tuple(pieces_of(body, side) for side in (tensors, second) if side)
    return Traced(texts, tensors.get("word_mask", tensors["mask"]))


def reading(task: Any, reads: ReadingProgram) -> Program:
    example = Example(task.body, reads.texts, reads.words)
    module, outputs = Reader(task, reads, list(example(SIZES))), reads.outputs
    if reads.numbered:
        with torch.no_grad():
            tensors = module(*example(SIZES).values())
        outputs = [f"{reads.numbered}.{number}" for number in range(len(tensors))]
    return Program(reads.name, module, example, outputs, reads.usage, reads.alone, reads.facts)


def read_tensors(body: Any, sizes: Sizes) -> Tensors:
    """Return example inputs of a body for one text: tokens if it has a table of them, letters or segments if it reads
    these, the same for a context body, and the mask."""
    tokens, mask = random_tokens(body.vocabulary, sizes["batch"], sizes["length"])
    tensors = {} if body.embedding.tokens is None else {"tokens": tokens}
    if is_spelled(body):
        letters, _ = random_tokens(LETTERS - 1, sizes["batch"] * sizes["length"], sizes["letters"])
        tensors["letters"] = (letters + 1).unflatten(0, tokens.shape)
    elif is_segmented(body):
        tensors["segments"] = torch.zeros_like(tokens)
    if (other := context_of(body)) is not None:
        inner = read_tensors(other, {**sizes, "length": sizes["context"]})
        tensors |= {CONTEXT + name: tensor for name, tensor in inner.items()}
        tensors |= {f"{CONTEXT}starts": torch.zeros_like(tokens), f"{CONTEXT}ends": torch.ones_like(tokens)}
    return {**tensors, "mask": mask}


def body_inputs(body: Any, tensors: Tensors) -> Tensor | Words | Segmented:
    """Return the inputs in the form that a body takes."""
    other, letters = context_of(body), tensors.get("letters")
    if other is not None:
        inner = {name.removeprefix(CONTEXT): tensor for name, tensor in tensors.items() if name.startswith(CONTEXT)}
        return Words(tensors.get("tokens", inner["starts"]), letters, pieces_of(other, inner))
    if letters is not None:
        return Words(tensors.get("tokens", letters[..., 0]), letters)
    return Segmented(tensors["tokens"], tensors["segments"]) if is_segmented(body) else tensors["tokens"]


def context_of(body: Any) -> Any:
    """Return the other body whose vectors this body reads for each word; None if there is none."""
    return next((part.body for part in body.embedding.parts if isinstance(part, Context)), None)


def pieces_of(body: Any, tensors: Tensors) -> Pieces:
    """Return a text in the form that tasks take. A program that never reads the places of pieces gets the mask
    instead."""
    mask = tensors["mask"]
    return Pieces(body_inputs(body, tensors), mask, tensors.get("starts", mask), tensors.get("ends", mask))
