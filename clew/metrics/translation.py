"""How well translations agree with references: BLEU (Papineni et al. 2002), chrF (Popovic 2015) and TER (Snover et al. 2006), as sacrebleu
computes them.

    BLEU = 100 * brevity penalty * (p1 p2 p3 p4)^(1/4)      p_n: the share of n-grams of words that are in a reference
    chrF = 100 * 5 P R / (4 P + R)                          P, R: precision and recall of n-grams of characters, n = 1 .. 6, averaged
    TER  = 100 * edits / reference words                    edits: words inserted, deleted and substituted, and phrases shifted

None is a mean over sentences. What is kept are the counts that it is computed from, so that parts of a corpus add. A score without
its signature, which says what was done to case and words before, compares with nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, TypeVar

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from clew.core.errors import UserError, unknown

TOKENIZERS = ("13a", "char", "none")
"""How BLEU parts words: as the WMT campaigns do, every character by itself, or at spaces, for text that is in words already."""

References = Sequence[str | Sequence[str]]
"""One reference a hypothesis, or several."""

VARIED = -1

Score = TypeVar("Score", bound="CorpusScore")


@dataclass(frozen=True)
class CorpusScore:
    """Counts over some sentences, and how they were counted."""

    counts: tuple[float, ...] = ()
    num_sentences: int = 0
    num_references: int = 0  # a sentence; VARIED where they have different numbers
    lowercase: bool = False

    def __add__(self: Score, other: Score) -> Score:
        if not self.num_sentences or not other.num_sentences:
            return other if other.num_sentences else self
        same = self.num_references == other.num_references
        mine, theirs = (replace(part, num_references=self.num_references if same else VARIED) for part in (self, other))
        if mine.signature != theirs.signature:
            raise UserError(f"scores of different kinds cannot be added: {mine.signature} and {theirs.signature}")
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return replace(mine, counts=counts, num_sentences=self.num_sentences + other.num_sentences)

    @property
    def score(self) -> float:
        """Between 0 and 100; TER may be above."""
        if not self.num_sentences:
            raise UserError("no sentence was scored, so there is no score; give at least one hypothesis and its reference")
        return self.metric()._compute_score_from_stats(list(self.counts)).score

    @property
    def signature(self) -> str:
        metric = self.metric()
        metric.num_refs = self.num_references
        return str(metric.get_signature())

    def describe(self) -> str:
        return f"{self.name} {self.score:.2f} ({self.signature})"

    @property
    def name(self) -> str:
        raise NotImplementedError

    def metric(self) -> Any:
        raise NotImplementedError

    def counted(self: Score, hypotheses: Sequence[str], references: References) -> Score:
        """What these sentences add to nothing."""
        sentences, num_references = self.extracted(hypotheses, references)
        if not sentences:
            return self
        counts = tuple(map(sum, zip(*sentences, strict=True)))
        return replace(self, counts=counts, num_sentences=len(sentences), num_references=num_references)

    def of_sentences(self, hypotheses: Sequence[str], references: References) -> list[list[float]]:
        """The counts of each sentence; the score of their sum is the corpus's."""
        return self.extracted(hypotheses, references)[0]

    def extracted(self, hypotheses: Sequence[str], references: References) -> tuple[list[list[float]], int]:
        each = checked(hypotheses, references)
        if not each:
            return [], 0
        metric = self.metric()
        streams = list(zip_longest(*each))  # (references, sentences), None where a sentence has fewer
        return metric._extract_corpus_statistics(list(hypotheses), streams), metric.num_refs


@dataclass(frozen=True)
class Bleu(CorpusScore):
    """The counts are two lengths, of the hypotheses and of the references nearest to them, then n-grams matched, then n-grams in all."""

    tokenizer: str = "13a"

    @property
    def name(self) -> str:
        return "BLEU"

    def metric(self) -> BLEU:
        return BLEU(lowercase=self.lowercase, tokenize=self.tokenizer, force=True)

    @property
    def length_ratio(self) -> float:
        """How long hypotheses are beside their references: below 1 there is a penalty."""
        return self.counts[0] / self.counts[1] if self.counts and self.counts[1] else 0.0


@dataclass(frozen=True)
class Chrf(CorpusScore):
    """The counts are, for each order, the hypotheses' n-grams, the references' and those in both. With `word_order` 2 it is chrF++."""

    word_order: int = 0

    @property
    def name(self) -> str:
        return "chrF2" + "+" * self.word_order

    def metric(self) -> CHRF:
        return CHRF(lowercase=self.lowercase, word_order=self.word_order)


@dataclass(frozen=True)
class Ter(CorpusScore):
    """The counts are edits, and the words of the references, their mean where a sentence has several.

    A shift moves a phrase of the hypothesis to where the reference has it, and costs 1 whatever its length. Shifts are found greedily, each
    the one that saves most, as tercom does. `normalized` parts punctuation from words, `punctuation` False leaves it out, and `asian`
    treats CJK characters as words, with either of these.
    """

    normalized: bool = False
    punctuation: bool = True
    asian: bool = False

    @property
    def name(self) -> str:
        return "TER"

    def metric(self) -> TER:
        return TER(case_sensitive=not self.lowercase, normalized=self.normalized, no_punct=not self.punctuation, asian_support=self.asian)


def bleu(hypotheses: Sequence[str], references: References, *, tokenizer: str = "13a", lowercase: bool = False) -> Bleu:
    """BLEU of a corpus; `references[i]` is what `hypotheses[i]` is held against."""
    check_tokenizer(tokenizer)
    return Bleu(lowercase=lowercase, tokenizer=tokenizer).counted(hypotheses, references)


def sentence_bleu(hypothesis: str, references: str | Sequence[str], *, tokenizer: str = "13a", lowercase: bool = False) -> float:
    """BLEU of one sentence: orders longer than it are left out, and an order without a match counts as half of one, then a quarter, ..."""
    check_tokenizer(tokenizer)
    (several,) = checked([hypothesis], [references])
    metric = BLEU(lowercase=lowercase, tokenize=tokenizer, effective_order=True)
    return metric.sentence_score(hypothesis, several).score


def chrf(hypotheses: Sequence[str], references: References, *, lowercase: bool = False, word_order: int = 0) -> Chrf:
    """chrF of a corpus; `references[i]` is what `hypotheses[i]` is held against, the best of several."""
    check_word_order(word_order)
    return Chrf(lowercase=lowercase, word_order=word_order).counted(hypotheses, references)


def sentence_chrf(hypothesis: str, references: str | Sequence[str], *, lowercase: bool = False, word_order: int = 0) -> float:
    return chrf([hypothesis], [references], lowercase=lowercase, word_order=word_order).score


def ter(
    hypotheses: Sequence[str],
    references: References,
    *,
    lowercase: bool = False,
    normalized: bool = False,
    punctuation: bool = True,
    asian: bool = False,
) -> Ter:
    """TER of a corpus, lower being better; `references[i]` is what `hypotheses[i]` is held against, the nearest of several."""
    if asian and punctuation and not normalized:
        raise UserError("asian=True changes nothing by itself; set normalized=True or punctuation=False with it")
    return Ter(lowercase=lowercase, normalized=normalized, punctuation=punctuation, asian=asian).counted(hypotheses, references)


def sentence_ter(hypothesis: str, references: str | Sequence[str], *, lowercase: bool = False) -> float:
    return ter([hypothesis], [references], lowercase=lowercase).score


def checked(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """Each hypothesis's references."""
    for name, given in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(given, str):
            raise UserError(f"{name} is one string; give a list of sentences")
    if len(hypotheses) != len(references):
        raise UserError(f"hypotheses ({len(hypotheses)}) must be as many as references ({len(references)})")
    each = [[several] if isinstance(several, str) else list(several) for several in references]
    if not all(each):
        raise UserError(f"sentence {each.index([])} has no reference; every hypothesis needs at least one")
    return each


def check_tokenizer(tokenizer: str) -> None:
    if tokenizer not in TOKENIZERS:
        raise unknown("tokenizer", tokenizer, TOKENIZERS)


def check_word_order(word_order: int) -> None:
    if word_order not in (0, 1, 2):
        raise UserError(f"word_order ({word_order}) must be 0 for chrF, 1 for chrF+ or 2 for chrF++")
