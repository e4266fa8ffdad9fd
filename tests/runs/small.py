"""A text of a few lines and the settings that train something on it in a fraction of a second."""

from pathlib import Path

TEXT = (
    "the ball of thread was small and red.\n"
    "she tied one end to the door and went in.\n"
    "the walls were tall and all the turns were the same.\n"
    "when she had found him they followed the thread out again.\n"
) * 6

LSTM = [
    "model.dim=16",
    "model.embedding_dim=8",
    "training.batch_size=4",
    "training.length=16",
    "training.schedule=constant",
    "training.evaluate_every=4",
    "training.log_every=1",
    "device=cpu",
]
GPT = [
    "text.tokenizer=character",
    "text.size=null",
    "model.dim=16",
    "model.num_layers=1",
    "model.num_heads=2",
    "model.max_length=32",
    "training.batch_size=4",
    "training.length=16",
    "training.schedule=constant",
    "training.evaluate_every=4",
    "device=cpu",
]


def write_text(folder: Path, text: str = TEXT, name: str = "story.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def lstm_settings(folder: Path, steps: int = 6) -> list[str]:
    return [f"data.train={write_text(folder)}", *LSTM, f"training.steps={steps}"]


def gpt_settings(folder: Path, steps: int = 6) -> list[str]:
    return [f"data.train={write_text(folder)}", *GPT, f"training.steps={steps}"]
