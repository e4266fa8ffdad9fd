"""Read the tokenizer of a checkpoint: its `tokenizer.json`, or the vocabulary files of older checkpoints."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from clew.core.errors import UserError, shown
from clew.core.files import read_text
from clew.interop.huggingface.folders import inside, read_object
from clew.interop.huggingface.sentencepiece_tokenizers import fairseq, llama
from clew.text.tokenizer import FILE, Tokenizer

MOST_UNUSED = 2**18
"""The maximum number of a model's tokens that its tokenizer lacks; tables are rounded up, but not by more."""
SPECIALS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
BERT_SPECIALS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
ROBERTA_SPECIALS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
GPT2_SPECIALS = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}


def read_tokenizer(folder: Path, model_type: str) -> Tokenizer:
    """Read the tokenizer of a folder. Without a tokenizer.json, `model_type` determines how its vocabulary files are
    read."""
    if (folder / FILE).is_file():
        return Tokenizer.load(inside(folder, FILE, folder))
    options = {**settings_in(folder, "special_tokens_map.json"), **settings_in(folder, "tokenizer_config.json")}
    for names, build in VOCABULARY_FILES:
        if all((folder / name).is_file() for name in names):
            return Tokenizer(build([inside(folder, name, folder) for name in names], options, model_type))
    known_files = ", ".join([FILE, *(" with ".join(names) for names, _ in VOCABULARY_FILES)])
    raise UserError(
        f"{folder} has no tokenizer, which a run needs to read texts; clew reads {known_files}: save one in the same"
        " folder"
    )


def settings_in(folder: Path, name: str) -> dict[str, Any]:
    """Return the fields of an optional file. A special token may be an object with options, of which only the token is
    kept."""
    if not (folder / name).is_file():
        return {}
    fields = read_object(inside(folder, name, folder))
    return {
        key: value["content"] if key in SPECIALS and isinstance(value, dict) and "content" in value else value
        for key, value in fields.items()
    }


def special_tokens(options: dict[str, Any], defaults: dict[str, str]) -> dict[str, str]:
    specials = {name: options.get(name) or default for name, default in defaults.items()}
    for name, token in specials.items():
        if not isinstance(token, str):
            raise UserError(f"the tokenizer's {name} takes a text, not {shown(token)}")
    return specials


def wordpiece(files: list[Path], options: dict[str, Any], model_type: str) -> tokenizers.Tokenizer:
    """BERT's tokenizer, from a vocab.txt with one token per line."""
    tokens = lines_of(files[0])
    vocabulary = {token: number for number, token in enumerate(tokens)}
    specials = special_tokens(options, BERT_SPECIALS)
    check_specials(specials, vocabulary, files[0])
    inner = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=specials["unk_token"]))
    inner.normalizer = normalizers.BertNormalizer(
        lowercase=bool(options.get("do_lower_case", True)),
        strip_accents=options.get("strip_accents"),
        handle_chinese_chars=bool(options.get("tokenize_chinese_chars", True)),
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    begin, end = specials["cls_token"], specials["sep_token"]
    inner.post_processor = processors.BertProcessing((end, vocabulary[end]), (begin, vocabulary[begin]))
    inner.add_special_tokens(list(dict.fromkeys(specials.values())))
    return inner


def byte_pairs(files: list[Path], options: dict[str, Any], model_type: str) -> tokenizers.Tokenizer:
    """Return the tokenizer of GPT-2 or RoBERTa, from a vocab.json and a merges.txt."""
    is_roberta = model_type not in ("gpt2", "llama", "mistral")
    specials = special_tokens(options, ROBERTA_SPECIALS if is_roberta else GPT2_SPECIALS)
    vocabulary = read_object(files[0])
    merges = [tuple(line.split(" ")) for line in lines_of(files[1]) if line and not line.startswith("#version")]
    if not all(isinstance(number, int) for number in vocabulary.values()) or not all(
        len(merge) == 2 for merge in merges
    ):
        raise UserError(
            f"{files[0].parent}: vocab.json must have the id of each token, and merges.txt two tokens per line; copy"
            " both again"
        )
    check_specials(specials, vocabulary, files[0])
    try:
        inner = tokenizers.Tokenizer(models.BPE(vocabulary, merges))  # type: ignore[arg-type]
    except Exception as error:  # the library raises bare Exception
        raise UserError(f"{files[1]} does not match {files[0].name} ({error}); copy both again") from None
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(options.get("add_prefix_space", False)))
    inner.decoder = decoders.ByteLevel()
    if is_roberta:
        begin, end = specials["cls_token"], specials["sep_token"]
        inner.post_processor = processors.RobertaProcessing((end, vocabulary[end]), (begin, vocabulary[begin]))
    inner.add_special_tokens(list(dict.fromkeys(specials.values())))
    return inner


def lines_of(path: Path) -> list[str]:
    """The lines of a file, split at \\n only: U+2028 and other line ends of Unicode may be tokens."""
    try:
        return read_text(path).removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text in UTF-8 (byte {error.start + 1}); copy it again") from None


def check_specials(specials: dict[str, str], vocabulary: dict[str, int], path: Path) -> None:
    for name, token in specials.items():
        if token not in vocabulary:
            raise UserError(
                f"{path} does not have the tokenizer's {name} {shown(token)}; copy it again, or see"
                " tokenizer_config.json"
            )


def extended_to(tokenizer: Tokenizer, size: int, where: Path) -> Tokenizer:
    """Extend a tokenizer to the number of vectors of the model. Tables are often rounded up; the ids beyond the
    tokenizer's become tokens `<unused N>`, so that the vocabulary has one size everywhere."""
    if tokenizer.vocabulary > size:
        raise UserError(
            f"{where}: the tokenizer has {tokenizer.vocabulary:,} tokens, but the model has {size:,} (vocab_size); use"
            " its own"
        )
    if size - tokenizer.vocabulary > MOST_UNUSED:
        raise UserError(
            f"{where}: the model has {size:,} tokens (vocab_size) and the tokenizer {tokenizer.vocabulary:,}, a"
            f" difference of more than {MOST_UNUSED:,}; use the tokenizer that belongs to the model"
        )
    if tokenizer.vocabulary < size:
        inner = tokenizers.Tokenizer.from_str(tokenizer.to_json())
        inner.add_special_tokens([f"<unused {number}>" for number in range(tokenizer.vocabulary, size)])
        tokenizer = Tokenizer(inner)
    return tokenizer


VOCABULARY_FILES: list[tuple[tuple[str, ...], Any]] = [
    (("vocab.txt",), wordpiece),
    (("vocab.json", "merges.txt"), byte_pairs),
    (("sentencepiece.bpe.model",), fairseq),
    (("tokenizer.model",), llama),
]
"""Sets of files that define a tokenizer, each with the function that builds it."""
