"""Entropy and divergence of distributions over tokens, in bits, from log-probabilities in nats on the last axis.

H(p) = -sum_w p(w) log2 p(w)        KL(p || q) = sum_w p(w) log2 (p(w) / q(w))        0 log 0 being 0
"""

import math

import torch
from torch import Tensor

LEAST = -1e4
"""Replaces the logarithm of 0, so that a token that q excludes is very but not infinitely surprising."""


def entropy_bits(log_probs: Tensor) -> Tensor:
    log_probs = log_probs.cpu().double()
    return -(log_probs.exp() * log_probs.clamp(min=LEAST)).sum(-1) / math.log(2)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    log_p, log_q = log_p.cpu().double(), log_q.cpu().double()
    terms = torch.where(log_p > -math.inf, log_p.exp() * (log_p - log_q.clamp(min=LEAST)), 0.0)
    return terms.sum(-1).clamp(min=0) / math.log(2)
