"""Kernels for a GPU that agree with their equations on the CPU and have not run on a GPU yet. CLEW_TRIAL_KERNELS=1 asks for them."""

import os


def are_asked_for() -> bool:
    return os.environ.get("CLEW_TRIAL_KERNELS") == "1"
