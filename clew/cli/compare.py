"""Compare groups of runs: mean and spread over seeds, a test against the best group, differences in settings, and
learning curves.

RUN is a run directory, a folder that contains runs, or a quoted pattern. Runs that differ only in the seed form a
group.

  clew runs compare runs
  clew runs compare runs/shakespeare-lstm runs/shakespeare-gru --measure valid.perplexity
  clew runs compare 'runs/shakespeare-lstm-*' --curves curves.html
  clew runs compare runs/cells --format latex

Scores are those of each run's best evaluation, as mean ± sample standard deviation over the seeds. p is two-sided,
against the best group (with --against first, the group of the first run), and not corrected for the number of groups.
A column names the test, which depends on the available data.

Paired bootstrap: if every run of both groups has a predictions.jsonl for the same examples. 10,000 resamples of the
examples are drawn (Koehn 2004), and --measure is computed on each as on a corpus. The p of approximate randomisation
(Riezler and Maxwell 2005), which swaps the outputs of the two groups for random examples, is shown next to it; --test
randomisation shows it first. Welch: otherwise, if both groups have at least two seeds. Welch's t-test compares the
values of --measure over the seeds. None: otherwise. sacreBLEU's --paired-bs counts one tail, so that its p is half of
the one here for clearly different systems; its --paired-ar is two-sided, as here.

A line of predictions.jsonl is an object with an "id", a "score" (higher is better), and "statistics", from which
measures are computed. If --measure can be computed neither from these nor from the predictions, p is for the mean
score, and a note says so. A run that cannot be read is skipped with a note.
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
    add("runs", metavar="RUN", nargs="+", help="run directories, folders of runs, or quoted patterns")
    add(
        "--measure",
        default="valid.loss",
        metavar="NAME",
        help="the measure for ranking and tests (default: valid.loss)",
    )
    add(
        "--against",
        choices=["best", "first"],
        default="best",
        help="the group to test the others against (default: best)",
    )
    add(
        "--test",
        choices=["bootstrap", "randomisation"],
        default="bootstrap",
        help="the paired test over examples for p; the other is shown beside it (default: bootstrap)",
    )
    add(
        "--format",
        choices=["text", "markdown", "latex"],
        default="text",
        help="the format of the tables (default: text)",
    )
    add(
        "--curves",
        metavar="FILE",
        help="plot training and validation loss in FILE.html, or .png, .pdf, .svg (needs matplotlib)",
    )
    add("--json", action="store_true", help="print one JSON object per group")


def run(options: argparse.Namespace) -> int:
    from clew.core.errors import UserError
    from clew.drawing.figures import load_matplotlib
    from clew.runs.comparison import cautions, group_runs, rank_groups
    from clew.runs.folder.records import named_runs
    from clew.runs.folder.summary import summarise

    if options.curves is not None and Path(options.curves).suffix.lower() not in (".html", *PICTURES):
        raise UserError(f"--curves ({options.curves}) must end in .html, {', '.join(PICTURES[:-1])} or {PICTURES[-1]}")
    if options.curves is not None and not Path(options.curves).parent.is_dir():
        raise UserError(f"no such folder for --curves: {Path(options.curves).parent}; create it first")
    if options.curves is not None and Path(options.curves).suffix.lower() in PICTURES:
        load_matplotlib("use --curves FILE.html, which needs no other package")
    summaries, notes = [], []
    for folder in named_runs(options.runs):
        try:
            summary = summarise(folder)
        except (UserError, OSError) as error:
            notes.append(f"skipped: {error}")
            continue
        if summary.best:
            summaries.append(summary)
        else:
            notes.append(f"skipped: {folder} has no evaluation yet")
    for note in notes:
        say(note)
    if not summaries:
        raise UserError("none of these runs can be compared; `clew runs` shows the state of each")
    groups, twin_notes = group_runs(summaries)
    first, groups = groups[0], rank_groups(groups, options.measure)
    rows, test_notes = compare_all(
        groups, first if options.against == "first" else groups[0], options.measure, options.test
    )
    for note in [*twin_notes, *test_notes, *cautions(groups, options.measure)]:
        say(f"note: {note}")
    if options.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        show(groups, rows, options)
    if options.curves is not None:
        draw(groups, rows, options)
        say(f"wrote the curves to {options.curves}")
    return 0


def compare_all(
    groups: list[Any], reference: Any, measure: str, test: str = "bootstrap"
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row of facts for every group, and notes on why no better test was possible."""
    from clew.runs.comparison import PAIRED, compare_groups, group_differences

    (other_test,) = PAIRED.keys() - {test}
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
            verdict, test_notes = compare_groups(group, reference, measure, test)
            notes += test_notes
            row.update(test=verdict.name, p=verdict.p, over=verdict.over, against=reference.label)
            if verdict.name == PAIRED[test]:
                other = compare_groups(group, reference, measure, other_test)[0]
                row["beside"] = {"test": other.name, "p": other.p}
        row["settings"] = {name: values[number] for name, values in differences}
        rows.append(row)
    return rows, list(dict.fromkeys(notes))


def measures_shown(rows: list[dict[str, Any]], measure: str) -> list[str]:
    """Return the names of the measures to show: the chosen one, and the usual ones that the runs have, without the
    test loss if there is a test perplexity. Label scores are from the test part, or else from the validation part."""
    available = {name for row in rows for name in row["mean"]}
    usual = [
        name for name in SHOWN if name in available and not (name == "test.loss" and "test.perplexity" in available)
    ]
    scores = [
        next((f"{part}.{name}" for part in ("test", "valid") if f"{part}.{name}" in available), None) for name in SCORES
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
    other_header = next((f"p, {row['beside']['test']}" for row in rows if "beside" in row), None)
    header = [
        "#",
        "group",
        "n",
        *(name.replace(".", " ") for name in shown),
        "p",
        *([other_header] if other_header else []),
        "test",
    ]
    cells = [
        [
            str(number),
            row["group"],
            str(row["n"]),
            *(scored(row, name) for name in shown),
            p_value(row.get("p")),
            *([p_value(row.get("beside", {}).get("p"))] if other_header else []),
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
    differences = group_differences(groups)
    if not differences:
        return
    print()
    by_value = []
    for field, values in differences:
        numbers: dict[str, list[str]] = {}
        for number, value in enumerate(values, start=1):
            numbers.setdefault("-" if value is None else spelt(value), []).append(str(number))
        by_value.append([field, "; ".join(f"{value} ({', '.join(members)})" for value, members in numbers.items())])
    table(["differs", "value (groups)"], by_value, right=[])


def draw(groups: list[Any], rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    from clew.core.errors import counted
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
        " a group's seeds at the steps that all of them have, smoothed if there are many."
    )
    path = Path(options.curves)
    if path.suffix.lower() == ".html":
        write_text(path, page(panels, title, about, main_table(rows, options.measure)))
    else:
        save_figure(figure(panels, title), path)


UNITS = {"character": "character", "word": "word"}
