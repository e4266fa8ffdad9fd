import pytest

from benchmarks.data_sizes import draw_rows, measure, sentences, write_examples
from clew.data.readers import read_labelled, read_pairs, read_sentences


def test_generated_examples_are_read_in_their_format(tmp_path):
    for task, read in (("pairs", read_pairs), ("labelled", read_labelled), ("tagged", read_sentences)):
        path = tmp_path / f"{task}.{'conll' if task == 'tagged' else 'tsv'}"
        write_examples(task, path, 30)
        assert len(list(read(path))) == 30


def test_generated_sentences_are_the_same_for_a_seed_and_within_their_lengths():
    first = list(sentences(50, 3))
    assert first == list(sentences(50, 3)) != list(sentences(50, 4))
    assert {len(words) for words in first} <= set(range(4, 16))


def test_the_picture_has_a_line_for_each_task_and_start():
    numbers = {"first_peak": 500, "second_peak": 400, "first_processor": 20.0, "second_processor": 3.0}
    rows = [{"task": task, "examples": count, **numbers} for task in ("pairs", "tagged") for count in (100, 1000)]
    picture = draw_rows(rows)
    assert picture.startswith("<svg")
    for name in ("pairs, first start", "pairs, second start", "tagged, first start", "tagged, second start"):
        assert name in picture


@pytest.mark.slow
def test_a_measurement_has_every_figure(tmp_path):
    row = measure("pairs", 300, str(tmp_path), with_two_processes=True)
    assert row["first_peak"] > row["imports"] > 0
    assert row["two_pss"] < row["two_rss"]
