"""What `clew evaluate` does for masked language models."""

import argparse
import json
from typing import Any


def evaluate_documents(run: Any, files: list[str], options: argparse.Namespace) -> None:
    """The run's own validation and test documents with the baselines', or those of a file."""
    from contextlib import nullcontext

    from clew.cli.progress import Lines, say
    from clew.core.errors import UserError
    from clew.core.files import cache_folder
    from clew.data.notes import Notes
    from clew.runs.documents import encode_parts, find_documents
    from clew.tasks.masked_examples import MaskedExamples
    from clew.training.baselines import Baselines
    from clew.training.masked import answers, evaluate_masked, score_of, token_counts

    if options.streams is not None:
        raise UserError("--streams is for a language model's own text; documents are read in rows")
    config, progress, notes = run.config, Lines().encoding, Notes(faults=run.config.data.faults)

    def encoded(parts: dict[str, Any]) -> dict[str, Any]:
        return encode_parts(parts, run.tokenizer, cache_folder(), progress)

    if files:
        parts, baselines = {files[0]: given_documents(files[0], config.data, notes)}, None
    else:
        parts = find_documents(config.data, notes)
        train = {"train": parts.pop("train")}
        baselines = Baselines("documents", lambda: token_counts(encoded(train)["train"], run.tokenizer))
    for part, documents in encoded(parts).items():
        examples = MaskedExamples(documents, run.task, config.training.length, to_train=False)
        guessed = evaluate_masked(run.task, examples, config, nullcontext)
        assert guessed is not None
        score = score_of(guessed, run.tokenizer.unit)
        score = (baselines.beside(score, answers(examples)) if baselines is not None else None) or score
        print(json.dumps({"text": part, "unit": run.tokenizer.unit, **score.measures}) if options.json else f"{part}: {score.text}")
    for note in notes.report():
        say(note)


def given_documents(file: str, data: Any, notes: Any) -> Any:
    from clew.cli.lines import read_stdin
    from clew.data.documents import Documents, plain_lines
    from clew.runs.documents import documents_named

    if file != "-":
        return documents_named(data.model_copy(update={"format": None}), file, notes)
    lines = read_stdin().split("\n")
    return Documents("standard input", lambda: plain_lines(lines))
