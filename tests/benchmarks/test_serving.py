"""The benchmark of the server passes or fails as it should."""

from argparse import Namespace

import pytest

from benchmarks.serving import Client, Memory, report

METRICS = {'clew_batch_texts_sum{run="x"}': 30.0, 'clew_batch_texts_count{run="x"}': 10.0}


def clients(**counts: int) -> list[Client]:
    client = Client("127.0.0.1", 1, "/classify", Namespace(options="{}", long="{}", long_share=5.0), 0)
    client.latencies["short"] = [0.1, 0.2, 0.3]
    client.statuses.update({("short", 200): 3, ("oversized", 413): 1, ("cancelled", 0): 1})
    client.statuses.update({("short", int(status.removeprefix("s"))): count for status, count in counts.items()})
    return [client]


def sizes(*resident: float, cached: float = 0.0) -> list[Memory]:
    """The given memory, with a cache that fills to `cached` megabytes."""
    return [Memory(size, cached * place / (len(resident) - 1)) for place, size in enumerate(resident)]


def test_a_server_that_answers_and_stays_small_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(clients(), sizes(100.0, 110.0, 111.0, 112.0, 112.0), METRICS, 2.0)
    shown = capsys.readouterr().out
    assert "5 requests, 1.5 answers/s" in shown and "texts per call: 3.0" in shown and "99 % " in shown


def test_a_server_error_or_growing_memory_fails() -> None:
    assert not report(clients(s500=1), sizes(*[100.0] * 5), METRICS, 2.0)
    assert not report(clients(), sizes(100.0, 100.0, 105.0, 110.0, 115.0), METRICS, 2.0)


def test_cached_prefixes_are_not_growth() -> None:
    assert report(clients(), sizes(100.0, 115.0, 130.0, 145.0, 160.0, cached=60.0), METRICS, 2.0)
    assert not report(clients(), sizes(100.0, 125.0, 150.0, 175.0, 200.0, cached=60.0), METRICS, 2.0)
