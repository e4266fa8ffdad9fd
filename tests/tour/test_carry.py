import torch

from clew.tour.carry import ROWS, loss_by_place
from clew.tour.training import language_run

TEXT = "she went on and on and the thread ran out "


def test_a_carried_state_reads_streams_as_one_text_and_a_reset_one_as_pieces() -> None:
    run = language_run(TEXT, {"family": "recurrent", "cell": "lstm", "dim": 8}, seed=2)
    length, chunks = 4, 3
    ids = torch.tensor(run.tokenizer.encode(TEXT * 20))[: ROWS * length * chunks + 1]
    streams = torch.stack([ids[row * length * chunks : (row + 1) * length * chunks + 1] for row in range(ROWS)])

    def by_place(pieces: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            hidden, _ = run.task.body(pieces[:, :-1])
            return -run.task.log_probs(hidden).gather(-1, pieces[:, 1:, None])[..., 0].double()

    whole = by_place(streams).view(ROWS, chunks, length).mean((0, 1))
    apart = by_place(
        torch.cat([streams[:, start : start + length + 1] for start in range(0, length * chunks, length)])
    ).mean(0)
    torch.testing.assert_close(loss_by_place(run, ids, length, carry=True), whole, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(loss_by_place(run, ids, length, carry=False), apart, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(whole, apart, rtol=1e-4)
