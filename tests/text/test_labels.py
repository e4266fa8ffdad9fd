import pytest

from clew.core.errors import UserError
from clew.text.labels import Labels


def test_an_empty_list_of_labels_is_rejected() -> None:
    with pytest.raises(UserError, match="there are no labels; give labelled examples"):
        Labels.of([])
