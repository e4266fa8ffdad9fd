import errno
import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from clew.core.errors import UserError
from clew.core.files import write_text
from clew.core.wording import on_command_line, worded
from clew.layers.cells import CELLS, GRU
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import (
    append_metrics,
    check_code,
    default_folder,
    keep_code,
    read_config,
    read_weights,
    truncate_metrics,
    write_config,
    write_weights,
)
from clew.runs.folder.run_files import check_run, read_metrics
from clew.runs.loaded import load_run
from tests.runs.small import lstm_settings


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A trained run that a test may damage."""
    run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("run"))
    return Path("run")


def new_run(folder: str, *settings: str) -> None:
    Path(folder).mkdir(parents=True)
    write_config(Path(folder), config_of("text-lstm", settings))


def test_runs_of_a_recipe_are_numbered_and_their_differences_listed() -> None:
    config = config_of("text-lstm", ["seed=3"])
    assert default_folder(config) == (Path("runs/text-lstm"), [])
    new_run("runs/text-lstm", "seed=1")
    assert default_folder(config) == (Path("runs/text-lstm-2"), ["seed: 1 -> 3"])
    new_run("runs/text-lstm-2", "seed=2", "model.cell=gru")
    assert default_folder(config) == (Path("runs/text-lstm-3"), ["model.cell: 'gru' -> 'lstm'", "seed: 2 -> 3"])


def test_a_run_with_the_same_settings_must_be_resumed() -> None:
    new_run("runs/text-lstm", "seed=1")
    new_run("runs/text-lstm-2", "seed=2")
    message = (
        "runs/text-lstm is a run with exactly these settings; resume it with resume=True, or start another with out=..."
        " or another seed"
    )
    with pytest.raises(UserError, match=message):
        default_folder(config_of("text-lstm", ["seed=1"]))


def test_an_unreadable_run_does_not_block_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unreadable: a run of an unknown format, and a run with an unknown user-defined cell."""
    with monkeypatch.context() as patch:
        patch.setitem(CELLS, "mine", GRU)
        new_run("runs/text-lstm", "model.cell=mine")
    Path("runs/text-lstm-2").mkdir()
    Path("runs/text-lstm-2/config.json").write_text('{"format": 99}')
    assert default_folder(config_of("text-lstm")) == (Path("runs/text-lstm-3"), [])


def test_a_config_survives_a_round_trip() -> None:
    config = config_of("shakespeare-gpt", ["training.optimiser={name: adamw, beta2: 0.95}"])
    Path("run").mkdir()
    write_config(Path("run"), config)
    assert read_config(Path("run")) == config


def test_a_file_name_that_is_not_utf8_survives_in_the_config(tmp_path: Path) -> None:
    config = config_of("text-lstm", ["data.train=caf\udce9 \u00e9.txt"])
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config
    assert b"caf\\udce9 \xc3\xa9.txt" in (tmp_path / "config.json").read_bytes()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            '{"format": 99}',
            (
                "run/config.json is of format 99, but this clew reads formats 1 to 3; use the version of clew that"
                " wrote it, or train again"
            ),
        ),
        ("{}", "run/config.json is of format None, but this clew reads formats 1 to 3"),
        ("{", "run/config.json is not JSON"),
        ("[1]", "run/config.json is not a run's config: it is not a JSON object"),
        ('{"format": 1, "recipe": "x", "sed": 1}', "run/config.json: unknown field 'sed'; did you mean 'seed'?"),
        ('{"format": 1, "seed": ' + "9" * 5000 + "}", "run/config.json is not JSON: Exceeds the limit (4300 digits)"),
        ('{"format": ' + "[" * 99999, "run/config.json is JSON that is nested too deeply to be read"),
        ('{"format": "' + "x" * 9999 + '"}', "run/config.json is of format 'xxxxxxxxxxxxxxxxxxxxxxxxxxx...xxxx"),
        (
            '{"format": 1, "recipe": "x", "text": {"tokenizer": "\\ud800"}}',
            "run/config.json: text.tokenizer: unknown tokenizer '\\ud800';",
        ),
    ],
)
def test_invalid_configs_are_rejected(content: str, sentence: str) -> None:
    Path("run").mkdir()
    Path("run/config.json").write_text(content)
    with pytest.raises(UserError) as error:
        load_run("run")
    assert str(error.value).startswith(sentence)


def test_a_folder_without_a_run_is_rejected_with_runs_nearby() -> None:
    with pytest.raises(
        UserError,
        match=(
            r"x is not a run directory \(it has no config.json\); train one first, e.g. "
            r"`clew\.train\('shakespeare-lstm'\)`"
        ),
    ):
        check_run(Path("x"))
    with worded(on_command_line), pytest.raises(UserError, match="first, e.g. `clew train shakespeare-lstm`"):
        check_run(Path("x"))
    new_run("runs/text-lstm")
    Path("runs/published").mkdir()
    Path("runs/published/config.json").write_text('{"model_type": "gpt2"}', encoding="utf-8")
    with pytest.raises(UserError, match="runs/text-lstn is not a run directory .*did you mean runs/text-lstm[?] runs"):
        check_run(Path("runs/text-lstn"))
    with pytest.raises(UserError, match="nowhere/at/all is not a run directory .*; runs here: runs/text-lstm$"):
        check_run(Path("nowhere/at/all"))
    for number in range(12):
        new_run(f"runs/a-{number}")
    with pytest.raises(UserError, match=r"runs here: runs/text-lstm, runs/a-\d+, .* and 3 more$"):
        check_run(Path("runs/text-lst"))


def test_missing_weights_are_reported(run: Path) -> None:
    (run / "model.safetensors").unlink()
    with pytest.raises(
        UserError,
        match="run/model.safetensors is missing; the run has not reached its first evaluation, or was copied"
        " incompletely",
    ):
        load_run(run)


@pytest.mark.parametrize("content", [b"", b"not a safetensors file at all", b"\xff" * 100])
def test_damaged_weights_are_rejected(run: Path, content: bytes) -> None:
    (run / "model.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="run/model.safetensors cannot be read as safetensors: .*; copy the run again"):
        load_run(run)


def test_truncated_weights_are_rejected(run: Path) -> None:
    path = run / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(UserError, match="run/model.safetensors cannot be read as safetensors: .*; copy the run again"):
        load_run(run)


def test_changed_weights_are_rejected(run: Path) -> None:
    path = run / "model.safetensors"
    with safe_open(path, "pt") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, path, metadata=metadata)
    message = "run/model.safetensors is damaged: its content has changed since it was written; copy it again, or resume"
    with pytest.raises(UserError, match=message):
        load_run(run)


def test_weights_of_another_model_are_rejected(run: Path) -> None:
    config = json.loads((run / "config.json").read_text())
    config["model"]["dim"] = 24
    del config["sha256"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        UserError, match="run/model.safetensors does not fit the model that run/config.json describes: .*size mismatch"
    ) as error:
        load_run(run)
    assert "\n" not in str(error.value)


def test_a_run_without_its_tokenizer_is_rejected(run: Path) -> None:
    (run / "vocabulary" / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="run/vocabulary/tokenizer.json is missing; copy it again, or train again"):
        load_run(run)


def test_a_changed_tokenizer_is_rejected(run: Path) -> None:
    path = run / "vocabulary" / "tokenizer.json"
    path.write_text(path.read_text().replace('"a": ', '"A": '))
    message = (
        "run/vocabulary/tokenizer.json is damaged: it differs from the file that the run was trained with; copy it"
        " again, or"
        " train again"
    )
    with pytest.raises(UserError, match=message):
        load_run(run)
    with pytest.raises(UserError, match=message):
        run_recipe("text-lstm", [], out=run, resume=True)


def test_a_changed_config_is_rejected_unless_its_hash_is_removed(run: Path) -> None:
    path = run / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content))  # another layout with the same content
    load_run(run)
    content["decoding"]["temperature"] = 0.3
    path.write_text(json.dumps(content))
    with pytest.raises(
        UserError,
        match="run/config.json has changed since it was written; restore it, or, if the change is intended, remove"
        " its field sha256$",
    ):
        load_run(run)
    del content["sha256"]
    path.write_text(json.dumps(content))
    assert load_run(run).config.decoding.temperature == 0.3


def test_a_run_trained_with_user_code_needs_the_same_code(run: Path) -> None:
    code = Path("mine.py")
    code.write_text("x = 1\n")
    check_code(run, None)
    keep_code(run, code)
    message = (
        "run was trained with a user's code, which is never loaded automatically; review run/code.py and pass"
        " code='run/code.py'"
    )
    with pytest.raises(UserError, match=message):
        load_run(run)
    load_run(run, code=code)
    code.write_text("x = 2\n")
    message = "mine.py is not the file that run was trained with; use its copy with code='run/code.py', or train again"
    with pytest.raises(UserError, match=message):
        load_run(run, code=code)


def test_metrics_after_a_step_are_dropped_and_malformed_lines_skipped() -> None:
    folder = Path(".")
    for step in (1, 2, 3):
        append_metrics(folder, {"step": step, "train.loss": 0.1 * step})
    append_metrics(folder, {"step": 2, "best.step": 2})
    with Path("metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "train.lo')
    assert [record["step"] for record in read_metrics(folder)] == [1, 2, 3, 2]
    truncate_metrics(folder, 2)
    assert list(read_metrics(folder)) == [{"step": 1, "train.loss": 0.1}, {"step": 2, "train.loss": 0.2}]
    assert list(read_metrics(Path("elsewhere"))) == []


def test_damaged_lines_of_metrics_are_skipped() -> None:
    Path("metrics.jsonl").write_bytes(b'{"step": 1}\n{"step": \xff}\n[2]\n{"step": 3}\n')
    assert list(read_metrics(Path("."))) == [{"step": 1}, {"step": 3}]


def test_evaluations_after_the_checkpoint_are_dropped() -> None:
    for record in ({"step": 2, "valid.loss": 2.0}, {"step": 4, "train.loss": 1.0}, {"step": 4, "valid.loss": 1.0}):
        append_metrics(Path("."), record)
    truncate_metrics(Path("."), 4, evaluated=2)
    assert list(read_metrics(Path("."))) == [{"step": 2, "valid.loss": 2.0}, {"step": 4, "train.loss": 1.0}]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_text(Path("x.json"), "old")
    write_weights(Path("w.safetensors"), {"a": torch.ones(2)})

    def raise_disk_full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("clew.core.files.flush", raise_disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_text(Path("x.json"), "new")
    with pytest.raises(OSError, match="No space left"):
        write_weights(Path("w.safetensors"), {"a": torch.zeros(2)})
    assert Path("x.json").read_text() == "old"
    assert torch.equal(read_weights(Path("w.safetensors"))["a"], torch.ones(2))
    assert not list(Path(".").glob("*.partial"))


def write_unfinished_run(folder: str) -> Path:
    """Write the files of a run that was killed before its config was written."""
    path = Path(folder)
    (path / "vocabulary").mkdir(parents=True)
    for name in ("lock", "vocabulary/tokenizer.json.partial", "environment.json", "config.json.partial"):
        (path / name).write_text("{")
    return path


def test_a_run_killed_during_its_start_is_replaced_in_the_same_folder(tmp_path: Path) -> None:
    settings = lstm_settings(tmp_path, steps=2)
    write_unfinished_run("chosen")
    run_recipe("text-lstm", settings, out=Path("chosen"))
    write_unfinished_run("runs/text-lstm")
    assert run_recipe("text-lstm", settings).run.folder == Path("runs/text-lstm")
    for folder in ("chosen", "runs/text-lstm"):
        assert not list(Path(folder).rglob("*.partial")) and not (Path(folder) / "lock").exists()


def test_a_folder_with_other_files_is_not_used(tmp_path: Path) -> None:
    for other_file in ("notes.txt", "checkpoints"):
        (write_unfinished_run(other_file + "-folder") / other_file).write_text("mine")
        with pytest.raises(
            UserError, match=f"{other_file}-folder exists and is not an empty folder; choose another with out=..."
        ):
            run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path(other_file + "-folder"))
    Path("code").mkdir()
    (Path("code") / "code.py").write_text("mine")
    with pytest.raises(UserError, match="code exists and is not an empty folder"):
        run_recipe("text-lstm", lstm_settings(tmp_path, steps=2), out=Path("code"))


def test_equal_weights_are_equal_files() -> None:
    tensors = {"b": torch.randn(3, 4), "a": torch.tensor(1.5, dtype=torch.bfloat16)}
    contents = set()
    for number in range(12):  # safetensors orders the metadata anew in each file
        write_weights(Path(f"{number}.safetensors"), tensors)
        contents.add(Path(f"{number}.safetensors").read_bytes())
        assert torch.equal(read_weights(Path(f"{number}.safetensors"))["b"], tensors["b"])
    assert len(contents) == 1
    assert contents.pop()[8:].startswith(b'{"__metadata__":{"format":"pt","sha256":"')


def test_weights_survive_a_round_trip_bit_for_bit() -> None:
    tensors = {"a": torch.randn(3, 4).T, "b": torch.tensor(1.5, dtype=torch.bfloat16), "c": torch.arange(3)}
    write_weights(Path("w.safetensors"), tensors)
    loaded = read_weights(Path("w.safetensors"))
    assert all(
        torch.equal(loaded[name], value) and loaded[name].dtype == value.dtype for name, value in tensors.items()
    )
    assert [path.name for path in Path(".").glob("w*")] == ["w.safetensors"]


def test_nothing_in_a_run_can_be_unpickled(run: Path) -> None:
    files = [path for path in run.rglob("*") if path.is_file() and path.parent.name != "events"]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".safetensors"}
