"""The config of a run: its sections, how settings given by the user are laid over a recipe, and what is said when one is wrong."""

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError, create_model
from typing_extensions import TypeAliasType

from clew.core.config import Part, Section, one_of, part_of
from clew.core.errors import UserError, did_you_mean, named, shown, unknown
from clew.layers.adapters import ADAPTERS
from clew.layers.characters import CHARACTERS
from clew.layers.pooling import MIXES
from clew.models import MODELS
from clew.runs.values import parse_assignment
from clew.tasks import TASKS
from clew.tasks.writing import DecodingConfig
from clew.text.train import TOKENIZERS

Files = str | list[str]
"""A path, or the two of parallel text."""


class DataConfig(Section):
    """Where the data come from: a corpus by name, or files of one's own."""

    corpus: str | None = Field(
        None, description="an embedded or a drawn corpus, or one found under the folder CLEW_DATA names; of documents also several: ptb+ewt"
    )
    train: Files | None = Field(
        None, description="a text, a folder of them, a table or a treebank; [source file, target file] of parallel text"
    )
    valid: Files | None = Field(None, description="the same; a part of the training data where not given")
    test: Files | None = None
    valid_fraction: float = Field(
        0.1, gt=0, lt=1, description="the share kept for validation: of a text its end, of examples those that a hash draws"
    )
    test_fraction: float = Field(0.0, ge=0, lt=1, description="the share kept for testing")
    format: str | None = Field(
        None, description="lines, csv, tsv, jsonl, parallel, conll, conllu, trees, squad; told from the file where not given"
    )
    header: bool | None = Field(None, description="the first line of a table names its columns; told from it where not given")
    source: str | int | None = Field(None, description="pairs: the column that is read, by name or number; a corpus's language")
    target: str | int | None = Field(None, description="pairs: the column that is written; a corpus's language")
    text: str | int | None = Field(
        None, description="labelled texts, documents and JSON lines of text: the column of the text, by name or number"
    )
    second: str | int | None = Field(None, description="labelled texts: the column of a second text, where two are judged together")
    label: str | int | None = Field(None, description="labelled texts: the column of the label; of CoNLL-U trees a comment's name")
    label_separator: str | None = Field(None, min_length=1, description="what parts several labels in a field")
    label_map: dict[str, str | None] | None = Field(
        None, description='other names for labels, such as {"0": bad, "1": bad, "2": null, "3": good}; null leaves its examples out'
    )
    phrases: bool = Field(False, description="of trees with a label on every node, each phrase is a training example")
    words: str | int | None = Field(None, description="tagged words: the column of the word, by name or number")
    tags: str | int | None = Field(None, description="tagged words: the column of the tag; of a corpus the kind of tags")
    question: str | int | None = Field(None, description="questions in a table: the column of the question, by name or number")
    passage: str | int | None = Field(None, description="questions in a table: the column of the passage")
    answer: str | int | None = Field(None, description="questions in a table: the column of the answer; empty where the passage has none")
    answer_start: str | int | None = Field(None, description="questions in a table: the column of the character at which the answer begins")
    directions: list[str] | None = Field(
        None,
        description="language pairs, such as [de-en, en-de], one model for all; of a corpus, or of files train.de, train.en, ...",
    )
    turns: int | None = Field(
        None, ge=1, description="the files are dialogues, a turn a line, an empty line between two: a reply is written after so many turns"
    )
    limit: int | None = Field(None, ge=1, description="so many of the training examples, drawn by the seed; all where not given")
    faults: Literal["refuse", "skip"] = Field("refuse", description="what becomes of records that cannot be used")
    size: int = Field(10_000, ge=1, description="a drawn corpus: how many examples")
    shortest: int = Field(1, ge=1, description="a drawn corpus: the shortest sequence, or gap")
    longest: int = Field(20, ge=1, description="a drawn corpus: the longest")


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

    tokenizer: Annotated[str, BeforeValidator(_known_tokenizer)] = "character"
    size: int | None = Field(None, ge=1, description="tokens in the vocabulary at most")
    min_count: int = Field(1, ge=1, description="rarer words are unknown")
    lowercase: bool = False
    joint: bool = Field(False, description="one vocabulary for source and target")
    learn_from: int | None = Field(
        None, ge=1, description="characters that the vocabulary is learnt from, spread evenly over the training text; all where not given"
    )
    workers: int = Field(1, ge=1, le=64, description="processes that encode a language model's text; the ids are the same for any number")


class InputsConfig(Section):
    """What stands for a token before the first layer: a table's vector, its letters, another run's vectors, side by side."""

    words: bool = Field(True, description="a table with a vector for every token")
    dim: int | None = Field(
        None, ge=1, description="width of the table; that of the vectors, or what the model's first layer reads, where not given"
    )
    vectors: str | None = Field(
        None, description="a file of word vectors (GloVe, word2vec, fastText; may be gzipped) that the table starts from"
    )
    tune: bool = Field(True, description="the vectors of that file are trained along")
    most_vectors: int = Field(
        100_000, ge=0, description="of that file's words so many of the first are known to the model, seen in training or not"
    )
    characters: Annotated[Part, one_of("reader of characters", CHARACTERS)] | None = Field(
        None, description="a vector from each word's letters: cnn or lstm, with options"
    )
    characters_dim: int = Field(50, ge=1, description="its width")
    mix: Annotated[str, BeforeValidator(_known_mix)] = Field("learned", description=f"how that run's levels become one: {', '.join(MIXES)}")
    pieces: Literal["first", "last", "mean"] = Field("last", description="which of a word's tokens stand for it in that run")
    tune_from: bool = Field(False, description="that run's weights are trained along")
    dropout: float = Field(0.0, ge=0, lt=1, description="of what letters and that run give")

    @property
    def source(self) -> str | None:
        """The field `from`, whose name Python keeps for itself."""
        return getattr(self, "from")

    @property
    def is_plain(self) -> bool:
        """Whether the family's own embedding is left as it is."""
        return self.words and self.dim is None and not (self.vectors or self.characters or self.source)


EmbeddingConfig = create_model(
    "EmbeddingConfig",
    __base__=InputsConfig,
    __doc__=InputsConfig.__doc__,
    **{"from": (str | None, Field(None, description="a run whose vectors of each word in its sentence are read"))},  # type: ignore[call-overload]
)


def _known_freeze(given: Any) -> Any:
    if given in ("embedding", "body") or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise UserError(f"what stays as it is can be embedding, body, or a number of the lowest blocks, 0 being none, not {shown(given)}")


class StandingConfig(Section):
    """What another run has learnt, on which this one stands."""

    sha256: str | None = Field(None, description="the hash of that run's weights; filled in when training starts")
    translator: bool = Field(False, description="that run itself reads a source and writes a target, and all of it is taken; filled in")
    encoder: bool = Field(False, description="of a translator: its encoder is the body of a third run; filled in")
    weights: bool = Field(True, description="false: its body and tokenizer alone, untrained, to see what pre-training is worth")
    freeze: Annotated[int | str, BeforeValidator(_known_freeze)] = Field(
        0, description="what stays as it is: embedding, so many of the lowest blocks and the embedding, or body"
    )
    unfreeze_every: int | None = Field(
        None, ge=1, description="the body waits, and each so many steps one more of its blocks is trained, the topmost first"
    )
    layer_decay: float = Field(1.0, gt=0, le=1, description="each block's learning rate is that of what stands above it times this")
    head_rate: float = Field(1.0, gt=0, description="the learning rate of what is not of the body is multiplied by this")
    adapter: Annotated[Part, one_of("adapter", ADAPTERS)] | None = Field(
        None, description="lora with rank, alpha, dropout and targets: small maps are trained beside that run's, which stay as they are"
    )

    @property
    def source(self) -> str | None:
        """The field `from`, whose name Python keeps for itself."""
        return getattr(self, "from")


TransferConfig = create_model(
    "TransferConfig",
    __base__=StandingConfig,
    __doc__=StandingConfig.__doc__,
    **{"from": (str | None, Field(None, description="a run, or an imported checkpoint, whose body and tokenizers this run starts with"))},  # type: ignore[call-overload]
)


class TrainingConfig(Section):
    """How the model is trained."""

    steps: int = Field(1000, ge=1)
    batch_size: int = Field(32, ge=1, description="rows of a step")
    batch_tokens: int | None = Field(
        None, ge=1, description="of examples: tokens of a step, both sides and padding counted, instead of a number of rows"
    )
    length: int = Field(64, ge=1, description="tokens of each row in a step")
    batching: Literal["streams", "windows"] = Field(
        "windows", description="streams: rows go on where the step before ended, the state carried; windows: pieces in random order"
    )
    documents: Literal["joined", "apart"] = Field(
        "joined",
        description="apart: no document sees another, neither by attention nor by a carried state, and positions begin anew in each; "
        "joined: one long text",
    )
    optimiser: Annotated[Part, part_of("optimiser")] = Field(
        "adamw", description="sgd, adam, adamw, adagrad, with options such as weight_decay, and decay_vectors: norms and biases decay too"
    )
    learning_rate: float = Field(1e-3, gt=0)
    schedule: Annotated[Part, part_of("schedule")] = Field(
        "constant", description="constant, cosine, linear, inverse_sqrt, by_epoch, plateau, with options such as warmup"
    )
    clip_norm: float | None = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    clip_value: float | None = Field(None, gt=0, description="every gradient entry is cut to this size")
    vary_length: bool = Field(False, description="streams: chunks of varied length, the learning rate scaled with it (Merity et al. 2018)")
    accumulate: int = Field(1, ge=1, description="micro-batches a step; the batch is cut, not multiplied")
    average: Annotated[Part, part_of("average")] | None = Field(
        None, description="evaluate and keep averaged weights: ema with a decay, or triggered (NT-ASGD)"
    )
    parallel: Literal["ddp", "fsdp"] = Field("ddp", description="over several processes: every one has the whole model, or a shard of it")
    recompute: bool = Field(False, description="layers are run again in the backward pass instead of being remembered")
    workers: int = Field(0, ge=0, le=64, description="processes that make batches ahead of time")
    precision: Literal["float32", "tf32", "bfloat16"] = Field("float32", description="bfloat16: autocast, on a GPU")
    compile: bool = Field(False, description="torch.compile the model")
    evaluate_every: int = Field(250, ge=1)
    evaluate_batch: int | None = Field(None, ge=1, description="rows at evaluation; the training batch's where not given")
    save_every: int | None = Field(None, ge=1, description="steps between checkpoints; at every evaluation where not given")
    keep: int = Field(2, ge=1, description="checkpoints kept, the newest; the best weights are kept beside them")
    log_every: int = Field(10, ge=1)
    patience: int | None = Field(None, ge=1, description="stop after this many evaluations without a better one")


class _MemberError(ValueError):
    """A mistake inside a section chosen by name, kept whole so that `explain` can say where."""

    def __init__(self, error: ValidationError, section: type[Section]):
        super().__init__(str(error))
        self.error = error
        self.section = section


def _member(kind: str, key: str, table: Mapping[str, Any]) -> BeforeValidator:
    """A section whose class is chosen by its field `key`, from a table that a user's code may have added to."""

    def build(value: Any) -> Any:
        if isinstance(value, Section):
            return value
        if not isinstance(value, dict):
            raise UserError(f"{kind} takes fields, not {shown(value)}")
        default = next(iter(table))
        name = value.get(key, default)
        if not isinstance(name, str) or name not in table:
            raise unknown(kind, name, table)
        try:
            return table[name].config(**{**value, key: name})
        except ValidationError as error:
            raise _MemberError(error, table[name].config) from None

    return BeforeValidator(build)


ModelSection = TypeAliasType("ModelSection", Annotated[SerializeAsAny[Section], _member("model family", "family", MODELS)])
TaskSection = TypeAliasType("TaskSection", Annotated[SerializeAsAny[Section], _member("task", "name", TASKS)])


class Config(Section):
    """A whole run, resolved: the same config and the same data give the same run."""

    recipe: str
    seed: int = Field(1, ge=0, description="everything random is derived from it")
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    data: DataConfig = DataConfig()
    text: TextConfig = TextConfig()
    embedding: EmbeddingConfig = Field(default_factory=EmbeddingConfig)  # type: ignore[valid-type]
    transfer: TransferConfig = Field(default_factory=TransferConfig)  # type: ignore[valid-type]
    model: ModelSection = Field(default_factory=dict, validate_default=True)  # type: ignore[assignment]
    task: TaskSection = Field(default_factory=dict, validate_default=True)  # type: ignore[assignment]
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()


def resolve(settings: Mapping[str, Any]) -> Config:
    """The config of nested settings; every mistake in them is one sentence."""
    try:
        return Config(**settings)
    except ValidationError as error:
        raise UserError(explain(error, Config)) from None


def override(settings: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Whole settings with `section.field=value` laid over them, left to right; a new `model.family` or `task.name` first
    resets its section."""
    return _lay(settings, [parse_assignment(assignment) for assignment in assignments])


def overlay(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with nested settings (of a YAML file) laid over them, by the same rules as assignments."""
    return _lay(settings, _paths(more))


CHOICES = re.compile(r"str|int|list\[str\]|(?:literal|dict)\[.*")
"""What pydantic adds to the place of a mistake in a field that takes values of several types."""


def explain(error: ValidationError, root: type[Section], prefix: str = "") -> str:
    """The first mistake that pydantic found, as one sentence with the field's whole name."""
    first = error.errors(include_url=False)[0]
    location = [str(part) for part in first["loc"] if not isinstance(part, int) and not CHOICES.fullmatch(part)]
    name = (prefix + dotted(location)).strip(".")
    kind, given, context = first["type"], first.get("input"), first.get("ctx", {})
    if kind == "value_error":
        inner = context["error"]
        return explain(inner.error, inner.section, prefix=f"{name}.") if isinstance(inner, _MemberError) else f"{name}: {inner}"
    if kind == "extra_forbidden":
        section = _section_at(root, location[:-1])
        known = list(section.model_fields) if section is not None else []
        where = (prefix + dotted(location[:-1])).strip(".")
        where = f" of {where}" if where else ""
        return f"unknown field {named(location[-1])}{where}{did_you_mean(location[-1], known)} known: {', '.join(known)}"
    return f"{name} {_rule(kind, context, first['msg'])}, not {shown(given)}"


def dotted(path: Sequence[str]) -> str:
    """A field's whole name, cut where it is none of ours."""
    return named(".".join(path))[1:-1]


def fields_of(config: Config) -> dict[str, Any]:
    """Every field's whole name and its value; a part with its options is one value."""
    return {".".join(path): value for path, value in _paths(config.model_dump(mode="json"))}


def changed_fields(first: Config, second: Config) -> dict[str, tuple[Any, Any]]:
    """The fields in which two configs differ, each with its value in both; None where a config has no such field."""
    a, b = fields_of(first), fields_of(second)
    return {name: (a.get(name), b.get(name)) for name in sorted({*a, *b}) if a.get(name) != b.get(name)}


def differences(first: Config, second: Config) -> list[str]:
    """The fields in which two configs differ, as `field: one -> other`."""
    return [f"{name}: {one!r} -> {other!r}" for name, (one, other) in changed_fields(first, second).items()]


def commented_yaml(config: Config) -> str:
    """The whole config as YAML, a comment behind each field that has a description."""
    lines = []
    for name in Config.model_fields:
        value = getattr(config, name)
        if isinstance(value, Section):
            lines.append(f"{name}:" + (f"  # {(type(value).__doc__ or '').strip().splitlines()[0]}"))
            lines += [_yaml_line(f"  {field}", getattr(value, field), info.description) for field, info in type(value).model_fields.items()]
        else:
            lines.append(_yaml_line(name, value, Config.model_fields[name].description))
    return "\n".join(lines) + "\n"


def _yaml_line(name: str, value: Any, description: str | None) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("\n").removesuffix("...").strip()
    return f"{name}: {text}" + (f"  # {description}" if description else "")


def _rule(kind: str, context: Mapping[str, Any], message: str) -> str:
    rules = {
        "int_type": "takes a whole number",
        "int_from_float": "takes a whole number",
        "float_type": "takes a number",
        "finite_number": "takes a finite number",
        "bool_type": "takes true or false",
        "string_type": "takes a text",
        "list_type": "takes a list",
        "greater_than_equal": "must be at least {ge:g}",
        "greater_than": "must be above {gt:g}",
        "less_than_equal": "must be at most {le:g}",
        "less_than": "must be below {lt:g}",
        "literal_error": "must be one of {expected}",
        "model_type": "takes fields",
        "model_attributes_type": "takes fields",
        "missing": "must be given",
    }
    return rules[kind].format(**context) if kind in rules else message[0].lower() + message[1:]


def _section_at(root: type[Section], path: list[str]) -> type[Section] | None:
    section: Any = root
    for name in path:
        info = section.model_fields.get(name) if isinstance(section, type) and issubclass(section, Section) else None
        if info is None:
            return None
        section = info.annotation
        if get_origin(section) is not None:
            section = next((part for part in get_args(section) if isinstance(part, type) and issubclass(part, Section)), None)
    return section if isinstance(section, type) and issubclass(section, Section) else None


def _lay(settings: Mapping[str, Any], more: list[tuple[list[str], Any]]) -> dict[str, Any]:
    """Settings with others laid over them, left to right."""
    result = deepcopy(dict(settings))
    for path, value in more:
        section, key = path[0], path[-1]
        if (section, key) in (("model", "family"), ("task", "name")) and len(path) == 2:
            table: Mapping[str, Any] = MODELS if section == "model" else TASKS
            here = result.get(section)
            if not isinstance(here, dict) or here.get(key) != value:
                known = isinstance(value, str) and value in table
                result[section] = table[value].config().model_dump(mode="json") if known else {key: value}
    for path, value in more:
        _set(result, path, value)
    return result


def _set(settings: dict[str, Any], path: list[str], value: Any) -> None:
    """Sets a field; an option of a part given by name alone makes it a name with options."""
    here = settings
    for name in path[:-1]:
        inner = here.get(name)
        if isinstance(inner, str):
            inner = {"name": inner}
        elif inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            raise UserError(f"{dotted(path)}: {dotted([name])} is {shown(inner)}, which has no fields")
        here[name] = inner
        here = inner
    here[path[-1]] = value


def _paths(settings: Mapping[str, Any], sections: bool = True) -> list[tuple[list[str], Any]]:
    """Every field's path and value; a part with its options is one value, a section is not, though one has a field `name`."""
    found: list[tuple[list[str], Any]] = []
    for name, value in settings.items():
        if isinstance(value, dict) and value and (sections or "name" not in value):
            found += [([*name.split("."), *path], leaf) for path, leaf in _paths(value, sections=False)]
        else:
            found.append((name.split("."), value))
    return found
