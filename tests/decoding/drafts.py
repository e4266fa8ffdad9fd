"""Drafts that are right as often as a test requires."""

import torch

from clew.decoding.drafts import Proposal


class Scripted:
    """Guesses that agree with a text where `right` is true; a wrong guess is the right token plus one."""

    def __init__(self, text, vocabulary, right):
        self.text, self.vocabulary, self.right = text, vocabulary, right

    def check(self, stepper): ...

    def initial_state(self, rows, capacity):
        return torch.arange(rows), torch.zeros(rows, dtype=torch.long)

    def propose(self, tokens, mask, most, uniform, state):
        rows, num_written = state
        count = torch.full_like(most, tokens.shape[1]) if mask is None else mask.sum(1)
        num_written = torch.where(
            num_written == 0, 1, num_written + count
        )  # the first call is one token behind the prompt
        slots = (num_written[:, None] + torch.arange(int(most.max()))).clamp(max=self.text.shape[1] - 1)
        right = self.text[rows[:, None], slots]
        is_right = torch.tensor([[self.right(int(slot)) for slot in row] for row in slots])
        return Proposal(torch.where(is_right, right, (right + 1) % self.vocabulary), most, None), (rows, num_written)

    def settle(self, accepted, state):
        return state


AGREEMENT = {
    "always": lambda slot: True,
    "never": lambda slot: False,
    "half": lambda slot: slot % 2 == 0,
    "mostly": lambda slot: slot % 5 != 0,
}
