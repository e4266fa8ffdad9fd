"""The config of a run, and its sections."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, SerializeAsAny, ValidationError, ValidationInfo

from clew.core.config import ModelSection, Part, Section, TaskSection, field_names, one_of, part_of
from clew.core.errors import UserError, shown, unknown
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
    """How text becomes tokens; trained on the training text alone."""

    tokenizer: Annotated[str, BeforeValidator(_known_tokenizer)] = Field(
        "character",
        description=(
            f"{', '.join(TOKENIZERS)}; wordpiece merges the most frequent pair, wordpiece_likelihood the one that"
            " raises the likelihood most"
        ),
    )
    size: int | None = Field(None, ge=1, description="tokens in the vocabulary at most")
    min_count: int = Field(1, ge=1, description="rarer words are unknown")
    lowercase: bool = False
    joint: bool = Field(False, description="one vocabulary for source and target")
    learn_from: int | None = Field(
        None,
        ge=1,
        description=(
            "characters that the vocabulary is learnt from, spread evenly over the training text; all where not given,"
            " and of a stream its first, 10 million where not given"
        ),
    )
    workers: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "processes that encode a language model's text, a stream's while it trains; the ids are the same for any"
            " number"
        ),
    )


class EmbeddingConfig(Section):
    """What stands for a token before the first layer: a table's vector, its letters, another run's vectors, side by
    side."""

    words: bool = Field(True, description="a table with a vector for every token")
    dim: int | None = Field(
        None,
        ge=1,
        description="width of the table; that of the vectors, or what the model's first layer reads, where not given",
    )
    vectors: str | None = Field(
        None,
        description="a file of word vectors (GloVe, word2vec, fastText; may be gzipped) that the table starts from",
    )
    tune: bool = Field(True, description="the vectors of that file are trained along")
    most_vectors: int = Field(
        100_000,
        ge=0,
        description="of that file's words so many of the first are known to the model, seen in training or not",
    )
    characters: Annotated[Part, one_of("reader of characters", CHARACTERS)] | None = Field(
        None, description="a vector from each word's letters: cnn or lstm, with options"
    )
    characters_dim: int = Field(50, ge=1, description="its width")
    mix: Annotated[str, BeforeValidator(_known_mix)] = Field(
        "learned", description=f"how that run's levels become one: {', '.join(MIXES)}"
    )
    pieces: Literal["first", "last", "mean"] = Field(
        "last", description="which of a word's tokens stand for it in that run"
    )
    tune_from: bool = Field(False, description="that run's weights are trained along")
    dropout: float = Field(0.0, ge=0, lt=1, description="of what letters and that run give")
    source: str | None = Field(
        None, alias="from", description="a run whose vectors of each word in its sentence are read"
    )

    @property
    def is_plain(self) -> bool:
        """Whether the family's own embedding is left as it is."""
        return self.words and self.dim is None and not (self.vectors or self.characters or self.source)


def _known_freeze(given: Any) -> Any:
    if given in ("embedding", "body") or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise UserError(
        "what stays as it is can be embedding, body, or a number of the lowest blocks, 0 being none, not"
        f" {shown(given)}"
    )


class TransferConfig(Section):
    """What another run has learnt, on which this one stands."""

    sha256: str | None = Field(None, description="the hash of that run's weights; filled in when training starts")
    translator: bool = Field(
        False, description="that run itself reads a source and writes a target, and all of it is taken; filled in"
    )
    encoder: bool = Field(False, description="of a translator: its encoder is the body of a third run; filled in")
    weights: bool = Field(
        True, description="false: its body and tokenizer alone, untrained, to see what pre-training is worth"
    )
    freeze: Annotated[int | str, BeforeValidator(_known_freeze)] = Field(
        0, description="what stays as it is: embedding, so many of the lowest blocks and the embedding, or body"
    )
    unfreeze_every: int | None = Field(
        None,
        ge=1,
        description="the body waits, and each so many steps one more of its blocks is trained, the topmost first",
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="each block's learning rate is that of what stands above it times this"
    )
    head_rate: float = Field(
        1.0, gt=0, description="the learning rate of what is not of the body is multiplied by this"
    )
    adapter: Annotated[Part, one_of("adapter", ADAPTERS)] | None = Field(
        None,
        description=(
            "lora with rank, alpha, dropout and targets: small maps are trained beside that run's, which stay as"
            " they are"
        ),
    )
    source: str | None = Field(
        None,
        alias="from",
        description="a run, or an imported checkpoint, whose body and tokenizers this run starts with",
    )


def _listed(value: Any) -> Any:
    """A name alone as a list of it."""
    return [value] if isinstance(value, str) else value


class TrainingConfig(Section):
    """How the model is trained."""

    steps: int = Field(
        1000, ge=1, description="of the optimiser; where epochs are given, counted from them when training starts"
    )
    epochs: float | None = Field(
        None, gt=0, le=100_000, description="passes over the training data, in place of steps; 0.5 is half of one"
    )
    batch_size: int = Field(32, ge=1, description="rows of a step")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="of examples: tokens of a step, both sides and padding counted, instead of a number of rows",
    )
    bucket: bool = Field(
        False,
        description=(
            "of texts as examples: pad batches to few lengths and rows, so that a compiled model meets few shapes"
        ),
    )
    length: int = Field(64, ge=1, description="tokens of each row in a step")
    batching: Literal["streams", "windows"] = Field(
        "windows",
        description=(
            "streams: rows go on where the step before ended, the state carried; windows: pieces in random order"
        ),
    )
    documents: Literal["joined", "apart"] = Field(
        "joined",
        description=(
            "apart: no document sees another, neither by attention nor by a carried state, and positions begin anew in"
            " each; joined: one long text"
        ),
    )
    optimiser: Annotated[Part, part_of("optimiser")] = Field(
        "adamw",
        description=(
            "sgd, adam, adamw, adagrad, with options such as weight_decay, and decay_vectors: norms and biases"
            " decay too"
        ),
    )
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Annotated[Part, part_of("schedule")] = Field(
        "constant",
        description=(
            "constant, cosine, linear, inverse_sqrt, by_epoch, plateau, with options such as warmup: steps, or their"
            " share; one longer than the training is shortened"
        ),
    )
    clip_norm: float | None = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    clip_value: float | None = Field(None, gt=0, description="every gradient entry is cut to this size")
    norm_penalty: float = Field(
        0.0,
        ge=0,
        description=(
            "recurrent layers: times how far gradients are from keeping their norm at a step (Pascanu et al. 2013)"
        ),
    )
    vary_length: bool = Field(
        False, description="streams: chunks of varied length, the learning rate scaled with it (Merity et al. 2018)"
    )
    accumulate: int = Field(1, ge=1, description="micro-batches a step; the batch is cut, not multiplied")
    average: Annotated[Part, part_of("average")] | None = Field(
        None, description="evaluate and keep averaged weights: ema with a decay, or triggered (NT-ASGD)"
    )
    parallel: Literal["ddp", "fsdp"] = Field(
        "ddp", description="over several processes: every one has the whole model, or a shard of it"
    )
    recompute: bool = Field(False, description="layers are run again in the backward pass instead of being remembered")
    workers: int = Field(0, ge=0, le=64, description="processes that make batches ahead of time")
    precision: Literal["auto", "float32", "tf32", "bfloat16"] = Field(
        "float32", description="bfloat16: autocast, on a GPU; auto: that on a GPU which has it, else float32"
    )
    compile: bool = Field(False, description="torch.compile the model")
    capture: bool = Field(True, description="on a GPU: launch the passes of batches whose shapes recur as CUDA graphs")
    evaluate_every: int = Field(250, ge=1)
    evaluate_batch: int | None = Field(
        None, ge=1, description="rows at evaluation; the training batch's where not given"
    )
    evaluate_tokens: int | None = Field(
        None,
        ge=1,
        description=(
            "about so many validation tokens are read by the evaluations on the way; all by the last, and where not"
            " given"
        ),
    )
    save_every: int | None = Field(
        None, ge=1, description="steps between checkpoints; at every evaluation where not given"
    )
    keep: int = Field(2, ge=1, description="checkpoints kept, the newest; the best weights are kept beside them")
    log_every: int = Field(10, ge=1)
    log: Annotated[list[Literal["tensorboard", "wandb", "mlflow"]] | None, BeforeValidator(_listed)] = Field(
        None,
        description=(
            "programs that records are written for too, such as [tensorboard, wandb]; TensorBoard where not given, if"
            " installed"
        ),
    )
    patience: int | None = Field(None, ge=1, description="stop after this many evaluations without a better one")


def _member(kind: str, key: str, table: Mapping[str, Any]) -> PlainValidator:
    """A section whose class is chosen by its field `key`, from a table that a user's code may have added to."""

    def build(value: Any) -> Any:
        if isinstance(value, Section):
            return value
        if not isinstance(value, dict):
            raise UserError(f"{kind} takes fields, not {shown(value)}")
        default = next(iter(table))
        name = value.get(key, default)
        if not isinstance(name, str) or name not in table:
            raise UserError(f"{unknown(kind, name, table)}; one of your own is added by --code FILE.py")
        try:
            return table[name].config(**{**value, key: name})
        except ValidationError as error:
            raise MemberError(error, table[name].config) from None

    return PlainValidator(build)


def _data_of_task(value: Any, info: ValidationInfo) -> Any:
    """The section of the data that the config's task reads. A mistake in `task` is told by that."""
    if "task" not in info.data:
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
    """The tasks whose section `data` has a field."""
    return [name for name, entry in TASKS.items() if field in entry.section.model_fields]


class Config(Section):
    """A whole run, resolved: the same config and the same data give the same run."""

    recipe: str
    seed: int = Field(1, ge=0, description="everything random is derived from it")
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
    """The config of nested settings; every mistake in them is one sentence."""
    try:
        return Config(**settings)
    except ValidationError as error:
        raise UserError(explain(error, Config, meant_by=meant_by)) from None


def meant_by(name: str) -> str | None:
    """The whole name of the field that a name stands for which is none by itself, as `lr` is none."""
    return field_meant(name, every_field())


def every_field() -> set[str]:
    """The whole names of all the fields that a config can have, whatever its task and its family."""
    plain = {section: info.annotation for section, info in Config.model_fields.items()}
    sections = [(name, kind) for name, kind in plain.items() if isinstance(kind, type) and issubclass(kind, Section)]
    sections += [("model", family.config) for family in MODELS.values()]
    sections += [pair for entry in TASKS.values() for pair in (("task", entry.config), ("data", entry.section))]
    return {
        *(plain.keys() - dict(sections)),
        *(f"{name}.{field}" for name, kind in sections for field in field_names(kind)),
    }
