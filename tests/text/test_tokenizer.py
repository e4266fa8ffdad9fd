import hashlib
import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from clew.core.errors import UserError
from clew.text.frames import read_frame
from clew.text.tokenizer import Tokenizer
from clew.text.train import TOKENIZERS, train_bpe, train_character, train_unigram, train_word, train_wordpiece

TEXT = "the cat sat on the mat\nthe dog sat on the log\n\nwhat, no cat?\n" * 3
WHOLE = [train_character(TEXT), train_bpe(TEXT, size=300), train_unigram(TEXT, size=300)]
ALL = [train(TEXT) for train in TOKENIZERS.values()]

any_text = st.text(st.characters(exclude_categories=["Cs"]))
known_text = st.text(st.sampled_from(sorted(set(TEXT))))
by_kind = pytest.mark.parametrize("tokenizer", ALL, ids=lambda tokenizer: tokenizer.kind)


@given(known_text)
def test_decoding_restores_every_text_of_known_characters(text):
    for tokenizer in WHOLE:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(st.integers(0, 40)))
def test_characters_are_joined_like_in_the_library(ids):
    for tokenizer in (WHOLE[0], train_character("a<eos>\0\u0301")):
        assert tokenizer.decode(ids) == tokenizer.inner.decode(ids, skip_special_tokens=False)


@given(any_text)
def test_decoding_restores_every_text_if_nothing_is_unknown(text):
    for tokenizer in WHOLE[1:]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.lists(st.sampled_from(["the", "cat", "sat", "\n"])))
def test_decoding_words_gives_single_spaces_and_newlines(words):
    tokenizer = train_word(TEXT)
    text = " ".join(words).replace(" \n", "\n").replace("\n ", "\n")
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    "text", ["😀 a\n😀", "<eos>", "<unk>", "<0x41>", "▁a", "a\u0000b", "e\u0301", "\r\n\t  x", "##a"]
)
def test_text_is_never_encoded_as_a_special_token(text):
    for tokenizer in (train_character(text), *WHOLE[1:]):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.end not in ids and tokenizer.unknown not in ids


@by_kind
@given(first=any_text, second=any_text)
def test_lines_encoded_separately_equal_the_whole_text_encoded(tokenizer, first, second):
    assert tokenizer.encode(first + "\n") + tokenizer.encode(second) == tokenizer.encode(first + "\n" + second)


@by_kind
@given(texts=st.lists(any_text, max_size=4))
def test_a_batch_is_encoded_like_its_texts_one_by_one(tokenizer, texts):
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


@given(any_text)
def test_character_lookup_equals_the_library(text):
    tokenizer = WHOLE[0]
    assert tokenizer.encode(text) == tokenizer.inner.encode(text).ids == tokenizer.encode_with_offsets(text)[0]


@by_kind
def test_offsets_point_into_the_untouched_text(tokenizer):
    text = "the  cat\nsat"
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text)
    for i, (start, stop) in zip(ids, offsets, strict=True):
        assert tokenizer.decode([i]).strip().removeprefix("##") == text[start:stop].strip()


def test_offsets_of_a_lowercased_text_point_into_the_original():
    tokenizer = train_word("İb cat\n", lowercase=True)
    assert tokenizer.encode_with_offsets("CAT İB\nCat")[1] == [(0, 3), (4, 6), (6, 7), (7, 10)]


def test_ids_and_tokens_are_inverse():
    for tokenizer in ALL:
        assert len(tokenizer.tokens) == tokenizer.vocabulary
        assert [tokenizer.id(token) for token in tokenizer.tokens] == list(range(tokenizer.vocabulary))
        assert tokenizer.token(2) == tokenizer.tokens[2]


def test_every_kind_has_its_roles_and_unit():
    roles = {t.kind: (t.unit, t.unknown is None, t.end is None, t.pad is None) for t in ALL}
    assert roles == {
        "character": ("character", False, True, True),
        "word": ("word", False, False, True),
        "bpe": ("subword", True, False, True),
        "wordpiece": ("subword", False, False, False),
        "unigram": ("subword", True, False, True),
    }


@by_kind
@pytest.mark.parametrize("name", ["folder", "folder/mine.json"])
def test_a_saved_tokenizer_is_equal_when_loaded(tokenizer, name, tmp_path):
    digest = tokenizer.save(tmp_path / name)
    loaded = Tokenizer.load(tmp_path / name)
    assert (loaded.hash, loaded.kind, loaded.tokens) == (tokenizer.hash, tokenizer.kind, tokenizer.tokens)
    assert loaded.encode(TEXT + "<eos>") == tokenizer.encode(TEXT + "<eos>")
    assert [path.name for path in digest.parent.iterdir()] == [digest.name]


def test_the_hash_is_that_of_the_json_with_sorted_keys(tmp_path):
    tokenizer = train_character("ab")
    content = json.loads(tokenizer.save(tmp_path).read_text(encoding="utf-8"))
    assert (
        tokenizer.hash
        == hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    )
    assert tokenizer.hash != train_character("abc").hash


def test_the_repr_states_kind_and_size():
    assert repr(train_character("ab")) == "Tokenizer(character, 3 tokens)"


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": "1.0"}', '{"model": {"type": "Foo"}}', "\ufffd"])
def test_a_corrupt_file_is_rejected(content, tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"tokenizer.json: not a tokenizer file \(.*\); save it again or restore it"):
        Tokenizer.load(path)


def test_half_a_file_is_rejected(tmp_path):
    path = train_bpe(TEXT).save(tmp_path)
    path.write_bytes(path.read_bytes()[:2000] + b"\xff")
    with pytest.raises(UserError, match="not a tokenizer file"):
        Tokenizer.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no tokenizer at .*gone.tokenizer.json; `Tokenizer.save` writes one there"):
        Tokenizer.load(tmp_path / "gone")


def test_an_unknown_token_and_an_id_out_of_range_are_named():
    tokenizer = train_character("ab")
    with pytest.raises(UserError, match="the character tokenizer has no token 'z'; it has 3"):
        tokenizer.id("z")
    for wrong in (3, -1):
        with pytest.raises(UserError, match=f"there is no token {wrong}; ids go from 0 to 2"):
            tokenizer.token(wrong)


def test_unknown_characters_of_a_prompt_are_named():
    with pytest.raises(UserError) as caught:
        train_character("ba\n").check("a€b\x07€")
    assert (
        str(caught.value)
        == "the prompt has characters the model has never seen: '€' (U+20AC), '\\x07' (U+0007); it knows 3: \\nab"
    )


def test_a_long_list_of_characters_is_shortened():
    alphabet = "".join(chr(0x4E00 + i) for i in range(101))
    with pytest.raises(UserError) as caught:
        train_character(alphabet).check("abcdefg", "text")
    assert "the text has characters" in str(caught.value)
    assert "'e' (U+0065) and 2 more; it knows 101: " + alphabet[:100] + " ..." in str(caught.value)


def test_unknown_words_of_a_prompt_are_named():
    with pytest.raises(UserError) as caught:
        train_word("a b\n").check("a zebra <unk> b")
    assert (
        str(caught.value)
        == "the prompt has words the model has never seen: 'zebra'; it knows 4 words: use other words, or <unk> in"
        " their place"
    )
    with pytest.raises(UserError, match="never seen: 'z€'; it knows .* subwords: use other words"):
        train_wordpiece("abc abc").check("abc z€")


def test_a_word_that_the_library_cannot_encode_is_rejected():
    tokenizer = Tokenizer(tokenizers.Tokenizer(tokenizers.models.WordLevel({"thread": 0}, unk_token="<unk>")))
    with pytest.raises(
        UserError,
        match="the tokenizer cannot read this text: WordLevel error: .*; use other words, or a tokenizer with an"
        " unknown token",
    ):
        tokenizer.encode("maze")


def test_two_frames_around_a_text_are_rejected():
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<s>": 1}, unk_token="a"))
    frame = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    inner.post_processor = tokenizers.processors.Sequence([frame, frame])
    with pytest.raises(
        UserError,
        match="the tokenizer puts several frames around a text, and a model expects one; remove all post-processors but"
        " one",
    ):
        _ = Tokenizer(inner).frame


def test_a_frame_of_an_unknown_kind_is_rejected():
    message = "post-processor is a PadProcessing, which clew does not know; known: TemplateProcessing, BertProcessing"
    with pytest.raises(UserError, match=message):
        read_frame({"type": "PadProcessing"})


def test_half_a_character_is_rejected():
    with pytest.raises(UserError, match=r"character 2 of the prompt \(U\+DCFF\) is half a character; give it as UTF-8"):
        train_bpe("a").check("a\udcff")


@by_kind
def test_known_text_passes_the_check(tokenizer):
    tokenizer.check(TEXT)


def test_only_masks_in_a_text_become_special_tokens_on_request() -> None:
    tokenizer = train_wordpiece(["the cat sat [ ] mask sep cls"])
    mask, sep = tokenizer.id("[MASK]"), tokenizer.id("[SEP]")
    assert mask not in tokenizer.encode("the [MASK] sat")
    ids = tokenizer.encode_masked("[MASK] the<mask>sat [SEP]")
    assert ids == [mask, *tokenizer.encode("the"), mask, *tokenizer.encode("sat [SEP]")] and sep not in ids
    text = "the <mask> sat"
    spans = tokenizer.encode_masked_with_offsets(text)[1]
    assert [text[start:stop] for start, stop in spans] == ["the", "<mask>", "sat"]
    with pytest.raises(UserError, match=r"has no mask token, so \[MASK\] means nothing to it"):
        train_word(["a b"]).encode_masked("[MASK]")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_join_to_the_text(kind):
    text = "a ball of thread, a ball of yarn\n" * 20
    tokenizer = TOKENIZERS[kind]([text], size=None if kind in ("character", "word") else 300)
    pieces = [tokenizer.piece(id) for id in tokenizer.encode("a ball of yarn")]
    if kind in ("word", "wordpiece", "wordpiece_likelihood"):
        assert " ".join(pieces).replace(" ##", "") == "a ball of yarn"
    else:
        assert "".join(pieces).strip() == "a ball of yarn"


def test_a_piece_that_is_not_a_whole_character_is_the_token_itself():
    tokenizer = train_bpe(["a ball\n" * 20], size=300)
    half = tokenizer.encode("é")[0]
    assert tokenizer.piece(half) == tokenizer.token(half)
