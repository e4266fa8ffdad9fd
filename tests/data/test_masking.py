import numpy as np
import pytest

from clew.data.masking import IGNORED, Hidden, Masking, masking_of
from clew.text.train import framed_as_bert, train_bpe, train_wordpiece

WORDS = 1000
SPECIALS = 5
MASK = 4


def masking(continues_word: np.ndarray | None = None, **shares: float) -> Masking:
    options = {"chosen": 0.15, "masked": 0.8, "replaced": 0.1, **shares}
    return Masking(**options, mask=MASK, is_ordinary=np.arange(WORDS) >= SPECIALS, continues_word=continues_word)


def rows_of(rows: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that begin with [CLS] and end with [SEP], with padding at the end of every other row."""
    tokens = np.random.default_rng(0).integers(SPECIALS, WORDS, (rows, length))
    tokens[:, 0], tokens[:, -1] = 2, 3
    real = np.ones((rows, length), dtype=bool)
    real[::2, -length // 4 :] = False
    return tokens, real


def originals(tokens: np.ndarray, hidden: Hidden) -> np.ndarray:
    """The original tokens, restored from the masked tokens and the targets."""
    restored = hidden.tokens.copy()
    for row, places, targets in zip(restored, hidden.places, hidden.targets, strict=True):
        row[places[targets != IGNORED]] = targets[targets != IGNORED]
    return restored


def test_the_fractions_of_masked_kept_and_random_tokens_are_as_published() -> None:
    tokens, real = rows_of(2000, 100)
    hidden = masking().hide(tokens, real, 1, 0, np.arange(2000))
    assert np.array_equal(originals(tokens, hidden), tokens)
    chosen = hidden.targets != IGNORED
    assert chosen.sum(1).tolist() == [11, 15] * 1000  # of 74 and 98
    rows, columns = np.nonzero(chosen)
    places = hidden.places[rows, columns]
    assert real[rows, places].all() and (tokens[rows, places] >= SPECIALS).all()
    assert len(set(zip(rows.tolist(), places.tolist(), strict=True))) == len(rows)
    read, targets = hidden.tokens[rows, places], hidden.targets[rows, columns]
    masked, same = (read == MASK).mean(), (read == targets).mean()
    count = len(read)
    assert masked == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / count))
    assert same == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / count))
    replaced = read[(read != MASK) & (read != targets)]
    assert replaced.min() >= SPECIALS and len(set(replaced.tolist())) > 0.9 * WORDS  # 2,600 draws from 995 tokens
    counts = np.bincount(places[rows % 2 == 1], minlength=100)[1:99]
    assert counts.min() > 0.6 * counts.mean() and counts.max() < 1.4 * counts.mean()


def test_at_least_one_token_is_chosen_and_never_a_special_one() -> None:
    tokens, real = np.array([[2, 7, 3, 0], [2, 1, 3, 0]]), np.array([[True, True, True, False]] * 2)
    hidden = masking().hide(tokens, real, 1, 0, np.arange(2))
    assert hidden.places.tolist() == [[1], [0]] and hidden.targets.tolist() == [[7], [IGNORED]]
    assert hidden.tokens[1].tolist() == tokens[1].tolist()


def test_a_mask_depends_on_example_seed_and_epoch_but_not_the_batch() -> None:
    tokens, real = rows_of(6, 40)

    def masked(rows: list[int], length: int = 40, seed: int = 1, epoch: int = 0) -> list[list[int]]:
        hidden = masking().hide(tokens[rows, :length], real[rows, :length], seed, epoch, np.array(rows))
        return hidden.tokens.tolist()

    whole = masked([0, 1, 2, 3, 4, 5])
    assert masked([4, 1]) == [whole[4], whole[1]]
    assert [row[:35] for row in whole[:1]] == masked([0], 35)  # its 30 real tokens, with less padding after them
    assert len({str(masked([1], seed=seed, epoch=epoch)) for seed in (0, 1, 2**70) for epoch in (0, 1, 2**63)}) == 9
    same = masking().hide(tokens[[1, 1]], real[[1, 1]], 1, 0, np.array([7, 8])).tokens
    assert same[0].tolist() != same[1].tolist()


def test_whole_words_are_chosen_together() -> None:
    continues_word = np.arange(WORDS) % 3 == 0
    tokens, real = rows_of(500, 60)
    hidden = masking(continues_word).hide(tokens, real, 1, 0, np.arange(500))
    assert np.array_equal(originals(tokens, hidden), tokens)
    count = 0
    for row, places, targets in zip(range(500), hidden.places, hidden.targets, strict=True):
        chosen = set(places[targets != IGNORED].tolist())
        for place in range(1, 59):
            if real[row, place] and continues_word[tokens[row, place]] and tokens[row, place - 1] >= SPECIALS:
                assert (place in chosen) == (place - 1 in chosen)
        count += len(chosen)
    assert count == pytest.approx(0.15 * real[:, 1:59].sum(), rel=0.1)
    long = masking(np.ones(WORDS, dtype=bool)).hide(
        np.array([[2, 7, 8, 9, 3]]), np.ones((1, 5), dtype=bool), 1, 0, np.zeros(1)
    )
    assert sorted(long.places[0].tolist()) == [1, 2, 3]  # the only word, although it exceeds the fraction


def test_masking_knows_the_tokenizers_special_tokens_and_word_parts() -> None:
    tokenizer = framed_as_bert(train_wordpiece(["unhappy unhappily happily"], size=40))
    token_masking = masking_of(tokenizer, 0.15, 0.8, 0.1, whole=True)
    assert [tokenizer.tokens[i] for i in np.flatnonzero(~token_masking.is_ordinary)] == [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
    ]
    assert token_masking.continues_word is not None
    assert {
        token[:2] == "##" for token, on in zip(tokenizer.tokens, token_masking.continues_word, strict=True) if on
    } == {True}
    bytes_ = train_bpe(["one two"], size=300, specials=["<mask>"])
    continues_word = masking_of(bytes_, 0.15, 0.8, 0.1, whole=True).continues_word
    assert continues_word is not None and not continues_word[bytes_.id("Ġ")] and continues_word[bytes_.id("o")]
