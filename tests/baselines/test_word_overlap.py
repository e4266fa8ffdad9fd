from clew.baselines.word_overlap import fit_word_overlap

PASSAGE = "Dr. Ada wrote the notes in 1843.  The engine was never built! Did the Rome of today know of it?\nThe end"


def answer(question: str, passage: str = PASSAGE, other_passages: tuple[str, ...] = ()) -> str:
    start, stop = fit_word_overlap([passage, *other_passages]).answer(question, passage)
    return passage[start:stop]


def test_the_sentence_that_shares_rare_words_is_returned_unchanged() -> None:
    other_passages = ("The cat sat. Was the dog there?", "The rain was over.")
    assert answer("Was the ENGINE ever built?", other_passages=other_passages) == "The engine was never built!"
    assert (
        answer("Was it in Rome?", other_passages=other_passages) == "Did the Rome of today know of it?"
    )  # two rare words outweigh "was" or "in"
    assert answer("xyz?", other_passages=other_passages) == "Dr."  # no sentence shares a word: the first one


def test_a_word_counts_once_and_less_if_many_passages_have_it() -> None:
    overlap = fit_word_overlap(["a b", "a c", "a d", "a d"])
    assert overlap.weights["a"] == 0 < overlap.weights["b"] == overlap.weights["d"] < overlap.unseen
    assert overlap.shared({"b"}, "b b b") == overlap.weights["b"]
