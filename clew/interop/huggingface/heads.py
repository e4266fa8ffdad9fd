"""Output layers that several encoders have: labels of a text, tags of words."""

from typing import Any

from clew.core.errors import UserError, shown
from clew.core.tag_schemes import OUTSIDE, is_phrase_tag
from clew.interop.huggingface.fields import Fields
from clew.text.labels import Labels

PROBLEMS = {"single_label_classification": "one", "multi_label_classification": "several", "regression": "number"}


def labels_of(fields: Fields) -> Labels:
    """The names of the labels, by their ids; the library's own where the config has none."""
    found = fields.get("id2label", dict, None)
    if found is None:
        count = fields.get("num_labels", int, 2)
        return Labels([f"LABEL_{number}" for number in range(count)])
    names = [found.get(str(number), found.get(number)) for number in range(len(found))]
    if not all(isinstance(name, str) for name in names):
        raise UserError(f"{fields.path}: id2label should name the labels 0 to {len(found) - 1}, not {shown(found)}")
    if len(set(names)) < len(names):
        raise UserError(f"{fields.path}: id2label has a name twice: {shown(found)}; give every label its own")
    return Labels([str(name) for name in names])


def classification(fields: Fields, longest: int, dropout: float, **settings: Any) -> tuple[dict[str, Any], Labels]:
    """The task of a class that labels texts; those of more than `longest` tokens are cut."""
    labels = labels_of(fields)
    problem = fields.get("problem_type", str, None)
    if problem is None:
        problem = "regression" if len(labels) == 1 else "single_label_classification"
    if problem not in PROBLEMS:
        raise UserError(f"{fields.path}: problem_type is {shown(problem)}; known: {', '.join(PROBLEMS)}")
    if problem == "regression" and len(labels) != 1:
        raise UserError(f"{fields.path}: a regression of {len(labels)} numbers; clew tells one number of a text")
    kind = PROBLEMS[problem]
    return (
        {"name": "classification", "labels": kind, "dropout": dropout, "longest": longest, "truncate": True, **settings},
        Labels(["number"]) if kind == "number" else labels,
    )


def tagging(fields: Fields, dropout: float) -> tuple[dict[str, Any], Labels]:
    """The task of a class that tags the first piece of every word."""
    labels = labels_of(fields)
    return {"name": "tagging", "output": "softmax", "scheme": scheme(labels), "pieces": "first", "dropout": dropout}, labels


def scheme(labels: Labels) -> str:
    """How phrases are written by these tags."""
    if not all(map(is_phrase_tag, labels.names)) or set(labels.names) == {OUTSIDE}:
        return "none"
    return "bioes" if any(name.startswith(("E-", "S-")) for name in labels.names) else "iob2"


def written_labels(labels: Labels, kind: str) -> dict[str, Any]:
    """The fields of a config that name labels."""
    names = dict(enumerate(labels.names))
    problem = next(name for name, ours in PROBLEMS.items() if ours == kind)
    return {
        "id2label": {str(number): name for number, name in names.items()},
        "label2id": {name: number for number, name in names.items()},
        "problem_type": problem,
    }
