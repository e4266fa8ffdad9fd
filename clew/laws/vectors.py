"""The laws of norms, which turn each position's vector into another, and of poolings, which turn a sequence's vectors into one."""

import torch

from clew.laws.cases import Build, Case, Law, Sizes
from clew.laws.sequences import check_output


def norm_contract(build: Build, sizes: Sizes) -> None:
    """A norm gives a vector of the same width and type for each it is given."""
    case = Case("contract", build, sizes)
    x = case.randn(sizes.batch, sizes.length, sizes.dim)
    check_output(case, case.module(x), tuple(x.shape))


def positions_alone(build: Build, sizes: Sizes) -> None:
    """A norm looks at one position at a time: neither other positions nor other rows change what it gives."""
    case = Case("positions alone", build, sizes)
    x = case.randn(sizes.batch, sizes.length, sizes.dim)
    together = case.module(x)
    for row in range(sizes.batch):
        for t in range(sizes.length):
            alone = case.module(x[row : row + 1, t : t + 1])
            case.same(f"the norm of row {row}, position {t} alone", together[row : row + 1, t : t + 1], alone)


def pooling_contract(build: Build, sizes: Sizes) -> None:
    """A pooling gives one vector (batch, dim) a row, of the type of what it is given."""
    case = Case("contract", build, sizes)
    hidden = case.randn(sizes.batch, sizes.length, sizes.dim)
    check_output(case, case.module(hidden), (sizes.batch, sizes.dim))
    check_output(case, case.module(hidden, torch.ones(sizes.batch, sizes.length, dtype=torch.bool)), (sizes.batch, sizes.dim))


def real_positions_only(build: Build, sizes: Sizes) -> None:
    """A padded row pools to what it pools to alone: neither padding nor other rows count."""
    case = Case("real positions only", build, sizes)
    hidden = case.randn(sizes.batch, sizes.length, sizes.dim)
    lengths = [case.randint(1, sizes.length) for _ in range(sizes.batch)]
    mask = torch.arange(sizes.length) < torch.tensor(lengths)[:, None]
    for kind in (mask, mask.long()):
        pooled = case.module(torch.where(mask[..., None], hidden, 10 * case.randn(*hidden.shape)), kind)
        for row, n in enumerate(lengths):
            alone = case.module(hidden[row : row + 1, :n])
            case.same(f"row {row} of {n} real positions, alone", alone, pooled[row : row + 1], axes=("row", "feature"))


NORM_LAWS: dict[str, Law] = {"contract": norm_contract, "positions alone": positions_alone}
POOLING_LAWS: dict[str, Law] = {"contract": pooling_contract, "real positions only": real_positions_only}
