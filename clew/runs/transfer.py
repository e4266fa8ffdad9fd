"""Fine-tuning: a run that takes the body and tokenizer of a base run and starts from its weights. With an adapter the
run keeps no copy of them and needs the base run to load."""

import os
from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import nn

from clew.core.config import Part, field_names
from clew.core.errors import UserError
from clew.core.files import file_hash
from clew.layers.adapters import adapt, adapter_names, is_adapted
from clew.models import MODELS
from clew.runs.config import Config
from clew.runs.directory import check_files, read_config, read_weights
from clew.runs.embedding import check_merged, check_reads_one_sequence
from clew.runs.folder.run_files import VOCABULARY, WEIGHTS, check_run, is_run
from clew.runs.trust import UntrustedPath, check_path
from clew.tasks import TASKS
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

INHERITED = ("model", "text", "embedding")
"""The sections that a fine-tuned run takes from its base run; the user's settings override them."""
ENCODING = ("workers", "learn_from")
"""Fields of the section text that do not affect the tokenizer."""
OUTPUT = ("tied", "bias", "start", "tags")
"""Task fields that describe the output layer of a task with a source, and its target."""
CARRIED = ("pooling.",)
"""Weights outside the body that a fine-tuned run takes even if its task differs."""
ENCODER = "encoder"
"""The vocabulary role of a base run whose body becomes this run's encoder."""
HIGH_RATE = 1e-3
"""A learning rate that is suited to new models, not to fine-tuning."""
BASE = "CLEW_BASE"
"""The environment variable with the folder of a base run that was moved."""


def inheriting(settings: dict[str, Any], task: Any, source: Any) -> dict[str, Any]:
    """Return a recipe's settings with those that a run of `task` inherits from its base run: the sections of the body.
    If both tasks have a source, the output settings are inherited too. If only the new task has one, the base run
    becomes its encoder and no section is inherited: the decoder is new, so source and target have separate tables."""
    if not isinstance(source, str):
        raise UserError(f"transfer.from takes a run's folder, not {source!r}")
    config = source_config(Path(source), task)
    dumped = config.model_dump(mode="json")
    if is_translator(config):
        outputs = {name: value for name, value in dumped["task"].items() if name in OUTPUT and name in settings["task"]}
        transfer = {
            **settings["transfer"],
            "translator": True,
            "encoder": has_encoder(config),
            "head_rate": 1.0,  # no part is new and would need a higher rate
        }
        changes = {"task": {**settings["task"], **outputs}, "transfer": transfer}
        return deepcopy({**settings, **{section: dumped[section] for section in INHERITED}, **changes})
    if reads_source(task):
        model = {
            **settings["model"],
            **({"shared_embeddings": False} if "shared_embeddings" in settings["model"] else {}),
        }
        return deepcopy({**settings, "model": model, "text": {**settings["text"], "joint": False}})
    result = deepcopy({**settings, **{section: dumped[section] for section in INHERITED}})
    result["embedding"]["vectors"] = None  # they are already in the base run's weights
    if isinstance(task, str) and task == dumped["task"]["name"] and not judges_examples(task):
        result["task"] = deepcopy(dumped["task"])  # the output layer is kept
    if (pooling := usual_pooling(config)) is not None and "pooling" in result["task"]:
        result["task"]["pooling"] = pooling
    if task == dumped["task"]["name"]:
        result["task"] |= {
            name: dumped["task"][name] for name in ("num_hidden", "hidden_dim") if name in dumped["task"]
        }
    return result


def with_kind(settings: dict[str, Any], inherited: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with the fields that describe the base run (translator, encoder), regardless of the user's
    settings."""
    kind = {name: inherited["transfer"][name] for name in ("translator", "encoder")}
    return {**settings, "transfer": {**settings["transfer"], **kind}}


def check_text_inherited(inherited: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse tokenizer settings if the base run's tokenizer is used."""
    theirs, mine = inherited["text"], settings["text"]
    changed = (
        [name for name in mine if name not in ENCODING and mine[name] != theirs.get(name)]
        if isinstance(mine, dict)
        else []
    )
    if changed and (inherited["transfer"]["translator"] or not reads_source(settings["task"].get("name"))):
        raise UserError(
            f"text.{changed[0]} is a setting of a new tokenizer, but transfer.from uses the base run's; leave it out"
        )


def reads_source(task: Any) -> bool:
    return isinstance(task, str) and task in TASKS and "encodes" in TASKS[task].needs


def judges_examples(task: str) -> bool:
    """Whether a task's data are examples, not running text or documents."""
    learning = TASKS[task].learning
    return learning is None or learning.has_examples


def is_translator(config: Config) -> bool:
    """Whether a run's body reads a source and writes a target."""
    return MODELS[config.model.family].encodes


def usual_pooling(config: Config) -> Part | None:
    """Return the pooling for a body that was pre-trained like this one: the base run's own; for BERT the pooler on the
    first token, which was trained to represent the text; for causal models the last token, the only one that has seen
    the whole text."""
    family = config.model.family
    return getattr(config.task, "pooling", None) or {"bert": "pooler", "gpt": "last", "llama": "last"}.get(family)


def source_config(folder: Path, task: Any) -> Config:
    """Return the config of a base run; refuse a run that cannot be the base of a run of `task`."""
    check_run(folder)
    check_files(folder)
    config = read_config(folder)
    if is_translator(config) and reads_source(task):
        check_writes_alike(folder, config.task.name, task)
    else:
        check_reads_one_sequence(config, f"transfer.from={folder}")
    if config.embedding.source is not None:
        raise UserError(
            f"{folder} itself reads {config.embedding.source}; give transfer.from={config.embedding.source}"
        )
    check_merged(folder, config)
    return config


def check_writes_alike(folder: Path, theirs: str, mine: str) -> None:
    """Refuse a base run that learnt from another kind of data, such as texts for trees."""
    their_data, my_data = TASKS[theirs].learns.reads, TASKS[mine].learns.reads
    if their_data != my_data:
        raise UserError(
            f"transfer.from={folder} learnt from {their_data} (the task {theirs}), but the task {mine} learns from "
            f"{my_data}; use a run of the same task, or leave transfer.from out"
        )


def check_stands(config: Config) -> None:
    """Refuse other settings of the section `transfer` without `transfer.from`."""
    transfer = config.transfer
    fields = type(transfer).model_fields
    changed = [
        name for name, field in field_names(type(transfer)).items() if getattr(transfer, field) != fields[field].default
    ]
    if transfer.source is None and changed:
        raise UserError(f"transfer.{changed[0]} is for fine-tuning a run; give transfer.from=RUN, or leave it out")


def check_transfer(config: Config) -> None:
    """Refuse incompatible settings of the section `transfer` before any file is read."""
    transfer: Any = config.transfer
    if transfer.adapter is not None and (transfer.freeze != 0 or transfer.unfreeze_every is not None):
        other = "freeze" if transfer.freeze != 0 else "unfreeze_every"
        raise UserError(
            f"transfer.adapter freezes the whole base run, so transfer.{other} has no effect; give one of them"
        )
    if transfer.adapter is not None and not transfer.weights:
        raise UserError(
            "transfer.adapter needs the base run's weights, but transfer.weights=false does not load them; give one of"
            " them"
        )
    if transfer.freeze == "body" and transfer.unfreeze_every is not None:
        raise UserError(
            "transfer.freeze=body leaves no block for transfer.unfreeze_every; freeze a number of blocks, or give one"
            " of them"
        )
    task, family = config.task.name, config.model.family
    if transfer.source is None or transfer.translator or not reads_source(task):
        return
    takes_encoder = TASKS[task].takes_encoder
    if not takes_encoder or family != "transformer":
        what = f"a {family}" if takes_encoder else f"the task {task}"
        remedy = "set model.family=transformer" if takes_encoder else "leave transfer.from out"
        raise UserError(f"transfer.from gives a translator its encoder, which {what} cannot use; {remedy}")
    if getattr(config.data, "directions", None) is not None:
        raise UserError(
            "data.directions marks each language with a token, which the encoder of transfer.from does not know; give"
            " one of them"
        )
    model: Any = config.model
    for name, is_set in (("model.shared_embeddings", model.shared_embeddings), ("text.joint", config.text.joint)):
        if is_set:
            raise UserError(
                f"{name}=true makes both sides share their tokens, but the encoder of transfer.from has its own tokens;"
                " leave it out"
            )


def with_hash(config: Config) -> Config:
    """Return the config with the hash of the base run's weights."""
    source = config.transfer.source
    if source is None:
        return config
    if not (Path(source) / WEIGHTS).is_file():
        read_weights(Path(source) / WEIGHTS)  # raises the error for missing weights
    return config.model_copy(
        update={"transfer": config.transfer.model_copy(update={"sha256": file_hash(Path(source) / WEIGHTS)})}
    )


def inherited_tokenizer(config: Config) -> Tokenizer | None:
    """Return the base run's tokenizer, or None if the run has its own tokenizer."""
    source = config.transfer.source
    if source is None or is_translator(config):
        return None
    return Tokenizer.load(Path(source) / VOCABULARY / "tokenizer.json")


def has_encoder(config: Config) -> bool:
    """Whether the run's encoder is the body of another run."""
    transfer: Any = config.transfer
    return transfer.source is not None and is_translator(config) and (transfer.encoder or not transfer.translator)


def inherited_part(task: Any, config: Config) -> tuple[str, Any]:
    """Return the part of a task that is the base run's body, after the prefix of its weights' names."""
    is_encoder = is_translator(config) and not config.transfer.translator
    return ("body.encoder.", task.body.encoder) if is_encoder else ("body.", task.body)


def put_adapters(task: nn.Module, config: Config) -> None:
    """Insert adapters into the base run's part of a task, if the config asks for them."""
    if config.transfer.adapter is not None:
        adapt(inherited_part(task, config)[1], config.transfer.adapter)


def start_from(task: nn.Module, config: Config, run: Path | None = None, *, is_new: bool = True) -> list[str]:
    """Load the weights of the base run into a new task: the body's, and those of other parts that both have. Return
    notes on what was loaded.

    If the task has adapters, the loaded weights are frozen, and they are loaded again whenever the task is built. `run`
    is the task's own folder; the base run may be next to it.
    """
    if config.transfer.source is None or not (is_new or is_adapted(task)):
        return []
    if not config.transfer.weights:
        return [f"{config.transfer.source}: its body and tokenizers, untrained"]
    source = base_folder(config, run) if is_adapted(task) else Path(config.transfer.source)
    is_same_output = has_same_output(task, source, source_config(source, config.task.name), config)
    prefix, _ = inherited_part(task, config)
    expected = task.state_dict()
    loaded, unused = {}, []
    for base_name, tensor in read_weights(source / WEIGHTS).items():
        name = prefix + base_name.removeprefix("body.") if base_name.startswith("body.") else base_name
        may_load = name.startswith((prefix, *CARRIED)) or is_same_output
        if may_load and name in expected and expected[name].shape == tensor.shape:
            loaded[name] = tensor
        else:
            unused.append(base_name)
    new = [name for name in expected if name not in loaded]
    # Buffers are reset, such as the baseline of hard attention.
    optional = {*adapter_names(task), *(name for name, _ in task.named_buffers())}
    missing = next((name for name in new if name.startswith(prefix) and name not in optional), None)
    if missing is not None:
        raise UserError(
            f"transfer.from={source} has no {missing.replace(prefix, 'body.')} of the shape"
            f" {tuple(expected[missing].shape)} that this run's model needs; keep the model section of that run"
        )
    task.load_state_dict(loaded, strict=False)
    if is_adapted(task):
        for name, parameter in task.named_parameters():
            parameter.requires_grad_(name not in loaded)
    unused_text = (
        f", {len(unused)} of its tensors not used ({', '.join(unused[:3])}{', ...' if len(unused) > 3 else ''})"
        if unused
        else ""
    )
    added = {name for name, _ in task.named_parameters()} & set(new)
    parts = sorted({"adapters" if name in adapter_names(task) else name.split(".")[0] for name in added})
    notes = [f"{source}: starts with {len(loaded)} of its tensors{unused_text}; new: {', '.join(parts) or 'nothing'}"]
    rate, transfer = config.training.learning_rate, config.transfer
    if rate >= HIGH_RATE and transfer.adapter is None and transfer.freeze != "body" and transfer.layer_decay == 1:
        notes.append(
            f"training.learning_rate={rate:g} may undo what {source} has learnt; 1e-5 to 1e-4 is usual on a pre-trained"
            " Transformer"
        )
    return notes


def has_same_output(task: nn.Module, source: Path, theirs: Config, mine: Config) -> bool:
    """Whether the base run's output layer fits the task: both write the same tokens, or they have the same task with
    the same labels in the same order."""
    if mine.transfer.translator:
        return True
    if theirs.task.name != mine.task.name:
        return False
    return all(labels.names == getattr(task, role).names for role, labels in labels_in(source, theirs).items())


def labels_in(folder: Path, config: Config) -> dict[str, Labels]:
    """Return a run's label tables by role."""
    kinds = TASKS[config.task.name].vocabularies
    return {role: Labels.load(folder / VOCABULARY / f"{role}.json") for role, kind in kinds.items() if kind is Labels}


def in_their_order(vocabularies: dict[str, Any], config: Config) -> dict[str, Any]:
    """Return the vocabularies of a new run, with its labels in the order of its base run if that has the same task and
    the same set of labels."""
    source = config.transfer.source
    if source is None or (theirs := source_config(Path(source), config.task.name)).task.name != config.task.name:
        return vocabularies
    known = labels_in(Path(source), theirs)
    return {
        **vocabularies,
        **{role: labels for role, labels in known.items() if set(labels.names) == set(vocabularies[role].names)},
    }


def check_base(run: Path, config: Config, places: list[Path]) -> None:
    """Drop the base folder that an untrusted run's config names if it is elsewhere; refuse the run if there is no base
    run next to it."""
    try:
        check_path(run, "transfer.from", str(places[0]), f"or set {BASE} to the folder of the adapter's base run")
    except UntrustedPath:
        if len(places) == 1 or not is_run(places[1]):
            raise
        del places[0]


def base_folder(config: Config, run: Path | None) -> Path:
    """Return the folder of an adapter's base run, with the weights that the adapter was trained on: the folder in the
    config, the folder of the same name next to the adapter's run, or CLEW_BASE."""
    named, expected = Path(str(config.transfer.source)), config.transfer.sha256
    places = (
        [Path(os.environ[BASE])]
        if BASE in os.environ
        else [named, *([run.parent / named.name] if run is not None else [])]
    )
    if run is not None and BASE not in os.environ:
        check_base(run, config, places)
    bases = [place for place in places if is_run(place) and (place / WEIGHTS).is_file()]
    adapter = "this run" if run is None else str(run)
    if not bases:
        raise UserError(
            f"{adapter} is an adapter on {places[0]}, which does not exist; set {BASE} to its present folder"
        )
    for base in bases:
        if expected is None or file_hash(base / WEIGHTS) == expected:
            return base
    raise UserError(
        f"{adapter} is an adapter on weights that {bases[0]} no longer has ({WEIGHTS} has another hash); restore them, "
        f"or set {BASE} to the folder of a copy"
    )
