"""Convert a published checkpoint to a run: BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, GPT-2, Llama, Mistral or Marian
in Hugging Face's format, a sentence-transformers folder, a llama2.c file, or AllenNLP's ELMo.

For example:

  clew import all-MiniLM-L6-v2
  clew import ~/models/bert-base-cased --out runs/bert
  clew import bert-base-mnli --pairs
  clew import stories15M.bin
  clew import opus-mt-de-en --json

The imported run can be used like any run: with `clew generate`, `translate`, `classify`, `tag` or `embed`, and for
fine-tuning with transfer.from=RUN or embedding.from=RUN. Nothing is downloaded, and nothing is unpickled: the folder
must have config.json, model.safetensors (or shards with an index) and the tokenizer's files. A tensor that clew has no
place for, or a setting that it does not support, is an error; unknown fields of config.json are listed.
"""

import argparse
import json
from pathlib import Path

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the checkpoint: a folder, or a .bin file of llama2.c")
    parser.add_argument("--out", metavar="DIR", help="the folder of the run (default: runs/ and the checkpoint's name)")
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="the classifier reads pairs of texts, which checkpoints do not state",
    )
    parser.add_argument("--json", action="store_true", help="print a summary as one JSON object")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import command
    from clew.interop.checkpoints import import_checkpoint
    from clew.tasks import TASKS

    out = None if options.out is None else Path(options.out)
    imported = import_checkpoint(Path(options.path).expanduser(), out, pairs=options.pairs)
    model, task = imported.config.model, imported.config.task
    verb = next(iter(TASKS[task.name].uses), "evaluate")
    vocabularies = {role: f"{vocabulary!r}" for role, vocabulary in imported.vocabularies.items()}
    if options.json:
        facts = {
            "folder": str(imported.folder),
            "architecture": imported.architecture,
            "family": model.family,
            "task": task.name,
            "verb": verb,
            "parameters": imported.parameters,
            "vocabularies": vocabularies,
            "notes": imported.notes,
        }
        print(json.dumps(facts, ensure_ascii=False))
        return 0
    print(f"architecture  {imported.architecture}: clew's family {model.family}, {imported.parameters:,} parameters")
    for role, shown in vocabularies.items():
        print(f"{role:12}  {shown}")
    print(f"task          {task.name}: `{command('clew', verb, imported.folder)}`")
    for note in imported.notes:
        say(note)
    say(f"wrote {imported.folder}")
    return 0
