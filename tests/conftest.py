"""One seeded, deterministic way to draw examples, and one thread a worker."""

import os

import torch
from hypothesis import settings

settings.register_profile("clew", derandomize=True, deadline=None, max_examples=25, print_blob=False)
settings.load_profile("clew")

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
