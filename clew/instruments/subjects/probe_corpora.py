"""Data for probes: words with tags, or sentences with labels, from a named corpus. This file knows no model."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import numpy as np

from clew.baselines.most_frequent import fit_most_frequent_tag, most_frequent
from clew.core.errors import UserError
from clew.data.corpora import CORPORA, get_corpus
from clew.data.corpora.contents import LabelTable, Tagged, Trees
from clew.data.examples import Labelled, LabelledTree
from clew.data.kinds.kind import Kind
from clew.data.kinds.labelled import LABELLED, LabelledData
from clew.data.kinds.labelled_trees import LABELLED_TREES, LabelledTreesData
from clew.data.kinds.section import ExampleData
from clew.data.kinds.tagged import TAGGED, TaggedData
from clew.text.words import words_of

SEED = 1
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class ProbeCorpus:
    """Sentences with labels. `labels` lists the labels of all words, or of all sentences, in order."""

    name: str
    unit: str
    sentences: dict[str, list[list[str]]] = field(repr=False)
    labels: dict[str, list[str]] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """The labels of the training part."""
        return sorted(set(self.labels["train"]))

    def baselines(self) -> dict[str, float]:
        """Return accuracies without a model."""
        counts, test = Counter(self.labels["train"]), self.labels["test"]
        accuracies = {
            f"most frequent {'tag' if self.unit == 'words' else 'label'}": 100
            * test.count(most_frequent(counts))
            / len(test)
        }
        if self.unit == "words":
            sentences = self.sentences["train"]
            tagger = fit_most_frequent_tag(zip(sentences, by_sentence(sentences, self.labels["train"]), strict=True))
            tagged = chain.from_iterable(map(tagger.tag, self.sentences["test"]))
            accuracies["most frequent tag of each word"] = (
                100 * sum(a == b for a, b in zip(tagged, test, strict=True)) / len(test)
            )
        return accuracies


def read_probe_corpus(name: str, limit: int) -> ProbeCorpus:
    """Read the sentences and labels of a corpus with tags or labelled texts: at most `limit` random sentences per
    part."""
    if limit < 1:
        raise UserError(f"limit ({limit}) must be at least 1 sentence")
    corpus, _, tags = name.partition(":")
    content = get_corpus(corpus).content
    if isinstance(content, Tagged):
        tagged = read_parts(TAGGED, TaggedData(corpus=corpus, tags=tags or None), limit)
        words = {part: [list(example.words) for example in examples] for part, examples in tagged.items()}
        return ProbeCorpus(
            name,
            "words",
            words,
            {part: [tag for example in examples for tag in example.tags] for part, examples in tagged.items()},
        )
    if tags or not isinstance(content, (LabelTable, Trees)):
        able = ", ".join(
            other for other, candidate in CORPORA.items() if isinstance(candidate.content, (Tagged, LabelTable, Trees))
        )
        raise UserError(
            f"a probe predicts tags of words or labels of texts, and {name} holds {content.kind}; use one of {able}"
        )
    labelled = read_parts(LABELLED, LabelledData(corpus=corpus), limit)
    if isinstance(content, LabelTable) and all(example.text.startswith("(") for example in labelled["train"]):
        labelled = read_parts(LABELLED_TREES, LabelledTreesData(corpus=corpus), limit)
    words = {part: [sentence_of(example, content) for example in examples] for part, examples in labelled.items()}
    return ProbeCorpus(
        name, "sentences", words, {part: [example.label for example in examples] for part, examples in labelled.items()}
    )


def sentence_of(example: Labelled | LabelledTree, content: LabelTable | Trees) -> list[str]:
    if isinstance(example, LabelledTree):
        return list(example.words)
    return (example.text.split() if isinstance(content, Trees) else words_of(example.text)) or ["_"]


def read_parts(kind: Kind, data: ExampleData, limit: int) -> dict[str, list[Any]]:
    """Return train, valid and test parts. Without a test part, the validation part serves as test, and a tenth of the
    training part as valid."""
    parts = {part: list(examples) for part, examples in kind.read(data, SEED).items()}
    if "test" not in parts:
        cut = max(len(parts["train"]) // 10, 1)
        parts = {"train": parts["train"][:-cut], "valid": parts["train"][-cut:], "test": parts["valid"]}
    return {part: choose_examples(parts[part], limit) for part in PARTS}


def choose_examples(examples: list[Any], limit: int) -> list[Any]:
    """Choose at most `limit` examples, the same in every call."""
    chosen = np.random.default_rng(SEED).permutation(len(examples))[:limit]
    return [examples[number] for number in sorted(chosen)]


def by_sentence(sentences: Sequence[Sequence[str]], labels: Sequence[str]) -> list[Sequence[str]]:
    """Group the labels of words by sentence."""
    ends = list(accumulate(map(len, sentences)))
    return [labels[start:end] for start, end in zip([0, *ends], ends, strict=False)]
