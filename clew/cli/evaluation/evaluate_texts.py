"""How `clew evaluate` scores tasks that learn from text or documents."""

import argparse
import json
from functools import partial
from typing import Any

from clew.cli.options.precision import compare_with_full, show_comparison
from clew.cli.terminal.progress import Lines, report, say


def evaluate_texts(run: Any, files: list[str], options: argparse.Namespace) -> int:
    """Score the run's validation and test parts, with baselines, or files."""
    from clew.cli.options.lines import read_stdin
    from clew.data.files.text_files import TextString
    from clew.runs.evaluation import EvaluationRequest, own_baselines, read_parts, score_part
    from clew.tasks import TASKS

    notes: list[str] = []
    texts = [TextString(read_stdin()) if file == "-" else file for file in files]
    config, parts = read_parts(run, EvaluationRequest(texts, streams=options.streams), notes.append)
    if files and TASKS[config.task.name].learns.is_running and scores_tokens(run):
        score_tokens(run, files[0], "".join(*parts.values()), options)
        return 0
    baselines = None if files else own_baselines(run, Lines().encoding)
    for name, part in parts.items():
        score_by: Any = partial(score_part, config=config, name=name, part=part, say=say)
        with report() as shown:
            score = score_by(run, baselines=baselines, progress=shown.encoding, evaluating=shown.evaluating)
        show(" ".join(files) or name, score, compare_with_full(options, score, score_by), options.json)
    for note in notes:
        say(note)
    return 0


def scores_tokens(run: Any) -> bool:
    """Whether every token of a text has its own probability: the model reads left to right and joins documents."""
    return callable(getattr(run.task, "stepper", None)) and run.config.training.documents == "joined"


def score_tokens(run: Any, file: str, text: str, options: argparse.Namespace) -> None:
    """Score a text as one stream, token by token."""
    from clew.tasks.learnings.streams import score_likelihood

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
    score = score_likelihood(scored.likelihood, run.tokenizer.unit)
    comparison = compare_with_full(
        options, score, lambda whole: score_likelihood(whole.score(text).likelihood, run.tokenizer.unit)
    )
    show(file, score, comparison, options.json)


def show(name: str, score: Any, comparison: dict[str, Any], as_json: bool) -> None:
    from clew.core.errors import counted

    if as_json:
        print(json.dumps({"text": name, **score.size, **score.measures, **comparison}))
    else:
        tokens = f" ({counted(score.size['tokens'], 'token')})" if "tokens" in score.size else ""
        print(f"{name}: {score.text}{tokens}")
        show_comparison(score, comparison)
