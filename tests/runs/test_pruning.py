"""A pruned run computes the same as the full run with those heads switched off, and is used like any run."""

from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.inspection.heads import head_names, heads_off
from clew.layers.attention import Attention
from clew.layers.scores import ScaledDot
from clew.runs.loaded import load_run
from clew.runs.pruning import kept_heads, prune_run
from tests.runs.pretrained import save_pretrained

TOKENS = torch.tensor([[3, 4, 5, 6]])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("whole")
    return {
        kind: load_run(save_pretrained(folder / kind, kind), device="cpu")
        for kind in ("bert", "gpt", "llama", "mixed", "recurrent")
    }


def hidden(run):
    with torch.no_grad():
        return run.task.body(TOKENS)[0]


@pytest.mark.parametrize(
    "kind, off", [("bert", ["1.1", "2.2"]), ("gpt", ["1.1", "1.2"]), ("llama", ["2.1"]), ("mixed", ["1.3"])]
)
def test_a_pruned_run_equals_the_full_run_with_heads_off(runs, tmp_path: Path, kind, off):
    with heads_off(runs[kind], off):
        expected = hidden(runs[kind])
    pruned = prune_run(runs[kind], off, tmp_path / "pruned", {"best.valid.loss": 1.5})
    for run in (pruned, load_run(tmp_path / "pruned", device="cpu")):
        torch.testing.assert_close(hidden(run), expected, rtol=1e-5, atol=1e-6)
        assert len(head_names(run)) == len(head_names(runs[kind])) - len(off)
    assert (tmp_path / "pruned" / "model.safetensors").stat().st_size < (
        runs[kind].folder / "model.safetensors"
    ).stat().st_size


def test_a_pruned_run_can_be_pruned_again(runs, tmp_path: Path):
    once = prune_run(runs["mixed"], ["1.2"], tmp_path / "once")
    assert once.config.model.heads == {"1": [1, 3, 4]}
    with heads_off(runs["mixed"], ["1.2", "1.3"]):
        expected = hidden(runs["mixed"])
    prune_run(load_run(tmp_path / "once", device="cpu"), ["1.2"], tmp_path / "twice")  # head 1.3 of the original run
    twice = load_run(tmp_path / "twice", device="cpu")
    assert twice.config.model.heads == {"1": [1, 4]}
    torch.testing.assert_close(hidden(twice), expected, rtol=1e-5, atol=1e-6)


def test_pruning_leaves_the_original_run_unchanged(runs, tmp_path: Path):
    before = hidden(runs["gpt"])
    prune_run(runs["gpt"], ["2.1"], tmp_path / "pruned")
    torch.testing.assert_close(hidden(runs["gpt"]), before)
    assert kept_heads(runs["gpt"], ["1.2"]) == {"1": [1]}


def test_invalid_requests_to_prune_are_rejected(runs, tmp_path: Path):
    with pytest.raises(UserError, match="no attention heads to prune"):
        prune_run(runs["recurrent"], ["1.1"], tmp_path / "a")
    with pytest.raises(UserError, match="unknown head '9.1'"):
        prune_run(runs["gpt"], ["9.1"], tmp_path / "a")
    with pytest.raises(UserError, match="no heads to prune; name some, or keep a smaller share"):
        prune_run(runs["gpt"], [], tmp_path / "a")
    with pytest.raises(UserError, match="is a run already"):
        prune_run(runs["gpt"], ["1.1"], runs["bert"].folder)


def test_a_single_head_cannot_be_pruned(runs, tmp_path: Path):
    run = load_run(runs["mixed"].folder, device="cpu")
    run.task.body.extra = Attention(ScaledDot(8, 8))
    with pytest.raises(UserError, match="layer 2 has only one head, which cannot be pruned; leave it out"):
        prune_run(run, ["2.1"], tmp_path / "a")


def test_a_pruned_run_cannot_be_exported_to_transformers(runs, tmp_path: Path):
    from clew.interop.huggingface.writing import write_huggingface

    pruned = prune_run(runs["gpt"], ["1.1"], tmp_path / "pruned")
    with pytest.raises(
        UserError, match="has the same number of heads in every layer, but this run's were pruned; use format='onnx'"
    ):
        write_huggingface(pruned, tmp_path)
