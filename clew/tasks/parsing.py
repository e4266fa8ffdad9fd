"""Constituency parsing as translation: a sentence in, its tree out as brackets (Vinyals et al. 2015, Grammar as a foreign language)."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import Field

from clew.core.trees import Tree
from clew.data.examples import Parsed
from clew.data.linearisation import WORD, delinearise, linearise, tree_tokens
from clew.decoding.stepper import Stepper
from clew.decoding.trees import TreeConstraint
from clew.metrics.brackets import score_brackets, score_sentence
from clew.tasks.generation import DecodingConfig
from clew.tasks.measures import Measured
from clew.tasks.sequence import SequenceBatch, SequenceConfig, SequenceToSequence, Sides, TrainTokenizer
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_word


class ParsingConfig(SequenceConfig):
    """The brackets of a sentence's tree; nothing but well-formed trees over its words is ever written."""

    name: Literal["parsing"] = "parsing"  # type: ignore[assignment]
    measures: list[str] = Field([], max_length=0, description="none: trees are measured by their brackets, with EVALB's rules")
    best: Literal["loss", "f1"] = Field("f1", description="the best evaluation is that of the lowest loss, or of the highest F1")  # type: ignore[assignment]
    tags: bool = Field(False, description="write every word's tag, instead of XX for all of them")


class ConstituencyParser(SequenceToSequence):
    """P(tree | words) as of the target (S (NP XX XX )NP (VP XX )VP )S, with p(symbol) 0 where no tree over the words could follow."""

    def __init__(self, body: Any, source: Tokenizer, target: Tokenizer, config: ParsingConfig | None = None):
        super().__init__(body, source, target, config or ParsingConfig())
        self.leaf = leaf_of(self.config)  # type: ignore[arg-type]

    @cached_property
    def tree_tokens(self) -> Any:
        return tree_tokens(self.target.tokens, self.end, self.end)

    def encode(self, examples: Sequence[Parsed]) -> list[Sides]:  # type: ignore[override]
        words = [example.tree.words for example in examples]
        sources = self.source.encode_batch([" ".join(each) for each in words])
        targets = self.target.encode_batch([" ".join(linearise(example.tree, self.leaf)) for example in examples])
        sides = zip(sources, targets, words, strict=True)
        return [Sides([*source, self.source_end], target, len(each)) for source, target, each in sides]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Sides]:
        """Sentences to parse."""
        sources = self.source.encode_batch([" ".join(words) for words in sentences])
        return [Sides([*source, self.source_end], [], len(words)) for source, words in zip(sources, sentences, strict=True)]

    def stepper(self, batch: SequenceBatch) -> Stepper:
        return self.constrained(super().stepper(batch), batch)

    def constrained(self, stepper: Stepper, batch: SequenceBatch) -> Stepper:
        limit = self.longest_tree(batch)
        return TreeConstraint(stepper, tokens=self.tree_tokens, lengths=batch.words, max_length=limit)

    def longest_tree(self, batch: SequenceBatch) -> int:
        most = 4 * int(batch.words.max()) + 10
        return most if self.body.max_length is None else min(most, self.body.max_length)

    def max_new(self, batch: SequenceBatch, config: DecodingConfig) -> int:
        """Room for every tree that may be written; what may follow keeps it short."""
        return self.longest_tree(batch)

    def measure(self, examples: Sequence[Parsed], predictions: Sequence[str]) -> Measured:  # type: ignore[override]
        trees = [tree_of(text, example.tree) for example, text in zip(examples, predictions, strict=True)]
        found = score_brackets([example.tree for example in examples], trees).all
        formed = sum(tree is not None for tree in trees) / max(len(trees), 1)
        values = {"f1": 100 * found.f1, "precision": 100 * found.precision, "recall": 100 * found.recall}
        values |= {"complete": 100 * found.complete_match, "well_formed": 100 * formed}
        return Measured(values, f"{found.describe().splitlines()[0].partition(', crossing')[0]}, well-formed {100 * formed:.1f} %")

    def described(self, example: Parsed, prediction: str) -> dict[str, str]:  # type: ignore[override]
        tree = tree_of(prediction, example.tree)
        return {"source": example.key, "target": str(example.tree), "prediction": prediction if tree is None else str(tree)}

    def sentence_scores(self, examples: Sequence[Parsed], predictions: Sequence[str]) -> list[float]:  # type: ignore[override]
        pairs = zip(examples, predictions, strict=True)
        return [100 * score_sentence(example.tree, tree_of(text, example.tree)).all.f1 for example, text in pairs]


def leaf_of(config: ParsingConfig) -> str | None:
    return None if config.tags else WORD


def tree_of(symbols: str, gold: Tree) -> Tree | None:
    """The tree that symbols describe over a gold tree's words; it is given the gold tags, by which EVALB knows punctuation."""
    return delinearise(symbols.split(), gold.words, gold.tags)


def train_parsing_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Parsed], config: ParsingConfig
) -> dict[str, Tokenizer]:
    """A tokenizer of words, and a table of symbols."""
    symbols = [" ".join(linearise(example.tree, leaf_of(config))) for example in examples]
    return {"source": train([" ".join(example.tree.words) for example in examples], []), "target": train_word(symbols)}
