"""The problem of a task that learns from examples: each is encoded once, examples of like length share a batch.

What it asks of a task, besides the loop's forward and counts: `encode(examples)`, `lengths(encoded)`, `longest`, `check_length`,
`collate(encoded)`, `predict(batch, decoding, seed, row_numbers)`, `measure(examples, predictions)`, `best`, the measure that the best
evaluation is told by, and whether it `writes` tokens; of the last evaluation `intervals`, `report` and `sentence_scores` of examples and
predictions, and `described(example, prediction)`.
"""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clew.core.batches import Batches, to_device
from clew.core.errors import UserError, counted
from clew.core.processes import from_all, from_first, rank, sum_over_processes, world_size
from clew.data.example_splits import find_overlaps
from clew.data.notes import Notes
from clew.data.plans import ExamplePlan, batches_by_length, bucket_plan, shuffled_plan
from clew.metrics.measures import in_words, named
from clew.metrics.score import Score
from clew.runs.build import build_task, train_side
from clew.runs.config import Config
from clew.runs.embedding import CONTEXT, Source, begin, check_embedding, knowing
from clew.runs.examples import read_examples
from clew.runs.transfer import ENCODER, has_encoder, in_their_order, inherited_tokenizer, start_from
from clew.runs.vocabularies import kinds_of, load_vocabularies
from clew.tasks import TASKS
from clew.tasks.entry import TaskEntry
from clew.tasks.writing import DecodingConfig
from clew.training.baselines import Baselines, baselines_of
from clew.training.checkpoints import starts_anew
from clew.training.parallel import gathered
from clew.training.problem import Autocast, Problem

TIE = 1e-7
"""What the loss counts beside the measure that the best evaluation is told by: it decides between equals alone."""
GREEDY = {"method": "greedy", "temperature": 1.0, "top_k": None, "top_p": None}


def example_problem(config: Config, run: Path | None, progress: Callable[[int, int], None]) -> Problem:
    """The vocabularies, trained by the first process or those of the run which is gone on with, every part as ids, and the task."""
    kind: TaskEntry = TASKS[config.task.name]
    check_settings(config)
    check_embedding(config)
    notes = Notes(faults=config.data.faults)
    parts = read_examples(kind.data, config.data, config.seed, notes)
    vocabularies = agreed_vocabularies(config, kind, run, parts["train"])
    task: Any = build_task(config, vocabularies)
    is_new = starts_anew(run)
    found = begin(task.body, config, vocabularies) if is_new else []
    found += start_from(task, config, run, is_new=is_new)
    encoded = {part: task.encode(examples) for part, examples in parts.items()}
    if is_new:
        task.prepare(encoded["train"])
    for part in parts.keys() - {"train"}:
        for example, ids in zip(parts[part], encoded[part], strict=True):
            task.check_length(ids, example.id)
    lengths = lengths_of(task, encoded["train"])
    fitting = np.flatnonzero(lengths.max(1) <= task.longest)
    if not len(fitting):
        remedy = "raise task.longest" if task.longest == config.task.longest else "raise model.max_length, or take another model.position"  # type: ignore[attr-defined]
        raise UserError(
            f"none of the {len(lengths):,} training examples has at most {task.longest} tokens on a side, the end among them; {remedy}"
        )

    @lru_cache(maxsize=2)
    def plan(epoch: int) -> ExamplePlan:
        if config.training.batch_tokens is not None:
            return bucket_plan(lengths[fitting], config.training.batch_tokens, config.seed, epoch)
        return shuffled_plan(len(fitting), config.training.batch_size, config.seed, epoch)

    def get(epoch: int, number: int) -> Any:
        return task.collate([encoded["train"][row] for row in fitting[plan(epoch).rows(number)]])

    baselines = baselines_of(config, lambda: parts["train"])

    def judge(
        part: str, task: nn.Module, forward: Any, autocast: Autocast, interrupted: Callable[[], bool], *, final: bool = False
    ) -> Score | None:
        decoding = config.decoding if final else config.decoding.model_copy(update=GREEDY)
        found = (parts[part], encoded[part])
        score = judge_examples(task, forward, *found, evaluation_budget(config), decoding, autocast, config.seed, interrupted, final)
        return baselines.beside(score, parts[part], interrupted) if final and score is not None else score

    def settle(task: Any, autocast: Autocast) -> bool:
        rows = batches_by_length(lengths_of(task, encoded["valid"]), evaluation_budget(config))
        device = next(task.parameters()).device
        with autocast():
            return task.settle(
                ([parts["valid"][row] for row in some], to_device(task.collate([encoded["valid"][row] for row in some]), device))
                for some in rows
            )

    notes_to_show = [*found, *notes.report(), *map(str, find_overlaps(parts))]
    if left_out := len(lengths) - len(fitting):
        first = parts["train"][int(np.argmax(lengths.max(1) > task.longest))].id
        notes_to_show.append(
            f"left out {counted(left_out, 'training example')} of more than {task.longest} tokens on a side (first: {first})"
        )
    return Problem(
        task,
        vocabularies,
        Batches(lambda epoch: plan(epoch).num_batches, get),
        tuple(part for part in parts if part != "train"),
        judge,
        describe(vocabularies, parts),
        identity(config, parts["train"]),
        tuple(notes_to_show),
        settle,
    )


def agreed_vocabularies(config: Config, kind: TaskEntry, run: Path | None, train: Sequence[Any]) -> dict[str, Any]:
    """Those of the run that is gone on with, or trained by the first process and told to the others."""

    def as_json() -> str:
        if run is not None or config.transfer.translator:
            found = load_vocabularies(run or Path(str(config.transfer.source)), config)
        else:
            assert kind.train_vocabularies is not None
            found = kind.train_vocabularies(
                lambda texts, specials: inherited_tokenizer(config) or knowing(train_side(config.text, texts, specials), config),
                config.text.joint,
                train,
                config.task,
            )
            found = in_their_order(found, config)
            if (source := config.embedding.source) is not None:
                found[CONTEXT] = Source.of_run(Path(source))
            if has_encoder(config):
                found[ENCODER] = Source.of_run(Path(str(config.transfer.source)))
                found["source"] = found[ENCODER].tokenizer
        return json.dumps({role: vocabulary.to_json() for role, vocabulary in found.items()})

    texts = json.loads(from_first(as_json))
    return {role: kinds_of(config)[role].from_json(text) for role, text in texts.items()}


def evaluate_examples(task: Any, examples: Sequence[Any], config: Config, baselines: Baselines) -> Score:
    """The score of examples by a trained task, decoding as the config says, and the baselines'; those too long for it are refused."""
    encoded = task.encode(examples)
    for example, ids in zip(examples, encoded, strict=True):
        task.check_length(ids, example.id)
    found = judge_examples(
        task, task, examples, encoded, evaluation_budget(config), config.decoding, nullcontext, config.seed, is_final=True
    )
    assert found is not None
    return baselines.beside(found, examples) or found


@torch.no_grad()
def judge_examples(
    task: Any,
    forward: Any,
    examples: Sequence[Any],
    encoded: Sequence[Any],
    budget: int,
    decoding: DecodingConfig,
    autocast: Autocast,
    seed: int,
    interrupted: Callable[[], bool] = lambda: False,
    is_final: bool = False,
) -> Score | None:
    """The loss, and what the task measures of its predictions, all of them together; every process predicts its share of the batches."""
    batches = batches_by_length(lengths_of(task, encoded), budget)
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    totals = torch.zeros(2, dtype=torch.float64)  # loss and targets
    mine: list[tuple[int, Any]] = []
    try:
        with gathered(task):
            for rows in batches[rank() :: world_size()]:
                if interrupted() and world_size() == 1:
                    return None
                batch = to_device(task.collate([encoded[row] for row in rows]), device)
                with autocast():
                    loss = forward(batch, None)[0]["loss"]
                    mine += zip(rows, task.predict(batch, decoding, seed, [row + 1 for row in rows]), strict=True)
                totals += torch.tensor([float(loss.sum), float(loss.count)], dtype=torch.float64)
    finally:
        task.train(was_training)
    nats, count = sum_over_processes(totals).tolist()
    found: dict[int, Any] = dict(pair for text in from_all(json.dumps(mine)) for pair in json.loads(text))
    return score_of(task, examples, [found[row] for row in range(len(examples))], nats / (count or 1), is_final)


def score_of(task: Any, examples: Sequence[Any], predictions: Sequence[Any], loss: float, is_final: bool) -> Score:
    measured = task.measure(examples, predictions)
    values, text = {"loss": loss}, f"loss {loss:.4f}"
    if task.writes:
        values["perplexity"] = math.exp(min(loss, 700.0))
        text += f", perplexity {values['perplexity']:.2f} per target token"
    values |= measured.values
    words = measured.text if is_final else in_words(measured.values)
    text += f", {words}" if words else ""
    best = task.best
    value = loss if best == "loss" else -values[best] + TIE * min(loss, 100.0)
    if not is_final:
        return Score(values, value, text)
    ids = [example.id for example in examples]
    described = [task.described(example, prediction) for example, prediction in zip(examples, predictions, strict=True)]
    scores = task.sentence_scores(examples, predictions)
    intervals = task.intervals(examples, predictions)
    if intervals:
        found = ", ".join(f"{named(name)} {interval.low:.2f} to {interval.high:.2f}" for name, interval in intervals.items())
        text += f"; 95 % intervals: {found}"
    report = task.report(examples, predictions)
    return Score(values, value, text, dict(zip(ids, scores, strict=True)), dict(zip(ids, described, strict=True)), intervals, report)


def lengths_of(task: Any, encoded: Sequence[Any]) -> np.ndarray:
    """How many places each side of every example takes, (examples, sides)."""
    return np.array([task.lengths(example) for example in encoded]).reshape(len(encoded), -1)


def evaluation_budget(config: Config) -> int:
    """Places in a batch when a part is scored, both sides and padding counted: more than in training, as no gradient is kept."""
    training = config.training
    return (training.batch_tokens or (training.evaluate_batch or training.batch_size) * 64) * 4


def check_settings(config: Config) -> None:
    training = config.training
    if training.batching == "streams":
        raise UserError(
            "training.batching=streams carries a state through one text; a task that learns from examples has none, leave it out"
        )


def describe(vocabularies: dict[str, Any], parts: dict[str, Sequence[Any]]) -> str:
    hashes = {vocabulary.hash for vocabulary in vocabularies.values()}
    sizes = [f"{vocabulary.vocabulary:,} {vocabulary.unit}s ({role})" for role, vocabulary in vocabularies.items()]
    words = sizes if len(hashes) == len(sizes) else [sizes[0].replace("(source)", "(source and target)")]
    counts = ", ".join(f"{len(examples):,} {part}" for part, examples in parts.items())
    return f"{', '.join(words)}; {counts} examples"


def identity(config: Config, train: Sequence[Any]) -> dict[str, str]:
    digest = hashlib.sha256()
    for example in train:
        digest.update(repr(tuple(example._replace(id=""))).encode("utf-8", "surrogatepass"))
    training = config.training
    size = f"{training.batch_tokens:,} tokens" if training.batch_tokens is not None else f"{training.batch_size} examples"
    return {
        "training examples": f"{len(train):,}, {digest.hexdigest()[:8]}",
        "order of batches": f"batches of {size}, seed {config.seed}",
    }
