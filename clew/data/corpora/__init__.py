"""Corpora by name: those that ship with the package, and those in the user's folder CLEW_DATA."""

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from clew.core.errors import UserError, unknown
from clew.data.caching.parts import gather
from clew.data.corpora.contents import (
    Choices,
    ExampleContent,
    LabelTable,
    PairTable,
    ParallelText,
    Recordings,
    RunningText,
    Tagged,
    Trees,
)
from clew.data.corpora.corpus import Corpus
from clew.data.corpora.glue import GLUE
from clew.data.corpora.picture_contents import Captions, IdxPictures
from clew.data.corpora.samples import EMBEDDED
from clew.data.example_splits import PARTS, split_examples
from clew.data.notes import Notes
from clew.data.records import Column

FEW = 5
DEBIAN = "/usr/share/datasets"
"""The folder of Debian's dataset packages."""


class Files(NamedTuple):
    """The files of running text."""

    train: Path
    valid: Path | None = None
    test: Path | None = None


def find_corpus(name: str) -> Files:
    """Return the files of a corpus of running text. If they are missing, the error says how to get them."""
    check_kind(name, RunningText.kind)
    return Files(**{part: files[0] for part, files in find_files(name).items()})


def read_corpus(
    name: str,
    *,
    source: str | None = None,
    target: str | None = None,
    tags: str | None = None,
    kind: str | None = None,
    seed: int = 1,
    notes: Notes | None = None,
) -> dict[str, Sequence[Any]]:
    """Read the examples of every part. With `kind`, a corpus with another kind of content is refused.

    `source` and `target` choose languages and `tags` a kind of tags if the corpus has several. `seed` decides the split
    of a corpus that has no predefined parts.
    """
    corpus = get_corpus(name)
    content = corpus.content
    if kind is not None:
        check_kind(name, kind)
    if not isinstance(content, ExampleContent):
        raise UserError(f"the corpus {name} holds {content.kind}, not examples; choose another corpus or task")
    choices = {"source": source, "target": target, "tags": tags}
    notes = Notes() if notes is None else notes
    parts = {part: gather(content.read(files, choices, notes)) for part, files in find_files(name, **choices).items()}
    return split_examples(
        parts["train"],
        parts.get("valid"),
        parts.get("test"),
        seed=seed,
        valid_fraction=corpus.cut.get("valid", 0.0),
        test_fraction=corpus.cut.get("test", 0.0),
        key=content.key(choices),
    )


def holds_sentences(name: str) -> bool:
    """Whether the examples of a corpus are sentences (with tags, labels or trees), which can be read as text."""
    return isinstance(get_corpus(name).content, (Tagged, LabelTable, Trees))


def read_corpus_lines(name: str) -> dict[str, str]:
    """Read every part of a corpus of sentences as text, with one example per line and a space between words."""
    return {
        part: "".join(f"{' '.join(example.key.split())}\n" for example in examples)
        for part, examples in read_corpus(name).items()
    }


def check_kind(name: str, kind: str) -> None:
    """Refuse a corpus with another kind of content."""
    own_kind = get_corpus(name).content.kind
    if own_kind != kind:
        suitable = ", ".join(other for other, corpus in CORPORA.items() if corpus.content.kind == kind)
        raise UserError(f"the corpus {name} holds {own_kind}; this task reads {kind}, such as {suitable}")


def find_files(name: str, **choices: Column | None) -> dict[str, tuple[Path, ...]]:
    """Return the files of every part that has any. If one is missing, the error says how to get it. Files may be
    gzipped."""
    corpus = get_corpus(name)
    root = root_of(corpus)
    paths = {part: paths_of(corpus, part, choices) for part in PARTS if getattr(corpus, part) is not None}
    files = {
        part: [None if root is None else existing_file(Path(root) / path) for path in part_paths]
        for part, part_paths in paths.items()
    }
    for part in corpus.may_lack:
        if None in files.get(part, ()):
            del paths[part], files[part]
    missing = [path for part in paths for path, file in zip(paths[part], files[part], strict=True) if file is None]
    if missing:
        place = f"below CLEW_DATA ({root})" if root else "below a folder, and set CLEW_DATA to that folder"
        raise UserError(
            f"the corpus {name} does not ship with clew; put {first_few(list(dict.fromkeys(missing)))} {place};"
            f" {corpus.published}; without it, try `clew train {corpus.instead}`"
        )
    return {part: tuple(file for file in part_files if file is not None) for part, part_files in files.items()}


def paths_of(corpus: Corpus, part: str, choices: Choices) -> list[str]:
    paths = getattr(corpus, part)
    return list(
        chain.from_iterable(
            corpus.content.files(path, choices) for path in ([paths] if isinstance(paths, str) else paths)
        )
    )


def existing_file(path: Path) -> Path | None:
    return next((file for file in (path, Path(f"{path}.gz")) if file.is_file()), None)


def first_few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:FEW]) + (f" and {len(paths) - FEW} more" if len(paths) > FEW else "")


def get_corpus(name: str) -> Corpus:
    """Return a corpus in its other layout if the files of that exist, else in its first."""
    if name not in CORPORA:
        raise unknown("corpus", name, CORPORA)
    corpus = CORPORA[name]
    return corpus.other if corpus.other is not None and has_all_files(corpus.other) else corpus


def has_all_files(corpus: Corpus) -> bool:
    """Whether every file of a layout exists."""
    root = root_of(corpus)
    paths = [path for part in PARTS if getattr(corpus, part) is not None for path in paths_of(corpus, part, {})]
    return root is not None and all(existing_file(Path(root) / path) is not None for path in paths)


def root_of(corpus: Corpus) -> Path | str | None:
    """Return the folder with a corpus's files."""
    if corpus.packaged:
        return DEBIAN
    return EMBEDDED if corpus.embedded else os.environ.get("CLEW_DATA")


def wsj(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"wsj-sample/wsj_{number:04}.mrg" for number in range(first, last + 1))


def craft(part: str) -> tuple[str, ...]:
    return tuple(f"craft/{article}.tree" for article in CRAFT[part].split())


# CRAFT's official lists (articles/ids): 60, 7 and 30 articles, with 18,951, 2,780 and 9,099 trees
CRAFT = {
    "train": (
        """
        11532192 11597317 11897010 12079497 12546709 12585968 12925238 14609438 14611657 14723793 14737183 15005800
        15040800 15061865 15207008 15314655 15314659 15320950 15328533 15345036 15492776 15550985 15588329 15630473
        15676071 15760270 15819996 15836427 15876356 15917436 15921521 15938754 16098226 16103912 16109169 16110338
        16121255 16121256 16216087 16221973 16255782 16279840 16362077 16433929 16462940 16504143 16504174 16507151
        16539743 16579849 16628246 16670015 16700629 16870721 17002498 17020410 17022820 17069463 17078885 17083276
    """
    ),
    "valid": (
        """
        17194222 17244351 17425782 17447844 17590087 17608565 17696610
    """
    ),
    "test": (
        """
        11319941 11604102 14624252 14675480 14691534 15018652 15070402 15238161 15328538 15560850 15615595 15619330
        15784609 15850489 15882093 16026622 16027110 16410827 16517939 16611361 16787536 16800892 16968134 17029558
        17201918 17206865 17465682 17503968 17565376 17677002
    """
    ),
}


def fashion(packaged: bool = False, other: Corpus | None = None) -> Corpus:
    return Corpus(
        "fashion-mnist/train-{}-ubyte",
        test="fashion-mnist/t10k-{}-ubyte",
        content=IdxPictures(FASHION),
        cut={"valid": 1 / 12},
        packaged=packaged,
        other=other,
        published=(
            "it is https://github.com/zalandoresearch/fashion-mnist, and in Debian the package dataset-fashion-mnist"
        ),
        instead="coco-captioner",
    )


FASHION = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


CORPORA = {
    "tinyshakespeare": Corpus("lm/tinyshakespeare.txt", embedded=True),
    "ptb": Corpus(
        "ptb/ptb.train.txt",
        "ptb/ptb.valid.txt",
        "ptb/ptb.test.txt",
        published=(
            "it is Mikolov's version of the Penn Treebank, published with his RNNLM toolkit as simple-examples/data"
        ),
        instead="shakespeare-lstm",
    ),
    "tatoeba-sample": Corpus("mt/train.{}", "mt/dev.{}", "mt/test.{}", ParallelText(("en", "de")), embedded=True),
    "tatoeba": Corpus(
        "tatoeba/deu.txt",
        content=PairTable({"en": 1, "de": 2}, split_by="en"),  # an English sentence has several translations
        cut={"valid": 0.02, "test": 0.02},
        published="it is deu-eng.zip from https://www.manythings.org/anki/, made from https://tatoeba.org",
        instead="tatoeba-transformer",
    ),
    "multi30k": Corpus(
        "multi30k/train.{}",
        "multi30k/val.{}",
        "multi30k/test_2016_flickr.{}",
        ParallelText(("en", "de", "fr", "cs")),
        published="it is data/task1/raw in https://github.com/multi30k/dataset",
        instead="tatoeba-transformer",
    ),
    "sentiment-sample": Corpus(
        "sentiment/train.tsv", "sentiment/dev.tsv", "sentiment/test.tsv", LabelTable(text=2, label=1), embedded=True
    ),
    "gum-trees-sample": Corpus(
        "trees/train.tsv", "trees/dev.tsv", "trees/test.tsv", LabelTable(text=3, label=2), embedded=True
    ),
    "ewt-sample": Corpus(
        "tagging/train.tsv", "tagging/dev.tsv", "tagging/test.tsv", Tagged({"upos": 2, "xpos": 3}), embedded=True
    ),
    "ewt": Corpus(
        "ewt/en_ewt-ud-train.conllu",
        "ewt/en_ewt-ud-dev.conllu",
        "ewt/en_ewt-ud-test.conllu",
        Tagged({"upos": "upos", "xpos": "xpos", "feats": "feats", "deprel": "deprel"}, "conllu"),
        published="it is https://github.com/UniversalDependencies/UD_English-EWT",
        instead="ewt-tagger",
    ),
    "conll2003": Corpus(
        "conll2003/eng.train",
        "conll2003/eng.testa",
        "conll2003/eng.testb",
        Tagged({"ner": 4, "chunk": 3, "pos": 2}),
        may_lack=("test",),
        published=(
            "its annotation is at https://www.clips.uantwerpen.be/conll2003/ner/; its text is Reuters RCV1, from NIST"
        ),
        instead="ewt-tagger",
    ),
    "conll2000": Corpus(
        "conll2000/train.txt",
        test="conll2000/test.txt",
        content=Tagged({"chunk": 3, "pos": 2}),
        cut={"valid": 0.1},
        published="it is at https://www.clips.uantwerpen.be/conll2000/chunking/",
        instead="ewt-tagger",
    ),
    "sst": Corpus(
        "sst-trees/train.txt",
        "sst-trees/dev.txt",
        "sst-trees/test.txt",
        Trees(),
        published="it is trainDevTestTrees_PTB.zip from https://nlp.stanford.edu/sentiment/",
        instead="gum-tree-lstm",
    ),
    "craft-sample": Corpus("parsing/train.mrg", "parsing/dev.mrg", "parsing/test.mrg", Trees(), embedded=True),
    "craft": Corpus(
        craft("train"),
        craft("valid"),
        craft("test"),
        Trees(),
        published="it is structural-annotation/treebank/penn in https://github.com/UCDenver-ccp/CRAFT",
        instead="craft-parser",
    ),
    # split by article, one per file: 3,068, 433 and 413 trees. All are from sections 00 and 01, so scores cannot be
    # compared with those on section 23
    "wsj-sample": Corpus(
        wsj(1, 139),
        wsj(140, 169),
        wsj(170, 199),
        Trees(),
        published="it is corpora/treebank/combined in NLTK's data, https://www.nltk.org/nltk_data/",
        instead="craft-parser",
    ),
    "coco-sample": Corpus(
        "captioning/captions.json", content=Captions("images"), cut={"valid": 0.1, "test": 0.1}, embedded=True
    ),
    "flickr8k": Corpus(
        "flickr8k/Flickr_8k.trainImages.txt",
        "flickr8k/Flickr_8k.devImages.txt",
        "flickr8k/Flickr_8k.testImages.txt",
        Captions("flickr8k/images-128.tar", "flickr8k/Flickr8k.token.txt"),
        published=(
            "its captions and lists are Flickr8k_text.zip of Hodosh et al. (2013); images-128.tar has its photographs,"
            " scaled down to 128 pixels on their short side"
        ),
        instead="coco-captioner",
    ),
    "digits-sample": Corpus("speech/train.tar", "speech/dev.tar", "speech/test.tar", Recordings(), embedded=True),
    "fsdd": Corpus(
        "speech/fsdd.tar",
        content=Recordings(),
        cut={"valid": 0.2, "test": 0.2},  # one of five speakers each
        published="it is recordings/ in https://github.com/Jakobovski/free-spoken-digit-dataset, as one tar",
        instead="digits-speech",
    ),
    "fashion-mnist": fashion(other=fashion(packaged=True)),
    **GLUE,
}
