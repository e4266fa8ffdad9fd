"""The way out to `transformers`: the folder with its card."""

from pathlib import Path

from clew.core.files import read_json, write_text
from clew.interop.huggingface.folders import CONFIG
from clew.interop.huggingface.sentence_folders import write_sentence_files
from clew.interop.huggingface.writing import write_huggingface
from clew.interop.model_card import model_card
from clew.interop.options import ExportOptions
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
TAGS = """
import torch
from transformers import AutoTokenizer, {name}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {name}.from_pretrained(".").eval()
words = "Ada met Bo .".split()  # punctuation stands apart
read = tokenizer(" ".join(words), return_tensors="pt")
with torch.no_grad():
    best = model(**read).logits[0].argmax(-1).tolist()
starts = [len(" ".join([*words[:number], ""])) for number in range(len(words))]
tags = [model.config.id2label[best[read.char_to_token(start)]] for start in starts]  # a word's tag is told by its first piece
"""
PLAIN = """

def begins(before, tag):
    return tag[0] in "BS" or before[0] in "OES" or before[1:] != tag[1:]


# learnt as {scheme}; as IOB2, B- on a phrase's first word and I- on its others:
tags = [tag if tag == "O" else ("B" if begins(before, tag) else "I") + tag[1:] for before, tag in zip(["O", *tags], tags)]
"""
CALLS = {
    "language_model": ('model.generate(**tokenizer("The", return_tensors="pt"), max_new_tokens=20)', "tokenizer.decode(found[0])"),
    "translation": (
        'model.generate(**tokenizer("where is it", return_tensors="pt"))',
        "tokenizer.decode(found[0], skip_special_tokens=True)",
    ),
    "classification": ('model(**tokenizer("a text", return_tensors="pt")).logits', "found"),
    "masked_language_model": ('model(**tokenizer(f"the {tokenizer.mask_token} sat", return_tensors="pt"))', "found[0].shape"),
    "question_answering": ('model(**tokenizer("a question", "a passage", return_tensors="pt"))', "found.start_logits, found.end_logits"),
    "representation": ('model(**tokenizer("a text", return_tensors="pt")).last_hidden_state', "found.shape"),
}


def export_huggingface(run: Run, folder: Path, options: ExportOptions) -> None:
    write_huggingface(run, folder)
    if run.config.task.name == "representation":
        write_sentence_files(folder, run.config.task, run.task.pooling.dim, run.task.longest)
    name = read_json(folder / CONFIG)["architectures"][0]
    write_text(folder / "README.md", model_card(run, library="transformers", usage=usage_of(run, name), options=options))


def usage_of(run: Run, name: str) -> str:
    """The lines that run a model of a class of theirs."""
    if run.verb == "tag":
        plain = PLAIN.format(scheme=run.task.scheme.upper()) if run.task.scheme else ""
        return f"{TAGS.format(name=name)}{plain}print(list(zip(words, tags)))"
    call, shown = CALLS["translation" if run.verb == "translate" else run.config.task.name]
    return READ.format(name=name, call=call, shown=shown)
