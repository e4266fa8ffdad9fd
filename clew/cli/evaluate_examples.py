"""What `clew evaluate` does for tasks that learn from examples."""

import argparse
import json
from pathlib import Path
from typing import Any

from clew.cli.progress import say

OWN = ("data.valid=", "data.test=")


def evaluate_run(run: Any, files: list[str], settings: list[str], changed: dict[str, Any], options: argparse.Namespace) -> int:
    from clew.core.errors import UserError, counted

    if options.out is not None and not Path(options.out).parent.is_dir():
        raise UserError(f"no such folder: {Path(options.out).parent}, where --out is to write; make it first")
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
        if options.json:
            print(
                json.dumps({"part": part, "examples": len(examples), **score.measures, "text": score.text}, ensure_ascii=False), flush=True
            )
        else:
            print(f"{part}: {score.text} ({counted(len(examples), 'example')})", flush=True)
    if options.out is not None:
        write(Path(options.out), found)
        say(f"predictions are in {options.out}")
    return 0


def changed_config(config: Any, settings: list[str], changed: dict[str, Any], files: list[str]) -> Any:
    """The run's config with other data and another decoding; files of one's own take the place of a corpus and its languages."""
    from clew.core.errors import UserError
    from clew.runs.config import override, resolve
    from clew.runs.loaded import decoding_config

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
    from clew.runs.examples import read_examples, read_files
    from clew.tasks import TASKS

    kind, notes = TASKS[config.task.name].data, Notes(faults=config.data.faults)
    named = [part for part in ("valid", "test") if any(setting.startswith(f"data.{part}=") for setting in settings)]
    if files:
        found: dict[str, Any] = {" ".join(files): read_files(kind, config.data, files, notes)}
    elif named:
        found = {part: read_files(kind, config.data, getattr(config.data, part), notes) for part in named}
    else:
        parts = read_examples(kind, config.data, config.seed, notes)
        found = by_direction({part: examples for part, examples in parts.items() if part != "train"}, config.data.directions or [])
    for note in notes.report():
        say(note)
    return found


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
    from clew.tasks.translation import translate_through
    from clew.training.examples import evaluate_examples
    from clew.training.problem import Score

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


def write(path: Path, found: list[tuple[str, Any]]) -> None:
    from clew.runs.directory import write_text
    from clew.runs.predictions import prediction_line

    lines = [
        prediction_line(name, score.examples[name], {**({"part": part} if len(found) > 1 else {}), **fields})
        for part, score in found
        for name, fields in score.predictions.items()
    ]
    write_text(path, "".join(lines))
