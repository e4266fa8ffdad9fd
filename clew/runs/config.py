"""The config of a run and its sections."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, SerializeAsAny, ValidationError, ValidationInfo

from clew.core.config import ModelSection, Part, Section, TaskSection, field_names, one_of, part_of
from clew.core.errors import UserError, shown, unknown
from clew.core.wording import argument
from clew.data.kinds.section import DataSection
from clew.layers.adapters import ADAPTERS
from clew.layers.characters import CHARACTERS
from clew.layers.pooling import MIXES
from clew.models import MODELS
from clew.runs.settings.explaining import MemberError, explain
from clew.runs.settings.known_names import field_meant
from clew.tasks import TASKS
from clew.tasks.uses.writing import DecodingConfig
from clew.text.train import TOKENIZERS


def _known_mix(name: Any) -> Any:
    if not isinstance(name, str) or name not in MIXES:
        raise unknown("mix", name, MIXES)
    return name


def _known_tokenizer(kind: Any) -> Any:
    if not isinstance(kind, str) or kind not in TOKENIZERS:
        raise unknown("tokenizer", kind, TOKENIZERS)
    return kind


class TextConfig(Section):
    """The tokenizer and its vocabulary, trained on the training text only."""

    tokenizer: Annotated[str, BeforeValidator(_known_tokenizer)] = Field(
        "character",
        description=(
            f"{', '.join(TOKENIZERS)}; wordpiece merges the most frequent pair, wordpiece_likelihood the pair that"
            " raises the likelihood most"
        ),
    )
    size: int | None = Field(None, ge=1, description="maximum number of tokens in the vocabulary")
    min_count: int = Field(1, ge=1, description="words that are rarer than this are unknown")
    lowercase: bool = False
    joint: bool = Field(False, description="one vocabulary for both source and target")
    learn_from: int | None = Field(
        None,
        ge=1,
        description=(
            "number of characters to learn the vocabulary from, spread evenly over the training text (default: all);"
            " a stream uses its first characters (default: 10 million)"
        ),
    )
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "processes that encode a language model's text (a stream is encoded during training); the token ids do not"
            " depend on the number"
        ),
    )


class EmbeddingConfig(Section):
    """The input vector of a token: a table's vector, a vector from its letters and another run's vector,
    concatenated."""

    words: bool = Field(True, description="use a table with a vector for every token")
    dim: int | None = Field(
        None,
        ge=1,
        description="width of the table (default: the width of the vectors, else the first layer's input width)",
    )
    vectors: str | None = Field(
        None,
        description="a file of word vectors (GloVe, word2vec, fastText; may be gzipped) to initialise the table from",
    )
    tune: bool = Field(True, description="train the vectors of that file too")
    most_vectors: int = Field(
        100_000,
        ge=0,
        description="number of words, from the start of that file, to add to the vocabulary, seen in training or not",
    )
    characters: Annotated[Part, one_of("reader of characters", CHARACTERS)] | None = Field(
        None, description="a vector from each word's letters: cnn or lstm, with options"
    )
    characters_dim: int = Field(50, ge=1, description="width of the vector from letters")
    mix: Annotated[str, BeforeValidator(_known_mix)] = Field(
        "learned", description=f"how the layers of the run in embedding.from are combined: {', '.join(MIXES)}"
    )
    pieces: Literal["first", "last", "mean"] = Field(
        "last", description="which of a word's tokens in the run of embedding.from give the word's vector"
    )
    tune_from: bool = Field(False, description="train the weights of the run in embedding.from too")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="dropout on the vectors from letters and from the run in embedding.from"
    )
    source: str | None = Field(None, alias="from", description="a run whose contextual word vectors are used as input")

    @property
    def is_plain(self) -> bool:
        """Whether the model family's own embedding is used unchanged."""
        return self.words and self.dim is None and not (self.vectors or self.characters or self.source)


def _known_freeze(value: Any) -> Any:
    if value in ("embedding", "body") or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise UserError(
        f"what to freeze is embedding, body, or a number of the lowest blocks (0 for none), not {shown(value)}"
    )


class TransferConfig(Section):
    """Fine-tuning: the base run that this run starts from."""

    sha256: str | None = Field(None, description="hash of the base run's weights; filled in when training starts")
    translator: bool = Field(
        False, description="the base run itself reads a source and writes a target, and all of it is used; filled in"
    )
    encoder: bool = Field(
        False, description="the base run is a translator whose encoder is the body of a third run; filled in"
    )
    weights: bool = Field(
        True, description="false: take the body and tokenizer untrained, to measure what pre-training is worth"
    )
    freeze: Annotated[int | str, BeforeValidator(_known_freeze)] = Field(
        0, description="what to freeze: embedding, body, or a number of the lowest blocks together with the embedding"
    )
    unfreeze_every: int | None = Field(
        None,
        ge=1,
        description="start with the body frozen and unfreeze one more block every so many steps, topmost first",
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="each block's learning rate is this times that of the block above it"
    )
    head_rate: float = Field(1.0, gt=0, description="multiplies the learning rate of all parameters outside the body")
    adapter: Annotated[Part, one_of("adapter", ADAPTERS)] | None = Field(
        None,
        description=(
            "lora with rank, alpha, dropout and targets: train small matrices beside the base run's weights, which stay"
            " frozen"
        ),
    )
    source: str | None = Field(
        None,
        alias="from",
        description="the base run, or an imported checkpoint, whose body and tokenizers this run starts with",
    )


def _as_list(value: Any) -> Any:
    """Wrap a single name in a list."""
    return [value] if isinstance(value, str) else value


class TrainingConfig(Section):
    """How the model is trained."""

    steps: int = Field(1000, ge=1, description="optimiser steps; computed from epochs when training starts, if given")
    epochs: float | None = Field(
        None, gt=0, le=100_000, description="passes over the training data, instead of steps; may be a fraction"
    )
    batch_size: int = Field(32, ge=1, description="rows per step")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="tasks with examples: tokens per step instead of rows, counting both sides and padding",
    )
    bucket: bool = Field(
        False,
        description=(
            "tasks with text examples: pad batches to a few lengths and row counts, so that a compiled model sees few"
            " shapes"
        ),
    )
    length: int = Field(64, ge=1, description="tokens per row in a step")
    batching: Literal["streams", "windows"] = Field(
        "windows",
        description=(
            "streams: each row continues where it ended in the previous step, carrying the state; windows: pieces in"
            " random order"
        ),
    )
    documents: Literal["joined", "apart"] = Field(
        "joined",
        description=(
            "apart: no document sees another, neither through attention nor through a carried state, and positions"
            " restart in each; joined: one long text"
        ),
    )
    optimiser: Annotated[Part, part_of("optimiser")] = Field(
        "adamw",
        description=(
            "sgd, adam, adamw, adagrad, with options such as weight_decay, and decay_vectors to decay norms and biases"
            " too"
        ),
    )
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Annotated[Part, part_of("schedule")] = Field(
        "constant",
        description=(
            "constant, cosine, linear, inverse_sqrt, by_epoch, plateau, with options such as warmup, in steps or as a"
            " share of them; a warmup longer than the training is shortened"
        ),
    )
    clip_norm: float | None = Field(1.0, gt=0, description="scale gradients down to this norm")
    clip_value: float | None = Field(None, gt=0, description="clip every gradient entry to this absolute value")
    norm_penalty: float = Field(
        0.0,
        ge=0,
        description=(
            "recurrent layers: weight of a penalty on gradients whose norm changes at a step (Pascanu et al. 2013)"
        ),
    )
    vary_length: bool = Field(
        False,
        description="streams: vary the chunk length and scale the learning rate with it (Merity et al. 2018)",
    )
    accumulate: int = Field(
        1, ge=1, description="micro-batches per step; the batch is divided among them, not multiplied"
    )
    average: Annotated[Part, part_of("average")] | None = Field(
        None, description="evaluate and keep averaged weights: ema with a decay, or triggered (NT-ASGD)"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp", description="with several processes: each has the whole model (ddp) or a shard of it (fsdp)"
    )
    recompute: bool = Field(
        False, description="save memory: run layers again in the backward pass instead of keeping their activations"
    )
    workers: int = Field(0, ge=0, le=64, description="processes that prepare batches ahead of time")
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = Field(
        "float32", description="bfloat16: autocast, GPU only; auto: bfloat16 on a GPU that supports it, else float32"
    )
    compile: bool = Field(False, description="torch.compile the model")
    capture: bool = Field(True, description="on a GPU: capture the passes of batches whose shapes recur as CUDA graphs")
    evaluate_every: int = Field(250, ge=1)
    evaluate_batch: int | None = Field(
        None, ge=1, description="rows per batch at evaluation (default: the training batch's)"
    )
    evaluate_tokens: int | None = Field(
        None,
        ge=1,
        description=(
            "approximate number of validation tokens that each evaluation during training reads (default: all); the"
            " last evaluation reads all"
        ),
    )
    save_every: int | None = Field(
        None, ge=1, description="steps between checkpoints (default: one at every evaluation)"
    )
    keep: int = Field(2, ge=1, description="number of newest checkpoints to keep; the best weights are kept as well")
    log_every: int = Field(10, ge=1)
    log: Annotated[list[Literal["tensorboard", "wandb", "mlflow"]] | None, BeforeValidator(_as_list)] = Field(
        None,
        description=(
            "loggers to write records for, such as [tensorboard, wandb] (default: TensorBoard, if it is installed)"
        ),
    )
    patience: int | None = Field(None, ge=1, description="stop after this many evaluations without a better one")


def _member(kind: str, key: str, table: Mapping[str, Any]) -> PlainValidator:
    """Return a validator for a section whose class is chosen by its field `key`, from a table that user code may
    extend."""

    def build(value: Any) -> Any:
        if isinstance(value, Section):
            return value
        if not isinstance(value, dict):
            raise UserError(f"{kind} takes fields, not {shown(value)}")
        default = next(iter(table))
        name = value.get(key, default)
        if not isinstance(name, str) or name not in table:
            raise UserError(f"{unknown(kind, name, table)}; add your own with {argument('code')}")
        try:
            return table[name].config(**{**value, key: name})
        except ValidationError as error:
            raise MemberError(error, table[name].config) from None

    return PlainValidator(build)


def _data_of_task(value: Any, info: ValidationInfo) -> Any:
    """Validate the section `data` against the config's task."""
    if "task" not in info.data:  # `task` is invalid, and its own error is reported
        return value
    name = info.data["task"].name
    section: type[DataSection] = TASKS[name].section
    if isinstance(value, section):
        return value
    if not isinstance(value, dict):
        raise UserError(f"data takes fields, not {shown(value)}")
    try:
        return section(**value)
    except ValidationError as error:
        raise MemberError(error, section, readers_of) from None


def readers_of(field: str) -> list[str]:
    """Return the tasks whose section `data` has this field."""
    return [name for name, entry in TASKS.items() if field in entry.section.model_fields]


class Config(Section):
    """The resolved config of a run: the same config and the same data give the same run."""

    recipe: str
    seed: int = Field(1, ge=0, description="all randomness is derived from it")
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    task: Annotated[SerializeAsAny[TaskSection], _member("task", "name", TASKS)] = Field(
        default_factory=dict, validate_default=True
    )
    data: Annotated[SerializeAsAny[DataSection], PlainValidator(_data_of_task)] = Field(
        default_factory=dict, validate_default=True
    )
    text: TextConfig = TextConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    transfer: TransferConfig = TransferConfig()
    model: Annotated[SerializeAsAny[ModelSection], _member("model family", "family", MODELS)] = Field(
        default_factory=dict, validate_default=True
    )
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()


def resolve(settings: Mapping[str, Any]) -> Config:
    """Return the config of nested settings; a mistake in them raises a one-sentence UserError."""
    try:
        return Config(**settings)
    except ValidationError as error:
        raise UserError(explain(error, Config, meant_by=meant_by)) from None


def meant_by(name: str) -> str | None:
    """Return the full name of the field that an unknown name such as `lr` stands for, or None."""
    return field_meant(name, every_field())


def every_field() -> set[str]:
    """Return the full names of all fields that a config can have, over all tasks and model families."""
    top_level = {name: info.annotation for name, info in Config.model_fields.items()}
    sections = [
        (name, kind) for name, kind in top_level.items() if isinstance(kind, type) and issubclass(kind, Section)
    ]
    sections += [("model", family.config) for family in MODELS.values()]
    sections += [pair for entry in TASKS.values() for pair in (("task", entry.config), ("data", entry.section))]
    return {
        *(top_level.keys() - dict(sections)),
        *(f"{name}.{field}" for name, kind in sections for field in field_names(kind)),
    }
