"""The texts of one request while they are generated: cut at stop texts, with optional log-probabilities. Knows no
route."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from clew.decoding.continuous import RowRequest, Written
from clew.serving.calls import Call
from clew.serving.writing import RowOutput
from clew.tasks.use import Growing, Joining
from clew.text.tokenizer import Tokenizer


class TokenInfo(NamedTuple):
    """A generated token: its log-probability, the most probable alternatives, and its offset in the text."""

    token: int
    log_prob: float
    alternatives: list[tuple[int, float]]
    offset: int


class Piece(NamedTuple):
    """New text of one choice; `finish` is the reason why it ended, or None."""

    index: int  # type: ignore[assignment]
    text: str
    tokens: list[TokenInfo]
    finish: str | None


class Choice:
    """One text while it is generated. Text that may be the beginning of a stop is held back until this is decided."""

    def __init__(self, growing: Growing, stops: Sequence[str]):
        self.growing = growing
        self.stops = stops
        self.length = 0
        """The number of characters passed on."""
        self.pending = ""
        self.tokens: list[TokenInfo] = []
        self.num_written = 0
        """The number of tokens, including the end token, excluding those after a stop."""

    def add(self, written: Written) -> tuple[str, list[TokenInfo], str | None]:
        """The new text, its tokens, and the reason why it ended, if it did."""
        new, finish, is_cut = "", None, False
        for place, token in enumerate(written.text):
            offset = self.length + len(new) + len(self.pending)
            self.tokens.append(
                TokenInfo(token, written.plain[place], (written.alternatives or [[]] * (place + 1))[place], offset)
            )
            self.pending += self.growing.add(token)
            if self.stops and (stop_index := first_stop(self.pending, self.stops)) is not None:
                self.pending, finish, is_cut = self.pending[:stop_index], "stop", True
                self.num_written += place + 1
                break
            count = len(self.pending) - held_back(self.pending, self.stops)
            new, self.pending = new + self.pending[:count], self.pending[count:]
        else:
            self.num_written += len(written.tokens)
            if written.ended is not None:
                self.pending += self.growing.rest()
                finish = "stop" if written.ended == "end" else "length"
                if (stop_index := first_stop(self.pending, self.stops)) is not None:
                    self.pending, finish, is_cut = self.pending[:stop_index], "stop", True
        if finish is not None:
            new, self.pending = new + self.pending, ""
        self.length += len(new)
        if not new and finish is None:
            return "", [], None
        # A token is reported with the text that it begins; tokens cut off by a stop are not reported.
        tokens = [token for token in self.tokens if token.offset < self.length or (finish is not None and not is_cut)]
        self.tokens = self.tokens[len(tokens) :]
        return new, tokens, finish


def first_stop(text: str, stops: Sequence[str]) -> int | None:
    """The position of the first stop in a text; None if there is none."""
    return min((index for stop in stops if (index := text.find(stop)) >= 0), default=None)


def held_back(text: str, stops: Sequence[str]) -> int:
    """The number of characters at the end of a text that may begin a stop."""
    return max((count for stop in stops for count in range(1, len(stop)) if text.endswith(stop[:count])), default=0)


class Choices:
    """The rows of a request: those of the first prompt, then of the next. Passes on lists of pieces: as soon as there
    are any if `streams`, else when all texts are complete."""

    def __init__(
        self,
        joining: Joining[Any, Any],
        call: Call,
        prompts: Sequence[str | list[int]],
        *,
        stops: Sequence[str],
        alternatives: int,
        streams: bool,
    ):
        self.joining = joining
        self.call = call
        self.task = call.run.task
        self.prompts = prompts
        self.stops = stops
        self.alternatives = alternatives
        self.streams = streams
        self.count = len(call.rows)
        self.choices: dict[int, Choice] = {}
        self.pieces: list[Piece] = []
        self.num_read = self.num_complete = 0

    @property
    def num_written(self) -> int:
        return sum(choice.num_written for choice in self.choices.values())

    def prompt(self, place: int) -> tuple[int, str | list[int]]:
        number = place * len(self.prompts) // self.count
        return number, self.prompts[number]

    def size(self, place: int) -> int:
        return len(self.prompt(place)[1])

    def row_request(self, place: int) -> RowRequest:
        number, prompt = self.prompt(place)
        tokens = self.joining.tokens(self.task, prompt, number + 1 if len(self.prompts) > 1 else None)
        if place * len(self.prompts) % self.count == 0:  # the first text of this prompt
            self.num_read += len(tokens)
        self.choices[place] = Choice(self.joining.growing(self.task, prompt), self.stops)
        request = self.joining.request(self.task, tokens, self.call.options, place + 1)
        return request._replace(choice=request.choice._replace(alternatives=self.alternatives))

    def receive(self, outputs: list[RowOutput]) -> tuple[Any, Collection[int]]:
        complete = set()
        for place, written in outputs:
            text, tokens, finish = self.choices[place].add(written)
            if text or finish is not None:
                self.pieces.append(Piece(place, text, tokens, finish))
            if finish is not None:
                complete.add(place)
        self.num_complete += len(complete)
        if not self.pieces or not (self.streams or self.num_complete == self.count):
            return None, complete
        pieces, self.pieces = self.pieces, []
        return pieces, complete


def completion_log_probs(tokenizer: Tokenizer, tokens: Sequence[TokenInfo], shift: int) -> dict[str, Any]:
    """Log-probabilities in the format of /v1/completions."""
    return {
        "tokens": [tokenizer.decode([each.token]) for each in tokens],
        "token_logprobs": [each.log_prob for each in tokens],
        "top_logprobs": [
            {tokenizer.decode([token]): log_prob for token, log_prob in finite(each.alternatives)} for each in tokens
        ],
        "text_offset": [each.offset + shift for each in tokens],
    }


def chat_log_probs(tokenizer: Tokenizer, tokens: Sequence[TokenInfo], most: int) -> dict[str, Any]:
    """Log-probabilities in the format of /v1/chat/completions."""

    def describe_token(token: int, log_prob: float) -> dict[str, Any]:
        text = tokenizer.decode([token])
        return {"token": text, "logprob": log_prob, "bytes": list(text.encode("utf-8", "replace"))}

    content = []
    for each in tokens:
        alternatives = [describe_token(token, log_prob) for token, log_prob in finite(each.alternatives)[:most]]
        content.append({**describe_token(each.token, each.log_prob), "top_logprobs": alternatives})
    return {"content": content, "refusal": None}


def finite(alternatives: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The alternatives without tokens of probability 0."""
    return [(token, log_prob) for token, log_prob in alternatives if log_prob > float("-inf")]
