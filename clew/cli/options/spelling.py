"""The language model for transcription by CTC, in `clew transcribe` and `clew evaluate`: --lm and its options."""

import argparse
from pathlib import Path
from typing import Any

OPTIONS = ("lm_weight", "lm_bonus", "lm_order")


def add_language_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--lm",
        metavar="TEXT|RUN",
        help=(
            "for CTC: search with n-grams counted in a text file, in the run's own tokens, or with a language model of"
            " characters"
        ),
    )
    add(
        "--lm-weight",
        type=float,
        metavar="X",
        help="weight of the language model's log p relative to the sound's (default: 0.5)",
    )
    add("--lm-bonus", type=float, metavar="X", help="bonus per token in the score of a text (default: 0)")
    add("--lm-order", type=int, metavar="N", help="order of the n-grams counted in a text file (default: 5)")


def set_language_model(options: argparse.Namespace, run: Any) -> None:
    """Set the language model of a transcriber from the options."""
    from clew.core.errors import UserError
    from clew.tasks.uses.spelling import Spelling

    settings = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    if options.lm is None:
        if settings:
            raise UserError(
                f"--{next(iter(settings)).replace('_', '-')} needs a language model; name one with --lm TEXT or"
                " --lm RUN"
            )
        return
    if not hasattr(run.task, "spelling"):
        raise UserError(
            f"--lm is for transcription by CTC, but {run.folder} is a run of the task {run.config.task.name}; leave"
            " it out"
        )
    weight, bonus = settings.get("lm_weight", 0.5), settings.get("lm_bonus", 0.0)
    if weight < 0:
        raise UserError(f"--lm-weight ({weight:g}) must be at least 0")
    spelling = Spelling(language_model(options.lm, settings.get("lm_order"), run, options.device), weight, bonus)
    run.task.spelling = spelling if run.task.config.beams == 1 else spelling._replace(beams=run.task.config.beams)


def language_model(name: str, order: int | None, run: Any, device: str) -> Any:
    from clew.core.errors import UserError
    from clew.data.lines import read_lines
    from clew.runs.loaded import load_run
    from clew.tasks.offers import lacking
    from clew.tasks.uses.spelling import SteppedModel, letter_ngrams

    path = Path(name).expanduser()
    if not path.is_dir():
        if order is not None and order < 1:
            raise UserError(f"--lm-order ({order}) must be at least 1")
        return letter_ngrams(read_lines(path), run.task.target, order or 5)
    if order is not None:
        raise UserError(f"--lm-order is for n-grams counted in a text file, but {name} is a run; leave it out")
    lm_run = load_run(path, device=device)
    if (why := lacking(lm_run.task, "streams")) is not None:
        raise UserError(f"--lm {name} is not a language model: its model {why}; name another run, or a text file")
    return SteppedModel(lm_run.task, run.task.target)
