"""Probe the levels of a run: the frozen run reads a corpus, and linear probes predict labels from its vectors.

In a corpus with tags, words have labels; in a corpus with labelled texts, sentences have labels, and a sentence's
vector is the mean of its words' vectors.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError, unknown
from clew.inspection.linear_probes import UNKNOWN_LABEL, Fitted, fit_probe
from clew.instruments.subjects.probe_corpora import PARTS, ProbeCorpus, read_probe_corpus
from clew.instruments.subjects.subject import Looked, subject_of
from clew.layers.context import WORD_VECTORS
from clew.layers.pooling import MIXES
from clew.sources.words import WordReader
from clew.tasks.uses.level_vectors import mix_of, sentence_vectors, word_vectors

CORPORA_PROBED = ("ewt-sample", "sentiment-sample")
LIMIT = 1000
"""The maximum number of sentences of each part."""
SINGLE = {"last": "last", "first": "first", "second_to_last": "second to last"}
COMBINED = {
    "sum": "sum of the layers",
    "sum_with_embedding": "sum of all",
    "sum_last_four": "sum of the last four",
    "join_last_four": "the last four joined",
    "learned": "learned mix",
}
"""The names of mixes (`embedding.mix`) of one level, and of several levels."""


class Row(NamedTuple):
    """What is probed: a level, or a mix of the levels in `of`."""

    name: str
    mix: str
    of: tuple[int, ...]

    @property
    def is_level(self) -> bool:
        return self.mix not in COMBINED


@dataclass(frozen=True)
class Probed:
    """Probes of one corpus, one `Fitted` per row, and those of an untrained model if requested."""

    corpus: str
    unit: str
    counts: dict[str, int]
    num_labels: int
    probes: tuple[Fitted, ...]
    untrained: tuple[Fitted, ...]
    baselines: dict[str, float]

    @property
    def best(self) -> int:
        """The index of the row with the highest accuracy; of equal rows the first."""
        return max(range(len(self.probes)), key=lambda row: self.probes[row].accuracy)

    @property
    def margin(self) -> float:
        """Half of the 95 % interval of the best accuracy, if labels were independent."""
        share = self.probes[self.best].accuracy / 100
        return 196 * math.sqrt(share * (1 - share) / self.counts["test"])


@dataclass(frozen=True)
class Probing:
    """Results of probing a run, by corpus; prints as a table."""

    run: str
    rows: tuple[Row, ...]
    corpora: tuple[Probed, ...]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows: one per level or mix, then the baselines; the best of each corpus has a star."""
        header = ["level", "embedding.mix"]
        lines = [[row.name, row.mix] for row in self.rows]
        baselines = list(dict.fromkeys(name for corpus in self.corpora for name in corpus.baselines))
        below = [[name, ""] for name in baselines]
        for corpus in self.corpora:
            header += [corpus.corpus, "l2", *(["untrained"] if corpus.untrained else [])]
            for number, line in enumerate(lines):
                probe = corpus.probes[number]
                line += [f"{probe.accuracy:.2f}{'*' if number == corpus.best else ' '}", f"{probe.l2:g}"]
                line += [f"{corpus.untrained[number].accuracy:.2f}"] if corpus.untrained else []
            for name, line in zip(baselines, below, strict=True):
                value = corpus.baselines.get(name)
                line += ["" if value is None else f"{value:.2f} ", "", *([""] if corpus.untrained else [])]
        return header, [*lines, *below]

    def notes(self) -> list[str]:
        """Return notes on the data of the table, and the weights of learned mixes."""
        lines = []
        for corpus in self.corpora:
            counts = ", ".join(f"{corpus.counts[part]:,} {part}" for part in PARTS)
            lines.append(
                f"{corpus.corpus}: accuracy in predicting {corpus.num_labels} labels of {corpus.unit} ({counts});"
                f" differences below about {corpus.margin:.1f} may be chance"
            )
            for row, probe in zip(self.rows, corpus.probes, strict=True):
                if probe.weights:
                    weights = ", ".join(
                        f"{self.rows[level].name} {weight:.2f}"
                        for level, weight in zip(row.of, probe.weights, strict=True)
                    )
                    lines.append(f"{corpus.corpus}: the learned mix is {weights}")
        return lines

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield one JSON object per corpus and row."""
        for corpus in self.corpora:
            for number, row in enumerate(self.rows):
                probe = corpus.probes[number]
                record: dict[str, Any] = {
                    "corpus": corpus.corpus,
                    "level": row.name,
                    "mix": row.mix or None,
                    "accuracy": probe.accuracy,
                }
                record |= {
                    "valid_accuracy": probe.valid_accuracy,
                    "l2": probe.l2,
                    "weights": list(probe.weights) or None,
                }
                yield record | {
                    "untrained": corpus.untrained[number].accuracy if corpus.untrained else None,
                    "best": number == corpus.best,
                }
            for name, value in corpus.baselines.items():
                yield {"corpus": corpus.corpus, "baseline": name, "accuracy": value}

    def __repr__(self) -> str:
        header, rows = self.table()
        widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
        lines = [
            "  ".join(
                cell.rjust(width) if column > 1 else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            for line in (header, *rows)
        ]
        return "\n".join([f"Probing of {self.run}", *(line.rstrip() for line in lines), *self.notes()])


def probe_run(
    run: Looked,
    corpora: str | Sequence[str] = CORPORA_PROBED,
    *,
    limit: int = LIMIT,
    pieces: str = "last",
    control: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Probing:
    """Probe every level of a run or task, and mixes of levels, on corpora by name (`ewt-sample`, or `ewt-sample:xpos`
    for other tags).

    At most `limit` sentences of each part are read. `pieces` selects the tokens that represent a word: first, last or
    mean. `control` repeats the probes with the model before training; vectors from which training started are kept.
    """
    if pieces not in WORD_VECTORS:
        raise unknown("way to take a word's pieces", pieces, WORD_VECTORS)
    subject = subject_of(run)
    if (why := subject.lacks("vectors")) is not None:
        raise UserError(f"{why}; use a run that reads one sequence, such as a language model or a tagger")
    read = [read_probe_corpus(name, limit) for name in ([corpora] if isinstance(corpora, str) else corpora)]
    vectors_by_state = {"": subject.offers.vectors()}
    if control:
        untrained = subject.untrained()
        if untrained is None:
            raise UserError(
                f"{subject.name} is a module, and only a run can be rebuilt as it was before training; leave"
                " control out"
            )
        vectors_by_state[", untrained"] = untrained.offers.vectors()
    rows = rows_of(*vectors_by_state[""])
    results = []
    for corpus in read:
        fitted = []
        for which, (body, reader) in vectors_by_state.items():
            say(f"{corpus.name}{which}: reading {sum(map(len, corpus.sentences.values())):,} sentences")
            levels = {part: corpus_vectors(body, reader, corpus, part, pieces) for part in PARTS}
            labels = {part: label_ids(corpus, part, levels[part][0].device) for part in PARTS}
            probes = []
            for row in rows:
                say(f"{corpus.name}{which}: probing {row.name}")
                probes.append(
                    fit_probe({part: features_of(row, levels[part]) for part in PARTS}, labels, len(corpus.names))
                )
            fitted.append(tuple(probes))
        counts = {part: len(corpus.labels[part]) for part in PARTS}
        results.append(
            Probed(
                corpus.name,
                corpus.unit,
                counts,
                len(corpus.names),
                fitted[0],
                fitted[1] if control else (),
                corpus.baselines(),
            )
        )
    return Probing(subject.name, rows, tuple(results))


def rows_of(body: Any, reader: WordReader) -> tuple[Row, ...]:
    """Return every level, from the embedding up, and the mixes of levels with the same width as the last."""
    widths = [level.shape[-1] for level in word_vectors(body, reader, [["_"]])]
    mixable = [number for number, width in enumerate(widths) if width == widths[-1]]
    mixes = {name: mix_of(name, widths) for name in MIXES}
    single = {mixable[mixes[name].chosen[0]]: name for name in reversed(SINGLE)}
    rows = [
        Row(f"layer {number}" if number else "embedding", single.get(number, ""), (number,))
        for number in range(len(widths))
    ]
    summed: set[tuple[int, ...]] = set()
    for name, words in COMBINED.items():
        chosen = tuple(mixable[place] for place in mixes[name].chosen)
        is_sum = name.startswith("sum")
        if len(chosen) > 1 and not (is_sum and chosen in summed):
            summed |= {chosen} if is_sum else set()
            rows.append(
                Row(words.replace("the last four", "all") if len(chosen) == len(mixable) else words, name, chosen)
            )
    return tuple(rows)


def corpus_vectors(body: Any, reader: WordReader, corpus: ProbeCorpus, part: str, pieces: str) -> list[Tensor]:
    read = word_vectors if corpus.unit == "words" else sentence_vectors
    return read(body, reader, corpus.sentences[part], pieces)


def label_ids(corpus: ProbeCorpus, part: str, device: torch.device) -> Tensor:
    ids = {name: number for number, name in enumerate(corpus.names)}
    return torch.tensor([ids.get(label, UNKNOWN_LABEL) for label in corpus.labels[part]], device=device)


def features_of(row: Row, levels: Sequence[Tensor]) -> Tensor:
    """Return the vectors of a row; for a learned mix, those of all its levels."""
    chosen = [levels[number] for number in row.of]
    if row.mix == "learned":
        return torch.stack(chosen)
    return torch.cat(chosen, -1) if row.mix == "join_last_four" else sum(chosen[1:], chosen[0])
