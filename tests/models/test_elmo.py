import torch

from clew.models.elmo import ELMoConfig, build_elmo
from clew.sources.tokens import Tokens
from tests.references.agreement import randomise
from tests.references.cells import projected_lstm

TOKENS = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
MASK = torch.tensor([[True] * 4, [True] * 2 + [False] * 2])


def test_every_level_concatenates_its_two_readers():
    """From the equations: two stacks of projected LSTMs, the upper one with a residual connection."""
    body = randomise(build_elmo(ELMoConfig(dim=3, cell={"name": "projected_lstm", "hidden_dim": 5}), Tokens(7)))
    arrays = {name: p.detach().numpy() for name, p in body.named_parameters()}

    def layer(direction, number, x):
        start = f"layers.{direction}_layer.layers.{number}.layer.cell."
        return projected_lstm({name.removeprefix(start): a for name, a in arrays.items() if name.startswith(start)}, x)

    for row, length in enumerate([4, 2]):
        x = arrays["embedding.tokens.weight"][TOKENS[row : row + 1, :length].numpy()]
        ahead, back = layer("forward", 0, x), layer("backward", 0, x[:, ::-1])
        pairs = [
            (x, x[:, ::-1]),
            (ahead, back),
            (ahead + layer("forward", 1, ahead), back + layer("backward", 1, back)),
        ]
        for level, (left, right) in zip(body.levels(TOKENS, MASK), pairs, strict=True):
            torch.testing.assert_close(level[row, :length, :3].detach(), torch.from_numpy(left[0]))
            torch.testing.assert_close(level[row, :length, 3:].detach(), torch.from_numpy(right[0, ::-1].copy()))
    torch.testing.assert_close(body(TOKENS, MASK)[0], body.levels(TOKENS, MASK)[-1])


def test_one_half_ignores_later_words_and_the_other_earlier_words():
    body = randomise(build_elmo(ELMoConfig(dim=4, cell="gru", num_layers=3), Tokens(7)))
    assert body.directions and not body.causal and body.dim == 8
    before, after = (body(torch.tensor([[1, 2, word, 4, 5]]))[0][0] for word in (3, 6))
    differs = (before != after).view(5, 2, 4).any(-1)
    assert differs.tolist() == [[False, True], [False, True], [True, True], [True, False], [True, False]]
