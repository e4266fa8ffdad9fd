"""Laws of tasks: means are exact however a batch is split, and the results of an example do not depend on the others in
its batch.

A trial builds an entry's task over a small body, in float64, with vocabularies from small samples of its kind of data.
"""

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import cut_rows, map_batch, num_rows
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.data.caching.packing import Packer, Unpackable, Unpacker
from clew.data.caching.parts import gather
from clew.data.kinds.documents import DocumentsData
from clew.data.notes import Notes
from clew.laws.cases import TOLERANCE, Broken, Build, Law, Sizes
from clew.laws.samples import SAMPLES
from clew.models import MODELS
from clew.runs.asking import answer_rows, read_options
from clew.runs.build import build_task
from clew.runs.config import Config, resolve
from clew.runs.tokenizers import RunTokenizers
from clew.tasks import TASKS
from clew.tasks.entry import TaskEntry
from clew.tasks.learning import Encoding
from clew.tasks.learnings.examples import score_predictions

BODIES = {
    "encodes": "seq2seq",
    "trees": "tree_lstm",
    "graph": "graph_lstm",
    "directions": "elmo",
    "whole": "bert",
    "": "recurrent",
}
"""A family for each need of a task."""
CLOSE = 1e-6
"""The relative tolerance; tasks compute scores in float32."""


class TaskCase(NamedTuple):
    """A task with its entry, config and a batch; and its examples with their encodings, if it learns from examples."""

    entry: TaskEntry
    config: Config
    task: Any
    batch: Any
    examples: Sequence[Any] = ()
    encoded: Sequence[Any] = ()


def build_task_case(entry: TaskEntry, sizes: Sizes) -> TaskCase:
    """Build an entry's task over a body of width 2 `dim`, and a batch of at least two rows."""
    learning = entry.learns
    if learning.section not in SAMPLES:
        name = learning.section.__name__
        raise UserError(f"there are no samples for its kind of data; add some as SAMPLES[{name}] in clew.laws.samples")
    rows = max(sizes.batch + 1, 2)
    family = next(BODIES[need] for need in (*entry.needs, *entry.gives, "") if need in BODIES)
    small = {
        "dim": 2 * sizes.dim,
        "embedding_dim": 2 * sizes.dim,
        "num_layers": 1,
        "num_heads": 2,
        "dropout": 0.0,
        "max_length": 64,
    }
    fields = MODELS[family].config.model_fields
    model = {"family": family, **{name: value for name, value in small.items() if name in fields}}
    with in_table(entry):
        config = resolve(
            {
                "recipe": "law",
                "seed": sizes.seed + 1,
                "model": model,
                "task": {"name": entry.config().name},
                "text": {"tokenizer": "wordpiece" if learning.section is DocumentsData else "word"},
                "training": {"batch_size": rows, "length": 8},
                "decoding": {"method": "greedy", "max_new": 20},
            }
        )
        part = SAMPLES[learning.section]
        if not learning.has_examples:
            part = learning.read_files([part], config.data, Notes())
        vocabularies = learning.vocabularies(part, RunTokenizers(config), config.task)
        task: Any = build_task(config, vocabularies, to_train=False).double()
        with TemporaryDirectory() as cache:
            encoded = learning.encode(task, part, Encoding("train", config.training, to_train=True, cache=Path(cache)))
            learning.prepare(task, encoded)
            if learning.has_examples:
                return TaskCase(entry, config, task, collated(task, encoded[:rows]), part[:rows], encoded[:rows])
            return TaskCase(
                entry, config, task, learning.batches(task, encoded, config.training, config.seed).get(0, 0)
            )


@contextmanager
def in_table(entry: TaskEntry) -> Iterator[None]:
    """Put the entry into TASKS under its own name within the context."""
    name = entry.config().name
    before = TASKS.get(name)
    TASKS[name] = entry
    try:
        yield
    finally:
        if before is None:
            del TASKS[name]
        else:
            TASKS[name] = before


def collated(task: Any, encoded: Sequence[Any]) -> Any:
    """Return a batch with floats in float64, like the task's weights."""
    return map_batch(lambda part: part.double() if part.is_floating_point() else part, task.collate(encoded))


def terms_of(task: Any, batch: Any) -> dict[str, tuple[Tensor, Tensor]]:
    return {name: (term.sum.detach(), term.count.double()) for name, term in task(batch, None)[0].items()}


def counts_agree(build: Build, sizes: Sizes) -> None:
    """`counts(batch)` equals the counts of the loss terms."""
    case = build(sizes)
    counts, terms = case.task.counts(case.batch), terms_of(case.task, case.batch)
    if counts.keys() != terms.keys():
        raise Broken("counts", f"counts has {sorted(counts)}, and forward the terms {sorted(terms)}", sizes)
    for name, (_, count) in terms.items():
        if float(count) != float(counts[name]):
            raise Broken(
                "counts", f"counts['{name}'] is {float(counts[name]):g}, and the term's count {float(count):g}", sizes
            )


def exact_means(build: Build, sizes: Sizes) -> None:
    """The sums and counts of the parts of a split batch add up to those of the whole."""
    case = build(sizes)
    with evaluating([case.task]):
        parts = [terms_of(case.task, part) for part in cut_rows(case.batch, num_rows(case.batch))]
        for name, (total, count) in terms_of(case.task, case.batch).items():
            differ(
                "exact means",
                f"the sum of '{name}'",
                total,
                torch.stack([part[name][0] for part in parts]).sum(),
                sizes,
            )
            differ(
                "exact means",
                f"the count of '{name}'",
                count,
                torch.stack([part[name][1] for part in parts]).sum(),
                sizes,
            )


def padding(build: Build, sizes: Sizes) -> None:
    """An example has the same loss alone, without padding, as in a batch with longer ones."""
    case = build(sizes)
    with evaluating([case.task]):
        together = terms_of(case.task, case.batch)
        alone = [terms_of(case.task, collated(case.task, [each])) for each in case.encoded]
    for name, (total, _) in together.items():
        differ("padding", f"the sum of '{name}'", total, torch.stack([one[name][0] for one in alone]).sum(), sizes)


def batched_is_single(build: Build, sizes: Sizes) -> None:
    """An example has the same prediction alone and in a batch."""
    case = build(sizes)
    with evaluating([case.task]):
        together = case.task.predict(case.batch, case.config.decoding, 0, range(1, len(case.encoded) + 1))
        alone = [
            case.task.predict(collated(case.task, [each]), case.config.decoding, 0, [number])[0]
            for number, each in enumerate(case.encoded, start=1)
        ]
    for number, (one, other) in enumerate(zip(together, alone, strict=True), start=1):
        if not same(one, other):
            raise Broken(
                "batched is single",
                f"the prediction for example {number} is {one!r} in a batch and {other!r} alone",
                sizes,
            )


def json_survives(build: Build, sizes: Sizes) -> None:
    """Predictions give the same metrics after a round trip through JSON, and answers are JSON objects."""
    case = build(sizes)
    task, entry = case.task, case.entry
    with evaluating([task]):
        predictions = task.predict(case.batch, case.config.decoding, 0, range(1, len(case.encoded) + 1))
    again = json.loads(in_json(predictions, "predictions", sizes))
    first, second = task.measure(case.examples, predictions).values, task.measure(case.examples, again).values
    if not same(first, second):
        raise Broken("json", f"the predictions have the metrics {first}, and after JSON {second}", sizes)
    for verb, use in entry.uses.items():
        if use.watch is None or use.watch.row_of is None:
            continue
        rows = [row for example in case.examples if (row := use.watch.row_of(example)) is not None]
        options = read_options(use, case.config, {})
        for number, (row, answer) in enumerate(
            zip(rows, answer_rows(use, [task], rows, options), strict=True), start=1
        ):
            answered = use.objects(number, row, answer, options)
            if not same(json.loads(in_json(answered, f"the answer of {verb}", sizes)), answered):
                raise Broken("json", f"the answer of {verb} for example {number} changes in JSON: {answered!r}", sizes)


def best_is_measured(build: Build, sizes: Sizes) -> None:
    """The measure `best`, which selects the best evaluation, is one of those that an evaluation returns."""
    case = build(sizes)
    with evaluating([case.task]):
        predictions = case.task.predict(case.batch, case.config.decoding, 0, range(1, len(case.encoded) + 1))
    try:
        score_predictions(case.task, case.examples, predictions, 0.0, is_final=False)
    except UserError as error:
        raise Broken("best", str(error), sizes) from None


def kept_on_disk(build: Build, sizes: Sizes) -> None:
    """Examples survive a round trip to disk, and each has the same encoding alone and with others. Kinds whose examples
    hold more than strings and numbers are skipped."""
    case = build(sizes)
    with TemporaryDirectory() as cache, suppress(Unpackable):
        again = list(gather(case.examples, large=0, cache=Path(cache)))
        packer, unpacked = Packer(), []
        for number, (example, read, encoded) in enumerate(
            zip(case.examples, again, case.encoded, strict=True), start=1
        ):
            if packer.pack(example) != packer.pack(read):
                raise Broken(
                    "on disk", f"example {number} is {read!r} after it was stored and {example!r} before", sizes
                )
            alone, together = (packer.pack(each) for each in (case.task.encode([read])[0], encoded))
            unpacked.append(Unpacker(packer.classes).unpack(together))
            if alone != together:
                raise Broken(
                    "on disk", f"example {number} has other ids when it is encoded alone than with others", sizes
                )
        with evaluating([case.task]):
            first, second = (terms_of(case.task, collated(case.task, each)) for each in (case.encoded, unpacked))
        for name, (total, _) in first.items():
            differ("on disk", f"the sum of '{name}'", total, second[name][0], sizes)


def in_json(value: Any, what: str, sizes: Sizes) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Broken("json", f"{what} cannot be written as JSON: {error}", sizes) from None


def differ(law: str, what: str, one: Tensor, other: Tensor, sizes: Sizes) -> None:
    gap = float((one - other).abs())
    if not gap <= max(TOLERANCE, CLOSE * float(one.abs())):
        raise Broken(law, f"{what} is {float(one):.10g} in one batch and {float(other):.10g} in parts", sizes)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal, with numbers up to rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


BATCH_LAWS: dict[str, Law] = {"counts": counts_agree, "exact means": exact_means}
"""Laws of all tasks."""
EXAMPLE_LAWS: dict[str, Law] = {
    "padding": padding,
    "batched is single": batched_is_single,
    "json": json_survives,
    "best": best_is_measured,
    "on disk": kept_on_disk,
}
"""Additional laws of tasks that learn from examples."""
