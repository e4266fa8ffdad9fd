"""Make a run of a published checkpoint: BERT, RoBERTa, XLM-R, CamemBERT, DistilBERT, GPT-2, Llama, Mistral or Marian in
a folder of Hugging Face's, a folder of sentence-transformers, a llama2.c file, or AllenNLP's ELMo.

For example:

  clew import all-MiniLM-L6-v2
  clew import ~/models/bert-base-cased --out runs/bert
  clew import bert-base-mnli --pairs
  clew import stories15M.bin
  clew import opus-mt-de-en --json

What is written is used as any run is: `clew generate`, `translate`, `classify`, `tag`, `embed`, and other runs stand on
it by transfer.from=RUN or embedding.from=RUN. Nothing is fetched and nothing is unpickled: a folder has config.json,
model.safetensors (or shards with an index) and its tokenizer's files. A tensor that clew has no place for, or a setting
that it does not compute, is named and refused; a field of config.json that it does not know is named.
"""

import argparse
import json
from pathlib import Path

from clew.cli.terminal.progress import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the checkpoint: a folder, or a .bin file of llama2.c's")
    parser.add_argument("--out", metavar="DIR", help="where the run goes (default: runs/ and the checkpoint's name)")
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="its classifier judges two texts together, which no checkpoint says of itself",
    )
    parser.add_argument("--json", action="store_true", help="what was understood as one JSON object")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import command
    from clew.interop.checkpoints import import_checkpoint
    from clew.tasks import TASKS

    done = import_checkpoint(
        Path(options.path).expanduser(), None if options.out is None else Path(options.out), pairs=options.pairs
    )
    model, task = done.config.model, done.config.task
    verb = next(iter(TASKS[task.name].uses), "evaluate")
    vocabularies = {role: f"{vocabulary!r}" for role, vocabulary in done.vocabularies.items()}
    if options.json:
        facts = {
            "folder": str(done.folder),
            "architecture": done.architecture,
            "family": model.family,
            "task": task.name,
            "verb": verb,
            "parameters": done.parameters,
            "vocabularies": vocabularies,
            "notes": done.notes,
        }
        print(json.dumps(facts, ensure_ascii=False))
        return 0
    print(f"architecture  {done.architecture}: clew's family {model.family}, {done.parameters:,} parameters")
    for role, shown in vocabularies.items():
        print(f"{role:12}  {shown}")
    print(f"task          {task.name}: `{command('clew', verb, done.folder)}`")
    for note in done.notes:
        say(note)
    say(f"written to {done.folder}")
    return 0
