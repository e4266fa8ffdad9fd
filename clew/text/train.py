"""Train tokenizers on text. Equal texts give equal tokenizers, on any machine.

No tokenizer joins characters across a newline, so lines can be encoded separately and concatenated. `specials` are
additional tokens that no text is encoded to: a task inserts their ids.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from clew.core.errors import UserError
from clew.text.likelihood_merges import likelihood_merges
from clew.text.tokenizer import Tokenizer

UNKNOWN = "<unk>"
END = "<eos>"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SUBWORDS = 8192  # the default size of a subword vocabulary
UNLIMITED = 2**31
PENALTY = 1e-4
LONGEST = 1000  # longer runs, of characters without white space or of white space alone, are cut for training
RUN = re.compile(rf"\S{{{LONGEST + 1},}}|[^\S\n]{{{LONGEST + 1},}}")


def train_character(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    lowercase: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """Every character is a token, newlines too, in Unicode order; other characters are `<unk>`."""
    named = added([UNKNOWN], specials)
    check_size(size, len(named) + 1, "a character tokenizer", f"{', '.join(named)} and one character")
    normalizer = lowering(lowercase)
    counts: Counter[str] = Counter()
    for text in repeatable(texts):
        counts.update(normalized(normalizer, text))
    by_frequency = sorted(counts, key=lambda character: (-counts[character], character))
    kept = [character for character in by_frequency if counts[character] >= min_count][: size and size - len(named)]
    check_found(kept, "character", min_count)

    each_apart = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner = assembled(word_level([*named, *sorted(kept)]), normalizer, each_apart, decoders.Fuse())
    inner.add_special_tokens(list(specials))
    return Tokenizer(inner)


def train_word(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    lowercase: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """Words between white space, the most frequent first; a newline is `<eos>`, a rare word `<unk>` (Mikolov's Penn
    Treebank)."""
    named = added([UNKNOWN, END], specials)
    check_size(size, len(named) + 1, "a word tokenizer", f"{', '.join(named)} and one word")
    newline = normalizers.Replace("\n", f" {END} ")
    normalizer = normalizers.Sequence([normalizers.Lowercase(), newline]) if lowercase else newline
    pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    frequent = frequent_words(repeatable(texts), normalizer, pre_tokenizer, min_count)
    words = [word for word in frequent if word not in named][: size and size - len(named)]
    check_found(words, "word", min_count)
    inner = assembled(word_level([*named, *words]), normalizer, pre_tokenizer)
    inner.add_special_tokens(list(specials))
    return Tokenizer(inner)


def with_words(tokenizer: Tokenizer, words: Iterable[str]) -> Tokenizer:
    """A word tokenizer that also knows these words, with ids after its own."""
    description = json.loads(tokenizer.to_json())
    vocabulary: dict[str, int] = description["model"]["vocab"]
    for word in words:
        if word and not any(map(str.isspace, word)):
            vocabulary.setdefault(word, len(vocabulary))
    return Tokenizer.from_json(json.dumps(description))


def framed_as_bert(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with BERT's frame: [CLS] and [SEP] around texts, pairs as segments 0 and 1."""
    inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    begin, end = "[CLS]", "[SEP]"
    inner.post_processor = processors.BertProcessing((end, tokenizer.id(end)), (begin, tokenizer.id(begin)))
    return Tokenizer(inner)


def train_bpe(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    lowercase: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """Byte-pair encoding (Sennrich et al. 2016) over bytes (Radford et al. 2019): no text is unknown, and decoding is
    exact."""
    specials = added([END], specials)
    check_size(size, len(specials) + 256, "a BPE tokenizer", f"{', '.join(specials)} and 256 bytes")
    pre_tokenizer = pre_tokenizers.Sequence([newlines_apart(), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    inner = assembled(models.BPE(), lowering(lowercase), pre_tokenizer, decoders.ByteLevel())
    trainer = trainers.BpeTrainer(
        vocab_size=size or SUBWORDS,
        min_frequency=min_count,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(short_words(repeatable(texts)), trainer)
    return Tokenizer(inner)


def train_wordpiece(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    lowercase: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """WordPiece as used by BERT (Devlin et al. 2019): `##` continues a word, white space is lost, `[SEP]` ends a
    document. A word is encoded by its longest known prefix, then by that of the rest.

    Merges join the most frequent pair, as in BPE: this is how the `tokenizers` library trains WordPiece.
    `wordpiece_likelihood` merges as in the paper.
    """
    # The library numbers continuing characters in the order of a hash table; named first and sorted, they make training
    # repeatable.
    texts = repeatable(texts)
    specials = added(BERT, specials)
    normalizer, pre_tokenizer = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    words = frequent_words(texts, normalizer, pre_tokenizer)
    check_found(words, "word", 1)
    characters, continuations = alphabet(words)
    smallest = len(specials) + len(characters) + len(continuations)
    check_size(
        size,
        smallest,
        "this WordPiece tokenizer",
        f"{', '.join(specials)} and the text's characters, alone and after ##",
    )

    draft = assembled(models.WordPiece(unk_token="[UNK]"), normalizer, pre_tokenizer)
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(size or SUBWORDS, smallest),
        min_frequency=min_count,
        special_tokens=[*specials, *continuations],
        show_progress=False,
    )
    draft.train_from_iterator(short_words(texts), trainer)
    return wordpiece_of(draft.get_vocab(), lowercase, specials)


def train_wordpiece_likelihood(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    lowercase: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """WordPiece trained by likelihood (Schuster and Nakajima 2012): each merge joins the pair with the highest

        freq(ab) / (freq(a) freq(b))

    so that parts that rarely occur apart are joined first, however rare they are; `min_count` excludes rare pairs.
    Texts are encoded as in `wordpiece`, the longest piece first.
    """
    texts = repeatable(texts)
    specials = added(BERT, specials)
    counts = word_counts(texts, normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer())
    check_found(list(counts), "word", 1)
    characters, continuations = alphabet(counts)
    tokens = added(specials, [*characters, *continuations])
    check_size(
        size,
        len(tokens),
        "this WordPiece tokenizer",
        f"{', '.join(specials)} and the text's characters, alone and after ##",
    )

    vocabulary = {token: number for number, token in enumerate(tokens)}
    for piece in likelihood_merges(counts, min_count):
        if len(vocabulary) >= (size or SUBWORDS):
            break
        vocabulary.setdefault(piece, len(vocabulary))
    return wordpiece_of(vocabulary, lowercase, specials)


def alphabet(words: Iterable[str]) -> tuple[list[str], list[str]]:
    """The characters of words in Unicode order, and those that continue a word, with their prefix."""
    characters, continuations = set[str](), set[str]()
    for word in words:
        characters.update(word)
        continuations.update(word[1:])
    return sorted(characters), sorted(f"##{character}" for character in continuations)


def wordpiece_of(vocabulary: dict[str, int], lowercase: bool, specials: Sequence[str]) -> Tokenizer:
    """The tokenizer of a vocabulary of pieces; it takes the longest piece first."""
    normalizer, pre_tokenizer = normalizers.BertNormalizer(lowercase=lowercase), pre_tokenizers.BertPreTokenizer()
    inner = assembled(models.WordPiece(vocabulary, unk_token="[UNK]"), normalizer, pre_tokenizer, decoders.WordPiece())
    inner.add_special_tokens(list(specials))
    return Tokenizer(inner)


def train_unigram(
    texts: Iterable[str],
    *,
    size: int | None = None,
    min_count: int = 1,
    lowercase: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """Unigram language model (Kudo 2018) with bytes for unseen characters: no text is unknown, and decoding is exact.

    Spaces stay spaces, at the front of their words, so that no other character has to replace them. `<` is a piece of
    its own, so that `<0x41>` in a text is not read as a byte.
    """
    if min_count != 1:
        raise UserError(f"a Unigram tokenizer has no min_count (got {min_count}); set text.size to limit it")
    texts = repeatable(texts)
    normalizer = lowering(lowercase)
    angles_apart = pre_tokenizers.Split("<", "isolated")
    words = pre_tokenizers.Split(" ", "merged_with_next")
    pre_tokenizer = pre_tokenizers.Sequence([newlines_apart(), angles_apart, words])
    named = added([UNKNOWN, END], specials)
    specials = [*named, *BYTES]
    characters = {character for text in texts for character in set(normalized(normalizer, text))}
    smallest = len(specials) + len(characters)
    check_size(size, smallest, "this Unigram tokenizer", f"{', '.join(named)}, 256 bytes and the text's characters")

    room = max(size or SUBWORDS, smallest) - len(specials)
    draft = assembled(models.Unigram(), normalizer, pre_tokenizer)
    trainer = trainers.UnigramTrainer(
        vocab_size=room + 1, special_tokens=[UNKNOWN], unk_token=UNKNOWN, show_progress=False
    )
    draft.train_from_iterator(short_words(texts), trainer)
    pieces = settled_pieces(draft, room)
    lowest = pieces[-1][1]
    model = models.Unigram([*((name, lowest) for name in specials), *pieces], 0, byte_fallback=True)
    decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    inner = assembled(model, normalizer, pre_tokenizer, decoder)
    inner.add_special_tokens(named)
    return Tokenizer(inner)


def settled_pieces(draft: tokenizers.Tokenizer, room: int) -> list[tuple[str, float]]:
    """The trained pieces and scores, best first, made equal for every training on the same text.

    Trainings differ in the last bits of scores, and in the order of characters that did not survive pruning, to which
    the trainer gives the lowest score plus 0, 1, 2, ... penalties. Here those all get the lowest score.
    """
    vocabulary = json.loads(draft.to_str())["model"]["vocab"]
    # On a text of a single character the trainer gives no scores.
    scores = {piece: round(score or 0.0, 6) for piece, score in vocabulary if piece != UNKNOWN}
    characters = [piece for piece in scores if len(piece) == 1]
    lowest = min(scores.values())
    for character in characters:
        if scores[character] <= lowest + PENALTY * len(characters):
            scores[character] = lowest
    longer = sorted((piece for piece in scores if len(piece) > 1), key=lambda piece: (-scores[piece], piece))
    kept = characters + longer[: room - len(characters)]
    return [(piece, scores[piece]) for piece in sorted(kept, key=lambda piece: (-scores[piece], piece))]


def assembled(
    model: models.Model,
    normalizer: normalizers.Normalizer | None,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    decoder: decoders.Decoder | None = None,
) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.normalizer, inner.pre_tokenizer, inner.decoder = normalizer, pre_tokenizer, decoder
    return inner


def word_level(tokens: list[str]) -> models.WordLevel:
    return models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token=UNKNOWN)


def lowering(lowercase: bool) -> normalizers.Normalizer | None:
    return normalizers.Lowercase() if lowercase else None


def normalized(normalizer: normalizers.Normalizer | None, text: str) -> str:
    return text if normalizer is None else normalizer.normalize_str(text)


def newlines_apart() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split("\n", "isolated")


def frequent_words(
    texts: Iterable[str],
    normalizer: normalizers.Normalizer,
    pre_tokenizer: pre_tokenizers.PreTokenizer,
    min_count: int = 1,
) -> list[str]:
    """The words that occur at least `min_count` times, the most frequent first, ties in Unicode order."""
    counter = assembled(models.WordLevel(), normalizer, pre_tokenizer)
    counter.train_from_iterator(
        texts, trainers.WordLevelTrainer(vocab_size=UNLIMITED, min_frequency=min_count, show_progress=False)
    )
    ids = counter.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def word_counts(
    texts: Iterable[str], normalizer: normalizers.Normalizer, pre_tokenizer: pre_tokenizers.PreTokenizer
) -> dict[str, int]:
    """The frequency of each word, in Unicode order."""
    counts: Counter[str] = Counter()
    for text in short_words(texts):
        counts.update(word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text)))
    return dict(sorted(counts.items()))


def short_words(texts: Iterable[str]) -> Iterator[str]:
    """The texts, with very long words (such as a genome in one line) cut: training takes quadratic time in the length
    of a word."""
    for text in texts:
        start = 0
        for run in RUN.finditer(text):
            for stop in range(run.start() + LONGEST, run.end(), LONGEST):
                yield text[start:stop]
                start = stop
        yield text[start:]


def added(own: Sequence[str], more: Sequence[str]) -> list[str]:
    """The special tokens of a kind of tokenizer and the additional ones, without duplicates."""
    return list(dict.fromkeys([*own, *more]))


@dataclass(frozen=True)
class Texts:
    """Texts that are generated again on every read, so they need not fit in memory."""

    make: Callable[[], Iterable[str]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.make())


def repeatable(texts: Iterable[str]) -> Iterable[str]:
    """The texts as an iterable that can be read more than once; a string is one text."""
    if isinstance(texts, str):
        texts = [texts]
    if iter(texts) is texts:
        texts = list(texts)
    if not any(texts):
        raise UserError("there is no text to train a tokenizer on; give at least one character")
    return texts


def check_size(size: int | None, smallest: int, what: str, because: str) -> None:
    if size is not None and size < smallest:
        raise UserError(
            f"{what} needs a size of at least {smallest} ({because}), got {size}; set text.size={smallest} or more"
        )


def check_found(tokens: list[str], unit: str, min_count: int) -> None:
    if not tokens:
        raise UserError(
            f"the text has no {unit} that occurs {min_count} times or more; give more text or lower text.min_count"
        )


TOKENIZERS: dict[str, Callable[..., Tokenizer]] = {
    "character": train_character,
    "word": train_word,
    "bpe": train_bpe,
    "wordpiece": train_wordpiece,
    "wordpiece_likelihood": train_wordpiece_likelihood,
    "unigram": train_unigram,
}
