"""What `clew evaluate` does for tasks that learn from examples."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from clew.cli.precision import beside_whole, show_beside
from clew.cli.progress import say

OWN = ("data.valid=", "data.test=")
MOST_LABELS = 10
"""Labels whose table of confusions is shown without being asked for."""


def evaluate_examples(run: Any, files: list[str], settings: list[str], changed: dict[str, Any], options: argparse.Namespace) -> int:
    from clew.cli.evaluate import own_baselines, scored
    from clew.core.errors import UserError

    check_out(options)
    for name in ("into", "pivot"):
        if getattr(options, name) is not None and not has_languages(run):
            raise UserError(f"--{name} is for translation between several languages, which {run.folder} does not do")
    config = changed_config(run.config, settings, changed, files)
    baselines = own_baselines(run)
    found = []
    for part, examples in examples_of(run.folder, config, settings, files).items():
        if options.into is not None:
            examples = [example._replace(into=options.into) for example in examples]
        if options.pivot is not None:
            score_by: Any = partial(scored_through, config=config, examples=examples, pivot=options.pivot)
            score = score_by(run)
        else:
            score_by = partial(scored, config=config, name=part, part=examples)
            score = score_by(run, baselines=baselines)
        found.append((part, score))
        show(part, examples, score, options, beside_whole(options, score, score_by))
    write_asked(found, options.out)
    return 0


def has_languages(run: Any) -> bool:
    """Whether a run reads pairs whose target may be in one of several languages."""
    return hasattr(run.task, "languages") and "directions" in type(run.config.data).model_fields


def check_out(options: argparse.Namespace) -> None:
    from clew.core.errors import UserError

    if options.out is not None and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder: {Path(options.out).parent}, where --out is to write; make it first")
    if options.errors < 0:
        raise UserError(f"--errors ({options.errors}) must be at least 1")


def show(part: str, examples: Any, score: Any, options: argparse.Namespace, beside: dict[str, Any]) -> None:
    """A part's score, beside that in float32 where there is one, its report, and its worst predictions where they are asked for."""
    from clew.core.errors import counted

    errors = worst(examples, score, options.errors)
    if options.json:
        fields = {"part": part, "examples": len(examples), **score.measures, "intervals": score.intervals, "text": score.text}
        print(json.dumps({**fields, **beside, **({"errors": errors} if options.errors else {})}, ensure_ascii=False), flush=True)
    else:
        print(f"{part}: {score.text} ({counted(len(examples), 'example')})", flush=True)
        show_beside(score, beside)
        show_report(score.report, options.confusion)
        show_errors(errors, options.errors)


def write_asked(found: list[tuple[str, Any]], out: str | None) -> None:
    """Every prediction, where a file is named for them."""
    if out is not None:
        write(Path(out), found)
        say(f"predictions are in {out}")


def check_changeable(settings: list[str]) -> None:
    from clew.core.errors import UserError

    for setting in settings:
        if not setting.startswith(("data.", "decoding.")):
            raise UserError(f"a trained run keeps its {setting.partition('.')[0]}; {setting} cannot be changed, only data and decoding can")


def changed_config(config: Any, settings: list[str], changed: dict[str, Any], files: list[str]) -> Any:
    """The run's config with other data and another decoding; files of one's own take the place of a corpus and its languages."""
    from clew.runs.config import resolve
    from clew.runs.given import decoding_config
    from clew.runs.overriding import override

    check_changeable(settings)
    if files or any(setting.startswith(OWN) for setting in settings):
        config = config.model_copy(update={"data": config.data.for_files()})
    config = resolve(override(config.model_dump(mode="json"), settings))
    return config.model_copy(update={"decoding": decoding_config(config.decoding, changed)})


def examples_of(folder: Path, config: Any, settings: list[str], files: list[str]) -> dict[str, Any]:
    """What is scored, by name: the files, or those that settings name, or the run's own validation and test parts."""
    from clew.data.notes import Notes
    from clew.runs.trust import check_paths
    from clew.tasks import TASKS

    learning, data, notes = TASKS[config.task.name].learns, config.data, Notes(faults=config.data.faults)
    given = {part: there for part in ("valid", "test") if (there := listed(getattr(data, part)))}
    named = {part: there for part, there in given.items() if any(setting.startswith(f"data.{part}=") for setting in settings)}
    if files:
        found: dict[str, Any] = {" ".join(files): learning.read_files(files, data, notes)}
    elif named or (given and is_gone(data)):
        check_paths(folder, data.model_copy(update={part: None for part in ("train", *given) if part not in (named or given)}), settings)
        found = {part: learning.read_files(there, data, notes) for part, there in (named or given).items()}
    else:
        check_paths(folder, data, settings)
        parts = learning.read(data, config.seed, notes)
        found = learning.apart({part: examples for part, examples in parts.items() if part != "train"}, data)
    for note in notes.report():
        say(note)
    return found


def listed(files: Any) -> list[str]:
    return [] if files is None else [files] if isinstance(files, str) else list(files)


def is_gone(data: Any) -> bool:
    """Whether the training file is not there any more, where parts of their own can still be scored; of several directions it is what the
    names of files begin with."""
    has_directions = getattr(data, "directions", None) is not None
    return not has_directions and isinstance(data.train, str) and not Path(data.train).expanduser().exists()


def scored_through(run: Any, config: Any, examples: Any, pivot: str) -> Any:
    """The score of translations by way of another language."""
    from clew.metrics.score import Score
    from clew.tasks.translation import translate_through

    predictions, between = translate_through([run.task], examples, config.decoding, pivot, seed=config.seed)
    measured = run.task.measure(examples, predictions)
    ids, scores = [example.id for example in examples], run.task.sentence_scores(examples, predictions)
    described = [
        {**run.task.described(example, prediction), "pivot": text}
        for example, prediction, text in zip(examples, predictions, between, strict=True)
    ]
    about = f"through {pivot}: {measured.text}"
    each = (scores, described, run.task.statistics(examples, predictions))
    scores_of, described_of, statistics_of = (dict(zip(ids, some, strict=True)) for some in each)
    return Score(measured.values, 0.0, about, scores_of, described_of, statistics=statistics_of)


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
    from clew.runs.predictions import PROBABILITY, worst_by

    if not most:
        return
    if not errors:
        print("\nno prediction is wrong", flush=True)
        return
    if "marked" in errors[0]:
        print("\nid\twrong words\ttext")
        rows = [[each["id"], str(len(each["wrong"])), each["marked"]] for each in errors]
    else:
        measure = worst_by(errors)
        print(f"\nid\tgold\tpredicted\t{'probability of gold' if measure == PROBABILITY else measure}\ttext")
        rows = [error_row(each, measure) for each in errors]
    for row in rows:
        print("\t".join(" ".join(cell.split()) for cell in row))


def error_row(fields: dict[str, Any], measure: str) -> list[str]:
    from clew.runs.predictions import NO_LABEL, badness

    number = badness(fields, measure)
    texts = [fields[side] for side in ("source", "second") if side in fields]
    return [fields["id"], fields["target"] or NO_LABEL, fields["prediction"] or NO_LABEL, f"{number:.4g}", *texts]


def write(path: Path, found: list[tuple[str, Any]]) -> None:
    from clew.core.files import write_text
    from clew.runs.predictions import prediction_line

    lines = [
        prediction_line(name, score.examples[name], {**({"part": part} if len(found) > 1 else {}), **fields}, score.statistics.get(name))
        for part, score in found
        for name, fields in score.predictions.items()
    ]
    write_text(path, "".join(lines))
