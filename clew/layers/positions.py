"""Position encodings, which tell attention the position of each word. An encoding acts in one or more of four places.


    embed(x, positions)                                 added to the input
    rotate(x, positions)                                rotates queries and keys
    scores(query, query_positions, key_positions)       added to the scores before the softmax
    values(weights, query_positions, key_positions)     added to the context

By default each does nothing. Positions are (batch, length) or (1, length), counted by the caller from the mask and the
state; two positions are compared only within a document. Members of POSITIONS are built as `P(dim, num_heads, head_dim,
*, options)`.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from clew.core.config import Part, build_part
from clew.core.errors import UserError, unknown
from clew.kernels import choose
from clew.kernels.capture import held_by_graphs
from clew.kernels.rotary import supports_rotary
from clew.layers.attending.rotary_scaling import SCALINGS, Scaling


class Position(nn.Module):
    """No position encoding: self-attention then reads a bag of words.

    `in_layers` says that the encoding acts in every attention layer, each with its own instance, and not once on the
    input; `biases` that it adds to the scores; `content_free` that what it adds does not depend on the query;
    `adds_values` that it adds to the context. `linear_slopes` c (heads,) say that it adds -c |i - j| and nothing else,
    which kernels compute without a tensor of query x key.
    """

    in_layers = False
    biases = False
    content_free = True
    adds_values = False
    max_length: int | None = None

    def __init__(self, dim: int, num_heads: int, head_dim: int):
        super().__init__()

    @property
    def linear_slopes(self) -> Tensor | None:
        return None

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return x

    def scores(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        raise NotImplementedError

    def values(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        raise NotImplementedError

    def keep_heads(self, heads: list[int]) -> None:
        """Drop the parameters of all heads but these."""


class Sinusoidal(Position):
    """Fixed sinusoids (Vaswani et al. 2017).

    p[i, 2k]     = sin(i / base^(2k / dim))
    p[i, 2k + 1] = cos(i / base^(2k / dim))

    Unless `interleaved`, all sines come first and then the cosines, as in Marian.
    """

    def __init__(self, dim: int, num_heads: int, head_dim: int, *, base: float = 10000.0, interleaved: bool = True):
        super().__init__(dim, num_heads, head_dim)
        self.dim = dim
        self.base = base
        self.interleaved = interleaved

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        waves = sinusoids(positions, self.dim, self.base)
        if not self.interleaved:
            waves = torch.cat([waves[..., 0::2], waves[..., 1::2]], -1)
        return x + waves.to(x.dtype)


class Learned(Position):
    """One learned vector per position (Gehring et al. 2017), up to a last position."""

    def __init__(self, dim: int, num_heads: int, head_dim: int, *, max_length: int = 1024):
        super().__init__(dim, num_heads, head_dim)
        self.max_length = max_length
        self.weight = nn.Parameter(torch.empty(max_length, dim))
        nn.init.normal_(self.weight, std=0.02)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        assert self.max_length is not None
        check_positions(positions, self.max_length)
        return x + self.weight[positions]


class Rotary(Position):
    """Rotary embedding (Su et al. 2021): rotates pairs of features by an angle that grows with the position.

        (x_k, x_{k + d/2})  ->  (x_k cos a - x_{k + d/2} sin a,  x_{k + d/2} cos a + x_k sin a),   a = i / base^(2k / d)

    so that q_i . k_j depends on i - j. Features k and k + d/2 form a pair, as in Llama. `scaling` changes the angles
    for longer texts.
    """

    in_layers = True

    def __init__(self, dim: int, num_heads: int, head_dim: int, *, base: float = 10000.0, scaling: Part = "none"):
        super().__init__(dim, num_heads, head_dim)
        if head_dim % 2:
            raise UserError(f"rotary positions rotate pairs of features, so head_dim ({head_dim}) must be even")
        self.head_dim = head_dim
        self.base = base
        self.scaling: Scaling = build_part("rotary scaling", scaling, SCALINGS, head_dim, base)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        if supports_rotary(x) and self.scaling.is_plain and (kernel := choose("rotary", self)) is not None:
            turned: Tensor = kernel(x, positions, kept_frequencies(self.head_dim, self.base, x.device, self.scaling))
            return turned
        turning = frequencies(self.head_dim, self.base, x.device)
        angles = self.scaling.angles(positions[:, None, :, None], turning)  # (batch, 1, length, head_dim / 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        if self.scaling.factor != 1.0:
            cos, sin = cos * self.scaling.factor, sin * self.scaling.factor
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


class ALiBi(Position):
    """Attention with linear biases (Press et al. 2022): score - c |i - j|, with c = 2^(-8 (h + 1) / num_heads) for head
    h.

    The equation is for powers of two. For other numbers, `published` slopes follow the authors' code: the slopes of the
    next lower power of two, 2^m, then every other slope of 2^(m + 1), from the first. `geometric` slopes follow the
    equation for any number.
    """

    in_layers = True
    biases = True
    slopes: Tensor

    def __init__(self, dim: int, num_heads: int, head_dim: int, *, slopes: str = "published"):
        super().__init__(dim, num_heads, head_dim)
        if slopes not in SLOPES:
            raise unknown("slopes", slopes, SLOPES)
        self.register_buffer("slopes", SLOPES[slopes](num_heads), persistent=False)

    def scores(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = (query_positions[:, :, None] - key_positions[:, None, :]).abs()  # (batch, query, key)
        return -self.slopes.to(query.dtype)[:, None, None] * distance[:, None]  # (batch, heads, query, key)

    @property
    def linear_slopes(self) -> Tensor:
        return self.slopes

    def keep_heads(self, heads: list[int]) -> None:
        self.slopes = self.slopes[heads]


class Relative(Position):
    """Relative positions in keys and values (Shaw et al. 2018), r = clip(j - i, -max_distance, max_distance).

        score_ij   = q_i . (k_j + a^K_r) / sqrt(d)
        context_i  = sum_j w_ij (v_j + a^V_r)

    The vectors are shared by the heads of a layer.
    """

    in_layers = True
    biases = True
    content_free = False
    adds_values = True

    def __init__(self, dim: int, num_heads: int, head_dim: int, *, max_distance: int = 16):
        super().__init__(dim, num_heads, head_dim)
        self.max_distance = max_distance
        self.keys = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        self.value_vectors = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        for table in (self.keys, self.value_vectors):
            nn.init.normal_(table, std=0.02)

    def distances(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        relative = key_positions[:, None, :] - query_positions[:, :, None]
        return relative.clamp(-self.max_distance, self.max_distance) + self.max_distance  # (batch, query, key)

    def scores(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        by_distance = query @ self.keys.mT / math.sqrt(query.shape[-1])  # (batch, heads, query, distance)
        index = self.distances(query_positions, key_positions)[:, None]
        return by_distance.gather(-1, index.expand(*query.shape[:3], -1))

    def values(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        index = self.distances(query_positions, key_positions)[:, None].expand_as(weights)
        by_distance = weights.new_zeros(*weights.shape[:3], len(self.value_vectors)).scatter_add(-1, index, weights)
        return by_distance @ self.value_vectors


def geometric_slopes(num_heads: int) -> Tensor:
    """2^(-8 (h + 1) / num_heads) for every head h, from 0."""
    return 2.0 ** (-8.0 * torch.arange(1, num_heads + 1) / num_heads)


def published_slopes(num_heads: int) -> Tensor:
    """The slopes of the next lower power of two, then every other slope of twice that."""
    lower = 2 ** (num_heads.bit_length() - 1)
    between = geometric_slopes(2 * lower)[::2]
    return torch.cat([geometric_slopes(lower), between[: num_heads - lower]])


SLOPES: dict[str, Callable[[int], Tensor]] = {"published": published_slopes, "geometric": geometric_slopes}
"""Ways to choose ALiBi's slopes, one per head."""


def frequencies(dim: int, base: float, device: torch.device) -> Tensor:
    """base^(-2k / dim) for k below dim / 2, rounded up."""
    return base ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float32) / dim)


@held_by_graphs
@lru_cache(maxsize=64)
def kept_frequencies(dim: int, base: float, device: torch.device, scaling: Scaling | None = None) -> Tensor:
    """The frequencies, or their scaled form, computed once for all layers and steps."""
    with torch.inference_mode(False):
        turning = frequencies(dim, base, device)
        return turning if scaling is None else scaling.scaled(turning).float().contiguous()


def sinusoids(positions: Tensor, dim: int, base: float = 10000.0) -> Tensor:
    """(..., dim), sines at even features and cosines at odd ones."""
    # Cached on a GPU, where computing the frequencies takes four kernels per step.
    are_kept = positions.is_cuda and not torch.compiler.is_compiling()
    turning = kept_frequencies(dim, base, positions.device) if are_kept else frequencies(dim, base, positions.device)
    angles = positions[..., None] * turning
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., :dim]


def check_positions(positions: Tensor, max_length: int) -> None:
    """Refuse a position beyond the table. On a GPU this does not synchronise."""
    if not positions.numel() or torch.compiler.is_compiling():
        return
    if positions.device.type == "cuda":
        torch._assert_async(positions.max() < max_length, "a position is past the model's last")
    elif (last := positions.max().item()) >= max_length:
        raise UserError(
            f"the sequence reaches position {last + 1}, but the model has learnt {max_length} positions; shorten it, or"
            " train with a larger model.max_length or an encoding without a last position (rotary, alibi, sinusoidal)"
        )


POSITIONS: dict[str, Callable[..., Position]] = {
    "none": Position,
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": ALiBi,
    "relative": Relative,
}
