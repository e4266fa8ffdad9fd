"""The experiment `cost`: the operations of each kind of layer against the length of the text, counted and by
formula."""

from collections.abc import Sequence

from clew.inspection.cost import KindCosts, kinds_view, measure_kinds, slope
from clew.tour.experiment import Experiment, Finding, Report, Scale

WIDTH = 64
SIZES: dict[Scale, tuple[tuple[int, ...], tuple[int, ...], int]] = {
    "quick": ((32, 64, 128, 256), (16, 32), 0),
    "tour": ((32, 64, 128, 256, 512, 1024), (16, 32, 64, 128), 3),
    "full": ((32, 64, 128, 256, 512, 1024, 2048), (16, 32, 64, 128, 256), 3),
}
"""Lengths, widths, and the number of timing runs for each."""


def run(scale: Scale, seed: int, report: Report) -> Finding:
    lengths, widths, repeats = SIZES[scale]
    report(f"one layer of each kind, {lengths[0]} to {lengths[-1]} positions, width {WIDTH}")
    costs = measure_kinds(lengths, widths, length=lengths[1], width=WIDTH, repeats=repeats, seed=seed)
    kinds = {kind.name: kind for kind in costs}
    attention, recurrence = kinds["self-attention"], kinds["recurrence"]
    meeting = crossing(lengths, attention.by_length.flops, recurrence.by_length.flops)
    off = {
        name: max(abs(flops / formula - 1) for flops, formula in zip(*kind.by_length[1:3], strict=True))
        for name, kind in kinds.items()
    }
    surplus = off.pop("windowed attention")
    powers = {name: slope(lengths[-2:], kind.by_length.flops[-2:]) for name, kind in kinds.items()}
    exponents = ", ".join(f"{name} {power:.2f}" for name, power in powers.items())
    meet = f"at {meeting:.0f} positions" if meeting is not None else "at none of the lengths"
    return Finding(
        "Cost against length",
        "With n positions of width d, self-attention takes n^2 d operations, a constant number of them sequential;"
        " recurrence takes n d^2, n of them sequential; convolution takes k n d^2, windowed attention r n d."
        " Self-attention is cheaper than recurrence if n < d (Vaswani et al. 2017, table 1).",
        f"From {lengths[-2]} to {lengths[-1]} positions, FLOPs grow with this power of the length: {exponents}."
        f" Attention costs as much as an LSTM {meet} of width {WIDTH}: its projections, which the table omits, also"
        " take n d^2, and an LSTM has four maps. Sequential products at the greatest length:"
        f" {attention.by_length.chains[-1]} for attention, {recurrence.by_length.chains[-1]} for recurrence. The counts"
        f" differ from the formula by at most {max(off.values()):.1%}, except for windowed attention, which reads a"
        f" chunk in addition to its window: {surplus:.0%} more, at every longer length.",
        kinds_view(costs, length=lengths[1], width=WIDTH),
        rows_of(costs, powers, lengths, meeting),
    )


def crossing(lengths: Sequence[int], rising: Sequence[float], other: Sequence[float]) -> float | None:
    """Return the length at which `rising` overtakes `other`, by linear interpolation of their ratio; None if it never
    does."""
    ratios = [above / below for above, below in zip(rising, other, strict=True)]
    for place in range(1, len(ratios)):
        if ratios[place - 1] < 1 <= ratios[place]:
            share = (1 - ratios[place - 1]) / (ratios[place] - ratios[place - 1])
            return lengths[place - 1] + share * (lengths[place] - lengths[place - 1])
    return None


def rows_of(
    costs: Sequence[KindCosts], powers: dict[str, float], lengths: Sequence[int], meeting: float | None
) -> list[tuple[str, str, str]]:
    claimed = {"self-attention": "2", "recurrence": "1", "convolution": "1", "windowed attention": "1"}
    span = f"{lengths[-2]} to {lengths[-1]} positions"
    rows = [
        (
            f"power of the length with which FLOPs grow, {kind.name}, {span}",
            claimed[kind.name],
            f"{powers[kind.name]:.2f}",
        )
        for kind in costs
    ]
    met = "none of the lengths" if meeting is None else f"{meeting:.0f}"
    return [*rows, (f"length from which attention costs more than an LSTM, width {WIDTH}", f"{WIDTH}", met)]


COST = Experiment("cost of layers against length, counted and by formula", run)
