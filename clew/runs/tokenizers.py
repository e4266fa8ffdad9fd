"""The tokenizers of a new run: trained on its training part, or taken from its base run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clew.data.streams.text_streams import TextStream
from clew.runs.build import train_side, train_tokenizer
from clew.runs.config import Config
from clew.runs.embedding import with_vector_words
from clew.runs.transfer import inherited_tokenizer
from clew.text.tokenizer import Tokenizer
from clew.text.train import framed_as_bert

STREAM_CHARACTERS = 10_000_000
"""Number of characters at the start of a stream that its vocabulary is learnt from; `text.learn_from` overrides it."""


@dataclass(frozen=True)
class RunTokenizers:
    """Builds the tokenizers that a config asks for."""

    config: Config

    @property
    def joint(self) -> bool:
        return self.config.text.joint

    def of_text(self, texts: Iterable[str], *, framed: bool = False) -> Tokenizer:
        inherited, text = inherited_tokenizer(self.config), self.config.text
        if inherited is not None:
            return inherited
        tokenizer = train_tokenizer(text, texts)
        return framed_as_bert(tokenizer) if framed and tokenizer.kind == "wordpiece" else tokenizer

    def of_stream(self, stream: TextStream) -> Tokenizer:
        inherited, limit = inherited_tokenizer(self.config), self.config.text.learn_from or STREAM_CHARACTERS
        if inherited is not None:
            return inherited
        stream.notes.append(f"the vocabulary is learnt from the first {limit:,} characters at most (text.learn_from)")
        return train_tokenizer(self.config.text, stream.beginning(limit))

    def of_sequences(self, texts: Iterable[str], specials: Sequence[str] = ()) -> Tokenizer:
        return inherited_tokenizer(self.config) or with_vector_words(
            train_side(self.config.text, texts, specials), self.config
        )
