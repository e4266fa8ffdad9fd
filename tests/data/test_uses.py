import json

import pytest

from clew.data import uses
from clew.data.corpora.samples import EMBEDDED
from clew.data.described import Use
from clew.data.descriptions import describe
from clew.data.uses import find_separator, guess_use, other_uses
from tests.data.written import write

REVIEWS = "".join(
    f"{n},2020-01-{n:02} 10:00,{'mail' if n % 2 else 'phone'},the {n}th thing went wrong,{'a' if n % 3 else 'b'}\n"
    for n in range(1, 13)
)
TAGS = "text,tags\n" + "a b,x|y\nc d,x\ne f,y|z\ng h,z\ni j,y\nk l,x|z\n" * 2
TWO = "#1 String\t#2 String\tlabel\na b\tc d\t1\ne f\tg h\t0\n"
ARTICLES = '{"id": 1, "summary": "s t", "article": "a long one"}\n{"id": 2, "summary": "u", "article": "b c"}\n'
WORDS = {"tokens": ["Ada", "ran"], "pos": ["NNP", "VBD"], "tags": ["B-PER", "O"]}
XPOS = "{}\t{}\t_\t_\t{}\t_\t0\troot\t_\t_\n"


def use(tmp_path, name, text):
    return guess_use(describe(write(tmp_path / name, text)))


@pytest.mark.parametrize(
    ("name", "text", "recipe", "settings"),
    [
        ("a.csv", "id,date,channel,body,queue\n" + REVIEWS, "classify", "data.text=body data.label=queue"),
        ("a.csv", "id,date,channel,what,where\n" + REVIEWS, "classify", "data.text=what data.label=where"),
        ("a.csv", "body,stars\nso good,5\nso bad,1\nvery good,5\n,1\n", "classify",
         "data.text=body data.label=stars data.faults=skip"),
        ("a.csv", TAGS, "classify", "data.text=text data.label=tags data.label_separator=| task.labels=several"),
        ("a.tsv", "good\ta nice film\nbad\ta poor film\ngood\tso nice\n", "classify", "data.text=2 data.label=1"),
        ("a.tsv", TWO, "classify", "data.text=#1 String data.second=#2 String data.label=label"),
        ("a.tsv", TWO.replace("#1 String", "premise").replace("#2 String", "hypothesis"), "classify",
         "data.text=premise data.second=hypothesis data.label=label"),
        ("a.tsv", "a cat\teine Katze\nthe dog\tder Hund\n", "translate", "data.source=1 data.target=2"),
        ("a.csv", "german,english\neine Katze,a cat\nder Hund,the dog\n", "translate",
         "data.source=german data.target=english"),
        ("a.jsonl", ARTICLES, "summarise", "data.source=article data.target=summary"),
        ("a.jsonl", json.dumps(WORDS), "tag", "data.words=tokens data.tags=tags"),
        ("a.jsonl", '{"words": ["a"], "n": 1}\n', None, ""),
        ("a.conll", "1 Ada NNP B-PER\n2 ran VBD O\n\n1 Bo NNP B-PER\n", "tag", "data.words=2 data.tags=4"),
        ("a.txt", "Once upon a time\nthere was.\n", "text-lstm", ""),
        ("a.mrg", "(S (NP (PRP It)) (VP (VBZ rains)))", "parse", ""),
        ("a.mrg", "(3 (2 It) (4 (2 is) (4 lovely)))", "classify-trees", ""),
        ("a.tsv", "decl\t(S (NP (PRP It)) (VP (VBZ rains)))\nfrag\t(NP (NN Rain))\ndecl\t(S (NP (NN a)))\n",
         "classify-trees",
         "data.text=2 data.label=1 task.phrases=true"),
        ("a.jsonl",
         '{"text": "a b", "topics": ["x"]}\n{"text": "c d", "topics": ["x", "y"]}\n'
         '{"text": "e f", "topics": ["y", "x"]}\n',
         "classify", "data.text=text data.label=topics task.labels=several"),
        ("a.csv", "text,score\n" + "".join(f"the text {n},{n / 7:.3f}\n" for n in range(120)), "classify",
         "data.text=text data.label=score task.labels=number"),
        ("a.jsonl",
         '{"text": "a b", "topics": ["x"]}\n{"text": "c d", "topics": []}\n'
         '{"text": "e f", "topics": ["y", "x", "y"]}\n' * 2,
         "classify", "data.text=text data.label=topics task.labels=several"),
        ("a.csv", "text,what,size\na b,x,10\nc d,y,10\ne f,x,20\n" * 2, "classify", "data.text=text data.label=what"),
        ("a.csv", "n,date\n1,2020-01-01 10:00\n2,2020-01-01 11:00\n", None, ""),
    ],
)  # fmt: skip
def test_columns_are_recognised_by_name_and_content(tmp_path, name, text, recipe, settings):
    guess = use(tmp_path, name, text)
    if recipe is None:
        assert guess is None
    else:
        assert guess is not None and guess.recipe == recipe
        assert " ".join(f"{name}={value}" for name, value in guess.settings.items()) == settings


def test_the_use_of_the_embedded_samples_is_guessed():
    assert guess_use(describe(EMBEDDED / "sentiment/dev.tsv")) == Use("classify", {"data.text": "2", "data.label": "1"})
    trees = {"data.text": "3", "data.label": "2", "task.phrases": "true"}
    assert guess_use(describe(EMBEDDED / "trees/dev.tsv")) == Use("classify-trees", trees, ("1",))
    assert guess_use(describe(EMBEDDED / "tagging/dev.tsv")) == Use("tag", {"data.words": "1", "data.tags": "3"})
    assert guess_use(describe(EMBEDDED / "mt/dev.en", EMBEDDED / "mt/dev.de")) == Use("translate", {})


def test_the_first_tag_column_of_a_conllu_file_is_used(tmp_path):
    rows = XPOS.format(1, "Ada", "NNP") + XPOS.format(2, "ran", "VBD")
    assert use(tmp_path, "a.conllu", f"{rows}\n{rows}\n") == Use("tag", {"data.tags": "xpos"})


def test_other_columns_that_may_be_the_label_are_named(tmp_path):
    guess = use(tmp_path, "a.csv", "id,date,channel,what,where\n" + REVIEWS)
    assert guess is not None and guess.other_labels == ("channel",)


def test_a_separator_is_found_if_it_leaves_fewer_labels():
    assert find_separator(["a;b", "a", "b;c", "c"]) == ";"
    assert find_separator(["yes, please", "no"]) is None
    assert find_separator(["a", "b"]) is None


def test_a_large_text_is_also_offered_as_a_stream(tmp_path, monkeypatch):
    description = describe(write(tmp_path / "a.txt", "in a maze\n" * 20))
    why = "without encoding so large a text before training begins"
    assert why not in other_uses(description, guess_use(description))
    monkeypatch.setattr(uses, "LARGE", 100)
    assert other_uses(description, guess_use(description))[why] == [Use("text-lstm", {"data.stream": "true"})]
