"""A tagger of words with the interface of scikit-learn."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from clew.core.errors import UserError, counted, shown
from clew.core.tag_schemes import convert_tags
from clew.sklearn.estimator import Estimator, check_one_type, check_present, names_of, rows_in


class Tagger(Estimator):
    """Tags words: with parts of speech, or with phrases (B-PER, I-PER, O), which are predicted as IOB2.

    X has sentences, each a list of words; y has a list of tags for each sentence, one tag per word. Settings are those
    of `clew.train`: `Tagger(training__steps=300)`.
    """

    def __init__(self, recipe: str = "tag", *, folder: str | Path | None = None, **settings: Any):
        super().__init__(recipe, folder, settings)

    def fit(self, X: Any, y: Any) -> Self:
        sentences, tags = sentences_of(X), [rows_in(row) for row in rows_in(y)]
        check_lengths(sentences, tags)
        if not any(tags):
            raise UserError("X has no words; pass sentences with words and tags")
        for number, row in enumerate(tags):
            check_present(row, f"y has no tag in sentence {number}, word")
        check_one_type([tag for row in tags for tag in row])
        known = sorted({tag for row in tags for tag in row}, key=lambda tag: (str(type(tag)), tag))
        names = names_of(known)
        self._names = dict(zip(known, names, strict=True))
        self._train([(words, [self._names[tag] for tag in row]) for words, row in zip(sentences, tags, strict=True)])
        tag_of = dict(zip(names, known, strict=True))
        self._columns = list(dict.fromkeys(self._predicted_tag(name) for name in self.run_.task.tags.names))
        self.classes_ = np.array([tag_of.get(name, name) for name in self._columns])
        return self

    def predict(self, X: Any) -> list[list[Any]]:
        tag_of = dict(zip(self._columns, self.classes_.tolist(), strict=True)) if hasattr(self, "_columns") else {}
        sentences = sentences_of(X)
        task = self.run_.task
        return [[tag_of.get(tag, tag) for tag, _ in words] for words in task.tag(sentences)]

    def predict_proba(self, X: Any) -> list[np.ndarray]:
        """Return probabilities (words, classes) for each sentence, in the order of `classes_`."""
        task = self.run_.task
        column = {name: number for number, name in enumerate(self._columns)}
        into = np.zeros((len(task.tags), len(column)))
        for number, name in enumerate(task.tags.names):
            into[number, column[self._predicted_tag(name)]] = 1.0
        return [
            probabilities.double().numpy() @ into for _, probabilities in task.tag_with_probabilities(sentences_of(X))
        ]

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy: the share of words with the correct tag."""
        tags = [rows_in(row) for row in rows_in(y)]
        sentences = sentences_of(X)
        check_lengths(sentences, tags)
        predicted = self.predict(sentences)
        is_correct = [
            a == b
            for gold, row in zip(tags, predicted, strict=True)
            for a, b in zip(self._expected(gold), row, strict=True)
        ]
        return float(np.mean(is_correct)) if is_correct else 0.0

    def _expected(self, tags: list[Any]) -> list[Any]:
        """Convert tags of any phrase scheme to the tags that `predict` returns."""
        scheme = self.run_.task.scheme
        return convert_tags(tags, "iob2") if scheme and all(isinstance(tag, str) for tag in tags) else tags

    def _predicted_tag(self, name: str) -> str:
        """Convert a tag of the model to the tag that `predict` returns: phrases are trained as BIOES and predicted as
        IOB2."""
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
    """Return the sentences in X, as lists of words."""
    sentences = []
    for number, row in enumerate(rows_in(X)):
        words = rows_in(row) if not isinstance(row, str) else row
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise UserError(f"each row of X must be a list of words, but row {number} is {shown(row)}")
        sentences.append(words)
    return sentences


def check_lengths(sentences: list[list[str]], tags: list[list[Any]]) -> None:
    if len(sentences) != len(tags):
        raise UserError(
            f"X has {counted(len(sentences), 'sentence')} and y has {counted(len(tags), 'list')} of tags; pass one list"
            " for each sentence"
        )
    for number, (words, row) in enumerate(zip(sentences, tags, strict=True)):
        if len(words) != len(row):
            raise UserError(
                f"sentence {number} has {counted(len(words), 'word')} and {counted(len(row), 'tag')}; pass a tag for"
                " each word"
            )
