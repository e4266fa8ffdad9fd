from clew.core.errors import STRICT, UserError, counted, did_you_mean, shown, unknown


def test_an_unknown_name_is_reported_with_similar_and_known_names():
    error = unknown("cell", "gur", ["lstm", "gru", "elman"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown cell 'gur'; did you mean 'gru'? known: elman, gru, lstm"


def test_without_similar_names_nothing_is_suggested():
    assert did_you_mean("zzzz", ["lstm"]) == ";"
    assert did_you_mean("frobnicate", ["probe"], STRICT) == ";"
    assert str(unknown("cell", "zzzz", ["lstm"])) == "unknown cell 'zzzz'; known: lstm"


def test_a_user_error_is_a_value_error():
    assert issubclass(UserError, ValueError)


def test_a_sentence_is_one_line_printable_in_every_terminal():
    error = UserError("caf\udce9.txt\n  is\u2028\x1b[31mred, \u202eon the left; naïve 🧵 stays")
    assert str(error) == "caf\\udce9.txt is \\x1b[31mred, \\u202eon the left; naïve 🧵 stays"
    assert str(error).encode()


def test_a_long_name_is_shortened_and_still_finds_similar_names():
    sentence = str(unknown("cell", "x" * 10**6, ["lstm"]))
    assert sentence == f"unknown cell '{'x' * 60}...'; known: lstm"
    assert did_you_mean("gr" + "u" * 10**6, ["g" + "r" + "u" * 50]).startswith("; did you mean")


def test_a_value_is_quoted_like_python_and_shortened_if_long():
    assert [shown(value) for value in (5, "a\n", None, {"name": "gru"}, [1.5])] == [
        "5",
        "'a\\n'",
        "None",
        "{'name': 'gru'}",
        "[1.5]",
    ]
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    for value in ("x" * 9999, list(range(9999)), dict.fromkeys(range(99), "y" * 99), deep, 10**9999):
        assert len(shown(value)) < 160
    assert shown(16**9999) == "a number of about 11,999 digits"


def test_a_count_of_one_uses_the_singular() -> None:
    assert [counted(count, "example") for count in (0, 1, 2, 1200)] == [
        "0 examples",
        "1 example",
        "2 examples",
        "1,200 examples",
    ]
