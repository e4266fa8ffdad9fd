"""Constrained decoding of linearised trees: a stepper around a stepper that writes only well-formed trees. Knows the
roles of tokens, not their spelling.

A tree is written with tokens that open and close a bracket of some label, and tokens that stand for words (see
`clew.data.syntax.linearisation`). Which of them may come next depends on the open brackets; the state is a stack of
them.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from clew.core.errors import UserError
from clew.core.types import State
from clew.core.wording import argument_name
from clew.decoding.stepper import Stepper, calm_steps, signature_of
from clew.kernels.capture import held_by_graphs

BEFORE, INSIDE, CLOSED, OVER = range(4)
"""Phase of a row: before its tree, inside it, the tree complete except for the end token, or nothing may follow."""

OPEN, CLOSE, WORD, END, OTHER = range(5)
"""Role of a token; the first three are moves in a tree."""


class TreeTokens(NamedTuple):
    """The tokens that write trees. `opens` and `closes` list the same labels in the same order."""

    opens: Sequence[int]
    closes: Sequence[int]
    words: Sequence[int]
    start: int
    end: int


class Bracket(NamedTuple):
    """An open bracket: its number of children (0, 1, or 2 for more), and the length of the unary chain that its only
    child heads.

    `run` brackets directly around it have no other child so far; unless a word comes after it, they will form a unary
    chain. `breaks` is the number of words needed to keep all chains beyond that run short enough.
    """

    label: Tensor  # all (rows,)
    children: Tensor
    chain: Tensor
    run: Tensor
    breaks: Tensor


class Writing(NamedTuple):
    """The progress of each row's tree."""

    phase: Tensor  # (rows,)
    words_left: Tensor  # (rows,)
    steps_left: Tensor  # (rows,) tokens, end token included
    depth: Tensor  # (rows,) brackets open
    stack: Tensor  # (rows, max_depth, 5) a Bracket each

    def at(self, depth: Tensor) -> Bracket:
        """Return each row's bracket at a depth, where 1 is the root; an arbitrary bracket if there is none."""
        place = (depth - 1).clamp(0, self.stack.shape[1] - 1)
        return Bracket(*self.stack[torch.arange(len(depth), device=depth.device), place].unbind(1))


class Moves(NamedTuple):
    """Effects of an opening, a closing and a word on each row: whether it is allowed, and the innermost bracket after
    it."""

    allowed: Tensor  # (moves, rows)
    bracket: Bracket  # of (moves, rows)
    words_left: Tensor  # (moves, rows)
    depth: Tensor  # (moves, rows)


class Roles(NamedTuple):
    """The role of each token of a vocabulary."""

    kinds: Tensor  # (vocabulary,)
    labels: Tensor  # (vocabulary,) the label that it opens or closes, else -1
    is_no_close: Tensor  # (vocabulary,)


@held_by_graphs
@lru_cache(maxsize=16)
def roles_of(tokens: TreeTokens, vocabulary: int, device: torch.device) -> Roles:
    """Return the roles of tokens. Cached, since a captured or taped step must read the same tensors in every call."""
    with torch.inference_mode(False):
        kinds = torch.full((vocabulary,), OTHER, device=device)
        labels = torch.full_like(kinds, -1)
        for kind, ids in ((OPEN, tokens.opens), (CLOSE, tokens.closes), (WORD, tokens.words), (END, [tokens.end])):
            kinds[list(ids)] = kind
        for ids in (tokens.opens, tokens.closes):
            labels[list(ids)] = torch.arange(len(ids), device=device)
        return Roles(kinds, labels, kinds != CLOSE)


class TreeState(NamedTuple):
    inner: State
    writing: Writing


class TreeConstraint:
    """p'(w) = p(w) if w continues the tree so that it can still be finished, else 0.

    A row's tree begins after its first `start` token, which may also be the end token; any prompt comes before it. It
    has exactly `lengths` (rows,) words, ends with the end token, has at most `max_length` tokens with it (one number,
    or one per row), is no deeper than `max_depth`, and has at most `max_unary` brackets around the same words. With w
    words to write and d brackets open,

        a word     may come inside a bracket while w > 0
        an opening may come while w > 0, d < max_depth and w + d + 3 tokens or more are left
        a closing  may come where it names the innermost bracket, which is not empty, and for the root when w = 0
        the end    comes after the root has closed

    as long as the words left can still keep every open unary chain short: one word breaks one chain. So some token can
    always follow, and w + d + 1 tokens are always enough to finish. Refused mass is lost, as in a filter; filters go
    around a constraint.
    """

    def __init__(
        self,
        stepper: Stepper,
        *,
        tokens: TreeTokens,
        lengths: Tensor,
        max_length: int | Tensor,
        max_depth: int = 64,
        max_unary: int = 6,
    ):
        for name, value in (("max_depth", max_depth), ("max_unary", max_unary)):
            if value < 1:
                raise UserError(f"{argument_name(name)} ({value}) must be at least 1")
        _check_tokens(tokens, stepper.vocabulary)
        _check_lengths(lengths)
        self.stepper = stepper
        self.lengths = lengths.long()
        self.tokens = tokens._replace(opens=tuple(tokens.opens), closes=tuple(tokens.closes), words=tuple(tokens.words))
        self.max_lengths = torch.zeros_like(self.lengths) + max_length
        self.max_depth, self.max_unary = max_depth, max_unary
        _check_max_lengths(self.lengths, self.max_lengths)

    @property
    def vocabulary(self) -> int:
        return self.stepper.vocabulary

    @property
    def signature(self) -> Hashable:
        inner = signature_of(self.stepper)  # the progress of each tree is in the state
        return None if inner is None else (type(self), self.tokens, self.max_depth, self.max_unary, inner)

    def initial_state(self, rows: int, capacity: int | None = None) -> TreeState:
        if rows != len(self.lengths):
            raise UserError(f"lengths ({len(self.lengths)}) must have one number for each row of the prompt ({rows})")
        longest = int(self.max_lengths.max())
        if capacity is not None and capacity <= longest:
            raise UserError(
                f"max_length ({longest}) exceeds the {capacity - 1} tokens that fit after the start token; "
                "decode with max_new of at least max_length, or trees may be cut off"
            )
        zeros = torch.zeros_like(self.lengths)
        stack = zeros.new_zeros(rows, self.max_depth, len(Bracket._fields))
        writing = Writing(zeros + BEFORE, self.lengths, self.max_lengths, zeros, stack)
        return TreeState(self.stepper.initial_state(rows, capacity), writing)

    def calm_steps(self, state: TreeState) -> int:
        return calm_steps(self.stepper, state.inner)

    def __call__(self, tokens: Tensor, mask: Tensor | None, state: TreeState) -> tuple[Tensor, TreeState]:
        log_probs, inner = self.stepper(tokens, mask, state.inner)
        roles = roles_of(self.tokens, self.vocabulary, tokens.device)
        writing, moves, refused = state.writing, self._moves(state.writing), []
        for t in range(tokens.shape[1]):
            real = torch.ones_like(tokens[:, t], dtype=torch.bool) if mask is None else mask[:, t]
            writing = self._after(roles, writing, moves, tokens[:, t], real)
            moves = self._moves(writing)
            refused.append(~_allowed(roles, writing, moves))
        log_probs = log_probs.masked_fill(torch.stack(refused, 1), -math.inf) if refused else log_probs
        return log_probs, TreeState(inner, writing)

    def _moves(self, writing: Writing) -> Moves:
        words, depth = writing.words_left, writing.depth
        top, parent, nothing = writing.at(depth), writing.at(depth - 1), torch.zeros_like(depth)
        none_open = depth == 0
        holds_one, holds_none = top.children == 1, top.children == 0
        own_chain = 1 + top.chain * holds_one
        will_hold_one = holds_none & ~none_open
        breaks = torch.where(will_hold_one, top.breaks, top.breaks + self._breaks(top.run, 1)).masked_fill(none_open, 0)
        bracket = Bracket(
            torch.stack([nothing, parent.label, top.label]),
            torch.stack([nothing, parent.children + 1, top.children + 1]).clamp(max=2),
            torch.stack([nothing, own_chain, nothing]),
            torch.stack([(top.run + 1) * will_hold_one, parent.run, top.run]),
            torch.stack([breaks, parent.breaks, top.breaks]),
        )
        words_after, depth_after = torch.stack([words, words, words - 1]), torch.stack([depth + 1, depth - 1, depth])
        can_move = torch.stack(
            [depth < self.max_depth, ~(holds_none | none_open) & (own_chain <= self.max_unary), ~none_open]
        )
        finishable = self._can_be_finished(bracket, words_after, depth_after, writing.steps_left - 1)
        return Moves(can_move & finishable & (writing.phase == INSIDE), bracket, words_after, depth_after)

    def _can_be_finished(self, bracket: Bracket, words_left: Tensor, depth: Tensor, steps_left: Tensor) -> Tensor:
        """Whether enough tokens are left, and enough words to fill the innermost bracket and to break every overlong
        chain."""
        holds_one = (bracket.children == 1).long()
        own = self._breaks(bracket.run + holds_one, torch.where(holds_one > 0, bracket.chain, 1))
        needed = own + bracket.breaks + (bracket.children == 0)
        enough_words = torch.where(depth > 0, needed <= words_left, words_left == 0)
        return enough_words & (words_left + depth + 1 <= steps_left)

    def _breaks(self, run: Tensor, chain: Tensor | int) -> Tensor:
        """Return the words needed to break `run` nested brackets, each the only child of the next, around a unary chain
        of length `chain`.

        That chain may grow by max_unary - chain, and each word starts another chain that may grow to max_unary.
        """
        return (run + chain - 1).clamp(min=0).div(self.max_unary, rounding_mode="floor")

    def _after(self, roles: Roles, writing: Writing, moves: Moves, tokens: Tensor, real: Tensor) -> Writing:
        """Return the progress after one token (rows,) of each row where it is real. A row that reads a refused token is
        OVER."""
        kinds, labels, rows = roles.kinds[tokens], roles.labels[tokens], torch.arange(len(tokens), device=tokens.device)
        chosen = kinds.clamp(max=WORD), rows
        names_innermost = (kinds != CLOSE) | (labels == moves.bracket.label[WORD])
        moves_on = real & (kinds <= WORD) & names_innermost & moves.allowed[chosen]
        depth = torch.where(moves_on, moves.depth[chosen], writing.depth)
        bracket = Bracket(*(field[chosen] for field in moves.bracket))
        bracket = bracket._replace(label=torch.where(kinds == OPEN, labels, bracket.label))
        phase = torch.where(moves_on, torch.where(depth == 0, CLOSED, INSIDE), OVER)
        phase = torch.where(writing.phase == BEFORE, torch.where(tokens == self.tokens.start, INSIDE, BEFORE), phase)
        return Writing(
            torch.where(real, phase, writing.phase),
            torch.where(moves_on, moves.words_left[chosen], writing.words_left),
            writing.steps_left - (real & (writing.phase != BEFORE)).long(),
            depth,
            _written(writing.stack, moves_on, depth, bracket),
        )


def _allowed(roles: Roles, writing: Writing, moves: Moves) -> Tensor:
    """Return True (rows, vocabulary) where a token may follow."""
    before = writing.phase == BEFORE
    by_kind = torch.stack([*moves.allowed, writing.phase == CLOSED, before], 1)  # (rows, kinds)
    names_innermost = roles.labels == moves.bracket.label[WORD][:, None]
    return before[:, None] | (by_kind[:, roles.kinds] & (roles.is_no_close | names_innermost))


def _written(stack: Tensor, rows: Tensor, depth: Tensor, bracket: Bracket) -> Tensor:
    """Write `bracket` into the stack at `depth`, in the given rows."""
    # (rows, max_depth)
    is_target = rows[:, None] & (torch.arange(1, stack.shape[1] + 1, device=stack.device) == depth[:, None])
    return torch.where(is_target[..., None], torch.stack(bracket, 1)[:, None], stack)


def _check_tokens(tokens: TreeTokens, vocabulary: int) -> None:
    if len(tokens.opens) != len(tokens.closes):
        raise UserError(
            f"opens ({len(tokens.opens)}) and closes ({len(tokens.closes)}) must have the same labels in the same order"
        )
    if not tokens.opens or not tokens.words:
        raise UserError("a tree needs at least one label to open and close, and one token for a word")
    roles = [*tokens.opens, *tokens.closes, *tokens.words, *{tokens.start, tokens.end}]
    for token in roles:
        if not 0 <= token < vocabulary:
            raise UserError(f"token ({token}) must be at least 0 and below vocabulary ({vocabulary})")
    twice = sorted(token for token, count in Counter(roles).items() if count > 1)
    if twice:
        raise UserError(f"token ({twice[0]}) has two roles; each token must have one: open, close, word, start or end")


def _check_lengths(lengths: Tensor) -> None:
    if lengths.dim() != 1 or len(lengths) == 0:
        raise UserError(
            f"lengths must be one-dimensional, with one number per sentence; it has shape {tuple(lengths.shape)}"
        )
    if int(lengths.min()) < 1:
        raise UserError(
            f"every sentence needs at least one word; sentence {int(lengths.argmin())} has {int(lengths.min())}"
        )


def _check_max_lengths(lengths: Tensor, max_lengths: Tensor) -> None:
    short = (max_lengths < lengths + 3).nonzero().flatten().tolist()
    if short:
        words, most = int(lengths[short[0]]), int(max_lengths[short[0]])
        raise UserError(
            f"max_length ({most}) must be at least {words + 3}: the {words} words of sentence {short[0]}, the root's"
            " two brackets and the end"
        )
