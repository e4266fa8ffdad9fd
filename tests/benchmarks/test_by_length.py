"""BLEU by length counts every sentence once, in the bin of its source."""

import json
from pathlib import Path

from benchmarks.by_length import BINS, bin_name, scores


def test_every_sentence_is_in_the_bin_of_its_length(tmp_path: Path) -> None:
    lengths = [1, 6, 7, 19, 20, 500]
    target = "a dog runs over the green field"
    lines = [
        {"source": "w " * length, "target": target, "prediction": target if length < 20 else "no"} for length in lengths
    ]
    (tmp_path / "predictions.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    score_of = {bin_name(*each): (count, round(score)) for each, (count, score) in scores(tmp_path).items()}
    assert score_of == {"1-6": (2, 100), "7-9": (1, 100), "16-19": (1, 100), "20 or more": (2, 0)}
    assert all(last + 1 == first for (_, last), (first, _) in zip(BINS, BINS[1:], strict=False))
