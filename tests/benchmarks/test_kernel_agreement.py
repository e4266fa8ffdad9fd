"""Every kernel has a case, and a kernel that is wrong is found."""

import pytest

from benchmarks.kernel_agreement import STEPS_ONLY, cases, check
from clew.kernels import KERNELS


def test_every_kernel_has_a_case():
    assert {case.kernel for case in cases()} == set(KERNELS) - STEPS_ONLY


@pytest.mark.parametrize(("wrong_by", "agrees"), [(1.0, True), (1.05, False)])
def test_a_kernel_that_is_off_by_a_twentieth_disagrees(monkeypatch, capsys, wrong_by, agrees):
    case = next(case for case in cases() if case.name == "attention, heads of 20, ragged")
    right = KERNELS["dot_attention"]
    monkeypatch.setitem(KERNELS, "dot_attention", lambda *args, **options: wrong_by * right(*args, **options))
    assert check(case) == agrees
    assert ("DISAGREES" in capsys.readouterr().out) != agrees
