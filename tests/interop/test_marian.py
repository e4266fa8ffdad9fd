"""Marian models, imported and exported: the same scores, tokens and tokenizers."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from clew.core.errors import UserError
from clew.data.examples import Pair
from clew.interop.checkpoints import import_checkpoint
from clew.interop.huggingface.sentencepiece_tokenizers import marian_tokenizers
from clew.interop.huggingface.tokenizer_writing import write_tokenizer
from clew.interop.huggingface.writing import write_huggingface
from clew.interop.sentencepiece_files import read_sentencepiece, tokenizer_of, unigram_pieces, write_sentencepiece
from clew.recipes.running import run_recipe
from clew.runs.build import build_task
from clew.runs.config import resolve
from clew.runs.loaded import Run, load_run
from clew.text.tokenizer import Tokenizer
from clew.text.train import train_bpe, train_unigram
from tests.crossing import quickly
from tests.interop.checkpoints import TEXTS, randomised, transformers
from tests.interop.test_tokenizer_files import GERMAN, learn
from tests.runs.pretrained import TINY

sentencepiece = pytest.importorskip("sentencepiece")


def make_marian(folder: Path, *, seed: int = 5, **more: Any) -> Any:
    folder.mkdir()
    pieces: dict[str, None] = {}
    for name, texts in (("source", TEXTS), ("target", GERMAN)):
        learn(texts, folder / name, model_type="unigram", vocab_size=45).rename(folder / f"{name}.spm")
        pieces |= dict.fromkeys(piece.text for piece in read_sentencepiece(folder / f"{name}.spm").pieces[3:])
    names = ["</s>", "<unk>", ">>deu<<", *pieces, "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: id for id, name in enumerate(names)}))
    pad = len(names) - 1
    config = transformers.MarianConfig(
        vocab_size=len(names),
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=64,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=None,
        scale_embedding=True,
        activation_function="swish",
        **more,
    )
    model = transformers.MarianMTModel(config)
    randomised(model, seed)
    with torch.no_grad():
        model.final_logits_bias.normal_(generator=torch.Generator().manual_seed(3))
        for half in (model.model.encoder, model.model.decoder):
            half.embed_positions.weight.copy_(half.embed_positions.create_weight())
    model.save_pretrained(folder)
    return model


def check_same(run: Run, model: Any) -> None:
    """Compare the scores of given targets, and greedy translations."""
    task: Any = run.task
    pairs = [Pair(source, target) for source, target in zip(TEXTS, GERMAN, strict=True)]
    batch = task.collate(task.encode(pairs))
    mask = torch.ones_like(batch.source, dtype=torch.bool) if batch.source_mask is None else batch.source_mask
    real = torch.ones_like(batch.tokens, dtype=torch.bool) if batch.mask is None else batch.mask
    with torch.no_grad():
        ours = torch.nn.functional.linear(task.decode(batch)[0], task.weight, task.output_bias)
        theirs = model(batch.source, attention_mask=mask.long(), decoder_input_ids=batch.tokens).logits
    torch.testing.assert_close(ours[real], theirs[real], atol=1e-5, rtol=1e-5)
    banned = [[token] for token in (task.target.pad,) if token is not None]
    options = {"max_length": 21, "do_sample": False, "num_beams": 1, "eos_token_id": task.end}
    for text, ids in zip(TEXTS, task.encode(pairs), strict=True):
        written = model.generate(torch.tensor([ids.source]), bad_words_ids=banned or None, **options)[0, 1:].tolist()
        expected = written[: written.index(task.end)] if task.end in written else written
        assert run.translate(text, method="greedy", max_new=20).tokens == expected


def check_same_tokens(run: Run, folder: Path, sources: list[str], targets: list[str]) -> None:
    """Compare the tokenizer of a folder on source texts, target texts and ids."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    task: Any = run.task
    assert tokenizer(sources)["input_ids"] == [
        sides.source for sides in task.encode([Pair(text, "") for text in sources])
    ]
    ids = [sides.target for sides in task.encode([Pair("", text) for text in targets])]
    assert tokenizer(text_target=targets)["input_ids"] == [[*each, task.end] for each in ids]
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == [task.target.decode(each).strip() for each in ids]


def test_a_marian_model_gives_the_same_results_after_import_and_export(tmp_path: Path) -> None:
    model = make_marian(tmp_path / "theirs")
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert (imported.architecture, imported.notes) == ("MarianMTModel", [])
    run = load_run(tmp_path / "run", device="cpu")
    check_same(run, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path / "theirs")
    sources = [*TEXTS, ">>deu<< the cat", "Katze"]
    assert [[*ids, 0] for ids in run.vocabularies["source"].encode_batch(sources)] == tokenizer(sources)["input_ids"]
    assert [[*ids, 0] for ids in run.vocabularies["target"].encode_batch(GERMAN)] == tokenizer(text_target=GERMAN)[
        "input_ids"
    ]
    (tmp_path / "back").mkdir()
    write_huggingface(run, tmp_path / "back")
    again, report = transformers.MarianMTModel.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(report.values()), report
    assert (
        again.generation_config.bad_words_ids == [[run.vocabularies["target"].pad]]
        and again.generation_config.num_beams == 1
    )
    check_same(run, again.eval())
    check_same_tokens(run, tmp_path / "back", [*sources, *GERMAN], [*GERMAN, *TEXTS])
    import_checkpoint(tmp_path / "back", tmp_path / "twice")
    for role, vocabulary in load_run(tmp_path / "twice", device="cpu").vocabularies.items():
        assert vocabulary.encode_batch(TEXTS + GERMAN) == run.vocabularies[role].encode_batch(TEXTS + GERMAN)
    path = tmp_path / "theirs" / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "num_beams": 3, "length_penalty": 0.6}))
    searching = import_checkpoint(tmp_path / "theirs", tmp_path / "searching").config.decoding
    assert (searching.method, searching.beams, searching.length_penalty) == ("beam", 3, 0.6)
    write_huggingface(load_run(tmp_path / "searching", device="cpu"), tmp_path / "back")
    written = json.loads((tmp_path / "back" / path.name).read_text())
    assert (written["num_beams"], written["length_penalty"]) == (3, 0.6)


SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"max_length": 8},
    "greedy with a forced end": {"max_length": 8, "forced_eos_token_id": 0},
    "two beams": {"num_beams": 2, "max_length": 20},
    "a forced end": {"num_beams": 4, "max_length": 8, "forced_eos_token_id": 0},
    "at max_length": {"num_beams": 4, "max_length": 5},
    "by new tokens": {"num_beams": 3, "max_new_tokens": 6, "max_length": 4},
    "short ones preferred": {"num_beams": 5, "max_length": 20, "length_penalty": -0.5},
    "until all beams have ended": {"num_beams": 5, "max_length": 20, "early_stopping": True, "forced_eos_token_id": 0},
    "never early": {"num_beams": 3, "max_length": 12, "early_stopping": "never", "length_penalty": 0.6},
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_search_settings_give_the_translations_of_transformers(seed: int, tmp_path: Path) -> None:
    model = make_marian(tmp_path / "theirs", seed=seed)
    with torch.no_grad():
        model.final_logits_bias[0, 0] += 0.7 * (seed - 1)  # so that some hypotheses end before the limit
    model.save_pretrained(tmp_path / "theirs")
    (tmp_path / "back").mkdir()
    pad = model.config.pad_token_id
    tokens = {"eos_token_id": 0, "pad_token_id": pad, "decoder_start_token_id": pad, "bad_words_ids": [[pad]]}
    pairs = [Pair(text, "") for text in TEXTS]
    for number, settings in enumerate(SEARCHES.values()):
        generation = {**tokens, **settings}
        (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps(generation))
        run = load_run(import_checkpoint(tmp_path / "theirs", tmp_path / f"run-{number}").folder, device="cpu")
        searching = transformers.GenerationConfig(**generation)
        for pair, sides in zip(pairs, run.task.encode(pairs), strict=True):
            written = model.generate(torch.tensor([sides.source]), generation_config=searching)[0, 1:].tolist()
            expected = written[: written.index(0)] if 0 in written else written
            assert run.translate(pair.source).tokens == expected, settings
        write_huggingface(run, tmp_path / "back")
        assert import_checkpoint(tmp_path / "back", tmp_path / f"again-{number}").config.decoding == run.config.decoding


def test_ids_of_pieces_only_in_the_source_are_decoded(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        theirs = transformers.MarianTokenizer.from_pretrained(tmp_path / "theirs")
    source, target = marian_tokenizers(tmp_path / "theirs")
    draw = torch.Generator().manual_seed(1)
    for _ in range(40):
        ids = torch.randint(3, target.vocabulary - 1, (8,), generator=draw).tolist()
        assert target.decode(ids).strip() == theirs.decode(ids)
        assert [target.token(id) for id in ids] == theirs.convert_ids_to_tokens(ids) == [source.token(id) for id in ids]
        assert "\0" not in "".join(map(target.piece, ids))
    again = Tokenizer.from_json(target.to_json())
    assert again.decode(list(range(3, 40))) == target.decode(list(range(3, 40)))


@pytest.mark.parametrize("shared", quickly([True, False], False))
def test_an_untied_marian_model_has_three_tables(shared: bool, tmp_path: Path) -> None:
    model = make_marian(tmp_path / "theirs", tie_word_embeddings=False, share_encoder_decoder_embeddings=shared)
    import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    run = load_run(tmp_path / "run", device="cpu")
    check_same(run, model)
    (tmp_path / "back").mkdir()
    write_huggingface(run, tmp_path / "back")
    check_same(run, transformers.MarianMTModel.from_pretrained(tmp_path / "back").eval())


def test_unsupported_search_settings_are_rejected(tmp_path: Path) -> None:
    make_marian(tmp_path / "theirs")
    path = tmp_path / "theirs" / "generation_config.json"
    for generation, sentence in (
        ({"early_stopping": "soon"}, "early_stopping is 'soon'; known: false, true, 'never'"),
        ({"forced_eos_token_id": 7}, r"forced_eos_token_id \(7\) must be eos_token_id \(0\)"),
    ):
        path.write_text(json.dumps(generation))
        with pytest.raises(UserError, match=sentence):
            import_checkpoint(tmp_path / "theirs", tmp_path / "run")


def test_an_imported_marian_model_is_fine_tuned_with_its_tokenizers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_marian(tmp_path / "theirs")
    import_checkpoint(tmp_path / "theirs", tmp_path / "marian")
    base = load_run("marian", device="cpu")
    pairs = "".join(f"{a}\t{b}\n" for a in TEXTS for b in GERMAN)
    (tmp_path / "pairs.tsv").write_text(pairs, encoding="utf-8")
    settings = [
        "transfer.from=marian",
        "data.train=pairs.tsv",
        *TINY,
        "training.batch_tokens=null",
        "decoding.max_new=8",
    ]
    result = run_recipe("translate", [*settings, "training.steps=20", "training.evaluate_every=20"], out=Path("run"))
    run, config = load_run("run", device="cpu"), cast(Any, result.run.config)
    assert [run.vocabularies[role].hash for role in ("source", "target")] == [
        base.vocabularies[role].hash for role in ("source", "target")
    ]
    assert config.task.start == "pad" and config.model == base.config.model
    source, target = TEXTS[0], GERMAN[0]
    assert run.score_translation(source, target).log_prob > base.score_translation(source, target).log_prob


def test_a_transformer_of_clew_is_exported_as_marian(tmp_path: Path) -> None:
    tokenizer = train_bpe([*TEXTS, *GERMAN], size=290)
    vocabularies = {"source": tokenizer, "target": tokenizer}
    model = {"family": "transformer", "dim": 16, "num_layers": 1, "num_heads": 2, "activation": "gelu"}
    config = resolve(
        {
            "recipe": "translate",
            "text": {"tokenizer": "bpe"},
            "model": model,
            "task": {"name": "translation", "max_ratio": None},
        }
    )
    task = randomised(build_task(config, vocabularies, to_train=False))
    run = Run(tmp_path, config, vocabularies, task)
    write_huggingface(run, tmp_path)
    check_same(run, transformers.MarianMTModel.from_pretrained(tmp_path).eval())
    check_same_tokens(run, tmp_path, TEXTS, GERMAN)
    two = {**vocabularies, "target": train_bpe(GERMAN, size=290)}
    with pytest.raises(
        UserError, match="this run has a bpe tokenizer for each side; train with text.joint=true, or use format='onnx'"
    ):
        write_huggingface(Run(tmp_path, config, two, task), tmp_path)
    rotary = config.model_copy(update={"model": config.model.model_copy(update={"position": "rotary"})})
    with pytest.raises(
        UserError,
        match="Marian has sinusoidal positions of base 10000, but this run has model.position='rotary';"
        " use format='onnx'",
    ):
        write_huggingface(Run(tmp_path, rotary, vocabularies, task), tmp_path)
    listed = config.model_copy(update={"model": config.model.model_copy(update={"decoder_layers": ["attention"]})})
    with pytest.raises(
        UserError,
        match="Marian has layers of attention and feed-forward networks only, but model.decoder_layers lists others;"
        " use format='onnx'",
    ):
        write_huggingface(Run(tmp_path, listed, vocabularies, task), tmp_path)


def test_tokenizers_with_missing_files_or_wrong_ids_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match="has no source.spm; copy all tokenizer files of the checkpoint into it: source.spm, target.spm, vocab",
    ):
        marian_tokenizers(tmp_path)
    for name in ("source", "target"):
        learn(TEXTS, tmp_path / name, model_type="unigram", vocab_size=40).rename(tmp_path / f"{name}.spm")
    (tmp_path / "vocab.json").write_text('{"</s>": 0, "<unk>": 2, "<pad>": 3}')
    with pytest.raises(
        UserError, match="vocab.json should have ids from 0 on, and </s>, <unk> and <pad>; copy it again"
    ):
        marian_tokenizers(tmp_path)


def test_tokenizers_with_separate_ids_survive_a_round_trip(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
    for name, texts, file in (("source", TEXTS, "vocab"), ("target", GERMAN, "target_vocab")):
        learn(texts, theirs / name, model_type="unigram", vocab_size=40).rename(theirs / f"{name}.spm")
        pieces = [piece.text for piece in read_sentencepiece(theirs / f"{name}.spm").pieces[3:]]
        ids = {name: id for id, name in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
        (theirs / f"{file}.json").write_text(json.dumps(ids))
    source, target = marian_tokenizers(theirs)
    write_tokenizer(ours, {"source": source, "target": target}, {"eos_token_id": 0, "pad_token_id": source.pad})
    again = marian_tokenizers(ours)
    for one, other, texts in zip((source, target), again, (TEXTS, GERMAN), strict=True):
        assert one.encode_batch(texts) == other.encode_batch(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.MarianTokenizer.from_pretrained(ours)
    assert tokenizer(TEXTS)["input_ids"] == [[*ids, 0] for ids in source.encode_batch(TEXTS)]
    assert tokenizer(text_target=GERMAN)["input_ids"] == [[*ids, 0] for ids in target.encode_batch(GERMAN)]


@pytest.mark.parametrize(
    "tokenizer", [train_bpe(TEXTS, size=280), train_unigram(TEXTS, size=320)], ids=["bpe", "unigram"]
)
def test_a_tokenizer_of_clew_has_no_sentencepiece_form(tokenizer: Tokenizer) -> None:
    assert unigram_pieces(tokenizer.inner) is None


@pytest.mark.parametrize(
    "options", [{}, {"byte_fallback": True}, {"add_dummy_prefix": False, "remove_extra_whitespaces": False}]
)
def test_a_sentencepiece_file_survives_a_round_trip(options: dict[str, Any], tmp_path: Path) -> None:
    path = learn(
        TEXTS, tmp_path / "mine", model_type="unigram", vocab_size=300 if "byte_fallback" in options else 40, **options
    )
    original = read_sentencepiece(path)
    write_sentencepiece(tmp_path / "again.spm", original)
    assert replace(read_sentencepiece(tmp_path / "again.spm"), path=path) == original
    rebuilt = unigram_pieces(tokenizer_of(original))
    assert rebuilt is not None and replace(rebuilt, path=path) == original
    tokenizer = [sentencepiece.SentencePieceProcessor(model_file=str(file)) for file in (path, tmp_path / "again.spm")]
    texts = [*TEXTS, "  two  spaces \u00e9 "]
    assert tokenizer[0].encode(texts) == tokenizer[1].encode(texts)
