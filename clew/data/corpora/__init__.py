"""Corpora by name: those that ship with the package, and those that a person has below the folder that CLEW_DATA
names."""

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
"""Where Debian's packages of datasets put their files."""


class Files(NamedTuple):
    """The files of running text."""

    train: Path
    valid: Path | None = None
    test: Path | None = None


def find_corpus(name: str) -> Files:
    """The files of a corpus of running text, or a sentence on how to get them."""
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
    """The examples of every part, which are to be of a `kind` where one is given.

    `source` and `target` choose languages and `tags` a kind of tags, where the corpus has several; `seed` decides what
    is cut off where the corpus has no parts of its own.
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
    """Whether a corpus of examples can be read as text: sentences with tags, labels or trees."""
    return isinstance(get_corpus(name).content, (Tagged, LabelTable, Trees))


def read_lines(name: str) -> dict[str, str]:
    """The text of every part of such a corpus, one example a line, with a space between words."""
    return {
        part: "".join(f"{' '.join(example.key.split())}\n" for example in examples)
        for part, examples in read_corpus(name).items()
    }


def check_kind(name: str, kind: str) -> None:
    """Refuses a corpus that holds something else."""
    found = get_corpus(name).content.kind
    if found != kind:
        able = ", ".join(other for other, corpus in CORPORA.items() if corpus.content.kind == kind)
        raise UserError(f"the corpus {name} holds {found}; this task reads {kind}, such as {able}")


def find_files(name: str, **choices: Column | None) -> dict[str, tuple[Path, ...]]:
    """The files of every part that has some, or a sentence on how to get them. A file may be gzipped."""
    corpus = get_corpus(name)
    root = root_of(corpus)
    wanted = {part: wanted_files(corpus, part, choices) for part in PARTS if getattr(corpus, part) is not None}
    found = {
        part: [None if root is None else there(Path(root) / path) for path in paths] for part, paths in wanted.items()
    }
    for part in corpus.may_lack:
        if None in found.get(part, ()):
            del wanted[part], found[part]
    missing = [path for part in wanted for path, file in zip(wanted[part], found[part], strict=True) if file is None]
    if missing:
        place = f"below CLEW_DATA ({root})" if root else "below a folder, and set CLEW_DATA to that folder"
        raise UserError(
            f"the corpus {name} does not ship with clew; put {few(list(dict.fromkeys(missing)))} {place};"
            f" {corpus.published}; without it, try `clew train {corpus.instead}`"
        )
    return {part: tuple(file for file in files if file is not None) for part, files in found.items()}


def wanted_files(corpus: Corpus, part: str, choices: Choices) -> list[str]:
    paths = getattr(corpus, part)
    return list(
        chain.from_iterable(
            corpus.content.files(path, choices) for path in ([paths] if isinstance(paths, str) else paths)
        )
    )


def there(path: Path) -> Path | None:
    return next((file for file in (path, Path(f"{path}.gz")) if file.is_file()), None)


def few(paths: Sequence[str]) -> str:
    return ", ".join(paths[:FEW]) + (f" and {len(paths) - FEW} more" if len(paths) > FEW else "")


def get_corpus(name: str) -> Corpus:
    """The corpus in the layout that is there."""
    if name not in CORPORA:
        raise unknown("corpus", name, CORPORA)
    corpus = CORPORA[name]
    return corpus.other if corpus.other is not None and is_there(corpus.other) else corpus


def is_there(corpus: Corpus) -> bool:
    """Whether every file of a layout is there."""
    root = root_of(corpus)
    paths = [path for part in PARTS if getattr(corpus, part) is not None for path in wanted_files(corpus, part, {})]
    return root is not None and all(there(Path(root) / path) is not None for path in paths)


def root_of(corpus: Corpus) -> Path | str | None:
    """The folder that a corpus's files stand below."""
    if corpus.packaged:
        return DEBIAN
    return EMBEDDED if corpus.embedded else os.environ.get("CLEW_DATA")


def wsj(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"wsj-sample/wsj_{number:04}.mrg" for number in range(first, last + 1))


def craft(part: str) -> tuple[str, ...]:
    return tuple(f"craft/{article}.tree" for article in CRAFT[part].split())


# CRAFT's own lists (articles/ids): 60, 7 and 30 articles, with 18,951, 2,780 and 9,099 trees
CRAFT = {
    "train": (
        """
        11532192 11597317 11897010 12079497 12546709 12585968 12925238 14609438 14611657 14723793 14737183 15005800 15040800 15061865
        15207008 15314655 15314659 15320950 15328533 15345036 15492776 15550985 15588329 15630473 15676071 15760270 15819996 15836427
        15876356 15917436 15921521 15938754 16098226 16103912 16109169 16110338 16121255 16121256 16216087 16221973 16255782 16279840
        16362077 16433929 16462940 16504143 16504174 16507151 16539743 16579849 16628246 16670015 16700629 16870721 17002498 17020410
        17022820 17069463 17078885 17083276
    """
    ),
    "valid": (
        """
        17194222 17244351 17425782 17447844 17590087 17608565 17696610
    """
    ),
    "test": (
        """
        11319941 11604102 14624252 14675480 14691534 15018652 15070402 15238161 15328538 15560850 15615595 15619330 15784609 15850489
        15882093 16026622 16027110 16410827 16517939 16611361 16787536 16800892 16968134 17029558 17201918 17206865 17465682 17503968
        17565376 17677002
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
            "it is https://github.com/zalandoresearch/fashion-mnist, which Debian has as the package"
            " dataset-fashion-mnist"
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
        published="it is deu-eng.zip of https://www.manythings.org/anki/, made of https://tatoeba.org",
        instead="tatoeba-transformer",
    ),
    "multi30k": Corpus(
        "multi30k/train.{}",
        "multi30k/val.{}",
        "multi30k/test_2016_flickr.{}",
        ParallelText(("en", "de", "fr", "cs")),
        published="it is data/task1/raw of https://github.com/multi30k/dataset",
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
            "its annotation is at https://www.clips.uantwerpen.be/conll2003/ner/, its text is Reuters RCV1, from NIST"
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
        published="it is trainDevTestTrees_PTB.zip of https://nlp.stanford.edu/sentiment/",
        instead="gum-tree-lstm",
    ),
    "craft-sample": Corpus("parsing/train.mrg", "parsing/dev.mrg", "parsing/test.mrg", Trees(), embedded=True),
    "craft": Corpus(
        craft("train"),
        craft("valid"),
        craft("test"),
        Trees(),
        published="it is structural-annotation/treebank/penn of https://github.com/UCDenver-ccp/CRAFT",
        instead="craft-parser",
    ),
    # by file, which is an article: 3,068, 433 and 413 trees; all are from sections 00 and 01, and figures on section 23
    # do not compare
    "wsj-sample": Corpus(
        wsj(1, 139),
        wsj(140, 169),
        wsj(170, 199),
        Trees(),
        published="it is corpora/treebank/combined of NLTK's data, https://www.nltk.org/nltk_data/",
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
            "its captions and lists are Flickr8k_text.zip of Hodosh et al. (2013), and images-128.tar is its"
            " photographs, scaled down to 128 pixels on their short side"
        ),
        instead="coco-captioner",
    ),
    "digits-sample": Corpus("speech/train.tar", "speech/dev.tar", "speech/test.tar", Recordings(), embedded=True),
    "fsdd": Corpus(
        "speech/fsdd.tar",
        content=Recordings(),
        cut={"valid": 0.2, "test": 0.2},  # of five speakers, one each
        published="it is recordings/ of https://github.com/Jakobovski/free-spoken-digit-dataset in one tar",
        instead="digits-speech",
    ),
    "fashion-mnist": fashion(other=fashion(packaged=True)),
    **GLUE,
}
