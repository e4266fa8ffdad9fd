"""Output layers that several architectures share: one function for each, from the names of classes and tensors to a
`Head`."""

from collections.abc import Callable, Sequence
from typing import Any

from clew.core.errors import UserError, shown
from clew.core.tag_schemes import OUTSIDE, is_phrase_tag
from clew.interop.huggingface.architecture import Head, Outgoing, TaskRead, check_supported
from clew.interop.huggingface.fields import Fields
from clew.interop.huggingface.folders import Checkpoint
from clew.interop.weight_maps import Entry, entry, with_bias
from clew.text.labels import Labels

PROBLEMS = {"single_label_classification": "one", "multi_label_classification": "several", "regression": "number"}
DROPOUT = "classifier_dropout"


def nothing(model: Any, task: Any, out: Outgoing) -> dict[str, Any]:
    """Return no config fields, for a head that has none."""
    return {}


def labels_of(fields: Fields) -> Labels:
    """Return the names of the labels by id; by default those of the library, LABEL_0 and so on."""
    id_to_name = fields.get("id2label", dict, None)
    if id_to_name is None:
        count = fields.get("num_labels", int, 2)
        return Labels([f"LABEL_{number}" for number in range(count)])
    names = [id_to_name.get(str(number), id_to_name.get(number)) for number in range(len(id_to_name))]
    if not all(isinstance(name, str) for name in names):
        raise UserError(
            f"{fields.path}: id2label must name the labels 0 to {len(id_to_name) - 1}, not {shown(id_to_name)}; copy it"
            " again, or give every label a name"
        )
    if len(set(names)) < len(names):
        raise UserError(f"{fields.path}: id2label has a name twice: {shown(id_to_name)}; give every label its own")
    return Labels([str(name) for name in names])


def writer(name: str, who: str, *, tied: bool) -> Head:
    """Return the head that predicts the next token. `tied` is the default of tie_word_embeddings; `who` is the
    architecture's name in messages."""

    def read(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
        return TaskRead({"tied": checkpoint.config.get("tie_word_embeddings", bool, tied), "bias": False})

    def write(model: Any, task: Any, out: Outgoing) -> dict[str, Any]:
        if task.bias:
            raise UserError(f"{who} has no bias in its output layer, but this run has one; train with task.bias=false")
        return {"tie_word_embeddings": task.tied}

    return Head((name,), read, lambda task: [] if task.tied else [entry("lm_head.weight", "output_weight")], write)


def filler(*names: str, tied: Sequence[Entry], untied: Sequence[Entry], **fixed: Any) -> Head:
    """Return the head that predicts masked tokens. `fixed` are settings for which the class supports only this
    value."""

    def read(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
        own = {"activation": model["activation"], "norm_eps": model["norm_eps"]}
        return TaskRead({"tied": checkpoint.config.get("tie_word_embeddings", bool, True), **own, **fixed})

    def write(model: Any, task: Any, out: Outgoing) -> dict[str, Any]:
        check_supported(task, out.name, **fixed)
        check_supported(task, out.name, activation=model.activation, norm_eps=model.norm_eps)
        return {"tie_word_embeddings": task.tied}

    return Head(names, read, lambda task: [*tied, *([] if task.tied else untied)], write)


def classifier(
    name: str,
    entries: Sequence[Entry],
    *,
    pooling: str,
    num_hidden: int = 0,
    dropout: str | None = DROPOUT,
    rate: float | None = None,
) -> Head:
    """Return the head that predicts labels of a text, which is cut to the body's length. `dropout` is the field of its
    dropout, None if there is none. `rate` is the default value, by default the body's dropout."""

    def read(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
        fields = checkpoint.config
        kind, labels = answer_of(fields)
        return TaskRead(
            {
                "labels": kind,
                "dropout": dropout_of(fields, dropout, model["dropout"] if rate is None else rate),
                "longest": model["max_length"],
                "truncate": True,
                "pooling": pooling,
                "num_hidden": num_hidden,
            },
            labels,
        )

    def write(model: Any, task: Any, out: Outgoing) -> dict[str, Any]:
        check_supported(task, out.name, pooling=pooling, num_hidden=num_hidden, pair="joined")
        if num_hidden:
            check_supported(task, out.name, hidden_dim=(None, model.dim))
        return {**written_labels(out.labels, task.labels), **({} if dropout is None else {dropout: task.dropout})}

    return Head((name,), read, lambda task: list(entries), write)


def tagger(name: str, *, dropout: str | None = DROPOUT) -> Head:
    """Return the head that predicts a tag for the first piece of every word. `dropout` is the field of its dropout;
    None for the body's dropout."""

    def read(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
        fields = checkpoint.config
        labels = labels_of(fields)
        rate = model["dropout"] if dropout is None else dropout_of(fields, dropout, model["dropout"])
        return TaskRead({"output": "softmax", "scheme": scheme(labels), "pieces": "first", "dropout": rate}, labels)

    def write(model: Any, task: Any, out: Outgoing) -> dict[str, Any]:
        check_supported(task, out.name, output="softmax", pieces="first")
        return {**written_labels(out.labels, "one"), **({} if dropout is None else {dropout: task.dropout})}

    return Head((name,), read, lambda task: with_bias("classifier", "output"), write)


def answerer(name: str) -> Head:
    """Return the head that predicts where an answer begins and ends."""
    return Head(
        (name,), lambda checkpoint, model: TaskRead({}), lambda task: with_bias("qa_outputs", "output"), nothing
    )


def embedder(
    name: str, pooling: str, pooler: str | None = None, write: Callable[..., dict[str, Any]] = nothing
) -> Head:
    """Return the head without an output layer. A text's vector comes from `pooling`, or from `pooler` if the checkpoint
    has its weights."""

    def read(checkpoint: Checkpoint, model: dict[str, Any]) -> TaskRead:
        return TaskRead({"pooling": "pooler" if pooler is not None and f"{pooler}.weight" in checkpoint else pooling})

    def entries(task: Any) -> list[Entry]:
        return with_bias(pooler, "pooling.dense") if pooler is not None and task.pooling == "pooler" else []

    return Head((name,), read, entries, write)


def dropout_of(fields: Fields, name: str | None, default: float) -> float:
    return 0.0 if name is None else fields.get(name, float, default)


def answer_of(fields: Fields) -> tuple[str, Labels]:
    """Return the kind of a classifier's answer (one label, several labels, a number), and the labels."""
    labels = labels_of(fields)
    problem = fields.get("problem_type", str, None)
    if problem is None:
        problem = "regression" if len(labels) == 1 else "single_label_classification"
    if problem not in PROBLEMS:
        raise UserError(f"{fields.path}: problem_type is {shown(problem)}; known: {', '.join(PROBLEMS)}")
    if problem == "regression" and len(labels) != 1:
        raise UserError(
            f"{fields.path}: the model predicts {len(labels)} numbers per text, but clew predicts one; use a model with"
            " one label"
        )
    kind = PROBLEMS[problem]
    return kind, Labels(["number"]) if kind == "number" else labels


def scheme(labels: Labels) -> str:
    """Return the tag scheme of these labels."""
    if not all(map(is_phrase_tag, labels.names)) or set(labels.names) == {OUTSIDE}:
        return "none"
    return "bioes" if any(name.startswith(("E-", "S-")) for name in labels.names) else "iob2"


def written_labels(labels: Labels | None, kind: str) -> dict[str, Any]:
    """Return the config fields that name labels."""
    assert labels is not None
    names = dict(enumerate(labels.names))
    problem = next(name for name, ours in PROBLEMS.items() if ours == kind)
    return {
        "id2label": {str(number): name for number, name in names.items()},
        "label2id": {name: number for number, name in names.items()},
        "problem_type": problem,
    }
