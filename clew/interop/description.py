"""The other files of an export: export.json with their inputs and outputs, the vocabularies, and the model card."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clew.core.files import write_json, write_text
from clew.interop.model_card import model_card, vocabularies_of
from clew.interop.options import ExportOptions
from clew.interop.signatures import Port, Program
from clew.interop.usage import usage_of
from clew.runs.embedding import CONTEXT
from clew.runs.folder.run_files import VOCABULARY
from clew.runs.folder.vocabularies import save_vocabularies
from clew.runs.loaded import Run
from clew.text.labels import Labels

FORMAT = 1
DESCRIPTION, CARD = "export.json", "README.md"
SUFFIXES = {"torch": "pt2", "onnx": "onnx"}
LIBRARIES = {"torch": "pytorch", "onnx": "onnx"}


def write_description(run: Run, folder: Path, programs: Sequence[Program], to: str, options: ExportOptions) -> None:
    suffix, vocabularies = SUFFIXES[to], vocabularies_of(run)
    if CONTEXT in run.vocabularies:  # only the tokenizer of the run whose vectors this one reads
        vocabularies[CONTEXT] = run.vocabularies[CONTEXT].tokenizer
    content: dict[str, Any] = {
        "format": FORMAT,
        "task": run.config.task.name,
        "model": run.config.model.family,
        "torch": torch.__version__,
        "programs": {program.name: describe_program(program, suffix) for program in programs},
        "vocabulary": {role: f"{VOCABULARY}/{role}.json" for role in vocabularies},
        **facts_of(run, programs),
    }
    save_vocabularies(folder, vocabularies)
    write_json(folder / DESCRIPTION, content)
    usage = usage_of(run, programs[0], to)
    write_text(folder / CARD, model_card(run, library=LIBRARIES[to], usage=usage, options=options))


def describe_program(program: Program, suffix: str) -> dict[str, Any]:
    inputs, outputs = program.ports
    return {"file": f"{program.name}.{suffix}", "inputs": [*map(as_json, inputs)], "outputs": [*map(as_json, outputs)]}


def as_json(port: Port) -> dict[str, Any]:
    return {"name": port.name, "dtype": port.dtype, "shape": list(port.shape)}


def facts_of(run: Run, programs: Sequence[Program]) -> dict[str, Any]:
    """Return the facts needed to run the programs without clew: ids, limits, labels."""
    facts: dict[str, Any] = {"max_length": getattr(getattr(run.task, "body", None), "max_length", None)}
    if not {"letters", f"{CONTEXT}_letters"}.isdisjoint(name for program in programs for name in program.inputs):
        facts["letters"] = "a word is 257, the bytes of its UTF-8 plus 1, 48 at most, and 258; 0 is padding"
    facts |= {role: list(labels.names) for role, labels in run.vocabularies.items() if isinstance(labels, Labels)}
    for program in programs:
        facts |= program.facts
    return {name: value for name, value in facts.items() if value is not None}
