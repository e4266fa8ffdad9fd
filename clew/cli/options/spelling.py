"""The language model beside a transcriber, which `clew transcribe` and `clew evaluate` take: --lm and what goes with
it."""

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
            "CTC: search with n-grams of a text file in the tokens that the run writes, or with a language model of"
            " letters"
        ),
    )
    add(
        "--lm-weight",
        type=float,
        metavar="X",
        help="what log p of the language model counts beside log p of the sound (default: 0.5)",
    )
    add("--lm-bonus", type=float, metavar="X", help="what each token adds to a text's score (default: 0)")
    add("--lm-order", type=int, metavar="N", help="of the n-grams that are counted in a text file (default: 5)")


def take_language_model(options: argparse.Namespace, run: Any) -> None:
    """Gives a transcriber the language model that is asked for."""
    from clew.core.errors import UserError
    from clew.tasks.uses.spelling import Spelling

    given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    if options.lm is None:
        if given:
            raise UserError(
                f"--{next(iter(given)).replace('_', '-')} goes with a language model; name one with --lm TEXT or"
                " --lm RUN"
            )
        return
    if not hasattr(run.task, "spelling"):
        raise UserError(
            f"--lm is for transcription by CTC, and {run.folder} is a run of the task {run.config.task.name}; leave"
            " it out"
        )
    weight, bonus = given.get("lm_weight", 0.5), given.get("lm_bonus", 0.0)
    if weight < 0:
        raise UserError(f"--lm-weight ({weight:g}) must be at least 0")
    asked = Spelling(language_model(options.lm, given.get("lm_order"), run, options.device), weight, bonus)
    run.task.spelling = asked if run.task.config.beams == 1 else asked._replace(beams=run.task.config.beams)


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
        raise UserError(f"--lm-order is of n-grams that are counted in a text file, and {name} is a run; leave it out")
    theirs = load_run(path, device=device)
    if (why := lacking(theirs.task, "streams")) is not None:
        raise UserError(
            f"--lm {name}: a language model is needed, and this run's model {why}; name another, or a text file"
        )
    return SteppedModel(theirs.task, run.task.target)
