"""Sentences of words as inputs of a body: tokens, the letters of each word, and its pieces for another body. Shared by
tasks on words.

A word tokenizer has a token for each word. Other tokenizers cut words into pieces, and which pieces belong to a word is
recorded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import padded
from clew.core.errors import UserError
from clew.layers.context import Context, Pieces
from clew.layers.embeddings import Segmented, Spelled, Words
from clew.text.letters import letters_of
from clew.text.tokenizer import Tokenizer

Sentences = Sequence[Sequence[str]]


class EncodedWords(NamedTuple):
    """A sentence as ids. Word i is the tokens [starts[i], ends[i]), at least one."""

    tokens: list[int]
    starts: list[int]
    ends: list[int]
    letters: list[list[int]] | None = None
    context: "EncodedWords | None" = None
    segments: list[int] | None = None


class WordReader:
    """Encodes sentences as ids, and collates them for a body.

    `letters` adds each word's letters; `context` encodes the same words for another body. A body trained on `running`
    text gets sentences in the form of its training: between tokens that end a line, with letters spelled as its tokens
    are. If the tokenizer has a frame, it is put around texts; `segmented` says that the body has segment embeddings.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        letters: bool = False,
        context: "WordReader | None" = None,
        running: bool = False,
        segmented: bool = False,
    ):
        self.tokenizer = tokenizer
        self.letters = letters
        self.context = context
        self.running = running
        self.segmented = segmented
        self.mark = tokenizer.end if running and tokenizer.unit == "word" else None

    @classmethod
    def of(cls, body: Any, vocabularies: dict[str, Any], *, running: bool = False) -> "WordReader":
        """The reader that fits the parts of a body's embedding."""
        parts = body.embedding.parts
        context = next((part for part in parts if isinstance(part, Context)), None)
        inner = None
        if context is not None:
            source = vocabularies["context"]
            inner = cls(
                source.tokenizer,
                letters=is_spelled(context.body),
                running=source.is_running,
                segmented=is_segmented(context.body),
            )
        return cls(
            vocabularies["tokenizer"],
            letters=is_spelled(body),
            context=inner,
            running=running,
            segmented=is_segmented(body),
        )

    def encode(self, sentences: Sentences, *, framed: bool = True) -> list[EncodedWords]:
        """Encode sentences. Pass `framed=False` for texts that `joined` will frame."""
        encoded = self.encode_words(sentences) if self.tokenizer.unit == "word" else self.encode_pieces(sentences)
        if self.mark is not None:
            encoded = [
                sentence._replace(
                    tokens=[self.mark, *sentence.tokens, self.mark],
                    starts=[start + 1 for start in sentence.starts],
                    ends=[end + 1 for end in sentence.ends],
                )
                for sentence in encoded
            ]
        if self.letters:
            spelt = (
                [letters_of(self.tokenizer.normalize(word) if self.running else word) for word in words]
                for words in sentences
            )
            outside: list[list[int]] = [] if self.mark is None else [letters_of(self.tokenizer.token(self.mark))]
            encoded = [
                sentence._replace(letters=[*outside, *letters, *outside])
                for sentence, letters in zip(encoded, spelt, strict=True)
            ]
        if self.context is not None:
            context_sentences = self.context.encode(sentences, framed=framed)
            encoded = [
                sentence._replace(context=context_sentence)
                for sentence, context_sentence in zip(encoded, context_sentences, strict=True)
            ]
        return [self.framed(sentence) for sentence in encoded] if framed else encoded

    def encode_whole(self, texts: Sequence[str], *, framed: bool = True) -> list[EncodedWords]:
        """Encode texts without cutting them into words first; their words are then not recorded."""
        fallback = [] if self.tokenizer.frame is not None else [self.tokenizer.end or 0]
        encoded = [EncodedWords(tokens or fallback, [], []) for tokens in self.tokenizer.encode_batch(list(texts))]
        return [self.framed(text) for text in encoded] if framed else encoded

    def framed(self, first: EncodedWords, second: EncodedWords | None = None) -> EncodedWords:
        """Put the tokenizer's frame around one text or a pair."""
        frame = self.tokenizer.frame
        if frame is None:
            return first
        tokens, segments, begins = frame.around(first.tokens, None if second is None else second.tokens)
        starts, ends = ([place + begins[0] for place in places] for places in (first.starts, first.ends))
        if second is not None:
            starts += [place + begins[1] for place in second.starts]
            ends += [place + begins[1] for place in second.ends]
        letters = None
        if first.letters is not None:
            letters = [letters_of(self.tokenizer.token(token)) for token in tokens]
            for begin, text in zip(begins, (first, second), strict=False):
                if text is not None and text.letters is not None:
                    letters[begin : begin + len(text.letters)] = text.letters
        return first._replace(tokens=tokens, starts=starts, ends=ends, segments=segments, letters=letters)

    def shortened(self, texts: tuple[EncodedWords, ...], longest: int) -> tuple[EncodedWords, ...]:
        """Cut one text, or a pair, at the end to `longest` tokens, including those around them. Of a pair the longer
        is cut until both are equally long."""
        frame = self.tokenizer.frame
        around = len(texts) - 1 if frame is None else frame.num_added(pair=len(texts) == 2)
        room = max(longest - around, len(texts))
        lengths = [len(text.tokens) for text in texts]
        if sum(lengths) <= room:
            return texts
        if len(texts) == 1:
            return (cut_at(texts[0], room),)
        first = min(lengths[0], max(room - lengths[1], room - room // 2))
        return cut_at(texts[0], first), cut_at(texts[1], room - first)

    def joined(self, first: EncodedWords, second: EncodedWords) -> EncodedWords:
        """Join two texts by the tokenizer's frame, or by a token that ends a text."""
        if self.tokenizer.frame is not None:
            return self.framed(first, second)
        end = self.tokenizer.end or 0
        letters = None
        if first.letters is not None and second.letters is not None:
            letters = [*first.letters, letters_of(self.tokenizer.token(end)), *second.letters]
        starts, ends = (
            [*first_places, *(place + len(first.tokens) + 1 for place in second_places)]
            for first_places, second_places in zip(first[1:3], second[1:3], strict=True)
        )
        if not self.is_whole:
            return EncodedWords([*first.tokens, end, *second.tokens], starts, ends, letters)
        places = range(len(first.tokens) + 1 + len(second.tokens))  # the token between the texts is a separate word
        context = None
        if self.context is not None and first.context is not None and second.context is not None:
            context = self.context.joined(first.context, second.context)
            frame = self.context.tokenizer.frame
            mark = len(first.context.tokens) + (0 if frame is None else len(frame.before))
            cut = len(first.starts)
            if not self.context.is_whole:  # otherwise that word has its place already
                context = context._replace(
                    starts=[*context.starts[:cut], mark, *context.starts[cut:]],
                    ends=[*context.ends[:cut], mark + 1, *context.ends[cut:]],
                )
        return EncodedWords(
            [*first.tokens, end, *second.tokens], [*places], [place + 1 for place in places], letters, context
        )

    def encode_words(self, sentences: Sentences) -> list[EncodedWords]:
        token_rows = self.tokenizer.encode_batch([one_word_each(words) for words in sentences])
        return [EncodedWords(tokens, [*range(len(tokens))], [*range(1, len(tokens) + 1)]) for tokens in token_rows]

    def encode_pieces(self, sentences: Sentences) -> list[EncodedWords]:
        return [self.cut(one_word_each(words), len(words)) for words in sentences]

    def cut(self, text: str, num_words: int) -> EncodedWords:
        """Encode a text whose words are separated by spaces. A piece belongs to the word of its last character. A word
        that the tokenizer drops gets the piece before it."""
        tokens, offsets = self.tokenizer.encode_with_offsets(text)
        starts, ends, word, place = [0] * num_words, [0] * num_words, -1, 0
        word_at = []
        for character in f" {text}"[: len(text)]:
            word += character == " "
            word_at.append(word)
        for number, (start, stop) in enumerate(offsets):
            if stop > start and not text[stop - 1].isspace():
                place = word_at[stop - 1]
                if not ends[place]:
                    starts[place] = number
                ends[place] = number + 1
        for place in range(num_words):
            if not ends[place]:
                ends[place] = max(ends[place - 1], 1) if place else 1
                starts[place] = ends[place] - 1
        return EncodedWords(tokens or [0], starts, ends)

    def collate(self, encoded: Sequence[EncodedWords]) -> Pieces:
        """Collate sentences into padded rows. Letters are those of tokens, so every token must be a word."""
        tokens, mask = padded([sentence.tokens for sentence in encoded])
        starts, _ = padded([sentence.starts for sentence in encoded])
        ends, _ = padded([sentence.ends for sentence in encoded])
        inputs: Any = tokens
        if self.letters or self.context is not None:
            letters = (
                padded_letters([sentence.letters or [] for sentence in encoded], tokens.shape[1])
                if self.letters
                else None
            )
            context = (
                self.context.collate([sentence.context for sentence in encoded if sentence.context])
                if self.context is not None
                else None
            )
            inputs = Words(tokens, letters, context)
        elif self.segmented:
            inputs = Segmented(
                tokens, padded([sentence.segments or [0] * len(sentence.tokens) for sentence in encoded])[0]
            )
        return Pieces(inputs, mask, starts, ends)

    @property
    def by_words(self) -> bool:
        """Whether texts are cut into words before encoding."""
        return self.tokenizer.unit == "word"

    @property
    def num_added(self) -> int:
        """The number of tokens added around a text."""
        return (0 if self.tokenizer.frame is None else self.tokenizer.frame.num_added()) + (
            0 if self.mark is None else 2
        )

    @property
    def is_whole(self) -> bool:
        """Whether every word is exactly one token, at its own index."""
        return self.tokenizer.unit == "word" and self.mark is None and self.tokenizer.frame is None


def cut_at(encoded: EncodedWords, length: int) -> EncodedWords:
    """A sentence's first tokens, and the words that are complete in them."""
    words = sum(end <= length for end in encoded.ends)
    letters = None if encoded.letters is None else encoded.letters[:length]
    return encoded._replace(
        tokens=encoded.tokens[:length], starts=encoded.starts[:words], ends=encoded.ends[:words], letters=letters
    )


class SourceReader(WordReader):
    """Encodes texts for the encoder of an encoder-decoder: in the tokenizer's frame, or followed by the token that ends
    a source."""

    by_words = False

    def __init__(self, tokenizer: Tokenizer, end: int):
        super().__init__(tokenizer)
        self.end = end

    @property
    def num_added(self) -> int:
        return super().num_added or 1

    def framed(self, first: EncodedWords, second: EncodedWords | None = None) -> EncodedWords:
        if self.tokenizer.frame is not None:
            return super().framed(first, second)
        return first._replace(tokens=[*first.tokens, self.end])


def is_spelled(body: Any) -> bool:
    """Whether a body's embedding reads letters."""
    return any(isinstance(part, Spelled) for part in body.embedding.parts)


def is_segmented(body: Any) -> bool:
    """Whether a body's embedding has segments."""
    return body.embedding.segments is not None and body.embedding.segments.num_embeddings > 1


def places_of(encoded: EncodedWords) -> int:
    """The number of places a sentence takes, in whichever body it takes the most."""
    return max(len(encoded.tokens), 0 if encoded.context is None else len(encoded.context.tokens))


def check_words(encoded: EncodedWords, limit: int | None, place: str) -> None:
    """Refuse a sentence that is longer than the body's positions."""
    if limit is not None and len(encoded.tokens) > limit:
        raise UserError(
            f"{place}: the sentence has {len(encoded.tokens)} tokens, but the model can tell apart {limit} positions;"
            " shorten it, or train with a larger model.max_length or another model.position"
        )


def one_word_each(words: Sequence[str]) -> str:
    """A sentence for the tokenizer, with no white space inside words: a no-break space, for example, would split its
    word."""
    return " ".join("_".join(word.split()) or "_" for word in words)


def padded_letters(rows: Sequence[Sequence[Sequence[int]]], length: int) -> Tensor:
    """Letters (rows, length, letters), padded with 0."""
    letters, _ = padded([word for row in rows for word in [*row, *[[]] * (length - len(row))]])
    return torch.unflatten(letters.to(torch.int32), 0, (len(rows), length))
