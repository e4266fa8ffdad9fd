import re

import pytest

from benchmarks.decoding_steps import main


@pytest.mark.slow
def test_every_model_is_timed(capsys):
    main(["--quick", "--device", "cpu"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["GPT 4 x 128"] * 2 + ["LSTM 2 x 64"] * 2 + ["Transformer"]
    assert all(re.search(r"[\d,]+ tokens/s", line) for line in lines)


def test_a_model_that_is_not_known_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["gtp2"])
    assert "unknown model 'gtp2'; known: gpt2, lstm, beam" in capsys.readouterr().err
