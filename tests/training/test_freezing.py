from pathlib import Path

import pytest
import torch

from clew.core.errors import UserError
from clew.recipes.resolving import config_of
from clew.recipes.running import run_recipe
from clew.runs.directory import read_weights
from clew.runs.folder.run_files import WEIGHTS
from clew.training.freezing import freeze, levels_of, unfreezing
from clew.training.problems import prepare_problem
from clew.training.signals import Interrupted
from tests.runs.pretrained import TINY, labelled_file, save_pretrained
from tests.training.group import train_together
from tests.training.test_run import Listener, assert_same_run


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_CACHE", str(tmp_path / "cache"))


def settings(tmp_path: Path, *more: str, kind: str = "bert") -> list[str]:
    source = tmp_path / kind
    return [
        f"transfer.from={source if source.exists() else save_pretrained(source, kind)}",
        *labelled_file(tmp_path),
        *TINY,
        "task.calibrate=false",
        *more,
    ]


def changed(tmp_path: Path, out: str, kind: str = "bert") -> set[str]:
    """The parts of the body whose weights differ from the pre-trained run: embedding, norm, and numbers of layers."""
    before, after = read_weights(tmp_path / kind / WEIGHTS), read_weights(Path(out) / WEIGHTS)
    names = [name for name in after if name.startswith("body.") and not torch.equal(before[name], after[name])]
    return {name.split(".")[3] if name.startswith("body.layers.") else name.split(".")[1] for name in names}


@pytest.mark.parametrize(
    ("setting", "trained"),
    [
        ("0", {"embedding", "0", "1", "2", "3"}),
        ("embedding", {"0", "1", "2", "3"}),
        ("1", {"2", "3"}),
        ("2", set()),
        ("body", set()),
    ],
)
def test_frozen_weights_stay_bit_identical_and_the_rest_is_trained(
    setting: str, trained: set[str], tmp_path: Path
) -> None:
    result = run_recipe(
        "finetune-classify",
        settings(tmp_path, f"transfer.freeze={setting}", "training.optimiser.weight_decay=0.1"),
        out=Path("run"),
    )
    assert changed(tmp_path, "run") == trained
    pretrained, learnt = read_weights(tmp_path / "bert" / WEIGHTS), read_weights(Path("run") / WEIGHTS)
    assert not torch.equal(pretrained["pooling.dense.weight"], learnt["pooling.dense.weight"])
    assert result.run.config.transfer.sha256 is not None


def test_blocks_are_unfrozen_one_by_one_from_the_top(tmp_path: Path) -> None:
    config = config_of("finetune-classify", settings(tmp_path, "transfer.unfreeze_every=2"))
    task = prepare_problem(config).task
    freeze(task, config)
    schedule = unfreezing(task, config)
    assert schedule is not None
    blocks, _ = levels_of(task, config)
    assert [schedule.num_frozen(step) for step in range(8)] == [3, 3, 2, 2, 1, 1, 0, 0]
    frozen = {id(parameter) for parameter in schedule(3)}
    assert frozen == {id(parameter) for block in blocks[:2] for parameter in block}
    assert [all(p.requires_grad for p in block) for block in blocks] == [False, False, True]

    config = config_of("finetune-classify", settings(tmp_path, "transfer.unfreeze_every=1", "transfer.freeze=1"))
    freeze(task.requires_grad_(True), config)
    later_schedule = unfreezing(task, config)
    # Two levels stay frozen.
    assert later_schedule is not None and [later_schedule.num_frozen(step) for step in range(3)] == [
        1,
        0,
        0,
    ]


def test_a_level_is_trained_from_the_step_that_unfreezes_it(tmp_path: Path) -> None:
    assignments = settings(tmp_path, "transfer.unfreeze_every=1", "training.steps=4", "training.evaluate_every=4")
    run_recipe("finetune-classify", assignments, out=Path("run"))  # the embedding is trained only in the last step
    pretrained, learnt = read_weights(tmp_path / "bert" / WEIGHTS), read_weights(Path("run") / WEIGHTS)
    name = "body.embedding.tokens.weight"
    assert not torch.equal(pretrained[name], learnt[name])


def test_a_language_model_without_a_head_starts_with_its_top_block(tmp_path: Path) -> None:
    save_pretrained(tmp_path / "gpt", "gpt")
    (tmp_path / "text.txt").write_text("the red fox is good\na big dog is bad\n" * 30, encoding="utf-8")
    assignments = [f"transfer.from={tmp_path / 'gpt'}", "data.train=text.txt", *TINY, "training.length=8"]
    more = ["task.tied=true", "task.bias=false", "transfer.unfreeze_every=2", "training.steps=5"]
    config = config_of("finetune-text", [*assignments, *more])
    task = prepare_problem(config).task
    schedule, (blocks, others) = unfreezing(task, config), levels_of(task, config)
    assert schedule is not None and others == []
    assert [schedule.num_frozen(step) for step in range(5)] == [2, 2, 1, 1, 0]
    assert {id(parameter) for parameter in schedule(0)} == {
        id(parameter) for block in blocks[:2] for parameter in block
    }
    with pytest.raises(
        UserError,
        match="transfer.freeze=body leaves nothing to train, as all parameters of this run are in its body"
        "; freeze less",
    ):
        run_recipe("finetune-text", [*assignments, *more[:2], "transfer.freeze=body"], out=Path("other"))


@pytest.mark.parametrize("kind", ["recurrent", "elmo"])
def test_blocks_of_every_body_can_be_frozen_and_unfrozen(kind: str, tmp_path: Path) -> None:
    config = config_of(
        "finetune-classify", settings(tmp_path, "transfer.unfreeze_every=3", "transfer.freeze=1", kind=kind)
    )
    task = prepare_problem(config).task
    freeze(task, config)
    schedule, (blocks, _) = unfreezing(task, config), levels_of(task, config)
    assert schedule is not None and len(blocks) == 3
    assert {id(parameter) for parameter in schedule(2)} == {id(parameter) for parameter in blocks[2]} and schedule(
        3
    ) == []
    assert [any(parameter.requires_grad for parameter in block) for block in blocks] == [False, False, True]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            ["transfer.unfreeze_every=2"],
            "(2) reaches only 2 of 3 levels of the body within training.steps (6), and the others would never be ",
        ),
        (
            ["transfer.unfreeze_every=2"],
            "trained; set it to at most 1, or training.steps to at least 7, or freeze these levels with ",
        ),
        (
            ["transfer.unfreeze_every=9", "training.steps=2"],
            "trained; set training.steps to at least 28, or freeze these levels with transfer.freeze",
        ),
    ],
)
def test_blocks_that_would_never_be_unfrozen_are_reported(more: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        run_recipe("finetune-classify", settings(tmp_path, *more), out=Path("run"))
    assert sentence in str(error.value) and not Path("run").exists()
    run_recipe(
        "finetune-classify", settings(tmp_path, "transfer.unfreeze_every=1", "training.steps=4"), out=Path("run")
    )


def test_each_block_has_its_learning_rate_and_norms_do_not_decay(tmp_path: Path) -> None:
    from clew.core.config import build_part
    from clew.training.freezing import scale_rates
    from clew.training.optimisers import OPTIMISERS

    config = config_of("finetune-classify", settings(tmp_path, "transfer.layer_decay=0.5", "transfer.head_rate=3"))
    task = prepare_problem(config).task
    optimiser = build_part("optimiser", config.training.optimiser, OPTIMISERS, task.parameters(), 0.08)
    scale_rates(optimiser, task, config)
    groups = {id(p): (group["lr"], group["weight_decay"]) for group in optimiser.param_groups for p in group["params"]}
    assert len(groups) == len(list(task.parameters()))
    blocks, others = levels_of(task, config)
    for level, rate in [*zip(blocks, (0.01, 0.02, 0.04), strict=True), (others, 0.24)]:
        for parameter in level:
            assert groups[id(parameter)] == (pytest.approx(rate), 0.01 if parameter.dim() > 1 else 0.0)


@pytest.mark.parametrize(
    "more",
    [
        ["transfer.unfreeze_every=2", "transfer.layer_decay=0.7", "training.average=ema", "training.steps=7"],
        ["transfer.freeze=1", "transfer.head_rate=2"],
        ["transfer.adapter={name: lora, rank: 2, dropout: 0.1}", "training.average=ema"],
    ],
    ids=["unfreezing, averaged", "frozen", "adapter, averaged"],
)
def test_an_interrupted_run_resumes_bit_for_bit(more: list[str], tmp_path: Path) -> None:
    assignments = settings(tmp_path, *more)
    run_recipe("finetune-classify", assignments, out=Path("whole"))
    with pytest.raises(Interrupted):
        run_recipe("finetune-classify", assignments, out=Path("halves"), report=Listener(stop_at_step=3))
    run_recipe("finetune-classify", assignments, out=Path("halves"), resume=True)
    assert_same_run(Path("whole"), Path("halves"))


def test_more_blocks_than_the_body_has_cannot_be_frozen(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"transfer.freeze \(3\) must be at most 2, the number of blocks of the body; transfer.freeze=body",
    ):
        run_recipe("finetune-classify", settings(tmp_path, "transfer.freeze=3"), out=Path("run"))


@pytest.mark.slow
def test_several_processes_learn_the_same_as_one(tmp_path: Path) -> None:
    plain = settings(
        tmp_path, "model.dropout=0", "model.attention_dropout=0", "task.dropout=0", "training.batch_size=5"
    )
    kinds = {
        "unfrozen": ["transfer.unfreeze_every=2", "transfer.layer_decay=0.7", "training.steps=7"],
        "adapted": ["transfer.adapter={name: lora, rank: 2}"],
        "frozen": ["transfer.freeze=1"],
    }
    together = []
    for name, more in kinds.items():
        run_recipe("finetune-classify", [*plain, *more], out=Path(f"{name}-one"))
        together += [
            ([*plain, *more, f"training.parallel={parallel}"], f"{name}-{parallel}", False)
            for parallel in ("ddp", "fsdp")
        ]
    train_together(2, tmp_path, together, "finetune-classify")
    for name in kinds:
        alone = read_weights(Path(f"{name}-one") / WEIGHTS)
        for parallel in ("ddp", "fsdp"):
            together_weights = read_weights(Path(f"{name}-{parallel}") / WEIGHTS)
            assert together_weights.keys() == alone.keys()
            for key, value in together_weights.items():
                torch.testing.assert_close(value, alone[key], rtol=1e-4, atol=1e-5, msg=f"{name}-{parallel} {key}")
