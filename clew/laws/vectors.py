"""Laws of norms, which map each position's vector to another; of poolings, which map a sequence's vectors to one; and
of character readers, which map each word's letters to one vector."""

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.laws.cases import Build, Case, Law, Sizes
from clew.laws.sequences import check_output


def norm_contract(build: Build, sizes: Sizes) -> None:
    """A norm keeps the shape and type of its input."""
    case = Case("contract", build, sizes)
    x = case.randn(sizes.batch, sizes.length, sizes.dim)
    check_output(case, case.module(x), tuple(x.shape))


def positions_alone(build: Build, sizes: Sizes) -> None:
    """A norm treats each position separately: neither other positions nor other rows matter."""
    case = Case("positions alone", build, sizes)
    x = case.randn(sizes.batch, sizes.length, sizes.dim)
    together = case.module(x)
    for row in range(sizes.batch):
        for t in range(sizes.length):
            alone = case.module(x[row : row + 1, t : t + 1])
            case.same(f"the norm of row {row}, position {t} alone", together[row : row + 1, t : t + 1], alone)


def pooling_contract(build: Build, sizes: Sizes) -> None:
    """A pooling returns one vector (batch, dim) per row, of its input's type."""
    case = Case("contract", build, sizes)
    hidden = case.randn(sizes.batch, sizes.length, sizes.dim)
    check_output(case, case.module(hidden), (sizes.batch, sizes.dim))
    check_output(
        case, case.module(hidden, torch.ones(sizes.batch, sizes.length, dtype=torch.bool)), (sizes.batch, sizes.dim)
    )


def real_positions_only(build: Build, sizes: Sizes) -> None:
    """A row has the same pooled vector alone and in a batch: neither padding nor other rows matter."""
    case = Case("real positions only", build, sizes)
    hidden = case.randn(sizes.batch, sizes.length, sizes.dim)
    lengths = [case.randint(1, sizes.length) for _ in range(sizes.batch)]
    mask = torch.arange(sizes.length) < torch.tensor(lengths)[:, None]
    for kind in (mask, mask.long()):
        pooled = case.module(torch.where(mask[..., None], hidden, 10 * case.randn(*hidden.shape)), kind)
        for row, n in enumerate(lengths):
            alone = case.module(hidden[row : row + 1, :n])
            case.same(f"row {row} of {n} real positions, alone", alone, pooled[row : row + 1], axes=("row", "feature"))


def characters_contract(build: Build, sizes: Sizes) -> None:
    """A character reader returns a vector (batch, length, dim) per word, which is finite even for a word
    without letters."""
    case = Case("contract", build, sizes)
    check_output(case, case.module(draw_letters(case)), (sizes.batch, sizes.length, sizes.dim))
    check_output(
        case,
        case.module(torch.zeros(sizes.batch, sizes.length, 3, dtype=torch.long)),
        (sizes.batch, sizes.length, sizes.dim),
    )


def words_alone(build: Build, sizes: Sizes) -> None:
    """A word's vector depends only on its letters, not on padding or other words."""
    case = Case("words alone", build, sizes)
    letters = draw_letters(case)
    together = case.module.eval()(F.pad(letters, (0, 2)))
    for row, word in enumerate(letters.flatten(0, 1)):
        alone = case.module(word[None, None, : int((word > 0).sum())])
        case.same(f"the vector of word {row} alone", together.flatten(0, 1)[row], alone[0, 0], axes=("feature",))


def draw_letters(case: Case) -> Tensor:
    """Return random words of one to eight letters."""
    sizes, longest = case.sizes, 8
    letters = torch.randint(1, 259, (sizes.batch, sizes.length, longest), generator=case.generator)
    lengths = torch.randint(1, longest + 1, (sizes.batch, sizes.length, 1), generator=case.generator)
    return letters.masked_fill(torch.arange(longest) >= lengths, 0)


NORM_LAWS: dict[str, Law] = {"contract": norm_contract, "positions alone": positions_alone}
POOLING_LAWS: dict[str, Law] = {"contract": pooling_contract, "real positions only": real_positions_only}
CHARACTER_LAWS: dict[str, Law] = {"contract": characters_contract, "words alone": words_alone}
