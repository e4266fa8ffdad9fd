"""Frames: the special tokens that a model expects around a text, or around a pair: `[CLS] a [SEP] b [SEP]` for BERT,
`<s> a </s></s> b </s>` for RoBERTa, `<s> a` for Llama. The tokenizer's own file describes the frame."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clew.core.errors import UserError

FIRST, SECOND = "A", "B"


class Slot(NamedTuple):
    """A frame's own tokens, or the place of a text (`A` or `B`), and their segment."""

    what: tuple[int, ...] | str
    segment: int


class Framed(NamedTuple):
    """Texts within their frame: all tokens, the segment of each token, and the index where each text begins."""

    tokens: list[int]
    segments: list[int]
    starts: list[int]


class Frame(NamedTuple):
    single: tuple[Slot, ...]
    pair: tuple[Slot, ...]

    def around(self, first: Sequence[int], second: Sequence[int] | None = None) -> Framed:
        """Put the frame around a text or a pair."""
        texts = {FIRST: first, SECOND: second}
        framed = Framed([], [], [])
        for what, segment in self.single if second is None else self.pair:
            tokens = texts[what] if isinstance(what, str) else what
            assert tokens is not None
            if isinstance(what, str):
                framed.starts.append(len(framed.tokens))
            framed.tokens.extend(tokens)
            framed.segments.extend([segment] * len(tokens))
        return framed

    @property
    def before(self) -> list[int]:
        """The tokens before a text. A model that continues a text has read these first."""
        return self.around([]).tokens[: self.around([]).starts[0]]

    def num_added(self, *, pair: bool = False) -> int:
        """The number of tokens around one text, or around a pair."""
        return len(self.around([], [] if pair else None).tokens)


def frame_of(description: Mapping[str, Any]) -> Frame | None:
    """The frame that a tokenizer's file describes; None if it adds nothing to a text."""
    frames = [frame for frame in map(read_frame, processors(description.get("post_processor"))) if frame is not None]
    if len(frames) > 1:
        raise UserError(
            "the tokenizer puts several frames around a text, and a model expects one; remove all post-processors"
            " but one"
        )
    return frames[0] if frames and frames[0].num_added() + frames[0].num_added(pair=True) else None


def processors(description: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if description is None:
        return []
    return list(description["processors"]) if description["type"] == "Sequence" else [description]


def read_frame(processor: Mapping[str, Any]) -> Frame | None:
    kind = processor["type"]
    if kind == "ByteLevel":  # changes offsets only
        return None
    if kind in ("BertProcessing", "RobertaProcessing"):
        begin, end = (int(processor["cls"][1]),), (int(processor["sep"][1]),)
        between, segment = ((end,), 1) if kind == "BertProcessing" else ((end, end), 0)
        single = (Slot(begin, 0), Slot(FIRST, 0), Slot(end, 0))
        return Frame(
            single, (*single[:2], *(Slot(mark, 0) for mark in between), Slot(SECOND, segment), Slot(end, segment))
        )
    if kind == "TemplateProcessing":
        ids = {name: tuple(token["ids"]) for name, token in processor["special_tokens"].items()}
        return Frame(*(tuple(read_slot(part, ids) for part in processor[which]) for which in ("single", "pair")))
    raise UserError(
        f"the tokenizer's post-processor is a {kind}, which clew does not know; known: TemplateProcessing,"
        " BertProcessing"
    )


def read_slot(part: Mapping[str, Any], ids: Mapping[str, tuple[int, ...]]) -> Slot:
    (kind, fields), *_ = part.items()
    return Slot(fields["id"] if kind == "Sequence" else ids[fields["id"]], fields["type_id"])
