"""Answer questions with a piece of a passage that holds the answer, or say that it has none.

Questions stand on the command line, or are lines of standard input; --passage is a file or the text itself. Each has a line
of standard output: `answer<TAB>probability<TAB>question`, the answer being empty where the passage has none. A file of
questions is SQuAD's JSON, or a table (.csv, .tsv, .jsonl) with columns `question` and `passage` (or `context`), or with others
that --question and --passage name.

  clew answer runs/answer-facts --passage 'Ada lives in Rome. Bo likes tea.' 'Where does Ada live?'
  clew answer runs/answer --passage report.txt 'When was it built?' 'By whom?' --n-best 3
  clew answer runs/answer --file dev-v2.0.json --json
  clew answer runs/answer --file asked.csv --question what --passage text
  clew answer runs/answer --file dev-v1.1.json --official --out predictions.json

--json has one object a question, with the characters [start, stop) of the passage that are the answer, from 0. --n-best
gives so many pieces, best first, a line each. --official writes {id: answer}, which SQuAD's own script scores.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

AT_ONCE = 256
"""Questions of a file that are answered together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("questions", metavar="QUESTION", nargs="*", default=[], help="what is asked about --passage (default: lines of standard input)")
    add("--passage", metavar="FILE|TEXT|COLUMN", help="what holds the answers: a file, or the text itself; its column in a table")
    add("--file", metavar="FILE", help="questions with their passages: SQuAD's JSON, JSON lines, CSV or TSV")
    add("--question", metavar="COLUMN", help="FILE is a table, and this column, by name or number, has the questions")
    add("--n-best", type=int, default=1, metavar="N", help="so many pieces of the passage for each question (default: 1)")
    add("--threshold", type=float, metavar="T", help="no answer where none scores by more than T above the best piece (default: the run's)")
    add("--json", action="store_true", help="one JSON object a question")
    add("--official", action="store_true", help="one JSON object for all questions: {id: answer}")
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.runs.loaded import check_verb, load_run

    if options.n_best < 1:
        raise UserError(f"--n-best ({options.n_best}) must be at least 1")
    if options.official and (options.json or options.n_best > 1):
        raise UserError("--official writes {id: answer} and nothing else; leave --json and --n-best out")
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    check_verb(run, "answer")
    official = {}
    with Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout) as file:
        for some in asked(run, options):
            for found in run.task.answer(some, options.n_best, options.threshold):
                official[found.id] = found.text
                if not options.official:
                    file.write(as_json(found, options.n_best) if options.json else as_lines(found, options.n_best))
            file.flush()
        if options.official:
            file.write(json.dumps(official, ensure_ascii=False) + "\n")
    return 0


def asked(run: Any, options: argparse.Namespace) -> Iterator[list[Any]]:
    """Questions with their passages, some at a time."""
    from clew.cli.texts import is_file
    from clew.core.errors import UserError

    if options.file not in (None, "-"):
        yield from of_file(run, options)
    elif options.question is not None:
        raise UserError("--question is a column of a table; name its file with --file")
    elif options.passage is not None:
        yield from on_passage(options)
    else:
        named = next((word for word in options.questions[:1] if is_file(word)), None)
        more = "a file of both with --file" if named is None else f"name it with --file {named}"
        raise UserError(f"a question is answered from a passage; give one with --passage, or {more}")


def of_file(run: Any, options: argparse.Namespace) -> Iterator[list[Any]]:
    """Questions of a file that has the passages too."""
    from clew.cli.lines import in_options
    from clew.core.errors import UserError, shown
    from clew.data.formats import find_format
    from clew.data.squad_files import read_questions

    if options.questions:
        raise UserError(
            f"--file has questions of its own; leave {shown(options.questions[0])} out, or give it a --passage instead of the file"
        )
    given = {name: value for name in ("question", "passage") if (value := getattr(options, name)) is not None}
    if given and find_format(Path(options.file).expanduser()) == "squad":
        raise UserError(f"--{next(iter(given))} is a column of a table, and {options.file} is JSON as SQuAD's; leave it out")
    columns = {"question": run.config.data.question, "passage": run.config.data.passage, **given}
    try:
        questions = read_questions(options.file, with_answers=False, **columns)
        while some := list(islice(questions, AT_ONCE)):
            yield some
    except UserError as error:
        raise UserError(in_options(str(error))) from None


def on_passage(options: argparse.Namespace) -> Iterator[list[Any]]:
    from clew.cli.lines import some_lines
    from clew.cli.progress import say
    from clew.core.errors import UserError
    from clew.data.examples import Question

    passage = passage_of(options.passage)
    if not options.questions and sys.stdin.isatty():
        say("reading questions from the terminal; Ctrl-D ends them")
    number = 0
    for lines in [options.questions] if options.questions else some_lines(None):
        found = []
        for line in lines:
            number += 1
            if line.strip():
                found.append(Question(line, passage, (), f"question {number}"))
            elif options.questions:
                raise UserError(f"question {number} is empty; ask something")
        if found:
            yield found


def passage_of(given: str) -> str:
    """The text of a file of that name, or what was given itself where that is no name of one."""
    from clew.cli.texts import is_file
    from clew.core.errors import UserError
    from clew.data.lines import check_file, ended_lines

    if is_file(given):
        text = "".join(ended_lines(Path(given)))
    else:
        if given and not any(map(str.isspace, given)):
            check_file(Path(given))
        text = given
    if not text.strip():
        raise UserError("the passage is empty; give a text that may hold the answer")
    return text


def as_lines(found: Any, n_best: int) -> str:
    """A line, or with `n_best` one for each piece, and one for no answer where that is likelier than the last of them."""
    rows = [("" if found.answer is None else found.text, found.probability)]
    if n_best > 1:
        rows = [(span.text, span.probability) for span in found.n_best]
        if found.no_answer is not None:
            rows = sorted([*rows, ("", found.no_answer)], key=lambda row: -row[1])[:n_best]
    return "".join(f"{' '.join(text.split())}\t{share:.4f}\t{' '.join(found.question.split())}\n" for text, share in rows)


def as_json(found: Any, n_best: int) -> str:
    from clew.cli.lines import json_line
    from clew.runs.as_json import answered

    return "".join(json_line(one) + "\n" for one in answered(1, found.question, found, n_best))
