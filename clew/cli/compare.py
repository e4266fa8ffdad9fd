"""Groups of runs side by side: mean and spread over seeds, a test against the best group, what they differ in, and
learning curves.

RUN is a run directory, a folder that runs are below, or a pattern in quotes. Runs that differ in nothing but the seed
are one group.

  clew runs compare runs
  clew runs compare runs/shakespeare-lstm runs/shakespeare-gru --measure valid.perplexity
  clew runs compare 'runs/shakespeare-lstm-*' --curves curves.html
  clew runs compare runs/cells --format latex

Scores are those of each run's best evaluation, as mean ± sample standard deviation over the seeds. p is two-sided,
against the best group (or the group of the first run: --against first), and not corrected for the number of
groups. Which test it is depends on what is there, and a column says which. Paired bootstrap: every run of both
groups has a predictions.jsonl of the same examples, and 10,000 resamples of these are drawn (Koehn 2004), each scored
by --measure as a corpus of its own. Beside its p stands that of approximate randomisation, in which the outputs of the
two groups for an example are swapped at random (Riezler and Maxwell 2005); --test randomisation puts that first.
Welch: both groups have at least two seeds, and Welch's t-test compares the seeds' values of --measure. None: neither
is so. sacreBLEU's --paired-bs counts one tail: where systems differ clearly its p is half of the one here; its
--paired-ar is two-sided as well.

A line of predictions.jsonl is an object with an "id", a "score", higher being better, and "statistics", of which
measures are computed. Where neither these nor the predictions there tell --measure, p is of the mean score, and a note
says so. A run that cannot be read is named and left out.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.cli.terminal.progress import say

SHOWN = (
    "valid.loss",
    "valid.perplexity",
    "test.loss",
    "test.perplexity",
    "test.bleu",
    "test.chrf",
    "test.ter",
    "test.wer",
    "test.cer",
    "test.exact_match",
)
SCORES = ("f1", "accuracy", "micro_f1", "pearson")
DIGITS = dict.fromkeys(("perplexity", "bleu", "chrf", "ter", "wer", "cer", "exact_match", *SCORES), 2)
PICTURES = (".png", ".pdf", ".svg")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="+", help="run directories, folders of them, or patterns")
    add(
        "--measure",
        default="valid.loss",
        metavar="NAME",
        help="what groups are ranked and tested by (default: valid.loss)",
    )
    add(
        "--against",
        choices=["best", "first"],
        default="best",
        help="the group that the others are tested against (default: best)",
    )
    add(
        "--test",
        choices=["bootstrap", "randomisation"],
        default="bootstrap",
        help="the paired test over examples that p is of; the other stands beside it (default: bootstrap)",
    )
    add(
        "--format",
        choices=["text", "markdown", "latex"],
        default="text",
        help="how the tables are written (default: text)",
    )
    add(
        "--curves",
        metavar="FILE",
        help="draw training and validation loss into FILE.html (needs nothing) or .png, .pdf, .svg (matplotlib)",
    )
    add("--json", action="store_true", help="one JSON object a group")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.drawing.figures import load_matplotlib
    from clew.runs.comparison import cautions, group_runs, ranked
    from clew.runs.folder.summary import named_runs, summarise

    if options.curves is not None and Path(options.curves).suffix.lower() not in (".html", *PICTURES):
        raise UserError(f"--curves ({options.curves}) must end in .html, {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")
    if options.curves is not None and not Path(options.curves).parent.is_dir():
        raise UserError(f"no such folder: {Path(options.curves).parent}, where --curves is to write; make it first")
    if options.curves is not None and Path(options.curves).suffix.lower() in PICTURES:
        load_matplotlib()
    found, notes = [], []
    for folder in named_runs(options.runs):
        try:
            each = summarise(folder)
        except (UserError, OSError) as error:
            notes.append(f"left out: {error}")
            continue
        if each.best:
            found.append(each)
        else:
            notes.append(f"left out: {folder} has no evaluation yet")
    for note in notes:
        say(note)
    if not found:
        raise UserError("none of these runs can be compared; `clew runs` says how each stands")
    groups, twins = group_runs(found)
    first, groups = groups[0], ranked(groups, options.measure)
    rows, tests = compared(groups, first if options.against == "first" else groups[0], options.measure, options.test)
    for note in [*twins, *tests, *cautions(groups, options.measure)]:
        say(f"note: {note}")
    if options.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        show(groups, rows, options)
    if options.curves is not None:
        draw(groups, rows, options)
        say(f"curves are in {options.curves}")
    return 0


def compared(
    groups: list[Any], reference: Any, measure: str, test: str = "bootstrap"
) -> tuple[list[dict[str, Any]], list[str]]:
    """What there is to say of every group, and what stood in the way of a better test."""
    from clew.runs.comparison import PAIRED, compare_groups, group_differences

    (beside,) = PAIRED.keys() - {test}
    rows, notes = [], []
    differences = group_differences(groups)
    for number, group in enumerate(groups):
        row: dict[str, Any] = {
            "group": group.label,
            "runs": [str(each.folder) for each in group.runs],
            "n": len(group.runs),
        }
        names = dict.fromkeys([measure, *(name for each in group.runs for name in each.best)])
        row["mean"] = {name: group.mean(name) for name in names if group.mean(name) is not None}
        row["spread"] = {name: group.spread(name) for name in names if group.spread(name) is not None}
        if group is not reference:
            verdict, found = compare_groups(group, reference, measure, test)
            notes += found
            row.update(test=verdict.name, p=verdict.p, over=verdict.over, against=reference.label)
            if verdict.name == PAIRED[test]:
                other = compare_groups(group, reference, measure, beside)[0]
                row["beside"] = {"test": other.name, "p": other.p}
        row["settings"] = {name: values[number] for name, values in differences}
        rows.append(row)
    return rows, list(dict.fromkeys(notes))


def measures_shown(rows: list[dict[str, Any]], measure: str) -> list[str]:
    """The measure that was asked for, and the usual ones where they were measured; of the test text, perplexity alone.
    Scores of labels are those of the test part, or of the validation part where there is no other."""
    there = {name for row in rows for name in row["mean"]}
    usual = [name for name in SHOWN if name in there and not (name == "test.loss" and "test.perplexity" in there)]
    scores = [
        next((f"{part}.{name}" for part in ("test", "valid") if f"{part}.{name}" in there), None) for name in SCORES
    ]
    return list(dict.fromkeys([measure, *usual, *(name for name in scores if name is not None)]))


def scored(row: dict[str, Any], measure: str) -> str:
    from clew.cli.terminal.tables import number

    digits = DIGITS.get(measure.rpartition(".")[2], 4)
    spread = row["spread"].get(measure)
    return number(row["mean"].get(measure), digits) + (f" ± {number(spread, digits)}" if spread is not None else "")


def p_value(p: float | None) -> str:
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def main_table(rows: list[dict[str, Any]], measure: str) -> tuple[list[str], list[list[str]]]:
    shown = measures_shown(rows, measure)
    beside = next((f"p, {row['beside']['test']}" for row in rows if "beside" in row), None)
    header = [
        "#",
        "group",
        "n",
        *(name.replace(".", " ") for name in shown),
        "p",
        *([beside] if beside else []),
        "test",
    ]
    cells = [
        [
            str(number),
            row["group"],
            str(row["n"]),
            *(scored(row, name) for name in shown),
            p_value(row.get("p")),
            *([p_value(row.get("beside", {}).get("p"))] if beside else []),
            f"{row['test']}, {row['over']}" if "test" in row else "reference" if len(rows) > 1 else "",
        ]
        for number, row in enumerate(rows, start=1)
    ]
    return header, cells


def show(groups: list[Any], rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    from clew.cli.terminal.tables import latex_table, markdown_table, show_table
    from clew.runs.comparison import group_differences, spelt

    def table(header: list[str], cells: list[list[str]], right: Any) -> None:
        if options.format == "text":
            show_table(header, cells, right)
        else:
            print((markdown_table if options.format == "markdown" else latex_table)(header, cells, right))

    header, cells = main_table(rows, options.measure)
    table(header, cells, right=[0, *range(2, len(header) - 1)])
    different = group_differences(groups)
    if not different:
        return
    print()
    by_value = []
    for field, values in different:
        numbers: dict[str, list[str]] = {}
        for number, value in enumerate(values, start=1):
            numbers.setdefault("-" if value is None else spelt(value), []).append(str(number))
        by_value.append([field, "; ".join(f"{value} ({', '.join(which)})" for value, which in numbers.items())])
    table(["differs", "value (groups)"], by_value, right=[])


def draw(groups: list[Any], rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    from clew.core.files import write_text
    from clew.drawing.curves import Curve, Curves, Panel, figure
    from clew.drawing.curves_page import page
    from clew.drawing.figures import save_figure
    from clew.runs.comparison import curve

    def curves(measure: str) -> tuple[Curves, ...]:
        lines = [[Curve(*curve(each, measure)) for each in group.runs] for group in groups]
        return tuple(Curves(group.label, tuple(runs)) for group, runs in zip(groups, lines, strict=True))

    units = {UNITS.get(each.config.text.tokenizer, "token") for group in groups for each in group.runs}
    label = f"nats per {units.pop() if len(units) == 1 else 'token'}"
    panels = [
        Panel("Training loss", label, curves("train.loss")),
        Panel("Validation loss", label, curves("valid.loss")),
    ]
    recipes = sorted({each.config.recipe for group in groups for each in group.runs})
    count = sum(len(group.runs) for group in groups)
    title = f"Learning curves of {', '.join(recipes)}"
    about = (
        f"{counted(count, 'run')} in {counted(len(groups), 'group')}. Thin lines are runs; a thick line is the mean of"
        " a group's seeds at the steps that all of them have, smoothed where there are many."
    )
    path = Path(options.curves)
    if path.suffix.lower() == ".html":
        write_text(path, page(panels, title, about, main_table(rows, options.measure)))
    else:
        save_figure(figure(panels, title), path)


UNITS = {"character": "character", "word": "word"}


def counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
