"""Learning from documents that are encoded once. Masked examples are drawn from them again in every epoch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from clew.baselines.guess_baselines import KnownDocuments
from clew.core.batches import Batches, rows_of, to_device
from clew.core.config import TaskSection
from clew.core.errors import UserError, counted
from clew.core.identity import Known
from clew.core.processes import first_alone, rank, sum_over_processes, world_size
from clew.data.caching.encoded_documents import EncodedDocuments, encode_documents
from clew.data.documents import Documents, joined, measure_documents, plain_lines
from clew.data.files.measures import cacheable_digest
from clew.data.files.text_files import TextString
from clew.data.kinds.documents import DocumentsData, documents_named, find_documents
from clew.data.notes import Notes
from clew.data.plans import ExamplePlan, batches_by_length, bucket_plan, shuffled_plan
from clew.data.spans import Spans
from clew.metrics.guesses import Guessed
from clew.metrics.score import Score
from clew.tasks.learning import Batching, Encoding, Evaluation, Learning, PartFiles, Tokenizers
from clew.tasks.learnings.masked_examples import EVALUATION, MaskedExamples
from clew.tasks.learnings.streams import TOKENIZER, check_reach
from clew.text.tokenizer import Tokenizer


class MaskedDocuments(Learning[Documents, MaskedExamples]):
    """Masked language modelling on documents. A task provides its `tokenizer`, its `config` and `guess(batch)`."""

    section = DocumentsData
    reads = "documents"

    def read(self, data: DocumentsData, seed: int, notes: Notes) -> dict[str, Documents]:
        return find_documents(data, notes)

    def read_files(self, files: PartFiles, data: DocumentsData, notes: Notes) -> Documents:
        """Read documents from files; the format of each file is detected."""
        data = data.model_copy(update={"format": None})
        return joined(
            [
                standard_input_documents(file) if isinstance(file, TextString) else documents_named(data, file, notes)
                for file in files
            ]
        )

    def check(self, task: Any, training: Batching) -> None:
        check_reach(task, training)

    def content(self, part: Documents) -> str | None:
        return cacheable_digest(part, measure_documents)

    def vocabularies(self, train: Documents, tokenizers: Tokenizers, task: TaskSection) -> dict[str, Tokenizer]:
        return {TOKENIZER: tokenizers.of_text(train, framed=True)}

    def encode(self, task: Any, part: Documents, encoding: Encoding) -> MaskedExamples:
        documents = first_alone(lambda: encode_documents(part, task.tokenizer, encoding.cache, encoding.progress))
        return MaskedExamples(documents, task, encoding.training.length, to_train=encoding.to_train)

    def batches(self, task: Any, encoded: MaskedExamples, training: Batching, seed: int) -> Batches:
        """Return batches of rows in random order, or of similar length if `batch_tokens` limits their size."""

        @lru_cache(maxsize=2)
        def plan(epoch: int) -> tuple[Spans, ExamplePlan]:
            spans = encoded.spans(seed, epoch)
            if training.batch_tokens is not None:
                return spans, bucket_plan(spans.lengths + encoded.added, training.batch_tokens, seed, epoch)
            return spans, shuffled_plan(len(spans.firsts), training.batch_size, seed, epoch)

        def get(epoch: int, number: int) -> Any:
            spans, order = plan(epoch)
            return encoded.batch(spans, order.rows(number), seed, epoch)

        def own(epoch: int, number: int, part: int, parts: int) -> Any:
            spans, order = plan(epoch)
            rows, size = order.own_rows(number, part, parts, spans.lengths)
            return rows_of(encoded.batch(spans, rows, seed, epoch), slice(0, size))

        return Batches(lambda epoch: plan(epoch)[1].num_batches, get, own)

    def judge(
        self, task: Any, forward: Any, part: Documents, encoded: MaskedExamples, evaluation: Evaluation
    ) -> Score | None:
        guesses = guess_all(task, encoded, evaluation)
        if guesses is None:
            return None
        unit = task.tokenizer.unit
        return Score(guesses.measures(), guesses.loss, guesses.describe(unit), size={"unit": unit})

    def known(self, task: Any, part: Documents, encoded: Callable[[], MaskedExamples]) -> KnownDocuments:
        return KnownDocuments(lambda: token_counts(encoded().documents, task.tokenizer), lambda: answers(encoded()))

    def identity(self, part: Documents, encoded: MaskedExamples, training: Batching, seed: int) -> dict[str, Known]:
        documents = encoded.documents
        about = {"documents": documents.num_documents, "tokens": len(documents), "digest": documents.digest}
        size = (
            f"{training.batch_tokens:,} tokens" if training.batch_tokens is not None else f"{training.batch_size} rows"
        )
        order: dict[str, Any] = {"pairing": encoded.pairing} if encoded.is_paired else {}
        order |= (
            {"batch_tokens": training.batch_tokens}
            if training.batch_tokens is not None
            else {"batch_size": training.batch_size}
        )
        return {
            "training documents": Known(
                about, f"{documents.num_documents:,} of {len(documents):,} tokens, {documents.digest[:8]}"
            ),
            "order of batches": Known(
                {**order, "length": training.length, "seed": seed},
                f"batches of {size} of {training.length}, seed {seed}",
            ),
        }

    def describe(
        self, vocabularies: Mapping[str, Any], parts: Mapping[str, Documents], encoded: Mapping[str, MaskedExamples]
    ) -> str:
        tokenizer: Tokenizer = vocabularies[TOKENIZER]
        documents = {name: examples.documents for name, examples in encoded.items()}
        sizes = [
            f"{len(part):,} {name} ({counted(part.num_documents, 'document')})" for name, part in documents.items()
        ]
        unknown = sum(part.num_unknown for part in documents.values())
        note = f"; {unknown:,} unknown" if unknown else ""
        return f"{tokenizer.vocabulary:,} {tokenizer.unit}s; {', '.join(sizes)} tokens{note}"

    def lines(self, part: Documents) -> Iterator[str]:
        return iter(part)


def standard_input_documents(text: TextString) -> Documents:
    """Return the documents of a text that was not read from a file."""
    lines = text.text.split("\n")
    return Documents("standard input", lambda: plain_lines(lines))


@torch.no_grad()
def guess_all(task: Any, examples: MaskedExamples, evaluation: Evaluation) -> Guessed | None:
    """Evaluate the guesses on documents, each process on its share of the batches. Return None if interrupted. The
    same tokens are masked every time."""
    spans = examples.spans(*EVALUATION)
    training = evaluation.training
    budget = training.batch_tokens or (training.evaluate_batch or training.batch_size) * training.length
    batches = batches_by_length((spans.lengths + examples.added)[:, None], budget)
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    total = Guessed()
    try:
        with evaluation.whole(task):
            own = batches[rank() :: world_size()]
            for done, rows in enumerate(own, start=1):
                if evaluation.interrupted() and world_size() == 1:
                    return None
                batch = to_device(examples.batch(spans, np.array(rows), *EVALUATION), device)
                with evaluation.autocast():
                    total += task.guess(batch)
                evaluation.progress(done, len(own))
    finally:
        task.train(was_training)
    sums = sum_over_processes(torch.tensor(astuple(total), dtype=torch.float64)).tolist()
    if not sums[1]:
        raise UserError(
            "no token of the text can be masked, because the tokenizer knows none of them; give another text"
        )
    return Guessed(sums[0], int(sums[1]), int(sums[2]), sums[3], int(sums[4]), int(sums[5]))


def token_counts(documents: EncodedDocuments, tokenizer: Tokenizer) -> np.ndarray:
    """Count how often each token occurs in documents."""
    counts = np.zeros(tokenizer.vocabulary, dtype=np.int64)
    for start in range(0, len(documents), 2**24):
        counts += np.bincount(documents.tokens[start : start + 2**24], minlength=tokenizer.vocabulary)
    return counts


def answers(examples: MaskedExamples) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the masked tokens of an evaluation, and which second texts are random."""
    spans = examples.spans(*EVALUATION)
    targets = []
    for rows in np.array_split(np.arange(len(spans.firsts)), -(-len(spans.firsts) // 256)):
        batch_targets = examples.batch(spans, rows, *EVALUATION).targets.numpy()
        targets.append(batch_targets[batch_targets >= 0])
    return np.concatenate(targets), spans.random
