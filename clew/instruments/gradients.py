"""Gradient flow in a run, trained and untrained: how far back states and inputs influence the loss, whether gradients
vanish or explode, and the recurrent matrices. `gradient_flow.py`, `gates.py` and `spectra.py` define the measures."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State
from clew.drawing.views import Lines, Note, Part, Series, Table, View
from clew.inspection.gradient_flow import (
    choose_ends,
    clip_factor,
    input_gradients,
    reach,
    source_gradients,
    state_gradients,
    token_losses,
    watched_embedding,
    with_gradients,
)
from clew.inspection.layer_outputs import first_tensor
from clew.inspection.recording import record
from clew.instruments.gates import retention
from clew.instruments.instrument import Instrument, Text, TextOptions
from clew.instruments.reading import read
from clew.instruments.source_gradients import MOST_WRITTEN, source_parts, watched_source
from clew.instruments.spectra import Spectrum, recurrent_matrices, spectrum
from clew.instruments.subjects.corpus_text import has_corpus_text, own_text
from clew.instruments.subjects.recurrent_layers import RecurrentLayer, recurrent_layers
from clew.instruments.subjects.subject import Looked, Subject, subject_of
from clew.tasks.offers import Carried, Reading, TokenScores, lacking

MOST_READ = 1000
"""The maximum number of tokens that a language model reads of a text from the user, unless more steps are requested."""
MOST_WIDTH = 1024
"""Wider recurrent matrices are skipped: their eigenvalues take minutes."""
FLOOR = 1e-12
"""The smallest relative gradient that is drawn."""


class GradientOptions(TextOptions):
    """How far back and from how many places to follow gradients, and which count as vanished."""

    text: Text = Field(
        "", description="what the model reads; by default a language model reads its own validation text"
    )
    steps: int = Field(
        50, ge=1, le=2000, description="how far back to follow gradients, in places, up to half of the text"
    )
    places: int = Field(10, ge=1, le=1000, description="the number of places t whose gradients are averaged")
    threshold: float = Field(
        0.01, gt=0, lt=1, description="a gradient counts as vanished below this share of the gradient at k = 0"
    )
    untrained: bool = Field(True, description="compare with the same model before training")


class Losses(NamedTuple):
    """The number at each place of a text whose gradient is taken: `at(hidden (places, dim), first)` returns one per
    place, from `first` on."""

    name: str
    length: int
    at: Callable[[Tensor, int], Tensor]


class Flow(NamedTuple):
    """|gradient| (steps + 1,) by k, averaged over places, for each part: `1 h`, `1 c`, `x`; and if there is a source,
    the gradient of each written token with respect to each source place (written, read)."""

    curves: dict[str, Tensor]
    norm: float | None
    clipped_by: float | None
    by_source: Tensor | None = None


def losses_of(reading: Reading) -> Losses:
    """Return the loss: -log p of the next token, of the written token, or for a masked model of the token itself; |h_t|
    if no tokens are predicted."""
    model: Any = reading.model
    if lacking(model, "scores_tokens") is not None:
        places = reading.hidden().shape[1]
        return Losses("|h_t|", places, lambda hidden, first: torch.linalg.vector_norm(hidden, dim=-1))
    scores: TokenScores = model.scores_tokens(reading)
    like = first_tensor(reading.batch)
    targets = torch.tensor(scores.ids, dtype=torch.long, device=None if like is None else like.device)

    def at(hidden: Tensor, first: int) -> Tensor:
        return token_losses(scores.log_probs(hidden), targets[first : first + len(hidden)])

    return Losses("loss_t", len(targets), at)


def measure(reading: Reading, options: GradientOptions, clip_norm: float | None) -> Flow:
    losses = losses_of(reading)
    ends, steps = choose_ends(losses.length, options.steps, options.places)
    curves: dict[str, Tensor] = {}
    with with_gradients(reading.module):
        if (start := token_steps(reading, losses)) is not None:
            norms = state_gradients(*start, ends, steps)
            names = [layer.name for layer in carried_layers(reading)]
            curves |= {
                f"{names[int(part.split('.')[0])]} {part.split('.')[1]}": rows.mean(0) for part, rows in norms.items()
            }
        with watched_inputs(reading) as (watched, embedded), watched_source(reading) as source:
            place_losses = losses.at(watched.forward()[0, : losses.length], 0)
        if (places := embedded[-1].shape[:-1].numel()) - losses.length not in (0, 1):
            raise UserError(
                f"gradients need one output for each place that is read, but this model reads {places} and returns"
                f" {losses.length}; look at a part of it that returns one for each, such as its encoder"
            )
        curves["x"] = input_gradients([place_losses[t] for t in ends], embedded[-1], ends, steps).mean(0)
        by_source = source_gradients(list(place_losses[:MOST_WRITTEN]), source[-1]) if source else None
        norm = clipped_by = None
        if losses.name == "loss_t" and (
            parameters := [each for each in reading.module.parameters() if each.requires_grad]
        ):
            norm, clipped_by = clip_factor(parameters, place_losses, clip_norm)
    return Flow(curves, norm, clipped_by, by_source)


def token_steps(reading: Reading, losses: Losses) -> tuple[Callable[[int, State], tuple[Tensor, State]], State] | None:
    """Return the step function for one token and the initial state; None if the model cannot read token by token or has
    no recurrent state."""
    carried: Carried | None = reading.model.carries(reading) if carried_layers(reading) else None
    if carried is None:
        return None
    read_on = carried.step

    def step(t: int, state: State) -> tuple[Tensor, State]:
        hidden, state = read_on(t, state)
        return losses.at(hidden[0], t)[0], state

    return step, carried.state


@contextmanager
def watched_inputs(reading: Reading) -> Iterator[tuple[Reading, list[Tensor]]]:
    """Yield a reading, and the tensors whose gradients are taken: the embedding's output, or the input vectors."""
    if path := reading.model.entrance(reading):
        with watched_embedding(reading.module, path) as embedded:
            yield reading, embedded
    else:
        x = reading.batch.value.detach().clone().requires_grad_()
        yield replace(reading, batch=reading.batch.with_value(x)), [x]


def carried_layers(reading: Reading) -> list[RecurrentLayer]:
    """Return the layers whose state passes from token to token: those of the decoder, if there is one."""
    layers = recurrent_layers(reading.module)
    return [layer for layer in layers if layer.writes] if reading.writes else layers


def products_of_gates(reading: Reading, steps: int) -> dict[str, Tensor]:
    """Return the share of a cell's state that its gates retain after k steps, averaged over cells."""
    layers = [layer for layer in carried_layers(reading) if layer.keeping is not None]
    if not layers or not getattr(getattr(reading.module, "body", reading.module), "causal", False):
        return {}
    with record(reading.module, *(layer.keeping for layer in layers if layer.keeping is not None)) as recorded:
        reading.hidden()
    return {
        f"{layer.name} gates": torch.tensor(retention(recorded[layer.keeping][0].float().cpu().numpy(), steps).mean(1))
        for layer in layers
        if layer.keeping is not None
    }


def text_of(model: Looked, options: GradientOptions) -> Text:
    """Return the text from the user, or for a language model as much of its validation text as needed. It is read one
    token at a time, so a text from the user is cut to a length that takes seconds."""
    subject = subject_of(model)
    if not has_corpus_text(subject):
        return options.text
    text: Any = options.text
    if text:
        num_tokens = max(MOST_READ, 2 * options.steps + options.places + 1)
    else:
        body: Any = subject.module.body
        num_tokens = min(2 * options.steps + options.places + 1, body.max_length or 2**62)
        text = own_text(subject, "valid", 20 * num_tokens)
    offsets = subject.offers.streams(text).offsets
    return text[: offsets[num_tokens - 1][1]] if len(offsets) > num_tokens else text


def look_at_gradients(subjects: Sequence[Subject], options: GradientOptions) -> View:
    subject = subjects[0]
    text = text_of(subject, options)
    reading = read(subject, text, options.target, into=options.into)
    losses = losses_of(reading)
    if losses.length < 3:
        raise UserError(f"gradients need at least 3 places, and this text has {losses.length}; give a longer one")
    _, steps = choose_ends(losses.length, options.steps, options.places)
    now = "as it is" if subject.run is None else "trained"
    flows = {now: measure(reading, options, subject.clip_norm)}
    if options.untrained and (before := subject.untrained()) is not None:
        flows["untrained"] = measure(replace(reading, model=before.offers), options, subject.clip_norm)
    gates = products_of_gates(reading, steps)
    relative = {
        state: {name: curve / curve[0].clamp(min=1e-300) for name, curve in flow.curves.items()}
        for state, flow in flows.items()
    }
    lines = [
        curve_series(name, curve, "" if state == now else state)
        for state, curves in relative.items()
        for name, curve in curves.items()
    ]
    lines += [curve_series(name, curve) for name, curve in gates.items()]
    units = (reading.written_places if reading.writes else reading.places).units
    parts: list[Part] = [
        Lines(
            lines,
            f"k, {units} back",
            "relative to k = 0",
            f"|d {losses.name} / d ..| against k",
            log_y=True,
            thresholds=[(f"{options.threshold:g}", options.threshold)],
        ),
        reach_table(flows, steps, options.threshold, units),
    ]
    parts += [
        Note(clip_sentence(state, flow, subject.clip_norm)) for state, flow in flows.items() if flow.norm is not None
    ]
    by_source = {state: flow.by_source for state, flow in flows.items() if flow.by_source is not None}
    parts += source_parts(by_source, reading)
    spectra = {
        layer.name: {
            gate: spectrum(each) for gate, each in recurrent_matrices(layer.cell).items() if len(each) <= MOST_WIDTH
        }
        for layer in recurrent_layers(subject.module)
    }
    parts += spectra_parts(spectra)
    facts: dict[str, Any] = {
        "of": losses.name,
        "steps": steps,
        "threshold": options.threshold,
        **{state: {name: curve.tolist() for name, curve in flow.curves.items()} for state, flow in flows.items()},
        "reach": {
            state: {name: reach(curve, options.threshold).steps for name, curve in flow.curves.items()}
            for state, flow in flows.items()
        },
        "gates": {name: curve.tolist() for name, curve in gates.items()},
        **({"source": {state: norms.tolist() for state, norms in by_source.items()}} if by_source else {}),
        "radius": {
            layer: {gate: matrix_spectrum.radius for gate, matrix_spectrum in gates_of.items()}
            for layer, gates_of in spectra.items()
        },
    }
    first = "the first " if options.text and text != options.text else ""
    about = (
        f"The norm of the gradient of {losses.name} with respect to states and inputs k {units} before it, over"
        f" {first}{losses.length} {units}. It reaches back as long as it is at least {options.threshold:.0%} of its"
        " value at k = 0. x is the input"
        + (", h a layer's output and c its cell" if len(flows[now].curves) > 1 else "")
        + ("; gates: what the gates retain of a cell." if gates else ".")
        + (
            " The map shows the gradient of each written word with respect to each source place, along all paths."
            if by_source
            else ""
        )
    )
    return View("Gradient flow", parts, about, facts)


def clip_sentence(state: str, flow: Flow, limit: float | None) -> str:
    clipped = (
        f"training scales it by {flow.clipped_by:.3g} (clip_norm {limit:g})"
        if flow.clipped_by != 1
        else "it is not clipped"
    )
    return (
        f"{state.capitalize()}, the gradient of this text's loss over all parameters has norm {flow.norm:.3g};"
        f" {clipped}."
    )


def spectra_parts(spectra: dict[str, dict[str, Spectrum]]) -> list[Part]:
    each = [
        (layer, gate, matrix_spectrum) for layer, gates in spectra.items() for gate, matrix_spectrum in gates.items()
    ]
    if not each:
        return []
    rows = [
        (layer, gate, *(float(matrix_spectrum.singular_values[end]) for end in (0, -1)), matrix_spectrum.radius)
        for layer, gate, matrix_spectrum in each
    ]
    values = [
        Series(
            f"layer {layer} {gate}",
            list(range(1, len(matrix_spectrum.singular_values) + 1)),
            matrix_spectrum.singular_values.tolist(),
        )
        for layer, gate, matrix_spectrum in each
    ]
    return [
        Table(("layer", "gate", "largest singular value", "smallest", "spectral radius"), rows, "Recurrent matrices"),
        Lines(values, "number", "singular value", "Singular values of the recurrent matrices"),
    ]


def curve_series(name: str, curve: Tensor, state: str = "") -> Series:
    """Return the line of a curve; dashed for another state of the model, such as untrained."""
    label = f"{curve_name(name)}, {state}" if state else curve_name(name)
    return Series(label, list(range(len(curve))), curve.clamp(min=FLOOR).tolist(), dashed=bool(state))


def curve_name(name: str) -> str:
    """Return the display name of a curve: x for the input, or a part of a layer."""
    return name if name == "x" else f"layer {name}"


def reach_table(flows: dict[str, Flow], steps: int, threshold: float, units: str) -> Table:
    rows = []
    for name in next(iter(flows.values())).curves:
        row: list[Any] = [curve_name(name)]
        for flow in flows.values():
            distance = reach(flow.curves[name], threshold)
            row += [f"more than {steps}" if distance.steps is None else distance.steps, f"{distance.most:.3g}"]
        rows.append(row)
    header = ["gradient with respect to"]
    for state in flows:
        header += [f"{state}: below {threshold:.2g} after", "maximum, relative to k = 0"]
    return Table(header, rows, f"How far back gradients reach, in {units}")


GRADIENTS = Instrument(
    "how far back gradients reach, before and after training, also into the source, and the recurrent matrices",
    GradientOptions,
    look_at_gradients,
    needs=("reads",),
    quick=False,
    own_text=has_corpus_text,
)
