import pytest
import torch

from clew.sources.words import EncodedWords, WordReader, one_word_each
from clew.text.letters import letters_of
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS, framed_as_bert

TEXTS = [
    "the ball of thread was small and red .",
    "naïve Zürich 中文 déjà-vu don't",
    "x _ antidisestablishmentarianism",
] * 2
AWKWARD = [
    ["the", "no\xa0break", "ball"],
    ["", "ball", " "],
    ["中文中", "naïve", "🙂🙂", "e\u0301"],
    ["a" * 300, "b"],
    ["don't", "...", "Zürich"],
    ["<eos>", "[SEP]", "_"],
    ["İstanbul", "\u2028", "the"],
    [],
]


def trained(kind: str, **options) -> Tokenizer:  # type: ignore[no-untyped-def]
    return TOKENIZERS[kind](TEXTS, size={"bpe": 300, "unigram": 320}.get(kind), **options)


def pieces(tokenizer: Tokenizer, encoded: EncodedWords) -> list[list[str]]:
    return [
        [tokenizer.token(token) for token in encoded.tokens[start:end]]
        for start, end in zip(encoded.starts, encoded.ends, strict=True)
    ]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_word_has_all_of_its_own_pieces(kind: str, lowercase: bool) -> None:
    """Alone or with others, a word has the same pieces, except for the space before it."""
    tokenizer = trained(kind, lowercase=lowercase)
    reader = WordReader(tokenizer)
    for words, encoded in zip(AWKWARD, reader.encode(AWKWARD), strict=True):
        assert len(encoded.starts) == len(encoded.ends) == len(words)
        assert all(a < b for a, b in zip(encoded.starts, encoded.ends, strict=True))
        assert all(end <= start for end, start in zip(encoded.ends, encoded.starts[1:], strict=False))
        for word, word_pieces in zip(words, pieces(tokenizer, encoded), strict=True):
            alone = {
                text: [tokenizer.token(token) for token in tokenizer.encode(text + one_word_each([word]))]
                for text in ("", " ")
            }
            bare = [piece for piece in alone[" "] if piece not in ("Ġ", " ")]
            assert word_pieces in (alone[""], bare), word


def test_a_word_that_a_tokenizer_drops_has_the_piece_before_it() -> None:
    tokenizer = trained("wordpiece")
    reader = WordReader(tokenizer)
    dropped = reader.encode([["\u200b", "ball", "\u200d", "\u200b"], ["\u200b"]])
    assert pieces(tokenizer, dropped[0]) == [["ball"]] * 4
    assert dropped[1] == EncodedWords([0], [0], [1])


def test_running_text_bodies_get_line_ends_and_letters_of_tokens() -> None:
    tokenizer = trained("word", lowercase=True)
    end = tokenizer.end
    apart, running = (
        WordReader(tokenizer, letters=True, running=running).encode([["The", "Ball"], []]) for running in (False, True)
    )
    the, ball = tokenizer.id("the"), tokenizer.id("ball")
    assert apart[0] == EncodedWords([the, ball], [0, 1], [1, 2], [letters_of("The"), letters_of("Ball")])
    mark = letters_of("<eos>")
    assert running[0] == EncodedWords(
        [end, the, ball, end], [1, 2], [2, 3], [mark, letters_of("the"), letters_of("ball"), mark]
    )
    assert running[1] == EncodedWords([end, end], [], [], [mark, mark])
    assert WordReader(trained("character"), running=True).encode([["of"]])[0].starts == [0]


def test_rows_of_each_reader_are_padded_separately_in_a_batch() -> None:
    inner = WordReader(trained("character"))
    reader = WordReader(trained("word"), letters=True, context=inner)
    pieces = reader.collate(reader.encode([["the", "ball"], ["red"], []]))
    assert pieces.starts.tolist() == [[0, 1], [0, 0], [0, 0]] and pieces.mask.tolist() == [
        [True, True],
        [True, False],
        [False, False],
    ]  # type: ignore[union-attr]
    below = pieces.inputs.context
    assert below.starts.tolist() == [[0, 4], [0, 0], [0, 0]] and below.ends.tolist() == [[3, 8], [3, 0], [0, 0]]
    assert below.mask.sum(1).tolist() == [8, 3, 1]
    assert torch.equal(pieces.inputs.letters[1, 1], torch.zeros_like(pieces.inputs.letters[1, 1]))
    assert pieces.inputs.letters[1, 0, :5].tolist() == letters_of("red")


@pytest.mark.parametrize(
    ("lengths", "longest", "expected_lengths"),
    [
        ((5, 2), 10, (5, 2)),
        ((9, 2), 8, (3, 2)),
        ((2, 9), 8, (2, 3)),
        ((9, 9), 8, (3, 2)),
        ((9, 9), 9, (3, 3)),
        ((7,), 6, (4,)),
        ((7,), 9, (7,)),
    ],
)
def test_the_longer_of_two_texts_is_cut_until_both_fit_with_their_frame(
    lengths: tuple[int, ...], longest: int, expected_lengths: tuple[int, ...]
) -> None:
    tokenizer = framed_as_bert(TOKENIZERS["wordpiece"](["a b c d"], size=60))
    reader = WordReader(tokenizer)
    texts = tuple(reader.encode([["a"] * length], framed=False)[0] for length in lengths)
    shortened = reader.shortened(texts, longest)
    assert tuple(len(text.tokens) for text in shortened) == expected_lengths
    assert tuple(len(text.starts) for text in shortened) == expected_lengths
    whole = reader.framed(*shortened)
    assert len(whole.tokens) <= longest and whole.tokens[-1] == tokenizer.end
