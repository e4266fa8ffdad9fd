"""Programs that generate text: a step, whose state is passed in and out as tensors, and the encoder of a source."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from clew.core.errors import UserError
from clew.core.types import State
from clew.interop.signatures import SIZES, Program, Sizes, Tensors, random_tokens
from clew.interop.states import MEMORY, StateForm, tensors_of
from clew.interop.usage import CONTINUE, SEQUENCE, STEP
from clew.tasks.uses.programs import SteppingProgram

STATE, NEXT = "state.", "next."
"""Prefixes of the names of a state's tensors, as inputs and as outputs."""


class Step(nn.Module):
    """(tokens, mask, state) -> (log p of every next token, state): a Stepper whose state is a flat sequence of
    tensors."""

    def __init__(self, task: Any, form: StateForm):
        super().__init__()
        self.task = task
        self.form = form

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        tokens, mask, *state_tensors = tensors
        state_by_name = dict(zip([*self.form.read, *self.form.changed], state_tensors, strict=True))
        hidden, state = self.task.body(tokens, mask, self.form.state(state_by_name, tokens.new_zeros(tokens.shape[0])))
        after = tensors_of(state)
        return self.task.log_probs(hidden), *(after[name] for name in self.form.changed)


class Encoder(nn.Module):
    """(source, source mask) -> the memory that the decoder reads, prepared, and its initial state.

    Layers prepare the memory on their first call. So the program runs one step of the decoder that reads no token; the
    parts on which no output depends are dropped from the graph, with their weights.
    """

    def __init__(self, task: Any, form: StateForm):
        super().__init__()
        self.task = task
        self.form = form

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        body, (source, source_mask) = self.task.body, tensors
        state = body.initial_state(source.shape[0], body.encode(source, source_mask))
        nothing = source.new_zeros(source.shape[0], 1)
        _, after = body(nothing, nothing > 0, state)  # reads no token, but prepares the memory
        ready = {
            **tensors_of(after),
            **{name: tensor for name, tensor in tensors_of(state).items() if not name.startswith(MEMORY)},
        }
        return tuple(ready[name] for name in (*self.form.read, *self.form.changed) if name in ready)


def stepping(task: Any, steps: SteppingProgram) -> list[Program]:
    """Return the program of the step, preceded by that of the encoder if there is a source."""
    return sequence(task, steps) if steps.source else [continuing(task, steps)]


def continuing(task: Any, steps: SteppingProgram) -> Program:
    body = task.body
    if any(bool(tensor.any()) for tensor in tensors_of(body.initial_state(1)).values()):
        raise UserError(
            "a program starts with a state of zeros, but a layer of this model does not; export another model"
        )

    def reach(sizes: Sizes) -> tuple[State, Tensors]:
        tokens, mask = random_tokens(body.vocabulary, sizes["batch"], sizes["past"])
        return body(tokens, mask, body.initial_state(sizes["batch"]))[1], {}

    return step_program(task, reach, steps, CONTINUE)


def sequence(task: Any, steps: SteppingProgram) -> list[Program]:
    body = task.body

    def sources(sizes: Sizes) -> Tensors:
        source, mask = random_tokens(body.source_vocabulary, sizes["batch"], sizes["source"])
        return {"source": source, "source_mask": mask}

    def reach(sizes: Sizes) -> tuple[State, Tensors]:
        memory_inputs = sources(sizes)
        tokens, mask = random_tokens(body.vocabulary, sizes["batch"], sizes["past"])
        return body(tokens, mask, body.initial_state(sizes["batch"], body.encode(*memory_inputs.values())))[
            1
        ], memory_inputs

    language = next(iter(steps.facts.get("languages") or ()), None)
    first = 'about["source_before"]' if language is None else f'[about["languages"]["{language}"]]'
    usage = SEQUENCE.replace("FIRST", first)
    step = step_program(task, reach, steps, usage)
    form: Any = step.module.form
    outputs = [*(name for name in form.read if name.startswith(MEMORY)), *(STATE + name for name in form.changed)]
    return [Program("encoder", Encoder(task, form), sources, outputs, step.usage, step.alone), step]


def step_program(
    task: Any, reach: Callable[[Sizes], tuple[State, Tensors]], steps: SteppingProgram, usage: str
) -> Program:
    """Return the program of one step. `reach` returns a state after some tokens, and the tensors of other programs that
    may occur in it."""
    with torch.no_grad():
        state, shared = reach(SIZES)
    form = StateForm(state, counts=task.body.embedding.position is not None, shared=shared)

    @torch.no_grad()
    def example(sizes: Sizes) -> Tensors:
        state, shared = reach(sizes)
        tokens, mask = random_tokens(task.body.vocabulary, sizes["batch"], sizes["length"])
        tensors = {**tensors_of(state), **shared}
        read = {name: tensors[name] for name in form.read}
        return {"tokens": tokens, "mask": mask, **read, **{STATE + name: tensors[name] for name in form.changed}}

    outputs, usage = ["log_probs", *(NEXT + name for name in form.changed)], f"{STEP.strip()}\n\n\n{usage.strip()}"
    return Program("step", Step(task, form), example, outputs, usage, alone=True, facts=steps.facts)
