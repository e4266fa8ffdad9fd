"""A text classifier with the interface of scikit-learn."""

from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from clew.core.errors import UserError, counted, shown
from clew.sklearn.estimator import Estimator, check_one_type, check_present, names_of, rows_in


class Classifier(ClassifierMixin, Estimator):
    """Classifies texts, or pairs of texts: one label for each.

    X has texts or pairs of texts: a list, an array, a column, or a frame with one or two columns. y has strings or
    numbers. Settings are those of `clew.train`: `Classifier(model__dim=128, training__steps=300, seed=1)`. A part of
    the texts is held out to select the best weights (`data__valid_fraction`).
    """

    def __init__(self, recipe: str = "classify", *, folder: str | Path | None = None, **settings: Any):
        super().__init__(recipe, folder, settings)

    def fit(self, X: Any, y: Any) -> Self:
        texts, rows = texts_of(X), column_in(y)
        if not rows:
            raise UserError("y is empty; pass a label for each text")
        check_present(rows, "y has no label in row")
        check_one_type(rows)
        labels = np.asarray(rows)
        if len(texts) != len(labels):
            raise UserError(
                f"X has {counted(len(texts), 'text')} and y has {counted(len(labels), 'label')}; pass one label for"
                " each text"
            )
        if labels.ndim != 1:
            raise UserError(
                "y has several labels for one text; pass one label for each, or train with clew.train and"
                " task__labels='several'"
            )
        check_classification_targets(labels)
        classes, numbers, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise UserError(
                f"y has only one class ({shown(classes.tolist()[0])}); a classifier needs texts of at least two"
            )
        class_names = names_of(classes.tolist())
        names = [class_names[number] for number in numbers]
        pairs = zip(texts, names, strict=True)
        self._train([(*text, name) if isinstance(text, tuple) else (text, name) for text, name in pairs])
        # Set only now: if training fails, the estimator keeps its earlier run together with that run's classes.
        self.classes_, self.class_shares_, self._names = classes, counts / counts.sum(), class_names
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return probabilities (texts, classes), in the order of `classes_`. For a blank text, they are the shares of
        the classes in the training texts."""
        answers = self.run_.classify(texts_of(X))
        rows = [
            self.class_shares_ if each is None else [each.probabilities.get(name, 0.0) for name in self._names]
            for each in answers
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.classes_))

    def predict(self, X: Any) -> np.ndarray:
        probabilities = self.predict_proba(X)
        chosen: np.ndarray = self.classes_[probabilities.argmax(1)]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        return tags


def column_in(y: Any) -> list[Any]:
    """Return the labels in a list, an array, a column, or an array or frame with one column."""
    rows = rows_in(y)
    is_column = len(getattr(y, "shape", ())) == 2 and y.shape[1] == 1
    return [label for (label,) in rows] if is_column else rows


def texts_of(X: Any) -> list[str | tuple[str, str]]:
    """Return the texts or pairs of texts in X."""
    texts = []
    for number, row in enumerate(rows_in(X)):
        parts = tuple(row) if isinstance(row, (list, tuple)) else (row,)
        if len(parts) not in (1, 2) or not all(isinstance(part, str) for part in parts):
            raise UserError(f"each row of X must be a text or a pair of texts, but row {number} is {shown(row)}")
        texts.append(parts if len(parts) == 2 else parts[0])
    return texts
