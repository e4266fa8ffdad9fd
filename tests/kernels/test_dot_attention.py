import itertools

import pytest
import torch

from clew.kernels.dot_attention import dot_attention
from tests.references.agreement import randn


@pytest.mark.parametrize(
    ("causal", "biased", "masked", "heads"), list(itertools.product([False, True], [False, True], [False, True], [1, 2]))
)
def test_dot_attention_is_a_softmax_over_what_may_be_seen(causal, biased, masked, heads):
    query, key, value = randn(2, 2, 4, 3), randn(2, heads, 4, 3, seed=1), randn(2, heads, 4, 3, seed=2)
    bias = randn(1, 2, 4, 4, seed=3) if biased else None
    visible = torch.tensor([True, True, False, True])[None, None, None] if masked and not (causal and not biased) else None
    scores = 0.7 * query @ key.expand(-1, 2, -1, -1).mT + (bias if biased else 0.0)
    if visible is not None:
        scores = scores.masked_fill(~visible, float("-inf"))
    if causal:
        scores = scores.masked_fill(torch.ones(4, 4, dtype=torch.bool).triu(1), float("-inf"))
    expected = torch.softmax(scores, -1) @ value.expand(-1, 2, -1, -1)
    actual = dot_attention(query, key, value, scale=0.7, visible=visible, causal=causal, bias=bias, dropout=0.0)
    torch.testing.assert_close(actual, expected)
