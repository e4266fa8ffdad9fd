import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.baselines.sparse import sparse


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 20), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_sparse_matrix_equals_the_dense_one(num_rows, num_columns, num_entries, seed):
    random = np.random.default_rng(seed)
    rows, columns = random.integers(num_rows, size=num_entries), random.integers(num_columns, size=num_entries)
    values = random.standard_normal(num_entries)
    dense = np.zeros((num_rows, num_columns))
    np.add.at(dense, (rows, columns), values)
    matrix = sparse(rows, columns, values, (num_rows, num_columns))
    assert matrix.shape == dense.shape
    assert np.allclose(matrix.to_dense(), dense)
    assert np.allclose(matrix.mT.to_dense(), dense.T)
    dense_factor = torch.from_numpy(random.standard_normal((num_columns, 3)))
    assert torch.allclose(matrix @ dense_factor, torch.from_numpy(dense) @ dense_factor)
    assert torch.allclose(matrix @ dense_factor.float(), (torch.from_numpy(dense) @ dense_factor).float(), atol=1e-5)
