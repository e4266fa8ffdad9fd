"""Build the parts that a config describes: tokenizer, body and task."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from clew.core.devices import choose_device
from clew.core.errors import UserError
from clew.core.files import cache_folder
from clew.core.types import Body, Source
from clew.data.files.measures import cached_extent
from clew.data.splits import Spread
from clew.models import MODELS, SHAPES
from clew.runs.config import Config, TextConfig
from clew.runs.embedding import build_body, build_borrowed, check_embedding, source_of
from clew.runs.memory import build_within_memory
from clew.runs.transfer import ENCODER, put_adapters
from clew.sources.graph_nodes import EDGE_TYPES, GraphNodes
from clew.sources.inputs import InputReader
from clew.sources.tokens import Tokens
from clew.tasks import TASKS
from clew.text.tokenizer import Tokenizer
from clew.text.train import END, TOKENIZERS


def train_tokenizer(text: TextConfig, source: Iterable[str], specials: Sequence[str] = ()) -> Tokenizer:
    if text.learn_from is not None:
        length = (
            cached_extent(source, cache_folder()).num_characters if hasattr(source, "pieces") else sum(map(len, source))
        )
        source = Spread(source, length, text.learn_from)
    return TOKENIZERS[text.tokenizer](
        source, size=text.size, min_count=text.min_count, lowercase=text.lowercase, specials=specials
    )


def train_side(text: TextConfig, texts: Iterable[str], specials: Sequence[str]) -> Tokenizer:
    """Train a tokenizer for one side of a pair. A character tokenizer gets an end token, which it lacks by default."""
    return train_tokenizer(text, texts, [END, *specials] if text.tokenizer == "character" else specials)


def sources_of(config: Config, vocabularies: dict[str, Any]) -> list[Source]:
    """Return the sources that a task's body reads; for a body with an encoder, the target's and then the source's."""
    if "tokenizer" in vocabularies:
        words = source_of(config, vocabularies)
        return [GraphNodes(words, len(vocabularies[EDGE_TYPES]) + 1) if EDGE_TYPES in vocabularies else words]
    roles = ["input"] if "input" in vocabularies else [role for role in ("target", "source") if role in vocabularies]
    readers = [vocabularies[role] for role in roles]
    return [reader.source() if isinstance(reader, InputReader) else Tokens(reader.vocabulary) for reader in readers]


def build_task(
    config: Config,
    vocabularies: dict[str, Any],
    *,
    sources: Sequence[Source] | None = None,
    to_train: bool = True,
    stored: int | None = None,
) -> nn.Module:
    """Build the untrained task of a config, deterministic for a given seed. Refuse a task that, with its training if
    `to_train`, does not fit into memory. `sources` overrides the sources that follow from the vocabularies. `stored` is
    the number of values in the weights file that will be loaded: a config that describes a much larger model is refused
    before it is built."""
    check_source(config, reads="source" in vocabularies)
    check_embedding(config)
    sources = sources_of(config, vocabularies) if sources is None else sources

    def build() -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            encoder = build_borrowed(vocabularies[ENCODER]) if ENCODER in vocabularies else None
            body = build_body(config, *sources, encoder=encoder)
            kind = TASKS[config.task.name]
            check_needs(kind.needs, body, config)
            task = kind.build(body, vocabularies, config.task)
            put_adapters(task, config)
            return task

    device = choose_device(config.device)[0] if to_train else None
    return build_within_memory(build, config, max(source.width for source in sources), device, stored)


def check_source(config: Config, *, reads: bool) -> None:
    """Refuse a body with an encoder for a task without a source, and the reverse."""
    task, family = config.task.name, config.model.family
    if MODELS[family].encodes == reads:
        return
    able = [name for name, other in MODELS.items() if other.encodes == reads]
    if reads:
        raise UserError(f"the task {task} has a source, which a {family} cannot read; use {one_of(able)}")
    raise UserError(f"the task {task} has no source for a {family} to read; use {one_of(able)}")


def check_needs(needs: tuple[str, ...], body: Body, config: Config) -> None:
    """Refuse a body that lacks what the task needs, and name the model families that have it."""
    task, family = config.task.name, config.model.family
    plain = {name: other for name, other in MODELS.items() if not other.encodes}
    reads, available = MODELS[family].reads, {*needs, *TASKS[task].gives}
    if reads in SHAPES and reads not in available and not SHAPES.keys() & {*needs}:
        able = [name for name, other in plain.items() if other.reads in available or other.reads not in SHAPES]
        raise UserError(f"the task {task} has no {reads} for a {family} to read; use {one_of(able)}")
    for need in needs:
        if getattr(body, need, False):
            continue
        able = [name for name, other in plain.items() if getattr(other.build(other.config(), Tokens(2)), need, False)]
        needed = (
            f"that {NEEDS[need]}, which a {family} does" if need in NEEDS else f"that is {need}, which this {family} is"
        )
        raise UserError(f"the task {task} needs a body {needed} not; use {one_of(able)}")


def one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


NEEDS = {
    "whole": "sees a whole text at once",
    "trees": "reads trees",
    "grid": "reads a grid",
    "graph": "reads a graph",
    "directions": "reads in two directions that never meet",
}
"""Phrases for the needs that are not adjectives: "a body that ..."."""
