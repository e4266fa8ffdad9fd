"""Constituency parsing as translation: a sentence in, its tree out as brackets (Vinyals et al. 2015, Grammar as a
foreign language)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from clew.baselines.tree_baselines import tree_baselines
from clew.core.batches import to_device
from clew.core.config import Section
from clew.core.errors import UserError, named
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.core.trees import Tree
from clew.core.wording import call
from clew.data.examples import Parsed
from clew.data.kinds.trees import TREES
from clew.data.plans import batches_by_length
from clew.data.syntax.linearisation import WORD, delinearise, linearise, tree_tokens
from clew.data.syntax.trees import format_tree, parse_tree, tree_words
from clew.decoding.stepper import Stepper
from clew.decoding.trees import TreeConstraint
from clew.drawing.tree_drawing import tree_text, trees_svg
from clew.metrics.brackets import percentage, score_brackets, score_sentence
from clew.metrics.measures import Measured
from clew.metrics.statistics import Statistics, share_of
from clew.sources.words import one_word_each
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.offers import Begun, ModelInput
from clew.tasks.shared.alignment import Tokens
from clew.tasks.shared.sequence import SIDES, SequenceBatch, SequenceConfig, SequenceToSequence, Sides
from clew.tasks.use import Blocks, Objects, Use, Watch, WritingOptions, tokens_read
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer, check_is_text
from clew.text.train import Texts, train_word

SYMBOLS_A_WORD, MORE_SYMBOLS = 4, 10
"""A tree over n words has at most 4 n + 10 symbols, including the end: no gold tree of WSJ or CRAFT has more than 4 n +
4."""

BATCH = 8192
"""Words and symbols per batch when parsing."""


class ParsingConfig(SequenceConfig):
    """The brackets of a sentence's tree. The decoder is constrained to well-formed trees over the sentence's words."""

    name: Literal["parsing"] = "parsing"  # type: ignore[assignment]
    measures: list[str] = Field(
        [], max_length=0, description="always empty: trees are scored by their brackets, with EVALB's rules"
    )
    best: Literal["loss", "f1"] = Field(
        "f1", description="what selects the best checkpoint: the lowest loss or the highest F1"
    )
    # Tags are not scored, but a decoder that must name each word learns sooner to attend to it.
    tags: bool = Field(False, description="write each word's tag instead of XX")

    @property
    def values(self) -> list[str]:
        return ["f1"]


@dataclass(frozen=True)
class Parse:
    """A tree over a sentence. `log_prob` is that of all symbols and the end, `score` is what beam search ranked it by.
    `str()` gives brackets."""

    tree: Tree
    log_prob: float
    score: float

    def __repr__(self) -> str:
        return brief(self, str(self), log_prob=self.log_prob)

    def __str__(self) -> str:
        return format_tree(self.tree)


class ConstituencyParser(SequenceToSequence):
    """P(tree | words), as the target (S (NP XX XX )NP (VP XX )VP )S. p(symbol) is 0 if no tree over the words could
    follow."""

    config: ParsingConfig
    text_name = "sentence"

    def __init__(self, body: Any, source: Tokenizer, target: Tokenizer, config: ParsingConfig | None = None):
        super().__init__(body, source, target, config or ParsingConfig())
        self.tree_tokens = tree_tokens(target.tokens, self.end, self.end)

    def prepare(self, encoded: Sequence[Sides]) -> None:
        """Check that the table of symbols, which may be that of a base run, has all symbols of the training trees."""
        for number, sides in enumerate(encoded, start=1):
            if self.target.unknown in sides.target:
                raise UserError(
                    f"tree {number} of the training part has a label or tag that the parser of transfer.from cannot"
                    " write; leave the tree out, or train without transfer.from"
                )

    def encode(self, examples: Sequence[Parsed]) -> list[Sides]:  # type: ignore[override]
        sentences = self.encode_words([example.tree.words for example in examples])
        targets = self.target.encode_batch([symbols_of(example.tree, self.config) for example in examples])
        return [sides._replace(target=target) for sides, target in zip(sentences, targets, strict=True)]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Sides]:
        """Encode sentences, without trees."""
        sources = self.source.encode_batch([one_word_each(words) for words in sentences])
        return [
            Sides([*source, self.source_end], [], len(words)) for source, words in zip(sources, sentences, strict=True)
        ]

    def check_length(self, sides: Sides, place: str) -> None:
        super().check_length(sides, place)
        limit = self.body.max_length
        if limit is not None and sides.words + 3 > limit:
            raise UserError(
                f"{place}: a tree over {sides.words} words has at least {sides.words + 3} symbols, but the model has"
                f" {limit} positions; shorten the sentence, or train with a larger model.max_length or another"
                " model.position"
            )

    def stepper(self, batch: SequenceBatch, *, covering: bool = False) -> Stepper:
        longest = self.longest_trees(batch.words)
        return TreeConstraint(
            super().stepper(batch, covering=covering), tokens=self.tree_tokens, lengths=batch.words, max_length=longest
        )

    def longest_trees(self, words: Tensor) -> Tensor:
        """Return the most symbols of each sentence's tree, including the end. It depends only on the sentence, not on
        the rest of the batch."""
        longest = SYMBOLS_A_WORD * words + MORE_SYMBOLS
        return longest if self.body.max_length is None else longest.clamp(max=self.body.max_length)

    def max_new(self, batch: SequenceBatch, config: DecodingConfig) -> Tensor:
        """Return the room for any tree, regardless of `decoding.max_new`: a truncated tree is not a tree."""
        return self.longest_trees(batch.words)

    def parse(
        self,
        sentences: Sequence[Sequence[str]],
        config: DecodingConfig,
        seed: int = 0,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Parse]]:
        """Return the best trees of each sentence: `n_best` with beam search, else one; none for a sentence without
        words. Errors name a sentence by its number, and sampling is seeded by it."""
        numbers = range(1, len(sentences) + 1) if numbers is None else numbers
        encoded = self.checked(sentences, numbers)
        filled = [row for row, words in enumerate(sentences) if words]
        lengths = np.array([(len(encoded[row].source), SYMBOLS_A_WORD * encoded[row].words) for row in filled]).reshape(
            -1, 2
        )
        device = next(self.parameters()).device
        parses: dict[int, list[Parse]] = {}
        with evaluating([self]):
            for places in batches_by_length(lengths, BATCH):
                rows = [filled[place] for place in places]
                batch = to_device(self.collate([encoded[row] for row in rows]), device)
                for row, written in zip(
                    rows, self.write(batch, config, seed, row_numbers=[numbers[row] for row in rows]), strict=True
                ):
                    parses[row] = [
                        Parse(delinearise(each.text.split(), sentences[row]), each.log_prob, each.score)
                        for each in written
                    ]
        return [parses.get(row, []) for row in range(len(sentences))]

    def checked(self, sentences: Sequence[Sequence[str]], numbers: Sequence[int]) -> list[Sides]:
        for number, words in zip(numbers, sentences, strict=True):
            check_is_text(" ".join(words), f"sentence {number}")
        encoded = self.encode_words(sentences)
        for number, sides in zip(numbers, encoded, strict=True):
            self.check_length(sides, f"sentence {number}")
        return encoded

    def measure(self, examples: Sequence[Parsed], predictions: Sequence[str]) -> Measured:  # type: ignore[override]
        golds = [example.tree for example in examples]
        trees = [tree_of(text, gold) for text, gold in zip(predictions, golds, strict=True)]
        brackets = score_brackets(golds, trees).all
        well_formed = 100 * percentage(sum(tree is not None for tree in trees), len(trees))
        values = {"f1": 100 * brackets.f1, "precision": 100 * brackets.precision, "recall": 100 * brackets.recall}
        values |= {"complete": 100 * brackets.complete_match, "well_formed": well_formed}
        text = f"{brackets.describe().partition(', crossing')[0]}, well-formed {well_formed:.1f} %"
        if self.config.tags:
            values["tags"] = 100 * tagging_accuracy(golds, predictions)
            text += f", tags {values['tags']:.2f} % right"
        return Measured(values, text)

    def described(self, example: Parsed, prediction: str) -> dict[str, str]:  # type: ignore[override]
        tree = tree_over(prediction, example.tree.words)  # with the predicted tags, as `parse` returns them
        written = prediction if tree is None else format_tree(tree)
        return {"source": example.key, "target": format_tree(example.tree), "prediction": written}

    def sentence_scores(self, examples: Sequence[Parsed], predictions: Sequence[str]) -> list[float]:  # type: ignore[override]
        pairs = zip(examples, predictions, strict=True)
        return [100 * score_sentence(example.tree, tree_of(text, example.tree)).all.f1 for example, text in pairs]

    def statistics(self, examples: Sequence[Parsed], predictions: Sequence[str]) -> list[Statistics]:  # type: ignore[override]
        return [
            bracket_statistics(example.tree, text) | (tag_statistics(example.tree, text) if self.config.tags else {})
            for example, text in zip(examples, predictions, strict=True)
        ]

    def encode_given(self, model_input: ModelInput) -> Sides:
        """Encode a sentence whose words are separated by spaces. Its target is a tree in brackets, or the symbols of a
        tree or of the beginning of one."""
        words = tree_words(model_input.text)
        (sides,) = self.encode_words([words])
        symbols = self.target_symbols(model_input.target or "", words)
        target = self.target.encode(symbols)
        if self.target.unknown in target:
            raise UserError(
                f"the target {named(model_input.target)} is not a tree over these words, or has symbols that this"
                " parser"
                " cannot write; give a bracketed tree over the words, or the symbols of one"
            )
        return sides._replace(target=target)

    def target_symbols(self, target: str, words: Sequence[str]) -> str:
        try:
            tree = parse_tree(target)
        except UserError:
            return target
        return symbols_of(tree, self.config) if list(tree.words) == list(words) else target

    def named_sides(self, model_input: ModelInput, sides: Sides) -> tuple[Tokens, Tokens]:
        words = tree_words(model_input.text)
        return super().named_sides(
            ModelInput(one_word_each(words), self.target_symbols(model_input.target or "", words)), sides
        )

    def steps(self, model_input: ModelInput, config: DecodingConfig | None = None) -> Begun:
        """Start a generation, up to the longest tree over the words."""
        begun = super().steps(model_input, config)
        return replace(begun, most=int(self.longest_trees(torch.tensor(len(tree_words(model_input.text))))))

    def programs(self) -> NoReturn:
        raise UserError(
            "a parser cannot be exported, because its output is constrained to trees; parse with"
            f" {call('run.parse(...)', 'clew parse')}, or serve the run with `clew serve`"
        )


def symbols_of(tree: Tree, config: ParsingConfig) -> str:
    return " ".join(linearise(tree, None if config.tags else WORD))


def tree_of(symbols: str, gold: Tree) -> Tree | None:
    """Return the tree as it is scored: with the gold tags, by which EVALB finds punctuation. So a wrong tag makes no
    bracket wrong."""
    return tree_over(symbols, gold.words, gold.tags)


def tree_over(symbols: str, words: Sequence[str], tags: Sequence[str] | None = None) -> Tree | None:
    """Return the tree that symbols describe over a sentence's words, or None if they are not well-formed."""
    try:
        return delinearise(symbols.split(), words, tags)
    except UserError:
        return None


def bracket_statistics(gold: Tree, symbols: str) -> Statistics:
    tree = tree_of(symbols, gold)
    counts = score_sentence(gold, tree).all
    return {
        "f1": {"f1": [counts.gold, counts.predicted, counts.matched]},
        "precision": share_of(counts.matched, counts.predicted),
        "recall": share_of(counts.matched, counts.gold),
        "complete": share_of(counts.complete, counts.valid),
        "well_formed": share_of(float(tree is not None), 1),
    }


def tag_statistics(gold: Tree, symbols: str) -> Statistics:
    return {"tags": share_of(right_tags(gold, symbols), len(gold.tags))}


def right_tags(gold: Tree, symbols: str) -> int:
    tags = [symbol for symbol in symbols.split() if not symbol.startswith(("(", ")"))]
    return sum(a == b for a, b in zip(gold.tags, tags, strict=False))


def tagging_accuracy(golds: Sequence[Tree], predictions: Sequence[str]) -> float:
    """Return the share of words, including punctuation, whose tag is right."""
    right = sum(right_tags(gold, symbols) for gold, symbols in zip(golds, predictions, strict=True))
    return percentage(right, sum(len(gold.tags) for gold in golds))


def train_parsing_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Parsed], config: ParsingConfig
) -> dict[str, Tokenizer]:
    """Train a tokenizer of words, and build the table of symbols."""
    if joint:
        raise UserError("a parser reads words and writes brackets, which share no vocabulary; set text.joint=false")
    sentences = Texts(lambda: (one_word_each(example.tree.words) for example in examples))
    symbols = Texts(lambda: (symbols_of(example.tree, config) for example in examples))
    return {"source": train(sentences, []), "target": train_word(symbols)}


def build_parser(body: Any, vocabularies: dict[str, Any], config: ParsingConfig) -> ConstituencyParser:
    return ConstituencyParser(body, vocabularies["source"], vocabularies["target"], config)


class WordsRow(Section):
    text: str | list[str] = Field(description="a sentence whose words are separated by spaces, or a list of its words")

    @property
    def words(self) -> list[str]:
        return tree_words(self.text) if isinstance(self.text, str) else self.text


def parse_rows(
    tasks: Sequence[ConstituencyParser], rows: Sequence[WordsRow], options: WritingOptions, numbers: Sequence[int]
) -> list[list[Parse]]:
    return tasks[0].parse([row.words for row in rows], options.decoding, options.seed, numbers)


def parsed_objects(number: int, row: WordsRow, trees: list[Parse] | None, options: WritingOptions) -> Objects:
    """Return the trees of a sentence as JSON; one object without a tree for a sentence without words."""
    sentence = row.text if isinstance(row.text, str) else " ".join(row.text)
    if not trees:
        return [{"line": number, "rank": 1, "sentence": sentence, "tree": None}]
    return [
        {
            "line": number,
            "rank": rank,
            "sentence": sentence,
            "tree": str(each),
            "log_prob": each.log_prob,
            "score": each.score,
        }
        for rank, each in enumerate(trees, start=1)
    ]


def brackets_lines(blocks: Blocks, options: WritingOptions, alone: bool) -> Iterator[str]:
    """Write one tree per line; with `n_best` also its score, and an empty line after the trees of a sentence."""
    several = options.n_best > 1
    for block in blocks:
        for _, _, parses in block:
            trees = [f"{parse}\t{parse.score:.4f}" if several else str(parse) for parse in parses or ()]
            yield "\n".join([*trees, ""] if several else trees) + "\n"


def drawn_lines(blocks: Blocks, options: WritingOptions, alone: bool) -> Iterator[str]:
    for block in blocks:
        for number, _, parses in block:
            for parse in parses or ():
                score = f"line {number}, score {parse.score:.4f}\n" if options.n_best > 1 else ""
                yield f"{score}{tree_text(parse.tree)}\n\n"


def one_picture(blocks: Blocks, options: WritingOptions, alone: bool) -> Iterator[str]:
    parses = (parse for block in blocks for answered in block for parse in answered.answer or ())
    yield trees_svg([parse.tree for parse in parses]) + "\n"


PARSE: Use[WordsRow, list[Parse]] = Use(
    about="parse sentences into constituency trees",
    row=WordsRow,
    options=WritingOptions,
    answer=parse_rows,
    writes=lambda row, options: SYMBOLS_A_WORD * len(row.words) + MORE_SYMBOLS,
    objects=parsed_objects,
    formats={"brackets": brackets_lines, "text": drawn_lines, "svg": one_picture},
    tables=False,
    watch=Watch(
        tokens=lambda task, row: tokens_read(task.source, [" ".join(row.words)]),
        row_of=lambda example: WordsRow(text=list(example.tree.words)),
    ),
    help="""Each TEXT, or else each line of standard input or of --file, is a sentence whose words are separated by
spaces: punctuation is not split off, so write 'It rains .' and not 'It rains.' Each tree is one line of standard
output, in the same order and as soon as it is ready. An empty line gives an empty line.

  clew parse runs/craft-parser 'The gene is expressed in the brain .' --format text
  echo 'The gene is expressed in the brain .' | clew parse runs/craft-parser
  clew parse runs/craft-parser --file sentences.txt --out trees.mrg
  clew parse runs/craft-parser --file sentences.txt --n-best 3
  clew parse runs/craft-parser --file sentences.txt --format text
  clew parse runs/craft-parser --file sentences.txt --format svg --out trees.svg

With --n-best N, each sentence has up to N lines, `tree<TAB>score`, followed by an empty line. The score is
log p / length^X, where X is the run's decoding.length_penalty.

--format text draws trees for a terminal (pipe wide ones through `less -S`), svg draws all trees in one picture, and
json prints one object per tree.""",
)


PARSING = TaskEntry(
    config=ParsingConfig,
    build=build_parser,
    needs=ConstituencyParser.needs,
    vocabularies=SIDES,
    learning=Examples(TREES, train_parsing_vocabularies),
    baselines=tree_baselines,
    uses={"parse": PARSE},
)
