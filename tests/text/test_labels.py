import pytest

from clew.core.errors import UserError
from clew.text.labels import Labels


def test_no_labels_are_refused() -> None:
    with pytest.raises(UserError, match="there are no labels; give labelled examples"):
        Labels.of([])
