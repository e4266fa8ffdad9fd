"""The problem of a masked language model: documents, encoded once, and of them examples that every epoch draws anew."""

from collections.abc import Callable
from dataclasses import astuple
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clew.core.batches import Batches, to_device
from clew.core.errors import UserError, counted
from clew.core.files import cache_folder
from clew.core.processes import first_alone, from_first, rank, sum_over_processes, world_size
from clew.data.documents import Documents
from clew.data.encoded_documents import EncodedDocuments
from clew.data.notes import Notes
from clew.data.plans import ExamplePlan, batches_by_length, bucket_plan, shuffled_plan
from clew.data.spans import Spans
from clew.metrics.guesses import Guessed
from clew.metrics.score import Score
from clew.runs.build import build_task
from clew.runs.config import Config
from clew.runs.documents import document_tokenizer, encode_parts, find_documents
from clew.runs.embedding import begin, check_embedding
from clew.runs.transfer import inherited_tokenizer, start_from
from clew.runs.vocabularies import TOKENIZER, load_vocabularies
from clew.tasks.masked_examples import EVALUATION, MaskedExamples
from clew.text.tokenizer import Tokenizer
from clew.training.baselines import Baselines
from clew.training.checkpoints import starts_anew
from clew.training.language import check_reach
from clew.training.parallel import gathered
from clew.training.problem import Autocast, Problem


def masked_problem(config: Config, run: Path | None, progress: Callable[[int, int], None]) -> Problem:
    """The tokenizer, trained by the first process or that of the run which is gone on with, every part as ids, and the task."""
    check_embedding(config)
    notes = Notes(faults=config.data.faults)
    sources: dict[str, Documents] = find_documents(config.data, notes)

    def tokenizer_json() -> str:
        if run is not None:
            return load_vocabularies(run, config)[TOKENIZER].to_json()
        return (inherited_tokenizer(config) or document_tokenizer(config.text, sources["train"])).to_json()

    tokenizer = Tokenizer.from_json(from_first(tokenizer_json))
    vocabularies = {TOKENIZER: tokenizer}
    task: Any = build_task(config, vocabularies)
    check_reach(config, task)
    parts: dict[str, EncodedDocuments] = first_alone(lambda: encode_parts(sources, tokenizer, cache_folder(), progress))
    length = config.training.length
    examples = {part: MaskedExamples(documents, task, length, to_train=part == "train") for part, documents in parts.items()}
    is_new = starts_anew(run)
    found = begin(task.body, config, vocabularies) if is_new else []
    found += start_from(task, config, run, is_new=is_new)
    baselines = Baselines("documents", lambda: token_counts(parts["train"], tokenizer))

    def judge(
        part: str, task: nn.Module, forward: Any, autocast: Autocast, interrupted: Callable[[], bool], *, final: bool = False
    ) -> Score | None:
        guessed = evaluate_masked(task, examples[part], config, autocast, interrupted)
        if guessed is None:
            return None
        score = score_of(guessed, tokenizer.unit)
        return baselines.beside(score, answers(examples[part]), interrupted) if final else score

    return Problem(
        task,
        vocabularies,
        masked_batches(examples["train"], config),
        tuple(part for part in parts if part != "train"),
        judge,
        describe(tokenizer, parts),
        identity(config, parts["train"]),
        (*found, *notes.report()),
    )


def masked_batches(examples: MaskedExamples, config: Config) -> Batches:
    """Batch b of epoch e: rows in random order, or of like length where `batch_tokens` says how much they may hold."""
    training, seed = config.training, config.seed

    @lru_cache(maxsize=2)
    def plan(epoch: int) -> tuple[Spans, ExamplePlan]:
        spans = examples.spans(seed, epoch)
        if training.batch_tokens is not None:
            return spans, bucket_plan(spans.lengths + examples.added, training.batch_tokens, seed, epoch)
        return spans, shuffled_plan(len(spans.firsts), training.batch_size, seed, epoch)

    def get(epoch: int, number: int) -> Any:
        spans, order = plan(epoch)
        return examples.batch(spans, order.rows(number), seed, epoch)

    return Batches(lambda epoch: plan(epoch)[1].num_batches, get)


@torch.no_grad()
def evaluate_masked(
    task: Any, examples: MaskedExamples, config: Config, autocast: Autocast, interrupted: Callable[[], bool] = lambda: False
) -> Guessed | None:
    """What is guessed of documents, each process taking its share of the batches; None where `interrupted` says to stop, which a process
    alone may do. The same places are masked every time."""
    spans = examples.spans(*EVALUATION)
    training = config.training
    budget = training.batch_tokens or (training.evaluate_batch or training.batch_size) * training.length
    batches = batches_by_length((spans.lengths + examples.added)[:, None], budget)
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    total = Guessed()
    try:
        with gathered(task):
            for rows in batches[rank() :: world_size()]:
                if interrupted() and world_size() == 1:
                    return None
                batch = to_device(examples.batch(spans, np.array(rows), *EVALUATION), device)
                with autocast():
                    total += task.guess(batch)
    finally:
        task.train(was_training)
    sums = sum_over_processes(torch.tensor(astuple(total), dtype=torch.float64)).tolist()
    if not sums[1]:
        raise UserError("no token of the text can be masked, all of them being unknown to the tokenizer; give another text")
    return Guessed(sums[0], int(sums[1]), int(sums[2]), sums[3], int(sums[4]), int(sums[5]))


def score_of(guessed: Guessed, unit: str) -> Score:
    return Score(guessed.measures(), guessed.loss, guessed.describe(unit))


def token_counts(documents: EncodedDocuments, tokenizer: Tokenizer) -> np.ndarray:
    """How often each token stands in documents."""
    counts = np.zeros(tokenizer.vocabulary, dtype=np.int64)
    for start in range(0, len(documents), 2**24):
        counts += np.bincount(documents.tokens[start : start + 2**24], minlength=tokenizer.vocabulary)
    return counts


def answers(examples: MaskedExamples) -> tuple[np.ndarray, np.ndarray | None]:
    """The tokens that are to be guessed in an evaluation, and which second texts are random."""
    spans = examples.spans(*EVALUATION)
    found = []
    for rows in np.array_split(np.arange(len(spans.firsts)), -(-len(spans.firsts) // 256)):
        targets = examples.batch(spans, rows, *EVALUATION).targets.numpy()
        found.append(targets[targets >= 0])
    return np.concatenate(found), spans.random


def identity(config: Config, documents: EncodedDocuments) -> dict[str, str]:
    training = config.training
    size = f"{training.batch_tokens:,} tokens" if training.batch_tokens is not None else f"{training.batch_size} rows"
    return {
        "training documents": f"{documents.num_documents:,} of {len(documents):,} tokens, {documents.digest[:8]}",
        "order of batches": f"batches of {size} of {training.length}, seed {config.seed}",
    }


def describe(tokenizer: Tokenizer, parts: dict[str, EncodedDocuments]) -> str:
    sizes = [f"{len(part):,} {name} ({counted(part.num_documents, 'document')})" for name, part in parts.items()]
    unknown = sum(part.num_unknown for part in parts.values())
    note = f"; {unknown:,} unknown" if unknown else ""
    return f"{tokenizer.vocabulary:,} {tokenizer.unit}s; {', '.join(sizes)} tokens{note}"
