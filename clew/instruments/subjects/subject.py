"""The Subject of an instrument: a named module and its capabilities, from a run, a task without a run, or any torch
module."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from clew.core.errors import UserError, shown
from clew.inspection.recording import plain_module
from clew.instruments.subjects.modules import AnyModule
from clew.runs.asking import takes_pairs
from clew.runs.build import build_task
from clew.runs.loaded import Run
from clew.tasks.offers import lacking, offered
from clew.tasks.uses.writing import DecodingConfig


@dataclass(frozen=True)
class Subject:
    """`module` is run, and watched by path. `offers` has the capabilities of `clew.tasks.offers`: it is the module
    itself if that is a task, otherwise an `AnyModule`. `name` is for pictures and messages. `run` is set if data,
    metrics or settings of a run are available."""

    name: str
    module: nn.Module
    offers: Any
    run: Run | None = None

    def lacks(self, *capabilities: str) -> str | None:
        """Return the message for the first of these capabilities that it lacks, or None if it has all."""
        reasons = (lacking(self.offers, capability) for capability in capabilities)
        return next((f"{self.name} {why}" for why in reasons if why is not None), None)

    def has(self, capability: str) -> bool:
        return lacking(self.offers, capability) is None

    @property
    def has_inputs(self) -> bool:
        """Whether it was created with inputs, so no text is needed."""
        return getattr(self.offers, "inputs", None) is not None

    @property
    def folder(self) -> Path | None:
        """The run's folder, with its metrics and predictions, or None."""
        return None if self.run is None else self.run.folder

    @property
    def pairs(self) -> bool | None:
        """Whether it judges pairs of texts; None if unknown."""
        return None if self.run is None else self.has("judges") and takes_pairs(self.run)

    @property
    def decoding(self) -> DecodingConfig:
        """The settings for decoding its own target: greedy."""
        config = DecodingConfig() if self.run is None else self.run.config.decoding
        return config.model_copy(update={"method": "greedy"})

    @property
    def clip_norm(self) -> float | None:
        """The gradient norm that the run's training clips to, or None."""
        return None if self.run is None else self.run.config.training.clip_norm

    def untrained(self) -> "Subject | None":
        """Rebuild a run's model before training from its config, vocabularies and seed; None for a module."""
        if self.run is None:
            return None
        device = next(self.module.parameters()).device
        task = build_task(self.run.config, self.run.vocabularies, to_train=False).to(device).eval()
        return subject_of(Run(self.run.folder, self.run.config, self.run.vocabularies, task))


Looked = Run | Subject | nn.Module
"""What an instrument can look at: a run, a module, or a subject of one."""


def subject_of(model: Looked, *, inputs: Any = None, tokenizer: Any = None) -> Subject:
    """Create the subject of a run or a module. A foreign module needs `inputs` to read, or a `tokenizer` for texts."""
    if isinstance(model, Subject):
        return model
    if isinstance(model, Run):
        check_reads_itself(str(model.folder), inputs, tokenizer)
        return Subject(str(model.folder), model.task, model.task, model)
    module = plain_module(model)
    if not isinstance(module, nn.Module):
        raise UserError(f"expected a run, its folder or a torch module to look at, found {shown(model)}")
    name = type(module).__name__
    if offered(module):
        check_reads_itself(name, inputs, tokenizer)
        return Subject(name, module, module)
    foreign = AnyModule(module, inputs, tokenizer)
    return Subject(name, foreign.module, foreign)


def check_reads_itself(name: str, inputs: Any, tokenizer: Any) -> None:
    for option, value in (("inputs", inputs), ("tokenizer", tokenizer)):
        if value is not None:
            raise UserError(f"{name} has its own tokenizer and reads texts; pass text=, and leave {option}= out")


def subject_names(subjects: Sequence[Subject]) -> list[str]:
    """Return distinct names for subjects: the last part of the folder, or the full path if that is ambiguous, with a
    number if a subject is repeated."""
    last = [subject.name if subject.folder is None else subject.folder.resolve().name for subject in subjects]
    names = [name if last.count(name) == 1 else subject.name for name, subject in zip(last, subjects, strict=True)]
    return [name if names.count(name) == 1 else f"{number}: {name}" for number, name in enumerate(names, start=1)]
