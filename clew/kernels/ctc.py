"""torch's loss of connectionist temporal classification: one pass forward, and one backward when its gradient is wanted."""

import torch.nn.functional as F
from torch import Tensor


def ctc(log_probs: Tensor, targets: Tensor, lengths: Tensor, num_labels: Tensor, *, blank: int) -> Tensor:
    """log p of each row's labels (batch,); 0, with a gradient of 0, where they do not fit into its frames.

    Its gradient is that of logits: it is right where log_probs (batch, length, symbols) come out of log_softmax.
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
