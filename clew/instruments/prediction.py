"""The prediction of a run for a text, as on the command line: probabilities of labels, or of the tags of words."""

from collections.abc import Sequence

from pydantic import Field

from clew.core.config import Section
from clew.core.errors import UserError
from clew.drawing.views import Bars, ColouredText, Note, Part, Table, View, bar_names
from clew.instruments.instrument import HeadsOff, Instrument, Text
from clew.instruments.subjects.subject import Subject
from clew.runs.asking import is_empty
from clew.tasks.offers import Judged, ModelInput
from clew.tasks.shared.reading import no_text

MOST_BARS = 30


class PredictionOptions(Section):
    """A text, and the second text for a run on text pairs."""

    text: Text = Field("", description="what the model reads")
    second: str | None = Field(None, description="the second text, for a run on text pairs")
    off: HeadsOff = ()
    also: tuple[str, ...] = Field(
        (), description="labels to show in addition to the most likely ones, if there are many"
    )


def look_at_prediction(subjects: Sequence[Subject], options: PredictionOptions) -> View:
    subject = subjects[0]
    if is_empty(options.text):
        raise no_text()
    if subject.pairs and options.second is None:
        raise UserError(f"{subject.name} judges two texts together; give the other one as second=")
    if subject.pairs is False and options.second is not None:
        raise UserError(f"{subject.name} judges one text; leave second= out")
    judged: Judged = subject.offers.judges(ModelInput(options.text, second=options.second))
    return tags_of(judged) if judged.words else labels_of(judged, options.also)


def labels_of(judged: Judged, also: Sequence[str]) -> View:
    ordered = sorted(judged.probabilities.items(), key=lambda pair: -pair[1])
    facts = {"labels": list(judged.labels), "probabilities": dict(ordered), "number": judged.number}
    if not ordered:
        return View("Prediction", [Note(str(judged))], "", facts)
    bars = [*ordered[:MOST_BARS], *(pair for pair in ordered[MOST_BARS:] if pair[0] in also)]
    names, values = zip(*bars, strict=True)
    return View(f"Prediction: {judged}", [Bars(names, values, "probability", low=0.0, high=1.0)], "", facts)


def tags_of(judged: Judged) -> View:
    notes = [f"{word.tag}, p {word.probability:.3f}" for word in judged.words]
    doubt = [1 - word.probability for word in judged.words]
    rows = [(word.word, word.tag, round(word.probability, 4)) for word in judged.words]
    parts: list[Part] = [
        ColouredText(
            [f"{word.word}/{word.tag}" for word in judged.words], doubt, "Tags", "doubt", 0.0, 1.0, notes=notes
        ),
        Table(("word", "tag", "probability"), rows),
    ]
    if judged.spans:
        spans = [(span.label, span.text, round(span.probability, 4)) for span in judged.spans]
        parts.append(Table(("phrase", "text", "probability"), spans, "Phrases"))
    return View(
        "Prediction",
        parts,
        "words coloured by the model's uncertainty, 1 - p",
        {"tags": [[row[0], row[1], row[2]] for row in rows]},
    )


def labels_of_all(views: Sequence[View], options: PredictionOptions) -> PredictionOptions:
    """Add the labels that any of the views shows."""
    return options.model_copy(update={"also": tuple(bar_names(views))})


PREDICTION = Instrument(
    "the labels of a text, or the tags of its words",
    PredictionOptions,
    look_at_prediction,
    needs=("judges",),
    besides=labels_of_all,
)
