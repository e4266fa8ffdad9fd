"""A run that stands on another: it has that one's body and tokenizer, and starts with what it has learnt."""

from copy import deepcopy
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from clew.core.errors import UserError
from clew.runs.config import Config
from clew.runs.directory import WEIGHTS, check_files, check_run, file_hash, read_config, read_weights
from clew.runs.embedding import check_reads_one_sequence
from clew.text.tokenizer import Tokenizer

INHERITED = ("model", "text", "embedding")
"""The sections that a run takes from the one it stands on; what the user sets is laid over them."""
CARRIED = ("pooling.",)
"""Parts of a task besides its body that any other task with such a part goes on with."""


def inheriting(settings: dict[str, Any], source: Any) -> dict[str, Any]:
    """A recipe's settings with the sections of the run that it is to stand on."""
    if not isinstance(source, str):
        raise UserError(f"transfer.from takes a run's folder, not {source!r}")
    config = source_config(Path(source))
    dumped = config.model_dump(mode="json")
    return deepcopy({**settings, **{section: dumped[section] for section in INHERITED}})


def source_config(folder: Path) -> Config:
    check_run(folder)
    check_files(folder)
    config = read_config(folder)
    check_reads_one_sequence(config, f"transfer.from={folder}")
    if config.embedding.source is not None:  # type: ignore[attr-defined]
        raise UserError(f"{folder} itself reads {config.embedding.source}; give transfer.from={config.embedding.source}")  # type: ignore[attr-defined]
    return config


def with_hash(config: Config) -> Config:
    """The config with the hash of the weights that the run starts from."""
    source = config.transfer.source  # type: ignore[attr-defined]
    if source is None:
        return config
    return config.model_copy(update={"transfer": config.transfer.model_copy(update={"sha256": file_hash(Path(source) / WEIGHTS)})})  # type: ignore[attr-defined]


def inherited_tokenizer(config: Config) -> Tokenizer | None:
    """The tokenizer of the run that this one stands on."""
    source = config.transfer.source  # type: ignore[attr-defined]
    return None if source is None else Tokenizer.load(Path(source) / "vocabulary" / "tokenizer.json")


def start_from(task: nn.Module, config: Config) -> list[str]:
    """Gives a new task the weights of the run that it stands on: the body's, and those of other parts that both have. What was taken, in
    words."""
    source = config.transfer.source  # type: ignore[attr-defined]
    if source is None:
        return []
    is_same_task = source_config(Path(source)).task.name == config.task.name  # type: ignore[attr-defined]
    mine = task.state_dict()
    taken, left = {}, []
    for name, tensor in read_weights(Path(source) / WEIGHTS).items():
        may_be_taken = name.startswith(("body.", *CARRIED)) or is_same_task
        if may_be_taken and name in mine and mine[name].shape == tensor.shape:
            taken[name] = tensor
        else:
            left.append(name)
    new = check_whole(mine, taken, source)
    task.load_state_dict(taken, strict=False)
    left_out = f", {len(left)} of its tensors not used ({', '.join(left[:3])}{', ...' if len(left) > 3 else ''})" if left else ""
    return [f"{source}: starts with {len(taken)} of its tensors{left_out}; new: {', '.join(new) or 'nothing'}"]


def check_whole(mine: dict[str, Tensor], taken: dict[str, Tensor], source: str) -> list[str]:
    """The parts that start anew; one of the body would be a mistake."""
    new = [name for name in mine if name not in taken]
    if lacking := [name for name in new if name.startswith("body.")]:
        raise UserError(
            f"transfer.from={source} has no {lacking[0]} of the shape {tuple(mine[lacking[0]].shape)} that this run's model asks for; "
            "leave the model section as that run has it"
        )
    return sorted({name.split(".")[0] for name in new})
