import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.baselines.sparse import sparse


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 20), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_it_is_the_dense_matrix(num_rows, num_columns, num_entries, seed):
    random = np.random.default_rng(seed)
    rows, columns = random.integers(num_rows, size=num_entries), random.integers(num_columns, size=num_entries)
    values = random.standard_normal(num_entries)
    dense = np.zeros((num_rows, num_columns))
    np.add.at(dense, (rows, columns), values)
    found = sparse(rows, columns, values, (num_rows, num_columns))
    assert found.shape == dense.shape
    assert np.allclose(found.to_dense(), dense)
    assert np.allclose(found.mT.to_dense(), dense.T)
    other = torch.from_numpy(random.standard_normal((num_columns, 3)))
    assert torch.allclose(found @ other, torch.from_numpy(dense) @ other)
    assert torch.allclose(found @ other.float(), (torch.from_numpy(dense) @ other).float(), atol=1e-5)
