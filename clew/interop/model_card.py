"""Model cards: the model, its training, data, scores and licence. Facts that a run does not record are left out."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from clew.core.files import read_json
from clew.data.corpora import CORPORA
from clew.data.corpora.samples import EMBEDDED
from clew.interop.options import ExportOptions
from clew.runs.folder.records import Summary, last_with
from clew.runs.folder.run_files import ENVIRONMENT, ORIGIN
from clew.runs.folder.summary import summarise
from clew.runs.loaded import Run
from clew.tasks import TASKS
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

ENGLISH = ("tinyshakespeare", "sentiment-sample", "gum-trees-sample", "ewt-sample", "craft-sample")
"""Embedded corpora with English text only."""


def model_card(run: Run, *, library: str, usage: str, options: ExportOptions, tags: Sequence[str] = ()) -> str:
    """Return Markdown with a front matter that Hugging Face reads. `library` is its name for the library that loads the
    files; `usage` is Python code that does so."""
    summary = summarise(run.folder)
    task, family = run.config.task.name, run.config.model.family
    matter: dict[str, Any] = {
        "license": options.license,
        "language": languages_of(run) or None,
        "library_name": library,
        "pipeline_tag": TASKS[task].pipeline,
        "tags": ["clew", task.replace("_", "-"), family.replace("_", "-"), *tags],
        "metrics": sorted({name.split(".")[-1] for name in scores_of(summary)}) or None,
    }
    front = yaml.safe_dump(
        {name: value for name, value in matter.items() if value is not None}, sort_keys=False, allow_unicode=True
    )
    parts = [
        f"---\n{front}---\n\n# {run.folder.resolve().name}\n\n{opening(run)}",
        f"## Use\n\n```python\n{usage.strip()}\n```",
    ]
    parts += [training(run, summary, options), data(run), scores(summary), licence(options)]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def opening(run: Run) -> str:
    family, task = run.config.model.family, run.config.task.name
    parameters = sum(parameter.numel() for parameter in run.task.parameters())
    vocabularies = vocabularies_of(run)
    sizes = ", ".join(
        f"{vocabulary.vocabulary:,} {vocabulary.unit}s" + (f" ({role})" if len(vocabularies) > 1 else "")
        for role, vocabulary in vocabularies.items()
    )
    settings = yaml.safe_dump(run.config.model.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    over = f", over {sizes}" if sizes else ""
    return (
        f"A model of the family `{family}` for the task `{task}`, of {parameters:,}"
        f" parameters{over}.\n\n```yaml\n{settings}```"
    )


def vocabularies_of(run: Run) -> dict[str, Any]:
    """Return the tokenizers and label tables, without what a run keeps of its source run."""
    return {
        role: vocabulary for role, vocabulary in run.vocabularies.items() if isinstance(vocabulary, (Tokenizer, Labels))
    }


def training(run: Run, summary: Summary, options: ExportOptions) -> str:
    """List recipe, command, steps and machine. For an imported run only its origin is known."""
    if (run.folder / ORIGIN).is_file():
        origin = json_object(run.folder / ORIGIN)
        return f"## Origin\n\nImported from `{origin.get('source')}`, a `{origin.get('architecture')}`."
    lines = [f"- recipe: `{run.config.recipe}`"]
    if options.command is not None:
        lines.append(f"- command: `{options.command}`")
    if run.config.transfer.source is not None:
        lines.append(f"- fine-tuned from: {shown_path(run.config.transfer.source)}")
    if summary.averaged:
        lines.append(f"- weights: the mean of {len(summary.averaged)}")
    if summary.step:
        lines.append(f"- steps: {summary.step:,}")
    lines.append(f"- seed: {run.config.seed}")
    if (run.folder / ENVIRONMENT).is_file():
        machine = json_object(run.folder / ENVIRONMENT)
        lines += [f"- {name}: {machine[name]}" for name in ("hardware", "torch") if machine.get(name)]
    return "## Training\n\n" + "\n".join(lines)


def json_object(path: Path) -> dict[str, Any]:
    """Return the fields of an informational JSON file; empty if it does not hold an object."""
    content = read_json(path)
    return content if isinstance(content, dict) else {}


def data(run: Run) -> str:
    """Name the corpus or the files. For an embedded corpus also quote its ATTRIBUTION.md, with size, source and
    licence."""
    section = run.config.data
    if section.corpus is None:
        files = {part: getattr(section, part) for part in ("train", "valid", "test")}
        names_by_part = {
            part: ", ".join(map(shown_path, [paths] if isinstance(paths, str) else paths))
            for part, paths in files.items()
            if paths
        }
        return (
            "## Data\n\n" + "\n".join(f"- {part}: {names}" for part, names in names_by_part.items())
            if names_by_part
            else ""
        )
    corpus = CORPORA.get(section.corpus)
    lines = [f"The corpus `{section.corpus}`."]
    page = attribution(section.corpus)
    if page is not None:
        lines.append(page)
    elif corpus is not None and corpus.published:
        lines.append(f"{corpus.published[0].upper()}{corpus.published[1:]}.")
    return "## Data\n\n" + "\n\n".join(lines)


def attribution(name: str) -> str | None:
    """Return the ATTRIBUTION.md of an embedded corpus; None for any other."""
    corpus = CORPORA.get(name)
    if corpus is None or not corpus.embedded:
        return None
    first = corpus.train if isinstance(corpus.train, str) else corpus.train[0]
    page = (EMBEDDED / first).parent / "ATTRIBUTION.md"
    return re.sub(r"^# ", "### ", page.read_text(encoding="utf-8").strip())


def shown_path(path: str) -> str:
    """Return the name of a file without its folders, which are private."""
    return f"`{Path(path).name}`"


def languages_of(run: Run) -> list[str]:
    """Return the languages of an embedded corpus; other data are not guessed at."""
    section = run.config.data
    if section.corpus in ENGLISH:
        return ["en"]
    return ["de", "en"] if section.corpus == "tatoeba-sample" else []


def scores_of(summary: Summary) -> dict[str, float]:
    """Return the scores of the weights, without baselines."""
    return {name: value for name, value in summary.best.items() if "baseline" not in name}


def scores(summary: Summary) -> str:
    values = summary.best
    if not values:
        return ""
    end = last_with(summary.records, "best.step")
    step = f" of step {end['best.step']:,}" if end is not None and not summary.averaged else ""
    rows = [
        f"| {part} | {name.replace('_', ' ')} | {values[f'{part}.{name}']:.4g} |"
        for part, name in (key.split(".", 1) for key in values)
    ]
    return f"## Scores\n\nOf the weights{step}.\n\n| part | measure | value |\n|---|---|---|\n" + "\n".join(rows)


def licence(options: ExportOptions) -> str:
    return "" if options.license is None else f"## Licence\n\nThe model: {options.license}."
