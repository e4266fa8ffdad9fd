import pytest

from clew.layers.blocks import parameter_blocks
from clew.models import MODELS
from tests.runs.pretrained import BODIES


@pytest.mark.parametrize("kind", BODIES)
def test_every_parameter_of_a_body_is_in_one_block(kind: str) -> None:
    family = MODELS[BODIES[kind]["family"]]
    body = family.build(family.config(**BODIES[kind]), 11)
    blocks = parameter_blocks(body)
    assert len(blocks) == 3 and all(blocks)  # the embedding, and two above it
    names = [name for block in blocks for name in block]
    assert sorted(names) == sorted(name for name, _ in body.named_parameters())
    assert all(name.startswith("embedding.") for name in blocks[0])
    assert [name for name in names if name.startswith("norm.")] == [name for name in blocks[-1] if name.startswith("norm.")]


def test_attention_is_in_one_block_with_the_network_above_it_and_both_readers_side_by_side() -> None:
    family = MODELS["mixed"]
    blocks = parameter_blocks(family.build(family.config(**BODIES["mixed"]), 11))
    assert {name.split(".")[2] for name in blocks[1]} == {"0"}
    assert {name.split(".")[2] for name in blocks[2] if name.startswith("layers.")} == {"1", "2"}
    family = MODELS["elmo"]
    blocks = parameter_blocks(family.build(family.config(**BODIES["elmo"]), 11))
    for number, block in enumerate(blocks[1:]):
        assert {tuple(name.split(".")[1:4]) for name in block} == {
            (side, "layers", str(number)) for side in ("forward_layer", "backward_layer")
        }


def test_a_body_without_layers_has_its_embedding_alone() -> None:
    family = MODELS["bag"]
    blocks = parameter_blocks(family.build(family.config(dim=4), 11))
    assert len(blocks) == 1 and list(blocks[0]) == ["embedding.tokens.weight"]
