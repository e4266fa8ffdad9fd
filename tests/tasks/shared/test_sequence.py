"""A sequence-to-sequence task against single sentences, and decoding against its definition."""

from typing import Any

import pytest
import tokenizers
import torch

from clew.core.errors import UserError
from clew.data.examples import Pair
from clew.models.seq2seq import Seq2SeqConfig, build_seq2seq
from clew.sources.tokens import Tokens
from clew.tasks.shared.sequence import (
    SequenceConfig,
    SequenceToSequence,
    Sides,
    TranslationConfig,
    train_sequence_vocabularies,
)
from clew.tasks.uses.writing import DecodingConfig, Hypothesis
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_bpe, train_character, train_word
from clew.training.backward import StepOptions
from clew.training.loop import train
from clew.training.optimisers import adamw
from clew.training.records import Progress
from clew.training.schedules import Constant
from tests.crossing import crossed, quickly
from tests.models.translators import WAYS
from tests.tasks.sequences import EVERY, PAIRS, batch_of, one_by_one, sequence_task, sharp, targets_of
from tests.thread.models import batches_of

SMOOTHED = SequenceConfig(label_smoothing=0.1)
HARD = [way for way in EVERY if "hard" in way]


@pytest.mark.parametrize("way", EVERY)
def test_the_loss_equals_that_of_single_sentences(way: str) -> None:
    task = sequence_task(way).eval()
    by_hand = torch.stack([-log_probs(task, pair).sum() for pair in PAIRS]).sum()
    terms, state = task(batch_of(task))
    torch.testing.assert_close(terms["loss"].sum, by_hand, rtol=1e-10, atol=0)
    assert (list(terms), state) == (["loss"], None)
    assert int(terms["loss"].count) == sum(len(pair.target.split()) + 1 for pair in PAIRS)


def log_probs(task: Any, pair: Pair) -> torch.Tensor:
    """Log-probabilities of each target token of a sentence and of its end."""
    return one_by_one(task, pair).gather(1, torch.tensor(targets_of(task, pair))[:, None])[:, 0]


@pytest.mark.parametrize("way", ["bottleneck", "bahdanau", "luong-deep", "transformer", "convolutional"])
def test_smoothing_is_a_separate_term(way: str) -> None:
    """(1 - eps) log p(target) + eps times the mean of log p over the vocabulary, minus log p(target)."""
    task = sequence_task(way, config=SMOOTHED).train()
    extra = torch.zeros((), dtype=torch.float64)
    for pair in PAIRS:
        extra -= 0.1 * (one_by_one(task, pair).mean(1) - log_probs(task, pair)).sum()
    terms, _ = task(batch_of(task))
    torch.testing.assert_close(terms["smoothing"].sum, extra, rtol=1e-9, atol=1e-9)
    assert not terms["loss"].sum.requires_grad


@pytest.mark.parametrize(
    ("joint", "shared", "tied"), [(False, False, False), (False, False, True), (True, False, True), (True, True, True)]
)
@pytest.mark.parametrize("way", ["luong", "transformer", "convolutional"])
def test_vocabularies_may_be_separate_joint_or_shared_and_outputs_tied(
    way: str, joint: bool, shared: bool, tied: bool
) -> None:
    width: dict[str, Any] = {"embedding_dim": 8} if "embedding_dim" in WAYS[way] else {}
    task = sequence_task(way, joint=joint, shared_embeddings=shared, config=SequenceConfig(tied=tied), **width).eval()
    by_hand = torch.stack([-log_probs(task, pair).sum() for pair in PAIRS]).sum()
    torch.testing.assert_close(task(batch_of(task))[0]["loss"].sum, by_hand, rtol=1e-10, atol=0)
    tables = {
        task.body.source_embedding.weight.data_ptr(),
        task.body.embedding.weight.data_ptr(),
        task.weight.data_ptr(),
    }
    assert len(tables) == 3 - shared - tied
    assert {table.data_ptr() for table in task.looked_up()} == tables - {task.weight.data_ptr()}


@pytest.mark.parametrize("way", HARD)
def test_hard_attention_adds_terms_only_in_training_with_matching_counts(way: str) -> None:
    task = sequence_task(way, config=SMOOTHED).train()
    batch = batch_of(task)
    terms, _ = task(batch)
    counts = task.counts(batch)
    assert list(terms) == list(counts) == ["loss", "smoothing", "policy", "entropy"]
    assert (
        {int(term.count) for term in terms.values()} == {int(count) for count in counts.values()} == {len(PAIRS) + 22}
    )
    assert terms["policy"].sum.requires_grad
    task.eval()
    assert list(task(batch)[0]) == list(task.counts(batch)) == ["loss"]


@pytest.mark.parametrize("way", ["bahdanau", "luong", "transformer", "convolutional"])
def test_any_number_of_micro_batches_gives_the_same_step(way: str) -> None:
    """32 x 1 = 16 x 2 = 8 x 4, with unequal numbers of targets in the micro-batches."""
    results = []
    for accumulate in (1, 2, 4):
        task = sequence_task(way, config=SMOOTHED)
        pairs = [PAIRS[number * 3 % 8]._replace(source=PAIRS[number % 8].source) for number in range(32)]
        optimiser = adamw(task.parameters(), 0.01)
        options = StepOptions(seed=1, accumulate=accumulate, clip_norm=0.5)
        records = list(
            train(
                task, batches_of([batch_of(task, pairs)]), optimiser, Constant(3), options, steps=3, progress=Progress()
            )
        )
        results.append(([record.losses for record in records], task.state_dict()))
    for losses, weights in results[1:]:
        for expected, actual in zip(results[0][0], losses, strict=True):
            assert actual == pytest.approx(expected, rel=1e-10)
        for name, weight in weights.items():
            torch.testing.assert_close(weight, results[0][1][name], rtol=1e-8, atol=1e-10)


def test_tokens_on_padding_change_nothing() -> None:
    task = sequence_task("luong").eval()
    batch = batch_of(task)
    assert batch.mask is not None and batch.source_mask is not None
    padded = batch._replace(
        source=batch.source.masked_fill(~batch.source_mask, 3),
        tokens=batch.tokens.masked_fill(~batch.mask, 4),
        targets=batch.targets.masked_fill(~batch.mask, 5),
    )
    torch.testing.assert_close(task(padded)[0]["loss"].sum, task(batch)[0]["loss"].sum, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("dtype", "way"), crossed([torch.float64, torch.float32], WAYS))
def test_beam_search_gives_the_same_in_a_batch_and_alone(way: str, dtype: torch.dtype) -> None:
    task = sharp(sequence_task(way, config=SequenceConfig(tied=False))).to(dtype)
    config = DecodingConfig(method="beam", beams=3, n_best=2, max_new=9)
    together = task.write(batch_of(task), config)
    apart = [task.write(batch_of(task, [pair]), config)[0] for pair in PAIRS]
    assert [[written.tokens for written in row] for row in together] == [
        [written.tokens for written in row] for row in apart
    ]
    # A log-probability near 0 is the difference of two large logits and has their rounding error.
    near = {"rel": 1e-9} if dtype == torch.float64 else {"rel": 1e-4, "abs": 1e-6}
    for row, alone in zip(together, apart, strict=True):
        assert [w.score for w in row] == pytest.approx([w.score for w in alone], **near)
    assert len({tuple(row[0].tokens) for row in together}) > 1, (
        "what is written must depend on the source for this to test anything"
    )


@pytest.mark.parametrize(
    "way", quickly(WAYS, "bahdanau-deep", "luong", "hard-after", "transformer-relative", "convolutional")
)
@torch.no_grad()
def test_greedy_decoding_with_and_without_a_cache_agree(way: str) -> None:
    task = sharp(sequence_task(way, config=SequenceConfig(tied=False)))
    for pair, [written] in zip(
        PAIRS, task.write(batch_of(task), DecodingConfig(method="greedy", max_new=9)), strict=True
    ):
        [sides] = task.encode([pair])
        tokens, ended, total = [task.end], False, 0.0
        while not ended and len(tokens) <= 9:
            hidden, _ = task.body(
                torch.tensor([tokens]), None, task.body.initial_state(1, task.body.encode(torch.tensor([sides.source])))
            )
            log_prob, token = task.log_probs(hidden)[0, -1].max(-1)
            total += float(log_prob)
            ended = int(token) == task.end
            tokens.append(int(token))
        assert written.tokens == tokens[1:-1] if ended else tokens[1:]
        assert written.log_prob == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("way", ["bahdanau", "transformer", "convolutional"])
@torch.no_grad()
def test_n_best_are_sorted_each_with_its_own_log_probability(way: str) -> None:
    task = sharp(sequence_task(way, config=SequenceConfig(tied=False)))
    config = DecodingConfig(method="beam", beams=2, n_best=4, max_new=7, length_penalty=0.6)
    for pair, row in zip(PAIRS, task.write(batch_of(task), config), strict=True):
        assert len(row) == 4 and len({hypothesis.text for hypothesis in row}) == 4
        assert [w.score for w in row] == sorted((w.score for w in row), reverse=True)
        for hypothesis in row:
            assert len(hypothesis.tokens) <= 7 and task.end not in hypothesis.tokens
            scored_pair = pair._replace(target=hypothesis.text)
            log_prob = (
                log_probs(task, scored_pair) if hypothesis.tokens else one_by_one(task, scored_pair)[:1, task.end]
            )
            has_ended = len(hypothesis.tokens) < 7
            assert hypothesis.log_prob == pytest.approx(
                float(log_prob.sum() if has_ended else log_prob[:7].sum()), rel=1e-9
            )
            assert hypothesis.score == pytest.approx(
                hypothesis.log_prob / (len(hypothesis.tokens) + has_ended) ** 0.6, rel=1e-9
            )


def test_a_model_with_positions_generates_no_more_than_it_has_positions() -> None:
    task = sharp(sequence_task("convolutional", config=SequenceConfig(tied=False), max_length=8))
    with torch.no_grad():
        task.output_bias[task.end] = -1e4
    for method in ("greedy", "beam", "sample"):
        rows = task.write(batch_of(task), DecodingConfig(method=method, max_new=300))
        assert {len(row[0].tokens) for row in rows} == {8}


@pytest.mark.slow
def test_a_source_of_ten_thousand_words_can_be_decoded() -> None:
    for way in ("luong", "bottleneck"):
        task = sharp(sequence_task(way, config=SequenceConfig(tied=False)))
        [[written]] = task.write(
            batch_of(task, [Pair("a b c d e " * 2000, "A")]), DecodingConfig(method="greedy", max_new=5)
        )
        assert len(written.tokens) <= 5


def test_padding_is_never_generated() -> None:
    tokenizer = train_word([pair.target for pair in PAIRS], specials=["<pad>"])
    task = sequence_task("luong", config=SequenceConfig(tied=False))
    bigger = SequenceToSequence(sequence_body(tokenizer.vocabulary), task.source, tokenizer, SequenceConfig(tied=False))
    with torch.no_grad():
        bigger.output_bias[tokenizer.pad] = 50.0
    for method in ("greedy", "beam", "sample"):
        for row in bigger.eval().write(batch_of(bigger), DecodingConfig(method=method, max_new=5)):
            assert tokenizer.pad not in row[0].tokens


def sequence_body(vocabulary: int) -> Any:
    return build_seq2seq(Seq2SeqConfig(**WAYS["luong"]), Tokens(vocabulary), Tokens(7))


def test_sides_are_ids_with_a_source_end_and_batches_are_shifted_by_one() -> None:
    task = sequence_task("luong")
    one, two = task.encode([Pair("a b", "B A D"), Pair("e", "E")])
    assert one == Sides([task.source.id("a"), task.source.id("b"), task.source_end], [task.target.id(w) for w in "BAD"])
    assert [task.lengths(sides) for sides in (one, two)] == [(3, 4), (2, 2)]
    batch = task.collate([one, two])
    assert batch.source.tolist()[1] == [*two.source, 0] and batch.source_mask.tolist() == [
        [True] * 3,
        [True, True, False],
    ]
    assert batch.tokens.tolist() == [[task.end, *one.target], [task.end, *two.target, task.end, 0]]
    assert batch.targets.tolist() == [[*one.target, task.end], [*two.target, task.end, 0, 0]]
    assert batch.mask.tolist() == [[True] * 4, [True, True, False, False]]
    even = task.collate([one, one])
    assert even.mask is None and even.source_mask is None


def test_no_end_token_occurs_inside_a_sequence() -> None:
    """A word tokenizer encodes a newline, and the text <eos>, as its end token."""
    task = sequence_task("luong")
    [sides] = task.encode([Pair("a\nb <eos> c", "A\nB <eos> C")])
    assert [task.source.token(i) for i in sides.source] == ["a", "b", "c", "<eos>"]
    assert [task.target.token(i) for i in sides.target] == ["A", "B", "C"]


@pytest.mark.parametrize("kind", ["luong", "transformer"])
def test_unknown_words_are_encoded_as_unknown_on_both_sides(kind: str) -> None:
    task = sequence_task(kind)
    [sides] = task.encode([Pair("a zebra", "A Zebra")])
    assert sides.source[1] == task.source.unknown and sides.target[1] == task.target.unknown


def test_a_language_is_requested_by_a_token() -> None:
    pairs = [Pair("one", "eins", into="de"), Pair("one", "un", into="fr")]
    vocabularies = train_sequence_vocabularies(
        lambda texts, more: train_word(texts, specials=more), False, pairs, TranslationConfig()
    )
    assert vocabularies["source"].tokens[:4] == ["<unk>", "<eos>", "<2de>", "<2fr>"]
    assert not any(token.startswith("<2") for token in vocabularies["target"].tokens)
    body = build_seq2seq(
        Seq2SeqConfig(dim=4), Tokens(vocabularies["target"].vocabulary), Tokens(vocabularies["source"].vocabulary)
    )
    task = SequenceToSequence(body, **vocabularies)
    assert [sides.source[0] for sides in task.encode(pairs)] == [task.source.id("<2de>"), task.source.id("<2fr>")]
    with pytest.raises(UserError, match="this model translates into de, fr; choose one"):
        task.encode([Pair("one", "eins")])
    with pytest.raises(UserError, match="the model was not trained to write 'it'; it translates into de, fr"):
        task.encode([Pair("one", "uno", into="it")])
    with pytest.raises(UserError, match="the model was not trained to write 'it'; it knows no languages by name"):
        sequence_task("luong").encode([Pair("a", "A", into="it")])


@pytest.mark.parametrize("train", [train_word, train_bpe])
def test_a_word_that_looks_like_a_language_token_is_a_word(train: Any) -> None:
    pairs = [Pair("a <2d> array", "<2d> array a")] * 20
    vocabularies = train_sequence_vocabularies(
        lambda texts, more: train(texts, specials=more), True, pairs, SequenceConfig()
    )
    body = build_seq2seq(
        Seq2SeqConfig(dim=4), Tokens(vocabularies["target"].vocabulary), Tokens(vocabularies["source"].vocabulary)
    )
    task = SequenceToSequence(body, **vocabularies)
    assert task.languages == [] and task.never_written == ()
    assert task.source.decode(task.encode(pairs)[0].source[:-1]) == "a <2d> array"


@pytest.mark.parametrize(
    "train", [train_word, train_bpe, lambda texts, specials: train_character(texts, specials=["<eos>", *specials])]
)
def test_language_tokens_are_never_generated(train: Any) -> None:
    pairs = [Pair("one", "eins", into="de"), Pair("one", "un", into="fr")]
    vocabularies = train_sequence_vocabularies(
        lambda texts, more: train(texts, specials=more), True, pairs, SequenceConfig()
    )
    body = build_seq2seq(
        Seq2SeqConfig(dim=4), Tokens(vocabularies["target"].vocabulary), Tokens(vocabularies["source"].vocabulary)
    )
    task = SequenceToSequence(body, **vocabularies)
    language_tokens = [task.target.id("<2de>"), task.target.id("<2fr>")]
    with torch.no_grad():
        task.output_bias[language_tokens] = 100.0  # type: ignore[index]
    assert task.encode([Pair("<2fr> one", "<2fr> un", into="de")])[0].source.count(language_tokens[1]) == 0
    [[best]] = task.write(task.collate(task.encode(pairs[:1])), DecodingConfig(method="sample", max_new=30))
    assert best.tokens and not set(language_tokens) & set(best.tokens)


def test_a_joint_vocabulary_is_trained_on_both_sides() -> None:
    vocabularies = train_sequence_vocabularies(
        lambda texts, more: train_word(texts, specials=more), True, PAIRS, SequenceConfig()
    )
    assert vocabularies["source"] is vocabularies["target"]
    assert {"a", "A"} < set(vocabularies["source"].tokens)
    apart = train_sequence_vocabularies(
        lambda texts, more: train_word(texts, specials=more), False, PAIRS, SequenceConfig()
    )
    assert "A" not in apart["source"].tokens and "a" not in apart["target"].tokens


@pytest.mark.parametrize(
    "train", [train_bpe, lambda texts: train_character(texts, specials=["<eos>"])], ids=["bpe", "character"]
)
def test_white_space_is_preserved_exactly_on_request(train: Any) -> None:
    code = "if x:\n    return  [1]\n\treturn\n"
    pair = Pair("returns", code)
    tokenizer = train([code, pair.source])
    body = sequence_body(tokenizer.vocabulary)
    for exact in (True, False):
        task = SequenceToSequence(body, sequence_task("luong").source, tokenizer, SequenceConfig(exact_space=exact))
        [sides] = task.encode([pair])
        text = task.written(Hypothesis(sides.target, -1.0, -1.0)).text
        assert text == (code if exact else code.strip())
        evened = " ".join(code.split())
        assert task.measure([pair], [evened]).values["exact_match"] == (0 if exact else 100)
        assert task.sentence_scores([pair], [evened]) == [0 if exact else 100]
        assert task.measure([pair], [code]).values["exact_match"] == 100


def test_invalid_tasks_are_rejected_with_a_sentence() -> None:
    with pytest.raises(UserError, match="shared embeddings need one vocabulary"):
        sequence_task("luong", shared_embeddings=True)
    with pytest.raises(
        UserError,
        match=(
            r"a tied output layer needs the body's width \(8\) to be the embedding's \(6\); make them equal or set"
            r" task.tied=f"
        ),
    ):
        sequence_task("luong", config=SequenceConfig(tied=True))
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "<eos>": 1, "a": 2}, unk_token="<unk>"))
    with pytest.raises(UserError, match="task.start=pad needs a padding token, but .* has none; set task.start=end"):
        SequenceToSequence(
            sequence_body(3), sequence_task("luong").source, Tokenizer(inner), SequenceConfig(start="pad")
        )
    with pytest.raises(UserError, match="unknown value for task.best 'bleu'.*known: exact_match, loss"):
        sequence_task("luong", config=SequenceConfig(best="bleu"))
    task = sequence_task("convolutional", max_length=4)
    message = (
        r"here:7: the source has 5 tokens, but the model has only 4 positions; shorten it, or train with a"
        r" larger "
        "model.max_length or another model.position"
    )
    with pytest.raises(UserError, match=message):
        task.check_length(task.encode([Pair("a b c d", "A")])[0], "here:7")
    with pytest.raises(UserError, match="here:8: the target has 5 tokens"):
        task.check_length(task.encode([Pair("a b c", "A B C D")])[0], "here:8")
    task.check_length(task.encode([Pair("a b c", "A B C")])[0], "here:9")


def test_one_table_of_embeddings_needs_the_same_tokens_on_both_sides() -> None:
    task = sequence_task("luong", joint=True, shared_embeddings=True)
    words = task.source.tokens
    other = train_word([" ".join(word.upper() + word for word in words if word.isalpha())])
    assert SequenceToSequence(task.body, task.source, task.target).body.shares_embeddings
    message = (
        "shared embeddings need one vocabulary for both sides; set text.joint=true or model.shared_embeddings=false"
    )
    with pytest.raises(UserError, match=message):
        SequenceToSequence(task.body, other, task.target)


def test_the_longest_sequence_is_limited_by_positions_and_settings() -> None:
    assert sequence_task("luong", config=SequenceConfig(longest=9)).longest == 9
    assert sequence_task("convolutional").longest == 32
    assert sequence_task("convolutional", config=SequenceConfig(longest=9)).longest == 9
