"""Tokenizers of checkpoints that have SentencePiece files: Llama's, XLM-R's, CamemBERT's, and Marian's two."""

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import processors

from clew.core.errors import UserError
from clew.interop.huggingface.folders import inside, read_object
from clew.interop.sentencepiece_files import CONTROL, NORMAL, UNKNOWN, USER, Piece, SentencePieces, read_sentencepiece, tokenizer_of
from clew.text.tokenizer import HIDDEN, Tokenizer

UNKNOWN_COST = 10.0
"""How much less probable than any piece SentencePiece takes an unknown character to be."""


def llama(files: list[Path], options: dict[str, Any], model_type: str) -> tokenizers.Tokenizer:
    """The file's own ids; a text begins with <s> unless the options say otherwise."""
    found = read_sentencepiece(files[0])
    inner = tokenizer_of(found)
    begin, end = options.get("bos_token") or "<s>", options.get("eos_token") or "</s>"
    adds = {begin: options.get("add_bos_token", True), end: options.get("add_eos_token", False)}
    for token in (begin, end):
        if inner.token_to_id(token) is None:
            raise UserError(f"{files[0]} has not the token {token!r} of the tokenizer; see tokenizer_config.json")
    frame = " ".join([*([begin] if adds[begin] else []), "$A", *([end] if adds[end] else [])])
    second = " ".join([*([f"{begin}:1"] if adds[begin] else []), "$B:1", *([f"{end}:1"] if adds[end] else [])])
    specials = [(token, inner.token_to_id(token)) for token in (begin, end)]
    inner.post_processor = processors.TemplateProcessing(single=frame, pair=f"{frame} {second}", special_tokens=specials)
    return inner


def fairseq(files: list[Path], options: dict[str, Any], model_type: str) -> tokenizers.Tokenizer:
    """fairseq's ids: four tokens of its own and <mask> around the file's pieces. XLM-R's own four are the file's first three and <pad>;
    CamemBERT has them besides the file's."""
    found = read_sentencepiece(files[0])
    first = [Piece("<s>", 0.0, CONTROL), Piece("<pad>", 0.0, CONTROL), Piece("</s>", 0.0, CONTROL), Piece("<unk>", 0.0, UNKNOWN)]
    pieces = found.pieces[3:]
    if model_type == "camembert":
        first = [piece if piece.text in ("<pad>", "<unk>") else piece._replace(text=piece.text + UNUSED) for piece in first]
        pieces = [Piece("<unk>" + UNUSED, 0.0, CONTROL), *found.pieces[1:]]
    inner = tokenizer_of(found, [*first, *pieces, Piece("<mask>", 0.0, CONTROL)], unknown=3)
    ids = [(token, inner.token_to_id(token)) for token in ("<s>", "</s>")]
    if any(id is None for _, id in ids):
        raise UserError(
            f"{files[0]} has not the tokens <s> and </s>, which stand around a text; it is no file of this model: copy it again"
        )
    inner.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids)
    return inner


UNUSED = "NOTUSED"
"""What fairseq adds to the name of a token of its own that CamemBERT's file has too."""


def marian_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The source's and the target's: each has the pieces of its own file, by ids that both share in vocab.json, or that each has."""
    names = ("source.spm", "target.spm", "vocab.json")
    if lacking := [name for name in names if not (folder / name).is_file()]:
        raise UserError(f"{folder} has no {lacking[0]}; a Marian checkpoint has {', '.join(names)} for its tokenizers")
    ids = [read_object(inside(folder, "vocab.json", folder))]
    other = "target_vocab.json"
    ids.append(read_object(inside(folder, other, folder)) if (folder / other).is_file() else ids[0])
    files = [read_sentencepiece(inside(folder, name, folder)) for name in names[:2]]
    source, target = (marian(found, tokens) for found, tokens in zip(files, ids, strict=True))
    return source, target


def marian(found: SentencePieces, ids: dict[str, Any]) -> Tokenizer:
    """A piece that only the other side's file has keeps its place, hidden from texts; a single character is found where the file has
    none for it. `>>fra<<` before a text is one token."""
    if (
        not all(type(id) is int for id in ids.values())
        or sorted(ids.values()) != list(range(len(ids)))
        or not {"</s>", "<unk>", "<pad>"} <= set(ids)
    ):
        raise UserError(f"{found.path.parent}: vocab.json should have ids from 0 on, and </s>, <unk> and <pad>; copy it again")
    known = {piece.text: piece for piece in found.pieces}
    lowest = min(piece.score for piece in found.pieces)
    kinds = {"</s>": CONTROL, "<pad>": CONTROL, "<unk>": UNKNOWN}
    pieces = []
    for text in sorted(ids, key=ids.__getitem__):
        if text in kinds:
            pieces.append(Piece(text, 0.0, kinds[text]))
        elif text.startswith(">>") and text.endswith("<<"):
            pieces.append(Piece(text, lowest, USER))
        elif text in known and known[text].kind in (NORMAL, USER):
            pieces.append(known[text])
        else:
            pieces.append(Piece(text, lowest - UNKNOWN_COST) if len(text) == 1 else Piece(HIDDEN + text, lowest))
    return Tokenizer(tokenizer_of(found, pieces, unknown=ids["<unk>"]))
