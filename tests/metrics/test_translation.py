import math

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.metrics.translation import Bleu, Chrf, Ter, bleu, chrf, sentence_bleu, sentence_chrf, sentence_ter, ter

VERSION = f"version:{sacrebleu.__version__}"


def test_the_bleu_of_one_sentence_equals_a_hand_computed_one():
    # the cat sat on the mat / the cat is on the mat: 5 of 6 words, 3 of 5 pairs, 1 of 4 triples, 0 of 3 fours (counted
    # as 1/2 of one).
    score = bleu(["the cat sat on the mat"], ["the cat is on the mat"])
    assert score.counts == (6, 6, 5, 3, 1, 0, 6, 5, 4, 3)
    assert score.score == pytest.approx(100 * (5 / 6 * 3 / 5 * 1 / 4 * 1 / 6) ** (1 / 4))
    assert score.describe() == f"BLEU 37.99 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{VERSION})"


def test_too_short_translations_are_penalised():
    score = bleu(["a b c d"], ["a b c d e f"], tokenizer="none")
    assert score.score == pytest.approx(100 * math.exp(1 - 6 / 4))
    assert score.length_ratio == pytest.approx(4 / 6)
    assert Bleu().length_ratio == 0


def test_case_and_tokenizers_are_options_and_reported():
    assert (
        bleu(["A b c d"], ["a b c d"]).score
        < bleu(["A b c d"], ["a b c d"], lowercase=True).score
        == pytest.approx(100)
    )
    assert bleu(["a b c d!"], ["a b c d !"]).score == pytest.approx(100)
    assert bleu(["a b c d!"], ["a b c d !"], tokenizer="none").counts[2] == 3
    assert bleu(["abcd"], ["abce"], tokenizer="char").counts == (4, 4, 3, 2, 1, 0, 4, 3, 2, 1)
    assert (
        bleu(["a"], ["a"], tokenizer="char", lowercase=True).signature
        == f"nrefs:1|case:lc|eff:no|tok:char|smooth:exp|{VERSION}"
    )


def test_several_references_are_merged_for_bleu_and_the_best_counts_for_chrf():
    assert bleu(["a b c d"], [["a b x x", "x x c d"]], tokenizer="none").counts == (4, 4, 4, 2, 0, 0, 4, 3, 2, 1)
    assert chrf(["abc"], [["xyz", "abc"]]).score == pytest.approx(100)
    mixed = bleu(["a", "b"], [["a", "b"], "b"])
    assert "nrefs:var" in mixed.signature


def test_the_chrf_of_one_word_equals_a_hand_computed_one():
    # cat / car: 2 of 3 letters, 1 of 2 pairs, 0 of 1 triple, nothing longer; precision and recall are the same.
    score = chrf(["cat"], ["car"])
    assert score.score == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)
    assert score.describe() == f"chrF2 38.89 (nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{VERSION})"
    assert (
        chrf(["Cat"], ["cat"], lowercase=True, word_order=2)
        .describe()
        .startswith("chrF2++ 100.00 (nrefs:1|case:lc|eff:yes|nc:6|nw:2")
    )


def test_sentences_have_their_own_scores():
    # Three words have no 4-grams, so that order is left out; 2 of 3 words, 1 of 2 pairs, 0 of 1 triple (counted as
    # 1/2 of one).
    assert sentence_bleu("a b x", "a b c", tokenizer="none") == pytest.approx(100 * (2 / 3 * 1 / 2 * 1 / 2) ** (1 / 3))
    assert sentence_bleu("A b", ["c", "a b"], tokenizer="none", lowercase=True) == pytest.approx(100)
    assert sentence_chrf("cat", "car") == pytest.approx(700 / 18)


sentences = st.lists(
    st.lists(st.sampled_from(["a", "b", "C", "dog", "."]), max_size=7).map(" ".join), min_size=1, max_size=6
)


@given(st.data(), sentences, st.booleans())
def test_parts_add_up_to_sacrebleus_score_of_the_whole(data, hypotheses, lowercase):
    references = [
        data.draw(st.lists(st.sampled_from(["a b C.", "the dog", "dog"]), min_size=1, max_size=2)) for _ in hypotheses
    ]
    streams = [
        [several[i] if i < len(several) else None for several in references] for i in range(max(map(len, references)))
    ]
    cut = data.draw(st.integers(0, len(hypotheses)))
    parts = [(hypotheses[:cut], references[:cut]), (hypotheses[cut:], references[cut:])]
    words = sum((bleu(*part, lowercase=lowercase) for part in parts), Bleu())
    letters = sum((chrf(*part, lowercase=lowercase, word_order=2) for part in parts), Chrf())
    for score, metric in (
        (words, sacrebleu.BLEU(lowercase=lowercase, force=True)),
        (letters, sacrebleu.CHRF(lowercase=lowercase, word_order=2)),
    ):
        assert score.score == pytest.approx(metric.corpus_score(hypotheses, streams).score)
        assert score.signature == str(metric.get_signature())
        assert score.num_sentences == len(hypotheses)


def test_a_shifted_phrase_is_one_edit():
    """The example of Snover et al. 2006: `this week` is shifted, two words are substituted and one is inserted."""
    reference = "SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times"
    hypothesis = "THIS WEEK THE SAUDIS denied information published in the new york times"
    result = ter([hypothesis], [reference])
    assert result.counts == (4, 13)
    assert result.score == pytest.approx(100 * 4 / 13)
    assert result.describe() == f"TER 30.77 (nrefs:1|case:mixed|tok:tercom|norm:no|punct:yes|asian:no|{VERSION})"


def test_ter_counts_deletions_and_insertions():
    assert ter(["a b c"], ["a b c"]).score == 0
    assert ter([""], ["a b"]).score == 100 and ter(["a"], [""]).score == 100 and ter([""], [""]).score == 0
    assert ter(["a b c d"], ["a"]).score == 300, "more edits than words"
    assert ter(["a b"], [["x y", "a b c d"]]).counts == (2, 3), (
        "the nearest reference's edits, the mean of their lengths"
    )
    assert sentence_ter("A b", "a b") == 50 and sentence_ter("A b", "a b", lowercase=True) == 0


marked = st.lists(st.sampled_from(["a", "b", "C", "dog,", "it's", "&amp;", "猫が", "好き。", "."]), max_size=8).map(
    " ".join
)


@given(
    st.lists(st.tuples(marked, marked), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_ter_equals_sacrebleu_with_every_option(pairs, lowercase, normalized, punctuation, asian):
    asian = asian and (normalized or not punctuation)
    hypotheses, references = map(list, zip(*pairs, strict=True))
    options = {"lowercase": lowercase, "normalized": normalized, "punctuation": punctuation, "asian": asian}
    parts = [ter([hypothesis], [reference], **options) for hypothesis, reference in pairs]
    metric = sacrebleu.TER(
        case_sensitive=not lowercase, normalized=normalized, no_punct=not punctuation, asian_support=asian
    )
    whole = sum(parts, Ter(**options))
    assert whole.score == pytest.approx(metric.corpus_score(hypotheses, [references]).score)
    assert whole.signature == str(metric.get_signature())


def test_scores_of_different_kinds_cannot_be_added():
    with pytest.raises(UserError) as caught:
        bleu(["a"], ["a"]) + bleu(["a"], [["a", "b"]], lowercase=True)
    assert str(caught.value) == (
        f"scores of different kinds cannot be added: nrefs:var|case:mixed|eff:no|tok:13a|smooth:exp|{VERSION} and "
        f"nrefs:var|case:lc|eff:no|tok:13a|smooth:exp|{VERSION}"
    )


def test_invalid_inputs_are_rejected():
    with pytest.raises(UserError, match=r"^there must be as many hypotheses \(1\) as references \(2\)$"):
        bleu(["a"], ["a", "b"])
    with pytest.raises(UserError, match=r"^hypotheses is one string; give a list of sentences$"):
        bleu("a", ["a"])
    with pytest.raises(UserError, match=r"^references is one string; give a list of sentences$"):
        chrf(["a"], "a")
    with pytest.raises(UserError, match=r"^sentence 1 has no reference; every hypothesis needs at least one$"):
        chrf(["a", "b"], ["a", []])
    with pytest.raises(UserError, match=r"^unknown tokenizer '13b'; did you mean '13a'\? known: 13a, char, none$"):
        bleu(["a"], ["a"], tokenizer="13b")
    with pytest.raises(UserError, match=r"^unknown tokenizer 'zh'"):
        sentence_bleu("a", "a", tokenizer="zh")
    with pytest.raises(UserError, match=r"^word_order \(3\) must be 0 for chrF, 1 for chrF\+ or 2 for chrF\+\+$"):
        chrf(["a"], ["a"], word_order=3)
    with pytest.raises(
        UserError, match=r"^asian=True changes nothing by itself; set normalized=True or punctuation=False with it$"
    ):
        ter(["a"], ["a"], asian=True)
    with pytest.raises(
        UserError,
        match=r"^no sentence was scored, so there is no score; give at least one hypothesis and its reference$",
    ):
        _ = bleu([], []).score
