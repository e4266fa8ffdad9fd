"""Baselines of constituency parsing."""

from collections.abc import Iterator, Sequence

from clew.baselines.baseline import Baseline, Train
from clew.baselines.branching import fit_branching
from clew.data.examples import Parsed
from clew.metrics.brackets import score_brackets
from clew.metrics.measures import Measured


def tree_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """Right-branching trees, regardless of the words, with the two labels that suit the evaluated trees best."""

    def measure(examples: Sequence[Parsed]) -> Measured:
        golds = [example.tree for example in examples]
        branching = fit_branching(golds)
        counts = score_brackets(golds, [branching.parse(tree.words, tree.tags) for tree in golds]).all
        return Measured({"right_branching_f1": 100 * counts.f1}, f"F1 {100 * counts.f1:.2f}")

    yield Baseline("right-branching trees have", measure)
