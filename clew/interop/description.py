"""What stands beside the programs of an export: export.json, which says what goes in and out, the vocabularies, and the card."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from clew.core.files import write_json, write_text
from clew.core.tag_schemes import plain_tags
from clew.interop.model_card import model_card, vocabularies_of
from clew.interop.options import ExportOptions
from clew.interop.readers import context_of
from clew.interop.signatures import Port, Program
from clew.interop.usage import usage_of
from clew.runs.directory import VOCABULARY
from clew.runs.embedding import CONTEXT
from clew.runs.loaded import Run
from clew.runs.vocabularies import save_vocabularies
from clew.sources.words import is_spelled
from clew.tasks.language_model import LanguageModel
from clew.tasks.masked_language_model import MaskedLanguageModel
from clew.tasks.question_answering import QuestionAnswering
from clew.tasks.sequence import SequenceToSequence, language_tokens
from clew.tasks.tagging import Tagger

FORMAT = 1
DESCRIPTION, CARD = "export.json", "README.md"
SUFFIXES = {"torch": "pt2", "onnx": "onnx"}
LIBRARIES = {"torch": "pytorch", "onnx": "onnx"}


def write_description(run: Run, folder: Path, programs: Sequence[Program], to: str, options: ExportOptions) -> None:
    suffix, kept = SUFFIXES[to], vocabularies_of(run)
    if CONTEXT in run.vocabularies:  # the tokenizer alone of a run that this one reads
        kept[CONTEXT] = run.vocabularies[CONTEXT].tokenizer
    content: dict[str, Any] = {
        "format": FORMAT,
        "task": run.config.task.name,
        "model": run.config.model.family,
        "torch": torch.__version__,
        "programs": {program.name: described(program, suffix) for program in programs},
        "vocabulary": {role: f"{VOCABULARY}/{role}.json" for role in kept},
        **facts_of(run),
    }
    save_vocabularies(folder, kept)
    write_json(folder / DESCRIPTION, content)
    usage = usage_of(run, to)
    write_text(folder / CARD, model_card(run, library=LIBRARIES[to], usage=usage, options=options))


def described(program: Program, suffix: str) -> dict[str, Any]:
    inputs, outputs = program.ports
    return {"file": f"{program.name}.{suffix}", "inputs": [*map(as_json, inputs)], "outputs": [*map(as_json, outputs)]}


def as_json(port: Port) -> dict[str, Any]:
    return {"name": port.name, "dtype": port.dtype, "shape": list(port.shape)}


def facts_of(run: Run) -> dict[str, Any]:
    """What someone has to know who runs the programs without clew, where there is such: ids, limits, labels."""
    task: Any = run.task
    facts: dict[str, Any] = {"max_length": task.body.max_length}
    if isinstance(task, LanguageModel):
        facts["before"] = [] if task.tokenizer.frame is None else task.tokenizer.frame.before
    if isinstance(task, SequenceToSequence):
        languages = {token[2:-1]: id for token, id in language_tokens(task.source).items()}
        before, after = task.around(next(iter(languages), ""))
        facts |= {"source_max_length": task.body.source_max_length, "languages": languages or None}
        facts |= {"source_before": before, "source_after": after, "start": task.start, "end": task.end}
    if isinstance(task, MaskedLanguageModel):
        facts["mask"] = task.tokenizer.mask
    if isinstance(task, QuestionAnswering):
        facts["pair"] = around_pair(task)
    if is_spelled(task.body) or (context_of(task.body) is not None and is_spelled(context_of(task.body))):
        facts["letters"] = "a word is 257, the bytes of its UTF-8 plus 1, 48 at most, and 258; 0 is padding"
    for role in ("labels", "tags"):
        if role in run.vocabularies:
            facts[role] = list(run.vocabularies[role].names)
    if isinstance(task, Tagger) and task.scheme:  # tags are told in IOB2, whatever the scheme that has scores
        facts |= {"tags": list(plain_tags(task.tags.names).names), "scored_tags": list(task.tags.names)}
    return {name: value for name, value in facts.items() if value is not None}


def around_pair(task: QuestionAnswering) -> dict[str, list[int]]:
    """The ids before, between and behind question and passage, and the segments of the two."""
    tokenizer = task.reader.tokenizer
    end = [tokenizer.end or 0]
    if tokenizer.frame is None:
        return {"before": [], "between": end, "after": end if task.ends else [], "segments": [0, 0]}
    tokens, _, (first, second) = tokenizer.frame.around([], [])
    _, segments, places = tokenizer.frame.around([0], [0])
    parts = {"before": tokens[:first], "between": tokens[first:second], "after": tokens[second:] + (end if task.ends else [])}
    return {**parts, "segments": [segments[place] for place in places]}
