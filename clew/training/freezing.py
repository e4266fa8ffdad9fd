"""Which parameters of a run that stands on another are trained, from which step on, and how fast. Everything is told by
the step, so that a run that is gone on with does as one that was never interrupted."""

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
    """The parameters of the body that another run has trained, block by block, the embedding's first; and all
    others."""
    _, body = inherited_part(task, config)
    blocks: list[Level] = [list(block.values()) for block in parameter_blocks(body)]
    inside = {id(parameter) for block in blocks for parameter in block}
    return blocks, [parameter for parameter in task.parameters() if id(parameter) not in inside]


def freeze(task: nn.Module, config: Config) -> None:
    """Takes what is never trained out of the training."""
    transfer: TransferConfig = config.transfer
    if transfer.source is None:
        return
    blocks, _ = levels_of(task, config)
    for block in blocks[: num_frozen(transfer, len(blocks) - 1)]:
        for parameter in block:
            parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in task.parameters()):
        raise UserError(
            f"transfer.freeze={transfer.freeze} leaves nothing to train, as all of this run is in its body; freeze less"
        )


def num_frozen(transfer: TransferConfig, num_blocks: int) -> int:
    """How many levels stay as they are, the embedding's being the first."""
    if isinstance(transfer.freeze, str):
        return {"embedding": 1, "body": num_blocks + 1}[transfer.freeze]
    if transfer.freeze > num_blocks:
        raise UserError(
            f"transfer.freeze ({transfer.freeze}) must be at most the {counted(num_blocks, 'block')} that the body has;"
            " transfer.freeze=body leaves all of it as it is"
        )
    return transfer.freeze + 1 if transfer.freeze else 0


def scale_rates(optimiser: torch.optim.Optimizer, task: nn.Module, config: Config) -> None:
    """Parts the optimiser's groups by learning rate (Howard and Ruder 2018).

    rate of what is not of the body = learning_rate * head_rate
    rate of block k of n            = learning_rate * layer_decay^(n - k + 1),    the embedding being block 0

    The groups of a built optimiser are split, so that optimisers know no blocks and only they decide what decays.
    """
    transfer: TransferConfig = config.transfer
    if transfer.source is None or (transfer.layer_decay == 1.0 and transfer.head_rate == 1.0):
        return
    blocks, others = levels_of(task, config)
    factors = {id(parameter): transfer.head_rate for parameter in others}
    for number, block in enumerate(blocks):
        factors |= {id(parameter): transfer.layer_decay ** (len(blocks) - number) for parameter in block}
    groups: list[dict[str, Any]] = []
    for group in optimiser.param_groups:
        for factor in sorted({factors[id(parameter)] for parameter in group["params"]}, reverse=True):
            mine = [parameter for parameter in group["params"] if factors[id(parameter)] == factor]
            groups.append({**group, "params": mine, "lr": group["lr"] * factor})
    optimiser.param_groups[:] = groups


@dataclass
class Unfreezing:
    """Gradual unfreezing (Howard and Ruder 2018): at first what is not of the body is trained; after every `every`
    steps one more block is, the topmost first, the embedding last. Where there is nothing but the body, its topmost
    block is trained from the start."""

    blocks: list[Level]
    others: Level
    every: int

    def num_waiting(self, step: int) -> int:
        """How many levels wait in a step, from the embedding upwards."""
        begun = step // self.every + (not self.others)
        return max(len(self.blocks) - begun, 0)

    def __call__(self, step: int) -> list[nn.Parameter]:
        """The parameters that a step leaves as they are. A process alone does not take their gradients either; of
        several, each has agreed with the others on which gradients they exchange."""
        waiting = self.num_waiting(step)
        if not is_distributed():
            for number, block in enumerate(self.blocks):
                for parameter in block:
                    parameter.requires_grad_(number >= waiting)
        return [parameter for block in self.blocks[:waiting] for parameter in block]


def unfreezing(task: nn.Module, config: Config) -> Unfreezing | None:
    """What waits in each step, where the config says so; to be asked for once `freeze` is done."""
    transfer: TransferConfig = config.transfer
    if transfer.unfreeze_every is None:
        return None
    blocks, others = levels_of(task, config)
    trained = [[parameter for parameter in block if parameter.requires_grad] for block in blocks]
    return Unfreezing([block for block in trained if block], others, transfer.unfreeze_every)


def check_unfreezing(task: nn.Module, config: Config) -> None:
    """Refuses steps so few that some block would wait until the end; to be asked for once `freeze` is done."""
    waiting, steps = unfreezing(task, config), config.training.steps
    if waiting is None or not (left := waiting.num_waiting(steps - 1)):
        return
    turns = len(waiting.blocks) - (not waiting.others)
    enough = turns * waiting.every + 1
    most = (steps - 1) // turns
    total = len(waiting.blocks)
    raise UserError(
        f"transfer.unfreeze_every ({waiting.every}) reaches {total - left} of {counted(total, 'level')} of the body"
        f" within training.steps ({steps}), and the others would never be trained; give"
        f" {f'at most {most}, or ' if most else ''}{enough} steps, or freeze them with transfer.freeze"
    )
