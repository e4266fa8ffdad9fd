"""When the benchmark of the server finds something wrong."""

from argparse import Namespace

import pytest

from benchmarks.serving import Client, report

SEEN = {'clew_batch_texts_sum{run="x"}': 30.0, 'clew_batch_texts_count{run="x"}': 10.0}


def asked(**counts: int) -> list[Client]:
    client = Client("127.0.0.1", 1, "/classify", Namespace(options="{}", long="{}", long_share=5.0), 0)
    client.latencies["asked"] = [0.1, 0.2, 0.3]
    client.statuses.update({("asked", 200): 3, ("oversized", 413): 1, ("cancelled", 0): 1})
    client.statuses.update({("asked", int(status.removeprefix("s"))): count for status, count in counts.items()})
    return [client]


def test_a_server_that_answers_and_stays_small_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(asked(), [100.0, 110.0, 111.0, 112.0, 112.0], SEEN, 2.0)
    shown = capsys.readouterr().out
    assert "5 requests, 1.5 answers/s" in shown and "texts a call: 3.0" in shown and "99 % " in shown


def test_an_error_of_the_server_or_memory_that_grows_is_not() -> None:
    assert not report(asked(s500=1), [100.0] * 5, SEEN, 2.0)
    assert not report(asked(), [100.0, 100.0, 105.0, 110.0, 115.0], SEEN, 2.0)
