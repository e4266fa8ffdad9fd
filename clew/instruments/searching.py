"""The instrument `beam`: the tree of a beam search by a language model or a translator. The search uses the model's own
probabilities, without the temperature and cut-offs of the run's `decoding` section."""

from collections.abc import Sequence

from pydantic import Field

from clew.core.modes import evaluating
from clew.decoding.ranking import LengthForm
from clew.drawing.views import Branches, Part, Table, View
from clew.inspection.decoding_tree import search_tree
from clew.instruments.instrument import Instrument
from clew.instruments.subjects.subject import Subject
from clew.instruments.subjects.writing import WritingOptions, begin_writing
from clew.tasks.uses.writing import DecodingConfig


class BeamOptions(WritingOptions):
    """The prompt, and the settings of the search."""

    beams: int = Field(3, ge=1, le=50, description="the number of hypotheses kept at each step")
    length_penalty: float = Field(1.0, ge=-10, le=10, description="scores are log p / length^length_penalty")
    length_form: LengthForm = Field(
        "power", description="length^length_penalty, or with gnmt ((5 + length) / 6)^length_penalty"
    )
    coverage_penalty: float = Field(
        0.0,
        ge=0,
        le=10,
        description="for a translator: weight of the sum over source tokens of log(min(attention, 1)) in the score",
    )


def look_at_beam(subjects: Sequence[Subject], options: BeamOptions) -> View:
    subject = subjects[0]
    with evaluating([subject.module]):
        config = DecodingConfig(method="beam", max_new=options.max_new, coverage_penalty=options.coverage_penalty)
        writer = begin_writing(subject, options, config)
        tree = search_tree(
            writer.stepper,
            writer.start,
            beams=options.beams,
            max_new=writer.most,
            ends=writer.ends,
            length_penalty=options.length_penalty,
            length_form=options.length_form,
            coverage_penalty=options.coverage_penalty,
            name=writer.tokenizer.piece,
        )
    rows = [
        (rank, writer.text(one.tokens), round(one.log_prob, 4), round(one.score, 4))
        for rank, one in enumerate(tree.hypotheses, start=1)
    ]
    dropped = sum(not node.kept for node in tree.nodes)
    about = (
        f"{options.beams} beams, {len(tree.nodes) - 1} hypotheses considered, {dropped} dropped; the best:"
        f" {rows[0][1]!r}"
    )
    nodes = [
        {"parent": node.parent, "token": node.text, "log_prob": node.score, "kept": node.kept, "best": node.best}
        for node in tree.nodes
    ]
    facts = {
        "found": [{"text": text, "log_prob": log_prob, "score": score} for _, text, log_prob, score in rows],
        "nodes": nodes,
    }
    parts: list[Part] = [
        Branches(tree.nodes),
        Table(("rank", "text", "log p (nats)", score_name(options)), rows, "Hypotheses found"),
    ]
    return View("Beam search", parts, about, facts)


def score_name(options: BeamOptions) -> str:
    length = "tokens" if options.length_form == "power" else "((5 + tokens) / 6)"
    return f"score (nats / {length}^length_penalty{' + coverage' if options.coverage_penalty else ''})"


BEAM = Instrument(
    "beam search as a tree: every hypothesis kept or dropped", BeamOptions, look_at_beam, needs=("steps",)
)
