"""The experiment `context`: predict the same characters from only the 1, 2, 4, ... characters before them, with an
initial state."""

import math

import torch
from torch import Tensor

from clew.core.modes import evaluating
from clew.data.plans import TokenBatch
from clew.drawing.views import Lines, Note, Series, View
from clew.runs.loaded import Run
from clew.tour.experiment import Experiment, Finding, Report, Scale
from clew.tour.texts import ids_of, shakespeare
from clew.tour.training import generator, train_recipe

NEAR = 0.01
"""A context is long enough if its loss exceeds the lowest loss by at most this share."""
SIZES: dict[Scale, tuple[int, int, int, int]] = {
    "quick": (16, 20, 16, 40),
    "tour": (192, 600, 128, 1000),
    "full": (512, 1500, 256, 4000),
}
"""Width of the LSTM, training steps, the longest context, and the number of predicted characters."""
ROWS = 250


def losses(run: Run, ids: Tensor, places: Tensor, contexts: list[int]) -> list[float]:
    """Return the mean of -log p of the tokens at `places`, for each number of tokens of context."""
    device = run.task.body.embedding.like.device
    losses = []
    with evaluating([run.task]):
        for context in contexts:
            total = 0.0
            for some in places.split(ROWS):
                pieces = ids[some[:, None] + torch.arange(-context, 1)].to(device)
                log_probs, _ = run.task.predict(TokenBatch(pieces[:, :-1], pieces[:, 1:]))
                total -= float(log_probs[:, -1].cpu().double().sum())
            losses.append(total / len(places))
    return losses


def enough(contexts: list[int], losses: list[float]) -> int:
    return next(context for context, loss in zip(contexts, losses, strict=True) if loss <= min(losses) * (1 + NEAR))


def run(scale: Scale, seed: int, report: Report) -> Finding:
    dim, steps, longest, count = SIZES[scale]
    contexts = [2**power for power in range(int(math.log2(longest)) + 1)]
    shared = [
        f"training.steps={steps}",
        f"training.evaluate_every={steps}",
        f"training.schedule.warmup={steps // 20}",
        f"seed={seed}",
    ]
    recipes = {
        "LSTM": ("shakespeare-lstm", [*shared, f"model.dim={dim}"]),
        "GPT": ("shakespeare-gpt", [*shared, f"model.dim={min(dim, 128)}", f"training.length={min(longest, 128)}"]),
    }
    series, reached, facts = [], {}, {}
    for name, (recipe, settings) in recipes.items():
        trained, _ = train_recipe(recipe, settings, name=name, report=report)
        ids = ids_of(trained, shakespeare()["valid"])
        places = torch.randint(longest, len(ids), (count,), generator=generator(seed, 3))
        lengths = [context for context in contexts if context <= (trained.task.body.max_length or longest)]
        mean_losses = losses(trained, ids, places, lengths)
        series.append(Series(name, lengths, mean_losses))
        reached[name] = enough(lengths, mean_losses)
        facts[name] = {"contexts": lengths, "losses": mean_losses}
    lines = Lines(series, "characters of context", "loss, nats per character", "Loss against context", log_x=True)
    note = Note(
        "The same characters of unseen text are predicted with every length of context. The GPT's context is limited by"
        " its window."
    )
    ends = {name: (fact["losses"][0], fact["losses"][-1]) for name, fact in facts.items()}
    summary = "; ".join(
        f"{name} {first:.2f} nats after one character, {last:.2f} after all" for name, (first, last) in ends.items()
    )
    return Finding(
        "How much context is used",
        "An LSTM uses about 200 words of context and the order of the nearest 50 (Khandelwal et al. 2018, on words of"
        " the Penn Treebank); most of the gain comes from near context.",
        f"{summary}. The LSTM is within 1 % of its best loss after {reached['LSTM']} characters, the GPT after"
        f" {reached['GPT']}.",
        View("Loss against context", [lines, note], "", facts),
        [
            (
                f"characters of context until the loss is within 1 % of its best, {name}",
                "200 words, for an LSTM",
                f"{length}",
            )
            for name, length in reached.items()
        ],
    )


CONTEXT = Experiment("loss against the length of the context", run)
