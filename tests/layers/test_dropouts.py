import pytest
import torch

from clew.core.errors import UserError
from clew.layers.dropouts import DROPOUTS, LockedDropout, drop_weight, drop_words


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_a_locked_mask_is_the_same_at_every_position_and_different_in_every_row():
    y = LockedDropout(0.5)(torch.ones(4, 9, 64))
    assert torch.equal(y, y[:, :1].expand_as(y))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert len({tuple(row.tolist()) for row in y[:, 0]}) == 4


def test_word_dropout_drops_whole_words_and_scales_the_others():
    weight = torch.rand(200, 8) + 0.5
    dropped = drop_words(weight, 0.25, training=True)
    is_zero = (dropped == 0).all(1)
    assert 20 < int(is_zero.sum()) < 80
    torch.testing.assert_close(dropped[~is_zero], weight[~is_zero] / 0.75)


def test_weight_drop_drops_single_weights_and_scales_the_others():
    weight = torch.rand(50, 40) + 0.5
    dropped = drop_weight(weight, 0.5, training=True)
    is_zero = dropped == 0
    assert 800 < int(is_zero.sum()) < 1200
    torch.testing.assert_close(dropped[~is_zero], 2 * weight[~is_zero])


@pytest.mark.parametrize("kind", DROPOUTS)
@pytest.mark.parametrize(("p", "training"), [(0.5, False), (0.0, True)])
def test_dropout_is_off_in_evaluation_and_at_zero(kind, p, training):
    x = torch.randn(2, 3, 4)
    assert torch.equal(DROPOUTS[kind](p).train(training)(x), x)
    assert torch.equal(drop_words(x[0], p, training), x[0])
    assert torch.equal(drop_weight(x[0], p, training), x[0])


@pytest.mark.parametrize("kind", DROPOUTS)
def test_dropout_keeps_the_mean(kind):
    assert float(DROPOUTS[kind](0.3)(torch.ones(200, 1, 200)).mean()) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("kind", DROPOUTS)
@pytest.mark.parametrize("p", [-0.5, 1.0, 6.0, float("nan")])
def test_invalid_probabilities_are_rejected_at_construction(kind, p):
    with pytest.raises(UserError, match=rf"dropout \({p}\) must be at least 0 and below 1"):
        DROPOUTS[kind](p)
