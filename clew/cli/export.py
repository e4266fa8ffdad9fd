"""Write a run for another runtime: a folder with programs or weights, the vocabularies, and a card that says how to use
them.

For example:

  clew export runs/shakespeare-lstm --to onnx
  clew export runs/ewt-tagger --to torch --out taggers/ewt --license cc-by-sa-4.0
  clew export runs/tatoeba-transformer --to onnx --force
  clew export runs/shakespeare-gpt --to hf

onnx     files that onnxruntime and many others run without torch
torch    programs of torch.export, which torch runs without clew
hf       a folder that Hugging Face's transformers loads, and sentence-transformers where a run gives vectors

For hf a run's body is one that BERT, DistilBERT, GPT-2, Llama or Marian computes exactly (the families bert, gpt, llama
and transformer; RoBERTa and XLM-R where it was imported as such); what differs is named.

Programs take batches of any size and length. A generator is its step: tokens and a state go in, probabilities and the
state come out; a translator is an encoder besides. export.json names all that goes in and out. README.md, the card, has
the lines that run what was written.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

FORMATS = ("hf", "onnx", "torch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("--to", metavar="FORMAT", required=True, help=f"what is written: {', '.join(FORMATS)}")
    add("--out", metavar="DIR", help="where it goes (default: exports/NAME-FORMAT)")
    add("--force", action="store_true", help="write into a folder that has files, over those of the same names")
    add("--license", metavar="NAME", help="the model's licence, for its card, such as apache-2.0")
    add("--json", action="store_true", help="one JSON object: the folder and the files")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError, unknown
    from clew.interop import EXPORTS
    from clew.interop.exporting import export_run
    from clew.interop.options import ExportOptions
    from clew.runs.loaded import load_run

    if options.to not in EXPORTS:
        raise unknown("format", options.to, EXPORTS)
    if options.license is not None and not options.license.strip():
        raise UserError("--license is empty; name the model's licence, such as apache-2.0, or leave it out")
    trained = load_run(options.folder, device="cpu", code=None if options.code is None else Path(options.code))
    name = trained.folder.resolve().name
    out = Path(options.out).expanduser() if options.out else Path("exports") / f"{name}-{options.to}"
    try:
        files = export_run(
            trained, options.to, out, ExportOptions(options.license, command_of(trained)), force=options.force
        )
    except KeyboardInterrupt as stop:
        stop.args = (f"{out} was not written",)
        raise
    if options.json:
        print(
            json.dumps(
                {"folder": str(out), "files": [str(path.relative_to(out)) for path in files]}, ensure_ascii=False
            )
        )
    else:
        for path in files:
            print(f"{path}  {path.stat().st_size:,} bytes")
    say(f"written to {out}; its README.md shows how to use it")
    return 0


def command_of(trained: Any) -> str | None:
    """A command that trains the run again; None where there is none: of a recipe, or with code, that is not known
    here."""
    import shlex

    from clew.core.errors import UserError
    from clew.recipes import RECIPES
    from clew.recipes.resolving import DERIVED, config_of
    from clew.runs.directory import CODE
    from clew.runs.settings.fields import changed_fields
    from clew.runs.trust import check_path

    config: Any = trained.config
    if config.recipe not in RECIPES:
        return None
    try:
        for name, path in {
            "transfer.from": config.transfer.source,
            "embedding.from": config.embedding.source,
            "embedding.vectors": config.embedding.vectors,
        }.items():
            if path is not None:  # it is looked at below
                check_path(trained.folder, name, path, "or leave the command out")
        chosen = {
            "model.family": config.model.family,
            "task.name": config.task.name,
        }  # a section's other fields hang on these
        before = config_of(config.recipe).model_dump(mode="json")
        first = [
            f"{name}={value}"
            for name, value in chosen.items()
            if before[name.split(".")[0]][name.split(".")[1]] != value
        ]
        changed = changed_fields(config_of(config.recipe, first), config)
        settings = [*first, *(f"{name}={written(new)}" for name, (_, new) in changed.items())]
        if changed_fields(config_of(config.recipe, settings), config):
            return None
    except UserError:
        return None
    shown = [without_folders(setting) for setting in settings if setting.partition("=")[0] not in DERIVED]
    return shlex.join(
        ["clew", "train", config.recipe, *shown, *(["--code", CODE] if (trained.folder / CODE).exists() else [])]
    )


def written(value: Any) -> str:
    """A value as a setting has it: JSON, or a text that is none."""
    try:
        json.loads(value)
    except (TypeError, ValueError):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def without_folders(setting: str) -> str:
    """A file by its name alone: where it stands is a matter of one machine."""
    name, _, value = setting.partition("=")
    return f"{name}={Path(value).name}" if Path(value).is_absolute() else setting
