"""The input embedding of a body, built from the section `embedding`: a table, vectors from a file, vectors from
letters, and another run's vectors."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, cast

import torch

from clew.core.errors import UserError, command
from clew.core.files import file_hash
from clew.core.types import Body, Source
from clew.data.vectors import first_words, read_vectors, vector_width
from clew.layers.context import Context
from clew.layers.pooling import MIXES
from clew.models import MODELS, SHAPES
from clew.runs.config import Config, EmbeddingConfig, resolve
from clew.runs.directory import check_files, read_config, read_weights
from clew.runs.folder.run_files import FORMAT, WEIGHTS, check_run
from clew.runs.settings.upgrading import upgraded
from clew.sources.tokens import LetteredWords, Tokens
from clew.sources.words import WordReader
from clew.tasks import TASKS
from clew.text.json_value import JsonValue
from clew.text.tokenizer import Tokenizer
from clew.text.train import with_words

CONTEXT = "context"
"""The vocabulary role of the run in `embedding.from`."""


@dataclass(frozen=True)
class BorrowedBody(JsonValue):
    """A copy of another run's body that this run uses: its settings, its tokenizer and the hash of its weights. The
    copy is saved in this run's folder and the weights among this run's own, so that it does not depend on the other."""

    what: ClassVar[str] = "a run's copy of another run's body"
    settings: dict[str, Any]
    tokenizer: Tokenizer
    folder: str
    weights_hash: str
    format: int | None = None
    """The format of the settings; None, if it was not yet recorded, for format 1 or 2."""

    @classmethod
    def of_run(cls, folder: Path) -> "BorrowedBody":
        check_run(folder)
        check_files(folder)
        config = read_config(folder)
        if config.embedding.source is not None:
            raise UserError(
                f"{folder} itself reads {config.embedding.source}; give embedding.from={config.embedding.source}"
            )
        check_reads_one_sequence(config, f"embedding.from={folder}")
        check_merged(folder, config)
        tokenizer = Tokenizer.load(folder / "vocabulary" / "tokenizer.json")
        return cls(config.model_dump(mode="json"), tokenizer, str(folder), file_hash(folder / WEIGHTS), FORMAT)

    @property
    def config(self) -> Config:
        # Upgraded when read: what is kept is hashed, and so stays as it was written.
        return resolve(upgraded(self.settings, self.format or 1))

    @property
    def is_running(self) -> bool:
        """Whether the run has learnt from running text, not from separate sentences."""
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
        fields: dict[str, Any] = {"folder": self.folder, "weights": self.weights_hash, "config": self.settings}
        fields |= {} if self.format is None else {"format": self.format}
        return (
            json.dumps({**fields, "tokenizer": json.loads(self.tokenizer.to_json())}, ensure_ascii=False, indent=2)
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str) -> "BorrowedBody":
        fields = json.loads(text)
        tokenizer = Tokenizer.from_json(json.dumps(fields["tokenizer"]))
        return cls(fields["config"], tokenizer, fields["folder"], fields["weights"], fields.get("format"))


def check_reads_one_sequence(config: Config, what: str) -> None:
    """Refuse a run whose body does not give a vector for every word of a sentence."""
    name = config.model.family
    family = MODELS[name]
    if family.encodes or family.reads in SHAPES:
        reads = "reads a source and writes a target" if family.encodes else f"reads {SHAPES[family.reads]}"
        raise UserError(
            f"{what}: a {name} {reads}; use a run that reads one sequence, such as a language model's or a tagger's"
        )


def check_merged(folder: Path, config: Config) -> None:
    """Refuse a run that has only an adapter and no full weights."""
    if config.transfer.adapter is not None:
        raise UserError(
            f"{folder} is an adapter on {config.transfer.source} and has no full weights of its own; "
            f"`{command('clew', 'runs', 'merge', folder, '--out', 'DIR')}` makes a run of both"
        )


def check_embedding(config: Config) -> None:
    """Refuse incompatible settings before any file is read."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.is_plain:
        return
    family, task = config.model.family, TASKS[config.task.name]
    if MODELS[family].encodes:
        raise UserError(
            f"the section embedding is for models that read one sequence, and a {family} reads two; leave it out"
        )
    if not (embedding.words or embedding.characters or embedding.source):
        raise UserError(
            "embedding.words=false leaves no input vectors for words; add embedding.characters=cnn or"
            " embedding.from=RUN"
        )
    if not embedding.words and (embedding.vectors or embedding.dim):
        raise UserError(
            "embedding.vectors and embedding.dim configure the word table, which embedding.words=false disables;"
            " leave them out"
        )
    if config.text.tokenizer != "word":
        raise UserError(
            f"the section embedding needs words as tokens, not text.tokenizer={config.text.tokenizer}; set"
            " text.tokenizer=word, or leave the section out: embedding.characters=null embedding.dim=null"
        )
    if embedding.source is not None and task.learning is not None and not task.learning.has_examples:
        raise UserError(
            f"embedding.from is for tasks that read sentences, such as tagging and classification; {config.task.name}"
            " reads running text"
        )


def filled(config: Config) -> Config:
    """Return the config with the width of the vector file filled in, so that the run can be built without the file."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.vectors is None:
        return config
    width = vector_width(embedding.vectors)
    if embedding.dim not in (None, width):
        raise UserError(
            f"embedding.dim ({embedding.dim}) is not the width of the vectors in {embedding.vectors}, which is {width};"
            " set embedding.dim=null"
        )
    return config.model_copy(update={"embedding": embedding.model_copy(update={"dim": width})})


def with_vector_words(tokenizer: Tokenizer, config: Config) -> Tokenizer:
    """Return the tokenizer with the words of the vector file added to those of the training part."""
    embedding: EmbeddingConfig = config.embedding
    if embedding.vectors is None:
        return tokenizer
    words = first_words(embedding.vectors, embedding.most_vectors)
    return with_words(tokenizer, [word.lower() for word in words] if config.text.lowercase else words)


def source_of(config: Config, vocabularies: dict[str, Any]) -> Source:
    """Return the source that a body reads: plain tokens, or words with letters, vectors and context if the section
    `embedding` asks for them. No file is read."""
    embedding: EmbeddingConfig = config.embedding
    tokenizer: Tokenizer = vocabularies["tokenizer"]
    if embedding.is_plain:
        return Tokens(tokenizer.vocabulary)
    context: BorrowedBody | None = vocabularies.get(CONTEXT)
    has_letters = embedding.characters is not None
    return LetteredWords(
        tokenizer.vocabulary,
        tokenizer=tokenizer,
        reader=WordReader(tokenizer, letters=has_letters, context=None if context is None else context_reader(context)),
        table=embedding.words,
        table_dim=embedding.dim,
        tune=embedding.tune,
        characters=embedding.characters,
        characters_dim=embedding.characters_dim,
        dropout=embedding.dropout,
        context=None if context is None else partial(build_context, context, embedding),
    )


def build_body(config: Config, *sources: Source, encoder: Body | None = None) -> Body:
    """Build the body over its sources; a family with an encoder takes the target's source and then the source's, or a
    ready `encoder`."""
    family = MODELS[config.model.family]
    body: Any = family.build(config.model, *sources, **({} if encoder is None else {"encoder": encoder}))
    sources[0].complete(body.embedding)
    if len(sources) > 1 and encoder is None:
        sources[1].complete(body.source_embedding)
    return cast(Body, body)


def build_borrowed(source: BorrowedBody) -> Body:
    """Build the body of a borrowed run, untrained."""
    return build_body(source.config, source_of(source.config, {"tokenizer": source.tokenizer}))


def build_context(source: BorrowedBody, embedding: EmbeddingConfig) -> Context:
    body = build_borrowed(source)
    with torch.no_grad():
        widths = [level.shape[-1] for level in body.levels(body.embedding.blank(1, 1))]
    mix = MIXES[embedding.mix]
    return Context(body, widths, mix, pieces=embedding.pieces, tuned=embedding.tune_from, dropout=embedding.dropout)


def context_reader(source: BorrowedBody) -> WordReader:
    """Return the reader of words for a borrowed body."""
    embedding: EmbeddingConfig = source.config.embedding
    is_segmented = getattr(source.config.model, "num_segments", 0) > 1
    letters = embedding.characters is not None
    return WordReader(source.tokenizer, letters=letters, running=source.is_running, segmented=is_segmented)


def initialise_embedding(body: Any, config: Config, vocabularies: dict[str, Any]) -> list[str]:
    """Initialise a new run's embedding with the vectors of the file and the weights of the borrowed body; return notes
    on what was loaded."""
    embedding: EmbeddingConfig = config.embedding
    notes = []
    if embedding.vectors is not None and config.transfer.source is None:
        tokens = vocabularies["tokenizer"].tokens
        vectors = read_vectors(embedding.vectors, tokens, dim=body.embedding.tokens.embedding_dim)
        rows = torch.from_numpy(vectors.found)
        with torch.no_grad():
            body.embedding.tokens.weight[rows] = torch.from_numpy(vectors.values)[rows]
        notes.append(f"{embedding.vectors}: {vectors.describe()}")
    if CONTEXT in vocabularies:
        source: BorrowedBody = vocabularies[CONTEXT]
        weights = read_weights(Path(source.folder) / WEIGHTS)
        prefix = "body."
        context = next(part for part in body.embedding.parts if isinstance(part, Context))
        context.body.load_state_dict(
            {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
        )
        notes.append(
            f"{source.folder}: {len(context.chosen)} layers, {'trained too' if embedding.tune_from else 'frozen'}"
        )
    return notes
