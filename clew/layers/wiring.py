"""Residual, highway and dense connections, and the place of the norm: layers around layers.

Members of WIRINGS are built as `W(dim, layer, *, norm, dropout, dropout_kind)`, where `dim` is the input width.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from clew.core.config import Part, build_part
from clew.core.errors import UserError, unknown
from clew.core.types import Memory, State
from clew.layers.dropouts import DROPOUTS
from clew.layers.norms import NORMS
from clew.layers.sequence import SequenceLayer


class Plain(SequenceLayer):
    """y = dropout(f(x))."""

    keeps_width = False

    def __init__(
        self, dim: int, layer: SequenceLayer, *, norm: Part = "layer", dropout: float = 0.0, dropout_kind: str = "plain"
    ):
        super().__init__()
        if self.keeps_width and layer.dim != dim:
            raise UserError(
                f"a {type(self).__name__} connection adds its input ({dim} wide) to its output ({layer.dim} wide); make"
                " them equal"
            )
        if dropout_kind not in DROPOUTS:
            raise unknown("dropout_kind", dropout_kind, DROPOUTS)
        self.layer = layer
        self.dim = layer.dim
        self.causal = layer.causal
        self.dropout = DROPOUTS[dropout_kind](dropout)

    def dropped(self, y: Tensor) -> Tensor:
        return self.dropout(y) if self.training else y

    def initial_state(
        self, batch_size: int, memory: Memory | None = None, capacity: int | None = None, *, like: Tensor
    ) -> State:
        return self.layer.initial_state(batch_size, memory, capacity, like=like)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        return self.dropped(y), state


class Residual(Plain):
    """y = x + dropout(f(x))  (He et al. 2016)."""

    keeps_width = True

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        return x + self.dropped(y), state


class PreNorm(Plain):
    """y = x + dropout(f(norm(x)))."""

    keeps_width = True

    def __init__(
        self, dim: int, layer: SequenceLayer, *, norm: Part = "layer", dropout: float = 0.0, dropout_kind: str = "plain"
    ):
        super().__init__(dim, layer, dropout=dropout, dropout_kind=dropout_kind)
        self.norm = build_part("norm", norm, NORMS, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(self.norm(x), mask, state)
        return x + self.dropped(y), state


class PostNorm(PreNorm):
    """y = norm(x + dropout(f(x)))  (Vaswani et al. 2017)."""

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        return self.norm(x + self.dropped(y)), state


class Highway(Plain):
    """y = t * f(x) + (1 - t) * x,  t = sigmoid(W x + b)  (Srivastava et al. 2015). b starts below 0, so that x passes
    at first; deeper stacks need a lower b."""

    keeps_width = True

    def __init__(
        self,
        dim: int,
        layer: SequenceLayer,
        *,
        norm: Part = "layer",
        dropout: float = 0.0,
        dropout_kind: str = "plain",
        bias: float = -1.0,
    ):
        super().__init__(dim, layer, dropout=dropout, dropout_kind=dropout_kind)
        self.transform = nn.Linear(dim, dim)
        nn.init.constant_(self.transform.bias, bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        transform = torch.sigmoid(self.transform(x))
        return transform * self.dropped(y) + (1 - transform) * x, state


class Dense(Plain):
    """y = [x; dropout(f(x))]: every layer of a stack sees the outputs of all layers before it (Huang et al. 2017), so
    the width grows."""

    def __init__(
        self, dim: int, layer: SequenceLayer, *, norm: Part = "layer", dropout: float = 0.0, dropout_kind: str = "plain"
    ):
        super().__init__(dim, layer, dropout=dropout, dropout_kind=dropout_kind)
        self.dim = dim + layer.dim

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x, mask, state)
        return torch.cat([x, self.dropped(y)], -1), state


class Bypass(Plain):
    """y = [dropout(f(x_1 .. x_reads)); the last `keeps` features of x]: some features bypass the layer, for the layers
    above.

    With `residual`, the first features of x are added to f. Not a member of the table, since `reads` and `keeps` depend
    on the layers around it.
    """

    def __init__(
        self,
        dim: int,
        layer: SequenceLayer,
        *,
        reads: int,
        keeps: int,
        residual: bool = False,
        dropout: float = 0.0,
        dropout_kind: str = "plain",
    ):
        super().__init__(dim, layer, dropout=dropout, dropout_kind=dropout_kind)
        if residual and layer.dim > reads:
            raise UserError(
                f"a residual connection adds inputs to outputs, so dim ({layer.dim}) must be at most reads ({reads})"
            )
        self.reads, self.keeps, self.residual = reads, keeps, residual
        self.dim = layer.dim + keeps

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        y, state = self.layer(x[..., : self.reads], mask, state)
        y = self.dropped(y)
        y = x[..., : y.shape[-1]] + y if self.residual else y
        return torch.cat([y, x[..., x.shape[-1] - self.keeps :]], -1) if self.keeps else y, state


WIRINGS: dict[str, Callable[..., Plain]] = {
    "plain": Plain,
    "residual": Residual,
    "pre_norm": PreNorm,
    "post_norm": PostNorm,
    "highway": Highway,
    "dense": Dense,
}
