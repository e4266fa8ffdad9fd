"""`compare_groups` on translation runs agrees with the tests of sacreBLEU."""

import itertools
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, TER
from sacrebleu.significance import PairedTest

from clew.metrics.measures import MEASURES
from clew.recipes.resolving import config_of
from clew.runs.comparison import Group, compare_groups
from clew.runs.folder.predictions import write_predictions
from clew.runs.folder.records import Summary
from tests.runs.seven_systems import simulate

MEASURED = ("bleu", "chrf", "ter")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_of(name: str, hypotheses: list[str], references: list[str], *, statistics: bool = True) -> Group:
    """A translation run with this output for its test part."""
    folder = Path("runs", name)
    folder.mkdir(parents=True)
    config = config_of("tatoeba-transformer", [f"task.measures=[{','.join(MEASURED)}]"])
    values = {
        f"best.test.{measure}": MEASURES[measure].corpus(hypotheses, references, False).values[measure]
        for measure in MEASURED
    }
    ids = [f"test-{number}" for number in range(len(references))]
    each = [MEASURES[measure].statistics(hypotheses, references, False) for measure in MEASURED]
    rows = {id: {name: row for part in each for name, row in part[place].items()} for place, id in enumerate(ids)}
    scores = {id: MEASURES["bleu"].sentence(a, b, False) for id, a, b in zip(ids, hypotheses, references, strict=True)}
    fields = {
        id: {"source": "?", "target": b, "prediction": a} for id, a, b in zip(ids, hypotheses, references, strict=True)
    }
    write_predictions(folder, scores, fields, rows if statistics else None)
    return Group(name, (Summary(folder, config, [{"step": config.training.steps, "best.step": 1, **values}]),))


def sacrebleu_p(kind: str, samples: int, references: list[str], *systems: list[str]) -> float:
    _, signatures = PairedTest(
        [("first", systems[0]), ("second", systems[1])],
        {"BLEU": BLEU()},
        [references],
        test_type=kind,
        n_samples=samples,
    )()
    p: float = signatures["BLEU"][1].p_value
    return p


@pytest.mark.slow
def test_verdicts_at_5_percent_match_sacrebleu_on_all_pairs_of_systems(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("CRITICAL", logger="sacrebleu")
    references, systems = simulate()
    runs = {name: run_of(name, hypotheses, references) for name, hypotheses in systems.items()}
    pairs = list(itertools.combinations(systems, 2))
    assert len(pairs) == 21
    verdicts = []
    for one, two in pairs:
        verdict, notes = compare_groups(runs[one], runs[two], "test.bleu")
        assert (verdict.name, verdict.over, notes) == ("paired bootstrap", "BLEU of 300 examples", [])
        swapped = compare_groups(runs[one], runs[two], "test.bleu", "randomisation")[0]
        theirs = sacrebleu_p("bs", 1000, references, systems[one], systems[two])
        theirs_swapped = sacrebleu_p("ar", 10_000, references, systems[one], systems[two])
        assert verdict.p is not None and swapped.p is not None
        verdicts.append((one, two, verdict.p < 0.05, theirs < 0.05))
        # Two estimates of a share, each from 10,000 draws, differ by less than five standard errors.
        assert swapped.p == pytest.approx(theirs_swapped, abs=5 * (2 * 0.25 / 10_000) ** 0.5)
    assert [ours for *_, ours, _ in verdicts] == [theirs for *_, theirs in verdicts], verdicts
    assert 3 <= sum(not ours for *_, ours, _ in verdicts) <= 18, "some differ and some do not"


@pytest.mark.slow
def test_the_corpus_measure_is_tested_not_the_mean_of_sentence_scores() -> None:
    """Errors in short sentences lower the mean of sentence BLEU much, and corpus BLEU little."""
    references, systems = simulate()
    alike, even = run_of("short", systems["short 24"], references), run_of("even", systems["even 20"], references)
    p_values = {
        test: compare_groups(alike, even, "test.bleu", test)[0].p or 0.0 for test in ("bootstrap", "randomisation")
    }
    assert min(p_values.values()) > 0.3, "corpora 0.2 BLEU apart"
    other = run_of("long", systems["long 24"], references)
    assert (compare_groups(alike, other, "test.bleu")[0].p or 1.0) < 0.001, (
        "12 BLEU apart, with the same share of words wrong a sentence"
    )


@pytest.mark.parametrize("measure", MEASURED)
def test_every_measure_is_resampled_from_its_own_statistics(measure: str) -> None:
    references, systems = simulate(60)
    one, two = run_of("one", systems["even 20"], references), run_of("two", systems["even 30"], references)
    verdict, notes = compare_groups(one, two, f"test.{measure}")
    assert notes == [] and verdict.over == f"{ {'bleu': 'BLEU', 'chrf': 'chrF', 'ter': 'TER'}[measure] } of 60 examples"
    assert verdict.p is not None and verdict.p < 0.01


@pytest.mark.slow
def test_predictions_without_statistics_are_scored_again() -> None:
    references, systems = simulate(80)
    hypotheses = systems["even 24"], systems["short 24"]
    new = [run_of(f"new-{number}", each, references) for number, each in enumerate(hypotheses)]
    old = [run_of(f"old-{number}", each, references, statistics=False) for number, each in enumerate(hypotheses)]
    for measure in MEASURED:
        for test in ("bootstrap", "randomisation"):
            assert compare_groups(*old, f"test.{measure}", test) == compare_groups(*new, f"test.{measure}", test)


def test_a_p_value_of_another_measure_is_noted() -> None:
    references, systems = simulate(40)
    one, two = run_of("one", systems["even 20"], references), run_of("two", systems["even 30"], references)
    verdict, notes = compare_groups(one, two, "valid.bleu")
    assert verdict.over == "BLEU of 40 examples"
    assert notes == ["predictions.jsonl is not of the examples of valid.bleu; p is of test.bleu"]
    verdict, notes = compare_groups(one, two, "test.loss")
    assert verdict.over == "scores of 40 examples"
    assert notes == ["predictions.jsonl has no test.loss of single examples, so p is of the mean of their scores"]


def test_corpus_ter_equals_that_of_sacrebleu() -> None:
    references, systems = simulate(30)
    for hypotheses in systems.values():
        theirs = TER(case_sensitive=True).corpus_score(hypotheses, [references]).score
        assert MEASURES["ter"].corpus(hypotheses, references, False).values["ter"] == pytest.approx(theirs)
