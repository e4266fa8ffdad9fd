"""What stands for a token before a body's first layer, built from the section `embedding`: a table, vectors from a file, letters, and
another run's vectors."""

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from clew.core.config import build_part
from clew.core.errors import UserError
from clew.core.files import file_hash
from clew.data.vectors import first_words, read_vectors, vector_width
from clew.layers.characters import CHARACTERS
from clew.layers.context import Context
from clew.layers.embeddings import Spelled
from clew.layers.pooling import MIXES
from clew.models import MODELS
from clew.runs.config import Config, EmbeddingConfig, resolve
from clew.runs.directory import WEIGHTS, check_files, check_run, read_config, read_weights
from clew.runs.upgrading import upgraded
from clew.tasks import TASKS
from clew.text.kept import Kept
from clew.text.letters import letters_of
from clew.text.tokenizer import Tokenizer
from clew.text.train import with_words

CONTEXT = "context"
"""The role of a run that another stands on, among its vocabularies."""


@dataclass(frozen=True)
class Source(Kept):
    """The body of a run that another run reads words with: its settings, its tokenizer, and the hash of its weights. It is kept in the
    other run's folder, and its weights among that run's own, so that a run needs nothing but itself."""

    what: ClassVar[str] = "what a run keeps of the run that it reads"
    settings: dict[str, Any]
    tokenizer: Tokenizer
    folder: str
    weights_hash: str

    @classmethod
    def of_run(cls, folder: Path) -> "Source":
        check_run(folder)
        check_files(folder)
        config = read_config(folder)
        if config.embedding.source is not None:
            raise UserError(f"{folder} itself reads {config.embedding.source}; give embedding.from={config.embedding.source}")
        check_reads_one_sequence(config, f"embedding.from={folder}")
        check_merged(folder, config)
        tokenizer = Tokenizer.load(folder / "vocabulary" / "tokenizer.json")
        return cls(config.model_dump(mode="json"), tokenizer, str(folder), file_hash(folder / WEIGHTS))

    @property
    def config(self) -> Config:
        return resolve(upgraded(self.settings))

    @property
    def is_running(self) -> bool:
        """Whether it has learnt from running text, and not from sentences by themselves."""
        return TASKS[self.config.task.name].is_running

    @property
    def vocabulary(self) -> int:
        return self.tokenizer.vocabulary

    @property
    def unit(self) -> str:
        return self.tokenizer.unit

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        fields = {"folder": self.folder, "weights": self.weights_hash, "config": self.settings}
        return json.dumps({**fields, "tokenizer": json.loads(self.tokenizer.to_json())}, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Source":
        fields = json.loads(text)
        return cls(fields["config"], Tokenizer.from_json(json.dumps(fields["tokenizer"])), fields["folder"], fields["weights"])


def check_reads_one_sequence(config: Config, what: str) -> None:
    """Refuses a run whose body has no vector for every word of a sentence."""
    name = config.model.family
    family = MODELS[name]
    if family.encodes or family.trees:
        reads = "reads trees" if family.trees else "reads a source and writes a target"
        raise UserError(f"{what}: a {name} {reads}; take a run that reads one sequence, such as a language model's or a tagger's")


def check_merged(folder: Path, config: Config) -> None:
    """Refuses a run whose weights are another's but for an adapter."""
    if config.transfer.adapter is not None:
        raise UserError(
            f"{folder} is an adapter on {config.transfer.source} and has no whole weights of its own; "
            f"`clew merge {folder} --out DIR` makes a run of both"
        )


def check_embedding(config: Config) -> None:
    """Refuses parts that do not go together, before anything is read."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.is_plain:
        return
    family, task = config.model.family, TASKS[config.task.name]
    if MODELS[family].encodes:
        raise UserError(f"the section embedding is for models that read one sequence, and a {family} reads two; leave it out")
    if not (embedding.words or embedding.characters or embedding.source):
        raise UserError("embedding.words=false leaves nothing to read a word by; add embedding.characters=cnn or embedding.from=RUN")
    if not embedding.words and (embedding.vectors or embedding.dim):
        raise UserError("embedding.vectors and embedding.dim are of the table of words, which embedding.words=false leaves out")
    if config.text.tokenizer != "word":
        raise UserError(
            f"the section embedding is about words, and text.tokenizer={config.text.tokenizer}; set text.tokenizer=word, or leave "
            "the section out: embedding.characters=null embedding.dim=null"
        )
    if embedding.source is not None and task.learning is not None and not task.learning.has_examples:
        raise UserError(
            f"embedding.from is for tasks that read sentences, such as tagging and classification; {config.task.name} reads running text"
        )


def filled(config: Config) -> Config:
    """The config with the width of its vectors, so that a run can be built where their file is no more."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.vectors is None:
        return config
    width = vector_width(embedding.vectors)
    if embedding.dim not in (None, width):
        raise UserError(
            f"embedding.dim ({embedding.dim}) is not the width of the vectors in {embedding.vectors}, which is {width}; "
            "set embedding.dim=null"
        )
    return config.model_copy(update={"embedding": embedding.model_copy(update={"dim": width})})


def knowing(tokenizer: Tokenizer, config: Config) -> Tokenizer:
    """A tokenizer that knows the words of the vectors besides those of the training part."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.vectors is None:
        return tokenizer
    words = first_words(embedding.vectors, embedding.most_vectors)
    return with_words(tokenizer, [word.lower() for word in words] if config.text.lowercase else words)


def enrich(body: Any, config: Config, vocabularies: dict[str, Any]) -> None:
    """Gives a body's embedding the parts that the section asks for, all of them untrained; no file is read."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.is_plain:
        return
    tokenizer: Tokenizer = vocabularies["tokenizer"]
    parts: list[nn.Module] = []
    if embedding.characters is not None:
        reader = build_part("reader of characters", embedding.characters, CHARACTERS, embedding.characters_dim)
        parts.append(Spelled(reader, spelling(tokenizer.tokens), dropout=embedding.dropout))
    if CONTEXT in vocabularies:
        parts.append(build_context(vocabularies[CONTEXT], embedding))
    table = None
    if embedding.words:
        beside = sum(part.dim for part in parts)  # type: ignore[misc]
        width = embedding.dim or max(body.embedding.dim - beside, 0) or body.embedding.dim
        table = nn.Embedding(tokenizer.vocabulary, width)
        nn.init.uniform_(table.weight, -math.sqrt(3 / width), math.sqrt(3 / width))
        table.weight.requires_grad_(embedding.tune)
    body.embedding.enrich(table, parts)


def build_context(source: Source, embedding: EmbeddingConfig) -> Context:
    config = source.config
    body = MODELS[config.model.family].build(config.model, source.vocabulary)
    enrich(body, config, {"tokenizer": source.tokenizer})
    with torch.no_grad():
        token = torch.zeros(1, 1, dtype=torch.long, device=body.embedding.like.device)
        widths = [level.shape[-1] for level in body.levels(token)]
    mix = MIXES[embedding.mix]
    return Context(body, widths, mix, pieces=embedding.pieces, tuned=embedding.tune_from, dropout=embedding.dropout)


def begin(body: Any, config: Config, vocabularies: dict[str, Any]) -> list[str]:
    """Fills a new run's embedding with what is known already: vectors of the file, weights of the other run. What was found, in words."""
    embedding: EmbeddingConfig = config.embedding
    notes = []
    if embedding.vectors is not None and config.transfer.source is None:
        tokens = vocabularies["tokenizer"].tokens
        found = read_vectors(embedding.vectors, tokens, dim=body.embedding.tokens.embedding_dim)
        rows = torch.from_numpy(found.found)
        with torch.no_grad():
            body.embedding.tokens.weight[rows] = torch.from_numpy(found.values)[rows]
        notes.append(f"{embedding.vectors}: {found.describe()}")
    if CONTEXT in vocabularies:
        source: Source = vocabularies[CONTEXT]
        weights = read_weights(Path(source.folder) / WEIGHTS)
        prefix = "body."
        context = next(part for part in body.embedding.parts if isinstance(part, Context))
        context.body.load_state_dict({name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)})
        notes.append(f"{source.folder}: {len(context.chosen)} levels, {'trained along' if embedding.tune_from else 'left as they are'}")
    return notes


def spelling(tokens: list[str]) -> Tensor:
    """The letters of every token (tokens, letters), 0 behind the last."""
    letters = [letters_of(token) for token in tokens]
    longest = max(map(len, letters))
    return torch.tensor([[*word, *[0] * (longest - len(word))] for word in letters], dtype=torch.int32)
