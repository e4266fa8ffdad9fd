"""Prepare the training problem of a config: read and encode the data, load or build the vocabularies, and build the
task and its evaluation. Generic over the task's Learning."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from clew.baselines.baseline import Baselines, fitting_key
from clew.core.errors import UserError
from clew.core.processes import from_first
from clew.data.notes import Notes
from clew.metrics.score import Score
from clew.runs.build import build_task
from clew.runs.cached_vocabularies import cached_vocabularies
from clew.runs.config import Config
from clew.runs.embedding import CONTEXT, BorrowedBody, check_embedding, initialise_embedding
from clew.runs.folder.vocabularies import load_vocabularies, vocabulary_types
from clew.runs.tokenizers import RunTokenizers
from clew.runs.transfer import ENCODER, has_encoder, in_their_order, start_from
from clew.tasks import TASKS
from clew.tasks.learning import Autocast, Encoding, Evaluation, Learning
from clew.training.checkpoints import starts_anew
from clew.training.parallel import gathered
from clew.training.problem import OnProgress, Problem, no_progress


def prepare_problem(
    config: Config, run: Path | None = None, progress: Callable[[int, int], None] = lambda done, total: None
) -> Problem:
    """Prepare the problem of a config, with the vocabularies of an existing `run`, or new ones."""
    entry, training, seed = TASKS[config.task.name], config.training, config.seed
    learning = entry.learns
    check_embedding(config)
    if training.evaluate_tokens is not None and not learning.can_cap:
        raise UserError(
            f"training.evaluate_tokens works for running text and examples, but this task learns from {learning.reads};"
            " leave it out"
        )
    notes = Notes(faults=config.data.faults)
    parts = learning.read(config.data, seed, notes)
    vocabularies = agreed_vocabularies(config, learning, run, parts["train"])
    task: Any = build_task(config, vocabularies)
    learning.check(task, training)
    if hasattr(task, "check_decoding"):
        task.check_decoding(config.decoding)  # before training, not after it

    def encode(name: str) -> Any:
        encoding = Encoding(
            name,
            training,
            to_train=name == "train",
            workers=config.text.workers,
            progress=progress,
            vocabularies=vocabularies,
        )
        return learning.encode(task, parts[name], encoding)

    encoded = {name: encode(name) for name in parts}
    is_new = starts_anew(run)
    start_notes = initialise_embedding(task.body, config, vocabularies) if is_new else []
    start_notes += start_from(task, config, run, is_new=is_new)
    if is_new:
        learning.prepare(task, encoded["train"])
    baselines = Baselines(
        entry.baselines,
        config.task,
        lambda: learning.known(task, parts["train"], lambda: encoded["train"]),
        fitting_key(entry.baselines, config.task, parts["train"]),
    )
    plain = Evaluation(training, config.decoding, seed, whole=gathered)

    def judge(
        part: str,
        task: nn.Module,
        forward: Any,
        autocast: Autocast,
        interrupted: Callable[[], bool],
        *,
        final: bool = False,
        progress: OnProgress = no_progress,
    ) -> Score | None:
        most_tokens = None if final else training.evaluate_tokens
        evaluation = replace(
            plain,
            is_final=final,
            most_tokens=most_tokens,
            autocast=autocast,
            interrupted=interrupted,
            progress=progress,
        )
        score = learning.judge(task, forward, parts[part], encoded[part], evaluation)
        if score is None or not final:
            return score
        return baselines.add_to(score, learning.known(task, parts[part], lambda: encoded[part]), interrupted)

    def settle(task: nn.Module, autocast: Autocast) -> bool:
        return learning.settle(task, parts["valid"], encoded["valid"], replace(plain, autocast=autocast))

    return Problem(
        task=task,
        vocabularies=vocabularies,
        batches=learning.batches(task, encoded["train"], training, seed),
        parts=tuple(part for part in parts if part != "train"),
        judge=judge,
        about=learning.describe(vocabularies, parts, encoded),
        identity=learning.identity(parts["train"], encoded["train"], training, seed),
        notes=(*start_notes, *config.data.encodings(), *notes.report(), *learning.remarks(task, parts, encoded)),
        settle=settle,
    )


def agreed_vocabularies(config: Config, learning: Learning[Any, Any], run: Path | None, train: Any) -> dict[str, Any]:
    """Return the vocabularies of the resumed run, or new ones. The first process loads or builds them and sends them to
    the others."""

    def as_json() -> str:
        vocabularies = load_vocabularies(run, config) if run is not None else new_vocabularies(config, learning, train)
        return json.dumps({role: vocabulary.to_json() for role, vocabulary in vocabularies.items()})

    texts = json.loads(from_first(as_json))
    return {role: vocabulary_types(config)[role].from_json(text) for role, text in texts.items()}


def new_vocabularies(config: Config, learning: Learning[Any, Any], train: Any) -> Mapping[str, Any]:
    """Return vocabularies built from the training part, or kept from a base run. A run that continues to train a
    translator has all vocabularies of that run."""
    if config.transfer.translator:
        return load_vocabularies(Path(str(config.transfer.source)), config)
    built = cached_vocabularies(
        config, learning.content(train), lambda: learning.vocabularies(train, RunTokenizers(config), config.task)
    )
    vocabularies = in_their_order(dict(built), config)
    if (source := config.embedding.source) is not None:
        vocabularies[CONTEXT] = BorrowedBody.of_run(Path(source))
    if has_encoder(config):
        vocabularies[ENCODER] = BorrowedBody.of_run(Path(str(config.transfer.source)))
        vocabularies["source"] = vocabularies[ENCODER].tokenizer
    return vocabularies
