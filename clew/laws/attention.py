"""Laws of scores and position encodings. An attention layer built from them also obeys the laws of sequence layers."""

import torch
from torch import Tensor

from clew.core.masks import Places
from clew.core.taps import watching
from clew.laws.cases import TOLERANCE, Build, Case, Law, Sizes
from clew.laws.sequences import check_output
from clew.layers.attention import Attention
from clew.layers.positions import Position
from clew.layers.scores import Score

HEADS = 2
PAIR = ("row", "head", "query", "key")
SHIFTS = (1, 7)


def score_contract(build: Build, sizes: Sizes) -> None:
    """Scores have the shape (batch, heads, query, key) and the type of queries and keys."""
    case = Case("contract", build, sizes)
    if not isinstance(case.module, Score):
        case.fail(f"a score must be a clew.layers.scores.Score; {type(case.module).__name__} is not")
    query, key, positions = draw_pairs(case)
    check_output(case, case.module(query, key, positions), (sizes.batch, HEADS, sizes.length, key.shape[2]))


def pairs(build: Build, sizes: Sizes) -> None:
    """The score of a query and a key does not depend on other keys, queries, heads or rows, so masked keys have no
    influence."""
    case = Case("pairs", build, sizes)
    query, key, positions = draw_pairs(case)
    together = case.module(query, key, positions)
    for row in range(sizes.batch):
        for k in range(key.shape[2]):
            alone = case.module(
                query[row : row + 1, :1, :1], key[row : row + 1, :1, k : k + 1], positions[:, :, k : k + 1]
            )
            case.same(
                f"the score of query 0 and key {k} in row {row}, alone",
                together[row : row + 1, :1, :1, k : k + 1],
                alone,
                axes=PAIR,
            )
    query, key = query.flip(0, 1), key.flip(0, 1)
    case.same(
        "scores with rows and heads in another order",
        together.flip(0, 1),
        case.module(query, key, positions),
        axes=PAIR,
    )


def dot_products(build: Build, sizes: Sizes) -> None:
    """A score that declares itself a dot product after a projection equals that dot product."""
    case = Case("dot products", build, sizes)
    if not case.module.is_dot:
        return
    query, key, positions = draw_pairs(case)
    left, right, scale = case.module.as_dot(query, key)
    case.same("as_dot against forward", case.module(query, key, positions), scale * left @ right.mT, axes=PAIR)


def preparing(build: Build, sizes: Sizes) -> None:
    """`compare(query, prepare(key))` equals the score."""
    case = Case("preparing", build, sizes)
    query, key, positions = draw_pairs(case)
    together = case.module.compare(query, case.module.prepare(key), positions)
    case.same("compare(query, prepare(key)) against forward", case.module(query, key, positions), together, axes=PAIR)


def hidden_keys(build: Build, sizes: Sizes) -> None:
    """Masked keys get weight 0, and the weights of the others sum to one."""
    case = Case("hidden keys", build, sizes)
    query, key, positions = draw_pairs(case)
    value, width = case.randn(*key.shape), key.shape[2]
    num_visible = [case.randint(1, width) for _ in range(sizes.batch)]
    visible = (torch.arange(width) < torch.tensor(num_visible)[:, None])[:, None, None, :]
    attention = Attention(case.module)
    weights: list[Tensor] = []
    nowhere = torch.zeros(1, sizes.length, dtype=torch.long)

    def attend(key: Tensor, value: Tensor) -> Tensor:
        with watching({attention.weights: weights.append}):
            return attention(query, key, value, Places(nowhere, nowhere), positions[:, 0], visible)

    context = attend(key, value)
    hidden = (~visible).expand_as(weights[0])
    case.same(
        "the weight of hidden keys", torch.zeros_like(weights[0][hidden]), weights[0][hidden], axes=("hidden key",)
    )
    case.same("the sum of the weights", torch.ones_like(weights[0].sum(-1)), weights[0].sum(-1), axes=PAIR)
    visible_keys = visible.mT
    changed = attend(
        torch.where(visible_keys, key, 10 * case.randn(*key.shape)),
        torch.where(visible_keys, value, 10 * case.randn(*key.shape)),
    )
    case.same("the context when hidden keys change", context, changed, axes=("row", "head", "query", "feature"))


def position_contract(build: Build, sizes: Sizes) -> None:
    """An encoding keeps shapes and types, accepts positions shared by all rows, and declares each method that it
    implements."""
    case = Case("contract", build, sizes)
    position = case.module
    if not isinstance(position, Position):
        case.fail(f"a position encoding must be a clew.layers.positions.Position; {type(position).__name__} is not")
    for method, flag in (("rotate", "in_layers"), ("scores", "biases"), ("values", "adds_values")):
        if getattr(type(position), method) is not getattr(Position, method) and not getattr(position, flag):
            case.fail(f"it implements {method}, but {flag} is False, so {method} is never called; set {flag} = True")
    if (position.biases or position.adds_values) and not position.in_layers:
        case.fail(
            "it acts on scores or values, but in_layers is False, so attention layers do not receive it; set"
            " in_layers = True"
        )
    shared = torch.arange(sizes.length)[None]
    each = shared.expand(sizes.batch, -1)
    x, query = case.draw(), case.randn(sizes.batch, HEADS, sizes.length, sizes.dim)
    check_output(case, position.embed(x, each), tuple(x.shape))
    case.same("embed with positions shared by the rows", position.embed(x, each), position.embed(x, shared))
    check_output(case, position.rotate(query, each), tuple(query.shape))
    case.same(
        "rotate with positions shared by the rows",
        position.rotate(query, each),
        position.rotate(query, shared),
        axes=PAIR,
    )
    if position.biases:
        scores = position.scores(query, each, each)
        if tuple(scores.expand(sizes.batch, HEADS, -1, -1).shape[2:]) != (sizes.length, sizes.length):
            case.fail(f"scores must return (batch, heads, query, key), not {tuple(scores.shape)}")


def shifting(build: Build, sizes: Sizes) -> None:
    """Attention depends only on the distance of two positions: shifting both changes nothing."""
    case = Case("shifting", build, sizes)
    if not case.module.in_layers:
        return
    attention = Attention(Score(sizes.dim, sizes.dim), case.module)
    query, key, value = (case.randn(sizes.batch, HEADS, sizes.length, sizes.dim) for _ in range(3))

    def attend(index: Tensor) -> Tensor:
        places = Places(index, torch.zeros_like(index))
        return attention(case.module.rotate(query, index), case.module.rotate(key, index), value, places, index)

    index = torch.arange(sizes.length)[None]
    for shift in SHIFTS:
        # Angles are computed in float32, so a rotation is exact to about 1e-6.
        what = f"the context when positions count from {shift}"
        case.same(
            what, attend(index), attend(index + shift), axes=("row", "head", "query", "feature"), near=1e3 * TOLERANCE
        )


def content(build: Build, sizes: Sizes) -> None:
    """An encoding that declares itself independent of content adds the same to the scores for every query."""
    case = Case("content", build, sizes)
    if not case.module.biases or not case.module.content_free:
        return
    query = case.randn(sizes.batch, HEADS, sizes.length, sizes.dim)
    index = torch.arange(sizes.length)[None]
    added, added_to_other = (case.module.scores(q, index, index) for q in (query, 10 * query + 1))
    case.same("scores of another query", added, added_to_other, axes=PAIR)


def draw_pairs(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Return random queries of width input_dim, one more key than queries, of width dim, and the positions of the
    keys."""
    sizes = case.sizes
    query = case.randn(sizes.batch, HEADS, sizes.length, sizes.input_dim)
    key = case.randn(sizes.batch, HEADS, sizes.length + 1, sizes.dim)
    return query, key, torch.arange(sizes.length + 1)[None, None]


SCORE_LAWS: dict[str, Law] = {
    "contract": score_contract,
    "pairs": pairs,
    "dot products": dot_products,
    "preparing": preparing,
    "hidden keys": hidden_keys,
}
POSITION_LAWS: dict[str, Law] = {"contract": position_contract, "shifting": shifting, "content": content}
