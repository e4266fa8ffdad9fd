from clew.tour.recall import AFTER, BEFORE, BETWEEN, LANGUAGES, draw, drawn_gaps, remembered
from clew.tour.training import language_run


def test_only_the_last_word_is_predicted_and_is_the_countrys_language() -> None:
    words = sorted({*BEFORE, ",", *AFTER, *BETWEEN, *LANGUAGES, *LANGUAGES.values()})
    run = language_run(words, {"family": "recurrent", "cell": "elman", "dim": 4}, seed=0)
    batch = draw(run, 5, 8, 1)
    assert batch.tokens.shape == (8, 3 + 2 + 5 + 3) and batch.within is not None
    assert batch.within[:, -1].all() and not batch.within[:, :-1].any()
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        country, language = run.tokenizer.token(tokens[3]), run.tokenizer.token(targets[-1])
        assert LANGUAGES[country] == language
    assert not set(LANGUAGES.values()) & set(BETWEEN) and not set(LANGUAGES) & set(BETWEEN)


def test_memory_ends_before_the_first_gap_that_fails() -> None:
    assert remembered([1, 5, 10, 20], [1.0, 0.95, 0.4, 0.99]) == 5
    assert remembered([1, 5], [0.2, 1.0]) == 0
    assert remembered([1, 5], [0.9, 0.9]) == 5


def test_short_and_long_gaps_are_trained_on_equally_often() -> None:
    gaps = drawn_gaps(63, 6000, 0)
    assert set(gaps) == set(range(1, 64))
    octaves = [sum(2**power <= gap < 2 ** (power + 1) for gap in gaps) for power in range(6)]
    assert max(octaves) < 1.2 * min(octaves)
