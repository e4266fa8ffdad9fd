"""The problem of a language model: one text, encoded once, read in streams or windows."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from clew.core.batches import Batches
from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.core.processes import first_alone, from_first
from clew.data.encoded import TokenFile
from clew.data.plans import stream_plan, varied_stream_plan, window_plan
from clew.layers.attention import SelfAttention
from clew.metrics.perplexity import Likelihood
from clew.metrics.score import Score
from clew.runs.build import build_task, encode_texts, find_texts, train_tokenizer
from clew.runs.config import Config
from clew.runs.embedding import begin, check_embedding
from clew.runs.transfer import inherited_tokenizer, start_from
from clew.runs.vocabularies import TOKENIZER, load_vocabularies
from clew.text.tokenizer import Tokenizer
from clew.training.baselines import Baselines
from clew.training.checkpoints import starts_anew
from clew.training.evaluation import evaluate
from clew.training.problem import Autocast, Problem


def language_problem(config: Config, run: Path | None, progress: Callable[[int, int], None]) -> Problem:
    """The tokenizer, trained by the first process or that of the run which is gone on with, every part of the text as ids, and the task."""
    check_embedding(config)
    sources = find_texts(config.data)

    def tokenizer_json() -> str:
        if run is not None:
            return load_vocabularies(run, config)[TOKENIZER].to_json()
        return (inherited_tokenizer(config) or train_tokenizer(config.text, sources["train"])).to_json()

    tokenizer = Tokenizer.from_json(from_first(tokenizer_json))
    texts: dict[str, TokenFile] = first_alone(lambda: encode_texts(sources, tokenizer, cache_folder(), progress, config))
    batches = language_batches(texts["train"], config)
    batches.per_epoch(0)
    vocabularies = {TOKENIZER: tokenizer}
    task: Any = build_task(config, vocabularies)
    check_reach(config, task)
    baselines = Baselines("text", lambda: (as_predicted(task, texts["train"]), getattr(task, "predicted", tokenizer.vocabulary)))
    is_new = starts_anew(run)
    found = begin(task.body, config, vocabularies) if is_new else []
    found += start_from(task, config, run, is_new=is_new)

    def judge(
        part: str, task: nn.Module, forward: Any, autocast: Autocast, interrupted: Callable[[], bool], *, final: bool = False
    ) -> Score | None:
        found = evaluate(task, texts[part], config.training, forward=forward, autocast=autocast, interrupted=interrupted)  # type: ignore[arg-type]
        if found is None:
            return None
        score = score_of(found, tokenizer.unit)
        return baselines.beside(score, as_predicted(task, texts[part]), interrupted) if final else score

    parts = tuple(name for name in texts if name != "train")
    return Problem(task, vocabularies, batches, parts, judge, describe(tokenizer, texts), identity(config, texts["train"]), tuple(found))


def language_batches(text: TokenFile, config: Config) -> Batches:
    """Batch b of epoch e of a text."""
    training = config.training

    @lru_cache(maxsize=2)
    def plan(epoch: int) -> Any:
        if training.vary_length:
            return varied_stream_plan(len(text), training.batch_size, training.length, config.seed, epoch)
        if training.batching == "streams":
            return stream_plan(len(text), training.batch_size, training.length)
        return window_plan(len(text), training.length, training.batch_size, config.seed, epoch)

    return Batches(lambda epoch: plan(epoch).num_batches, lambda epoch, number: plan(epoch).batch(text.tokens, number, apart=text.apart))


def as_predicted(task: Any, text: TokenFile) -> TokenFile:
    """A text as what a task predicts of it, which may leave rare words without names."""
    return replace(text, tokens=task.named(np.asarray(text.tokens))) if hasattr(task, "named") else text


def score_of(likelihood: Likelihood, unit: str) -> Score:
    measures = {"loss": likelihood.loss, "perplexity": likelihood.perplexity, "bits_per_character": likelihood.bits_per_character}
    measures |= {f"{name}_loss": loss for name, loss in likelihood.losses().items()}
    return Score(measures, likelihood.loss, likelihood.describe(unit))


def check_reach(config: Config, task: Any) -> None:
    """What training asks of the body's positions and state, before a folder is made."""
    training, limit = config.training, task.body.max_length
    if training.documents == "apart" and not task.body.causal:
        raise UserError(
            "training.documents=apart is for models that read from left to right alone, and this one reads backwards too; "
            "set training.documents=joined"
        )
    if limit is not None and training.length > limit:
        raise UserError(
            f"training.length ({training.length}) must be at most the {limit} positions that the model can tell apart; "
            "lower it, or raise model.max_length"
        )
    if training.batching == "streams" and not task.body.causal:
        raise UserError(
            "training.batching=streams carries the state from step to step, and a model that reads backwards has none to carry; "
            "set training.batching=windows"
        )
    if training.batching == "streams" and any(isinstance(part, SelfAttention) for part in task.modules()):
        raise UserError(
            "training.batching=streams carries the state from step to step, and attention's would grow all through an epoch; "
            "set training.batching=windows"
        )


def identity(config: Config, text: TokenFile) -> dict[str, str]:
    training = config.training
    kind = f"{'varied ' if training.vary_length else ''}{training.batching}"
    kind += ", documents apart," if training.documents == "apart" else ""
    return {
        "training text": f"{len(text):,} tokens, {text.key[:8]}",
        "order of batches": f"{kind} of {training.batch_size} x {training.length}, seed {config.seed}",
    }


def describe(tokenizer: Tokenizer, texts: dict[str, TokenFile]) -> str:
    sizes = ", ".join(f"{len(text):,} {name}" for name, text in texts.items())
    unknown = sum(text.num_unknown for name, text in texts.items() if name != "train")
    note = f"; {unknown:,} unknown outside the training part" if unknown else ""
    return f"{tokenizer.vocabulary:,} {tokenizer.unit}s; {sizes} tokens{note}"
