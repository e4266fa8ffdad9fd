import numpy as np
import pytest

from clew.baselines.most_frequent import MostFrequentTag, fit_most_frequent_class, fit_most_frequent_tag
from clew.core.errors import UserError
from clew.data.corpora import read_corpus


def test_every_text_gets_the_most_frequent_class():
    model = fit_most_frequent_class([("b",), ("a",), ("b",), ("c",)])
    assert model.labels == ("a", "b", "c")
    assert model.predict(["one", "two"]) == [("b",), ("b",)]
    assert model.predict_proba(["one", "two"]).tolist() == [[0.25, 0.5, 0.25]] * 2
    assert fit_most_frequent_class([("b",), ("a",)]).predict(["one"]) == [("a",)]


def test_every_text_gets_the_labels_of_most_texts():
    model = fit_most_frequent_class([("a", "b"), ("b", "c", "a"), ("b",), ()], exclusive=False)
    assert model.predict_proba(["one"]).tolist() == [[0.5, 0.75, 0.25]]
    assert model.predict(["one"]) == [("b",)]


def test_invalid_labels_are_rejected():
    with pytest.raises(UserError, match=r"^no labels; give some labelled texts$"):
        fit_most_frequent_class([])
    with pytest.raises(UserError, match=r"^text 2 has 2 labels; each needs exactly one if labels exclude each other$"):
        fit_most_frequent_class([("a",), ("a", "b")])
    with pytest.raises(UserError, match=r"^text 1 has a label twice: a, a$"):
        fit_most_frequent_class([("a", "a")], exclusive=False)


def test_a_word_gets_its_most_frequent_tag_or_that_of_its_shape_or_of_all():
    sentences = [
        (["the", "walk", "was", "shaking"], ["D", "N", "V", "V"]),
        (["walk", "the", "walk"], ["V", "D", "N"]),
        (["baking", "the", "King", "4th"], ["V", "D", "P", "A"]),
    ]
    model = fit_most_frequent_tag(sentences)
    assert model.tag(["walk", "the"]) == ["N", "D"]
    # "making" ends like shaking and baking, "Ring" like King, and 5th like 4th, since all digits are equal; no word
    # ends like "zoo"
    assert model.tag(["making", "Ring", "5th", "zoo"]) == ["V", "P", "A", "V"]
    assert fit_most_frequent_tag(sentences, shapes=False).tag(["Ring", "5th"]) == ["V", "V"]


def test_shapes_are_counted_over_words_that_occur_once():
    model = fit_most_frequent_tag([(["his"] * 3 + ["this", "dog", "cat", "axis"], ["D"] * 4 + ["N", "N", "N"])])
    assert model == MostFrequentTag(
        {"his": "D", "this": "D", "dog": "N", "cat": "N", "axis": "N"},
        {("his", False): "D", ("dog", False): "N", ("cat", False): "N", ("xis", False): "N"},
        "D",
    )


def test_shapes_help_with_unknown_words():
    parts = read_corpus("ewt-sample", tags="upos")
    train = [(sentence.words, sentence.tags) for sentence in parts["train"]]
    accuracy = {}
    for shapes in (False, True):
        model = fit_most_frequent_tag(train, shapes=shapes)
        accuracy[shapes] = np.mean(
            [a == b for s in parts["test"] for a, b in zip(model.tag(s.words), s.tags, strict=True)]
        )
    assert accuracy[False] > 0.82
    assert accuracy[True] > accuracy[False] + 0.03


def test_invalid_tags_are_rejected():
    with pytest.raises(UserError, match=r"^sentence 1 has 2 words and 1 tags; each word needs one$"):
        fit_most_frequent_tag([(["a", "b"], ["N"])])
    with pytest.raises(UserError, match=r"^no words to take tags from; give some tagged sentences$"):
        fit_most_frequent_tag([])
