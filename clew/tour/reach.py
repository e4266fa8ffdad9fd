"""The experiment `reach`: how far gradients reach in a simple recurrent network, a gated recurrent unit and an LSTM,
trained and untrained, with several thresholds. Uses `clew.inspection.gradient_flow`."""

from typing import Any

import torch

from clew.drawing.views import Lines, Note, Part, Series, Table, View
from clew.inspection.gradient_flow import reach
from clew.instruments.looking import look
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.texts import shakespeare
from clew.tour.training import train_recipe

THRESHOLDS = (0.5, 0.1, 0.01, 0.001)
"""A gradient counts as vanished below these shares of the gradient at k = 0."""
CELLS = {"elman": "1 h", "gru": "1 h", "lstm": "1 c"}
"""Each cell, and the state that carries most of the gradient."""
CLAIMED = {"elman": "about 7", "gru": "", "lstm": "about 100"}
FLOOR = 1e-8
SIZES: dict[Scale, tuple[int, int, int, int]] = {
    "quick": (16, 20, 20, 2),
    "tour": (128, 500, 120, 6),
    "full": (256, 1500, 150, 10),
}
"""Width, training steps, number of steps back, and number of positions to start from."""

Curves = dict[str, dict[str, torch.Tensor]]
"""|gradient| against k, by cell and state of training."""


def measure(scale: Scale, seed: int, report: Report) -> Curves:
    dim, steps, back, places = SIZES[scale]
    text = shakespeare()["valid"][: 2 * back + 2]
    curves: Curves = {}
    for cell, part in CELLS.items():
        settings = [
            f"model.dim={dim}",
            f"model.embedding_dim={min(dim, 64)}",
            f"training.steps={steps}",
            f"training.evaluate_every={steps}",
        ]
        settings += [f"training.schedule.warmup={steps // 20}", f"seed={seed}"]
        run, _ = train_recipe(f"shakespeare-{cell}", settings, name=cell, report=report)
        facts = look(run, "gradients", {"text": text, "steps": back, "places": places}).facts
        curves[cell] = {
            state: torch.tensor(facts[state][part], dtype=torch.float64) for state in ("trained", "untrained")
        }
    return curves


def reach_text(curve: torch.Tensor, threshold: float) -> str:
    steps = reach(curve, threshold).steps
    return f"more than {len(curve) - 1}" if steps is None else str(steps)


def show(curves: Curves) -> Finding:
    series = [
        Series(
            f"{NAMES[cell]}, {state}",
            list(range(len(curve))),
            (curve / curve[0].clamp(min=1e-300)).clamp(min=FLOOR).tolist(),
            dashed=state == "untrained",
        )
        for cell, states in curves.items()
        for state, curve in states.items()
    ]
    header = ("gradient of", "", *(f"until {threshold:.1%} is left".replace(".0%", "%") for threshold in THRESHOLDS))
    rows: list[tuple[Any, ...]] = [
        (NAMES[cell], state, *(reach_text(curve, threshold) for threshold in THRESHOLDS))
        for cell, states in curves.items()
        for state, curve in states.items()
    ]
    parts: list[Part] = [
        Lines(
            series,
            "k, characters back",
            "|d loss_t / d s_(t-k)|, relative to k = 0",
            "Gradient of the loss with respect to the state k steps earlier",
            log_y=True,
            thresholds=[("1 %", 0.01)],
        ),
        Table(header, rows, "Steps that a gradient reaches, by threshold"),
        Note(
            "The state is h for the simple network and the GRU, and the cell c for the LSTM. The gradient is with"
            " respect to the state carried from one step to the next; its norm is averaged over positions of unseen"
            " text."
        ),
    ]
    trained = {cell: reach_text(states["trained"], 0.01) for cell, states in curves.items()}
    untrained = {cell: reach_text(states["untrained"], 0.01) for cell, states in curves.items()}
    facts = {cell: {state: curve.tolist() for state, curve in states.items()} for cell, states in curves.items()}
    return Finding(
        "How far gradients reach",
        "Lectures say that a simple recurrent network learns over about 7 steps and an LSTM over about 100 (Stanford"
        " CS224N). Gradients vanish, and gates preserve them (Hochreiter 1991; Hochreiter and Schmidhuber 1997; Pascanu"
        " et al. 2013).",
        f"After training, 1 % of the gradient at k = 0 is left after {trained['elman']} steps in the simple network,"
        f" {trained['gru']} in the GRU and {trained['lstm']} in the LSTM's cell; before training, after"
        f" {untrained['elman']}, {untrained['gru']} and {untrained['lstm']}. The number depends on the threshold, as"
        " the table shows.",
        View("Gradient against distance", parts, "Characters of Shakespeare; equal widths.", facts),
        [
            (
                f"steps until 1 % of the gradient is left, {NAMES[cell]}",
                CLAIMED[cell] or "between the two",
                f"{trained[cell]} trained, {untrained[cell]} untrained",
            )
            for cell in curves
        ],
    )


def run(scale: Scale, seed: int, report: Report) -> Finding:
    return show(measure(scale, seed, report))


NAMES = {"elman": "simple network (Elman)", "gru": "GRU", "lstm": "LSTM's cell"}
REACH = Experiment("how far gradients reach: simple network, GRU and LSTM", run)
