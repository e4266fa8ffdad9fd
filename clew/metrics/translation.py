"""Translation metrics: BLEU (Papineni et al. 2002), chrF (Popovic 2015) and TER (Snover et al. 2006), as computed by
sacrebleu.


    BLEU = 100 * brevity penalty * (p1 p2 p3 p4)^(1/4)      p_n: the share of word n-grams that are in a reference
    chrF = 100 * 5 P R / (4 P + R)                          P, R: precision and recall of character n-grams,
                                                            n = 1 .. 6, averaged
    TER  = 100 * edits / reference words                    edits: words inserted, deleted and substituted, and
                                                            phrases shifted

None of them is a mean over sentences, so the counts are kept, and those of parts of a corpus add. A score is comparable
only with its signature, which says how case and words were treated.
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
"""How BLEU splits words: as in the WMT campaigns, into characters, or at spaces for text that is already tokenized."""

References = Sequence[str | Sequence[str]]
"""One reference per hypothesis, or several."""

VARIED = -1

Score = TypeVar("Score", bound="CorpusScore")


@dataclass(frozen=True)
class CorpusScore:
    """Counts over some sentences, and how they were counted."""

    counts: tuple[float, ...] = ()
    num_sentences: int = 0
    num_references: int = 0  # per sentence; VARIED if sentences differ
    lowercase: bool = False

    def __add__(self: Score, other: Score) -> Score:
        if not self.num_sentences or not other.num_sentences:
            return other if other.num_sentences else self
        same = self.num_references == other.num_references
        first, second = (
            replace(part, num_references=self.num_references if same else VARIED) for part in (self, other)
        )
        if first.signature != second.signature:
            raise UserError(f"scores of different kinds cannot be added: {first.signature} and {second.signature}")
        counts = tuple(a + b for a, b in zip(self.counts, other.counts, strict=True))
        return replace(first, counts=counts, num_sentences=self.num_sentences + other.num_sentences)

    @property
    def score(self) -> float:
        """Between 0 and 100, except for TER, which may be higher."""
        if not self.num_sentences:
            raise UserError(
                "no sentence was scored, so there is no score; give at least one hypothesis and its reference"
            )
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
        """A copy with the counts of these sentences."""
        sentences, num_references = self.extracted(hypotheses, references)
        if not sentences:
            return self
        counts = tuple(map(sum, zip(*sentences, strict=True)))
        return replace(self, counts=counts, num_sentences=len(sentences), num_references=num_references)

    def of_sentences(self, hypotheses: Sequence[str], references: References) -> list[list[float]]:
        """The counts of each sentence; the score of their sum is the corpus's."""
        return self.extracted(hypotheses, references)[0]

    def extracted(self, hypotheses: Sequence[str], references: References) -> tuple[list[list[float]], int]:
        reference_lists = checked(hypotheses, references)
        if not reference_lists:
            return [], 0
        metric = self.metric()
        # (references, sentences), None where a sentence has fewer references
        streams = list(zip_longest(*reference_lists))
        return metric._extract_corpus_statistics(list(hypotheses), streams), metric.num_refs


@dataclass(frozen=True)
class Bleu(CorpusScore):
    """Counts: the length of the hypotheses, the length of the closest references, then matched n-grams, then all
    n-grams."""

    tokenizer: str = "13a"

    @property
    def name(self) -> str:
        return "BLEU"

    def metric(self) -> BLEU:
        return BLEU(lowercase=self.lowercase, tokenize=self.tokenizer, force=True)

    @property
    def length_ratio(self) -> float:
        """Hypothesis length divided by reference length; below 1 there is a brevity penalty."""
        return self.counts[0] / self.counts[1] if self.counts and self.counts[1] else 0.0


@dataclass(frozen=True)
class Chrf(CorpusScore):
    """Counts: for each order, the n-grams of hypotheses, of references and of both. `word_order` 2 is chrF++."""

    word_order: int = 0

    @property
    def name(self) -> str:
        return "chrF2" + "+" * self.word_order

    def metric(self) -> CHRF:
        return CHRF(lowercase=self.lowercase, word_order=self.word_order)


@dataclass(frozen=True)
class Ter(CorpusScore):
    """Counts: the edits, and the words of the references, averaged if a sentence has several.

    A shift moves a phrase of the hypothesis to its place in the reference, and costs 1 regardless of its length. Shifts
    are found greedily, the one that saves most first, as in tercom. `normalized` splits punctuation from words,
    `punctuation` False drops it, and `asian`, with either of these, treats CJK characters as words.
    """

    normalized: bool = False
    punctuation: bool = True
    asian: bool = False

    @property
    def name(self) -> str:
        return "TER"

    def metric(self) -> TER:
        return TER(
            case_sensitive=not self.lowercase,
            normalized=self.normalized,
            no_punct=not self.punctuation,
            asian_support=self.asian,
        )


def bleu(hypotheses: Sequence[str], references: References, *, tokenizer: str = "13a", lowercase: bool = False) -> Bleu:
    """BLEU of a corpus; `references[i]` is the reference of `hypotheses[i]`, or several."""
    check_tokenizer(tokenizer)
    return Bleu(lowercase=lowercase, tokenizer=tokenizer).counted(hypotheses, references)


def sentence_bleu(
    hypothesis: str, references: str | Sequence[str], *, tokenizer: str = "13a", lowercase: bool = False
) -> float:
    """BLEU of one sentence: orders longer than it are left out; orders without a match count as 1/2 match, then 1/4,
    ..."""
    check_tokenizer(tokenizer)
    (sentence_references,) = checked([hypothesis], [references])
    metric = BLEU(lowercase=lowercase, tokenize=tokenizer, effective_order=True)
    return metric.sentence_score(hypothesis, sentence_references).score


def chrf(hypotheses: Sequence[str], references: References, *, lowercase: bool = False, word_order: int = 0) -> Chrf:
    """chrF of a corpus; `references[i]` is the reference of `hypotheses[i]`, or several, of which the best counts."""
    check_word_order(word_order)
    return Chrf(lowercase=lowercase, word_order=word_order).counted(hypotheses, references)


def sentence_chrf(
    hypothesis: str, references: str | Sequence[str], *, lowercase: bool = False, word_order: int = 0
) -> float:
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
    """TER of a corpus, lower being better; `references[i]` is the reference of `hypotheses[i]`, or several, of which
    the closest counts."""
    if asian and punctuation and not normalized:
        raise UserError("asian=True changes nothing by itself; set normalized=True or punctuation=False with it")
    return Ter(lowercase=lowercase, normalized=normalized, punctuation=punctuation, asian=asian).counted(
        hypotheses, references
    )


def sentence_ter(hypothesis: str, references: str | Sequence[str], *, lowercase: bool = False) -> float:
    return ter([hypothesis], [references], lowercase=lowercase).score


def checked(hypotheses: Sequence[str], references: References) -> list[list[str]]:
    """The list of references of each hypothesis."""
    for name, texts in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(texts, str):
            raise UserError(f"{name} is one string; give a list of sentences")
    if len(hypotheses) != len(references):
        raise UserError(f"there must be as many hypotheses ({len(hypotheses)}) as references ({len(references)})")
    reference_lists = [
        [sentence_references] if isinstance(sentence_references, str) else list(sentence_references)
        for sentence_references in references
    ]
    if not all(reference_lists):
        raise UserError(f"sentence {reference_lists.index([])} has no reference; every hypothesis needs at least one")
    return reference_lists


def check_tokenizer(tokenizer: str) -> None:
    if tokenizer not in TOKENIZERS:
        raise unknown("tokenizer", tokenizer, TOKENIZERS)


def check_word_order(word_order: int) -> None:
    if word_order not in (0, 1, 2):
        raise UserError(f"word_order ({word_order}) must be 0 for chrF, 1 for chrF+ or 2 for chrF++")
