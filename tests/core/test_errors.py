from clew.core.errors import UserError, did_you_mean, unknown


def test_an_unknown_name_is_told_what_is_near_and_what_is_known():
    error = unknown("cell", "gur", ["lstm", "gru", "elman"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown cell 'gur'; did you mean 'gru'? known: elman, gru, lstm"


def test_where_nothing_is_near_nothing_is_suggested():
    assert did_you_mean("zzzz", ["lstm"]) == ";"
    assert str(unknown("cell", "zzzz", ["lstm"])) == "unknown cell 'zzzz'; known: lstm"


def test_a_users_mistake_is_a_value_error():
    assert issubclass(UserError, ValueError)
