import numpy as np
import pytest

from clew.core.errors import UserError
from clew.inspection.lexicon import (
    PREPARATIONS,
    Space,
    align_spaces,
    cross_validate,
    folds,
    mutual_nearest,
    precision_at,
    procrustes,
    space_of,
    translations,
    with_hubs,
)
from tests.references import representations as reference


def random_rotation(dim, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(dim, dim)))[0]


def test_a_rotation_is_recovered():
    x, rotation = np.random.default_rng(1).normal(size=(20, 4)), random_rotation(4)
    np.testing.assert_allclose(procrustes(x, x @ rotation), rotation, atol=1e-10)


def test_no_nearby_rotation_is_better():
    """R = V U^T with Y^T X = U S V^T minimises ||X R - Y||; the transposed R = U V^T does not."""
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(30, 3)), generator.normal(size=(30, 3))
    best = procrustes(x, y)
    np.testing.assert_allclose(best.T @ best, np.eye(3), atol=1e-12)
    least = np.linalg.norm(x @ best - y)
    for number in range(50):
        assert (
            np.linalg.norm(x @ best @ np.linalg.qr(np.eye(3) + 0.1 * random_rotation(3, number))[0] - y) > least - 1e-9
        )
    assert np.linalg.norm(x @ best.T - y) > least + 1e-3


@pytest.mark.parametrize("widths", [(3, 5), (5, 3)])
def test_with_unequal_widths_the_narrower_vectors_are_padded(widths):
    generator = np.random.default_rng(3)
    x, y = (generator.normal(size=(12, width)) for width in widths)
    wide = max(widths)
    padded = [np.pad(part, ((0, 0), (0, wide - part.shape[1]))) for part in (x, y)]
    space = space_of(x, y, procrustes(x, y), csls=False)
    whole = padded[0] @ procrustes(*padded)
    np.testing.assert_allclose(space.source @ space.target.T, whole @ padded[1].T, atol=1e-5)


def test_csls_equals_the_papers_formula():
    generator = np.random.default_rng(4)
    x, y = (PREPARATIONS["unit"](generator.normal(size=(count, 4))) for count in (15, 13))
    space = with_hubs(Space(x, y))
    np.testing.assert_allclose(space.scores(np.arange(15)), reference.csls(x, y, 10), atol=1e-6)


def test_csls_avoids_a_hub():
    """y_1 is near everything; x_0's own translation becomes the nearest only after y_1 is penalised for that."""
    x = PREPARATIONS["unit"](np.array([[1.0, 0.3], [0.2, 1.0], [0.35, 1.0], [0.5, 1.0]]))
    y = PREPARATIONS["unit"](np.array([[1.0, -0.55], [0.75, 1.0]]))
    assert Space(x, y).nearest(np.array([0]), 1)[0].tolist() == [[1]]
    assert with_hubs(Space(x, y)).nearest(np.array([0]), 1)[0].tolist() == [[0]]


def test_mutual_nearest_neighbours_are_pairs():
    x = np.eye(3)
    y = np.eye(3)[[2, 0]]
    assert mutual_nearest(Space(x, y), 10).tolist() == [[0, 1], [2, 0]]


def test_refinement_improves_a_small_dictionary():
    generator = np.random.default_rng(5)
    x = PREPARATIONS["unit"](generator.normal(size=(200, 12)))
    y = PREPARATIONS["unit"](x @ random_rotation(12) + 0.03 * generator.normal(size=x.shape))
    pairs = np.repeat(np.arange(11)[:, None], 2, 1)
    gold = {word: [word] for word in range(11, 200)}
    once, refined = (
        precision_at(space_of(x, y, align_spaces(x, y, pairs, rounds=rounds), csls=True), gold).at[1]
        for rounds in (0, 2)
    )
    assert refined > once and refined > 99


def test_any_translation_counts_and_missing_words_count_on_request():
    x = np.eye(4)
    precision = precision_at(Space(x, x), {0: [0], 1: [3, 1], 2: [3]}, num_in_all=6, ks=(1, 4))
    assert precision.at == {1: pytest.approx(200 / 3), 4: 100}
    assert precision.of_all() == {1: pytest.approx(200 / 6), 4: 50}
    with pytest.raises(UserError, match="so nothing can be measured; use more words or other files"):
        precision_at(Space(x, x), {})


def test_without_pairs_no_rotation_is_fitted():
    with pytest.raises(UserError, match="there are no pairs of words to fit the rotation to; give at least one"):
        align_spaces(np.eye(2), np.eye(2), np.zeros((0, 2), dtype=int))


def test_folds_keep_all_pairs_of_a_word_together():
    pairs = np.array([[word, target] for word in range(9) for target in range(2)])
    parts = [part for _, part in folds(pairs, 3)]
    assert sorted(map(tuple, np.concatenate(parts).tolist())) == sorted(map(tuple, pairs.tolist()))
    for remaining, part in folds(pairs, 3):
        assert not set(remaining[:, 0]) & set(part[:, 0]) and len(remaining) + len(part) == len(pairs)


def test_cross_validation_prefers_the_best_on_held_out_words():
    """All vectors of one language share a large component, which only subtracting the mean removes."""
    generator = np.random.default_rng(6)
    x = generator.normal(size=(80, 6))
    y = x @ random_rotation(6) + np.array([6.0, 0, 0, 0, 0, 0]) + 0.05 * generator.normal(size=x.shape)
    choices = cross_validate(x, y, np.repeat(np.arange(60)[:, None], 2, 1), rounds=(0,))
    assert choices[0].preparation == "centre" and choices[0].precision > choices[-1].precision
    assert choices[-1].preparation == "unit"


def test_translations_are_grouped_by_word():
    assert translations(np.array([[1, 2], [1, 3], [4, 2]])) == {1: {2, 3}, 4: {2}}
