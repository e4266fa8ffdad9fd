import os
from pathlib import Path

import pytest

from clew.core.errors import UserError
from clew.core.tag_schemes import detect_scheme, tag_spans
from clew.data import corpora
from clew.data.corpora import CORPORA, find_corpus, find_files, read_corpus
from clew.data.example_splits import find_overlaps
from clew.data.examples import Labelled, Pair
from tests.data.written import refusal, write

EMBEDDED = [name for name, corpus in CORPORA.items() if corpus.embedded]
SIZES = {
    "tatoeba-sample": (8000, 500, 500),
    "sentiment-sample": (6000, 1000, 1000),
    "gum-trees-sample": (1819, 227, 228),
    "ewt-sample": (3000, 500, 500),
    "digits-sample": (360, 120, 100),
    "tatoeba": (163_021, 3396, 3396),
    "multi30k": (29_000, 1014, 1000),
    "ewt": (12_544, 2001, 2077),
    "conll2003": (14_041, 3250),
    "conll2000": (8042, 894, 2012),
    "coco-sample": (60, 8, 8),
    "flickr8k": (3184, 507, 550),
    "fashion-mnist": (55_000, 5000, 10_000),
    "fsdd": (1500, 500, 500),
}


@pytest.mark.parametrize("name", [name for name in SIZES if name in EMBEDDED])
def test_an_embedded_corpus_has_its_parts(name):
    parts = read_corpus(name)
    assert {part: len(examples) for part, examples in parts.items()} == dict(
        zip(("train", "valid", "test"), SIZES[name], strict=True)
    )


@pytest.mark.parametrize("name", EMBEDDED)
def test_every_embedded_file_is_there(name):
    assert all(path.is_file() for paths in find_files(name).values() for path in paths)


@pytest.mark.parametrize("name", [name for name in CORPORA if name not in EMBEDDED])
def test_a_corpus_that_is_not_included_names_its_files_and_folder(name, monkeypatch):
    monkeypatch.delenv("CLEW_DATA", raising=False)
    monkeypatch.setattr(corpora, "DEBIAN", "/nowhere")
    sentence = refusal(lambda: find_files(name))
    assert sentence.startswith(f"the corpus {name} does not ship with clew; put ")
    assert " below a folder, and set CLEW_DATA to that folder; it" in sentence
    assert CORPORA[name].published and CORPORA[name].published in sentence
    assert sentence.endswith(f"; without it, try `clew train {CORPORA[name].instead}`")
    assert CORPORA[name].instead


def test_only_some_of_many_missing_files_are_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    write(tmp_path / "wsj-sample" / "wsj_0002.mrg", "x")
    assert refusal(lambda: find_files("wsj-sample")).startswith(
        "the corpus wsj-sample does not ship with clew; put wsj-sample/wsj_0001.mrg, wsj-sample/wsj_0003.mrg,"
        " wsj-sample/wsj_0004.mrg, wsj-sample/wsj_0005.mrg, wsj-sample/wsj_0006.mrg and 193 more below CLEW_DATA"
        f" ({tmp_path}); "
    )


def test_languages_choose_the_files():
    first, reversed_pair = (
        read_corpus("tatoeba-sample")["valid"][0],
        read_corpus("tatoeba-sample", source="de")["valid"][0],
    )
    assert isinstance(first, Pair)
    assert (
        (first.source, first.target)
        == ("He asked me a question.", "Er stellte mir eine Frage.")
        == (reversed_pair.target, reversed_pair.source)
    )
    assert (
        refusal(lambda: read_corpus("tatoeba-sample", target="fr"))
        == "unknown language for data.target 'fr'; known: de, en"
    )
    assert (
        refusal(lambda: read_corpus("tatoeba-sample", source="en", target="en"))
        == "data.source and data.target are both 'en'; choose two of en, de"
    )


def test_tags_choose_a_column():
    assert read_corpus("ewt-sample")["valid"][0].tags[:3] == ("ADP", "DET", "PROPN")
    assert read_corpus("ewt-sample", tags="xpos")["valid"][0].tags[:3] == ("IN", "DT", "NNP")
    assert (
        refusal(lambda: read_corpus("ewt-sample", tags="pos"))
        == "unknown kind of tags 'pos'; did you mean 'xpos'? known: upos, xpos"
    )


def test_sentence_types_come_with_their_trees():
    first = read_corpus("gum-trees-sample")["train"][0]
    assert isinstance(first, Labelled)
    assert first.labels == ("decl",) and first.text.startswith("(ROOT (S (NP (NN Everything))")


def test_a_table_is_split_by_its_english_side_in_both_directions(monkeypatch, tmp_path):
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    write(
        tmp_path / "tatoeba" / "deu.txt", "".join(f"english {n // 3}\tdeutsch {n % 50}\tcredit\n" for n in range(300))
    )
    forward, backward = read_corpus("tatoeba"), read_corpus("tatoeba", source="de")
    assert {name: len(part) for name, part in forward.items()} == {"train": 288, "valid": 6, "test": 6}
    for name in forward:
        assert [(pair.source, pair.target) for pair in forward[name]] == [
            (pair.target, pair.source) for pair in backward[name]
        ]
    assert find_overlaps(forward) == []
    assert find_overlaps(backward) != []


def test_an_optional_part_may_be_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    for name in ("eng.train", "eng.testa"):
        write(tmp_path / "conll2003" / name, f"-DOCSTART- -X- O O\n\n{name} NNP I-NP I-PER\n")
    assert list(read_corpus("conll2003")) == ["train", "valid"]
    write(tmp_path / "conll2003" / "eng.testb", "x NNP I-NP I-PER\n")
    assert read_corpus("conll2003", tags="pos")["test"][0].tags == ("NNP",)


def test_a_corpus_of_the_wrong_kind_is_rejected():
    assert find_corpus("tinyshakespeare").train.name == "tinyshakespeare.txt"
    assert (
        refusal(lambda: find_corpus("tatoeba-sample"))
        == "the corpus tatoeba-sample holds pairs; this task reads running text, such as tinyshakespeare, ptb"
    )
    assert (
        refusal(lambda: read_corpus("tinyshakespeare"))
        == "the corpus tinyshakespeare holds running text, not examples; choose another corpus or task"
    )
    assert (
        refusal(lambda: read_corpus("craft-sample", kind="pairs"))
        == "the corpus craft-sample holds bracketed trees; this task reads pairs, such as tatoeba-sample, tatoeba,"
        " multi30k"
    )
    assert len(read_corpus("craft-sample", kind="bracketed trees")["valid"]) > 10


def test_an_unknown_corpus_is_reported_with_similar_names():
    with pytest.raises(
        UserError, match="unknown corpus 'multi30'; did you mean 'multi30k'\\? known: coco-sample, conll2000, "
    ):
        read_corpus("multi30")


@pytest.mark.corpus
@pytest.mark.parametrize("name", [name for name in CORPORA if name not in EMBEDDED])
def test_an_available_corpus_has_its_published_size(name):
    if name in SIZES:
        parts = read_corpus(name)
        assert tuple(len(part) for part in parts.values())[: len(SIZES[name])] == SIZES[name]
    else:
        assert all(isinstance(path, Path) for paths in find_files(name).values() for path in paths)


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "part", "scheme", "phrases"),
    [("conll2003", "train", "iob1", 7140 + 3438 + 6321 + 6600), ("conll2000", "test", "iob2", 23_852)],
)
def test_available_tagged_corpora_have_their_published_phrases(name, part, scheme, phrases):
    tags = [sentence.tags for sentence in read_corpus(name)[part]]
    assert detect_scheme(tags) == scheme
    assert sum(len(tag_spans(sentence)) for sentence in tags) == phrases


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "sizes"), [("craft", (18_951, 2780, 9099)), ("wsj-sample", (3068, 433, 413)), ("sst", (8544, 1101, 2210))]
)
def test_available_treebanks_have_the_documented_number_of_trees(name, sizes):
    def num_trees(path):
        depth = number = 0
        for character in path.read_text(encoding="utf-8"):
            depth += (character == "(") - (character == ")")
            number += character == ")" and depth == 0
        return number

    assert os.environ["CLEW_DATA"]
    assert tuple(sum(map(num_trees, paths)) for paths in find_files(name).values()) == sizes
