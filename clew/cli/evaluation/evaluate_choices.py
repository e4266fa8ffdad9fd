"""What `clew evaluate` does for a language model that chooses its answers: texts with labels, none of them trained
on."""

import argparse
from functools import partial
from typing import Any

from clew.cli.options.precision import beside_whole
from clew.cli.terminal.progress import say


def add_choices(parser: argparse.ArgumentParser) -> None:
    """How a language model is asked which of several choices follows."""
    add = parser.add_argument
    add(
        "--choices",
        metavar="A,B,...",
        help="of a language model: the likeliest of these follows the text; LABEL=WORDS has a label of its own",
    )
    add(
        "--template",
        metavar="TEXT",
        help="how text and choice stand together (default: '{text} {choice}'); {second} is a second text",
    )
    add(
        "--normalise",
        choices=["none", "tokens", "characters"],
        help="divide a choice's log-probability by its length (default: none)",
    )
    add("--calibrate", action="store_true", help="less the choice's log-probability in the template without the text")


def asked_choices(options: argparse.Namespace) -> Any:
    """The `Choices` that the options tell; None where there are none."""
    from clew.core.errors import UserError
    from clew.tasks.uses.choices import choices_of, parse_choices

    given = {name: value for name in ("template", "normalise", "calibrate") if (value := getattr(options, name))}
    if options.choices is None:
        if given:
            raise UserError(f"--{next(iter(given))} is for --choices, which a language model chooses from; give these")
        return None
    return choices_of(parse_choices(options.choices), **given)


def evaluate_choices(run: Any, files: list[str], settings: list[str], choices: Any, options: argparse.Namespace) -> int:
    from clew.cli.evaluation.evaluate_examples import check_out, show, write_asked
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
        show(file, examples, score, options, beside_whole(options, score, score_by))
    for note in notes.report():
        say(note)
    write_asked(scores, options.out)
    return 0
