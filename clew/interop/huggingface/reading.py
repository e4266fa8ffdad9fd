"""Read a Hugging Face folder as a run: its config in clew's sections, and its weights under clew's names."""

import re
from pathlib import Path
from typing import Any

from clew.core.errors import UserError, few_of, shortened, shown
from clew.interop.huggingface import ARCHITECTURES
from clew.interop.huggingface.architecture import BIAS, Architecture
from clew.interop.huggingface.folders import CONFIG, Checkpoint
from clew.interop.huggingface.forms import FORMS
from clew.interop.huggingface.sentence_folders import MODULES, inner_folder, sentence_task
from clew.interop.imported import Imported
from clew.interop.weight_maps import check_all_used, read_tensors_into

MOST = 1024
"""The maximum length of the rows in which a text is scored, if the model has that many positions."""


def is_huggingface(path: Path) -> bool:
    return path.is_dir() and ((path / CONFIG).is_file() or (path / MODULES).is_file())


def read_huggingface(path: Path) -> Imported:
    """Read a checkpoint except for its weights, which are read once the run's model is built."""
    folder = inner_folder(path)
    checkpoint = Checkpoint(folder)
    if checkpoint.config.values.get("quantization_config"):
        raise UserError(
            f"{checkpoint.config.path}: the weights are quantised (quantization_config), which clew cannot read; use a"
            " checkpoint in floats"
        )
    name, architecture = architecture_of(checkpoint)
    add_body_prefix(checkpoint, architecture)
    understood = architecture.understand(checkpoint, name)
    notes = []
    if (path / MODULES).is_file():
        understood = sentence_task(path, understood)
    if unread := checkpoint.config.unread():
        notes.append(f"fields of {checkpoint.config.path.name} that clew does not know: {', '.join(unread)}")
    form = FORMS[understood.task["name"]]
    vocabularies = form.vocabularies(path, folder, checkpoint, understood)
    kind = next(iter(vocabularies.values())).kind
    settings = {
        "text": {"tokenizer": kind, "joint": "source" in vocabularies},
        "training": {"length": min(understood.model["max_length"], MOST)},
        **form.sections(checkpoint, vocabularies),
        **understood.sections,
        "model": understood.model,
        "task": understood.task,
    }

    def fill(config: Any, tensors: dict[str, Any]) -> list[str]:
        entries = architecture.all_entries(config.model, config.task)
        leftover = check_all_used(
            checkpoint.files, entries, (*architecture.leftovers, *architecture.spare), str(folder)
        )
        read_tensors_into(entries, tensors, checkpoint.shapes, checkpoint.read, str(folder))
        check_copies(checkpoint, architecture, set(leftover))
        filled = {ours for entry in entries for ours in entry.ours}
        for ours in set(tensors) - filled:
            assert any(re.fullmatch(pattern, ours) for pattern in architecture.added), ours
            if ours == BIAS:
                tensors[ours].zero_()
        unused = [each for each in leftover if any(re.fullmatch(pattern, each) for pattern in architecture.spare)]
        return [f"tensors that {name} does not use: {', '.join(unused)}"] if unused else []

    return Imported(name, settings, vocabularies, fill, notes, pairs=form.pairs, num_values=checkpoint.num_values)


def architecture_of(checkpoint: Checkpoint) -> tuple[str, Architecture]:
    """Return the class that the config names, and its architecture."""
    names = checkpoint.config.get("architectures", list, None)
    if names is None:
        kind = checkpoint.config.get("model_type", str)
        names = [
            name
            for architecture in ARCHITECTURES
            for name in architecture.names
            if f"{kind.replace('-', '').replace('_', '')}model" == name.lower()
        ]
    name = names[0] if names and isinstance(names[0], str) else None
    for architecture in ARCHITECTURES:
        if name in architecture.names:
            return str(name), architecture
    known_names = few_of(sorted(name for architecture in ARCHITECTURES for name in architecture.names), 200)
    theirs = shortened(shown(names[0] if names else None), 70)
    raise UserError(f"{checkpoint.config.path}: clew does not know the architecture {theirs}; it knows {known_names}")


def add_body_prefix(checkpoint: Checkpoint, architecture: Architecture) -> None:
    """Add the body's prefix to the tensor names if it is missing, as in files with only a body and in some early files
    with an output layer."""
    prefix = architecture.prefix
    if not any(name.startswith(prefix) for name in checkpoint.files):
        checkpoint.rename(
            {name: prefix + name for name in checkpoint.files if not re.match(architecture.outputs, name)}
        )


def check_copies(checkpoint: Checkpoint, architecture: Architecture, unused: set[str]) -> None:
    for copy, original in architecture.copies.items():
        if copy not in unused or original not in checkpoint:
            continue
        alike = checkpoint.shapes[copy] == checkpoint.shapes[original]
        if not alike or not checkpoint.read(copy).equal(checkpoint.read(original)):
            raise UserError(
                f"{checkpoint.folder}: {copy} and {original} differ, though config.json says that they are tied"
                " (tie_word_embeddings); set that field to false, or save the checkpoint again"
            )
