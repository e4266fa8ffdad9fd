"""The tokenizers of a new run: trained on its training part, or those of the run whose body it has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clew.data.streams.text_streams import TextStream
from clew.runs.build import train_side, train_tokenizer
from clew.runs.config import Config
from clew.runs.embedding import knowing
from clew.runs.transfer import inherited_tokenizer
from clew.text.tokenizer import Tokenizer
from clew.text.train import framed_as_bert

LEARNT = 10_000_000
"""Characters of its beginning that a stream's vocabulary is learnt from, where `text.learn_from` does not say."""


@dataclass(frozen=True)
class RunTokenizers:
    """Those that a config asks for."""

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
        inherited, most = inherited_tokenizer(self.config), self.config.text.learn_from or LEARNT
        if inherited is not None:
            return inherited
        stream.notes.append(f"the vocabulary is learnt from the first {most:,} characters at most (text.learn_from)")
        return train_tokenizer(self.config.text, stream.beginning(most))

    def of_sequences(self, texts: Iterable[str], specials: Sequence[str] = ()) -> Tokenizer:
        return inherited_tokenizer(self.config) or knowing(train_side(self.config.text, texts, specials), self.config)
