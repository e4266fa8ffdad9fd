import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.graphs import CYCLIC, Graph, node_levels
from clew.data.examples import Sentence
from clew.data.formats.conllu_files import dependency_graphs
from clew.data.kinds.dependency_graphs import DEPENDENCY_GRAPHS, DependencyGraphsData
from clew.data.notes import Notes
from clew.data.syntax.dependency_graphs import dependency_edges, edge_types, read_deps, typed_graph
from tests.data.written import refusal, write

DOG = Sentence(
    ("the", "dog", "barks", "and", "runs"),
    heads=(2, 3, 0, 5, 3),
    relations=("det", "nsubj", "root", "cc", "conj"),
    deps=(((2, "det"),), ((3, "nsubj"), (5, "nsubj")), ((0, "root"),), ((5, "cc"),), ((3, "conj:and"),)),
    id="a.conllu:1",
)
CONTENT = (
    "# text = the dog barks and runs\n"
    "1\tthe\tthe\tDET\tDT\tDefinite=Def\t2\tdet\t2:det\t_\n"
    "2\tdog\tdog\tNOUN\tNN\tNumber=Sing\t3\tnsubj\t3:nsubj|5:nsubj|5.1:nsubj\t_\n"
    "3\tbarks\tbark\tVERB\tVBZ\tNumber=Sing|Person=3\t0\troot\t0:root\t_\n"
    "4\tand\tand\tCCONJ\tCC\t_\t5\tcc\t5:cc\t_\n"
    "5\truns\trun\tVERB\tVBZ\tNumber=Sing|Person=3\t3\tconj\t3:conj:and\t_\n"
    "5.1\truns\trun\tVERB\tVBZ\t_\t_\t_\t3:conj:and\tCopyOf=5\n\n"
)


def read(path, label="deprel", notes=None):
    return list(dependency_graphs(path, label, Notes() if notes is None else notes))


def test_a_basic_tree_has_edges_both_ways_for_every_word_with_a_head():
    up = {(0, 1), (1, 2), (3, 4), (4, 2)}
    edges = dependency_edges(DOG, ["up", "down"])
    assert {(source, target) for source, target, type in edges if type == "up"} == up
    assert {(target, source) for source, target, type in edges if type == "down"} == up
    assert len(edges) == 8


def test_edge_types_may_include_the_relation():
    types = {type for _, _, type in dependency_edges(DOG, ["up", "next"], relations=True)}
    assert types == {"next", "up:det", "up:nsubj", "up:cc", "up:conj"}


def test_neighbouring_words_can_be_joined_by_edges():
    assert dependency_edges(DOG._replace(heads=None), ["next", "previous"]) == [
        *((word, word + 1, "next") for word in range(4)),
        *((word + 1, word, "previous") for word in range(4)),
    ]


def test_an_enhanced_graph_has_several_heads_and_no_empty_nodes():
    assert (1, 4, "up") in dependency_edges(DOG, ["up"], enhanced=True)
    assert (1, 4, "up:nsubj") in dependency_edges(DOG, ["up"], enhanced=True, relations=True)
    assert (4, 2, "up:conj:and") in dependency_edges(DOG, ["up"], enhanced=True, relations=True)
    twice = Sentence(("a", "b"), deps=(((0, "root"),), ((1, "obj"), (1, "obl"))))
    assert dependency_edges(twice, ["down"], enhanced=True) == [(0, 1, "down")]
    assert len(dependency_edges(twice, ["down"], enhanced=True, relations=True)) == 2


@given(data=st.data(), size=st.integers(1, 7))
def test_each_dependency_has_one_forward_edge_to_the_later_word(data, size):
    pairs = [
        tuple(
            (head, "x") for head in data.draw(st.lists(st.integers(0, size), unique=True, max_size=3)) if head != word
        )
        for word in range(1, size + 1)
    ]
    sentence = Sentence(("w",) * size, deps=tuple(pairs))
    edges = dependency_edges(sentence, ["next", "forward"], enhanced=True)
    ends = {
        (min(word, head - 1), max(word, head - 1), "up" if word < head - 1 else "down")
        for word, each in enumerate(pairs)
        for head, _ in each
        if head
    }
    assert {edge for edge in edges if edge[2] != "next"} == ends
    levels = node_levels(Graph(size, tuple((source, target, 0) for source, target, _ in edges)))
    assert levels == list(range(size)) and CYCLIC not in levels


def test_unknown_edge_types_share_one_extra_number():
    types = edge_types([dependency_edges(DOG, ["up", "next"])])
    assert types.names == ("next", "up")
    graph = typed_graph(3, [(0, 1, "next"), (1, 2, "up"), (2, 0, "sideways"), (2, 1, "other")], types)
    assert graph == Graph(3, ((0, 1, 0), (1, 2, 1), (2, 0, 2), (2, 1, 2)))


def test_sentences_are_read_with_heads_and_the_chosen_label(tmp_path):
    path = write(tmp_path / "a.conllu", CONTENT)
    assert read(path) == [DOG._replace(tags=DOG.relations, id=f"{path}:2")]
    assert [sentence.tags for sentence in read(path, "upos")] == [("DET", "NOUN", "VERB", "CCONJ", "VERB")]
    assert [sentence.tags for sentence in read(path, "feats:Number")] == [("_", "Sing", "Sing", "_", "Sing")]
    assert read(path, "feats")[0].tags[2] == "Number=Sing|Person=3"
    assert [sentence.tags for sentence in read(path, None)] == [None]


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("relation", "unknown CoNLL-U column 'relation'"),
        (
            "upos:Number",
            "data.label=upos:Number: only the column feats has features, as in feats:Number; name a column, or a"
            " feature",
        ),
    ],
)
def test_a_label_that_is_not_a_column_is_rejected(tmp_path, label, sentence):
    path = write(tmp_path / "a.conllu", CONTENT)
    assert refusal(lambda: read(path, label)).startswith(sentence)


@pytest.mark.parametrize(
    ("row", "line", "sentence"),
    [
        ("1\ta\t_\tX\t_\t_\t_\t_\t_\t_", 1, "the words have no heads, so there is no graph; HEAD is column 7"),
        (
            "1\ta\t_\tX\t_\t_\t0\troot\t2:x\t_",
            1,
            "DEPS of word 1 has '2:x': expected head:relation, a head from 1 to 1, or 0 for the root",
        ),
        ("1\ta\t_\tX\t_\t_\t0\troot\troot\t_", 1, "DEPS of word 1 has 'root': expected head:relation"),
        ("1\ta\t_\tX\t_\t_\t1\troot\t_\t_", 1, "no word has the head 0"),
    ],
)
def test_a_faulty_graph_is_reported_with_its_line(tmp_path, row, line, sentence):
    path = write(tmp_path / "a.conllu", row + "\n\n" + CONTENT)
    assert refusal(lambda: read(path)).startswith(f"{path}:{line}: {sentence}")
    notes = Notes(faults="skip")
    assert len(read(path, notes=notes)) == 1 and notes.num_faults == 1


def test_sentences_without_heads_can_be_read_but_have_no_graph(tmp_path):
    path = write(tmp_path / "a.conllu", "1\ta\t_\tX\t_\t_\t_\t_\t_\t_\n")
    assert read(path, None)[0].heads is None
    with pytest.raises(
        UserError, match="the words have no heads, so there is no graph; fill in HEAD, the seventh column of CoNLL-U"
    ):
        dependency_edges(read(path, None)[0], ["up"])
    with pytest.raises(UserError, match="the words have no DEPS, so there is no enhanced graph; set task.graph=basic"):
        dependency_edges(read(path, None)[0], ["up"], enhanced=True)


def test_graphs_without_edges_are_rejected():
    with pytest.raises(
        UserError,
        match="the graphs of the training split have no edges, but the model reads along edges; see task.edges",
    ):
        edge_types([[], []])


def test_blank_deps_are_read_as_missing():
    assert read_deps(["_", "_"]) == (None, None)
    assert read_deps(["0:root", "_"]) == ((((0, "root"),), ()), None)


def test_missing_parts_are_split_from_the_training_file(tmp_path):
    train = write(tmp_path / "train.conllu", "".join(CONTENT.replace("dog", f"dog{number}") for number in range(40)))
    test = write(tmp_path / "test.conllu", CONTENT)
    data = DependencyGraphsData(train=str(train), test=str(test), label="xpos")
    parts = DEPENDENCY_GRAPHS.read(data, seed=1)
    assert set(parts) == {"train", "valid", "test"} and len(parts["train"]) + len(parts["valid"]) == 40
    assert parts["test"][0].tags == ("DT", "NN", "VBZ", "CC", "VBZ")


def test_a_corpus_below_clew_data_is_read_with_its_heads(tmp_path, monkeypatch):
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    (tmp_path / "ewt").mkdir()
    for part in ("train", "dev", "test"):
        write(tmp_path / "ewt" / f"en_ewt-ud-{part}.conllu", CONTENT.replace("dog", f"dog{part}"))
    parts = DEPENDENCY_GRAPHS.read(DependencyGraphsData(corpus="ewt"), seed=1)
    assert {part: examples[0].words[1] for part, examples in parts.items()} == {
        "train": "dogtrain",
        "valid": "dogdev",
        "test": "dogtest",
    }
    assert all(examples[0].heads == DOG.heads for examples in parts.values())


def test_data_without_dependencies_are_refused(tmp_path):
    for corpus in ("ewt-sample", "tinyshakespeare"):
        with pytest.raises(
            UserError,
            match=f"the corpus {corpus} has no dependencies; this task reads words with heads, such as ewt",
        ):
            DEPENDENCY_GRAPHS.read(DependencyGraphsData(corpus=corpus), seed=1)
    path = write(tmp_path / "a.csv", "text,label\na,b\n")
    with pytest.raises(
        UserError,
        match="which holds no words with heads; if it is in another format, set data.format to one of: jsonl, conllu",
    ):
        DEPENDENCY_GRAPHS.read(DependencyGraphsData(train=str(path)), seed=1)
