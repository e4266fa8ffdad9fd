import torch

from clew.bench.profiling import profile_call

CPU = torch.device("cpu")


def test_kernels_are_sorted_by_time_with_runs_per_call():
    x, small = torch.randn(300, 300), torch.randn(2)

    def call():
        x @ x
        for _ in range(4):
            small.exp()

    first, *rest = profile_call(call, CPU, lambda: None)
    runs = {each.kernel: each.runs for each in [first, *rest]}
    assert first.kernel == "aten::mm" and runs["aten::mm"] == 1 and runs["aten::exp"] == 4
    assert [each.seconds for each in [first, *rest]] == sorted((each.seconds for each in [first, *rest]), reverse=True)


def test_omitted_kernels_are_summed():
    x = torch.randn(300, 300)
    kernels = profile_call(lambda: (x @ x).exp().sum(), CPU, lambda: None, most=1)
    assert (
        [each.kernel for each in kernels] == ["aten::mm", "others"] and kernels[1].runs >= 2 and kernels[1].seconds > 0
    )
