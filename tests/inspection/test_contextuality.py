import numpy as np
import pytest

from clew.core.errors import UserError
from clew.inspection.contextuality import (
    contextuality,
    explainable_variance,
    intra_sentence_similarity,
    occurrences,
    principal_components,
    random_cosines,
    self_similarity,
)
from tests.references import representations as reference


@pytest.mark.parametrize("name", ["self_similarity", "intra_sentence_similarity", "explainable_variance"])
@pytest.mark.parametrize("shape", [(2, 3), (7, 4), (5, 12)])
def test_measures_equal_the_papers_sums(name, shape):
    rows = np.random.default_rng(0).normal(1.0, 1.0, shape)
    actual = {f.__name__: f for f in (self_similarity, intra_sentence_similarity, explainable_variance)}[name](rows)
    assert actual == pytest.approx(getattr(reference, name)(rows.tolist()), abs=1e-12)


def test_a_vector_without_context_has_measures_of_one():
    rows = np.tile([[3.0, -1.0, 2.0]], (4, 1))
    assert self_similarity(rows) == pytest.approx(1)
    assert intra_sentence_similarity(rows) == pytest.approx(1)
    assert explainable_variance(rows) == pytest.approx(1)


def test_opposite_and_orthogonal_vectors_by_hand():
    assert self_similarity(np.array([[1.0, 0.0], [-2.0, 0.0]])) == pytest.approx(-1)
    assert self_similarity(np.array([[1.0, 0.0], [0.0, 5.0]])) == pytest.approx(0)
    assert explainable_variance(np.array([[2.0, 0.0], [0.0, 1.0]])) == pytest.approx(4 / 5)


def test_a_row_of_zeros_gives_no_nan():
    rows = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    assert self_similarity(rows) == pytest.approx(1 / 3)
    assert intra_sentence_similarity(rows) == pytest.approx(2 / 3)
    assert explainable_variance(np.zeros((3, 2))) == 0


def test_the_similarity_of_random_words_is_subtracted():
    """Static vectors around a common direction: each adjusted measure is the measure minus that of random words."""
    generator = np.random.default_rng(1)
    sentences = [[f"w{number}" for number in generator.permutation(6)] for _ in range(8)]
    table = {f"w{number}": generator.normal(size=5) + 3 for number in range(6)}
    rows = np.array([table[word] for words in sentences for word in words])
    measures = contextuality(rows, sentences)
    assert measures.self_similarity == pytest.approx(1) and measures.explainable_variance == pytest.approx(1)
    assert measures.anisotropy == pytest.approx(reference.self_similarity(rows.tolist()))
    assert measures.adjusted_self_similarity == pytest.approx(1 - measures.anisotropy)
    assert measures.adjusted_explainable_variance == pytest.approx(1 - reference.explainable_variance(rows))
    assert measures.intra_similarity == pytest.approx(
        np.mean([reference.intra_sentence_similarity(rows[6 * n : 6 * n + 6].tolist()) for n in range(8)])
    )


def test_a_word_counts_once_per_sentence_and_must_be_frequent():
    assert occurrences([["the", "cat", "the"], ["the", "The"]]) == {"the": [0, 3], "cat": [1], "The": [4]}
    with pytest.raises(
        UserError, match="no word occurs in 5 sentences, so there is nothing to compare; read more sentences"
    ):
        contextuality(np.ones((4, 2)), [["a", "b"], ["c", "d"]])


def test_one_occurrence_has_no_self_similarity():
    with pytest.raises(UserError, match="self-similarity needs at least two occurrences, not 1; give more sentences"):
        self_similarity(np.ones((1, 2)))


def test_principal_components_keep_distances_and_the_origin():
    rows = np.random.default_rng(2).normal(size=(6, 2)) + 4
    centred, shares = principal_components(rows)
    distances = [np.linalg.norm(part[:, None] - part[None], axis=-1) for part in (rows, centred)]
    np.testing.assert_allclose(*distances, atol=1e-12)
    assert shares.sum() == pytest.approx(1)
    raw, _ = principal_components(rows, centre=False)
    np.testing.assert_allclose(np.linalg.norm(raw, axis=1), np.linalg.norm(rows, axis=1))


def test_random_cosines_are_between_different_occurrences():
    rows = np.eye(8)
    assert np.allclose(random_cosines(rows), 0) and len(random_cosines(rows)) == 4
