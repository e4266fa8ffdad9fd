"""Attention scores: how well a query matches a key. Members of SCORES are built as `S(query_dim, key_dim, *, options)`.

`forward(query, key, key_positions) -> (batch, heads, query, key)`, with query and key (batch, heads, length, width).
`key_positions` (batch, query or 1, key) are only for scores that set `uses_positions`: each key's position for each
query, counted within its document, -1 if the query does not see it. A score that is a dot product after a projection
returns its factors from `as_dot`, and then runs on a fused kernel. If query and key differ in width and the score needs
them equal, the query is mapped to the key's width.

    score(query, key, key_positions) = score.compare(query, score.prepare(key), key_positions)

so that a decoder, whose queries come one at a time, computes the part that depends on the keys only once.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.core.errors import UserError


class Score(nn.Module):
    """score = (map q) . k, where the map is the identity if the widths agree."""

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
        """A query, a key and a scale; their scaled dot product is this score."""
        return self.mapped(query), key, 1.0

    def prepare(self, key: Tensor) -> Tensor:
        """The part of the score that depends only on the keys, for `compare`; its first three axes are batch, heads and
        keys."""
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
    """score = s . h / sqrt(width)  (Vaswani et al. 2017): has variance 1 if the entries of s and h do."""

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

    `sharpness` is beta. The default 1 is the plain cosine: its weights differ by at most a factor of e^2, so that
    attention stays nearly uniform. With `learned`, beta is trained from there; in Graves et al. the controller computes
    it at every step.
    """

    def __init__(self, query_dim: int, key_dim: int, *, sharpness: float = 1.0, learned: bool = False):
        super().__init__(query_dim, key_dim)
        # One element, not a scalar: sharding cannot split scalars.
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
        # (batch, heads, query, key, hidden)
        joined = self.query_weight(query)[..., :, None, :] + prepared[..., None, :, :]
        scores: Tensor = self.vector(torch.tanh(joined))  # (batch, heads, query, key, 1)
        return scores[..., 0]


class Location(Score):
    """weights = softmax(W s): depends only on the position, not on its content (Luong et al. 2015). W has one row per
    position, up to `max_length`."""

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
        """Refuse a position without a row in W. On a GPU this does not synchronise."""
        if not key_positions.numel() or torch.compiler.is_compiling():
            return
        if key_positions.device.type == "cuda":
            torch._assert_async(
                key_positions.max() < self.max_length, "a key is past the last position of a location score"
            )
        elif (last := key_positions.max().item()) >= self.max_length:
            raise UserError(
                f"location scores have {self.max_length} positions, but a key has position {last + 1}; raise the"
                " score's option max_length"
            )


SCORES: dict[str, Callable[..., Score]] = {
    "dot": Dot,
    "scaled": ScaledDot,
    "general": General,
    "additive": Additive,
    "location": Location,
    "content": Content,
}
