"""Tokenizers of checkpoints with SentencePiece files: Llama's, XLM-R's, CamemBERT's, and Marian's two."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from clew.core.errors import UserError
from clew.interop.huggingface.folders import inside, read_object
from clew.interop.sentencepiece_files import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER,
    Piece,
    SentencePieces,
    read_sentencepiece,
    tokenizer_of,
)
from clew.text.tokenizer import HIDDEN, Tokenizer

UNKNOWN_COST = 10.0
"""The score of an unknown character, below that of the worst piece, as in SentencePiece."""


def llama(files: list[Path], options: dict[str, Any], model_type: str) -> tokenizers.Tokenizer:
    """Build Llama's tokenizer, with the ids of the file. By default a text begins with `<s>`."""
    contents = read_sentencepiece(files[0])
    inner = tokenizer_of(contents)
    begin, end = options.get("bos_token") or "<s>", options.get("eos_token") or "</s>"
    adds = {begin: options.get("add_bos_token", True), end: options.get("add_eos_token", False)}
    for field, token in (("bos_token", begin), ("eos_token", end)):
        if inner.token_to_id(token) is None:
            raise UserError(
                f"{files[0]} does not have the tokenizer's token {token!r}; set its {field} in tokenizer_config.json"
            )
    frame = " ".join([*([begin] if adds[begin] else []), "$A", *([end] if adds[end] else [])])
    second = " ".join([*([f"{begin}:1"] if adds[begin] else []), "$B:1", *([f"{end}:1"] if adds[end] else [])])
    specials = [(token, inner.token_to_id(token)) for token in (begin, end)]
    inner.post_processor = processors.TemplateProcessing(
        single=frame, pair=f"{frame} {second}", special_tokens=specials
    )
    return inner


def fairseq(files: list[Path], options: dict[str, Any], model_type: str) -> tokenizers.Tokenizer:
    """Build a tokenizer with fairseq's ids: four special tokens before the file's pieces, and `<mask>` after them.
    XLM-R's four tokens replace the first three of the file; CamemBERT's are in addition to them."""
    contents = read_sentencepiece(files[0])
    first = [
        Piece("<s>", 0.0, CONTROL),
        Piece("<pad>", 0.0, CONTROL),
        Piece("</s>", 0.0, CONTROL),
        Piece("<unk>", 0.0, UNKNOWN),
    ]
    pieces = contents.pieces[3:]
    if model_type == "camembert":
        first = [
            piece if piece.text in ("<pad>", "<unk>") else piece._replace(text=piece.text + UNUSED) for piece in first
        ]
        pieces = [Piece("<unk>" + UNUSED, 0.0, CONTROL), *contents.pieces[1:]]
    inner = tokenizer_of(contents, [*first, *pieces, Piece("<mask>", 0.0, CONTROL)], unknown=3)
    ids = [(token, inner.token_to_id(token)) for token in ("<s>", "</s>")]
    if any(id is None for _, id in ids):
        raise UserError(
            f"{files[0]} does not have the tokens <s> and </s>, which enclose a text; it is not this model's file:"
            " copy it again"
        )
    inner.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids
    )
    return inner


UNUSED = "NOTUSED"
"""The suffix of fairseq's own tokens that CamemBERT's file has too."""


def marian_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Read the tokenizers of source and target. Each has the pieces of its own file; the ids are in one vocab.json, or
    in one file per side."""
    names = ("source.spm", "target.spm", "vocab.json")
    if lacking := [name for name in names if not (folder / name).is_file()]:
        raise UserError(
            f"{folder} has no {lacking[0]}; copy all tokenizer files of the checkpoint into it: {', '.join(names)}"
        )
    ids = [read_object(inside(folder, "vocab.json", folder))]
    other = "target_vocab.json"
    ids.append(read_object(inside(folder, other, folder)) if (folder / other).is_file() else ids[0])
    files = [read_sentencepiece(inside(folder, name, folder)) for name in names[:2]]
    source, target = (marian(contents, tokens) for contents, tokens in zip(files, ids, strict=True))
    return source, target


def marian(contents: SentencePieces, ids: dict[str, Any]) -> Tokenizer:
    """Build the tokenizer of one side. A piece that only the other side's file has keeps its id, but is hidden behind a
    NUL, which no text contains: both sides have the same tokens under the same ids. A single character is matched even
    if the file has no piece for it. `>>fra<<` before a text is one token."""
    if (
        not all(type(id) is int for id in ids.values())
        or sorted(ids.values()) != list(range(len(ids)))
        or not {"</s>", "<unk>", "<pad>"} <= set(ids)
    ):
        raise UserError(
            f"{contents.path.parent}: vocab.json should have ids from 0 on, and </s>, <unk> and <pad>; copy it again"
        )
    pieces_by_text = {piece.text: piece for piece in contents.pieces}
    lowest = min(piece.score for piece in contents.pieces)
    kinds = {"</s>": CONTROL, "<pad>": CONTROL, "<unk>": UNKNOWN}
    pieces = []
    for text in sorted(ids, key=ids.__getitem__):
        if text in kinds:
            pieces.append(Piece(text, 0.0, kinds[text]))
        elif text.startswith(">>") and text.endswith("<<"):
            pieces.append(Piece(text, lowest, USER))
        elif text in pieces_by_text and pieces_by_text[text].kind in (NORMAL, USER):
            pieces.append(pieces_by_text[text])
        else:
            pieces.append(Piece(text, lowest - UNKNOWN_COST) if len(text) == 1 else Piece(HIDDEN + text, lowest))
    return Tokenizer(tokenizer_of(contents, pieces, unknown=ids["<unk>"]))
