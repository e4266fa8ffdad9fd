"""What `clew evaluate` does for tasks that learn from examples."""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.cli.progress import say

OWN = ("data.valid=", "data.test=")
MOST_LABELS = 10
"""Labels whose table of confusions is shown without being asked for."""


def evaluate_run(run: Any, files: list[str], settings: list[str], changed: dict[str, Any], options: argparse.Namespace) -> int:
    from clew.core.errors import UserError

    check_out(options)
    for name in ("into", "pivot"):
        if getattr(options, name) is not None and run.verb != "translate":
            raise UserError(f"--{name} is for translation between several languages, which {run.folder} does not do")
    config = changed_config(run.config, settings, changed, files)
    baselines = own_baselines(run)
    found = []
    for part, examples in examples_of(config, settings, files).items():
        if options.into is not None:
            examples = [example._replace(into=options.into) for example in examples]
        score = scored(run, config, examples, options.pivot, baselines)
        found.append((part, score))
        show(part, examples, score, options)
    write_asked(found, options.out)
    return 0


def check_out(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    if options.out is not None and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder: {Path(options.out).parent}, where --out is to write; make it first")
    if options.errors < 0:
        raise UserError(f"--errors ({options.errors}) must be at least 1")


def show(part: str, examples: Any, score: Any, options: argparse.Namespace) -> None:
    """A part's score, its report, and its worst predictions where they are asked for."""
    from clew.core.errors import counted

    errors = worst(examples, score, options.errors)
    if options.json:
        fields = {"part": part, "examples": len(examples), **score.measures, "intervals": score.intervals, "text": score.text}
        print(json.dumps({**fields, **({"errors": errors} if options.errors else {})}, ensure_ascii=False), flush=True)
    else:
        print(f"{part}: {score.text} ({counted(len(examples), 'example')})", flush=True)
        show_report(score.report, options.confusion)
        show_errors(errors, options.errors)


def write_asked(found: list[tuple[str, Any]], out: str | None) -> None:
    """Every prediction, where a file is named for them."""
    if out is not None:
        write(Path(out), found)
        say(f"predictions are in {out}")


def changed_config(config: Any, settings: list[str], changed: dict[str, Any], files: list[str]) -> Any:
    """The run's config with other data and another decoding; files of one's own take the place of a corpus and its languages."""
    from clew.core.errors import UserError
    from clew.runs.config import resolve
    from clew.runs.given import decoding_config
    from clew.runs.overriding import override

    for setting in settings:
        if not setting.startswith(("data.", "decoding.")):
            raise UserError(f"a trained run keeps its {setting.partition('.')[0]}; {setting} cannot be changed, only data and decoding can")
    whole = config.model_dump(mode="json")
    if files or any(setting.startswith(OWN) for setting in settings):
        whole["data"] |= {"corpus": None, "directions": None} | ({} if config.data.corpus is None else {"source": None, "target": None})
    config = resolve(override(whole, settings))
    return config.model_copy(update={"decoding": decoding_config(config.decoding, changed)})


def examples_of(config: Any, settings: list[str], files: list[str]) -> dict[str, Any]:
    """What is scored, by name: the files, or those that settings name, or the run's own validation and test parts."""
    from clew.data.notes import Notes
    from clew.runs.examples import read_files
    from clew.tasks import TASKS

    kind, notes = TASKS[config.task.name].data, Notes(faults=config.data.faults)
    named = [part for part in ("valid", "test") if any(setting.startswith(f"data.{part}=") for setting in settings)]
    if files:
        found: dict[str, Any] = {" ".join(files): read_files(kind, config.data, files, notes)}
    elif named:
        found = {part: read_files(kind, config.data, getattr(config.data, part), notes) for part in named}
    else:
        parts = own_parts(kind, config, notes)
        found = by_direction({part: examples for part, examples in parts.items() if part != "train"}, config.data.directions or [])
    for note in notes.report():
        say(note)
    return found


def own_parts(kind: str, config: Any, notes: Any) -> dict[str, Any]:
    """The run's parts; where its training file is not there any more, those that are files of their own."""
    from clew.runs.examples import read_examples, read_files

    data = config.data
    given = {part: files for part in ("valid", "test") if (files := getattr(data, part)) is not None}
    is_gone = kind != "pairs" and isinstance(data.train, str) and not Path(data.train).expanduser().exists()
    if given and is_gone:
        return {part: read_files(kind, data, files, notes) for part, files in given.items()}
    return dict(read_examples(kind, data, config.seed, notes))


def by_direction(parts: dict[str, Any], directions: list[str]) -> dict[str, Any]:
    """Every direction of a part by itself, where there are several: a score over all of them says little of any."""
    if len(directions) < 2:
        return parts
    pieces = [(part, direction) for part in parts for direction in directions]
    found = {f"{part} {way}": [example for example in parts[part] if example.id.endswith(f" {way}")] for part, way in pieces}
    return {name: examples for name, examples in found.items() if examples}


def own_baselines(run: Any) -> Any:
    """What the run's training examples alone tell; they are read again where a baseline learns from them."""
    from clew.runs.examples import read_examples
    from clew.tasks import TASKS
    from clew.training.baselines import baselines_of

    kind = TASKS[run.config.task.name].data
    return baselines_of(run.config, lambda: read_examples(kind, run.config.data, run.config.seed)["train"])


def scored(run: Any, config: Any, examples: Any, pivot: str | None, baselines: Any) -> Any:
    from clew.metrics.score import Score
    from clew.tasks.translation import translate_through
    from clew.training.examples import evaluate_examples

    if pivot is None:
        return evaluate_examples(run.task, examples, config, baselines)
    predictions, between = translate_through([run.task], examples, config.decoding, pivot, seed=config.seed)
    measured = run.task.measure(examples, predictions)
    ids, scores = [example.id for example in examples], run.task.sentence_scores(examples, predictions)
    described = [
        {**run.task.described(example, prediction), "pivot": text}
        for example, prediction, text in zip(examples, predictions, between, strict=True)
    ]
    about = f"through {pivot}: {measured.text}"
    return Score(measured.values, 0.0, about, dict(zip(ids, scores, strict=True)), dict(zip(ids, described, strict=True)))


def show_report(report: tuple[str, ...], confusion: bool) -> None:
    """A line a label; and the table of which was taken for which, where it is small or asked for."""
    for number, table in enumerate(report):
        if number == 0 or confusion or table.count("\n") <= MOST_LABELS:
            print(f"\n{table}", flush=True)


def worst(examples: Any, score: Any, most: int) -> list[dict[str, Any]]:
    """The wrong predictions, worst first; those of tags with the words marked."""
    from clew.runs.predictions import marked_words, worst_first

    words = {example.id: example.words for example in examples if hasattr(example, "words")}
    records = [{"id": example.id, "score": score.examples[example.id], **score.predictions[example.id]} for example in examples]
    found = worst_first(records)[:most]
    return [{**each, "marked": marked_words(words[each["id"]], each["wrong"])} if "wrong" in each else each for each in found]


def show_errors(errors: list[dict[str, Any]], most: int) -> None:
    if not most:
        return
    if not errors:
        print("\nno prediction is wrong", flush=True)
        return
    if "marked" in errors[0]:
        print("\nid\twrong\ttext")
        rows = [[each["id"], str(len(each["wrong"])), each["marked"]] for each in errors]
    else:
        print("\nid\tgold\tpredicted\t" + ("probability of gold" if "gold_probability" in errors[0] else "score") + "\ttext")
        rows = [error_row(each) for each in errors]
    for row in rows:
        print("\t".join(" ".join(cell.split()) for cell in row))


def error_row(fields: dict[str, Any]) -> list[str]:
    number = fields.get("gold_probability", fields["score"])
    texts = [fields[side] for side in ("source", "second") if side in fields]
    return [fields["id"], fields["target"], fields["prediction"], f"{number:.4g}", *texts]


def write(path: Path, found: list[tuple[str, Any]]) -> None:
    from clew.core.files import write_text
    from clew.runs.predictions import prediction_line

    lines = [
        prediction_line(name, score.examples[name], {**({"part": part} if len(found) > 1 else {}), **fields})
        for part, score in found
        for name, fields in score.predictions.items()
    ]
    write_text(path, "".join(lines))
