"""The experiment `growth`: compare LSTM and Transformer as size and data grow. Both families are trained at several
widths on increasing shares of Shakespeare, for the same number of steps."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from clew.drawing.views import Lines, Note, Part, Series, Table, View
from clew.tour.characters import bits_of, characters_of_shakespeare
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.texts import windows
from clew.tour.training import language_run, parameters_of, train_task

LENGTH = 128
"""The length of the text pieces. No state is carried from piece to piece."""


class Size(NamedTuple):
    """Widths of both families, shares of the training text, training steps, rows per step, and test rows."""

    lstm: tuple[int, ...]
    gpt: tuple[int, ...]
    shares: tuple[float, ...]
    steps: int
    rows: int
    judged: int


SIZES: dict[Scale, Size] = {
    "quick": Size((8,), (8,), (0.02, 0.05), 3, 2, 4),
    "tour": Size((48, 96), (32, 64), (0.1, 1.0), 200, 8, 64),
    "full": Size((48, 96, 192), (32, 64, 128), (0.1, 1.0), 800, 16, 256),
}


class Point(NamedTuple):
    family: str
    parameters: int
    share: float
    loss: float


def models(size: Size) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Yield every model with its learning rate, which is smaller for wider Transformers."""
    for dim in size.lstm:
        yield "LSTM", {"family": "recurrent", "cell": "lstm", "dim": dim, "num_layers": 2}, 3e-3
    for dim in size.gpt:
        yield (
            "Transformer",
            {"family": "gpt", "dim": dim, "num_layers": 3, "num_heads": 4, "max_length": LENGTH},
            3e-3 * min(1, 64 / dim),
        )


def run(scale: Scale, seed: int, report: Report) -> Finding:
    size = SIZES[scale]
    characters = characters_of_shakespeare()
    symbols = characters.tokenizer.decode(characters.train.unique().tolist())
    unseen = characters.held_out(rows=size.judged, length=LENGTH)
    points = []
    for family, settings, rate in models(size):
        for share in size.shares:
            model = language_run(symbols, settings, seed=seed)
            some = characters.train[: int(len(characters.train) * share)]
            name = f"{family} of {settings['dim']} on {share:.0%}"
            train_task(
                model.task,
                lambda step, some=some: windows(some, size.rows, LENGTH, seed, step),  # type: ignore[misc]
                steps=size.steps,
                seed=seed,
                learning_rate=rate,
                name=name,
                report=report,
            )
            loss = float(bits_of(model.task, unseen).mean()) * math.log(2)
            points.append(Point(family, parameters_of(model.task), share, loss))
            report(f"{name}: {points[-1].loss:.3f} nats")
    return show(points, size)


def show(points: list[Point], size: Size) -> Finding:
    parts: list[Part] = []
    for share in size.shares:
        series = []
        for family in ("LSTM", "Transformer"):
            group = [point for point in points if point.family == family and point.share == share]
            series.append(Series(family, [point.parameters for point in group], [point.loss for point in group]))
        parts.append(
            Lines(series, "parameters", "loss, nats per character", f"{share:.0%} of the training text", log_x=True)
        )
    rows = [(point.family, f"{point.parameters:,}", f"{point.share:.0%}", f"{point.loss:.3f}") for point in points]
    parts.append(Table(("family", "parameters", "of the text", "loss on unseen text"), rows))
    parts.append(
        Note(
            f"Models of all sizes are trained for {size.steps} steps of {size.rows} x {LENGTH} characters, and tested"
            " on the same pieces of unseen text, each with an initial state. The loss is that after the"
            " last step."
        )
    )
    best = {
        (family, share): min(point.loss for point in points if point.family == family and point.share == share)
        for family in ("LSTM", "Transformer")
        for share in size.shares
    }
    least, most = size.shares[0], size.shares[-1]
    leads = {share: best["LSTM", share] - best["Transformer", share] for share in size.shares}
    best_losses = "; ".join(
        f"on {share:.0%} of the text {best['LSTM', share]:.3f} and {best['Transformer', share]:.3f}"
        for share in size.shares
    )
    facts = {
        "points": [list(point) for point in points],
        "transformer_leads_by": {str(share): lead for share, lead in leads.items()},
    }
    return Finding(
        "Which one scales better",
        "As both grow, Transformers become better than LSTMs, since they use long contexts better; small ones are equal"
        " (Kaplan et al. 2020).",
        f"Loss of the best LSTM and the best Transformer: {best_losses} nats per character. The Transformer is"
        f" {lead_text(leads[least])} with the least text and {lead_text(leads[most])} with the most.",
        View("Loss against size and data", parts, "Two layers of LSTM, three blocks of GPT.", facts),
        [
            (
                f"nats by which the Transformer is ahead on {share:.0%} of the text",
                "grows with the text",
                f"{lead:+.3f}",
            )
            for share, lead in leads.items()
        ],
    )


def lead_text(lead: float) -> str:
    return f"{'ahead' if lead > 0 else 'behind'} by {abs(lead):.3f}"


GROWTH = Experiment("LSTM against Transformer as size and data grow", run)
