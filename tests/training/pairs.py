"""Pairs in a file, and settings that train on them in a fraction of a second."""

from pathlib import Path

from clew.data.synthetic.sequences import synthetic_lines

SMALL = [
    "text.tokenizer=word",
    "text.size=null",
    "text.joint=false",
    "task.label_smoothing=0",
    "training.batch_tokens=null",
    "training.batch_size=8",
    "training.schedule=constant",
    "training.evaluate_every=4",
    "training.log_every=1",
    "decoding.max_new=12",
    "decoding.beams=2",
    "device=cpu",
]
LSTM = ["model.family=seq2seq", "model.dim=16", "model.attention=after", "model.score=general", *SMALL]
TRANSFORMER = [
    "model.family=transformer",
    "model.dim=16",
    "model.num_layers=1",
    "model.num_heads=2",
    "model.hidden_dim=32",
    "model.dropout=0",
    *SMALL,
]


def write_pairs(folder: Path, name: str = "pairs.tsv", size: int = 60, longest: int = 6, seed: int = 1) -> Path:
    """Write lines and their reversals."""
    path = folder / name
    lines = synthetic_lines("reverse", size, seed, 1, longest)
    path.write_text("".join(f"{line.source}\t{line.target}\n" for line in lines), encoding="utf-8")
    return path


def pair_settings(folder: Path, steps: int = 6, model: list[str] = LSTM) -> list[str]:
    return [f"data.train={write_pairs(folder)}", *model, f"training.steps={steps}"]
