"""What `clew evaluate` does for tasks that learn from text or documents."""

import argparse
import json
from functools import partial
from typing import Any

from clew.cli.precision import beside_whole, show_beside
from clew.cli.progress import say


def evaluate_texts(run: Any, files: list[str], options: argparse.Namespace) -> int:
    """The run's own validation and test parts with the baselines', or a file."""
    from clew.cli.evaluate import own_baselines, scored
    from clew.cli.lines import read_stdin
    from clew.core.errors import UserError
    from clew.data.notes import Notes
    from clew.data.text_files import TextString
    from clew.runs.trust import check_paths
    from clew.tasks import TASKS

    config, learning = run.config, TASKS[run.config.task.name].learns
    if options.streams is not None:
        if options.streams < 1:
            raise UserError(f"--streams ({options.streams}) must be at least 1")
        config = config.model_copy(update={"training": config.training.model_copy(update={"evaluate_batch": options.streams})})
    notes, baselines = Notes(faults=config.data.faults), None
    if files:
        part = learning.read_files([TextString(read_stdin()) if file == "-" else file for file in files], config.data, notes)
        if learning.is_running and tells_tokens(run):
            score_tokens(run, files[0], "".join(part), options)
            return 0
        parts = {" ".join(files): part}
    else:
        check_paths(run.folder, config.data)
        parts, baselines = learning.read(config.data, config.seed, notes), own_baselines(run)
        del parts["train"]
    for name, part in parts.items():
        score = scored(run, config, name, part, baselines)
        beside = beside_whole(options, score, partial(scored, config=config, name=name, part=part))
        show(name, score, beside, options.json)
    for note in notes.report():
        say(note)
    return 0


def tells_tokens(run: Any) -> bool:
    """Whether every token of a text has a probability of its own: one reads from left to right, and documents are one text."""
    return callable(getattr(run.task, "stepper", None)) and run.config.training.documents == "joined"


def score_tokens(run: Any, file: str, text: str, options: argparse.Namespace) -> None:
    """A text in one stream, token by token."""

    from clew.tasks.streams import score_of

    scored = run.score(text)
    if options.json:
        rows = zip(scored.tokens[1:], scored.offsets[1:], scored.log_probs, strict=True)
        for token, (start, stop), log_prob in rows:
            fields = {"token": scored.text[start:stop], "id": token, "start": start, "stop": stop, "log_prob": log_prob}
            print(json.dumps(fields, ensure_ascii=False))
    unknown = run.tokenizer.unknown
    count = sum(token == unknown for token in scored.tokens) if unknown is not None else 0
    if count:
        say(f"{count} of {len(scored.tokens)} tokens are unknown to the model")
    score = score_of(scored.likelihood, run.tokenizer.unit)
    beside = beside_whole(options, score, lambda whole: score_of(whole.score(text).likelihood, run.tokenizer.unit))
    show(file, score, beside, options.json)


def show(name: str, score: Any, beside: dict[str, Any], as_json: bool) -> None:
    from clew.core.errors import counted

    if as_json:
        print(json.dumps({"text": name, **score.size, **score.measures, **beside}))
    else:
        tokens = f" ({counted(score.size['tokens'], 'token')})" if "tokens" in score.size else ""
        print(f"{name}: {score.text}{tokens}")
        show_beside(score, beside)
