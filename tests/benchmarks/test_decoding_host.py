import re

import pytest

from benchmarks.decoding_host import main
from clew.decoding import engine


@pytest.mark.slow
def test_the_host_of_every_call_is_timed_and_nothing_stands_in_for_graphs_afterwards(capsys):
    made_for = engine.made_for
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["beam", "gpt"]
    assert all(
        re.search(r": [\d,]+ us on the host \(minimum [\d,]+\), \d+ operations, \d+ reads$", line) for line in lines
    )
    assert engine.made_for is made_for and not engine._graphs


def test_a_call_that_is_not_known_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["gtp"])
    assert "unknown call 'gtp'; known: beam, gpt" in capsys.readouterr().err
