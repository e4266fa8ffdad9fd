"""How `clew evaluate` scores tasks that learn from examples."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from clew.cli.options.precision import compare_with_full, show_comparison
from clew.cli.terminal.progress import Lines, report, say

MOST_LABELS = 10
"""Most labels for which the confusion matrix is shown without --confusion."""


def evaluate_examples(
    run: Any, files: list[str], settings: list[str], changed: dict[str, Any], options: argparse.Namespace
) -> int:
    from clew.runs.evaluation import EvaluationRequest, own_baselines, read_parts, score_part

    check_out(options)
    request = EvaluationRequest(files, settings, changed, options.streams, options.into, options.pivot)
    config, parts = read_parts(run, request, say)
    baselines = own_baselines(run, Lines().encoding)
    scores = []
    for part, examples in parts.items():
        score_by: Any = partial(score_part, config=config, name=part, part=examples, pivot=request.pivot, say=say)
        with report() as shown:
            score = score_by(run, baselines=baselines, progress=shown.encoding, evaluating=shown.evaluating)
        scores.append((part, score))
        show(part, examples, score, options, compare_with_full(options, score, score_by))
    write_out(scores, options.out)
    return 0


def check_out(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    if options.out is not None and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder for --out: {Path(options.out).parent}; create it first")
    if options.errors < 0:
        raise UserError(f"--errors ({options.errors}) must be at least 0")


def show(part: str, examples: Any, score: Any, options: argparse.Namespace, comparison: dict[str, Any]) -> None:
    """Print the score of a part, the comparison with float32 if any, the report, and the worst predictions."""
    from clew.core.errors import counted

    errors = worst(examples, score, options.errors)
    if options.json:
        fields = {
            "part": part,
            "examples": len(examples),
            **score.measures,
            "intervals": score.intervals,
            "text": score.text,
        }
        print(
            json.dumps({**fields, **comparison, **({"errors": errors} if options.errors else {})}, ensure_ascii=False),
            flush=True,
        )
    else:
        print(f"{part}: {score.text} ({counted(len(examples), 'example')})", flush=True)
        show_comparison(score, comparison)
        show_report(score.report, options.confusion)
        show_errors(errors, options.errors)


def write_out(scores: list[tuple[str, Any]], out: str | None) -> None:
    """Write every prediction, if --out names a file."""
    if out is not None:
        write(Path(out), scores)
        say(f"wrote the predictions to {out}")


def show_report(report: tuple[str, ...], confusion: bool) -> None:
    """Print the scores per label, and the confusion matrix if it is small or `confusion` is True."""
    for number, table in enumerate(report):
        if number == 0 or confusion or table.count("\n") <= MOST_LABELS:
            print(f"\n{table}", flush=True)


def worst(examples: Any, score: Any, most: int) -> list[dict[str, Any]]:
    """Return the wrong predictions, worst first; taggers' with the wrong words marked."""
    from clew.runs.folder.predictions import marked_words, worst_first

    words = {example.id: example.words for example in examples if hasattr(example, "words")}
    records = [
        {"id": example.id, "score": score.examples[example.id], **score.predictions[example.id]} for example in examples
    ]
    errors = worst_first(records)[:most]
    return [
        {**each, "marked": marked_words(words[each["id"]], each["wrong"])} if "wrong" in each else each
        for each in errors
    ]


def show_errors(errors: list[dict[str, Any]], most: int) -> None:
    from clew.runs.folder.predictions import PROBABILITY, worst_by

    if not most:
        return
    if not errors:
        print("\nno prediction is wrong", flush=True)
        return
    if "marked" in errors[0]:
        print("\nid\twrong words\ttext")
        rows = [[each["id"], str(len(each["wrong"])), each["marked"]] for each in errors]
    else:
        measure = worst_by(errors)
        print(f"\nid\tgold\tpredicted\t{'probability of gold' if measure == PROBABILITY else measure}\ttext")
        rows = [error_row(each, measure) for each in errors]
    for row in rows:
        print("\t".join(" ".join(cell.split()) for cell in row))


def error_row(fields: dict[str, Any], measure: str) -> list[str]:
    from clew.runs.folder.predictions import NO_LABEL, badness

    number = badness(fields, measure)
    texts = [fields[side] for side in ("source", "second") if side in fields]
    return [fields["id"], fields["target"] or NO_LABEL, fields["prediction"] or NO_LABEL, f"{number:.4g}", *texts]


def write(path: Path, scores: list[tuple[str, Any]]) -> None:
    from clew.core.files import write_text
    from clew.runs.folder.predictions import prediction_line

    lines = [
        prediction_line(
            name,
            score.examples[name],
            {**({"part": part} if len(scores) > 1 else {}), **fields},
            score.statistics.get(name),
        )
        for part, score in scores
        for name, fields in score.predictions.items()
    ]
    write_text(path, "".join(lines))
