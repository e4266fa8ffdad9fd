"""Baselines of constituency parsing."""

from collections.abc import Iterator, Sequence

from clew.baselines.beside import Baseline, Train
from clew.baselines.branching import fit_branching
from clew.data.examples import Parsed
from clew.metrics.brackets import score_brackets
from clew.metrics.measures import Measured


def tree_baselines(train: Train, task: object = None) -> Iterator[Baseline]:
    """Trees that branch to the right, whatever the words, with the two labels that suit the very trees best that are judged."""

    def measure(examples: Sequence[Parsed]) -> Measured:
        golds = [example.tree for example in examples]
        branching = fit_branching(golds)
        found = score_brackets(golds, [branching.parse(tree.words, tree.tags) for tree in golds]).all
        return Measured({"right_branching_f1": 100 * found.f1}, f"F1 {100 * found.f1:.2f}")

    yield Baseline("right-branching trees have", measure)
