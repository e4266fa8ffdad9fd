"""How `clew evaluate` scores a language model as a zero-shot classifier: on labelled texts, by the most probable
choice."""

import argparse
from functools import partial
from typing import Any

from clew.cli.options.precision import compare_with_full
from clew.cli.terminal.progress import say


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the options for a language model that picks the most probable of several choices."""
    add = parser.add_argument
    add(
        "--choices",
        metavar="A,B,...",
        help="classify with a language model by the likeliest of these continuations; LABEL=WORDS gives a label",
    )
    add(
        "--template",
        metavar="TEXT",
        help="how to combine text and choice (default: '{text} {choice}'); {second} is a second text",
    )
    add(
        "--normalise",
        choices=["none", "tokens", "characters"],
        help="divide the log-probability of a choice by its length (default: none)",
    )
    add(
        "--calibrate",
        action="store_true",
        help="subtract the log-probability of the choice in the template without the text",
    )


def read_choices(options: argparse.Namespace) -> Any:
    """Return the `Choices` of the options, or None without --choices."""
    from clew.core.errors import UserError
    from clew.tasks.uses.choices import choices_of, parse_choices

    choice_options = {
        name: value for name in ("template", "normalise", "calibrate") if (value := getattr(options, name))
    }
    if options.choices is None:
        if choice_options:
            raise UserError(f"--{next(iter(choice_options))} needs --choices; add --choices A,B,... or leave it out")
        return None
    return choices_of(parse_choices(options.choices), **choice_options)


def evaluate_choices(run: Any, files: list[str], settings: list[str], choices: Any, options: argparse.Namespace) -> int:
    from clew.cli.evaluation.evaluate_examples import check_out, show, write_out
    from clew.core.errors import UserError
    from clew.data.notes import Notes
    from clew.runs.evaluation import check_chooses, labelled_data, labelled_examples, score_choices

    check_chooses(run)
    if not files:
        raise UserError(
            "--choices needs a FILE of texts with labels, e.g. `clew evaluate RUN reviews.csv --choices good,bad`"
        )
    check_out(options)
    data = labelled_data(run.config.data, settings, choices)
    notes = Notes(faults=data.faults)
    scores = []
    for file in files:
        examples = labelled_examples(file, data, notes)
        score_by = partial(score_choices, examples=examples, choices=choices)
        score = score_by(run)
        scores.append((file, score))
        show(file, examples, score, options, compare_with_full(options, score, score_by))
    for note in notes.report():
        say(note)
    write_out(scores, options.out)
    return 0
