"""Export a run to another runtime: a folder with programs or weights, the vocabularies, and a model card that says how
to use them.

For example:

  clew export runs/shakespeare-lstm --to onnx
  clew export runs/ewt-tagger --to torch --out taggers/ewt --license cc-by-sa-4.0
  clew export runs/tatoeba-transformer --to onnx --force
  clew export runs/shakespeare-gpt --to hf

FORMAT is onnx: files for onnxruntime and many other runtimes, without torch; torch: programs of torch.export, which run
in torch without clew; or hf: a folder for Hugging Face's transformers, and for sentence-transformers if the run embeds
texts.

hf needs a model that BERT, DistilBERT, GPT-2, Llama or Marian computes exactly (the families bert, gpt, llama and
transformer; RoBERTa and XLM-R if it was imported as such); otherwise the error names the difference.

Programs take batches of any size and length. The program of a generator is one step: tokens and a state go in,
probabilities and the new state come out. A translator has an encoder too. export.json lists all inputs and outputs.
README.md is the model card, with code that runs the export.
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
    add("--to", metavar="FORMAT", required=True, help=f"the format: {', '.join(FORMATS)}")
    add("--out", metavar="DIR", help="the folder to write (default: exports/NAME-FORMAT)")
    add("--force", action="store_true", help="write into a folder that is not empty, replacing files of the same names")
    add("--license", metavar="NAME", help="the model's licence for its card, such as apache-2.0")
    add("--json", action="store_true", help="print the folder and the files as one JSON object")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError, unknown
    from clew.interop import EXPORTS
    from clew.interop.exporting import export_run
    from clew.interop.options import ExportOptions
    from clew.runs.loaded import load_run

    if options.to not in EXPORTS:
        raise unknown("format", options.to, EXPORTS)
    if options.license is not None and not options.license.strip():
        raise UserError("--license is empty; give the model's licence, such as apache-2.0, or leave it out")
    trained = load_run(options.folder, device="cpu", code=None if options.code is None else Path(options.code))
    name = trained.folder.resolve().name
    out = Path(options.out).expanduser() if options.out else Path("exports") / f"{name}-{options.to}"
    try:
        export_options = ExportOptions(options.license, command_of(trained))
        files = export_run(trained, options.to, out, export_options, force=options.force)
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
    say(f"wrote {out}; its README.md shows how to use it")
    return 0


def command_of(trained: Any) -> str | None:
    """Return a command that trains the run again, or None if the recipe or the user's code is not available here."""
    import shlex

    from clew.core.errors import UserError
    from clew.recipes import RECIPES
    from clew.recipes.resolving import DERIVED, config_of
    from clew.runs.folder.run_files import CODE
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
            if path is not None:  # config_of opens it below
                check_path(trained.folder, name, path, "or leave the command out")
        # The other fields of the section depend on these.
        chosen = {
            "model.family": config.model.family,
            "task.name": config.task.name,
        }
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
    """Return a value as it is written in a setting: JSON, or a plain text that is not JSON."""
    try:
        json.loads(value)
    except (TypeError, ValueError):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False)


def without_folders(setting: str) -> str:
    """Reduce an absolute path to its file name, since the folder exists on one machine only."""
    name, _, value = setting.partition("=")
    return f"{name}={Path(value).name}" if Path(value).is_absolute() else setting
