"""Run folders from an untrusted source: sizes in them are checked, pipes are not read, and outside files not opened."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from clew.core.errors import UserError
from clew.recipes.running import run_recipe
from clew.runs.folder.run_files import CONFIG, METRICS, WEIGHTS, read_metrics
from clew.runs.loaded import load_run
from clew.runs.trust import accepting
from tests.runs.frozen.asking import command
from tests.runs.small import gpt_settings

pytestmark = pytest.mark.timeout(60)
FROZEN = Path(__file__).parent / "frozen"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run as it might be downloaded, without the hash of its config."""
    shutil.copytree(FROZEN / "format-2" / "classification" / "run", tmp_path / "run")
    change(tmp_path / "run", lambda settings: settings)
    return tmp_path / "run"


OPENED: list[set[str]] = []


def record_opened(event: str, arguments: Any) -> None:
    if event == "open" and OPENED and isinstance(arguments[0], (str, bytes, os.PathLike)):
        OPENED[-1].add(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(record_opened)


@contextmanager
def opened_files() -> Iterator[set[str]]:
    """The real paths of the files that Python opens within this context."""
    OPENED.append(set())
    try:
        yield OPENED[-1]
    finally:
        OPENED.pop()


def change(folder: Path, edit: Callable[[dict[str, Any]], Any], name: str = CONFIG) -> None:
    content = json.loads((folder / name).read_text(encoding="utf-8"))
    edit(content)
    for field in ("sha256", "files"):
        content.pop(field, None)
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def refusal(folder: Path) -> str:
    with pytest.raises(UserError) as error:
        load_run(folder, device="cpu")
    return str(error.value)


@pytest.mark.parametrize("name", [WEIGHTS, "vocabulary/tokenizer.json", "vocabulary/labels.json"])
def test_a_pipe_in_place_of_a_file_is_rejected(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert str(folder / name) in refusal(folder)


def test_a_pipe_in_place_of_metrics_is_not_read(folder: Path) -> None:
    (folder / METRICS).unlink()
    os.mkfifo(folder / METRICS)
    assert list(read_metrics(folder)) == []


def test_a_config_larger_than_its_weights_is_rejected_before_building(folder: Path) -> None:
    change(folder, lambda settings: settings["model"].update(dim=20_000))
    sentence = refusal(folder)
    assert "the config describes a model whose weights need" in sentence
    assert (
        "but the stored weights have 0.0 GB" in sentence
        and "; copy them again, or correct model.dim (20000)" in sentence
    )


def test_huge_weights_of_a_small_model_are_not_read(folder: Path) -> None:
    head = json.dumps({"body.x": {"dtype": "F32", "shape": [2**32], "data_offsets": [0, 2**34]}}).encode()
    with (folder / WEIGHTS).open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.truncate(8 + len(head) + 2**34)
    assert "it has 4,294,967,296 values, and the model" in refusal(folder)


def test_a_tensor_with_a_very_long_name_gives_a_short_message(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors["x" * 100_000] = tensors.pop(min(tensors))
    save_file(tensors, folder / WEIGHTS)
    sentence = refusal(folder)
    assert "does not fit the model that" in sentence and len(sentence) < 400 + 2 * len(str(folder))


def test_a_token_with_a_huge_id_is_rejected(folder: Path) -> None:
    def edit(content: dict[str, Any]) -> None:
        content["model"]["vocab"]["far"] = 4_000_000_000

    change(folder, edit, "vocabulary/tokenizer.json")
    assert "tokens and their ids go up to 4,000,000,000" in refusal(folder)


def test_an_endless_line_of_metrics_is_skipped(folder: Path) -> None:
    with (folder / METRICS).open("wb") as file:
        file.write(b'{"step": 1}\n')
        file.truncate(2**26)
    assert list(read_metrics(folder)) == [{"step": 1}]


def test_gigabytes_of_metrics_are_read_only_from_a_trusted_run(folder: Path) -> None:
    with (folder / METRICS).open("wb") as file:
        file.write(b'{"step": 1}\n')
        file.truncate(2**31)
    with pytest.raises(
        UserError,
        match=r"metrics.jsonl has 2,147,483,648 bytes, more than the",
    ):
        next(read_metrics(folder))
    with accepting():
        assert next(read_metrics(folder)) == {"step": 1}


@pytest.fixture
def untrusted_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A downloaded run whose config names a file outside the run; the working directory contains neither of them."""
    secret = tmp_path / "secret" / "opinions.csv"
    secret.parent.mkdir()
    shutil.copy(FROZEN / "format-2" / "classification" / "opinions.csv", secret)
    change(folder, lambda settings: settings["data"].update(train=str(secret)))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CLEW_STATE", str(tmp_path / "state"))
    return folder


def run_and_trace(words: list[str]) -> tuple[Any, set[str]]:
    """The output of a command, and the files that it opened."""
    with opened_files() as opened:
        result = command(*words)
    return result, opened


@pytest.mark.slow
def test_files_named_by_an_untrusted_config_are_not_read(untrusted_run: Path, tmp_path: Path) -> None:
    secret = str(tmp_path / "secret" / "opinions.csv")
    for words in (
        ["evaluate"],
        ["prune", "--heads", "0.5", "--out", "x"],
        ["probe"],
        ["look", "contextuality"],
        ["look", "errors"],
    ):
        words = (
            [*words[:2], str(untrusted_run), *words[2:]]
            if words[0] == "look"
            else [words[0], str(untrusted_run), *words[1:]]
        )
        result, opened = run_and_trace(words)
        assert secret not in opened, words
        if words[0] == "evaluate":
            assert (
                result.status == 2
                and result.err
                == f"clew: {untrusted_run} was not trained here, and its config names '{shortened(secret)}'"
                " (data.train), which is outside the run and this folder; if you trust the run, add"
                " --trust, or name your own data\n"
            )
    assert not list((tmp_path / "cache").glob("**/*.tokens"))


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."


def test_predictions_need_no_trust(untrusted_run: Path) -> None:
    assert command("classify", str(untrusted_run), "the wall is whole", "--device", "cpu").status == 0
    assert (
        command(
            "evaluate",
            str(untrusted_run),
            str(FROZEN / "format-2" / "classification" / "opinions.csv"),
            "--device",
            "cpu",
        ).status
        == 0
    )


def test_trust_is_stored_for_the_config_even_if_the_run_moves(untrusted_run: Path, tmp_path: Path) -> None:
    assert command("evaluate", str(untrusted_run), "--trust", "--device", "cpu").status == 0
    assert command("evaluate", str(untrusted_run), "--device", "cpu").status == 0
    untrusted_run.rename(tmp_path / "moved")
    assert command("evaluate", str(tmp_path / "moved"), "--device", "cpu").status == 0
    change(tmp_path / "moved", lambda settings: settings.update(seed=77))
    assert command("evaluate", str(tmp_path / "moved"), "--device", "cpu").status == 2, (
        "what was trusted is this config, not this folder"
    )


def test_data_named_by_the_user_are_read(untrusted_run: Path, tmp_path: Path) -> None:
    data = f"data.valid={tmp_path / 'secret' / 'opinions.csv'}"
    assert command("evaluate", str(untrusted_run), data, "--device", "cpu").status == 0
    assert command("evaluate", str(untrusted_run), data, "--device", "cpu").status == 0


def test_files_in_the_working_directory_are_read_unless_hidden(
    untrusted_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("evaluate", str(untrusted_run), "--device", "cpu").status == 0
    (tmp_path / "secret").rename(tmp_path / ".secret")
    change(untrusted_run, lambda settings: settings["data"].update(train=".secret/opinions.csv"))
    assert "names '.secret/opinions.csv'" in command("evaluate", str(untrusted_run), "--device", "cpu").err, (
        "a home folder has hidden ones"
    )


def test_the_root_folder_as_working_directory_grants_no_access(
    untrusted_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    result = command("evaluate", str(untrusted_run), "--device", "cpu")
    assert result.status == 2 and "was not trained here, and its config names" in result.err


def test_a_run_trained_on_this_machine_reads_its_data_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data", "runs", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CLEW_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    run_recipe("text-gpt", gpt_settings(tmp_path / "data", steps=2), out=tmp_path / "runs" / "gpt")
    shutil.copytree(tmp_path / "runs" / "gpt", tmp_path / "runs" / "copied")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("gpt", "copied"):
        assert command("evaluate", str(tmp_path / "runs" / name), "--device", "cpu").status == 0
    assert (
        command("prune", str(tmp_path / "runs" / "gpt"), "--heads", "0.5", "--out", "pruned", "--device", "cpu").status
        == 0
    )
    assert command("evaluate", "pruned", "--device", "cpu").status == 0
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700 and (
        tmp_path / "state" / "runs"
    ).stat().st_mode & 0o777 == 0o600
    shutil.rmtree(tmp_path / "state")
    assert "was not trained here" in command("evaluate", "pruned", "--device", "cpu").err


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, "vocabulary/labels.json"])
def test_a_link_to_a_file_outside_the_run_is_not_read(untrusted_run: Path, tmp_path: Path, name: str) -> None:
    (untrusted_run / name).rename(tmp_path / "secret" / "file")
    (untrusted_run / name).symlink_to(tmp_path / "secret" / "file")
    result, opened = run_and_trace(["classify", str(untrusted_run), "the wall", "--device", "cpu"])
    assert str(tmp_path / "secret" / "file") not in opened
    assert (
        f"{untrusted_run / name} is a link to {tmp_path}" in result.err
        and "if you trust the run, add --trust" in result.err
    )
    assert command("classify", str(untrusted_run), "the wall", "--device", "cpu", "--trust").status == 0


def test_the_base_of_an_untrusted_adapter_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(FROZEN / "format-1" / "classification_adapter" / "run", tmp_path / "adapter")
    shutil.copytree(FROZEN / "format-1" / "masked_language_model" / "run", tmp_path / "secret" / "base")
    change(
        tmp_path / "adapter", lambda settings: settings["transfer"].update({"from": str(tmp_path / "secret" / "base")})
    )
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    result, opened = run_and_trace(["classify", "../adapter", "the wall is whole", "--device", "cpu"])
    assert "(transfer.from), which is outside the run" in result.err and "or set CLEW_BASE to the folder" in result.err
    assert not any("secret" in path for path in opened)
    monkeypatch.setenv("CLEW_BASE", str(tmp_path / "secret" / "base"))
    assert command("classify", "../adapter", "the wall is whole", "--device", "cpu").status == 0
