"""Nearest neighbours by cosine, computed block by block."""

import numpy as np

from clew.core.errors import UserError


class Nearest:
    """The `top` rows of all blocks for each query (queries, width). Ties go to the earlier row; a row of zeros is never
    returned."""

    def __init__(self, queries: np.ndarray, top: int):
        if top < 1:
            raise UserError(f"top ({top}) must be at least 1")
        self.queries = unit(queries)
        self.top = top
        self.num_rows = 0
        self.rows = np.zeros((len(queries), 0), dtype=np.int64)
        self.cosines = np.zeros((len(queries), 0), dtype=np.float32)

    def add(self, block: np.ndarray) -> None:
        if block.ndim != 2 or block.shape[1] != self.queries.shape[1]:
            raise UserError(
                f"vectors of {block.shape[-1]} numbers cannot be compared with vectors of {self.queries.shape[1]}; take"
                " both from one run"
            )
        cosines = self.queries @ unit(block).T  # (queries, rows)
        cosines[:, ~block.any(1)] = -np.inf
        rows = np.broadcast_to(np.arange(self.num_rows, self.num_rows + len(block)), cosines.shape)
        self.num_rows += len(block)
        cosines, rows = np.concatenate([self.cosines, cosines], 1), np.concatenate([self.rows, rows], 1)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, : self.top]
        self.cosines, self.rows = np.take_along_axis(cosines, best, 1), np.take_along_axis(rows, best, 1)

    def neighbours(self) -> list[list[tuple[int, float]]]:
        """(row, cosine) pairs for each query, best first."""
        pairs = zip(self.rows.tolist(), self.cosines.tolist(), strict=True)
        return [[(row, cosine) for row, cosine in zip(*pair, strict=True) if cosine > -np.inf] for pair in pairs]


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; rows of zeros stay zero."""
    rows = np.asarray(rows, dtype=np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
