"""Give texts their labels with a trained classifier; or numbers, where it was trained on those.

Every TEXT, or else every line of standard input or of --file, has a line of standard output, in the same order and as soon
as it is there: `label<TAB>probability<TAB>text`; an empty line, or an empty cell of a table, has an empty one. Where a run
was trained on two texts together, --second is the other one of TEXT, and a line has both, with a tab between; where it was
trained on trees, a line has a bracketed tree, or FILE is CoNLL-U.

  clew classify runs/sentiment-lstm 'A film that never finds its feet.'
  echo 'A film that never finds its feet.' | clew classify runs/sentiment-lstm
  clew classify runs/classify 'It rains.' --second 'It is wet.'
  clew classify runs/sentiment-lstm --file reviews.txt > labels.tsv
  clew classify runs/classify --file tickets.csv --text body
  clew classify runs/classify --file pairs.jsonl --text premise --second hypothesis
  clew classify runs/sentiment-lstm --file reviews.txt --json
  echo '(SQ (VBZ Is) (NP (PRP it)) (ADJP (JJ big)) (. ?))' | clew classify runs/gum-tree-lstm

With --text the file is a table: CSV, TSV or JSON lines, a text in the column of that name or number. A file that ends in
.csv, .tsv or .jsonl is one in any case, and the columns are those that the run was trained with. Of several labels, and
their probabilities, each stands behind a `|`. Of numbers there is `number<TAB>text`. --json has one object a text, with
the probability of every label.

A language model that was never trained to classify takes the likeliest of --choices, where --template has room for one. A
choice may stand for a label: 1=good,0=bad. With {second} in the template a line has two texts, with a tab between.

  clew classify runs/gpt2 --choices good,bad --template 'Review: {text} It was {choice}.' --file reviews.txt
  clew classify runs/text-gpt --choices 1=good,0=bad --calibrate --normalise tokens --file reviews.csv --text review
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", metavar="RUN", help="a run directory")
    add("texts", metavar="TEXT", nargs="*", default=[], help="what to classify")
    add("--file", metavar="FILE", help="what to classify, a text a line, or a table (default: standard input)")
    add("--text", metavar="COLUMN", help="FILE is a table, and this column, by name or number, has the text (default: as in training)")
    add("--second", metavar="TEXT|COLUMN", help="where two texts are judged together: the second of one TEXT, or its column in a table")
    add_choices(parser)
    add("--json", action="store_true", help="one JSON object a text, with the probability of every label")
    add("--out", metavar="FILE", help="write here instead of to standard output")
    add("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"], help="where the model runs")


def add_choices(parser: argparse.ArgumentParser) -> None:
    """How a language model is asked which of several choices follows."""
    add = parser.add_argument
    add(
        "--choices",
        metavar="A,B,...",
        help="of a language model: the likeliest of these follows the text; LABEL=WORDS has a label of its own",
    )
    add("--template", metavar="TEXT", help="how text and choice stand together (default: '{text} {choice}'); {second} is a second text")
    add("--normalise", choices=["none", "tokens", "characters"], help="divide a choice's log-probability by its length (default: none)")
    add("--calibrate", action="store_true", help="less the choice's log-probability in the template without the text")


def asked_choices(options: argparse.Namespace) -> Any:
    """The `Choices` that the options tell; None where there are none."""
    from clew.core.errors import UserError
    from clew.tasks.choices import choices_of, parse_choices

    given = {name: value for name in ("template", "normalise", "calibrate") if (value := getattr(options, name))}
    if options.choices is None:
        if given:
            raise UserError(f"--{next(iter(given))} is for --choices, which a language model chooses from; give these")
        return None
    return choices_of(parse_choices(options.choices), **given)


def run(options: argparse.Namespace) -> int:
    from clew.cli.progress import say
    from clew.cli.texts import check_texts, has_columns, place_of, placed
    from clew.core.errors import UserError
    from clew.runs.loaded import check_verb, load_run

    choices = asked_choices(options)
    check_texts(options)
    run = load_run(options.folder, device=options.device, code=None if options.code is None else Path(options.code))
    if choices is None and run.verb == "generate":
        raise UserError(
            f"{options.folder} is a language model, which was not trained to classify; say what it chooses from, e.g. --choices good,bad"
        )
    check_verb(run, "classify" if choices is None else "generate", None if choices is None else "take --choices, a language model does")
    reads_pairs = run.reads_pairs if choices is None else choices.reads_pairs
    if options.second is not None and not reads_pairs:
        one = f"{options.folder} was trained on one" if choices is None else "the template has no {second}"
        raise UserError(f"--second is for runs that were trained on two texts together, and {one}")
    if run.reads_trees and is_conllu(options.file):
        record, texts = "sentence", dependency_trees(options.file)
    elif has_columns(options):
        record, texts = "record", table_texts(run, options, reads_pairs)
    else:
        record, texts = "line", line_texts(run, options, reads_pairs)
    cut = 0
    with (
        Path(options.out).open("w", encoding="utf-8", newline="\n") if options.out else nullcontext(sys.stdout) as file,
        placed(place_of(options.texts, options.file, record)),
    ):
        for some in texts:
            given, first = [text for _, text in some], some[0][0]
            found = run.classify(given, first=first) if choices is None else run.choose(given, choices, first=first)
            for (number, _), answer in zip(some, found, strict=True):
                file.write((as_json(number, answer) if options.json else as_line(answer)) + "\n")
                cut += bool(getattr(answer, "left_out", 0))
            file.flush()
    if cut:
        say(f"{cut:,} of the texts are longer than the {run.task.body.max_length} tokens that the model reads; their ends alone were read")
    return 0


def line_texts(run: Any, options: argparse.Namespace, reads_pairs: bool) -> Iterator[list[tuple[int, Any]]]:
    """Texts that are given, or numbered lines, as they arrive; of two texts each, where the run judges two."""
    from clew.cli.texts import place_of, some_texts
    from clew.core.errors import UserError

    if options.texts and options.second is not None:
        yield [(1, (options.texts[0], options.second))]
        return
    where, how = place_of(options.texts, options.file), "--second has the other" if options.texts else "a line has both with a tab between"
    first = 1
    for lines in some_texts(options.texts, options.file):
        texts: list[tuple[int, Any]] = []
        for number, line in enumerate(lines, start=first):
            sides = tuple(line.split("\t"))
            if reads_pairs and line.strip() and not (len(sides) == 2 and all(map(str.strip, sides))):
                raise UserError(
                    f"{where} {number}: {judge_of(run)} two texts together, and {how}; found {sum(bool(side.strip()) for side in sides)}"
                )
            texts.append((number, sides if reads_pairs and line.strip() else line))
        if texts:
            yield texts
        first += len(lines)


def judge_of(run: Any) -> str:
    return f"{run.folder} judges" if run.verb == "classify" else "the template takes"


def is_conllu(file: str | None) -> bool:
    from clew.data.formats import find_format

    return file not in (None, "-") and find_format(Path(file).expanduser()) == "conllu"


def dependency_trees(file: str) -> Iterator[list[tuple[int, Any]]]:
    """Numbered sentences with heads."""
    from clew.cli.lines import MOST
    from clew.data.readers import read_sentences

    sentences = enumerate(read_sentences(file, with_tags=False, format="conllu"), start=1)
    while some := list(islice(sentences, MOST)):
        yield some


def table_texts(run: Any, options: argparse.Namespace, reads_pairs: bool) -> Iterator[list[tuple[int, Any]]]:
    """Numbered records of a table; one with an empty field is an empty text."""
    from clew.cli.lines import table_fields

    data = run.config.data
    second = options.second or data.second or ("second" if reads_pairs else None)
    wanted = {"text": options.text or data.text, **({} if second is None else {"second": second})}
    for some in table_fields(options.file, wanted):
        yield [(number, "" if "" in fields else fields[0] if second is None else fields) for number, fields in some]


def as_line(answer: Any) -> str:
    if answer is None:
        return ""
    text = "\t".join(" ".join(side.split()) for side in (answer.text, answer.second) if side is not None)
    if answer.number is not None:
        return f"{answer.number:.4g}\t{text}"
    sure = "|".join(f"{answer.probabilities[label]:.4f}" for label in answer.labels)
    return f"{answer.label}\t{sure}\t{text}"


def as_json(number: int, answer: Any) -> str:
    from clew.cli.lines import json_line
    from clew.runs.as_json import classified

    return "\n".join(map(json_line, classified(number, None, answer)))
