import pytest

from clew.drawing.views import Table
from clew.instruments.looking import look
from clew.instruments.reading import read
from tests.instruments.small_runs import small_run


@pytest.mark.parametrize("name", ["lstm", "words", "subwords", "bert", "elmo", "classifier", "tagger"])
def test_spans_are_the_characters_of_tokens_and_special_tokens_have_none(name):
    text = "The walls  were tall."
    reading = read(small_run(name), text)
    spans = [span for span in reading.spans if span is not None]
    assert len(reading.spans) == len(reading.tokens) == len(reading.ids)
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    covered = "".join(text[start:stop] for start, stop in spans)
    assert "".join(covered.split()) == "".join(text.split())
    outside = [token for token, span in zip(reading.tokens, reading.spans, strict=True) if span is None]
    assert outside == {"bert": ["[CLS]", "[SEP]"], "words": ["<eos>"] * 2, "elmo": ["<eos>"] * 2}.get(name, [])


def test_unknown_tokens_are_counted():
    view = look(small_run("words"), "tokens", {"text": "the xylophone were tall"})
    assert view.facts["unknown"] == 1 and "1 unknown" in view.about


def test_a_text_longer_than_the_positions_is_still_tokenized():
    run = small_run("gpt")
    view = look(run, "tokens", {"text": "the walls " * run.task.body.max_length})
    assert len(view.facts["ids"]) == 10 * run.task.body.max_length
    assert (
        f"the model has {run.task.body.max_length} positions, so instruments that run it need a shorter text"
        in view.about
    )


def test_a_translator_shows_source_and_target():
    facts = look(small_run("transformer"), "tokens", {"text": "the walls", "target": "walls the"}).facts
    assert facts["written"] == ["walls", "the", "<eos>"] and facts["tokens"][:2] == ["the", "walls"]


def test_a_mask_is_one_token_to_a_model_that_fills_it_and_text_to_others():
    reading = read(small_run("bert"), "the [MASK] were tall")
    assert reading.tokens.count("[MASK]") == 1 and "[MASK]" in reading.pieces
    assert "[MASK]" not in read(small_run("classifier"), "the [MASK] were tall").tokens


def test_the_characters_column_is_shown_only_if_they_are_known():
    read_alone, (read_by_translator, *_) = (
        [
            part
            for part in look(small_run(name), "tokens", {"text": "the walls", "target": target}).parts
            if isinstance(part, Table)
        ]
        for name, target in (("lstm", None), ("transformer", "walls the"))
    )
    assert "characters" in read_alone[0].header and "characters" not in read_by_translator.header
