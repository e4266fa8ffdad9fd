import pytest

from clew.layers.blocks import parameter_blocks
from clew.models import MODELS
from clew.sources.tokens import Tokens
from tests.runs.pretrained import BODIES


@pytest.mark.parametrize("kind", BODIES)
def test_every_parameter_of_a_body_is_in_one_block(kind: str) -> None:
    family = MODELS[BODIES[kind]["family"]]
    body = family.build(family.config(**BODIES[kind]), Tokens(11))
    blocks = parameter_blocks(body)
    assert len(blocks) == 3 and all(blocks)  # the embedding, and two blocks above it
    names = [name for block in blocks for name in block]
    assert sorted(names) == sorted(name for name, _ in body.named_parameters())
    assert all(name.startswith("embedding.") for name in blocks[0])
    assert [name for name in names if name.startswith("norm.")] == [
        name for name in blocks[-1] if name.startswith("norm.")
    ]


def test_attention_and_its_network_are_one_block_and_so_are_both_readers() -> None:
    family = MODELS["mixed"]
    blocks = parameter_blocks(family.build(family.config(**BODIES["mixed"]), Tokens(11)))
    assert {name.split(".")[2] for name in blocks[1]} == {"0"}
    assert {name.split(".")[2] for name in blocks[2] if name.startswith("layers.")} == {"1", "2"}
    family = MODELS["elmo"]
    blocks = parameter_blocks(family.build(family.config(**BODIES["elmo"]), Tokens(11)))
    for number, block in enumerate(blocks[1:]):
        assert {tuple(name.split(".")[1:4]) for name in block} == {
            (side, "layers", str(number)) for side in ("forward_layer", "backward_layer")
        }


def test_a_body_without_layers_has_only_its_embedding() -> None:
    family = MODELS["bag"]
    blocks = parameter_blocks(family.build(family.config(dim=4), Tokens(11)))
    assert len(blocks) == 1 and list(blocks[0]) == ["embedding.tokens.weight"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_translators_blocks_are_embeddings_then_encoder_then_decoder(shared: bool) -> None:
    family = MODELS["transformer"]
    body = family.build(
        family.config(dim=4, num_heads=2, encoder_layers=2, decoder_layers=1, shared_embeddings=shared),
        Tokens(11),
        Tokens(11),
    )
    blocks = parameter_blocks(body)
    names = [name for block in blocks for name in block]
    assert sorted(names) == sorted(name for name, _ in body.named_parameters())
    assert len({id(parameter) for block in blocks for parameter in block.values()}) == len(names)
    parts = [{tuple(name.split(".")[:2]) for name in block} for block in blocks]
    tables = {("decoder", "embedding")} if shared else {("encoder", "embedding"), ("decoder", "embedding")}
    assert parts == [tables, {("encoder", "layers")}, {("encoder", "layers")}, {("decoder", "layers")}]
    assert {name.split(".")[3] for name in blocks[2]} == {"2", "3"} and {name.split(".")[3] for name in blocks[3]} == {
        "0",
        "1",
        "2",
    }


def test_a_bridge_belongs_to_the_lowest_block_of_the_decoder() -> None:
    family = MODELS["seq2seq"]
    body = family.build(family.config(dim=4, num_layers=2, bridge="dense"), Tokens(11), Tokens(7))
    blocks = parameter_blocks(body)
    holders = [number for number, block in enumerate(blocks) if any(name.startswith("bridge.") for name in block)]
    lowest = min(
        number for number, block in enumerate(blocks) if any(name.startswith("decoder.layers.") for name in block)
    )
    assert holders == [lowest] and sum(map(len, blocks)) == len(list(body.parameters()))
