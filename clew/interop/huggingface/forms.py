"""The files of each task in a folder of `transformers`, for all architectures: FORMS, by clew's name of the
task."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from clew.interop.huggingface.architecture import Understood
from clew.interop.huggingface.folders import GENERATION, Checkpoint, read_object
from clew.interop.huggingface.sentence_folders import write_sentence_files
from clew.interop.huggingface.sentencepiece_tokenizers import marian_tokenizers
from clew.interop.huggingface.tokenizer_files import extended_to, read_tokenizer
from clew.runs.loaded import Run
from clew.tasks.uses.writing import DecodingConfig
from clew.text.tokenizer import Tokenizer

READ = """
import torch
from transformers import AutoTokenizer, {name}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {name}.from_pretrained(".").eval()
with torch.no_grad():
    output = {call}
print({shown})
"""
TAGS = """
import torch
from transformers import AutoTokenizer, {name}

tokenizer = AutoTokenizer.from_pretrained(".")
model = {name}.from_pretrained(".").eval()
words = "Ada met Bo .".split()  # punctuation marks are words
read = tokenizer(" ".join(words), return_tensors="pt")
with torch.no_grad():
    best = model(**read).logits[0].argmax(-1).tolist()
starts = [len(" ".join([*words[:number], ""])) for number in range(len(words))]
# a word's tag is that of its first piece:
tags = [model.config.id2label[best[read.char_to_token(start)]] for start in starts]
"""
# A head of transformers has one label for each learnt tag, so the card's code converts them to IOB2.
PLAIN = """

def begins(before, tag):
    return tag[0] in "BS" or before[0] in "OES" or before[1:] != tag[1:]


# the model predicts {scheme}; convert to IOB2, with B- on a phrase's first word and I- on its others:
tags = [
    tag if tag == "O" else ("B" if begins(before, tag) else "I") + tag[1:]
    for before, tag in zip(["O", *tags], tags)
]
"""


def lines(call: str, printed: str, run: Run, name: str) -> str:
    return READ.format(name=name, call=call, shown=printed)


def tag_lines(run: Run, name: str) -> str:
    plain = PLAIN.format(scheme=run.task.scheme.upper()) if run.task.scheme else ""
    return f"{TAGS.format(name=name)}{plain}print(list(zip(words, tags)))"


def one_tokenizer(
    path: Path, folder: Path, checkpoint: Checkpoint, understood: Understood, labels: str = "labels"
) -> dict[str, Any]:
    """Read the tokenizer, and the labels if there are any, by role."""
    kind = checkpoint.config.get("model_type", str, "")
    where = folder if (folder / "tokenizer.json").is_file() or folder == path else path
    tokenizer = extended_to(read_tokenizer(where, kind), understood.vocabulary, folder)
    return {"tokenizer": tokenizer, **({} if understood.labels is None else {labels: understood.labels})}


def two_tokenizers(path: Path, folder: Path, checkpoint: Checkpoint, understood: Understood) -> dict[str, Any]:
    """Read the tokenizers of the source and of the target."""
    source, target = marian_tokenizers(folder)
    sizes = understood.vocabulary, checkpoint.config.get("decoder_vocab_size", int, understood.vocabulary)
    return {"source": extended_to(source, sizes[0], folder), "target": extended_to(target, sizes[1], folder)}


def ending(checkpoint: Checkpoint, vocabularies: dict[str, Any]) -> dict[str, Any]:
    """Return the section decoding of a checkpoint whose texts end with other tokens than the tokenizer's end token."""
    tokenizer: Tokenizer = vocabularies["tokenizer"]
    path = checkpoint.folder / GENERATION
    fields = {**checkpoint.config.values, **(read_object(path) if path.is_file() else {})}
    end_ids = fields.get("eos_token_id")
    ends = [
        id
        for id in (end_ids if isinstance(end_ids, list) else [end_ids])
        if isinstance(id, int) and 0 <= id < tokenizer.vocabulary
    ]
    if ends in ([], [tokenizer.end]):
        return {}
    names = [tokenizer.token(id) for id in ends]
    return {"decoding": {"stop": names if len(names) > 1 else names[0]}}


def searched(decoding: DecodingConfig) -> dict[str, Any]:
    """Return the fields of a translator's search. The length in transformers includes the decoder's start token. The
    search there divides scores by a power of the length, and has no coverage penalty."""
    fields: dict[str, Any] = {"num_beams": 1, "max_length": decoding.max_new + 1}
    if decoding.method != "beam":
        return fields
    early = {"likely": False, "full": True}.get(decoding.early_stop or "never", "never")
    return {**fields, "num_beams": decoding.beams, "length_penalty": decoding.length_penalty, "early_stopping": early}


def sentence_files(run: Run, folder: Path) -> None:
    write_sentence_files(folder, run.config.task, run.task.pooling.dim, run.task.longest)


@dataclass(frozen=True)
class Form:
    """The files of one task. `usage(run, name)` is Python code that runs a model of their class `name`. `vocabularies`
    reads those of a checkpoint, `sections` the sections of a config other than body and task; `pairs` is True if the
    user may choose to read two texts together. `generation` returns the fields of generation_config.json, if that is
    written; `extra_files` writes further files."""

    usage: Callable[[Run, str], str]
    vocabularies: Callable[[Path, Path, Checkpoint, Understood], dict[str, Any]] = one_tokenizer
    sections: Callable[[Checkpoint, dict[str, Any]], dict[str, Any]] = lambda checkpoint, vocabularies: {}
    pairs: bool = False
    generation: Callable[[DecodingConfig], dict[str, Any]] | None = None
    extra_files: Callable[[Run, Path], None] = lambda run, folder: None


FORMS: dict[str, Form] = {
    "language_model": Form(
        partial(
            lines,
            'model.generate(**tokenizer("The", return_tensors="pt"), max_new_tokens=20)',
            "tokenizer.decode(output[0])",
        ),
        sections=ending,
        generation=lambda decoding: {},
    ),
    "translation": Form(
        partial(
            lines,
            'model.generate(**tokenizer("where is it", return_tensors="pt"))',
            "tokenizer.decode(output[0], skip_special_tokens=True)",
        ),
        vocabularies=two_tokenizers,
        generation=searched,
    ),
    "classification": Form(
        partial(lines, 'model(**tokenizer("a text", return_tensors="pt")).logits', "output"), pairs=True
    ),
    "tagging": Form(tag_lines, vocabularies=partial(one_tokenizer, labels="tags")),
    "masked_language_model": Form(
        partial(lines, 'model(**tokenizer(f"the {tokenizer.mask_token} sat", return_tensors="pt"))', "output[0].shape")
    ),
    "question_answering": Form(
        partial(
            lines,
            'model(**tokenizer("a question", "a passage", return_tensors="pt"))',
            "output.start_logits, output.end_logits",
        )
    ),
    "representation": Form(
        partial(lines, 'model(**tokenizer("a text", return_tensors="pt")).last_hidden_state', "output.shape"),
        extra_files=sentence_files,
    ),
}
