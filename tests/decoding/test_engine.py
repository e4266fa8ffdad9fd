"""Repeated steps: what the host decides, which steps may share a graph, and, on a GPU, that captured steps equal eager
ones token by token."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

from clew.core.state import leaves, map_tree
from clew.core.taps import watching
from clew.decoding import engine
from clew.decoding.beam import beam_search
from clew.decoding.ends import padded_count
from clew.decoding.engine import called, calling, facts_of, forget_graphs, models_of, outline, repeating, standing_of
from clew.decoding.ensemble import Ensemble
from clew.decoding.filters import Banned, NoRepeatNgram, RepetitionPenalty, Temperature, TopK, with_filters
from clew.decoding.forced_end import ForcedEnd
from clew.decoding.graphs import copy_leaves, overwrite
from clew.decoding.repeated import Eager, Interrupted
from clew.decoding.sampling import greedy, greedy_sequences, sample_sequences
from clew.decoding.sliding import Sliding
from clew.decoding.stepper import Stepper, signature_of
from clew.decoding.tape import Tape
from clew.decoding.taped import Taped
from clew.decoding.trees import TreeConstraint, TreeTokens
from clew.layers.attention import Attention
from clew.models import MODELS
from clew.sources.tokens import Tokens
from clew.tasks.language_model import LanguageModel, LanguageModelConfig

VOCABULARY = 90
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt": {"dim": 64, "num_layers": 2, "num_heads": 4, "max_length": 200},
    "llama": {"dim": 64, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2},
    "recurrent": {"dim": 64, "num_layers": 2},
    "mixed": {"dim": 64, "layers": ["gru", {"name": "attention", "window": 16}, "lstm"]},
}
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are captured on a GPU")


def model(family: str, device: str = "cpu", **settings: Any) -> LanguageModel:
    torch.manual_seed(3)
    member = MODELS[family]
    body = member.build(member.config(**{**FAMILIES[family], **settings}), Tokens(VOCABULARY))
    return LanguageModel(body, None, LanguageModelConfig(tied=False)).to(device).eval()  # type: ignore[arg-type]


def counting(frame: Any, fed: Any) -> Any:
    new = (frame[0] + 1, frame[1] + (0 if fed is None else fed))
    return new, (frame[0], new[1])


def test_outputs_of_several_steps_are_concatenated():
    repeated = Eager(counting, (torch.tensor([0, 10]), torch.zeros(2)))
    before, sums = repeated.run(3, torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert before.tolist() == [[0, 1, 2], [10, 11, 12]]
    assert sums.tolist() == [[1, 4, 9], [2, 6, 12]]
    assert repeated.frame[0].tolist() == [3, 13]


@pytest.mark.parametrize("cuts", [(10,), (3, 3, 4), (1,) * 10, (4, 6)])
def test_a_step_that_is_not_calm_runs_as_written(cuts):
    def as_written(frame: Any, fed: Any) -> Any:
        number = frame[0] + 1
        return (number,), (number + fed, torch.full_like(number, 1))

    def captured(frame: Any, fed: Any) -> Any:
        (number,), (output, kind) = as_written(frame, fed)
        return (number,), (output, kind - 1)

    def calm(frame: Any) -> int:
        checks.append(frame[0].tolist())
        return min((-number) % 4 for number in frame[0].tolist())  # a row at a multiple of 4 asks the host

    checks: list[list[int]] = []
    repeated = Interrupted(Eager(captured, (torch.tensor([1, 3]),)), as_written, calm)
    fed, parts_run, done = 100 * torch.arange(10)[:, None].expand(10, 2), [], 0
    for count in cuts:
        parts_run.append(repeated.run(count, fed[done : done + count]))
        done += count
    outputs, kinds = (torch.cat(parts, 1) for parts in zip(*parts_run, strict=True))
    assert outputs.tolist() == [[start + 101 * step + 1 for step in range(10)] for start in (1, 3)]
    assert kinds.tolist() == [[int((1 + step) % 4 == 0 or (3 + step) % 4 == 0) for step in range(10)]] * 2
    assert repeated.frame[0].tolist() == [11, 13]
    assert len(checks) <= 10, "the host checks only where it must, not at every step"


def generate_sliding(task: LanguageModel, device: str) -> list[torch.Tensor]:
    torch.manual_seed(6)
    prompt, mask = (
        torch.randint(VOCABULARY, (3, 9)).to(device),
        (torch.arange(9) < torch.tensor([[9], [4], [7]])).to(device),
    )

    def stepper() -> Stepper:
        return Sliding(task.stepper(), limit=16, keep=6)

    return [
        greedy_sequences(stepper(), prompt, mask, max_new=60).tokens,
        greedy_sequences(stepper(), prompt, max_new=30, end=[3, 7]).tokens,
        sample_sequences(TopK(NoRepeatNgram(stepper(), n=3), k=9), prompt, mask, max_new=40, end=[3, 7], seed=4).tokens,
        beam_search(stepper(), prompt, mask, beams=3, max_new=40, end=[3], n_best=2).tokens,
    ]


@on_gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sliding_window_is_captured_between_its_restarts(family, monkeypatch):
    task = model(family, "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    runs = [generate_sliding(task, "cuda") for _ in range(2)]
    assert engine._graphs
    hook = task.register_forward_hook(lambda *_: None)
    eager = generate_sliding(task, "cuda")
    hook.remove()
    for each in runs:
        assert all(map(torch.equal, each, eager))


def test_overwriting_can_swap_leaves():
    first, second = torch.tensor([1.0]), torch.tensor([2.0])
    overwrite((first, second), (second, first))
    assert (first.item(), second.item()) == (2.0, 1.0)


def test_a_step_without_a_signature_runs_eagerly():
    frame = (torch.zeros(2), torch.zeros(2))
    assert standing_of(None).reason == "a part of the step does not say what it depends on"
    with repeating(counting, frame, steps=1000) as repeated:
        assert isinstance(repeated, Eager)
    with repeating(counting, frame, steps=1000, signature=("a",)) as repeated:
        assert isinstance(repeated, Taped)


def filtered(task: LanguageModel, **changes: Any) -> Stepper:
    settings = {
        "temperature": 0.7,
        "top_k": 5,
        "top_p": 0.9,
        "repetition_penalty": 1.2,
        "no_repeat_ngram": 3,
        "banned": [1, 4],
    }
    return with_filters(task.stepper(), **{**settings, **changes})


def test_only_equal_steppers_have_equal_signatures():
    task, other_task = model("gpt"), model("gpt")
    assert signature_of(filtered(task)) == signature_of(filtered(task)) != signature_of(filtered(other_task))
    for change in (
        {"temperature": 0.8},
        {"top_k": 6},
        {"top_p": 0.8},
        {"repetition_penalty": 1.3},
        {"no_repeat_ngram": 2},
        {"banned": [1]},
    ):
        assert signature_of(filtered(task)) != signature_of(filtered(task, **change)), change
    ended = [ForcedEnd(task.stepper(), end=end, max_new=8, prompt=1) for end in (3, 3, 4)]
    assert signature_of(ended[0]) == signature_of(ended[1]) != signature_of(ended[2])
    assert signature_of(Ensemble([task.stepper(), other_task.stepper()])) != signature_of(
        Ensemble([task.stepper(), task.stepper()])
    )


def test_a_stepper_that_contains_one_without_a_signature_has_none():
    class Silent:
        vocabulary = 5

    for around in (
        Temperature(Silent(), temperature=2.0),
        RepetitionPenalty(Silent(), penalty=2.0),
        ForcedEnd(Silent(), end=1, max_new=3, prompt=1),
        Ensemble([Silent()]),
    ):
        assert signature_of(around) is None, type(around)


TREES = TreeTokens(opens=[5, 6, 7], closes=[8, 9, 10], words=[11, 12], start=0, end=3)


def parsing(task: LanguageModel, **changes: Any) -> TreeConstraint:
    words = torch.tensor([4, 2, 7], device=next(task.parameters()).device)
    return TreeConstraint(task.stepper(), **{"tokens": TREES, "lengths": words, "max_length": 40, **changes})


def trees_written(task: LanguageModel, device: str) -> list[torch.Tensor]:
    prompt = torch.zeros(3, 1, dtype=torch.long, device=device)
    return [
        greedy_sequences(parsing(task), prompt, max_new=40, end=3).tokens,
        sample_sequences(parsing(task), prompt, max_new=40, end=3, seed=4).tokens,
        beam_search(parsing(task), prompt, beams=3, max_new=40, end=3, n_best=2).tokens,
    ]


def test_a_tree_constraints_signature_has_tokens_and_bounds_but_no_sentences():
    task = model("gpt")
    signature = signature_of(parsing(task))
    assert signature == signature_of(parsing(task, lengths=torch.tensor([1]), max_length=9))
    for change in ({"max_depth": 9}, {"max_unary": 2}, {"tokens": TREES._replace(words=[11])}):
        assert signature != signature_of(parsing(task, **change)), change
    assert signature != signature_of(parsing(model("gpt")))


@pytest.mark.parametrize("family", ["gpt", "recurrent"])
def test_trees_from_a_tape_equal_eager_ones(family, monkeypatch):
    task, taped = model(family), []
    following = Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: taped.append(tape) or following(tape, ahead))
    runs = [trees_written(task, "cpu") for _ in range(2)]
    assert len(taped) > 40, "most steps are run from a tape"
    hook = task.register_forward_hook(lambda *_: None)
    eager = trees_written(task, "cpu")
    hook.remove()
    assert all(map(torch.equal, runs[0], eager)) and all(map(torch.equal, runs[1], eager))


@on_gpu
@pytest.mark.parametrize("family", ["gpt", "recurrent"])
def test_trees_from_a_graph_equal_eager_ones(family, monkeypatch):
    task = model(family, "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    runs = [trees_written(task, "cuda") for _ in range(3)]
    assert engine._graphs and engine._calls
    hook = task.register_forward_hook(lambda *_: None)
    eager = trees_written(task, "cuda")
    hook.remove()
    for each in runs:
        assert all(map(torch.equal, each, eager))


def test_a_signature_does_not_keep_its_model_alive():
    task = model("recurrent")
    signature, reference = signature_of(Banned(task.stepper(), tokens=[0])), weakref.ref(task)
    assert models_of(signature) == [task]
    del task
    gc.collect()
    assert reference() is None
    assert models_of(signature) == []


def test_moved_weights_are_noticed():
    task = model("gpt")
    signature = signature_of(task.stepper())
    before = facts_of(signature)
    assert facts_of(signature) == before
    task.double()
    assert facts_of(signature) != before


@pytest.mark.parametrize(
    "register", [lambda task: task.body.register_forward_hook, lambda task: register_module_forward_hook]
)
def test_hooks_are_noticed(register):
    signature = signature_of(stepper := model("gpt").stepper())
    assert standing_of(signature).reason is None
    hook = register(stepper.task)(lambda *_: None)
    assert standing_of(signature).reason == "the model is watched"
    hook.remove()
    assert standing_of(signature).reason is None


def test_a_hook_added_between_tokens_is_called_from_then_on():
    task, calls = model("gpt"), []
    for _ in range(2):
        tokens = greedy(task.stepper(), torch.zeros(1, 1, dtype=torch.long), max_new=20)
        next(tokens)
        hook = task.body.register_forward_hook(lambda *_: calls.append(1))
        assert len(list(tokens)) == 19
        hook.remove()
    assert len(calls) == 38


def set_training(task: LanguageModel) -> None:
    task.train()


def set_epsilon(task: LanguageModel) -> None:
    for module in task.modules():
        if hasattr(module, "eps"):
            module.eps = 3.0


def replace_module(task: LanguageModel) -> None:
    task.body.norm = torch.nn.Identity()


@pytest.mark.parametrize("change", [set_training, set_epsilon, replace_module])
def test_a_changed_model_decodes_in_its_current_state(change):
    task, prompt = model("gpt", dropout=0.5), torch.zeros(2, 3, dtype=torch.long)

    def write() -> torch.Tensor:
        torch.manual_seed(1)
        return greedy_sequences(task.stepper(), prompt, max_new=30).log_probs

    before = write()
    change(task)
    after = write()
    with watching({task.body: lambda _: None}):
        eager = write()
    assert not torch.equal(before, after)
    assert torch.equal(after, eager)


def test_dropout_stops_when_training_ends():
    task, prompt = model("gpt", dropout=0.5).train(), torch.zeros(2, 3, dtype=torch.long)
    for _ in range(2):
        greedy_sequences(task.stepper(), prompt, max_new=30)
    task.eval()
    first, second = (greedy_sequences(task.stepper(), prompt, max_new=30).log_probs for _ in range(2))
    assert torch.equal(first, second)


def test_no_two_threads_run_the_same_tape(monkeypatch):
    """The first thread is stopped after it found a tape and before it starts it."""
    frame, restart, others_taken = (torch.zeros(2), torch.zeros(2)), Taped.restart, []

    def take() -> Any:
        with repeating(counting, frame, steps=1000, signature=("threads",)) as repeated:
            return repeated

    first = take()

    def held(taped: Taped, *arguments: Any) -> None:
        monkeypatch.setattr(Taped, "restart", restart)
        with ThreadPoolExecutor(1) as threads:
            others_taken.append(threads.submit(take).result())
        restart(taped, *arguments)

    monkeypatch.setattr(Taped, "restart", held)
    assert take() is first
    assert others_taken[0] is not first


@pytest.mark.parametrize(
    "around", [lambda s: s, lambda s: TopK(NoRepeatNgram(RepetitionPenalty(s, penalty=1.5), n=2), k=9)]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_steps_change_no_shape_if_the_capacity_is_known(family, around):
    stepper = around(model(family).stepper())
    with torch.inference_mode():
        state = stepper.initial_state(3, 30)
        _, state = stepper(torch.randint(VOCABULARY, (3, 9)), torch.arange(9) < torch.tensor([[9], [4], [7]]), state)
        shapes = map_tree(lambda leaf: torch.tensor(leaf.shape), state)
        for _ in range(3):
            _, state = stepper(torch.randint(VOCABULARY, (3, 1)), None, state)
            assert all(tuple(shape) == leaf.shape for shape, leaf in zip(leaves(shapes), leaves(state), strict=True))


def generate_all(task: LanguageModel, device: str) -> list[torch.Tensor]:
    torch.manual_seed(5)
    prompt = torch.randint(VOCABULARY, (5, 9)).to(device)
    mask = (torch.arange(9) < torch.tensor([[9], [4], [7], [1], [9]])).to(device)
    ends = [3, 7, 11, 50]
    return [
        greedy_sequences(task.stepper(), prompt, mask, max_new=70).tokens,
        greedy_sequences(task.stepper(), prompt, mask, max_new=70, end=ends).lengths,
        greedy_sequences(filtered(task, temperature=1.0), prompt, mask, max_new=40, end=ends).tokens,
        sample_sequences(filtered(task), prompt, mask, max_new=40, end=ends, seed=2).tokens,
        beam_search(task.stepper(), prompt, mask, beams=4, max_new=40, end=ends, n_best=2).tokens,
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_taped_step_generates_the_same_as_an_eager_one(family, monkeypatch):
    task, taped = model(family), []
    following = Tape.next_step
    monkeypatch.setattr(Tape, "next_step", lambda tape, ahead: taped.append(tape) or following(tape, ahead))
    first = generate_all(task, "cpu")
    assert len(taped) > 100, "most steps are run from a tape"
    second_run = generate_all(task, "cpu")
    hook = task.register_forward_hook(lambda *_: None)
    number = len(taped)
    eager = generate_all(task, "cpu")
    hook.remove()
    assert len(taped) == number
    assert all(map(torch.equal, first, eager)) and all(map(torch.equal, second_run, eager))


@on_gpu
@pytest.mark.parametrize("family", FAMILIES)
def test_a_captured_step_generates_the_same_as_an_eager_one(family, monkeypatch):
    task = model(family, "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    first = generate_all(task, "cuda")
    assert engine._graphs, "nothing was captured"
    second_run = generate_all(task, "cuda")
    forget_graphs()
    monkeypatch.setattr(engine, "LEAST_STEPS", 10**9)
    eager = generate_all(task, "cuda")
    assert not engine._graphs
    for captured, repeated, plain in zip(first, second_run, eager, strict=True):
        assert torch.equal(captured, plain)
        assert torch.equal(repeated, plain)


@on_gpu
def test_a_graph_reads_the_current_weights(monkeypatch):
    task = model("gpt", "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    prompt = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    before = greedy_sequences(task.stepper(), prompt, max_new=30).tokens
    with torch.no_grad():
        for parameter in task.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    after = greedy_sequences(task.stepper(), prompt, max_new=30).tokens
    forget_graphs()
    assert not torch.equal(before, after)
    assert torch.equal(after, greedy_sequences(task.stepper(), prompt, max_new=30).tokens)


@on_gpu
def test_two_texts_generated_in_turns_do_not_affect_each_other(monkeypatch):
    task = model("llama", "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    prompts = [torch.tensor([[number]], device="cuda") for number in (2, 5)]
    alone = [[int(token) for token in greedy(task.stepper(), prompt, max_new=50)] for prompt in prompts]
    iterators = [greedy(task.stepper(), prompt, max_new=50) for prompt in prompts]
    together = [[int(next(each)) for each in iterators] for _ in range(50)]
    assert [list(column) for column in zip(*together, strict=True)] == alone


def doubled(tokens: torch.Tensor, part: Any) -> Any:
    return {"tokens": 2 * tokens, "part": part}


def test_a_call_on_the_cpu_is_a_plain_call():
    tokens = torch.arange(3)
    for _ in range(3):
        assert called(doubled, (tokens, None), ("doubled",))["tokens"].tolist() == [0, 2, 4]
        with calling(doubled, (tokens, None), ("doubled",)) as result:
            assert result["tokens"].tolist() == [0, 2, 4]
    assert called(lambda text: text + "!", ("a",), ("text",)) == "a!"  # arguments that are not tensors


def test_arguments_are_outlined_by_their_shapes():
    first = outline((torch.zeros(2, 3), None, {"a": torch.zeros(1)}))
    assert first == outline((torch.ones(2, 3), None, {"a": torch.ones(1)}))
    assert first != outline((torch.zeros(2, 3), torch.zeros(1), {"a": torch.zeros(1)}))
    assert first != outline((torch.zeros(2, 3).double(), None, {"a": torch.zeros(1)}))


def test_trees_are_copied_leaf_by_leaf():
    target, new = (torch.zeros(2), {"a": torch.zeros(3, dtype=torch.long)}), (torch.ones(2), {"a": torch.arange(3)})
    copy_leaves(target, new)
    assert target[0].tolist() == [1, 1] and target[1]["a"].tolist() == [0, 1, 2]


@on_gpu
def test_a_repeated_call_is_captured_and_reads_its_arguments():
    forget_graphs()
    with torch.no_grad():
        results = [
            called(doubled, (torch.full((2,), number, device="cuda"), None), ("doubled",)) for number in range(4)
        ]
    assert [part["tokens"].tolist() for part in results] == [[2 * number] * 2 for number in range(4)]
    assert len(engine._calls) == 1


@on_gpu
def test_outputs_of_a_graph_are_exclusive_until_returned():
    forget_graphs()
    numbers = [torch.full((2,), number, device="cuda") for number in range(4)]
    with torch.no_grad():
        for number in numbers[:2]:
            called(doubled, (number, None), ("doubled",))
        with calling(doubled, (numbers[2], None), ("doubled",)) as lent:
            second = called(doubled, (numbers[3], None), ("doubled",))
            assert (lent["tokens"].tolist(), second["tokens"].tolist()) == ([4, 4], [6, 6])
        with calling(doubled, (numbers[1], None), ("doubled",)) as third:
            assert third["tokens"].tolist() == [2, 2]
    assert len(engine._calls) == 1


@on_gpu
@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_a_prompt_of_unequal_rows_is_captured(family, monkeypatch):
    task = model(family, "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 10**9)
    forget_graphs()
    prompts, mask = (
        torch.randint(VOCABULARY, (3, 4, 9), device="cuda"),
        torch.arange(9) < torch.tensor([[9], [4], [7], [1]]),
    )
    generated = [greedy_sequences(task.stepper(), prompt, mask.cuda(), max_new=20).tokens for prompt in prompts]
    assert len(engine._calls) == 1
    monkeypatch.setattr(engine, "MOST_FAILURES", 0)  # from here on nothing is captured
    assert [
        greedy_sequences(task.stepper(), prompt, mask.cuda(), max_new=20).tokens.tolist() for prompt in prompts
    ] == [tokens.tolist() for tokens in generated]


@on_gpu
def test_a_call_with_too_large_outputs_is_not_captured(monkeypatch):
    monkeypatch.setattr(engine, "MOST_BYTES", 100)
    forget_graphs()
    with torch.no_grad():
        for number in range(4):
            assert (
                called(lambda x: x.repeat(10), (torch.full((2,), number, device="cuda"),), ("long",)).tolist()
                == [number] * 20
            )
    assert not engine._calls


@on_gpu
def test_shapes_that_recur_late_are_not_captured():
    forget_graphs()
    with torch.no_grad():
        for _ in range(3):
            for width in range(1, 2 * engine.MOST_CALLS):
                assert (
                    called(doubled, (torch.ones(width, device="cuda"), None), ("doubled",))["tokens"].tolist()
                    == [2] * width
                )
    assert not engine._calls


@on_gpu
def test_a_call_that_needs_the_host_is_not_captured_and_random_numbers_still_work():
    forget_graphs()
    with torch.no_grad():
        for number in range(4):
            assert (
                called(lambda x: x + x.sum().item(), (torch.full((2,), number, device="cuda"),), ("asks",)).tolist()
                == [3 * number] * 2
            )
    assert not engine._calls
    assert torch.rand(3, device="cuda").shape == (3,)


@on_gpu
def test_a_recorded_model_runs_eagerly(monkeypatch):
    task = model("gpt", "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    recorded: list[Any] = []
    tap = next(module for module in task.modules() if isinstance(module, Attention)).weights
    with watching({tap: recorded.append}):
        greedy_sequences(task.stepper(), torch.zeros(1, 1, dtype=torch.long, device="cuda"), max_new=30)
    assert len(recorded) == 30
    assert not engine._graphs


def test_on_a_gpu_a_power_of_two_of_rows_continues():
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert [padded_count(count, gpu) for count in range(10)] == [0, 1, 2, 4, 4, 8, 8, 8, 8, 16]
    assert [padded_count(count, cpu) for count in range(10)] == list(range(10))


@on_gpu
@pytest.mark.parametrize("length", [9, 700])
def test_rows_of_unequal_length_that_end_apart_are_generated_as_alone(length, monkeypatch):
    """Prompts are read in chunks, and rows are dropped to a power of two once half have ended."""
    task = model("llama", "cuda")
    monkeypatch.setattr(engine, "LEAST_STEPS", 1)
    forget_graphs()
    lengths = torch.tensor([length, 1, length // 2, 3, length - 1])[:, None]
    prompt, mask = torch.randint(VOCABULARY, (5, length), device="cuda"), (torch.arange(length) < lengths).cuda()
    ends = list(range(3, VOCABULARY, 9))
    for _ in range(3):
        batched = greedy_sequences(task.stepper(), prompt, mask, max_new=80, end=ends)
    rows = {key[2][0][0][0] for key in engine._graphs}
    assert rows <= {1, 2, 4, 5}
    for row, count in enumerate(lengths.flatten().tolist()):
        alone = greedy_sequences(task.stepper(), prompt[row : row + 1, :count], max_new=80, end=ends)
        assert alone.tokens[0, : alone.lengths[0]].tolist() == batched.tokens[row, : batched.lengths[row]].tolist()


@on_gpu
def test_a_step_that_needs_the_host_runs_eagerly_and_says_so(caplog):
    caplog.set_level("DEBUG", logger="clew")
    forget_graphs()

    def asking(frame: Any, fed: Any) -> Any:
        number = frame[0] + frame[0].sum().item()
        return (number,), (number,)

    with (
        torch.no_grad(),
        repeating(asking, (torch.ones(1, device="cuda"),), steps=1000, signature=("asks the host here",)) as repeated,
    ):
        assert repeated.run(3)[0].tolist() == [[2.0, 4.0, 8.0]]
    assert not engine._graphs
    assert [message.split(":")[0] for message in caplog.messages] == ["decoding runs eagerly"]


def test_a_stepper_without_a_signature_runs_eagerly_and_says_so(caplog):
    caplog.set_level("DEBUG", logger="clew")
    with repeating(counting, (torch.zeros(2), torch.zeros(2)), steps=3):
        pass
    assert caplog.messages == ["decoding runs eagerly: a part of the step does not say what it depends on"]


def test_the_reason_for_eager_decoding_is_logged(caplog):
    caplog.set_level("DEBUG", logger="clew")
    task = model("recurrent")
    task.register_forward_hook(lambda *_: None)
    greedy_sequences(task.stepper(), torch.zeros(1, 1, dtype=torch.long), max_new=2)
    assert caplog.messages == ["decoding runs eagerly: the model is watched"]
