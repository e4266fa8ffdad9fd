"""Trees drawn by hypothesis, for the tests of everything that takes them."""

from hypothesis import strategies as st

from clew.core.trees import Tree

LABELS = st.sampled_from(["S", "NP", "VP", "PP", "ADVP", "PRT", "X-Y"])
TAGS = st.sampled_from(["DT", "NN", "VBZ", "IN", ",", ".", "-LRB-"])
WORDS = st.sampled_from(["the", "dog", "barks", "(", ")", "of", ",", "<&>", "naïve", "漢字"])

leaves = st.builds(Tree, TAGS, word=WORDS)
phrases = st.recursive(
    st.builds(Tree, LABELS, st.lists(leaves, min_size=1, max_size=3)),
    lambda below: st.builds(Tree, LABELS, st.lists(leaves | below, min_size=1, max_size=3)),
    max_leaves=8,
)


def nested(depth: int, label: str = "X") -> Tree:
    """A unary chain of so many phrases over one word."""
    tree = Tree("N", word="a")
    for _ in range(depth):
        tree = Tree(label, [tree])
    return tree
