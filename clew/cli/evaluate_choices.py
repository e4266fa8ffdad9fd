"""What `clew evaluate` does for a language model that chooses its answers: texts with labels, none of them trained on."""

import argparse
from typing import Any

from clew.cli.progress import say


def evaluate_choices(run: Any, files: list[str], settings: list[str], choices: Any, options: argparse.Namespace) -> int:
    from clew.cli.evaluate_examples import changed_config, check_out, show, write_asked
    from clew.core.errors import UserError
    from clew.data.notes import Notes
    from clew.runs.examples import read_files
    from clew.runs.loaded import check_verb
    from clew.tasks.choices import Chooser
    from clew.training.examples import score_of

    check_verb(run, "generate", "take --choices, a language model does")
    if not files:
        raise UserError("--choices needs a FILE of texts with labels, e.g. `clew evaluate RUN reviews.csv --choices good,bad`")
    check_out(options)
    config = changed_config(run.config, settings, {}, files)
    second = config.data.second or ("second" if choices.reads_pairs else None)
    data = config.data.model_copy(update={"second": second})
    notes = Notes(faults=data.faults)
    chooser = Chooser(run.task, choices)
    found = []
    for file in files:
        examples = read_files("labelled", data, [file], notes)
        if not examples:
            raise UserError(f"{file}: there is no text with a label in it")
        score = score_of(chooser, examples, *chooser.predict(examples), is_final=True)
        found.append((file, score))
        show(file, examples, score, options)
    for note in notes.report():
        say(note)
    write_asked(found, options.out)
    return 0
