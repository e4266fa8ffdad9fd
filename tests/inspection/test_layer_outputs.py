"""Which parts of a module are its layers, and their outputs, against direct calls."""

import torch
from torch import nn

from clew.inspection.layer_outputs import find_layers, first_tensor, layer_outputs


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)
        self.recurrence = nn.GRU(4, 6, batch_first=True)
        self.output = nn.Linear(6, 3)

    def forward(self, ids):
        return {"logits": self.output(self.recurrence(self.table(ids))[0])}


def test_layers_are_the_outermost_members_of_lists_and_sequences():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, enable_nested_tensor=False)
    assert list(find_layers(encoder)) == ["layers.0", "layers.1"]
    assert list(find_layers(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2))))) == ["0", "1"]
    assert list(find_layers(Tagger())) == ["table", "recurrence", "output"]


def test_every_layers_output_equals_a_direct_call():
    module, ids = Tagger(), torch.tensor([[1, 2, 3]])
    with torch.no_grad():
        outputs = layer_outputs(module, lambda: module(ids))
        embedded = module.table(ids)
        hidden, _ = module.recurrence(embedded)
        expected = {"table": embedded, "recurrence": hidden, "output": module.output(hidden)}
    assert [each.path for each in outputs] == list(expected)
    for each in outputs:
        torch.testing.assert_close(each.values, expected[each.path][0])
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def test_levels_range_from_the_first_layers_input_to_the_last_module():
    x = torch.randn(1, 5, 4)

    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return 2 * x

    module = Normed()
    with torch.no_grad():
        outputs = {each.path: each.values for each in layer_outputs(module, lambda: module(x))}
    assert list(outputs) == ["input", "layers.0", "layers.1", "output"]
    torch.testing.assert_close(outputs["input"], x[0])
    torch.testing.assert_close(outputs["output"], 2 * outputs["layers.1"])


def test_hooks_are_removed_when_a_call_fails():
    module = nn.Sequential(nn.Linear(4, 4))
    try:
        layer_outputs(module, lambda: module(torch.zeros(1, 3)))
    except RuntimeError:
        assert not module[0]._forward_hooks
    else:
        raise AssertionError("vectors of another width were taken")


def test_the_first_tensor_of_a_nested_output_is_found():
    x = torch.zeros(2)
    assert first_tensor({"loss": None, "state": ((), x)}) is x and first_tensor("none") is None
