"""What tasks that learn from examples share: what they need not say where there is nothing to say."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from clew.metrics.bootstrap import Interval


class ExampleTask(nn.Module):
    """A task whose data are examples; `training.examples` says what else is asked of it."""

    needs: tuple[str, ...] = ()
    writes = False
    """Whether what it predicts is tokens, so that its loss is of each of them."""

    def prepare(self, encoded: Sequence[Any]) -> None:
        """Takes from the training part, once, what is no parameter: how frequent labels are."""

    def settle(self, batches: Iterable[tuple[Sequence[Any], Any]]) -> bool:
        """Takes from the validation part, batches with the examples in each, once training is over, what training is not to see; whether
        there was anything."""
        return False

    def looked_up(self) -> list[Tensor]:
        """Tables that no vector is multiplied with: they cost no FLOPs."""
        return self.body.embedding.looked_up()  # type: ignore[operator, union-attr]

    def intervals(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Interval]:
        """What the bootstrap says of some measures, by name, in their own units."""
        return {}

    def report(self, examples: Sequence[Any], predictions: Sequence[Any]) -> tuple[str, ...]:
        """Tables in words."""
        return ()
