"""The estimators follow the conventions of scikit-learn."""

import copy
import gc
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew
from clew.core.errors import UserError

pytest.importorskip("sklearn")

from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from clew.sklearn.classifier import column_in, texts_of

SMALL: dict[str, Any] = {
    "model__dim": 8,
    "embedding__dim": 8,
    "training__steps": 8,
    "training__evaluate_every": 8,
    "training__batch_size": 16,
    "training__schedule": "constant",
    "training__learning_rate": 0.02,
    "device": "cpu",
}
TEXTS = [f"a good film {number}" if number % 2 else f"bad and dull {number}" for number in range(24)]
LABELS = ["pos" if number % 2 else "neg" for number in range(24)]
SENTENCES = [
    [name, verb, place]
    for name in ("Ada", "Bo", "Cy")
    for verb in ("left", "saw", "likes")
    for place in ("Paris", "Rome")
]
TAGS = [["B-PER", "O", "B-LOC"]] * len(SENTENCES)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "labels", [LABELS, [7 if label == "pos" else -3 for label in LABELS], [label == "pos" for label in LABELS]]
)
def test_predictions_have_the_type_of_the_labels(labels: list[Any]) -> None:
    classifier = clew.sklearn.Classifier(**SMALL).fit(TEXTS, labels)
    assert classifier.classes_.tolist() == sorted(set(labels)) and classifier.score(TEXTS, labels) == 1.0
    assert classifier.predict(np.array(TEXTS)).tolist() == labels
    probabilities = classifier.predict_proba(TEXTS)
    assert probabilities.shape == (24, 2) and np.allclose(probabilities.sum(1), 1)
    assert (classifier.classes_[probabilities.argmax(1)] == labels).all()


def test_labels_with_white_space_and_line_ends_stay_distinct() -> None:
    labels = ["two\nlines" if label == "pos" else " neg" for label in LABELS]
    assert clew.sklearn.Classifier(**SMALL).fit(TEXTS, labels).predict(TEXTS).tolist() == labels


def test_columns_of_any_library_are_accepted() -> None:
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    columns = [
        np.array(LABELS)[:, None],
        pandas.DataFrame({"label": LABELS}),
        pandas.Series(LABELS, dtype="str"),
        pyarrow.array(LABELS),
    ]
    assert [column_in(y) for y in [*columns, pyarrow.table({"label": LABELS})]] == [LABELS] * 5
    assert texts_of(pyarrow.array(TEXTS)) == texts_of(pyarrow.table({"text": TEXTS})) == TEXTS
    assert texts_of(pyarrow.table({"a": TEXTS, "b": TEXTS})) == texts_of(pandas.DataFrame({"a": TEXTS, "b": TEXTS}))


def test_a_failed_fit_keeps_the_earlier_one() -> None:
    classifier = clew.sklearn.Classifier(**SMALL).fit(TEXTS, LABELS)
    expected = classifier.predict_proba(TEXTS)
    with pytest.raises(UserError):
        classifier.set_params(model__dim=-4).fit(TEXTS, [f"new {label}" for label in LABELS])
    assert classifier.classes_.tolist() == ["neg", "pos"] and (classifier.predict_proba(TEXTS) == expected).all()


def test_an_estimator_whose_run_was_replaced_cannot_be_pickled() -> None:
    one, other = (clew.sklearn.Classifier(**SMALL, seed=seed, folder="kept").fit(TEXTS, LABELS) for seed in (1, 2))
    with pytest.raises(
        UserError,
        match=r"^this Classifier cannot be pickled, because kept no longer has the run that it trained; set another",
    ):
        pickle.dumps(one)
    assert (pickle.loads(pickle.dumps(other)).predict_proba(TEXTS) == other.predict_proba(TEXTS)).all()


@pytest.mark.slow
def test_pairs_of_texts_and_empty_texts_get_classes() -> None:
    pairs = [(text, "and so on") for text in TEXTS]
    classifier = clew.sklearn.Classifier(**SMALL).fit(pairs, [*LABELS[:-2], "neg", "neg"])
    assert set(classifier.predict(pairs)) <= {"pos", "neg"}
    single = clew.sklearn.Classifier(**SMALL).fit(TEXTS, [*LABELS[:-2], "neg", "neg"])
    assert single.predict_proba(["", "  "]).tolist() == [[13 / 24, 11 / 24]] * 2


def test_parameters_are_the_settings_of_train() -> None:
    one = clew.sklearn.Classifier(**SMALL)
    assert one.get_params() == {"recipe": "classify", "folder": None, **SMALL}
    other = clone(one).set_params(model__dim=16, model__cell="gru", seed=5)
    assert other.get_params() == {**one.get_params(), "model__dim": 16, "model__cell": "gru", "seed": 5}
    config = other.fit(TEXTS, LABELS).run_.config
    assert (config.model.dim, config.model.cell, config.seed) == (16, "gru", 5) and one.model__dim == 8
    assert re.search(r"Classifier\(.*model__dim=8", repr(one), re.DOTALL) and is_classifier(one)


def test_unfitted_and_fitted_estimators_can_be_pickled(tmp_path: Path) -> None:
    one = clew.sklearn.Classifier(**SMALL)
    assert pickle.loads(pickle.dumps(one)).get_params() == one.get_params()
    one.fit(TEXTS, LABELS)
    pickled, expected = pickle.dumps(one), one.predict_proba(TEXTS)
    assert b"torch" not in pickled  # it contains the files of the run, not objects of torch
    folder = one.run_.folder
    del one
    gc.collect()
    assert not folder.exists()
    loaded = pickle.loads(pickled)
    assert (copy.deepcopy(loaded).predict_proba(TEXTS) == expected).all() and (
        loaded.predict_proba(TEXTS) == expected
    ).all()
    assert pickle.loads(pickle.dumps(loaded)).score(TEXTS, LABELS) == 1.0


@pytest.mark.slow
def test_a_given_folder_contains_the_run_of_the_last_fit() -> None:
    one = clew.sklearn.Classifier(**SMALL, folder="kept").fit(TEXTS, LABELS)
    expected = one.fit(TEXTS, LABELS[::-1]).predict(TEXTS).tolist()
    del one
    gc.collect()
    assert [each.label for each in clew.load("kept", device="cpu").classify(TEXTS) if each is not None] == expected


def test_a_pipeline_passes_settings_on() -> None:
    steps = [
        ("lower", FunctionTransformer(lambda texts: [text.lower() for text in texts])),
        ("clew", clew.sklearn.Classifier(**SMALL)),
    ]
    pipeline = Pipeline(steps).set_params(clew__model__dim=12).fit(TEXTS, LABELS)
    assert pipeline[-1].run_.config.model.dim == 12 and pipeline.score([text.upper() for text in TEXTS], LABELS) == 1.0


def test_cross_validation_scores_each_fold() -> None:
    scores = cross_val_score(clew.sklearn.Classifier(**SMALL), TEXTS, LABELS, cv=2)
    assert scores.tolist() == [1.0, 1.0]


@pytest.mark.slow
def test_cross_validation_in_two_processes_has_the_same_scores() -> None:
    one = clew.sklearn.Classifier(**{**SMALL, "training__steps": 3})
    assert (
        cross_val_score(one, TEXTS, LABELS, cv=2, n_jobs=2).tolist()
        == cross_val_score(one, TEXTS, LABELS, cv=2).tolist()
    )


@pytest.mark.slow
def test_a_search_over_settings_finds_the_better_one() -> None:
    search = GridSearchCV(clew.sklearn.Classifier(**SMALL), {"training__learning_rate": [1e-9, 0.02]}, cv=2).fit(
        TEXTS, LABELS
    )
    assert search.best_params_ == {"training__learning_rate": 0.02} and search.predict(TEXTS[:2]).tolist() == LABELS[:2]


OTHER_TAGS = [[["S-PER", "O", "S-LOC"]] * len(SENTENCES), [[1, 2, 3]] * len(SENTENCES)]


@pytest.mark.parametrize("tags", [TAGS, *(pytest.param(tags, marks=pytest.mark.slow) for tags in OTHER_TAGS)])
def test_a_tagger_predicts_tags_of_the_given_type(tags: list[list[Any]]) -> None:
    tagger = clew.sklearn.Tagger(**{**SMALL, "training__steps": 40}).fit(SENTENCES, tags)
    assert tagger.score(SENTENCES, tags) == 1.0
    assert tagger.predict([SENTENCES[0], []]) == ([tags[0], []] if isinstance(tags[0][0], int) else [TAGS[0], []])
    probabilities = tagger.predict_proba(SENTENCES)
    assert all(np.allclose(each.sum(1), 1, atol=1e-5) for each in probabilities)
    assert tagger.classes_[probabilities[0].argmax(1)].tolist() == tagger.predict(SENTENCES[:1])[0]
    assert clone(tagger).get_params() == tagger.get_params()
    assert pickle.loads(pickle.dumps(tagger)).predict(SENTENCES) == tagger.predict(SENTENCES)


@pytest.mark.slow
def test_a_tagger_is_cross_validated() -> None:
    assert len(cross_val_score(clew.sklearn.Tagger(**SMALL), SENTENCES, TAGS, cv=2)) == 2


def test_mistakes_are_reported() -> None:
    classifier, tagger = clew.sklearn.Classifier, clew.sklearn.Tagger
    for call, sentence in (
        (lambda: classifier(steps=3), "unknown keyword 'steps'; did you mean training__steps?"),
        (lambda: classifier().set_params(mdoel__dim=3), "unknown keyword 'mdoel__dim'; did you mean model__dim?"),
        (lambda: classifier(model__dimm=3).fit(TEXTS, LABELS), "unknown setting model__dimm; did you mean model__dim?"),
        (
            lambda: classifier(data__train="a.csv"),
            "data__train is not a parameter of Classifier, whose data are the arguments of fit(X, y); leave it out",
        ),
        (lambda: classifier().fit(TEXTS, LABELS[:3]), "X has 24 texts and y has 3 labels; pass one label for each"),
        (
            lambda: classifier().fit([3], [1]),
            "each row of X must be a text or a pair of texts, but row 0 is 3",
        ),
        (
            lambda: classifier().fit(TEXTS[:2], ["a", "a"]),
            "y has only one class ('a'); a classifier needs texts of at least two",
        ),
        (
            lambda: classifier().fit(TEXTS[:2], [[0, 1], [1, 1]]),
            "y has several labels for one text; pass one label for each, or train with clew.train",
        ),
        (
            lambda: classifier().fit(TEXTS[:2], [float("nan"), "a"]),
            "y has no label in row 0 (nan); leave out rows without one",
        ),
        (
            lambda: classifier().fit(TEXTS[:2], ["a", None]),
            "y has no label in row 1 (None); leave out rows without one",
        ),
        (
            lambda: classifier().fit(TEXTS[:2], [1, "a"]),
            "y has both strings and other labels ('a', 1); convert all of them to strings, or",
        ),
        (lambda: classifier().fit([], []), "y is empty; pass a label for each text"),
        (lambda: classifier().fit(TEXTS, None), "X and y must be lists, arrays, columns or frames, not None"),
        (
            lambda: classifier().fit("my parcel", LABELS),
            "X and y must be lists, arrays, columns or frames, not 'my parcel'; put a single text",
        ),
        (
            lambda: tagger().fit([["Ada", "left"]], [["a", None]]),
            "y has no tag in sentence 0, word 1 (None); leave out rows without one",
        ),
        (lambda: tagger().fit([["Ada", "left"]], [["a", 1]]), "y has both strings and other labels ('a', 1)"),
        (
            lambda: tagger().fit(["Ada left"], [["a", "b"]]),
            "each row of X must be a list of words, but row 0 is 'Ada left'",
        ),
        (lambda: tagger().fit([["Ada"]], [["a", "b"]]), "sentence 0 has 1 word and 2 tags; pass a tag for each word"),
        (lambda: tagger().fit([["Ada"]], []), "X has 1 sentence and y has 0 lists of tags; pass one list for each"),
        (lambda: tagger().fit([[]], [[]]), "X has no words; pass sentences with words and tags"),
    ):
        with pytest.raises(UserError) as caught:
            call()
        assert str(caught.value).startswith(sentence)
    for estimator in (classifier(), tagger()):
        with pytest.raises(NotFittedError):
            estimator.predict(SENTENCES)


@pytest.mark.slow
def test_the_error_without_scikit_learn_tells_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\nimport clew\ntry: clew.sklearn\nexcept clew.UserError as error:"
        " print(error)"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(clew.__file__).parents[1]
    )
    assert (
        completed.stdout
        == "clew.sklearn needs scikit-learn, which is not installed; run `pip install 'clew[sklearn]'`\n"
    )
