"""A trained tokenizer: strings to ids and back. `train.py` trains one."""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from clew.core.errors import UserError, named, shortened
from clew.core.files import read_text
from clew.text.frames import Frame, frame_of
from clew.text.patterns import REMEDY, Apart, TokenizerFault, is_panic, slow_parts

FILE = "tokenizer.json"
UNITS = {"character": "character", "word": "word", "bpe": "subword", "wordpiece": "subword", "unigram": "subword"}
MODEL_KINDS = {"BPE": "bpe", "WordPiece": "wordpiece", "Unigram": "unigram"}
ENDS = ("<eos>", "[SEP]", "</s>", "<|endoftext|>", "<|end_of_text|>")
PADS = ("<pad>", "[PAD]")
MASKS = ("[MASK]", "<mask>")
MARK = re.compile("|".join(map(re.escape, MASKS)))
HIDDEN = "\0"
"""The prefix of tokens that have an id but occur in no text, because only another tokenizer with the same ids uses
them."""
FEW = 5
MOST_SPARE = 2**18
"""The largest number of unused ids below the last one."""
MANY = 100


class Tokenizer:
    """Strings to ids and back, by characters, words or subwords.

    Text is only text: `encode` adds nothing, and `<eos>` written in a text is five characters, not the end of a
    document. Only the word tokenizer reads `<unk>` and `<eos>` as tokens, for corpora that are published with them. Its
    file is the JSON of the `tokenizers` library, so a published `tokenizer.json` loads as well.
    """

    def __init__(self, inner: tokenizers.Tokenizer):
        inner.no_padding()
        inner.no_truncation()
        inner.encode_special_tokens = True
        self.inner = inner
        self.kind = kind_of(self._description)
        self.apart: Apart | None = None

    @cached_property
    def _description(self) -> dict[str, Any]:
        return json.loads(self.inner.to_str())

    @property
    def unit(self) -> str:
        """The name of a token's unit, for instance in "perplexity per word"."""
        return UNITS[self.kind]

    def encode(self, text: str) -> list[int]:
        return self._look_up(text) if self._by_lookup else self.encode_with_offsets(text)[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The same as `encode` for each text, on all cores."""
        if self._by_lookup:
            return [self._look_up(text) for text in texts]
        if self.apart is not None:
            return [ids for ids, _ in self.apart.ask("encode", texts)]
        with panics_as_faults():
            return [encoding.ids for encoding in self.inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids, and for each the characters [start, stop) of the original text that it covers."""
        if self.apart is not None:
            ids, offsets = self.apart.ask("encode", [text])[0]
            return ids, [(start, stop) for start, stop in offsets]
        with panics_as_faults():
            encoding = self.inner.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def encode_masked(self, text: str) -> list[int]:
        """The ids of a text in which `[MASK]` or `<mask>` is the mask token; all else is text."""
        return self.encode_masked_with_offsets(text)[0]

    def encode_masked_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        if self.mask is None:
            raise UserError(f"{self!r} has no mask token, so {MASKS[0]} means nothing to it")
        token = self.inner.get_added_tokens_decoder().get(self.mask)
        left, right = (r"\s*" if token is not None and getattr(token, side) else "" for side in ("lstrip", "rstrip"))
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        start = 0
        for mark in [*re.finditer(f"{left}({MARK.pattern}){right}", text), None]:
            part, places = self.encode_with_offsets(text[start : len(text) if mark is None else mark.start()])
            ids += part
            offsets += [(start + first, start + last) for first, last in places]
            if mark is not None:
                ids.append(self.mask)
                offsets.append(mark.span(1))
                start = mark.end()
        return ids, offsets

    def normalize(self, text: str) -> str:
        """The text after normalisation, for example in lower case."""
        if self.apart is not None:
            return str(self.apart.ask("normalize", [text])[0])
        with panics_as_faults():
            return text if self.inner.normalizer is None else self.inner.normalizer.normalize_str(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids. Exact for characters, BPE and Unigram; words are joined by single spaces."""
        if self.kind == "word":
            return self._join_words(ids)
        if self._joins_tokens:
            tokens, count = self.tokens, self.vocabulary
            return "".join([tokens[i] for i in ids if i < count])
        if self._has_hidden:
            tokens = [self.token(i) for i in ids]
            if self.apart is not None and self._decodes_slowly:
                return str(self.apart.ask("join", [tokens])[0])
            with panics_as_faults():
                return self.inner.decoder.decode(tokens)
        if self.apart is not None and self._decodes_slowly:
            return str(self.apart.ask("decode", [list(ids)])[0])
        with panics_as_faults():
            return self.inner.decode(list(ids), skip_special_tokens=False)

    def limit_time(self, seconds: float) -> None:
        """Limit the time that any text may take; see `patterns`."""
        if self.apart is not None:
            self.apart.close()
        slow = slow_parts(self._description)
        self.apart = Apart(self.to_json(), slow[0], seconds) if slow else None

    @cached_property
    def _decodes_slowly(self) -> bool:
        return bool(slow_parts({"decoder": self._description["decoder"]}))

    @cached_property
    def tokens(self) -> list[str]:
        """Every token by its id; tokens that occur in no text have the prefix HIDDEN."""
        return [self.inner.id_to_token(i) or "" for i in range(self.vocabulary)]

    @cached_property
    def _has_hidden(self) -> bool:
        """Whether there are hidden tokens. Only SentencePiece tokenizers hide pieces: elsewhere, NUL is a character of
        texts."""
        is_sentencepiece = self.kind in ("unigram", "bpe") and "\u2581" in str(self._description["decoder"])
        return is_sentencepiece and any(token.startswith(HIDDEN) for token in self.tokens)

    @cached_property
    def specials(self) -> dict[str, int]:
        """The ids of special tokens: those named in training, not found in the text."""
        return {token.content: id for id, token in self.inner.get_added_tokens_decoder().items() if token.special}

    @cached_property
    def vocabulary(self) -> int:
        """The number of ids."""
        return max(self.inner.get_vocab(with_added_tokens=True).values()) + 1

    def id(self, token: str) -> int:
        id = self.inner.token_to_id(token)
        if id is None:
            raise UserError(f"the {self.kind} tokenizer has no token {named(token)}; it has {self.vocabulary}")
        return id

    def token(self, id: int) -> str:
        if not 0 <= id < self.vocabulary:
            raise UserError(f"there is no token {id}; ids go from 0 to {self.vocabulary - 1}")
        return self.tokens[id].removeprefix(HIDDEN) if self._has_hidden else self.tokens[id]

    def piece(self, id: int) -> str:
        """The text that a token adds, with the space before it; the token itself if that is no whole character, or no
        text."""
        token = self.token(id)
        if self.kind == "unigram":
            return token.replace("\u2581", " ")
        text = self.decode([id]) if self.kind == "bpe" else token
        return text if text and "\ufffd" not in text else token

    @cached_property
    def unknown(self) -> int | None:
        """The id of unknown parts of a text; None if every text can be encoded."""
        model = self._description["model"]
        if model.get("byte_fallback"):
            return None
        if self.kind == "unigram":
            return model.get("unk_id")
        return self._first([model.get("unk_token")])

    @cached_property
    def end(self) -> int | None:
        """The id that ends a document; for a word tokenizer, a line."""
        return self._first(ENDS)

    @cached_property
    def pad(self) -> int | None:
        return self._first(PADS)

    @cached_property
    def mask(self) -> int | None:
        """The id of the mask token, which stands for a token to predict."""
        return self._first(MASKS)

    @cached_property
    def frame(self) -> Frame | None:
        """The special tokens around a text as a model reads it; `encode` leaves them out."""
        return frame_of(self._description)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the JSON with sorted keys, equal for equal tokenizers on any machine."""
        canonical = json.dumps(self._description, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def check(self, text: str, what: str = "prompt") -> None:
        """Refuse a text with characters or words that the model does not know."""
        check_is_text(text, what)
        if self.unknown is None or self.unknown not in self.encode(text):  # offsets take longer to find
            return
        unknown = self._unknown_parts(text)
        if unknown and self.kind == "character":
            known = [token for token in self.tokens if len(token) == 1]
            strange = few([f"{character!r} (U+{ord(character[0]):04X})" for character in unknown])
            raise UserError(
                f"the {what} has characters the model has never seen: {strange}; it knows {len(known)}: {shown(known)}"
            )
        if unknown:
            strange = few([named(word) for word in unknown])
            instead = f"use other words, or {self.tokens[self.unknown]} in their place"
            raise UserError(
                f"the {what} has words the model has never seen: {strange}; it knows {self.vocabulary} {self.unit}s:"
                f" {instead}"
            )

    def save(self, path: Path | str) -> Path:
        """Write the JSON file, or `tokenizer.json` in a folder, and return its path."""
        path = file_of(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(path.name + ".partial")
        aside.write_text(self.to_json(), encoding="utf-8")
        aside.replace(path)
        return path

    def to_json(self) -> str:
        return self.inner.to_str(pretty=True)

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises bare Exception
            raise ValueError(shortened(str(error), 150)) from None
        ids = inner.get_vocab(with_added_tokens=True).values()
        if not ids or max(ids) >= len(ids) + MOST_SPARE:  # the embedding table has a row for every id up to the last
            raise UserError(f"it has {len(ids):,} tokens and their ids go up to {max(ids, default=0):,}")
        return cls(inner)

    @classmethod
    def load(cls, path: Path | str) -> "Tokenizer":
        path = file_of(path)
        if not path.is_file():
            raise UserError(f"no tokenizer at {path}; `Tokenizer.save` writes one there")
        try:
            return cls.from_json(read_text(path))
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"{path}: not a tokenizer file ({error}); save it again or restore it") from error

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.vocabulary} tokens)"

    @cached_property
    def _by_lookup(self) -> bool:
        """Whether characters can be looked up in a dict, ten times faster than by the library's regular expression."""
        return self.kind == "character" and self.inner.normalizer is None

    @cached_property
    def _ids_of_characters(self) -> dict[str, int]:
        return {token: i for token, i in self.inner.get_vocab().items() if len(token) == 1}

    @cached_property
    def _joins_tokens(self) -> bool:
        """Whether a text is its tokens joined, which takes the library three times as long."""
        return self.kind == "character" and (self._description["decoder"] or {}).get("type") == "Fuse"

    def _look_up(self, text: str) -> list[int]:
        find, unknown = self._ids_of_characters.get, self.unknown
        return [find(character, unknown) for character in text]  # type: ignore[misc]

    def _join_words(self, ids: Sequence[int]) -> str:
        lines: list[list[str]] = [[]]
        for i in ids:
            if i == self.end:
                lines.append([])
            else:
                lines[-1].append(self.token(i))
        return "\n".join(" ".join(words) for words in lines)

    def _unknown_parts(self, text: str) -> list[str]:
        """The unknown parts of a text, without duplicates, in order. The unknown token itself, if written in the text,
        does not count."""
        ids, offsets = self.encode_with_offsets(text)
        parts = dict.fromkeys(
            text[start:stop] for i, (start, stop) in zip(ids, offsets, strict=True) if i == self.unknown
        )
        return [part for part in parts if part != self.tokens[self.unknown or 0]]

    def _first(self, names: Sequence[str | None]) -> int | None:
        ids = (self.inner.token_to_id(name) for name in names if name is not None)
        return next((i for i in ids if i is not None), None)


@contextmanager
def panics_as_faults() -> Iterator[None]:
    """Within this context, texts that the library cannot read raise a UserError. It panics, or raises bare Exception,
    for example for a word without a token."""
    try:
        yield
    except BaseException as error:
        if type(error) is Exception:
            raise UserError(
                f"the tokenizer cannot read this text: {shortened(str(error), 150)}; use other words, or a tokenizer"
                " with an unknown token"
            ) from None
        if not is_panic(error):
            raise
        raise TokenizerFault(f"the tokenizer gives up on this text ({error}); {REMEDY}") from None


def kind_of(description: dict[str, Any]) -> str:
    """The kind of a tokenizer. To the library, characters are words of one character; a Split tells them from words."""
    model = description["model"]["type"]
    if model in MODEL_KINDS:
        return MODEL_KINDS[model]
    return "character" if (description["pre_tokenizer"] or {}).get("type") == "Split" else "word"


def file_of(path: Path | str) -> Path:
    path = Path(path)
    return path if path.suffix == ".json" else path / FILE


def check_is_text(text: str, what: str) -> None:
    """Refuse lone surrogates, which stand for undecodable bytes on a command line."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise UserError(
            f"character {error.start + 1} of the {what} (U+{code:04X}) is half a character; give it as UTF-8"
        ) from error


def few(parts: Sequence[str]) -> str:
    more = f" and {len(parts) - FEW} more" if len(parts) > FEW else ""
    return ", ".join(parts[:FEW]) + more


def shown(characters: Sequence[str]) -> str:
    """The characters in a row, with unprintable ones escaped."""
    escaped = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in characters[:MANY]]
    return "".join(escaped) + (" ..." if len(characters) > MANY else "")
