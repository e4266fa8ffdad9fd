from itertools import product
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from tests.thread.processes import TRAINED, train_share, trained


@pytest.mark.slow
def test_two_processes_give_the_loss_curve_of_one(tmp_path: Path) -> None:
    """Rows are ragged, so shares differ in their number of targets; only exact means give the same curve."""
    multiprocessing.spawn(train_share, args=(2, tmp_path), nprocs=2)
    for name in TRAINED:
        alone = trained(name)
        for spread, process in product(("replicate", "shard"), range(2)):
            together = torch.load(tmp_path / f"{name}-{spread}-{process}.pt", weights_only=True)
            assert together["losses"] == pytest.approx(alone["losses"], rel=1e-11), name
            assert together["norms"] == pytest.approx(alone["norms"], rel=1e-9), name
            for key, value in alone["weights"].items():
                torch.testing.assert_close(
                    together["weights"][key], value, rtol=1e-9, atol=1e-11, msg=f"{name} {spread} {key}"
                )
