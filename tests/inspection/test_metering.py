import torch

from clew.inspection.metering import metered


def test_products_are_counted_and_chains_are_sequential_products():
    a, b, c = torch.ones(3, 4), torch.ones(4, 5), torch.ones(5, 6)
    one = metered(lambda: a @ b)
    assert (one.flops, one.chain) == (2 * 3 * 4 * 5, 1)
    chained = metered(lambda: (a @ b) @ c)
    assert (chained.flops, chained.chain) == (2 * 3 * 4 * 5 + 2 * 3 * 5 * 6, 2)
    side_by_side = metered(lambda: torch.relu(a @ b) + (a * 2) @ b)
    assert (side_by_side.flops, side_by_side.chain) == (2 * one.flops, 1)
    assert metered(lambda: a + a) == metered(lambda: a + a)._replace(flops=0, chain=0)


def test_memory_is_the_peak_of_live_tensors():
    x = torch.ones(1000)

    def held():
        y = x + 1
        z = y + 1
        return y, z

    def handed_on():
        y = x + 1
        for _ in range(10):
            y = y + 1
        return y

    assert metered(held).memory == 2 * 4000 and metered(handed_on).memory == 2 * 4000
    assert metered(lambda: x.view(10, 100)[2:]).memory == 0  # a view allocates no memory
    weight = torch.ones(100, 1000)
    assert metered(lambda: torch.nn.functional.linear(x[None], weight)).memory == 400
