"""What an attribution explains: a score that a run gives, as a function of the vectors that its embedding hands on.

The score is a class's logit, a tag's, the log-probability of the next token, of a token in the place of [MASK], or of a token that a
translator writes. The embedding's vectors are put in by intervening, so that it is the same for every body.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.core.batches import map_batch, to_device
from clew.core.errors import UserError, named, unknown
from clew.data.examples import Labelled
from clew.inspection.recording import intervene, record
from clew.instruments.reading import no_text, read
from clew.layers.context import Context, Pieces
from clew.layers.embeddings import Segmented, Words, tokens_of
from clew.runs.loaded import Run
from clew.sources.words import is_segmented
from clew.tasks.classification import LabelledWords
from clew.tasks.filling import framed_text
from clew.text.words import split_words


@dataclass(frozen=True)
class Explained:
    """`score` takes what the body reads as rows; `tokens` name its places, `own` are those of the text itself, and `what` is the score."""

    run: Run
    inputs: Any  # one row
    score: Callable[[Any], Tensor]
    tokens: tuple[str, ...]
    own: tuple[bool, ...]
    what: str
    tokenizer: Any
    embedding: str = "body.embedding"
    movable: bool = True
    """Whether the score is the same question when a token is taken out."""

    def vectors(self, inputs: Any = None) -> Tensor:
        """What the embedding hands on (places, dim)."""
        with torch.no_grad(), record(self.run, self.embedding) as seen:
            self.score(self.inputs if inputs is None else inputs)
        return seen[self.embedding][0]

    def of_vectors(self, x: Tensor) -> Tensor:
        """The score of vectors (rows, places, dim) in the place of the embedding's."""
        with intervene(self.run, {self.embedding: lambda _: x}):
            return self.score(repeated(self.inputs, len(x)))

    @property
    def substitute(self) -> int | None:
        """The token that stands for nothing: a mask, the unknown word, padding, or what ends a text."""
        known = (self.tokenizer.mask, self.tokenizer.unknown, self.tokenizer.pad, self.tokenizer.end)
        return next((token for token in known if token is not None), None)

    def why_irreplaceable(self) -> str | None:
        """Why no token can be put in another's place, where that is so."""
        if self.substitute is None:
            return f"{self.tokenizer!r} has no token that stands for nothing"
        if any(isinstance(part, Context) for part in self.run.task.get_submodule(self.embedding).parts):
            return f"{self.run.folder} reads vectors of another run, in which no word can be replaced alone"
        return None

    def replaced(self) -> Tensor:
        """The embedding's vectors with a token that says nothing in each place of the text; what stands around it stays."""
        if (why := self.why_irreplaceable()) is not None:
            raise UserError(f"{why}; take baseline=zero")
        tokens = tokens_of(self.inputs)
        own = torch.tensor([self.own], device=tokens.device)
        return self.vectors(with_tokens(self.inputs, tokens.masked_fill(own, self.substitute or 0)))

    def without_each(self) -> list[float]:
        """The score with each token of the text taken out; the score itself for what stands around it."""
        if not self.movable or isinstance(self.inputs, Words):
            raise UserError("every word of this model's text has a place of its own, so that none can be taken out; take occlude=replace")
        length = tokens_of(self.inputs).shape[1]
        with torch.no_grad():
            whole = float(self.score(self.inputs)[0])
            if sum(self.own) < 2:
                raise UserError("a text needs two tokens at least for one to be taken out")
            rest = [torch.tensor([at for at in range(length) if at != place]) for place in range(length) if self.own[place]]
            rows = map_batch(lambda part: torch.cat([part[:, kept.to(part.device)] for kept in rest]), self.inputs)
            found = iter(self.score(rows).tolist())
        return [next(found) if own else whole for own in self.own]


class Question(NamedTuple):
    """The score that is asked for: `of` is a class, a tag or a token, the likeliest where not given; `place` the word of a tagger, the
    token of a translator's target, or the mask; `second` what a classifier of pairs judges together with the text."""

    text: str
    of: str | None = None
    place: int | None = None
    target: str | None = None
    into: str = ""
    second: str | None = None


def explain_run(run: Run, asked: Question) -> Explained:
    place, target = asked.place, asked.target
    if place is not None and run.verb not in PLACED:
        raise UserError(f"place= names a word that is tagged, a token that is written or a mask; {run.folder} has none of these")
    if target is not None and run.verb != "translate":
        raise UserError(f"{run.folder} writes no target; leave it out")
    if (asked.second is not None) != (run.verb == "classify" and run.reads_pairs):
        need = "two texts together; give second= too" if asked.second is None else "one text; leave second= out"
        raise UserError(f"{run.folder} reads {need}")
    return EXPLAINERS[run.verb](run, asked)


def explain_class(run: Run, asked: Question) -> Explained:
    """A class's logit; the number itself where that is what is told."""
    task = run.task
    for text in (asked.text, *([] if asked.second is None else [asked.second])):
        check_not_empty(text)
    (sides,) = task.encode_texts([Labelled(asked.text, (), asked.second)])
    task.check_length(LabelledWords(sides, []), "the text")
    batch = task.collate([LabelledWords(sides, [0.0] * len(task.labels))])
    pieces = to_device(batch.texts[0], task.output.weight.device)

    def logits(inputs: Any) -> Tensor:
        return task.logits(batch._replace(texts=(Pieces(inputs, None, pieces.starts, pieces.ends),)))

    label = chosen_label(task.labels.names, logits, pieces.inputs, asked.of)
    what = "the number" if task.config.labels == "number" else f"the logit of {named(task.labels.names[label])}"
    tokens, own = named_places(task.reader.tokenizer, sides[0].tokens)
    return Explained(run, pieces.inputs, lambda inputs: logits(inputs)[:, label], tokens, own, what, task.reader.tokenizer)


def explain_tag(run: Run, asked: Question) -> Explained:
    """What a tag scores at a word, before tags are told together."""
    task = run.task
    words, place = [word.text for word in split_words(asked.text)], asked.place or 1
    check_not_empty(" ".join(words))
    if place > len(words):
        raise UserError(f"there is no word {place}; the text has {len(words)}")
    (encoded,) = task.reader.encode([words])
    pieces = to_device(task.reader.collate([encoded]), task.output.weight.device)

    def emissions(inputs: Any) -> Tensor:
        rows = Pieces(inputs, None, *(part.expand(len(tokens_of(inputs)), -1) for part in (pieces.starts, pieces.ends)))
        hidden, _ = task.body(rows.inputs, None)
        return task.output(hidden if task.reader.is_whole else task.vector_of(hidden, rows))[:, place - 1].float()

    tag = chosen_label(task.tags.names, emissions, pieces.inputs, asked.of)
    tokens, own = named_places(task.reader.tokenizer, encoded.tokens)
    what = f"the score of {named(task.tags.names[tag])} at {named(words[place - 1])}"
    return Explained(run, pieces.inputs, lambda inputs: emissions(inputs)[:, tag], tokens, own, what, task.reader.tokenizer, movable=False)


def explain_next(run: Run, asked: Question) -> Explained:
    """log p of the token that comes after the text."""
    task, reading = run.task, read(run, asked.text)
    length = len(reading.ids) - int(task.tokenizer.unit == "word" and reading.spans[-1] is None)  # what ends a line is not read yet
    inputs = map_batch(lambda part: part[:, :length], reading.batch.inputs)

    def log_probs(inputs: Any) -> Tensor:
        return task.log_probs(task.body(inputs, None)[0][:, -1])

    token = chosen_token(task.tokenizer, log_probs, inputs, asked.of)
    own = tuple(span is not None for span in reading.spans[:length])
    what = f"log p of {task.tokenizer.piece(token)!r} as the next token"
    return Explained(run, inputs, lambda rows: log_probs(rows)[:, token], reading.pieces[:length], own, what, task.tokenizer)


def explain_mask(run: Run, asked: Question) -> Explained:
    """log p of a token in the place of a mask."""
    task, device, place = run.task, run.task.output_bias.device, asked.place or 1
    framed = framed_text(task, asked.text, None, "the text")
    if place > framed.tokens.count(task.tokenizer.mask):
        raise UserError(f"there is no mask {place}; the text has {framed.tokens.count(task.tokenizer.mask)}")
    tokens = torch.tensor([framed.tokens], device=device)
    inputs: Any = Segmented(tokens, torch.tensor([framed.segments], device=device)) if is_segmented(task.body) else tokens

    def log_probs(inputs: Any) -> Tensor:
        masks = tokens_of(inputs).eq(task.tokenizer.mask)
        at = (masks.cumsum(1).eq(place) & masks).int().argmax(1)
        hidden = task.body(inputs, None)[0]
        return task.logits(hidden[torch.arange(len(hidden), device=device), at]).float().log_softmax(-1)

    token = chosen_token(task.tokenizer, log_probs, inputs, asked.of)
    names, own = named_places(task.tokenizer, framed.tokens)
    own = tuple(is_own and id != task.tokenizer.mask for is_own, id in zip(own, framed.tokens, strict=True))
    what = f"log p of {task.tokenizer.piece(token)!r} in the place of mask {place}"
    return Explained(run, inputs, lambda rows: log_probs(rows)[:, token], names, own, what, task.tokenizer)


def explain_written(run: Run, asked: Question) -> Explained:
    """log p of a token that is written, given the source and what stands before it, by the source's places."""
    task, reading, place = run.task, read(run, asked.text, asked.target, into=asked.into), asked.place or 1
    if place > len(reading.written):
        raise UserError(f"there is no token {place} in the target; it has {len(reading.written)} with its end")
    batch = reading.batch

    def log_probs(source: Any) -> Tensor:
        rows = len(tokens_of(source))
        hidden, _ = task.decode(batch._replace(source=source, source_mask=None, tokens=batch.tokens.expand(rows, -1), mask=None))
        return task.log_probs(hidden[:, place - 1])

    token = reading.written_ids[place - 1] if asked.of is None else chosen_token(task.target, log_probs, batch.source, asked.of)
    before, after = (len(marks) for marks in task.around(asked.into))
    own = tuple(before <= at < len(reading.tokens) - after for at in range(len(reading.tokens)))
    what = f"log p of {task.target.piece(token)!r} as token {place} of the target {' '.join(reading.written)!r}"
    return Explained(
        run, batch.source, lambda rows: log_probs(rows)[:, token], reading.tokens, own, what, task.source, "body.encoder.embedding"
    )


def repeated(inputs: Any, rows: int) -> Any:
    return map_batch(lambda part: part.expand(rows, *part.shape[1:]), inputs)


def with_tokens(inputs: Any, tokens: Tensor) -> Any:
    """What an embedding reads, with other tokens, whose letters are their own."""
    if isinstance(inputs, Tensor):
        return tokens
    return inputs._replace(tokens=tokens, letters=None) if isinstance(inputs, Words) else inputs._replace(tokens=tokens)


def named_places(tokenizer: Any, ids: Sequence[int]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """The tokens of a text in its frame, and which are the text's own."""
    around = [] if tokenizer.frame is None else tokenizer.frame.around([]).tokens
    return tuple(map(tokenizer.token, ids)), tuple(id not in around for id in ids)


def chosen_label(names: Sequence[str], logits: Callable[[Any], Tensor], inputs: Any, of: str | None) -> int:
    if of is None:
        with torch.no_grad():
            return int(logits(inputs)[0].argmax())
    if of not in names:
        raise unknown("label", of, names)
    return list(names).index(of)


def chosen_token(tokenizer: Any, log_probs: Callable[[Any], Tensor], inputs: Any, of: str | None) -> int:
    """A token by its name, or by a text that is one token; the likeliest where none is given."""
    if of is None:
        with torch.no_grad():
            return int(log_probs(inputs)[0, : tokenizer.vocabulary].argmax())
    found = tokenizer.inner.token_to_id(of)
    ids = [found] if found is not None else tokenizer.encode(of)
    if len(ids) != 1 or (found is None and ids[0] == tokenizer.unknown):
        raise UserError(f"of={of!r} is {len(ids)} tokens, or unknown to the model; give one token that it knows")
    return ids[0]


def check_not_empty(text: str) -> None:
    if not text.strip():
        raise no_text()


EXPLAINERS: dict[str, Callable[..., Explained]] = {
    "classify": explain_class,
    "tag": explain_tag,
    "generate": explain_next,
    "fill": explain_mask,
    "translate": explain_written,
}
"""By what a run does."""
PLACED = ("tag", "translate", "fill")
