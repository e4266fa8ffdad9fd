"""The experiment `carry`: an LSTM whose state is carried from chunk to chunk in training, at test time, in both or in
neither."""

import torch
from torch import Tensor

from clew.core.batches import to_device
from clew.core.modes import evaluating
from clew.data.plans import stream_evaluation_plan
from clew.drawing.views import Lines, Note, Part, Series, Table, View
from clew.runs.loaded import Run
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.texts import ids_of, shakespeare
from clew.tour.training import train_recipe

TRAINED = {"carried": "streams", "reset": "windows"}
SIZES: dict[Scale, tuple[int, int, int, int]] = {
    "quick": (16, 20, 8, 2_000),
    "tour": (128, 500, 16, 20_000),
    "full": (256, 2000, 16, 100_000),
}
"""Width, training steps, length of a chunk, and number of predicted characters."""
ROWS = 16


def loss_by_place(run: Run, ids: Tensor, length: int, *, carry: bool) -> Tensor:
    """Return the mean of -log p (length,) at each position of a chunk, over a text read in chunks; the state is carried
    from one chunk to the next or reset."""
    plan = stream_evaluation_plan(len(ids), ROWS, length)
    sums, counts = torch.zeros(length, dtype=torch.float64), torch.zeros(length, dtype=torch.float64)
    state = None
    with evaluating([run.task]):
        for number in range(plan.num_batches):
            batch = to_device(plan.batch(ids.numpy(), number), run.task.body.embedding.like.device)
            log_probs, state = run.task.predict(batch, state if carry and not batch.fresh else None)
            real = torch.ones_like(log_probs) if batch.mask is None else batch.mask.to(log_probs.dtype)
            width = log_probs.shape[1]
            sums[:width] -= log_probs.sum(0).cpu().double()
            counts[:width] += real.sum(0).cpu().double()
    return sums / counts


def run(scale: Scale, seed: int, report: Report) -> Finding:
    dim, steps, length, characters = SIZES[scale]
    settings = [
        f"model.dim={dim}",
        f"training.length={length}",
        f"training.steps={steps}",
        f"training.evaluate_every={steps}",
    ]
    settings += [f"training.schedule.warmup={steps // 20}", "training.batch_size=64", f"seed={seed}"]
    curves: dict[tuple[str, str], Tensor] = {}
    for trained, batching in TRAINED.items():
        model, _ = train_recipe(
            "shakespeare-lstm", [*settings, f"training.batching={batching}"], name=f"state {trained}", report=report
        )
        ids = ids_of(model, shakespeare()["valid"])[: characters + 1]
        for used in TRAINED:
            curves[trained, used] = loss_by_place(model, ids, length, carry=used == "carried")
    means = {key: float(curve.mean()) for key, curve in curves.items()}
    series = [
        Series(f"trained {trained}, used {used}", list(range(1, length + 1)), curve.tolist(), dashed=used == "reset")
        for (trained, used), curve in curves.items()
    ]
    rows = [(f"trained {trained}", *(f"{means[trained, used]:.3f}" for used in TRAINED)) for trained in TRAINED]
    parts: list[Part] = [
        Table(("nats per character", *(f"used {used}" for used in TRAINED)), rows, "Loss on unseen text"),
        Lines(
            series,
            "position in the chunk",
            "loss, nats per character",
            f"Loss by position in a chunk of {length} characters",
        ),
        Note(
            f"Gradients go back over at most one chunk of {length} characters in all four cases. The cases differ in"
            " whether the final state of one chunk is the initial state of the next."
        ),
    ]
    gain = means["reset", "reset"] - means["carried", "carried"]
    facts = {
        f"{trained}/{used}": {"mean": means[trained, used], "by_place": curves[trained, used].tolist()}
        for trained, used in curves
    }
    return Finding(
        "A carried state",
        "If the state is carried from one chunk to the next, a model can remember more steps than gradients cover"
        " (Mikolov et al. 2010; Zaremba et al. 2014).",
        f"Trained and used with a carried state, the LSTM has a loss of {means['carried', 'carried']:.3f}; with a state"
        f" that is reset every {length} characters, {means['reset', 'reset']:.3f}. Trained with a carried state and"
        f" used with a reset one: {means['carried', 'reset']:.3f}; the reverse: {means['reset', 'carried']:.3f}.",
        View("Carried and reset", parts, "", facts),
        [
            (
                f"reduction of the loss by carrying the state, chunks of {length} characters",
                "a reduction",
                f"{gain:.3f} nats per character",
            )
        ],
    )


CARRY = Experiment("carried against reset state", run)
