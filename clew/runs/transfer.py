"""A run that stands on another: it has that one's body and tokenizer, and starts with what it has learnt. With an
adapter it keeps no copy of that, and needs the other run to be there."""

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
from clew.runs.directory import VOCABULARY, WEIGHTS, check_files, check_run, is_run, read_config, read_weights
from clew.runs.embedding import check_merged, check_reads_one_sequence
from clew.runs.trust import Foreign, check_path
from clew.tasks import TASKS
from clew.text.labels import Labels
from clew.text.tokenizer import Tokenizer

INHERITED = ("model", "text", "embedding")
"""The sections that a run takes from the one it stands on; what the user sets is laid over them."""
ENCODING = ("workers", "learn_from")
"""Fields of the section text that say nothing of what the tokenizer is."""
OUTPUT = ("tied", "bias", "start", "tags")
"""Fields of a task with a source that say what its output layer is, and what it writes."""
CARRIED = ("pooling.",)
"""Parts of a task besides its body that any other task with such a part goes on with."""
ENCODER = "encoder"
"""The role of a run whose body reads the source of another, among that one's vocabularies."""
LARGE = 1e-3
"""A learning rate that is for new models."""
BASE = "CLEW_BASE"
"""The variable that names where a run is whose folder was moved."""


def inheriting(settings: dict[str, Any], task: Any, source: Any) -> dict[str, Any]:
    """A recipe's settings with what a run of the task takes from the one that it is to stand on: the sections of its
    body. A task with a source takes from a run that has one too its output as well; from any other nothing but its
    encoder, the decoder being new, so that both sides have tables of their own."""
    if not isinstance(source, str):
        raise UserError(f"transfer.from takes a run's folder, not {source!r}")
    config = source_config(Path(source), task)
    dumped = config.model_dump(mode="json")
    if is_translator(config):
        outputs = {name: value for name, value in dumped["task"].items() if name in OUTPUT and name in settings["task"]}
        kind = {
            "translator": True,
            "encoder": has_encoder(config),
            "head_rate": 1.0,
        }  # no part is new, and has to learn faster
        more = {"task": {**settings["task"], **outputs}, "transfer": {**settings["transfer"], **kind}}
        return deepcopy({**settings, **{section: dumped[section] for section in INHERITED}, **more})
    if reads_source(task):
        model = {
            **settings["model"],
            **({"shared_embeddings": False} if "shared_embeddings" in settings["model"] else {}),
        }
        return deepcopy({**settings, "model": model, "text": {**settings["text"], "joint": False}})
    found = deepcopy({**settings, **{section: dumped[section] for section in INHERITED}})
    found["embedding"]["vectors"] = None  # they are among the weights
    if isinstance(task, str) and task == dumped["task"]["name"] and not judges_examples(task):
        found["task"] = deepcopy(dumped["task"])  # its output layer goes on as it is
    if (pooling := usual_pooling(config)) is not None and "pooling" in found["task"]:
        found["task"]["pooling"] = pooling
    if task == dumped["task"]["name"]:
        found["task"] |= {name: dumped["task"][name] for name in ("num_hidden", "hidden_dim") if name in dumped["task"]}
    return found


def with_kind(laid: dict[str, Any], inherited: dict[str, Any]) -> dict[str, Any]:
    """Settings that say of the run that is stood on what it is, whatever the user has set."""
    return {
        **laid,
        "transfer": {**laid["transfer"], **{name: inherited["transfer"][name] for name in ("translator", "encoder")}},
    }


def check_text_inherited(inherited: dict[str, Any], laid: dict[str, Any]) -> None:
    """Refuses settings of a tokenizer where the one that is there is taken."""
    theirs, mine = inherited["text"], laid["text"]
    changed = (
        [name for name in mine if name not in ENCODING and mine[name] != theirs.get(name)]
        if isinstance(mine, dict)
        else []
    )
    if changed and (inherited["transfer"]["translator"] or not reads_source(laid["task"].get("name"))):
        raise UserError(
            f"text.{changed[0]} is of a tokenizer that is trained, and transfer.from brings its run's own; leave it out"
        )


def reads_source(task: Any) -> bool:
    return isinstance(task, str) and task in TASKS and "encodes" in TASKS[task].needs


def judges_examples(task: str) -> bool:
    """Whether a task's data are examples, and not text or documents."""
    learning = TASKS[task].learning
    return learning is None or learning.has_examples


def is_translator(config: Config) -> bool:
    """Whether a run's body reads a source and writes a target."""
    return MODELS[config.model.family].encodes


def usual_pooling(config: Config) -> Part | None:
    """What a text's vectors become where a body was pre-trained as this one: what they became there; or what its first
    token, which stands for all, has learnt to become; or the last, where only that has seen the whole text."""
    family = config.model.family
    return getattr(config.task, "pooling", None) or {"bert": "pooler", "gpt": "last", "llama": "last"}.get(family)


def source_config(folder: Path, task: Any) -> Config:
    """The config of a run that another of a task can stand on."""
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
    """Refuses texts on top of trees, and the other way round."""
    there, here = TASKS[theirs].learns.reads, TASKS[mine].learns.reads
    if there != here:
        raise UserError(
            f"transfer.from={folder} learnt from {there} (the task {theirs}), and the task {mine} learns from "
            f"{here}; take a run of the same task, or leave transfer.from out"
        )


def check_stands(config: Config) -> None:
    """Refuses settings of the section where there is no run to stand on."""
    transfer = config.transfer
    fields = type(transfer).model_fields
    changed = [
        name for name, field in field_names(type(transfer)).items() if getattr(transfer, field) != fields[field].default
    ]
    if transfer.source is None and changed:
        raise UserError(
            f"transfer.{changed[0]} is for a run that stands on another; give transfer.from=RUN, or leave it out"
        )


def check_transfer(config: Config) -> None:
    """Refuses settings of the section that do not go together, before anything is read."""
    transfer: Any = config.transfer
    if transfer.adapter is not None and (transfer.freeze != 0 or transfer.unfreeze_every is not None):
        other = "freeze" if transfer.freeze != 0 else "unfreeze_every"
        raise UserError(
            f"transfer.adapter leaves all of the other run as it is, so that transfer.{other} has nothing to do; give"
            " one of them"
        )
    if transfer.adapter is not None and not transfer.weights:
        raise UserError(
            "transfer.adapter adds to weights that stay as they are, and transfer.weights=false takes none; give one of"
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
        raise UserError(f"transfer.from gives a translator its encoder, which {what} cannot take; {remedy}")
    if getattr(config.data, "directions", None) is not None:
        raise UserError(
            "data.directions asks for each language by a token, which the encoder of transfer.from does not know; give"
            " one of them"
        )
    model: Any = config.model
    for name, is_set in (("model.shared_embeddings", model.shared_embeddings), ("text.joint", config.text.joint)):
        if is_set:
            raise UserError(
                f"{name}=true would have both sides share their tokens, and the encoder of transfer.from has its own;"
                " leave it out"
            )


def with_hash(config: Config) -> Config:
    """The config with the hash of the weights that the run starts from."""
    source = config.transfer.source
    if source is None:
        return config
    if not (Path(source) / WEIGHTS).is_file():
        read_weights(Path(source) / WEIGHTS)  # which says why they are not there
    return config.model_copy(
        update={"transfer": config.transfer.model_copy(update={"sha256": file_hash(Path(source) / WEIGHTS)})}
    )


def inherited_tokenizer(config: Config) -> Tokenizer | None:
    """The tokenizer of the run whose body this one has."""
    source = config.transfer.source
    if source is None or is_translator(config):
        return None
    return Tokenizer.load(Path(source) / VOCABULARY / "tokenizer.json")


def has_encoder(config: Config) -> bool:
    """Whether a run's encoder is another's body."""
    transfer: Any = config.transfer
    return transfer.source is not None and is_translator(config) and (transfer.encoder or not transfer.translator)


def inherited_part(task: Any, config: Config) -> tuple[str, Any]:
    """The part of a task that is another run's body, and what the names of its weights begin with."""
    is_encoder = is_translator(config) and not config.transfer.translator
    return ("body.encoder.", task.body.encoder) if is_encoder else ("body.", task.body)


def put_adapters(task: nn.Module, config: Config) -> None:
    """Adapters in the part that is another run's."""
    if config.transfer.adapter is not None:
        adapt(inherited_part(task, config)[1], config.transfer.adapter)


def start_from(task: nn.Module, config: Config, run: Path | None = None, *, is_new: bool = True) -> list[str]:
    """Gives a new task the weights of the run that it stands on: the body's, and those of other parts that both have.
    What was taken, in words. Where the task is adapted, what was taken stays as it is, and is taken again whenever the
    task is built. `run` is the task's own folder, beside which the other may be."""
    if config.transfer.source is None or not (is_new or is_adapted(task)):
        return []
    if not config.transfer.weights:
        return [f"{config.transfer.source}: its body and tokenizers, untrained"]
    source = base_folder(config, run) if is_adapted(task) else Path(config.transfer.source)
    is_same_task = answers_alike(task, source, source_config(source, config.task.name), config)
    prefix, _ = inherited_part(task, config)
    mine = task.state_dict()
    taken, left = {}, []
    for theirs, tensor in read_weights(source / WEIGHTS).items():
        name = prefix + theirs.removeprefix("body.") if theirs.startswith("body.") else theirs
        may_be_taken = name.startswith((prefix, *CARRIED)) or is_same_task
        if may_be_taken and name in mine and mine[name].shape == tensor.shape:
            taken[name] = tensor
        else:
            left.append(theirs)
    new = [name for name in mine if name not in taken]
    own = {
        *adapter_names(task),
        *(name for name, _ in task.named_buffers()),
    }  # a buffer is counted anew: hard attention's baseline
    lacking = next((name for name in new if name.startswith(prefix) and name not in own), None)
    if lacking is not None:
        raise UserError(
            f"transfer.from={source} has no {lacking.replace(prefix, 'body.')} of the shape"
            f" {tuple(mine[lacking].shape)} that this run's model asks for; leave the model section as that run has it"
        )
    task.load_state_dict(taken, strict=False)
    if is_adapted(task):
        for name, parameter in task.named_parameters():
            parameter.requires_grad_(name not in taken)
    left_out = (
        f", {len(left)} of its tensors not used ({', '.join(left[:3])}{', ...' if len(left) > 3 else ''})"
        if left
        else ""
    )
    added = {name for name, _ in task.named_parameters()} & set(new)
    parts = sorted({"adapters" if name in adapter_names(task) else name.split(".")[0] for name in added})
    notes = [f"{source}: starts with {len(taken)} of its tensors{left_out}; new: {', '.join(parts) or 'nothing'}"]
    rate, transfer = config.training.learning_rate, config.transfer
    if rate >= LARGE and transfer.adapter is None and transfer.freeze != "body" and transfer.layer_decay == 1:
        notes.append(
            f"training.learning_rate={rate:g} may undo what {source} has learnt; 1e-5 to 1e-4 is usual on a pre-trained"
            " Transformer"
        )
    return notes


def answers_alike(task: nn.Module, source: Path, theirs: Config, mine: Config) -> bool:
    """Whether a run's output layer says what a task's is to say: both write by the same tokens, or they are of one
    task, and of the same labels in the same order."""
    if mine.transfer.translator:
        return True
    if theirs.task.name != mine.task.name:
        return False
    return all(labels.names == getattr(task, role).names for role, labels in labels_in(source, theirs).items())


def labels_in(folder: Path, config: Config) -> dict[str, Labels]:
    """A run's tables of labels, by role."""
    kinds = TASKS[config.task.name].vocabularies
    return {role: Labels.load(folder / VOCABULARY / f"{role}.json") for role, kind in kinds.items() if kind is Labels}


def in_their_order(vocabularies: dict[str, Any], config: Config) -> dict[str, Any]:
    """The vocabularies of a new run, its labels as the run of the same task has them that it stands on, where they are
    the same ones."""
    source = config.transfer.source
    if source is None or (theirs := source_config(Path(source), config.task.name)).task.name != config.task.name:
        return vocabularies
    known = labels_in(Path(source), theirs)
    return {
        **vocabularies,
        **{role: labels for role, labels in known.items() if set(labels.names) == set(vocabularies[role].names)},
    }


def check_base(run: Path, config: Config, places: list[Path]) -> None:
    """Refuses to look for a run where the config of a stranger's says that it is; where there is one beside the
    adapter, that is taken."""
    try:
        check_path(
            run, "transfer.from", str(places[0]), f"or set {BASE} to the folder of the run that it is an adapter on"
        )
    except Foreign:
        if len(places) == 1 or not is_run(places[1]):
            raise
        del places[0]


def base_folder(config: Config, run: Path | None) -> Path:
    """Where the run is that an adapter stands on: where it was, beside the adapter's run, or where CLEW_BASE says; with
    the weights that the adapter was trained on."""
    named, expected = Path(str(config.transfer.source)), config.transfer.sha256
    places = (
        [Path(os.environ[BASE])]
        if BASE in os.environ
        else [named, *([run.parent / named.name] if run is not None else [])]
    )
    if run is not None and BASE not in os.environ:
        check_base(run, config, places)
    there = [place for place in places if is_run(place) and (place / WEIGHTS).is_file()]
    who = "this run" if run is None else str(run)
    if not there:
        raise UserError(
            f"{who} is an adapter on {places[0]}, which is not there; set {BASE} to the folder that it is in now"
        )
    for place in there:
        if expected is None or file_hash(place / WEIGHTS) == expected:
            return place
    raise UserError(
        f"{who} is an adapter on weights that {there[0]} no longer has ({WEIGHTS} has another hash); bring them back, "
        f"or set {BASE} to the folder of a copy"
    )
