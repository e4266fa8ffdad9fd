"""The benchmark of streams on a small folder; docs/results.md has its results on 500 MB and on 5 GB."""

import signal
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
from benchmarks import stream_memory

MEGABYTES, STEPS = 60, 24


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_a_folder_of_parquet_trains_in_little_memory_and_goes_on_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(stream_memory, "SHARD_BYTES", 2**24)
    shards, reference, interrupted = (tmp_path / name for name in ("shards", "reference", "interrupted"))
    shards.mkdir()
    files, characters = stream_memory.make_folder(shards, MEGABYTES)
    assert files > 3 and characters > MEGABYTES * 10**6
    settings = stream_memory.settings_of(shards, STEPS, workers=1)
    uninterrupted = stream_memory.train([*settings, "--out", str(reference)])
    assert uninterrupted.code == 0 and uninterrupted.peak < 1.5
    killed = stream_memory.train(
        [*settings, "--out", str(interrupted)], lambda: stream_memory.has_steps(interrupted, STEPS // 2)
    )
    assert killed.code == -signal.SIGKILL
    resumed = stream_memory.train([*settings, "--out", str(interrupted), "--resume"])
    assert resumed.code == 0 and resumed.peak < 1.5
    assert stream_memory.differences(reference, interrupted) == []
