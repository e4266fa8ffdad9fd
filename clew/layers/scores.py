"""Attention scores: how well a query fits a key. Members of SCORES are built as `S(query_dim, key_dim, *, options)`.

`forward(query, key, key_positions) -> (batch, heads, query, key)` with query and key (batch, heads, length, width); a score that
`uses_positions` is given where each key stands for each query (batch, query or 1, key), -1 where the query does not see it. A
score that is a dot product after a projection also says so through `as_dot`, and then runs on the fused kernel. Where query and
key differ in width and the score needs them equal, the query is first mapped to the key's width.

    score(query, key, key_positions) = score.compare(query, score.prepare(key), key_positions)

so that a decoder whose queries come one by one does what concerns the keys alone once.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError


class Score(nn.Module):
    """score = (map q) . k, the map being the identity where the widths agree."""

    is_dot = True
    uses_positions = False
    length_axes = (2, 3)

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.map = None if query_dim == key_dim else nn.Linear(query_dim, key_dim, bias=False)

    def mapped(self, query: Tensor) -> Tensor:
        return query if self.map is None else self.map(query)

    def forward(self, query: Tensor, key: Tensor, key_positions: Tensor) -> Tensor:
        query, key, scale = self.as_dot(query, key)
        return scale * query @ key.mT

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        """A query, a key and a scale whose scaled dot product is this score."""
        return self.mapped(query), key, 1.0

    def prepare(self, key: Tensor) -> Tensor:
        """What of the score depends on the keys alone, for `compare`; the batch, the heads and the keys stay its first three axes."""
        return key

    def compare(self, query: Tensor, prepared: Tensor, key_positions: Tensor | None) -> Tensor:
        """The score from prepared keys."""
        scores: Tensor = self(query, prepared, key_positions)
        return scores


class Dot(Score):
    """score = s . h  (Luong et al. 2015)."""

    def prepare(self, key: Tensor) -> Tensor:
        return key if self.map is None else key @ self.map.weight  # (map q) . k = q . (map^T k)

    def compare(self, query: Tensor, prepared: Tensor, key_positions: Tensor | None) -> Tensor:
        return query @ prepared.mT


class ScaledDot(Dot):
    """score = s . h / sqrt(width)  (Vaswani et al. 2017): keeps the variance at 1 where the entries' is."""

    def prepare(self, key: Tensor) -> Tensor:
        return super().prepare(key) / math.sqrt(key.shape[-1])

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.mapped(query), key, 1 / math.sqrt(key.shape[-1])


class General(Dot):
    """score = s^T W h  (Luong et al. 2015)."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim)
        self.map = nn.Linear(query_dim, key_dim, bias=False)


class Content(Score):
    """score = beta cosine(s, h),  cosine(s, h) = s . h / (|s| |h|)  (Graves et al. 2014).

    `sharpness` is beta. By default it is 1: the plain cosine, whose weights differ by a factor of e^2 at most, so that attention stays
    nearly even. With `learned` beta is trained, beginning there; Graves et al. have the controller give it at every step.
    """

    def __init__(self, query_dim: int, key_dim: int, *, sharpness: float = 1.0, learned: bool = False):
        super().__init__(query_dim, key_dim)
        # Sharding knows no scalars.
        self.sharpness = nn.Parameter(torch.full((1,), float(sharpness))) if learned else float(sharpness)

    def as_dot(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, float]:
        return self.sharpness * F.normalize(self.mapped(query), dim=-1), F.normalize(key, dim=-1), 1.0

    def prepare(self, key: Tensor) -> Tensor:
        return F.normalize(key, dim=-1)

    def compare(self, query: Tensor, prepared: Tensor, key_positions: Tensor | None) -> Tensor:
        return self.sharpness * F.normalize(self.mapped(query), dim=-1) @ prepared.mT


class Additive(Score):
    """score = v^T tanh(W1 h + W2 s)  (Bahdanau et al. 2015)."""

    is_dot = False

    def __init__(self, query_dim: int, key_dim: int, *, hidden_dim: int | None = None):
        super().__init__(key_dim, key_dim)
        hidden_dim = hidden_dim or key_dim
        self.query_weight = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_weight = nn.Linear(key_dim, hidden_dim)
        self.vector = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor, key_positions: Tensor) -> Tensor:
        return self.compare(query, self.prepare(key), key_positions)

    def prepare(self, key: Tensor) -> Tensor:
        prepared: Tensor = self.key_weight(key)
        return prepared

    def compare(self, query: Tensor, prepared: Tensor, key_positions: Tensor | None) -> Tensor:
        joined = self.query_weight(query)[..., :, None, :] + prepared[..., None, :, :]  # (batch, heads, query, key, hidden)
        scores: Tensor = self.vector(torch.tanh(joined))  # (batch, heads, query, key, 1)
        return scores[..., 0]


class Location(Score):
    """weights = softmax(W s): the place alone, whatever stands there (Luong et al. 2015). W has a row a position, so there is
    a last one."""

    is_dot = False
    uses_positions = True

    def __init__(self, query_dim: int, key_dim: int, *, max_length: int = 512):
        super().__init__(key_dim, key_dim)
        self.max_length = max_length
        self.places = nn.Linear(query_dim, max_length)

    def forward(self, query: Tensor, key: Tensor, key_positions: Tensor) -> Tensor:
        self.check_places(key_positions)
        by_place: Tensor = self.places(query)  # (batch, heads, query, max_length)
        index = key_positions.clamp(0, self.max_length - 1)[:, None]
        return by_place.gather(-1, index.expand(*query.shape[:3], key.shape[2]))

    def check_places(self, key_positions: Tensor) -> None:
        """Refuses a place that W has no row for; on a GPU without waiting for it."""
        if not key_positions.numel() or torch.compiler.is_compiling():
            return
        if key_positions.device.type == "cuda":
            torch._assert_async(key_positions.max() < self.max_length, "a key stands past the last place of a location score")
        elif (last := key_positions.max().item()) >= self.max_length:
            raise UserError(
                f"location scores know {self.max_length} places, but there are {last + 1}; raise the option max_length of the score"
            )


SCORES: dict[str, Callable[..., Score]] = {
    "dot": Dot,
    "scaled": ScaledDot,
    "general": General,
    "additive": Additive,
    "location": Location,
    "content": Content,
}
