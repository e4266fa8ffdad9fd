"""Which parameters of a fine-tuned run are trained, from which step on, and with which learning rate. All of it depends
on the step only, so that a resumed run continues like an uninterrupted one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from clew.core.errors import UserError, counted
from clew.core.processes import is_distributed
from clew.layers.blocks import parameter_blocks
from clew.runs.config import Config, TransferConfig
from clew.runs.transfer import inherited_part

Level = Sequence[nn.Parameter]


def levels_of(task: nn.Module, config: Config) -> tuple[list[Level], Level]:
    """Return the parameters of the body from the base run, block by block with the embedding first; and all other
    parameters."""
    _, body = inherited_part(task, config)
    blocks: list[Level] = [list(block.values()) for block in parameter_blocks(body)]
    inside = {id(parameter) for block in blocks for parameter in block}
    return blocks, [parameter for parameter in task.parameters() if id(parameter) not in inside]


def freeze(task: nn.Module, config: Config) -> None:
    """Exclude the parameters of `transfer.freeze` from training."""
    transfer: TransferConfig = config.transfer
    if transfer.source is None:
        return
    blocks, _ = levels_of(task, config)
    for block in blocks[: num_always_frozen(transfer, len(blocks) - 1)]:
        for parameter in block:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in task.parameters()):
        raise UserError(
            f"transfer.freeze={transfer.freeze} leaves nothing to train, as all parameters of this run are in its body;"
            " freeze less"
        )


def num_always_frozen(transfer: TransferConfig, num_blocks: int) -> int:
    """Return the number of levels that are frozen; the embedding is the first."""
    if isinstance(transfer.freeze, str):
        return {"embedding": 1, "body": num_blocks + 1}[transfer.freeze]
    if transfer.freeze > num_blocks:
        raise UserError(
            f"transfer.freeze ({transfer.freeze}) must be at most {num_blocks}, the number of blocks of the body;"
            " transfer.freeze=body freezes all of it"
        )
    return transfer.freeze + 1 if transfer.freeze else 0


def scale_rates(optimiser: torch.optim.Optimizer, task: nn.Module, config: Config) -> None:
    """Split the optimiser's groups by learning rate (Howard and Ruder 2018).

        rate outside the body = learning_rate * head_rate
        rate of block k of n  = learning_rate * layer_decay^(n - k + 1),    the embedding is block 0

    The groups of a built optimiser are split, so that optimisers need not know blocks, and only they choose the
    parameters with weight decay.
    """
    transfer: TransferConfig = config.transfer
    if transfer.source is None or (transfer.layer_decay == 1.0 and transfer.head_rate == 1.0):
        return
    blocks, outside = levels_of(task, config)
    factors = {id(parameter): transfer.head_rate for parameter in outside}
    for number, block in enumerate(blocks):
        factors |= {id(parameter): transfer.layer_decay ** (len(blocks) - number) for parameter in block}
    groups: list[dict[str, Any]] = []
    for group in optimiser.param_groups:
        for factor in sorted({factors[id(parameter)] for parameter in group["params"]}, reverse=True):
            params = [parameter for parameter in group["params"] if factors[id(parameter)] == factor]
            groups.append({**group, "params": params, "lr": group["lr"] * factor})
    optimiser.param_groups[:] = groups


@dataclass
class Unfreezing:
    """Gradual unfreezing (Howard and Ruder 2018): at first only the parameters outside the body are trained. After
    every `every` steps one more block is trained, from the top block to the embedding. If there are no parameters
    outside the body, the top block is trained from the start."""

    blocks: list[Level]
    outside: Level
    every: int

    def num_frozen(self, step: int) -> int:
        """Return the number of levels that are still frozen at a step, counted from the embedding upwards."""
        unfrozen = step // self.every + (not self.outside)
        return max(len(self.blocks) - unfrozen, 0)

    def __call__(self, step: int) -> list[nn.Parameter]:
        """Return the parameters that a step must not change. A single process does not compute their gradients either;
        several processes do, because the gradients that they exchange are fixed."""
        num_frozen = self.num_frozen(step)
        if not is_distributed():
            for number, block in enumerate(self.blocks):
                for parameter in block:
                    parameter.requires_grad_(number >= num_frozen)
        return [parameter for block in self.blocks[:num_frozen] for parameter in block]


def unfreezing(task: nn.Module, config: Config) -> Unfreezing | None:
    """Return the gradual unfreezing of a config, or None. Call `freeze` first."""
    transfer: TransferConfig = config.transfer
    if transfer.unfreeze_every is None:
        return None
    blocks, outside = levels_of(task, config)
    trained = [[parameter for parameter in block if parameter.requires_grad] for block in blocks]
    return Unfreezing([block for block in trained if block], outside, transfer.unfreeze_every)


def check_unfreezing(task: nn.Module, config: Config) -> None:
    """Raise an error if some block would stay frozen until the last step. Call `freeze` first."""
    schedule, steps = unfreezing(task, config), config.training.steps
    if schedule is None or not (frozen := schedule.num_frozen(steps - 1)):
        return
    turns = len(schedule.blocks) - (not schedule.outside)
    enough = turns * schedule.every + 1
    most = (steps - 1) // turns
    total = len(schedule.blocks)
    raise UserError(
        f"transfer.unfreeze_every ({schedule.every}) reaches only {total - frozen} of {counted(total, 'level')} of the"
        f" body within training.steps ({steps}), and the others would never be trained; set"
        f" {f'it to at most {most}, or ' if most else ''}training.steps to at least {enough}, or freeze these levels"
        " with transfer.freeze"
    )
