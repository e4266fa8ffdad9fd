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
from clew.data.examples import Parsed
from clew.data.kinds.trees import TREES
from clew.data.plans import batches_by_length
from clew.data.syntax.linearisation import WORD, delinearise, linearise, tree_tokens
from clew.data.syntax.trees import format_tree, parse_tree, words_of
from clew.decoding.stepper import Stepper
from clew.decoding.trees import TreeConstraint
from clew.drawing.tree_drawing import tree_text, trees_svg
from clew.metrics.brackets import score_brackets, score_sentence, share
from clew.metrics.measures import Measured
from clew.metrics.statistics import Statistics, share_of
from clew.sources.words import one_word_each
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, TrainTokenizer
from clew.tasks.offers import Begun, Given
from clew.tasks.shared.alignment import Tokens
from clew.tasks.shared.sequence import SIDES, SequenceBatch, SequenceConfig, SequenceToSequence, Sides
from clew.tasks.use import Blocks, Objects, Use, Watch, WritingOptions, tokens_read
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer, check_is_text
from clew.text.train import Texts, train_word

SYMBOLS_A_WORD, MORE_SYMBOLS = 4, 10
"""A tree over n words has at most 4 n + 10 symbols, its end among them: no gold tree of WSJ or CRAFT has more than 4 n
+ 4."""

BATCH = 8192
"""Words and symbols that are parsed at a time."""


class ParsingConfig(SequenceConfig):
    """The brackets of a sentence's tree; nothing but well-formed trees over its words is ever written."""

    name: Literal["parsing"] = "parsing"  # type: ignore[assignment]
    measures: list[str] = Field(
        [], max_length=0, description="none: trees are measured by their brackets, with EVALB's rules"
    )
    best: Literal["loss", "f1"] = Field(
        "f1", description="the best evaluation is that of the lowest loss, or of the highest F1"
    )
    tags: bool = Field(False, description="write every word's tag, instead of XX for all of them")

    @property
    def values(self) -> list[str]:
        return ["f1"]


@dataclass(frozen=True)
class Parse:
    """A tree over a sentence. `log_prob` is of all its symbols and their end, `score` what beam search chose it by.
    `str()` is brackets."""

    tree: Tree
    log_prob: float
    score: float

    def __repr__(self) -> str:
        return brief(self, str(self), log_prob=self.log_prob)

    def __str__(self) -> str:
        return format_tree(self.tree)


class ConstituencyParser(SequenceToSequence):
    """P(tree | words) as of the target (S (NP XX XX )NP (VP XX )VP )S, with p(symbol) 0 where no tree over the words
    could follow."""

    config: ParsingConfig
    text_name = "sentence"

    def __init__(self, body: Any, source: Tokenizer, target: Tokenizer, config: ParsingConfig | None = None):
        super().__init__(body, source, target, config or ParsingConfig())
        self.tree_tokens = tree_tokens(target.tokens, self.end, self.end)

    def prepare(self, encoded: Sequence[Sides]) -> None:
        """Refuses trees to learn from whose symbols are not those of the table, which may be another run's."""
        for number, sides in enumerate(encoded, start=1):
            if self.target.unknown in sides.target:
                raise UserError(
                    f"tree {number} of the training part has a label or tag that the parser of transfer.from does not"
                    " write; leave it out, or train without transfer.from"
                )

    def encode(self, examples: Sequence[Parsed]) -> list[Sides]:  # type: ignore[override]
        sentences = self.encode_words([example.tree.words for example in examples])
        targets = self.target.encode_batch([symbols_of(example.tree, self.config) for example in examples])
        return [sides._replace(target=target) for sides, target in zip(sentences, targets, strict=True)]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Sides]:
        """Sentences to parse."""
        sources = self.source.encode_batch([one_word_each(words) for words in sentences])
        return [
            Sides([*source, self.source_end], [], len(words)) for source, words in zip(sources, sentences, strict=True)
        ]

    def check_length(self, sides: Sides, place: str) -> None:
        super().check_length(sides, place)
        limit = self.body.max_length
        if limit is not None and sides.words + 3 > limit:
            raise UserError(
                f"{place}: a tree over {sides.words} words has at least {sides.words + 3} symbols, but the model can"
                f" tell apart {limit} positions; cut the sentence, or train with a larger model.max_length or another"
                " model.position"
            )

    def stepper(self, batch: SequenceBatch, *, covering: bool = False) -> Stepper:
        longest = self.longest_trees(batch.words)
        return TreeConstraint(
            super().stepper(batch, covering=covering), tokens=self.tree_tokens, lengths=batch.words, max_length=longest
        )

    def longest_trees(self, words: Tensor) -> Tensor:
        """How many symbols each sentence's tree may have, its end counted: by its own words alone, whatever shares its
        batch."""
        most = SYMBOLS_A_WORD * words + MORE_SYMBOLS
        return most if self.body.max_length is None else most.clamp(max=self.body.max_length)

    def max_new(self, batch: SequenceBatch, config: DecodingConfig) -> Tensor:
        """Room for every tree that may be written, whatever `decoding.max_new` says: a tree that is cut off is none."""
        return self.longest_trees(batch.words)

    def parse(
        self,
        sentences: Sequence[Sequence[str]],
        config: DecodingConfig,
        seed: int = 0,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Parse]]:
        """The best trees of each sentence: `n_best` of beam search, else one; none of a sentence without words. A
        sentence that is refused is named by its number, and sampling draws by it."""
        numbers = range(1, len(sentences) + 1) if numbers is None else numbers
        encoded = self.checked(sentences, numbers)
        there = [row for row, words in enumerate(sentences) if words]
        lengths = np.array([(len(encoded[row].source), SYMBOLS_A_WORD * encoded[row].words) for row in there]).reshape(
            -1, 2
        )
        device = next(self.parameters()).device
        found: dict[int, list[Parse]] = {}
        with evaluating([self]):
            for places in batches_by_length(lengths, BATCH):
                rows = [there[place] for place in places]
                batch = to_device(self.collate([encoded[row] for row in rows]), device)
                for row, written in zip(
                    rows, self.write(batch, config, seed, row_numbers=[numbers[row] for row in rows]), strict=True
                ):
                    found[row] = [
                        Parse(delinearise(each.text.split(), sentences[row]), each.log_prob, each.score)
                        for each in written
                    ]
        return [found.get(row, []) for row in range(len(sentences))]

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
        found = score_brackets(golds, trees).all
        formed = 100 * share(sum(tree is not None for tree in trees), len(trees))
        values = {"f1": 100 * found.f1, "precision": 100 * found.precision, "recall": 100 * found.recall}
        values |= {"complete": 100 * found.complete_match, "well_formed": formed}
        words = f"{found.describe().partition(', crossing')[0]}, well-formed {formed:.1f} %"
        if self.config.tags:
            values["tags"] = 100 * tagging_accuracy(golds, predictions)
            words += f", tags {values['tags']:.2f} % right"
        return Measured(values, words)

    def described(self, example: Parsed, prediction: str) -> dict[str, str]:  # type: ignore[override]
        tree = tree_over(prediction, example.tree.words)  # with the tags that were written, as `parse` has them
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

    def encode_given(self, given: Given) -> Sides:
        """A sentence with spaces between its words; its tree in brackets, or the symbols of one or of its beginning."""
        words = words_of(given.text)
        (sides,) = self.encode_words([words])
        symbols = self.target_symbols(given.target or "", words)
        target = self.target.encode(symbols)
        if self.target.unknown in target:
            raise UserError(
                f"the target {named(given.target)} has symbols that this parser does not write, or is no tree over"
                " these words"
            )
        return sides._replace(target=target)

    def target_symbols(self, target: str, words: Sequence[str]) -> str:
        try:
            tree = parse_tree(target)
        except UserError:
            return target
        return symbols_of(tree, self.config) if list(tree.words) == list(words) else target

    def named_sides(self, given: Given, sides: Sides) -> tuple[Tokens, Tokens]:
        words = words_of(given.text)
        return super().named_sides(Given(one_word_each(words), self.target_symbols(given.target or "", words)), sides)

    def steps(self, given: Given, config: DecodingConfig | None = None) -> Begun:
        """Up to the longest tree that is written over so many words."""
        begun = super().steps(given, config)
        return replace(begun, most=int(self.longest_trees(torch.tensor(len(words_of(given.text))))))

    def programs(self) -> NoReturn:
        raise UserError(
            "a parser holds what it writes to trees, which no program does; parse with `clew parse`, or `clew serve`"
            " the run"
        )


def symbols_of(tree: Tree, config: ParsingConfig) -> str:
    return " ".join(linearise(tree, None if config.tags else WORD))


def tree_of(symbols: str, gold: Tree) -> Tree | None:
    """The tree as it is scored: it is given the gold tags, by which EVALB knows punctuation, and a wrong tag makes no
    bracket wrong."""
    return tree_over(symbols, gold.words, gold.tags)


def tree_over(symbols: str, words: Sequence[str], tags: Sequence[str] | None = None) -> Tree | None:
    """The tree that symbols describe over a sentence's words, None where they are none."""
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
    """The share of words, punctuation among them, whose tag is right."""
    right = sum(right_tags(gold, symbols) for gold, symbols in zip(golds, predictions, strict=True))
    return share(right, sum(len(gold.tags) for gold in golds))


def train_parsing_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Parsed], config: ParsingConfig
) -> dict[str, Tokenizer]:
    """A tokenizer of words, and a table of symbols."""
    if joint:
        raise UserError("a parser reads words and writes brackets, which share no vocabulary; set text.joint=false")
    sentences = Texts(lambda: (one_word_each(example.tree.words) for example in examples))
    symbols = Texts(lambda: (symbols_of(example.tree, config) for example in examples))
    return {"source": train(sentences, []), "target": train_word(symbols)}


def build_parser(body: Any, vocabularies: dict[str, Any], config: ParsingConfig) -> ConstituencyParser:
    return ConstituencyParser(body, vocabularies["source"], vocabularies["target"], config)


class WordsRow(Section):
    text: str | list[str] = Field(description="a sentence with spaces between its words, or its words in a list")

    @property
    def words(self) -> list[str]:
        return words_of(self.text) if isinstance(self.text, str) else self.text


def parse_rows(
    tasks: Sequence[ConstituencyParser], rows: Sequence[WordsRow], options: WritingOptions, numbers: Sequence[int]
) -> list[list[Parse]]:
    return tasks[0].parse([row.words for row in rows], options.decoding, options.seed, numbers)


def parsed_objects(number: int, row: WordsRow, trees: list[Parse] | None, options: WritingOptions) -> Objects:
    """A sentence without words has no tree."""
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
    """A tree a line; of several its score too, and an empty line behind them."""
    several = options.n_best > 1
    for some in blocks:
        for _, _, parses in some:
            trees = [f"{one}\t{one.score:.4f}" if several else str(one) for one in parses or ()]
            yield "\n".join([*trees, ""] if several else trees) + "\n"


def drawn_lines(blocks: Blocks, options: WritingOptions, alone: bool) -> Iterator[str]:
    for some in blocks:
        for number, _, parses in some:
            for one in parses or ():
                score = f"line {number}, score {one.score:.4f}\n" if options.n_best > 1 else ""
                yield f"{score}{tree_text(one.tree)}\n\n"


def one_picture(blocks: Blocks, options: WritingOptions, alone: bool) -> Iterator[str]:
    yield trees_svg([one.tree for some in blocks for each in some for one in each.answer or ()]) + "\n"


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
    help="""Every TEXT, or else every line of standard input or of --file, is a sentence whose words stand apart:
nothing is split here, so write 'It rains .' and not 'It rains.' Its tree is one line of standard output, in the same
order and as soon as it is there; an empty line has an empty one.

  clew parse runs/craft-parser 'The gene is expressed in the brain .' --format text
  echo 'The gene is expressed in the brain .' | clew parse runs/craft-parser
  clew parse runs/craft-parser --file sentences.txt --out trees.mrg
  clew parse runs/craft-parser --file sentences.txt --n-best 3
  clew parse runs/craft-parser --file sentences.txt --format text
  clew parse runs/craft-parser --file sentences.txt --format svg --out trees.svg

With --n-best, every sentence has so many lines, `tree<TAB>score`, and an empty line after them. The score is
log p / length^X, X being the run's decoding.length_penalty.

--format text draws trees for a terminal (`| less -S` for wide ones), svg as one picture of all of them, and json has
one object a tree.""",
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
