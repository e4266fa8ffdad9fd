"""Scores, position encodings and multi-head attention from the papers, for one query and one key at a time."""

import math

import numpy as np

from tests.references.cells import affine


def dot(p, s, h, j):
    return sum(a * b for a, b in zip(mapped(p, s), h, strict=True))


def scaled(p, s, h, j):
    return dot(p, s, h, j) / math.sqrt(len(h))


def mapped(p, s):
    return affine(p["map.weight"], s) if "map.weight" in p else s


def additive(p, s, h, j):
    inside = affine(p["key_weight.weight"], h) + p["key_weight.bias"] + affine(p["query_weight.weight"], s)
    return sum(v * math.tanh(a) for v, a in zip(p["vector.weight"][0], inside, strict=True))


def location(p, s, h, j):
    return (affine(p["places.weight"], s) + p["places.bias"])[j]


def content(p, s, h, j):
    """Graves et al. 2014, equation 6; beta is 1 if it is not learnt."""
    s = mapped(p, s)
    beta = p["sharpness"].item() if "sharpness" in p else 1.0
    return beta * dot({}, s, h, j) / (math.sqrt(sum(a * a for a in s)) * math.sqrt(sum(b * b for b in h)))


SCORES = {"dot": dot, "scaled": scaled, "general": dot, "additive": additive, "location": location, "content": content}


def all_scores(score):
    """The score of all queries (batch, heads, query, width) and keys (batch, heads, key, width)."""

    def run(p, query, key):
        out = np.zeros((*query.shape[:3], key.shape[2]))
        for b, h, i, j in np.ndindex(out.shape):
            out[b, h, i, j] = score(p, query[b, h, i], key[b, h, j], j)
        return out

    return run


def softmax(scores: list[float]) -> np.ndarray:
    powers = [math.exp(s - max(scores)) for s in scores]
    return np.array(powers) / sum(powers)


def rotated(vector: np.ndarray, position: int, base: float = 10000.0, scaling=None) -> np.ndarray:
    """Su et al. 2021: features k and k + d/2 form a complex number, which is rotated by e^(i position theta_k).
    `scaling` gives theta_k and the factor of the vector."""
    half = len(vector) // 2
    out = np.zeros(len(vector))
    for k in range(half):
        frequency, factor = base ** (-2 * k / len(vector)), 1.0
        if scaling is not None:
            frequency, factor = scaling(k, len(vector), base, position)
        turned = factor * complex(vector[k], vector[k + half]) * np.exp(1j * position * frequency)
        out[k], out[k + half] = turned.real, turned.imag
    return out


def linear_scaling(k, dim, base, position, *, factor):
    """Chen et al. 2023, section 2.2: position m of a longer text becomes position m / factor."""
    return base ** (-2 * k / dim) / factor, 1.0


def dynamic_scaling(k, dim, base, position, *, factor, original_max_length):
    """Peng et al. 2023, appendix B.3 and definition 1: the base depends on the length so far."""
    length = max(position + 1, original_max_length)
    stretch = factor * length / original_max_length - (factor - 1)
    return (base * stretch ** (dim / (dim - 2))) ** (-2 * k / dim), 1.0


def llama3_scaling(k, dim, base, position, *, factor, low_freq_factor, high_freq_factor, original_max_length):
    """By wavelength: short waves are kept, long ones are stretched, those between are interpolated."""
    frequency = base ** (-2 * k / dim)
    wave = 2 * math.pi / frequency
    if wave < original_max_length / high_freq_factor:
        return frequency, 1.0
    if wave > original_max_length / low_freq_factor:
        return frequency / factor, 1.0
    smooth = (original_max_length / wave - low_freq_factor) / (high_freq_factor - low_freq_factor)
    return (1 - smooth) * frequency / factor + smooth * frequency, 1.0


def yarn_scaling(k, dim, base, position, *, factor, original_max_length, fast_turns=32.0, slow_turns=1.0):
    """Peng et al. 2023, as released: the ramp is over the indices of pairs."""
    frequency = base ** (-2 * k / dim)

    def pair(turns):
        return dim * math.log(original_max_length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(pair(fast_turns)), 0), min(math.ceil(pair(slow_turns)), dim - 1)
    ramp = min(max((k - low) / (high - low), 0.0), 1.0)
    return ramp * frequency / factor + (1 - ramp) * frequency, 0.1 * math.log(factor) + 1


def sinusoid(position: int, dim: int, base: float = 10000.0) -> np.ndarray:
    """Vaswani et al. 2017, section 3.5."""
    return np.array(
        [
            math.sin(position / base ** (feature / dim))
            if feature % 2 == 0
            else math.cos(position / base ** ((feature - 1) / dim))
            for feature in range(dim)
        ]
    )


def slope(head: int, num_heads: int) -> float:
    """Press et al. 2022: a geometric sequence that starts at 2^(-8/n) and has the same ratio, for n a power of two. For
    other n, as in their code: first the slopes of the next lower power of two, then the first, third, fifth ... slopes
    of twice as many."""
    closest = 1
    while 2 * closest <= num_heads:
        closest *= 2
    if head < closest:
        return (2.0 ** (-8.0 / closest)) ** (head + 1)
    return (2.0 ** (-8.0 / (2 * closest))) ** (2 * (head - closest) + 1)


def multi_head(
    p: dict,
    x: np.ndarray,
    num_heads: int,
    num_kv_heads: int | None = None,
    causal: bool = True,
    window: int | None = None,
    score=scaled,
    position: str = "none",
) -> np.ndarray:
    """Vaswani et al. 2017 with grouped keys (Ainslie et al. 2023), windows, ALiBi, rotary and Shaw's relative
    positions."""
    num_kv_heads = num_kv_heads or num_heads
    head_dim = len(p["query.weight"]) // num_heads
    of_score = {
        name.removeprefix("attention.score."): value for name, value in p.items() if name.startswith("attention.score.")
    }
    out = np.zeros((*x.shape[:2], len(p["output.weight"])))
    for b, row in enumerate(x):
        q = [affine(p["query.weight"], word) + p["query.bias"] for word in row]
        k = [affine(p["key.weight"], word) + p["key.bias"] for word in row]
        v = [affine(p["value.weight"], word) + p["value.bias"] for word in row]
        for i in range(len(row)):
            contexts = []
            for head in range(num_heads):
                shared = head // (num_heads // num_kv_heads)
                mine, theirs = (
                    slice(head * head_dim, (head + 1) * head_dim),
                    slice(shared * head_dim, (shared + 1) * head_dim),
                )
                visible = [
                    j for j in range(len(row)) if not (causal and j > i) and (window is None or abs(i - j) <= window)
                ]
                scores = []
                for j in visible:
                    query, key = q[i][mine], k[j][theirs]
                    if position == "rotary":
                        query, key = rotated(query, i), rotated(key, j)
                    if position == "relative":
                        scores.append(sum(query * (key + relative(p, "keys", i, j))) / math.sqrt(head_dim))
                        continue
                    scores.append(
                        score(of_score, query, key, j)
                        - (slope(head, num_heads) * abs(i - j) if position == "alibi" else 0.0)
                    )
                context = np.zeros(head_dim)
                for weight, j in zip(softmax(scores), visible, strict=True):
                    added = relative(p, "value_vectors", i, j) if position == "relative" else 0.0
                    context = context + weight * (v[j][theirs] + added)
                contexts.append(context)
            out[b, i] = affine(p["output.weight"], np.concatenate(contexts)) + p["output.bias"]
    return out


def relative(p: dict, table: str, i: int, j: int) -> np.ndarray:
    """Shaw et al. 2018: a vector for clip(j - i, -k, k)."""
    vectors = p[f"attention.position.{table}"]
    furthest = len(vectors) // 2
    return vectors[max(-furthest, min(furthest, j - i)) + furthest]
