"""Which keys each query may see, computed from positions instead of stored as a mask of query x key."""

from typing import NamedTuple

from torch import Tensor

from clew.core.masks import Places


class Sight(NamedTuple):
    """A query sees the real keys of its own document, within `window` positions, and none after itself if `causal`.

    Indices count from the start of the row and are -1 on padding, as in `Places`; all are (batch, length), or (1,
    length) if all rows are equal. Padded queries see arbitrary keys, since without any their softmax would be NaN.
    """

    places: Places
    key_index: Tensor
    causal: bool
    window: int | None = None
    documents: bool = False  # whether a row may hold several documents
    padded: bool = False  # whether there may be padding
    aligned: bool = False  # whether query j and key j are at the same position, slot j: nothing was read before
    key_start: Tensor | None = None  # start of each key's document; used only if not causal

    @property
    def is_triangle(self) -> bool:
        """Whether slot i sees exactly the slots up to i. Real positions come first in a row, so padding needs no
        mask."""
        return self.causal and self.aligned and self.window is None and not self.documents

    @property
    def is_whole(self) -> bool:
        """Whether every query sees every key."""
        return not (self.causal or self.documents or self.padded) and self.window is None

    def visible(self) -> Tensor:
        """Return a mask that is True where a query may look; it broadcasts to (batch, heads, query, key)."""
        query, key = self.places.index[:, :, None], self.key_index[:, None, :]
        if not self.causal and not self.documents and self.window is None:
            real = self.key_index >= 0
            return (real | ~real.any(1, keepdim=True))[:, None, None]
        if self.causal:
            visible = (key >= self.places.start[:, :, None]) & (key <= query)
        else:
            visible = key >= 0
            if self.documents:
                assert self.key_start is not None
                visible = visible & (self.places.start[:, :, None] == self.key_start[:, None, :])
        if self.window is not None:
            visible = visible & ((query - key).abs() <= self.window)
        if self.padded:
            visible = visible | (query < 0)
        return visible[:, None]
