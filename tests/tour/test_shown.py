"""What experiments conclude from given numbers."""

import torch

from clew.tour import growth, reach, recall


def test_reach_counts_until_one_percent_is_left() -> None:
    halved = 0.5 ** torch.arange(40, dtype=torch.float64)  # 0.5^7 < 0.01
    flat = torch.ones(40, dtype=torch.float64)
    finding = reach.show(
        {cell: {"trained": halved if cell == "elman" else flat, "untrained": halved} for cell in reach.CELLS}
    )
    rows = {what: (claimed, measured) for what, claimed, measured in finding.rows}
    assert rows["steps until 1 % of the gradient is left, simple network (Elman)"] == (
        "about 7",
        "7 trained, 7 untrained",
    )
    assert rows["steps until 1 % of the gradient is left, LSTM's cell"] == (
        "about 100",
        "more than 39 trained, 7 untrained",
    )


def test_growth_reports_the_better_family_at_each_amount_of_text() -> None:
    losses = {
        ("LSTM", 0.1): (2.0, 1.9),
        ("LSTM", 1.0): (1.8, 1.7),
        ("Transformer", 0.1): (2.2, 2.1),
        ("Transformer", 1.0): (1.9, 1.6),
    }
    points = [
        growth.Point(family, size, share, loss)
        for (family, share), pair in losses.items()
        for size, loss in zip((10, 20), pair, strict=True)
    ]
    finding = growth.show(points, growth.Size((1, 2), (1, 2), (0.1, 1.0), 5, 2, 2))
    assert [measured for _, _, measured in finding.rows] == ["-0.200", "+0.100"]


def test_recall_reports_the_longest_bridged_gap_and_the_gradients_reach() -> None:
    right = {name: [1.0, 0.95, 0.3] for name in recall.MODELS} | {"LSTM": [1.0, 1.0, 0.9]}
    gradients = {
        "simple network (Elman)": 0.1 ** torch.arange(9, dtype=torch.float64),
        "LSTM": torch.ones(9, dtype=torch.float64),
    }
    rows = {
        what: measured
        for what, _, measured in recall.show(
            recall.RecallResults([1, 5, 20], right, gradients, dict.fromkeys(recall.MODELS, 0.01))
        ).rows
    }
    assert rows["longest gap with 90 % right answers, LSTM"] == "20 of 20 words; 90% right at 20"
    assert rows["longest gap with 90 % right answers, GRU"] == "5 of 20 words; 30% right at 20"
    assert rows["steps until 1 % of the gradient is left, trained to recall, simple network (Elman)"] == "3 steps"
    assert rows["steps until 1 % of the gradient is left, trained to recall, LSTM"] == "all 8 steps"
