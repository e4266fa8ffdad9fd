"""Position-wise networks: each position is computed independently."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import unknown
from clew.core.types import State
from clew.layers.dropouts import Dropout
from clew.layers.sequence import SequenceLayer


def gelu_tanh(x: Tensor) -> Tensor:
    """GELU in its tanh approximation, as in GPT-2."""
    return F.gelu(x, approximate="tanh")


class FeedForward(SequenceLayer):
    """y = W2 g(W1 x + b1) + b2  (Vaswani et al. 2017), or with a gate y = W2 (silu(W1 x) * W3 x)  (SwiGLU, Shazeer
    2020)."""

    def __init__(
        self,
        dim: int,
        *,
        hidden_dim: int | None = None,
        activation: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        if activation not in ACTIVATIONS and activation != "swiglu":
            raise unknown("activation", activation, [*ACTIVATIONS, "swiglu"])
        hidden_dim = hidden_dim or 4 * dim
        self.dim = dim
        self.activation = activation
        self.inner = nn.Linear(dim, hidden_dim, bias=bias)
        self.gate = nn.Linear(dim, hidden_dim, bias=bias) if activation == "swiglu" else None
        self.outer = nn.Linear(hidden_dim, dim, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        hidden = (
            F.silu(self.inner(x)) * self.gate(x)
            if self.gate is not None
            else ACTIVATIONS[self.activation](self.inner(x))
        )
        return self.outer(self.dropout(hidden) if self.training else hidden), None


class Linear(SequenceLayer):
    """y = W x + b."""

    def __init__(self, input_dim: int, dim: int):
        super().__init__()
        self.dim = dim
        self.linear = nn.Linear(input_dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        return self.linear(x), None


class Readout(SequenceLayer):
    """The layer below the output layer, over several concatenated vectors.

    tanh     y   = tanh(W x + b)
    maxout   y_k = max(t_{2k}, t_{2k + 1}),   t = W x + b    (Goodfellow et al. 2013)
    """

    def __init__(self, input_dim: int, dim: int, *, kind: str = "tanh"):
        super().__init__()
        if kind not in ("tanh", "maxout"):
            raise unknown("readout", kind, ["tanh", "maxout"])
        self.dim = dim
        self.kind = kind
        self.linear = nn.Linear(input_dim, dim if kind == "tanh" else 2 * dim)

    def forward(self, x: Tensor, mask: Tensor | None = None, state: State = None) -> tuple[Tensor, State]:
        t = self.linear(x)
        return torch.tanh(t) if self.kind == "tanh" else t.unflatten(-1, (self.dim, 2)).amax(-1), None


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "tanh": torch.tanh,
}
