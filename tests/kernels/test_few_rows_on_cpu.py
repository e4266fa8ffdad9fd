"""Functions that decoding on a CPU uses instead of torch's."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clew.decoding.sampling import greedy_sequences
from clew.kernels import few_rows_on_cpu, only_equations
from clew.kernels.few_rows_on_cpu import SMALL, FewRowsOnCPU, linear, rms_norm, vendor
from clew.kernels.quantised_weight import QuantisedWeight
from clew.kernels.quantising import integers_of
from clew.kernels.step_mode import reading_mode, step_mode
from tests.decoding.test_engine import FAMILIES, VOCABULARY, model

CPU = torch.device("cpu")
WIDE = (SMALL // 64 + 3, 64)


@pytest.fixture
def slow_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as on a CPU on which the products of torch's library are slow."""
    monkeypatch.setattr(few_rows_on_cpu, "has_slow_products", lambda: True)


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of torch has no oneDNN")
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("weight_shape", [(24, 40), WIDE])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (3, 17), ()])
@torch.inference_mode()
def test_a_product_equals_the_float64_one(shape, weight_shape, has_bias, slow_products):
    weight, bias = torch.randn(weight_shape), torch.randn(weight_shape[0]) if has_bias else None
    x = torch.randn(*shape, weight_shape[1])
    expected = x.double().numpy() @ weight.double().numpy().T + (0 if bias is None else bias.double().numpy())
    actual = linear(x, weight, bias)
    assert actual.dtype == torch.float32
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "x, weight",
    [
        (torch.randn(2, 8).double(), torch.randn(3, 8).double()),
        (torch.randn(2, 8).bfloat16(), torch.randn(3, 8).bfloat16()),
        (torch.randn(2, 8), torch.randn(8, 3).T),
        (torch.randn(0, 8), torch.randn(3, 8)),
        (torch.randn(2, 8), torch.randn(0, 8)),
    ],
)
@torch.inference_mode()
def test_products_of_other_dtypes_and_shapes_are_left_to_torch(x, weight, slow_products):
    assert linear(x, weight) is None
    with FewRowsOnCPU():
        torch.testing.assert_close(F.linear(x, weight), x @ weight.T, rtol=0, atol=0)


def test_nothing_is_replaced_when_gradients_are_needed(slow_products):
    x, weight = torch.randn(2, 8, requires_grad=True), torch.randn(3, 8)
    with FewRowsOnCPU():
        F.linear(x, weight).sum().backward()
        F.rms_norm(x, (8,), weight[0], 1e-6).sum().backward()
    assert linear(x, weight) is None and rms_norm(x, (8,), weight[0], 1e-6) is None
    assert x.grad.isfinite().all()


@torch.inference_mode()
def test_a_norm_equals_the_float64_one():
    x, weight = 3 * torch.randn(2, 5, 24), torch.randn(24)
    whole = x.double().numpy()
    expected = whole / np.sqrt((whole**2).mean(-1, keepdims=True) + 0.01) * weight.double().numpy()
    np.testing.assert_allclose(rms_norm(x, (24,), weight, 0.01).numpy(), expected, rtol=1e-5, atol=1e-6)
    assert rms_norm(x, (5, 24), torch.randn(5, 24), 0.01) is None and rms_norm(x, (24,), weight) is None


@torch.inference_mode()
def test_quantised_weights_are_multiplied_as_without_the_context():
    for bits in (8, 4):
        x, weight = torch.randn(3, 1, 64), QuantisedWeight(integers_of(torch.randn(24, 64), bits))
        expected = F.linear(x, weight)
        with FewRowsOnCPU():
            torch.testing.assert_close(F.linear(x, weight), expected, rtol=0, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_every_family_generates_the_same_as_by_its_equations(family, slow_products):
    task = model(family).double() if family == "lstm" else model(family)
    prompt = torch.randint(VOCABULARY, (2, 5), generator=torch.Generator().manual_seed(2))
    generated = greedy_sequences(task.stepper(), prompt, max_new=24)
    with only_equations():
        plain = greedy_sequences(task.stepper(), prompt, max_new=24)
    torch.testing.assert_close(generated.log_probs, plain.log_probs, rtol=1e-3, atol=1e-4)


def test_equations_run_without_the_context():
    with only_equations(), torch.no_grad():
        assert not isinstance(step_mode(CPU), FewRowsOnCPU) and not isinstance(reading_mode(CPU), FewRowsOnCPU)
    with torch.no_grad():
        assert isinstance(step_mode(CPU), FewRowsOnCPU) and isinstance(reading_mode(CPU), FewRowsOnCPU)
    assert not isinstance(reading_mode(CPU), FewRowsOnCPU)  # training reads sources too


@pytest.mark.parametrize(
    "text, name",
    [
        ("processor : 0\nvendor_id\t: AuthenticAMD\n", "AuthenticAMD"),
        ("vendor_id : GenuineIntel\n", "GenuineIntel"),
        ("CPU part : 1\n", ""),
    ],
)
def test_a_cpu_is_identified_by_its_own_name(text, name, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(few_rows_on_cpu, "DESCRIBED", tmp_path / "cpuinfo")
    assert vendor() == name


def test_without_a_description_the_system_is_asked_for_its_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(few_rows_on_cpu, "DESCRIBED", tmp_path / "nothing")
    monkeypatch.setattr(
        few_rows_on_cpu.platform, "processor", lambda: "AMD64 Family 25 Model 33 Stepping 0, AuthenticAMD"
    )
    assert vendor() == "AuthenticAMD"
