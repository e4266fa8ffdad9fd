"""The examples of a config, in parts: from a corpus, a file, or a generator. One function a kind of data."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from clew.core.errors import UserError, unknown
from clew.data.contents import LabelTable, Tagged, Trees
from clew.data.corpora import CORPORA, get_corpus, read_corpus
from clew.data.dialogue_files import read_dialogues, replies
from clew.data.example_splits import PARTS, split_examples
from clew.data.examples import Dialogue, Labelled, LabelledTree, Pair, Parsed, Question, Sentence
from clew.data.labelled_trees import labelled_nodes, labelled_roots, read_labelled_trees, renamed_nodes
from clew.data.notes import Notes
from clew.data.readers import read_labelled, read_pairs, read_parsed, read_sentences
from clew.data.squad_files import read_questions
from clew.data.synthetic import SYNTHETIC, synthetic_lines
from clew.data.synthetic_questions import FACTS, synthetic_questions
from clew.data.trees import cleaned
from clew.runs.build import check_given
from clew.runs.config import DataConfig

Parts = dict[str, Sequence[Any]]


def read_examples(kind: str, data: DataConfig, seed: int, notes: Notes | None = None) -> Parts:
    """Train, valid, and test where there is one."""
    notes = Notes(faults=data.faults) if notes is None else notes
    parts = READERS[kind](data, seed, notes)
    if data.limit is not None:
        drawn = np.random.default_rng(seed).permutation(len(parts["train"]))[: data.limit]
        parts["train"] = [parts["train"][place] for place in sorted(drawn)]
    for part, examples in parts.items():
        if not examples:
            raise UserError(f"the {part} part has no examples; {notes.report()[0] if notes.skipped else 'give more data'}")
    return parts


def read_files(kind: str, data: DataConfig, files: Any, notes: Notes) -> Sequence[Any]:
    """The examples of a file, or of the two of parallel text."""
    return list(FILE_READERS[kind](files, data, notes))


def pairs_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    if data.turns is not None:
        return dialogues_of(data, seed, notes)
    check_given(data, "data.train names your pairs, e.g. `clew train translate data.train=pairs.tsv` or data.train=[train.de,train.en]")
    if data.directions is not None:
        return many_directions(data, seed, notes)
    if data.corpus in SYNTHETIC:
        lines = synthetic_lines(data.corpus, data.size, seed, data.shortest, data.longest)
        pairs = [Pair(line.source, line.target, f"{data.corpus} {number}") for number, line in enumerate(lines, start=1)]
        return cut(pairs, data, seed)
    if data.corpus is not None:
        if data.corpus not in CORPORA:
            raise unknown("corpus", data.corpus, [*CORPORA, *SYNTHETIC])
        source, target = language(data.source, "source"), language(data.target, "target")
        return dict(read_corpus(data.corpus, source=source, target=target, kind="pairs", seed=seed, notes=notes))
    return cut_files(lambda files: pairs_in(files, data, notes), data, seed)


def pairs_in(files: Any, data: DataConfig, notes: Notes) -> Iterator[Pair]:
    if data.turns is not None:
        return (pair for dialogue in dialogues_in(files, notes) for pair in replies(dialogue, data.turns))
    if isinstance(files, (list, tuple)):
        if len(files) > 2:
            raise UserError(f"pairs are in one file, or in two whose lines translate each other, not in {len(files)}")
        files = files[0] if len(files) == 1 else files
    return read_pairs(files, source=data.source, target=data.target, format=data.format, header=data.header, notes=notes)


def many_directions(data: DataConfig, seed: int, notes: Notes) -> Parts:
    """The pairs of every direction, each marked with the language that it goes into."""
    if data.source is not None or data.target is not None:
        raise UserError("data.directions takes the place of data.source and data.target; leave these out")
    found: dict[str, list[Pair]] = {}
    for direction in data.directions or []:
        source, dash, target = direction.partition("-")
        if not (source and dash and target):
            raise UserError(f"data.directions: '{direction}' is not two languages with a hyphen between, such as de-en")
        for part, pairs in one_direction(data, source, target, seed, notes).items():
            found.setdefault(part, []).extend(pair._replace(id=f"{pair.id} {direction}", into=target) for pair in pairs)
    if not found:
        raise UserError("data.directions is empty; name at least one, such as [de-en]")
    return dict(found)


def one_direction(data: DataConfig, source: str, target: str, seed: int, notes: Notes) -> Parts:
    """Of a corpus, or of a file a language: data.train=folder/train with folder/train.de, folder/train.en and so on. Lines are split by
    their number, so that a sentence is on one side in every language."""
    if data.corpus is not None:
        return dict(read_corpus(data.corpus, source=source, target=target, kind="pairs", seed=seed, notes=notes))
    given: dict[str, list[Pair]] = {}
    for part in PARTS:
        if (files := getattr(data, part)) is None:
            continue
        if isinstance(files, list):
            raise UserError(f"with data.directions, data.{part} is what the names of its files begin with, not a list")
        given[part] = list(read_pairs(files, source=source, target=target, format="parallel", notes=notes))
    return cut(given["train"], data, seed, given.get("valid"), given.get("test"), key=lambda pair: pair.id.rpartition(":")[2])


def dialogues_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    """Replies with what was said before them. Dialogues are split, not replies: no dialogue is on two sides."""
    if data.corpus is not None:
        raise UserError(f"data.turns is for files of dialogues, and data.corpus={data.corpus} is none; leave one of them out")
    check_given(data, "data.train names your dialogues, a turn a line, e.g. `clew train dialogue data.train=talk.txt`")
    parts = cut_files(lambda files: dialogues_in(files, notes), data, seed)
    return {part: [pair for dialogue in parts[part] for pair in replies(dialogue, data.turns or 1)] for part in parts}


def dialogues_in(files: Any, notes: Notes) -> Iterator[Dialogue]:
    for file in one_or_more(files):
        yield from read_dialogues(Path(file).expanduser(), notes=notes)


def trees_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    """Trees as parsers learn them: no traces, no function tags, one root."""
    check_given(data, "data.train names your trees, e.g. `clew train parse data.train=trees.mrg`")

    if data.corpus is not None:
        found = read_corpus(data.corpus, kind=Trees.kind, seed=seed, notes=notes)
        return {part: list(clean(examples, notes)) for part, examples in found.items()}
    return cut_files(lambda files: trees_in(files, data, notes), data, seed)


def trees_in(files: Any, data: DataConfig, notes: Notes) -> Iterator[Parsed]:
    return clean(read_parsed(files), notes)


def sentences_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    check_given(data, "data.train names your tagged words, e.g. `clew train tag data.train=train.conll data.words=1 data.tags=4`")
    if data.corpus is not None:
        tags = None if data.tags is None else str(data.tags)
        return dict(read_corpus(data.corpus, tags=tags, kind=Tagged.kind, seed=seed, notes=notes))
    return cut_files(lambda files: sentences_in(files, data, notes), data, seed)


def sentences_in(files: Any, data: DataConfig, notes: Notes) -> Iterator[Sentence]:
    options: dict[str, Any] = {"words": data.words, "tags": data.tags, "format": data.format, "with_heads": False}
    return chain.from_iterable(read_sentences(file, notes=notes, **options) for file in one_or_more(files))


def labelled_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    """Texts with labels; an unsplit file is split so that every label has its share on both sides."""
    check_given(data, "data.train names your labelled texts, e.g. `clew train classify data.train=my.csv data.text=body data.label=queue`")
    if data.corpus is None:
        return cut_files(lambda files: labelled_in(files, data, notes), data, seed, by_label=True)
    if get_corpus(data.corpus).content.kind == Trees.kind:
        found = read_corpus(data.corpus, seed=seed, notes=notes)
        texts = {part: [Labelled(one.key, (one.tree.label,), id=one.id) for one in examples] for part, examples in found.items()}
        if data.phrases:
            texts["train"] = [phrase for one in found["train"] for phrase in phrases_of(one)]
    else:
        texts = {part: list(each) for part, each in read_corpus(data.corpus, kind=LabelTable.kind, seed=seed, notes=notes).items()}
    return {part: list(renamed(examples, data, notes)) for part, examples in texts.items()}


def phrases_of(example: Parsed) -> Iterator[Labelled]:
    """Every phrase of a tree with labels on all nodes, words among them (Socher et al. 2013)."""
    for number, node in enumerate(example.tree.nodes(), start=1):
        yield Labelled(" ".join(node.words), (node.label,), id=f"{example.id} phrase {number}")


def labelled_in(files: Any, data: DataConfig, notes: Notes) -> Iterator[Labelled]:
    options: dict[str, Any] = {"text": data.text, "second": data.second, "label": data.label, "label_separator": data.label_separator}
    read = (read_labelled(file, format=data.format, header=data.header, notes=notes, **options) for file in one_or_more(files))
    return renamed(chain.from_iterable(read), data, notes)


def renamed(examples: Iterable[Labelled], data: DataConfig, notes: Notes) -> Iterator[Labelled]:
    """Labels by their other names; an example whose label has none is left out."""
    names = data.label_map
    for example in examples:
        if names is None:
            yield example
            continue
        labels = [names.get(label, label) for label in example.labels]
        if None in labels:
            notes.skip("labels that data.label_map leaves out", example.id)
        else:
            yield example._replace(labels=tuple(dict.fromkeys(label for label in labels if label is not None)))


def one_or_more(files: Any) -> Sequence[Any]:
    return files if isinstance(files, (list, tuple)) else [files]


def clean(examples: Iterable[Parsed], notes: Notes) -> Iterator[Parsed]:
    for example in examples:
        tree = cleaned(example.tree)
        if tree is None:
            notes.skip("trees of traces alone", example.id)
        else:
            yield Parsed(tree, example.id)


def labelled_trees_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    """Trees with labels at all nodes, or at the root; an unsplit file is split as texts with labels are."""
    check_given(data, "data.train names your labelled trees, e.g. `clew train classify-trees data.train=trees.txt`")
    if data.corpus is None:
        return cut_files(lambda files: labelled_trees_in(files, data, notes), data, seed, by_label=True)
    content = get_corpus(data.corpus).content
    if not isinstance(content, (Trees, LabelTable)):
        raise UserError(f"the corpus {data.corpus} holds {content.kind}; this task reads trees with labels, such as gum-trees-sample, sst")
    as_trees: Callable[[Any, Notes], Iterator[LabelledTree]] = labelled_nodes if isinstance(content, Trees) else labelled_roots
    found = read_corpus(data.corpus, seed=seed, notes=notes)
    return {part: list(renamed_nodes(as_trees(examples, notes), data.label_map or {}, notes)) for part, examples in found.items()}


def labelled_trees_in(files: Any, data: DataConfig, notes: Notes) -> Iterator[LabelledTree]:
    columns = {"text": data.text, "label": data.label, "format": data.format, "header": data.header, "label_map": data.label_map}
    for file in one_or_more(files):
        yield from read_labelled_trees(file, **columns, notes=notes)  # type: ignore[arg-type]


def questions_of(data: DataConfig, seed: int, notes: Notes) -> Parts:
    """Questions on passages; no passage is on two sides."""
    check_given(data, "data.train names your questions, e.g. `clew train answer data.train=train-v1.1.json`")
    if data.corpus is None:
        return cut_files(lambda files: questions_in(files, data, notes), data, seed)
    if data.corpus != FACTS:
        raise unknown("corpus of questions", data.corpus, [FACTS])
    return cut(synthetic_questions(data.size, seed, data.shortest, data.longest), data, seed)


def questions_in(files: Any, data: DataConfig, notes: Notes) -> Iterator[Question]:
    columns = {role: getattr(data, role) for role in ("question", "passage", "answer", "answer_start")}
    options: dict[str, Any] = {**columns, "format": data.format, "header": data.header}
    return chain.from_iterable(read_questions(file, notes=notes, **options) for file in one_or_more(files))


def cut_files(read: Callable[[Any], Iterable[Any]], data: DataConfig, seed: int, *, by_label: bool = False) -> Parts:
    given = {part: list(read(files)) for part in PARTS if (files := getattr(data, part)) is not None}
    by = {"stratify": lambda example: example.label} if by_label and come_again(example.label for example in given["train"]) else {}
    return cut(given["train"], data, seed, given.get("valid"), given.get("test"), **by)


def come_again(labels: Iterable[str]) -> bool:
    """Whether most have a label that others have too, as numbers may not."""
    counts = Counter(labels)
    return 2 * sum(count == 1 for count in counts.values()) < counts.total()


def cut(train: Sequence[Any], data: DataConfig, seed: int, valid: Any = None, test: Any = None, **by: Callable[[Any], str]) -> Parts:
    """Parts that are not given are cut off the training part, `by` a key and in equal shares of each stratum."""
    fractions = {"valid_fraction": data.valid_fraction, "test_fraction": data.test_fraction}
    return dict(split_examples(train, valid, test, seed=seed, **fractions, **by))  # type: ignore[arg-type]


def language(name: str | int | None, role: str) -> str | None:
    if isinstance(name, int):
        raise UserError(f"data.{role} is a number ({name}), but a corpus has languages; name one")
    return name


def refuse(data: Any, *more: Any) -> Any:
    raise UserError(
        "the task representation has nothing to learn, and so nothing to be scored by; train another task on its run, "
        "e.g. `clew train finetune-classify transfer.from=RUN data.train=FILE`"
    )


READERS: dict[str, Callable[[DataConfig, int, Notes], Parts]] = {
    "pairs": pairs_of,
    "trees": trees_of,
    "tagged": sentences_of,
    "labelled": labelled_of,
    "labelled_trees": labelled_trees_of,
    "questions": questions_of,
    "nothing": refuse,
}
FILE_READERS: dict[str, Callable[[Any, DataConfig, Notes], Iterator[Any]]] = {
    "pairs": pairs_in,
    "trees": trees_in,
    "tagged": sentences_in,
    "labelled": labelled_in,
    "labelled_trees": labelled_trees_in,
    "questions": questions_in,
    "nothing": refuse,
}
