"""Tagging: a tag for every word, each independently (softmax) or all tags of a sentence jointly (CRF). Phrases are tags
in any scheme."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from clew.baselines.tag_baselines import tag_baselines
from clew.core.batches import padded, to_device
from clew.core.config import Section, TaskSection
from clew.core.errors import UserError, named
from clew.core.modes import evaluating
from clew.core.reprs import brief
from clew.core.tag_schemes import (
    OUTSIDE,
    SCHEMES,
    allowed_transitions,
    convert_tags,
    is_phrase_tag,
    plain_tags,
    tag_parts,
    tag_spans,
)
from clew.core.types import State, Term
from clew.core.wording import argument
from clew.data.examples import Sentence
from clew.data.formats import FORMATS, find_format, formats_named
from clew.data.kinds.tagged import TAGGED
from clew.data.readers import read_sentences
from clew.data.records import as_number
from clew.layers.context import WORD_VECTORS, Pieces
from clew.layers.embeddings import tokens_of
from clew.layers.losses.crf import CRF
from clew.metrics.agreement import share_interval
from clew.metrics.bootstrap import Interval
from clew.metrics.classification import count_confusion
from clew.metrics.measures import Measured
from clew.metrics.spans import score_sentences, score_spans, tag_statistics
from clew.metrics.statistics import Statistics
from clew.sources.words import EncodedWords, WordReader, check_words, one_word_each, places_of
from clew.tasks.entry import TaskEntry
from clew.tasks.learnings.examples import Examples, ExampleTask, TrainTokenizer
from clew.tasks.offers import Judged, JudgedSpan, JudgedWord, ModelInput
from clew.tasks.shared.reading import ReadsText
from clew.tasks.use import Answered, Objects, Options, Use, Watch, line_each, tokens_read
from clew.tasks.uses.explaining import Explained, check_not_empty, chosen_label, named_places
from clew.tasks.uses.programs import ReadingProgram, Traced
from clew.text.labels import UNSEEN, Labels
from clew.text.tokenizer import Tokenizer, check_is_text
from clew.text.train import Texts
from clew.text.words import Word, listed_words, spaced_words, split_words

BATCH = 128
"""Sentences tagged at a time."""
SAMPLES = 2000
"""Resamples of a bootstrap's interval."""
USAGE = """\
outputs = run("tagger", tensors)
print([(word, about["tags"][tag]) for word, tag in zip(words, outputs["tags"][0])])
"""
"""The example code of a program in its card."""


class TaggingConfig(TaskSection):
    """A tag for every word of a sentence."""

    name: Literal["tagging"] = "tagging"
    output: Literal["crf", "softmax"] = Field(
        "crf", description="crf: predict a sentence's tags jointly; softmax: each tag independently"
    )
    # The model learns BIOES, answers are written in IOB2, and spans are scored: the file's scheme may be any.
    scheme: Literal["bioes", "iob2", "iob1", "none"] = Field(
        "bioes", description="the scheme to which phrase tags are converted for training; none: keep the file's tags"
    )
    pieces: Literal["first", "last", "mean"] = Field(
        "first", description="which of a word's tokens its tag is predicted from"
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="of the output layer's input, besides the body's own dropout")
    longest: int = Field(
        256, ge=1, description="training sentences with more tokens than this are left out, and counted"
    )
    best: Literal["score", "loss", "accuracy", "f1"] = Field(
        "score", description="the metric that selects the best checkpoint; score: F1 for phrase tags, else accuracy"
    )


class TaggedWords(NamedTuple):
    """A sentence as ids."""

    words: EncodedWords
    tags: list[int]


class TagBatch(NamedTuple):
    pieces: Pieces
    mask: Tensor | None  # (batch, words)
    tags: Tensor  # (batch, words), UNSEEN where the gold tag is not in the training part
    fresh: bool = True
    has_unseen: bool = False

    @property
    def num_tokens(self) -> int:
        return self.pieces.num_tokens


@dataclass(frozen=True)
class TaggedWord:
    """A word with its tag, the tag's probability, and the characters [start, stop) of the word in the text."""

    word: str
    tag: str
    probability: float
    start: int
    stop: int


@dataclass(frozen=True)
class TaggedSpan:
    """A phrase: the characters [start, stop) of the text, and the probability of the least certain of its tags."""

    label: str
    text: str
    probability: float
    start: int
    stop: int


@dataclass(frozen=True)
class TaggedText:
    """A sentence's words, and its phrases if the tags are phrase tags."""

    text: str
    words: list[TaggedWord]
    spans: list[TaggedSpan]

    @classmethod
    def of(cls, text: str, words: Sequence[Word], tags: Sequence[tuple[str, float]], are_phrases: bool) -> "TaggedText":
        tagged = [
            TaggedWord(word.text, tag, sure, word.start, word.stop)
            for word, (tag, sure) in zip(words, tags, strict=True)
        ]
        spans = []
        for label, first, end in tag_spans([tag for tag, _ in tags]) if are_phrases else ():
            inside = tagged[first:end]
            start, stop = inside[0].start, inside[-1].stop
            spans.append(TaggedSpan(label, text[start:stop], min(word.probability for word in inside), start, stop))
        return cls(text, tagged, spans)

    def __repr__(self) -> str:
        return brief(self, " ".join(f"{word.word}/{word.tag}" for word in self.words))

    def __str__(self) -> str:
        return "\n".join(f"{word.word}\t{word.tag}\t{word.probability:.4f}" for word in self.words)


class Tagger(ReadsText, ExampleTask):
    """Scores from the body's vector h_t of each word t, and a CRF or independent softmaxes over them.

    emission_t = W dropout(h_t) + b
    p(tags) = CRF(emissions), or prod_t softmax(emission_t)[tag_t]
    """

    can_bucket = True

    def __init__(self, body: Any, reader: WordReader, tags: Labels, config: TaggingConfig | None = None):
        super().__init__()
        self.config = config = config or TaggingConfig()
        self.body = body
        self.reader = reader
        self.tags = tags
        self.scheme = scheme_of(tags.names, config)
        self.labels = Labels.of(tag_parts(tag)[1] for tag in tags.names if tag != OUTSIDE) if self.scheme else None
        if config.best == "f1" and not self.scheme:
            raise UserError(
                "task.best=f1 needs phrase tags such as B-PER, and these are not; leave it out, or set"
                " task.best=accuracy"
            )
        allowed = allowed_transitions(tags.names, self.scheme) if self.scheme else None
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(body.dim, len(tags))
        self.crf = CRF(len(tags), allowed=allowed) if config.output == "crf" else None
        self.vector_of = WORD_VECTORS[config.pieces]

    def forward(self, batch: TagBatch, state: State = None) -> tuple[dict[str, Term], State]:
        if batch.has_unseen:
            losses, counts = torch.tensor(self.row_losses(batch), dtype=torch.float64).sum(0)
            return {"loss": Term(losses, counts)}, None
        emissions = self.emissions(batch)
        if self.crf is not None:
            return {"loss": Term(self.crf(emissions, batch.tags, batch.mask), self.counts(batch)["loss"])}, None
        losses = self.word_losses(emissions, batch)
        loss = losses.sum() if batch.mask is None else losses[batch.mask].sum()
        return {"loss": Term(loss, self.counts(batch)["loss"])}, None

    def word_losses(self, emissions: Tensor, batch: TagBatch) -> Tensor:
        """Return -log p of each word's tag, independently (batch, words)."""
        losses = F.cross_entropy(
            emissions.float().flatten(0, 1), batch.tags.flatten(), reduction="none", ignore_index=UNSEEN
        )
        return losses.view_as(batch.tags)

    def row_losses(self, batch: TagBatch) -> list[list[float]]:
        """Return the loss of each sentence, without the words whose gold tag is unseen. With a CRF, which predicts tags
        jointly, sentences with such words are left out."""
        emissions = self.emissions(batch)
        real = torch.ones_like(batch.tags, dtype=torch.bool) if batch.mask is None else batch.mask
        known = real & (batch.tags != UNSEEN)
        if self.crf is not None:
            known = real & (known == real).all(1, keepdim=True)
            losses = -self.crf.log_likelihood(emissions, batch.tags.clamp(min=0), batch.mask) * known.any(1)
        else:
            losses = (self.word_losses(emissions, batch) * known).sum(1)
        rows: list[list[float]] = torch.stack([losses.double(), known.sum(1).double()], 1).tolist()
        return rows

    def counts(self, batch: TagBatch) -> dict[str, Tensor]:
        """Return the number of words."""
        tags, mask = batch.tags, batch.mask
        return {"loss": torch.full((), tags.numel(), device=tags.device) if mask is None else mask.sum()}

    def emissions(self, batch: TagBatch) -> Tensor:
        """Return a score for every tag of every word (batch, words, tags)."""
        pieces = batch.pieces
        hidden, _ = self.body(pieces.inputs, pieces.mask)
        if not self.reader.is_whole:
            hidden = self.vector_of(hidden, pieces)
        emissions: Tensor = self.output(self.dropout(hidden))
        return emissions

    def encode(self, examples: Sequence[Sentence]) -> list[TaggedWords]:
        encoded = self.reader.encode([example.words for example in examples])
        return [TaggedWords(words, self.tag_ids(example)) for words, example in zip(encoded, examples, strict=True)]

    def tag_ids(self, example: Sentence) -> list[int]:
        """Return the ids of a sentence's tags, in the scheme of training."""
        return [self.tags.find(tag) for tag in learnt_tags(example.tags or (), self.scheme)]

    def label_table(self) -> Labels:
        return self.tags if self.labels is None else self.labels

    def gold_labels(self, example: Sentence) -> Iterator[tuple[str, str]]:
        """Iterate over the tags, or over the labels of phrases. Raises UserError for a tag that is not a phrase tag if
        the others are."""
        for number, tag in enumerate(example.tags or (), start=1):
            place = f"{example.id}, word {number}"
            if self.labels is None:
                yield tag, place
            elif not is_phrase_tag(tag):
                raise UserError(
                    f"{place}: the tag {named(tag)} is not a phrase tag, and those of the training part are; correct"
                    " it, or check data.tags"
                )
            elif tag != OUTSIDE:
                yield tag_parts(tag)[1], place

    def lengths(self, encoded: TaggedWords) -> tuple[int]:
        return (places_of(encoded.words),)

    @property
    def longest(self) -> int:
        return min(self.config.longest, self.body.max_length or self.config.longest)

    def check_length(self, encoded: TaggedWords, place: str) -> None:
        check_words(encoded.words, self.body.max_length, place)

    def collate(self, examples: Sequence[TaggedWords]) -> TagBatch:
        tags, mask = padded([example.tags for example in examples])
        has_unseen = any(UNSEEN in example.tags for example in examples)
        return TagBatch(self.reader.collate([example.words for example in examples]), mask, tags, has_unseen=has_unseen)

    @torch.no_grad()
    def predict(self, batch: TagBatch, decoding: Any = None, seed: int = 0, row_numbers: Any = None) -> list[list[str]]:
        """Return every sentence's tags, phrases in IOB2."""
        emissions = self.emissions(batch)
        tags = self.crf.viterbi(emissions, batch.mask)[0] if self.crf is not None else emissions.argmax(-1)
        return [self.tag_names(ids) for ids in self.rows(tags, batch.mask)]

    def rows(self, tags: Tensor, mask: Tensor | None) -> list[list[int]]:
        lengths = [tags.shape[1]] * len(tags) if mask is None else mask.sum(1).tolist()
        return [row[:length] for row, length in zip(tags.tolist(), lengths, strict=True)]

    def tag_names(self, ids: Sequence[int]) -> list[str]:
        tags = [self.tags.names[id] for id in ids]
        return convert_tags(tags, "iob2") if self.scheme else tags

    def tag(
        self, sentences: Sequence[Sequence[str]], numbers: Sequence[int] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Return the tag of every word and its probability. Errors name a sentence by its number."""
        tagged = self.tag_with_probabilities(sentences, numbers)
        chosen = [
            probs.gather(-1, torch.tensor(ids, dtype=torch.long)[:, None])[:, 0].tolist() for ids, probs in tagged
        ]
        return [
            list(zip(self.tag_names(ids), shares, strict=True)) for (ids, _), shares in zip(tagged, chosen, strict=True)
        ]

    @torch.no_grad()
    def tag_with_probabilities(
        self, sentences: Sequence[Sequence[str]], numbers: Sequence[int] | None = None
    ) -> list[tuple[list[int], Tensor]]:
        """Return for every sentence the ids of its tags, and the probability of every tag for every word (words, tags);
        ids index `self.tags`."""
        numbers = range(1, len(sentences) + 1) if numbers is None else numbers
        for number, words in zip(numbers, sentences, strict=True):
            check_is_text(" ".join(words), f"sentence {number}")
        encoded = [TaggedWords(words, [0] * len(words.starts)) for words in self.reader.encode(sentences)]
        for number, each in zip(numbers, encoded, strict=True):
            self.check_length(each, f"sentence {number}")
        order = sorted((row for row, words in enumerate(sentences) if words), key=lambda row: len(sentences[row]))
        tagged: dict[int, tuple[list[int], Tensor]] = {}
        with evaluating([self]):
            for start in range(0, len(order), BATCH):
                rows = order[start : start + BATCH]
                batch = to_device(self.collate([encoded[row] for row in rows]), next(self.parameters()).device)
                emissions = self.emissions(batch)
                if self.crf is not None:
                    best, probs = self.crf.viterbi(emissions, batch.mask)[0], self.crf.marginals(emissions, batch.mask)
                else:
                    best, probs = emissions.argmax(-1), emissions.float().softmax(-1)
                for row, ids, shares in zip(rows, self.rows(best, batch.mask), probs.cpu(), strict=True):
                    tagged[row] = (ids, shares[: len(ids)])
        no_words = torch.zeros(0, len(self.tags))
        return [tagged.get(row, ([], no_words)) for row in range(len(sentences))]

    def measure(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> Measured:
        golds = self.golds(examples)
        spans = score_spans(golds, predictions) if self.scheme else None
        right = sum(
            a == b for gold, tags in zip(golds, predictions, strict=True) for a, b in zip(gold, tags, strict=True)
        )
        accuracy = 100 * right / max(sum(map(len, golds)), 1)
        if spans is None:
            return Measured({"accuracy": accuracy}, f"accuracy {accuracy:.2f}")
        values = {
            "f1": 100 * spans.f1,
            "precision": 100 * spans.precision,
            "recall": 100 * spans.recall,
            "accuracy": accuracy,
        }
        return Measured(values, ", ".join(f"{name} {value:.2f}" for name, value in values.items()).replace("f1", "F1"))

    def intervals(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> dict[str, Interval]:
        """Return the interval of each metric over resampled sentences."""
        golds = self.golds(examples)
        right = [
            sum(a == b for a, b in zip(gold, tags, strict=True)) for gold, tags in zip(golds, predictions, strict=True)
        ]
        shares = {"accuracy": (right, [len(gold) for gold in golds])}
        if self.scheme:
            totals = [score.total for score in score_sentences(golds, predictions)]
            matched, gold, predicted = (
                [getattr(total, name) for total in totals] for name in ("matched", "gold", "predicted")
            )
            f1 = [2 * count for count in matched], [a + b for a, b in zip(gold, predicted, strict=True)]
            shares = {"f1": f1, "precision": (matched, predicted), "recall": (matched, gold), **shares}
        return {name: share_interval(*counts, samples=SAMPLES).times(100) for name, counts in shares.items()}

    def report(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> tuple[str, str]:
        """Return the scores of each label, and the confusion table of tags."""
        golds = self.golds(examples)
        flat = [tag for tags in golds for tag in tags], [tag for tags in predictions for tag in tags]
        confusion = count_confusion(*flat, sorted({*flat[0], *flat[1]}))
        labels = score_spans(golds, predictions).describe() if self.scheme else confusion.describe()
        return labels.partition("\n")[2], confusion.table()

    def golds(self, examples: Sequence[Sentence]) -> list[list[str]]:
        return [learnt_tags(example.tags or (), "iob2" if self.scheme else None) for example in examples]

    def sentence_scores(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> list[float]:
        """Return the accuracy of each sentence."""
        pairs = zip(self.golds(examples), predictions, strict=True)
        return [100 * sum(a == b for a, b in zip(gold, tags, strict=True)) / max(len(gold), 1) for gold, tags in pairs]

    def statistics(self, examples: Sequence[Sentence], predictions: Sequence[Sequence[str]]) -> list[Statistics]:
        pairs = zip(self.golds(examples), predictions, strict=True)
        return [tag_statistics(gold, tags, phrases=self.scheme is not None) for gold, tags in pairs]

    def described(self, example: Sentence, prediction: Sequence[str]) -> dict[str, Any]:
        """Describe a sentence: gold and predicted tags, and the words whose tag is wrong, counted from 1."""
        golds = self.golds([example])[0]
        wrong = [
            {"word": number, "gold": gold, "predicted": tag}
            for number, (gold, tag) in enumerate(zip(golds, prediction, strict=True), start=1)
            if gold != tag
        ]
        return {"source": example.key, "target": " ".join(golds), "prediction": " ".join(prediction), "wrong": wrong}

    @property
    def best(self) -> str:
        """The metric that selects the best checkpoint."""
        return self.config.best if self.config.best != "score" else "f1" if self.scheme else "accuracy"

    def judges(self, model_input: ModelInput) -> Judged:
        check_not_empty(model_input.text)
        words = split_words(model_input.text)
        (tags,) = self.tag([[word.text for word in words]])
        tagged = TaggedText.of(model_input.text, words, tags, self.scheme is not None)
        return Judged(
            words=tuple(JudgedWord(word.word, word.tag, word.probability) for word in tagged.words),
            spans=tuple(JudgedSpan(span.label, span.text, span.probability) for span in tagged.spans),
        )

    def explains(self, model_input: ModelInput, of: str | None = None, place: int | None = None) -> Explained:
        """Explain the score of a tag at a word, before the CRF."""
        words, place = [word.text for word in split_words(model_input.text)], place or 1
        check_not_empty(" ".join(words))
        if place > len(words):
            raise UserError(f"there is no word {place}; the text has {len(words)}")
        (encoded,) = self.reader.encode([words])
        pieces = to_device(self.reader.collate([encoded]), self.output.weight.device)

        def emissions(inputs: Any) -> Tensor:
            rows = Pieces(
                inputs, None, *(part.expand(len(tokens_of(inputs)), -1) for part in (pieces.starts, pieces.ends))
            )
            hidden, _ = self.body(rows.inputs, None)
            scores: Tensor = self.output(hidden if self.reader.is_whole else self.vector_of(hidden, rows))
            return scores[:, place - 1].float()

        tag = chosen_label(self.tags.names, emissions, pieces.inputs, of)
        tokens, own = named_places(self.reader.tokenizer, encoded.tokens)
        what = f"the score of {named(self.tags.names[tag])} at {named(words[place - 1])}"
        tokenizer = self.reader.tokenizer
        return Explained(
            self, pieces.inputs, lambda inputs: emissions(inputs)[:, tag], tokens, own, what, tokenizer, movable=False
        )

    def programs(self) -> list[ReadingProgram]:
        names = self.tags.names
        facts = {"tags": list(plain_tags(names).names), "scored_tags": list(names)} if self.scheme else {}
        return [
            ReadingProgram(
                "tagger", ["scores", "tags"], self.scored, words=not self.reader.is_whole, usage=USAGE, facts=facts
            )
        ]

    def scored(self, inputs: Traced) -> tuple[Tensor, Tensor]:
        """Return a score for every tag of every word, and the best tags: for a CRF the best sequence, for phrases in
        IOB2."""
        words = inputs.words
        scores = self.emissions(TagBatch(inputs.texts[0], words, words))
        tags = scores.argmax(-1) if self.crf is None else self.crf.viterbi(scores, words)[0]
        if self.scheme:
            plain = plain_tags(self.tags.names)
            table = torch.tensor([*plain.after, plain.first], device=tags.device)  # (tag before or none, tag)
            # Pad, then cut: for a length of one less, torch.export would ask whether it is one.
            before = F.pad(tags, (1, 0), value=len(plain.after))[:, :-1]
            tags = table[before, tags]
        return scores, tags.masked_fill(~words, 0)


def learnt_tags(tags: Sequence[str], scheme: str | None) -> list[str]:
    return convert_tags(tags, scheme) if scheme else list(tags)


def scheme_of(tags: Sequence[str], config: TaggingConfig) -> str | None:
    """Return the scheme in which phrases are learnt; None if the tags are not phrase tags, or are kept as they are."""
    phrases = all(map(is_phrase_tag, tags)) and any(tag != OUTSIDE for tag in tags)
    return config.scheme if phrases and config.scheme != "none" else None


def train_tagging_vocabularies(
    train: TrainTokenizer, joint: bool, examples: Sequence[Sentence], config: TaggingConfig
) -> dict[str, Any]:
    """Train a tokenizer, and build the table of tags: for phrases, all tags of the scheme for each of their labels."""
    tags = {tag for example in examples for tag in example.tags or ()}
    if len(tags) == 1:
        raise UserError(
            f"every word of the training part has the tag {named(*tags)}, so there is nothing to tell apart; check"
            " data.tags"
        )
    if scheme := scheme_of(sorted(tags), config):
        labels = {tag_parts(tag)[1] for tag in tags if tag != OUTSIDE}
        prefixes = SCHEMES[scheme].replace(OUTSIDE, "")
        tags = {OUTSIDE} | {f"{prefix}-{label}" if label else prefix for label in labels for prefix in prefixes}
    return {
        "tokenizer": train(Texts(lambda: (one_word_each(example.words) for example in examples)), []),
        "tags": Labels.of(tags),
    }


def build_tagger(body: Any, vocabularies: dict[str, Any], config: TaggingConfig) -> Tagger:
    return Tagger(body, WordReader.of(body, vocabularies), vocabularies["tags"], config)


TAGS = {"tokenizer": Tokenizer, "tags": Labels}


class SentenceRow(Section):
    text: str | list[str] = Field(description="a sentence, or a list of its words")


class TagOptions(Options):
    tokenised: bool = Field(False, description="the text is tokenized: split it at spaces only")


def tag_rows(
    tasks: Sequence[Tagger], rows: Sequence[SentenceRow], options: TagOptions, numbers: Sequence[int]
) -> list[TaggedText]:
    texts = [row.text for row in rows]
    split = [
        (
            listed_words(text)
            if not isinstance(text, str)
            else spaced_words(text)
            if options.tokenised
            else split_words(text)
        )
        for text in texts
    ]
    tags = tasks[0].tag([[word.text for word in words] for words in split], numbers)
    joined = [text if isinstance(text, str) else " ".join(text) for text in texts]
    return [TaggedText.of(*columns, tasks[0].scheme is not None) for columns in zip(joined, split, tags, strict=True)]


def tagged_objects(number: int, row: SentenceRow, tagged: TaggedText | None, options: TagOptions) -> Objects:
    assert tagged is not None
    return [{"line": number, **asdict(tagged)}]


def as_conll(each: Answered[SentenceRow, TaggedText]) -> str:
    return f"{each.answer}\n" if each.answer is not None and each.answer.words else ""


def as_spans(each: Answered[SentenceRow, TaggedText]) -> str:
    spans = [] if each.answer is None else each.answer.spans
    rows = ((span.label, span.text.replace("\t", " "), str(span.start), str(span.stop)) for span in spans)
    return "".join("\t".join(row) + "\n" for row in rows)


def as_inline(each: Answered[SentenceRow, TaggedText]) -> str:
    """Return the line with its tags or phrases marked in it."""
    tagged = each.answer
    assert tagged is not None
    if tagged.spans:
        marks = [(span.start, span.stop, f"[{span.label} {span.text}]") for span in tagged.spans]
    elif any(word.tag != OUTSIDE for word in tagged.words):
        marks = [(word.start, word.stop, f"{word.word}/{word.tag}") for word in tagged.words]
    else:
        marks = []
    text, end = "", 0
    for start, stop, mark in marks:
        between = tagged.text[end:start] or (" " if end else "")
        text, end = text + between + mark, stop
    return text + tagged.text[end:]


def check_format(task: Tagger, format: str, options: TagOptions) -> None:
    if format == "spans" and task.scheme is None:
        raise UserError(
            "the format spans needs phrase tags, such as B-PER, and this run tags single words; use"
            f" {argument('format', 'conll')} or {argument('format', 'inline')}"
        )


def sentence_rows(path: Path, data: Any, columns: Mapping[str, str]) -> Iterator[SentenceRow] | None:
    """Read the words of a CoNLL or CoNLL-U file, or of a user's format that has words. The column of a CoNLL file is
    that of the run's training data, if that was a number."""
    format = find_format(path) if formats_named(path) else "lines"
    has_words = FORMATS[format].sentences is not None or (FORMATS[format].has_lists and format != "jsonl")
    if columns or not has_words:
        return None
    words = data.words
    if words is not None and (format == "conllu" or (format == "conll" and as_number(words) is None)):
        words = None
    sentences = read_sentences(path, words=words, with_tags=False, with_heads=False)
    return (SentenceRow(text=list(sentence.words)) for sentence in sentences)


def without_places(task: Tagger, tags: Iterable[str]) -> list[str]:
    """Return tags without the prefix that marks a position in a phrase."""
    return [tag.partition("-")[2] or tag if task.scheme is not None else tag for tag in tags]


TAG: Use[SentenceRow, TaggedText] = Use(
    about="tag words: parts of speech, names",
    row=SentenceRow,
    options=TagOptions,
    answer=tag_rows,
    objects=tagged_objects,
    formats={"conll": line_each(as_conll), "spans": line_each(as_spans), "inline": line_each(as_inline)},
    read_file=sentence_rows,
    answers_blank=True,
    check=check_format,
    watch=Watch(
        tokens=lambda task, row: tokens_read(
            task.reader.tokenizer, [row.text if isinstance(row.text, str) else " ".join(row.text)], by_words=True
        ),
        confidence=lambda tagged: fmean(word.probability for word in tagged.words) if tagged.words else None,
        labels=lambda task, tagged: without_places(task, (word.tag for word in tagged.words)),
        row_of=lambda example: SentenceRow(text=list(example.words)),
        own_labels=lambda task, example: without_places(task, example.tags),
        is_quick=True,
    ),
    help="""Each TEXT, or else each line of standard input or of --file, is a sentence. It is split into words and
punctuation first. With --tokenised it is split at spaces only, for text that is tokenized already. The words of a line
are printed as soon as they are ready.

  clew tag runs/conll-tagger 'Ada Lovelace met Mr. Babbage in London.' --format inline
  echo 'Ada Lovelace met Mr. Babbage in London.' | clew tag runs/conll-tagger
  clew tag runs/ewt-tagger --file sentences.txt --tokenised > sentences.conll
  clew tag runs/conll-tagger --file sentences.txt --format spans
  clew tag runs/conll-tagger --file sentences.txt --format inline
  clew tag runs/conll-tagger --file sentences.txt --json
  clew tag runs/ewt-tagger --file corpus.conllu
  clew tag runs/conll-tagger --file letters.csv --text body

In a CoNLL or CoNLL-U file (.conll, .conllu) the words are tagged as they are; the other columns are ignored. In a
table (.csv, .tsv, .jsonl) --text is the name or number of the column with the sentences.

--format conll prints one line per word, `word<TAB>tag<TAB>probability`, and an empty line after each sentence. spans
prints one line per phrase, `label<TAB>text<TAB>start<TAB>stop`, and an empty line after each sentence. inline prints
each sentence with its phrases marked as `[PER Ada Lovelace]`, or with the tags of single words as `rains/VERB`. json
prints one object per sentence with its words and phrases. start and stop are characters of the line, counted from 0;
stop is exclusive.""",
)

TAGGING = TaskEntry(
    config=TaggingConfig,
    build=build_tagger,
    vocabularies=TAGS,
    learning=Examples(TAGGED, train_tagging_vocabularies),
    baselines=tag_baselines,
    uses={"tag": TAG},
    pipeline="token-classification",
)
