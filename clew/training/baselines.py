"""What a trained model is held against: the score of something that has learnt next to nothing. One function a kind of data."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from clew.baselines.branching import fit_branching
from clew.core.errors import UserError
from clew.data.examples import Parsed
from clew.metrics.brackets import score_brackets
from clew.training.problem import Score


def with_baseline(score: Score, kind: str, examples: Sequence[Any]) -> Score:
    """A final score with the baseline's on the same examples, where the kind of data has one."""
    if kind not in BASELINES:
        return score
    try:
        name, value, text = BASELINES[kind](examples)
    except UserError:  # trees without a single phrase have no labels to branch with
        return score
    return replace(score, measures={**score.measures, name: value}, text=f"{score.text}; {text}")


def right_branching(examples: Sequence[Parsed]) -> tuple[str, float, str]:
    """F1 of trees that branch to the right, whatever the words, with the two labels that suit these very trees best."""
    golds = [example.tree for example in examples]
    branching = fit_branching(golds)
    found = score_brackets(golds, [branching.parse(tree.words, tree.tags) for tree in golds]).all
    return "right_branching_f1", 100 * found.f1, f"right-branching trees have F1 {100 * found.f1:.2f}"


BASELINES: dict[str, Callable[[Sequence[Any]], tuple[str, float, str]]] = {"trees": right_branching}
