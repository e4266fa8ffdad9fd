from pathlib import Path

import pytest
import yaml

from clew.core.errors import UserError
from clew.runs.settings.values import DEEPEST, parse_assignment, parse_value, read_yaml

BOMB = "\n".join(
    ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30))],
)


def refusal(folder: Path, text: str | bytes) -> str:
    path = folder / "run.yaml"
    path.write_bytes(b"recipe: text-lstm\n" + (text.encode() if isinstance(text, str) else text))
    with pytest.raises(UserError) as error:
        read_yaml(path)
    assert str(error.value).isprintable() and len(str(error.value)) < 400
    return str(error.value).removeprefix(str(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BOMB, ":3: this is not valid YAML: aliases are not supported; write the value out"),
        ("model: &a [*a]", ":2: this is not valid YAML: aliases are not supported; write the value out"),
        ("model: {dim: 3, dim: 4}", ":2: this is not valid YAML: 'dim' is given twice"),
        ("seed: 1\nrecipe: text-gpt", ":3: this is not valid YAML: 'recipe' is given twice"),
        ("model: {5: 3}", ":2: this is not valid YAML: a name is a text, not 5"),
        ("? [a, b]\n: 1", ":2: this is not valid YAML: a name is a text, not ['a', 'b']"),
        ("seed: !!int ''", ":2: this is not valid YAML: '' cannot be read as int"),
        ("seed: !!bool x", ":2: this is not valid YAML: 'x' cannot be read as bool"),
        ("seed: !!map x", ":2: this is not valid YAML: 'x' cannot be read as map"),
        ("seed: " + "9" * 5000, ":2: this is not valid YAML: '999999999999999999999999999...99999"),
        ("seed: !!timestamp x", ":2: this is not valid YAML: could not determine a constructor for the tag"),
        (
            "seed: !!python/object/apply:os.getcwd []",
            ":2: this is not valid YAML: could not determine a constructor",
        ),
        ("seed: " + "[" * 9999, ": this is not valid YAML: it is nested more than 20 levels deep"),
        ("seed: " + "[" * 30 + "1" + "]" * 30, " is nested more than 20 levels deep; no setting takes that"),
        (
            "model:\n\tdim: 3",
            ":3: this is not valid YAML: found character '\\t' that cannot start any token",
        ),
        ("seed: \x00", ": this is not valid YAML: character 25 is U+0000, which is not allowed in text"),
        (b"# caf\xe9", ": this is not valid YAML: byte 0xe9 at offset 23 is not UTF-8"),
    ],
)
def test_yaml_with_more_than_plain_values_is_rejected(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    assert refusal(tmp_path, text).startswith(sentence)


def test_a_folder_instead_of_a_yaml_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Is a directory; give a readable YAML file"):
        read_yaml(tmp_path)


def test_plain_yaml_gives_json_values(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "recipe: x\nrate: 1e-3\nwide: -2E5\nday: 2020-01-01\n<<: 3\nlist: [yes, null, 0x10, .5]\n", encoding="utf-8-sig"
    )
    assert read_yaml(path) == {
        "recipe": "x",
        "rate": 0.001,
        "wide": -200000.0,
        "day": "2020-01-01",
        "<<": 3,
        "list": [True, None, 16, 0.5],
    }


def test_the_default_yaml_loader_is_unchanged() -> None:
    assert yaml.safe_load("{a: &x [1], b: *x, day: 1e-3}") == {"a": [1], "b": [1], "day": "1e-3"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("9" * 5000, "is too large a number, or nested more than 20 levels deep; no setting takes that"),
        ("[" * 99999, "is too large a number, or nested more than 20 levels deep; no setting takes that"),
        ("[" * 30 + "]" * 30, "is nested more than 20 levels deep; no setting takes that"),
        (
            "[!!int '']",
            (
                "starts like a list or a mapping but is not one; write it as [a, b] or {name: value} ('' cannot be read"
                " as int)"
            ),
        ),
        (
            "[&a [*a]]",
            (
                "starts like a list or a mapping but is not one; write it as [a, b] or {name: value} (aliases are"
                " not supported"
            ),
        ),
    ],
)
def test_values_that_no_setting_takes_are_rejected_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        parse_value(text)
    assert sentence in str(error.value) and len(str(error.value)) < 400


def test_a_name_with_too_many_parts_is_not_a_setting() -> None:
    assert parse_assignment("a.b.c=1") == (["a", "b", "c"], 1)
    with pytest.raises(
        UserError, match="a setting is section.field=value, such as training.steps=500, not 'model.model"
    ):
        parse_assignment(".".join(["model"] * (DEEPEST + 1)) + "=1")
