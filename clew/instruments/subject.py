"""What an instrument looks into: a module with a name, and what may be asked of it. It is made of a run, of a task without a run, or of
any torch module."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from clew.core.errors import UserError, shown
from clew.inspection.recording import plain_module
from clew.instruments.modules import AnyModule
from clew.runs.asking import takes_pairs
from clew.runs.build import build_task
from clew.runs.loaded import Run
from clew.tasks.offers import lacking, offered
from clew.tasks.writing import DecodingConfig


@dataclass(frozen=True)
class Subject:
    """`module` is what runs, its parts watched by path; `offers` has the capabilities of `clew.tasks.offers`: the module itself where it is
    a task, else what reads it from outside. `name` is what pictures and sentences call it. `run` is there for what needs a run's data,
    its metrics or its settings."""

    name: str
    module: nn.Module
    offers: Any
    run: Run | None = None

    def lacks(self, *capabilities: str) -> str | None:
        """The sentence that says which of these it has not; None where it has all."""
        reasons = (lacking(self.offers, capability) for capability in capabilities)
        return next((f"{self.name} {why}" for why in reasons if why is not None), None)

    def has(self, capability: str) -> bool:
        return lacking(self.offers, capability) is None

    @property
    def has_inputs(self) -> bool:
        """Whether it was given what it reads, so that no text is needed."""
        return getattr(self.offers, "inputs", None) is not None

    @property
    def folder(self) -> Path | None:
        """Where its metrics and predictions are, of a run."""
        return None if self.run is None else self.run.folder

    @property
    def pairs(self) -> bool | None:
        """Whether it judges two texts together; None where that is not known."""
        return None if self.run is None else self.has("judges") and takes_pairs(self.run)

    @property
    def decoding(self) -> DecodingConfig:
        """How it writes a target of its own."""
        config = DecodingConfig() if self.run is None else self.run.config.decoding
        return config.model_copy(update={"method": "greedy"})

    @property
    def clip_norm(self) -> float | None:
        """The gradient's norm that its training keeps to, of a run."""
        return None if self.run is None else self.run.config.training.clip_norm

    def untrained(self) -> "Subject | None":
        """The same before its first step, of a run: its config and vocabularies, the parameters that its seed gives."""
        if self.run is None:
            return None
        device = next(self.module.parameters()).device
        task = build_task(self.run.config, self.run.vocabularies, to_train=False).to(device).eval()
        return subject_of(Run(self.run.folder, self.run.config, self.run.vocabularies, task))


Looked = Run | Subject | nn.Module
"""What an instrument may be shown: a run, a module, or a subject that was made of one."""


def subject_of(model: Looked, *, inputs: Any = None, tokenizer: Any = None) -> Subject:
    """Of a run, or of a module; a module that is no task of ours is given `inputs` to read, or a `tokenizer` for texts."""
    if isinstance(model, Subject):
        return model
    if isinstance(model, Run):
        check_reads_itself(str(model.folder), inputs, tokenizer)
        return Subject(str(model.folder), model.task, model.task, model)
    module = plain_module(model)
    if not isinstance(module, nn.Module):
        raise UserError(f"expected a run, its folder or a torch module to look into, found {shown(model)}")
    name = type(module).__name__
    if offered(module):
        check_reads_itself(name, inputs, tokenizer)
        return Subject(name, module, module)
    seen = AnyModule(module, inputs, tokenizer)
    return Subject(name, seen.module, seen)


def check_reads_itself(name: str, inputs: Any, tokenizer: Any) -> None:
    for option, value in (("inputs", inputs), ("tokenizer", tokenizer)):
        if value is not None:
            raise UserError(f"{name} has a tokenizer of its own and reads texts; give text=, and leave {option}= out")


def subject_names(subjects: Sequence[Subject]) -> list[str]:
    """What subjects are called beside each other: the last part of a folder, the whole where that is another's too, and numbered where one
    stands there twice."""
    last = [subject.name if subject.folder is None else subject.folder.resolve().name for subject in subjects]
    names = [name if last.count(name) == 1 else subject.name for name, subject in zip(last, subjects, strict=True)]
    return [name if names.count(name) == 1 else f"{number}: {name}" for number, name in enumerate(names, start=1)]
