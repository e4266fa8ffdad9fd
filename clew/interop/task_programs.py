"""What a run's task is as programs: modules from tensors to tensors, the state of a generator among them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.types import State
from clew.interop.signatures import SIZES, Program, Sizes, Tensors
from clew.interop.states import MEMORY, StateForm, tensors_of
from clew.layers.context import Context, Pieces
from clew.layers.embeddings import Words
from clew.runs.loaded import Run
from clew.tasks.answers import Number
from clew.tasks.classification import ClassBatch, Classifier
from clew.tasks.tagging import TagBatch, Tagger
from clew.tasks.words import is_spelled
from clew.text.letters import LETTERS

STATE, NEXT = "state.", "next."
"""How the names of a state's tensors begin, where they go in and where they come out."""


class Step(nn.Module):
    """(tokens, mask, state) -> (log p of every next token, state): a Stepper whose state is a row of tensors."""

    def __init__(self, task: Any, form: StateForm):
        super().__init__()
        self.task = task
        self.form = form

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        tokens, mask, *state_tensors = tensors
        given = dict(zip([*self.form.read, *self.form.changed], state_tensors, strict=True))
        hidden, state = self.task.body(tokens, mask, self.form.state(given, tokens.new_zeros(tokens.shape[0])))
        after = tensors_of(state)
        return self.task.log_probs(hidden), *(after[name] for name in self.form.changed)


class Encoder(nn.Module):
    """(source, source mask) -> what the decoder reads, made ready, and the state that it starts from."""

    def __init__(self, task: Any, form: StateForm):
        super().__init__()
        self.task = task
        self.form = form

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        body, (source, source_mask) = self.task.body, tensors
        state = body.initial_state(source.shape[0], body.encode(source, source_mask))
        nothing = source.new_zeros(source.shape[0], 1)
        _, after = body(nothing, nothing > 0, state)  # reads no token, but makes ready what it will read of the source
        ready = {**tensors_of(after), **{name: tensor for name, tensor in tensors_of(state).items() if not name.startswith(MEMORY)}}
        return tuple(ready[name] for name in (*self.form.read, *self.form.changed) if name in ready)


class Levels(nn.Module):
    """(tokens, mask) -> the vectors (batch, length, dim) of every level, the embedding's first."""

    def __init__(self, task: Any):
        super().__init__()
        self.body = task.body

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        *inputs, mask = tensors
        return tuple(self.body.levels(as_read(self.body, inputs), mask))


class Tags(nn.Module):
    """A sentence's tokens -> a score for every tag of every word, and the tags that are best: of a CRF, those that are best together."""

    def __init__(self, task: Tagger):
        super().__init__()
        self.task = task

    def forward(self, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        if self.task.reader.is_whole:
            *inputs, mask = tensors
            starts = ends = inputs[0]
            words = mask
        else:
            *inputs, mask, starts, ends, words = tensors
        emissions = self.task.emissions(TagBatch(Pieces(as_read(self.task.body, inputs), mask, starts, ends), words, starts))
        tags = emissions.argmax(-1) if self.task.crf is None else self.task.crf.viterbi(emissions, words)[0]
        return emissions, tags.masked_fill(~words, 0)


class Classes(nn.Module):
    """A text's tokens, or two texts' -> logits and probabilities of the labels, or the number."""

    def __init__(self, task: Classifier):
        super().__init__()
        self.task = task

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        sides = 2 if self.task.config.pair == "apart" else 1
        width = len(tensors) // sides
        texts = [tensors[side * width : (side + 1) * width] for side in range(sides)]
        pieces = tuple(Pieces(as_read(self.task.body, inputs), mask, mask, mask) for *inputs, mask in texts)
        answer, logits = self.task.answer, self.task.logits(ClassBatch(pieces, tensors[0]))
        if isinstance(answer, Number):
            return (answer.mean + answer.scale * logits[:, 0],)
        return logits, answer.probabilities(logits / answer.temperature)


def language_model(run: Run) -> list[Program]:
    body = run.task.body

    def reach(sizes: Sizes) -> tuple[State, Tensors]:
        tokens, mask = drawn(body.vocabulary, sizes["batch"], sizes["past"])
        return body(tokens, mask, body.initial_state(sizes["batch"]))[1], {}

    return [step_program("step", run.task, reach)]


def sequence(run: Run) -> list[Program]:
    task, body = run.task, run.task.body

    def sources(sizes: Sizes) -> Tensors:
        source, mask = drawn(body.source_vocabulary, sizes["batch"], sizes["source"])
        return {"source": source, "source_mask": mask}

    def reach(sizes: Sizes) -> tuple[State, Tensors]:
        given = sources(sizes)
        tokens, mask = drawn(body.vocabulary, sizes["batch"], sizes["past"])
        return body(tokens, mask, body.initial_state(sizes["batch"], body.encode(*given.values())))[1], given

    step = step_program("step", task, reach)
    form: Any = step.module.form
    made = [*(name for name in form.read if name.startswith(MEMORY)), *(STATE + name for name in form.changed)]
    return [Program("encoder", Encoder(task, form), sources, made), step]


def step_program(name: str, task: Any, reach: Callable[[Sizes], tuple[State, Tensors]]) -> Program:
    """One call of a generator; `reach` gives a state after some tokens, and tensors of other programs that may stand in it."""
    with torch.no_grad():
        state, given = reach(SIZES)
    form = StateForm(state, counts=task.body.embedding.position is not None, given=given)

    @torch.no_grad()
    def example(sizes: Sizes) -> Tensors:
        state, given = reach(sizes)
        tokens, mask = drawn(task.body.vocabulary, sizes["batch"], sizes["length"])
        there = {**tensors_of(state), **given}
        read = {name: there[name] for name in form.read}
        return {"tokens": tokens, "mask": mask, **read, **{STATE + name: there[name] for name in form.changed}}

    return Program(name, Step(task, form), example, ["log_probs", *(NEXT + name for name in form.changed)])


def levels(run: Run) -> list[Program]:
    body = run.task.body
    refuse_context(run)
    module = Levels(run.task)
    with torch.no_grad():
        found = module(*read_tensors(body, SIZES).values())
    return [Program("levels", module, lambda sizes: read_tensors(body, sizes), [f"level.{number}" for number in range(len(found))])]


def tagging(run: Run) -> list[Program]:
    refuse_context(run)

    def example(sizes: Sizes) -> Tensors:
        tensors = read_tensors(run.task.body, sizes)
        if not run.task.reader.is_whole:
            starts, mask = drawn(1, sizes["batch"], sizes["words"])
            tensors |= {"starts": starts, "ends": starts + 1, "word_mask": mask}
        return tensors

    return [Program("tagger", Tags(run.task), example, ["scores", "tags"])]


def classification(run: Run) -> list[Program]:
    refuse_context(run)
    body, task = run.task.body, run.task

    def example(sizes: Sizes) -> Tensors:
        tensors = read_tensors(body, sizes)
        if task.config.pair == "apart":
            second = read_tensors(body, {**sizes, "length": sizes["second"]})
            tensors |= {f"second_{name}": tensor for name, tensor in second.items()}
        return tensors

    outputs = ["number"] if isinstance(task.answer, Number) else ["logits", "probabilities"]
    return [Program("classifier", Classes(task), example, outputs)]


def read_tensors(body: Any, sizes: Sizes) -> Tensors:
    """What a body reads of a sentence: tokens where it has a table of them, letters where it reads those, and which are real."""
    tokens, mask = drawn(body.vocabulary, sizes["batch"], sizes["length"])
    tensors = {} if body.embedding.tokens is None else {"tokens": tokens}
    if is_spelled(body):
        letters, _ = drawn(LETTERS - 1, sizes["batch"] * sizes["length"], sizes["letters"])
        tensors["letters"] = (letters + 1).unflatten(0, tokens.shape)
    return {**tensors, "mask": mask}


def as_read(body: Any, inputs: Sequence[Tensor]) -> Tensor | Words:
    """The same as a body takes it."""
    if not is_spelled(body):
        return inputs[0]
    letters = inputs[-1]
    return Words(letters[..., 0] if body.embedding.tokens is None else inputs[0], letters)


def drawn(vocabulary: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Some ids (rows, length), all real."""
    ids = torch.arange(rows * length).view(rows, length) % vocabulary
    return ids, torch.ones(rows, length, dtype=torch.bool)


def refuse_context(run: Run) -> None:
    if any(isinstance(part, Context) for part in run.task.body.embedding.parts):
        raise UserError(
            f"{run.folder} reads its words by another run as well (embedding.from), and such a pair is not written as a program; "
            "export a run that reads words by itself"
        )


PROGRAMS: dict[str, Callable[[Run], list[Program]]] = {
    "language_model": language_model,
    "bidirectional_language_model": levels,
    "translation": sequence,
    "sequence": sequence,
    "classification": classification,
    "tagging": tagging,
}
"""The programs of a run, by its task."""
REFUSED = {
    "tree_classification": "reads trees, and each has a shape of its own",
    "parsing": "holds what it writes to trees, which no program does",
}


def programs_of(run: Run) -> list[Program]:
    name = run.config.task.name  # type: ignore[attr-defined]
    if name not in PROGRAMS:
        why = REFUSED.get(name, "has no programs")
        raise UserError(f"{run.folder} is a run of the task {name}, which {why}; programs are written of {', '.join(PROGRAMS)}")
    return PROGRAMS[name](run)
