"""Show results as a view: a bar chart of all ratios, and a table of the measurements."""

from collections.abc import Sequence

from clew.bench.results import Result
from clew.drawing.views import Bars, Table, View


def draw_results(results: Sequence[Result], machine: str) -> View:
    ratios = [(f"{result.workload}, {peer}", each.value) for result in results for peer, each in result.ratios.items()]
    bars = Bars(
        [name for name, _ in ratios],
        [value for _, value in ratios],
        "clew's time / the peer's time; below 1, clew is faster",
        low=0.0,
    )
    rows = [
        (result.workload, name, result.tokens / side.timing.median, 1000 * side.timing.median, 100 * side.timing.spread)
        for result in results
        for name, side in result.sides.items()
    ]
    table = Table(("workload", "side", "tokens/s", "ms a call", "spread, %"), rows, keys=2)
    return View(
        "Time compared with peers", [bars, table], machine, {"results": [result.record() for result in results]}
    )
