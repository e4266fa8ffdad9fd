from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.core.trees import Span
from clew.data.syntax.trees import parse_tree
from clew.metrics.brackets import (
    COLLINS,
    NEW,
    STANDARD,
    BracketCounts,
    BracketScore,
    Rules,
    Yield,
    compare,
    score_brackets,
    score_sentence,
    scored,
)
from tests.core.trees import phrases


def counts(gold, predicted, rules=COLLINS):
    return score_sentence(parse_tree(gold), None if predicted is None else parse_tree(predicted), rules).all


def brackets(text, rules=COLLINS):
    return scored(parse_tree(text), rules).brackets


GOLD = "(S (NP (DT the) (NN man)) (VP (VBZ sees) (NP (DT a) (NN dog)) (PP (IN with) (NP (NNS glasses)))))"


def test_attaching_a_phrase_one_level_down_lowers_only_precision():
    # Gold: S 0-7, NP 0-2, VP 2-7, NP 3-5, PP 5-7, NP 6-7. Predicted: the same and another NP 3-7, which crosses none.
    predicted = "(S (NP (DT the) (NN man)) (VP (VBZ sees) (NP (NP (DT a) (NN dog)) (PP (IN with) (NP (NNS glasses))))))"
    score = counts(GOLD, predicted)
    assert (score.matched, score.gold, score.predicted) == (6, 6, 7)
    assert score.recall == 1
    assert score.precision == pytest.approx(6 / 7)
    assert score.f1 == pytest.approx(12 / 13)
    assert (score.complete, score.crossing, score.tagging_accuracy) == (0, 0, 1)


def test_a_bracket_with_a_wrong_label_matches_only_if_labels_are_ignored():
    predicted = GOLD.replace("(PP", "(ADJP").replace("(VP", "(S")
    assert counts(GOLD, predicted).matched == 4
    assert counts(GOLD, predicted, Rules(labelled=False)).matched == 6


def test_predicted_brackets_that_cross_gold_ones_are_counted_once_each():
    # Gold 0-2, 2-5 and 0-5. Predicted 1-3 crosses the first two, 1-5 crosses 0-2; 0-5 crosses none.
    score = counts("(S (X (A a) (B b)) (Y (C c) (D d) (E e)))", "(S (A a) (X (Y (B b) (C c)) (D d) (E e)))")
    assert score.crossing == 2
    assert (score.uncrossed, score.barely_crossed) == (0, 1)
    assert counts(GOLD, GOLD).uncrossed == 1


def test_a_repeated_label_over_the_same_words_must_be_found_twice():
    once, twice, thrice = "(S (NP (N a)) (V b))", "(S (NP (NP (N a))) (V b))", "(S (NP (NP (NP (N a)))) (V b))"
    assert (counts(twice, once).recall, counts(twice, once).precision) == (2 / 3, 1)
    assert (counts(once, thrice).recall, counts(once, thrice).precision) == (1, 2 / 4)
    assert counts(twice, twice).complete == 1


def test_punctuation_is_removed_before_words_are_counted():
    text = "(S (`` ``) (NP (NN rain)) (, ,) (VP (VBZ falls) (: --) ('' '')) (. .))"
    assert brackets(text) == [Span("S", 0, 2), Span("NP", 0, 1), Span("VP", 1, 2)]
    assert scored(parse_tree(text)).words == ["rain", "falls"]
    assert counts(text, "(S (`` ``) (NP (NN rain) (, ,)) (VP (VBZ falls)) (: --) ('' '') (. .))").complete == 1


def test_traces_are_removed_with_phrases_that_contain_nothing_else():
    assert brackets("(VP (VBD said) (SBAR (-NONE- 0) (S (-NONE- *T*-1))) (. .))") == [Span("VP", 0, 1)]
    assert brackets("(S (NP (, ,)) (VP (VB go)))") == [Span("S", 0, 1), Span("VP", 0, 1)]


def test_deleting_a_label_keeps_the_contents_of_the_phrase():
    assert brackets("(TOP (S (TOP (NN a)) (NN b)))") == [Span("S", 0, 2)]
    for root in ("S1 ", "ROOT ", ""):
        assert brackets(f"({root}(S (NN a)))", STANDARD) == [Span("S", 0, 1)]
        assert len(brackets(f"({root}(S (NN a)))")) == 2
    assert scored(parse_tree("(S (NN a) (? ?) (! !))"), STANDARD).words == ["a"]
    assert scored(parse_tree("(S (NN a) (? ?) (! !))"), COLLINS).words == ["a", "?", "!"]


def test_function_tags_and_the_two_labels_of_particles_are_ignored():
    score = counts("(S-TPC (NP-SBJ=2 (PRP it)) (PRT (RP up)))", "(S (NP-1 (PRP it)) (ADVP-TMP (RP up)))")
    assert score.matched == score.gold == 3
    assert counts("(S (PRT-X (RP up)))", "(S (PRP (RP up)))").matched == 1


def test_tags_are_counted_for_counted_words():
    score = counts("(S (DT a) (NN b) (, ,))", "(S (DT a) (JJ b) (, ,))")
    assert (score.right_tags, score.words) == (1, 2)


def test_different_words_are_an_error_and_not_scored():
    error = BracketCounts(sentences=1, errors=1)
    assert counts("(S (NN a) (NN b))", "(S (NN a))") == error
    assert counts("(S (NN a) (NN b))", "(S (NN a) (NN c))") == error
    # Each tree's punctuation is identified by its own tags, so a comma tagged as a noun is an extra word.
    assert counts("(S (NN a) (, ,))", "(S (NN a) (NN ,))") == error


EXAMPLE = Rules(equal_words=frozenset({("Example", "example"), ("example", "sample")}))


def test_equal_words_are_defined_by_pairs_in_either_order():
    """EVALB's lines `EQ_WORD Example example` and `EQ_WORD example sample`; its word_comp looks only for the pair, so
    equality is not transitive."""
    tree = "(S (NP (NN {})) (VP (VBZ is)))"
    for gold, predicted, is_error in (
        ("Example", "example", False),
        ("example", "Example", False),
        ("sample", "example", False),
        ("Example", "sample", True),
        ("Sample", "sample", True),
    ):
        score = counts(tree.format(gold), tree.format(predicted), EXAMPLE)
        assert (score.errors, score.matched) == ((1, 0) if is_error else (0, 3)), (gold, predicted)
        assert counts(tree.format(gold), tree.format(predicted)).errors == (gold != predicted)


QUOTED = "(S (NP (NP (NNS dogs) ({} ')) (NNS tails)) (VP (VBP wag)))"
"""Two words per phrase if the mark is a possessive."""


def test_a_mistagged_quotation_mark_is_restored_in_both_trees():
    """Gold S 0-4, NP 0-3, NP 0-2, VP 3-4. If the parse has '', COLLINS.prm deletes the mark from only one tree."""
    gold, predicted = QUOTED.format("POS"), QUOTED.format("''")
    assert counts(gold, predicted).errors == 1
    for one, other in ((gold, predicted), (predicted, gold)):
        score = counts(one, other, NEW)
        assert (score.errors, score.matched, score.gold, score.predicted) == (0, 4, 4, 4)
        assert (score.words, score.right_tags, score.crossing) == (4, 3, 0)
    assert counts(gold, gold, NEW).words == 4 and counts(predicted, predicted, NEW).words == 3, (
        "it is taken out where both trees do"
    )


def test_a_kept_mark_widens_the_phrases_around_it_and_shifts_later_ones():
    """Gold, with the mark: S 0-4, NP 0-2, VP 2-4, NP 3-4. Predicted, with the mark in the VP: S 0-4, NP 0-1, VP 1-4,
    NP 3-4."""
    gold = "(S (NP (NNS dogs) (POS ')) (VP (VBP wag) (NP (NNS tails))))"
    predicted = "(S (NP (NNS dogs)) (VP ('' ') (VBP wag) (NP (NNS tails))))"
    score = counts(gold, predicted, NEW)
    assert (score.errors, score.matched, score.gold, score.predicted, score.crossing) == (0, 2, 4, 4, 1)


def test_words_other_than_marks_and_unlisted_tags_are_not_corrected():
    for word, tag in (("x", "''"), ("'", ",")):
        gold = f"(S (NP (NNS dogs) (POS {word})) (VP (VBP wag)))"
        assert counts(gold, gold.replace("POS", tag), NEW).errors == 1
    assert counts("(S (NP (CD 1) (: /) (CD 2)))", "(S (NP (CD 1) (CD /) (CD 2)))", NEW).errors == 0


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        # fix_quote shifts a restored mark together with the later ones: the first is restored once more at the word of
        # the second.
        ("(TOP (VP (`` ') (NN /)))", "(TOP (VP (CD ') (NN /)))", (1, 0, 0, 0)),
        ("(TOP (NP (`` \") ('' \") (NN b)))", '(TOP (NP (NN ") (NN ") (NN b)))', (0, 1, 1, 1)),
        ("(TOP (NP (NN a) (`` ') (NN b) ('' ')))", "(TOP (NP (NN a) (POS ') (NN b) (POS ')))", (0, 1, 1, 1)),
        # Equal numbers of words on both sides are not corrected, whatever the words.
        ("(TOP (NP (NN a) (`` ') (NN b) (POS ')))", "(TOP (NP (NN a) (POS ') (NN b) ('' ')))", (1, 0, 0, 0)),
    ],
)
def test_several_marks_are_corrected_like_in_evalb(gold, predicted, expected):
    """The expected values are printed by EVALB with new.prm."""
    score = counts(gold, predicted, NEW)
    assert (score.errors, score.matched, score.gold, score.predicted) == expected


def test_a_sentence_without_a_parse_is_skipped():
    skipped = BracketCounts(sentences=1, skipped=1)
    assert counts("(S (NN a))", None) == skipped
    assert counts("(S (NN a))", "(S (, ,))") == skipped


def test_short_sentences_have_forty_words_with_punctuation_and_without_traces():
    def sentence(num_words, *extra):
        return parse_tree("(S" + " (NN a)" * num_words + "".join(extra) + ")")

    assert score_sentence(sentence(40), sentence(40)).short.valid == 1
    assert score_sentence(sentence(40, "(-NONE- *)"), sentence(40)).short.valid == 1
    assert score_sentence(sentence(40, "(. .)"), sentence(40)) == BracketScore(
        score_sentence(sentence(40), sentence(40)).all
    )
    assert score_sentence(sentence(41), None).short.sentences == 0
    assert score_sentence(sentence(3), None).short.skipped == 1


def test_a_treebank_is_the_sum_of_its_sentences():
    golds = [parse_tree(GOLD), parse_tree("(S (NN a))"), parse_tree("(S (NN a))")]
    score = score_brackets(golds, [golds[0], None, parse_tree("(S (NP (NN a)))")])
    assert score.all == score.short == BracketCounts(3, 0, 1, 7, 8, 7, 1, 0, 2, 2, 8, 8)
    assert score.all.valid == 2
    assert score.all.complete_match == 0.5
    assert score.all.no_crossing == score.all.two_or_less_crossing == 1
    assert score.all.describe() == (
        "F1 93.33, precision 87.50, recall 100.00, complete 50.00, crossing 0.00 a sentence, tags 100.00\n"
        "7 of 7 gold and 8 predicted brackets, 2 sentences, 0 errors and 1 skipped left out"
    )


def test_nothing_scored_is_zero():
    assert BracketCounts().f1 == BracketCounts().complete_match == BracketCounts().tagging_accuracy == 0
    assert BracketCounts(1, gold=2, predicted=1).describe() == (
        "F1 0.00, precision 0.00, recall 0.00, complete 0.00, crossing 0.00 a sentence, tags 0.00\n"
        "0 of 2 gold and 1 predicted brackets, 1 sentences"
    )


@given(phrases, phrases)
def test_a_tree_matches_itself_and_swapping_trees_swaps_precision_and_recall(a, b):
    alone = score_sentence(a, a).all
    assert alone.skipped or (alone.f1 == 1 or alone.gold == 0) and alone.complete == 1 and alone.crossing == 0
    one, other = score_sentence(a, b).all, score_sentence(b, a).all
    assert one.skipped or other.skipped or (one.precision, one.recall) == (other.recall, other.precision)


bracketings = st.lists(
    st.builds(
        lambda label, start, size: Span(label, start, start + size),
        st.sampled_from("AB"),
        st.integers(0, 4),
        st.integers(1, 4),
    )
)


@given(bracketings, bracketings)
def test_matches_and_crossings_equal_those_counted_one_by_one(gold, predicted):
    unmatched, matched, crossing = list(predicted), 0, 0
    for bracket in gold:
        if bracket in unmatched:
            unmatched.remove(bracket)
            matched += 1
    for bracket in predicted:
        inside = set(range(*bracket[1:]))
        gold_ranges = [set(range(*other[1:])) for other in gold]
        crossing += any(inside & other and inside - other and other - inside for other in gold_ranges)
    score = compare(Yield(gold, ["w"], ["T"], 1), Yield(predicted, ["w"], ["T"], 1))
    assert (score.matched, score.crossing) == (matched, crossing)


@given(st.lists(st.builds(BracketCounts, *[st.integers(0, 99)] * 12), min_size=1, max_size=4))
def test_counts_of_parts_add_up_to_the_whole(parts):
    whole = sum((BracketScore(part, part) for part in parts), BracketScore())
    assert astuple(whole.all) == astuple(whole.short) == tuple(map(sum, zip(*map(astuple, parts), strict=True)))


def test_every_gold_tree_must_have_a_prediction():
    with pytest.raises(UserError) as caught:
        score_brackets([parse_tree("(S (NN a))")], [])
    assert (
        str(caught.value)
        == "there must be as many predicted trees (0) as gold trees (1); give None for a sentence without a parse"
    )
