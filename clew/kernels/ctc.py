"""torch's loss for connectionist temporal classification: one forward pass, and one backward pass if gradients are
needed."""

import torch.nn.functional as F
from torch import Tensor


def ctc(log_probs: Tensor, targets: Tensor, lengths: Tensor, num_labels: Tensor, *, blank: int) -> Tensor:
    """Return log p of each row's labels (batch,); 0 with gradient 0 if the labels do not fit into the frames.

    The gradient is with respect to logits: it is correct only if log_probs (batch, length, symbols) are the output of
    log_softmax.
    """
    return -F.ctc_loss(
        log_probs.transpose(0, 1),  # (length, batch, symbols)
        targets,
        lengths,
        num_labels,
        blank=blank,
        reduction="none",
        zero_infinity=True,
    )
