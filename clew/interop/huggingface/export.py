"""The way out to `transformers`: the folder with its card."""

from pathlib import Path

from clew.interop.huggingface.folders import CONFIG
from clew.interop.huggingface.sentence_folders import write_sentence_files
from clew.interop.huggingface.writing import write_huggingface
from clew.interop.model_card import model_card
from clew.interop.options import ExportOptions
from clew.runs.directory import read_json, write_text
from clew.runs.loaded import Run

READ = """
import torch
from transformers import AutoTokenizer, {name}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {name}.from_pretrained(".").eval()
with torch.no_grad():
    found = {call}
print({shown})
"""
CALLS = {
    "language_model": ('model.generate(**tokenizer("The", return_tensors="pt"), max_new_tokens=20)', "tokenizer.decode(found[0])"),
    "translation": (
        'model.generate(**tokenizer("where is it", return_tensors="pt"))',
        "tokenizer.decode(found[0], skip_special_tokens=True)",
    ),
    "classification": ('model(**tokenizer("a text", return_tensors="pt")).logits', "found"),
    "masked_language_model": ('model(**tokenizer(f"the {tokenizer.mask_token} sat", return_tensors="pt"))', "found[0].shape"),
    "tagging": ('model(**tokenizer("some words", return_tensors="pt")).logits', "found"),
    "question_answering": ('model(**tokenizer("a question", "a passage", return_tensors="pt"))', "found.start_logits, found.end_logits"),
    "representation": ('model(**tokenizer("a text", return_tensors="pt")).last_hidden_state', "found.shape"),
}


def export_huggingface(run: Run, folder: Path, options: ExportOptions) -> None:
    write_huggingface(run, folder)
    if run.config.task.name == "representation":  # type: ignore[attr-defined]
        write_sentence_files(folder, run.config.task, run.task.pooling.dim, run.task.longest)
    name = read_json(folder / CONFIG)["architectures"][0]
    call, shown = CALLS["translation" if run.verb == "translate" else run.config.task.name]  # type: ignore[attr-defined]
    usage = READ.format(name=name, call=call, shown=shown)
    write_text(folder / "README.md", model_card(run, library="transformers", usage=usage, options=options))
