"""A tagger of words as scikit-learn has estimators."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from clew.core.errors import UserError, shown
from clew.core.tag_schemes import convert_tags
from clew.sklearn.estimator import Estimator, check_one_type, check_present, names_of, rows_in


class Tagger(Estimator):
    """A tag for each word: parts of speech, or phrases (B-PER, I-PER, O), which are predicted as IOB2.

    X are sentences, each a list of words; y are lists of as many tags. Settings are those of `clew.train`:
    `Tagger(training__steps=300)`.
    """

    def __init__(self, recipe: str = "tag", *, folder: str | Path | None = None, **settings: Any):
        super().__init__(recipe, folder, settings)

    def fit(self, X: Any, y: Any) -> Self:
        sentences, tags = sentences_of(X), [rows_in(row) for row in rows_in(y)]
        check_lengths(sentences, tags)
        if not any(tags):
            raise UserError("X has no words; give sentences with words and tags")
        for number, row in enumerate(tags):
            check_present(row, f"y has no tag in sentence {number}, word")
        check_one_type([tag for row in tags for tag in row])
        known = sorted({tag for row in tags for tag in row}, key=lambda tag: (str(type(tag)), tag))
        names = names_of(known)
        self._names = dict(zip(known, names, strict=True))
        self._train([(words, [self._names[tag] for tag in row]) for words, row in zip(sentences, tags, strict=True)])
        tag_of = dict(zip(names, known, strict=True))
        self._columns = list(dict.fromkeys(self._written(name) for name in self.run_.task.tags.names))
        self.classes_ = np.array([tag_of.get(name, name) for name in self._columns])
        return self

    def predict(self, X: Any) -> list[list[Any]]:
        tag_of = dict(zip(self._columns, self.classes_.tolist(), strict=True)) if hasattr(self, "_columns") else {}
        sentences = sentences_of(X)
        task = self.run_.task
        return [[tag_of.get(tag, tag) for tag, _ in words] for words in task.tag(sentences)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Of each sentence (words, classes), in the order of `classes_`."""
        task = self.run_.task
        column = {name: number for number, name in enumerate(self._columns)}
        into = np.zeros((len(task.tags), len(column)))
        for number, name in enumerate(task.tags.names):
            into[number, column[self._written(name)]] = 1.0
        return [
            probabilities.double().numpy() @ into for _, probabilities in task.tag_with_probabilities(sentences_of(X))
        ]

    def score(self, X: Any, y: Any) -> float:
        """The share of words whose tag is right."""
        tags = [rows_in(row) for row in rows_in(y)]
        sentences = sentences_of(X)
        check_lengths(sentences, tags)
        predicted = self.predict(sentences)
        right = [
            a == b
            for gold, row in zip(tags, predicted, strict=True)
            for a, b in zip(self._expected(gold), row, strict=True)
        ]
        return float(np.mean(right)) if right else 0.0

    def _expected(self, tags: list[Any]) -> list[Any]:
        """Tags as `predict` writes them, whichever scheme of phrases they have."""
        scheme = self.run_.task.scheme
        return convert_tags(tags, "iob2") if scheme and all(isinstance(tag, str) for tag in tags) else tags

    def _written(self, name: str) -> str:
        """A learnt tag as it is predicted: phrases are learnt as BIOES and predicted as IOB2."""
        return (
            f"{ {'E': 'I', 'S': 'B'}[name[0]] }{name[1:]}"
            if self.run_.task.scheme and name[:2] in ("E-", "S-")
            else name
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        tags.target_tags.required = True
        return tags


def sentences_of(X: Any) -> list[list[str]]:
    """Sentences as lists of words."""
    sentences = []
    for number, row in enumerate(rows_in(X)):
        words = rows_in(row) if not isinstance(row, str) else row
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise UserError(f"X has a list of words in each row, and row {number} is {shown(row)}")
        sentences.append(words)
    return sentences


def check_lengths(sentences: list[list[str]], tags: list[list[Any]]) -> None:
    if len(sentences) != len(tags):
        raise UserError(f"X has {len(sentences)} sentences and y {len(tags)} lists of tags; give one for each sentence")
    for number, (words, row) in enumerate(zip(sentences, tags, strict=True)):
        if len(words) != len(row):
            raise UserError(f"sentence {number} has {len(words)} words and {len(row)} tags; give a tag for each word")
