"""The benchmark of streams, on a folder that is small enough for a test; docs/results.md has it on 500 MB and on 5
GB."""

import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
from benchmarks import stream_memory

MEGABYTES, STEPS = 60, 24


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is told in kilobytes there")
def test_a_folder_of_parquet_trains_in_little_memory_and_goes_on_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(stream_memory, "SHARD_BYTES", 2**24)
    shards, whole, broken = (tmp_path / name for name in ("shards", "whole", "broken"))
    shards.mkdir()
    files, characters = stream_memory.make_folder(shards, MEGABYTES)
    assert files > 3 and characters > MEGABYTES * 10**6
    settings = stream_memory.settings_of(shards, STEPS, workers=1)
    ended = stream_memory.run([*settings, "--out", str(whole)])
    assert ended.code == 0 and ended.peak < 1.5
    killed = stream_memory.run([*settings, "--out", str(broken)], lambda: stream_memory.has_steps(broken, STEPS // 2))
    assert killed.code == -signal.SIGKILL
    resumed = stream_memory.run([*settings, "--out", str(broken), "--resume"])
    assert resumed.code == 0 and resumed.peak < 1.5
    assert stream_memory.differences(whole, broken) == []
