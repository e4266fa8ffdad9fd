"""Learning from one text that is encoded once, and read in windows or in streams whose state is carried."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clew.baselines.text_baselines import KnownText
from clew.core.batches import Batches, to_device
from clew.core.config import TaskSection
from clew.core.errors import UserError, counted
from clew.core.identity import Known
from clew.core.processes import first_alone, rows_of_process, sum_over_processes, world_size
from clew.data.caching.encoded import TokenFile, encode_corpus
from clew.data.files.measures import cacheable_digest
from clew.data.files.text_files import TextSource, text_lines
from clew.data.kinds.text import TextData, find_own_text, find_streamed, find_texts
from clew.data.notes import Notes
from clew.data.plans import (
    Plan,
    TokenBatch,
    stream_evaluation_plan,
    stream_plan,
    varied_stream_plan,
    window_evaluation_plan,
    window_plan,
)
from clew.data.streams.text_streams import TextStream
from clew.layers.attention import SelfAttention
from clew.metrics.perplexity import Likelihood
from clew.metrics.score import Score
from clew.tasks.learning import Autocast, Batching, Encoding, Evaluation, Learning, PartFiles, Tokenizers
from clew.tasks.learnings.streamed import StreamedBatches, StreamedText
from clew.text.tokenizer import Tokenizer

TOKENIZER = "tokenizer"
"""The role of the only tokenizer."""


class Streams(Learning[TextSource, TokenFile | StreamedText]):
    """Prediction of every token of one text. The training part may be a `TextStream`, which is encoded as it is read.

    A task provides its `tokenizer`; if it predicts fewer tokens than it reads, also `named(tokens)` and their number,
    `predicted`.
    """

    section = TextData
    reads = "text"
    is_running = True
    can_cap = True

    def read(self, data: TextData, seed: int, notes: Notes) -> dict[str, TextSource]:
        return find_streamed(data) if data.stream else find_texts(data)

    def read_files(self, files: PartFiles, data: TextData, notes: Notes) -> TextSource:
        if len(files) != 1:
            raise UserError(f"a language model is evaluated on one text at a time, not on {len(files)}; give one file")
        return find_own_text(files[0], data) if isinstance(files[0], (Path, str)) else files[0]

    def check(self, task: Any, training: Batching) -> None:
        check_reach(task, training)

    def content(self, part: TextSource) -> str | None:
        return None if isinstance(part, TextStream) else cacheable_digest(part)

    def vocabularies(self, train: TextSource, tokenizers: Tokenizers, task: TaskSection) -> dict[str, Tokenizer]:
        """Train the tokenizer, for a stream on its beginning."""
        return {TOKENIZER: tokenizers.of_stream(train) if isinstance(train, TextStream) else tokenizers.of_text(train)}

    def encode(self, task: Any, part: TextSource, encoding: Encoding) -> TokenFile | StreamedText:
        """Encode a text, with separate documents if `training.documents` is `apart`; refuse a text too short to predict
        anything."""
        if isinstance(part, TextStream):
            return StreamedText(
                part, task.tokenizer, encoding.cache, encoding.workers, encoding.training.documents == "apart"
            )
        text: TokenFile = first_alone(
            lambda: encode_corpus(part, task.tokenizer, encoding.cache, encoding.progress, encoding.workers)
        )
        if len(text) < 2:
            raise UserError(
                f"{part}: the {encoding.name} part needs at least 2 tokens, one to read and one to predict; give more"
                " text, or change data.valid_fraction or data.test_fraction"
            )
        return replace(text, apart=True) if encoding.training.documents == "apart" else text

    def batches(self, task: Any, encoded: TokenFile | StreamedText, training: Batching, seed: int) -> Batches:
        if isinstance(encoded, StreamedText):
            streamed = StreamedBatches(encoded, lambda text, seed: text_batches(text, training, seed), training, seed)
            streamed.check()
            return streamed
        batches = text_batches(encoded, training, seed)
        batches.per_epoch(0)  # raises an error if the text is too short for one batch
        return batches

    def judge(
        self, task: Any, forward: Any, part: TextSource, encoded: TokenFile | StreamedText, evaluation: Evaluation
    ) -> Score | None:
        assert isinstance(encoded, TokenFile), "only the training part is a stream"
        likelihood = evaluate(
            task,
            encoded,
            evaluation.training,
            forward=forward,
            autocast=evaluation.autocast,
            interrupted=evaluation.interrupted,
            progress=evaluation.progress,
            most_tokens=evaluation.most_tokens,
        )
        return None if likelihood is None else score_likelihood(likelihood, task.tokenizer.unit)

    def known(self, task: Any, part: TextSource, encoded: Callable[[], TokenFile | StreamedText]) -> KnownText:
        def tokens() -> TokenFile:
            text = encoded()
            if isinstance(text, StreamedText):  # baselines are only computed for short streams
                text = encode_corpus(text.stream, text.tokenizer, text.cache)
            return as_predicted(task, text)

        return KnownText(part, tokens, getattr(task, "predicted", task.tokenizer.vocabulary))

    def identity(
        self, part: TextSource, encoded: TokenFile | StreamedText, training: Batching, seed: int
    ) -> dict[str, Known]:
        order = {
            name: getattr(training, name) for name in ("batching", "vary_length", "documents", "batch_size", "length")
        }
        words = describe_order(training, seed)
        if isinstance(encoded, StreamedText):
            stream = encoded.stream
            order |= {"shuffle_window": stream.shuffle_window}
            words += f", shuffled among {counted(stream.shuffle_window, 'document')}"
            text = Known(stream.facts, stream.described)
        else:
            text = Known({"tokens": len(encoded), "key": encoded.key}, f"{len(encoded):,} tokens, {encoded.key[:8]}")
        return {"training text": text, "order of batches": Known({**order, "seed": seed}, words)}

    def describe(
        self,
        vocabularies: Mapping[str, Any],
        parts: Mapping[str, TextSource],
        encoded: Mapping[str, TokenFile | StreamedText],
    ) -> str:
        tokenizer: Tokenizer = vocabularies[TOKENIZER]
        streams = [
            f"a stream of {text.stream.described}" for text in encoded.values() if isinstance(text, StreamedText)
        ]
        whole = {name: text for name, text in encoded.items() if isinstance(text, TokenFile)}
        sizes = ", ".join([*streams, *(f"{len(text):,} {name}" for name, text in whole.items())])
        unknown = sum(text.num_unknown for name, text in whole.items() if name != "train")
        note = f"; {unknown:,} unknown outside the training part" if unknown else ""
        return f"{tokenizer.vocabulary:,} {tokenizer.unit}s; {sizes} tokens{note}"

    def remarks(
        self, task: Any, parts: Mapping[str, TextSource], encoded: Mapping[str, TokenFile | StreamedText]
    ) -> list[str]:
        train = parts["train"]
        return [*train.notes] if isinstance(train, TextStream) else []

    def lines(self, part: TextSource) -> Iterator[str]:
        return text_lines(part)


def text_batches(text: TokenFile, training: Batching, seed: int) -> Batches:
    """Return the batches of a text."""

    @lru_cache(maxsize=2)
    def plan(epoch: int) -> Plan:
        if training.vary_length:
            return varied_stream_plan(len(text), training.batch_size, training.length, seed, epoch)
        if training.batching == "streams":
            return stream_plan(len(text), training.batch_size, training.length)
        return window_plan(len(text), training.length, training.batch_size, seed, epoch)

    def own(epoch: int, number: int, part: int, parts: int) -> TokenBatch:
        return plan(epoch).batch(text.tokens, number, apart=text.apart, part=part, parts=parts)

    return Batches(lambda epoch: plan(epoch).num_batches, lambda epoch, number: own(epoch, number, 0, 1), own)


def describe_order(training: Batching, seed: int) -> str:
    kind = f"{'varied ' if training.vary_length else ''}{training.batching}"
    kind += ", documents apart," if training.documents == "apart" else ""
    return f"{kind} of {training.batch_size} x {training.length}, seed {seed}"


def evaluation_plan(num_tokens: int, training: Batching) -> Plan:
    """Return the plan of an evaluation. As in training, streams carry their state and windows do not."""
    batch_size = training.evaluate_batch or training.batch_size
    if training.batching == "streams":
        return stream_evaluation_plan(num_tokens, batch_size, training.length)
    return window_evaluation_plan(num_tokens, training.length, batch_size)


@torch.no_grad()
def evaluate(
    task: Any,
    text: TokenFile,
    training: Batching,
    *,
    forward: Callable[..., Any] | None = None,
    autocast: Autocast = nullcontext,
    interrupted: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    most_tokens: int | None = None,
) -> Likelihood | None:
    """Return the likelihood of the whole text. Each process reads its share of every batch's rows.

    The result is None if `interrupted` asks to stop, which only a single process can do. `forward` is the task, or
    its compiled form. With `most_tokens`, only the first batches are read, and their characters are estimated from
    the average over the whole text.
    """
    model = task if forward is None else forward
    plan = evaluation_plan(len(text), training)
    share_read = 1.0 if most_tokens is None else most_tokens / plan.num_targets
    num_batches = min(plan.num_batches, max(1, round(plan.num_batches * share_read)))
    device = next(task.parameters()).device
    was_training = task.training
    task.eval()
    names = ("loss", *getattr(task, "directions", ()))
    totals = torch.zeros(len(names) + 1, dtype=torch.float64)  # nats, and the number of tokens
    state = None
    try:
        for number in range(num_batches):
            if interrupted() and world_size() == 1:
                return None
            share, is_real = rows_of_process(plan.batch(text.tokens, number, apart=text.apart))
            batch = to_device(share, device)
            with autocast():
                terms, new_state = model(batch, None if batch.fresh else state)
            state = new_state if training.batching == "streams" else None
            if is_real:
                count = terms["loss"].count.to(terms["loss"].sum)
                totals += torch.stack([*(terms[name].sum for name in names), count]).cpu().double()
            progress(number + 1, num_batches)
    finally:
        task.train(was_training)
    nats, *directions, num_read = sum_over_processes(totals).tolist()
    unpredicted = len(text.unpredicted)
    num_targets = plan.num_targets - unpredicted
    num_characters = text.num_characters_apart if unpredicted else text.num_target_characters
    if num_batches < plan.num_batches:
        num_targets, num_characters = int(num_read), round(num_characters * num_read / num_targets)
    return Likelihood(nats, num_targets, num_characters, dict(zip(names[1:], directions, strict=True)))


def as_predicted(task: Any, text: TokenFile) -> TokenFile:
    """Return a text in the ids that a task predicts; a task may predict fewer tokens than it reads, without rare
    words."""
    return replace(text, tokens=task.named(np.asarray(text.tokens))) if hasattr(task, "named") else text


def score_likelihood(likelihood: Likelihood, unit: str) -> Score:
    measures = {
        "loss": likelihood.loss,
        "perplexity": likelihood.perplexity,
        "bits_per_character": likelihood.bits_per_character,
    }
    measures |= {f"{name}_loss": loss for name, loss in likelihood.losses().items()}
    return Score(measures, likelihood.loss, likelihood.describe(unit), size={"tokens": likelihood.tokens, "unit": unit})


def check_reach(task: Any, training: Batching) -> None:
    """Check that training fits the body's positions and state, before a folder is created."""
    limit = task.body.max_length
    if training.bucket:
        raise UserError(
            "training.bucket is for examples, but all rows of a running text have the same length; leave it out"
        )
    if training.documents == "apart" and not task.body.causal:
        raise UserError(
            "training.documents=apart is for models that only read from left to right, but this model also reads"
            " backwards; set training.documents=joined"
        )
    if limit is not None and training.length > limit:
        raise UserError(
            f"training.length ({training.length}) must be at most the model's {limit} positions; lower it, or raise"
            " model.max_length"
        )
    if training.batching == "streams" and not task.body.causal:
        raise UserError(
            "training.batching=streams carries the state from step to step, but a model that reads backwards has no"
            " such state; set training.batching=windows"
        )
    if training.batching == "streams" and any(isinstance(part, SelfAttention) for part in task.modules()):
        raise UserError(
            "training.batching=streams carries the state from step to step, but that of attention would grow during the"
            " whole epoch; set training.batching=windows"
        )
