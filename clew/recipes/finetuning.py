"""Fine-tuning of a pre-trained run or an imported checkpoint, on the user's data and on the tasks of GLUE (Devlin et
al. 2019, section 4.1 and appendix A.3). Body, tokenizer and weights come from `transfer.from`."""

from typing import Any

from clew.recipes.recipe import Recipe
from clew.recipes.translation import BEAM

STANDS_ON = "transfer.from=RUN, a pre-trained run or an imported checkpoint"
ENCODED = {"name": "classification", "pooling": "mean", "dropout": 0.1, "truncate": True}


def finetuning_settings(steps: int, **changes: Any) -> dict[str, Any]:
    """Small learning rates with a warm-up of a tenth of the steps; larger ones would destroy what was pre-trained."""
    return {
        "steps": steps,
        "batch_size": 32,
        "optimiser": {"name": "adamw", "beta2": 0.999, "weight_decay": 0.01},
        "learning_rate": 3e-5,
        "schedule": {"name": "linear", "warmup": 0.1},
        "precision": "tf32",
        "evaluate_every": max(steps // 10, 1),
        "log_every": 25,
        "keep": 1,
    } | changes


def finetuning(
    about: str, task: dict[str, Any], training: dict[str, Any], published: str = "", **sections: Any
) -> Recipe:
    return Recipe(about, {"task": task, "training": training, **sections}, published=published, needs=STANDS_ON)


CLASSIFY = finetuning(
    "A pre-trained run on your own labelled texts: transfer.from=RUN data.train=FILE.",
    ENCODED,
    finetuning_settings(600),
)
TAG = finetuning(
    "A pre-trained run on your own tagged words: transfer.from=RUN data.train=FILE.",
    {"name": "tagging", "output": "softmax", "pieces": "first", "dropout": 0.1},
    finetuning_settings(600, learning_rate=5e-5),
)
TEXT = finetuning(
    "A pre-trained language model on your own text: transfer.from=RUN data.train=FILE.",
    {"name": "language_model"},
    finetuning_settings(600, batch_size=8, length=128, learning_rate=5e-5),
    decoding={"temperature": 0.8, "top_p": 0.95},
)
TRANSLATE = finetuning(
    "A new decoder on a pre-trained encoder, on your own pairs: transfer.from=RUN data.train=FILE.",
    {"name": "translation", "label_smoothing": 0.1},
    finetuning_settings(5000, batch_tokens=4096, learning_rate=5e-5, evaluate_every=250),
    transfer={"head_rate": 20.0},  # the decoder has everything to learn
    text={"tokenizer": "bpe", "size": 4000},
    model={"family": "transformer", "dim": 256, "num_layers": 3, "num_heads": 4, "wiring": "pre_norm"},
    decoding=BEAM,
)


def glue(
    name: str, about: str, *, examples: int, published: str, rate: float = 2e-5, epochs: int = 3, **options: Any
) -> Recipe:
    """A recipe for a task of GLUE, trained for some epochs of nine tenths of the training part."""
    data = {"corpus": f"glue-{name}", **options.pop("data", {})}
    steps = epochs * -(-int(0.9 * examples) // 32)
    figure = f"{published} on GLUE's own test part for BERT base (Devlin et al. 2019)"
    return finetuning(
        about, {**ENCODED, "longest": 256, **options}, finetuning_settings(steps, learning_rate=rate), figure, data=data
    )


SST2 = glue(
    "sst2",
    "A pre-trained run on GLUE's SST-2: the sentiment of film reviews.",
    examples=67_349,
    published="accuracy 93.5",
)
COLA = glue(
    "cola",
    "A pre-trained run on GLUE's CoLA: whether a sentence is grammatical.",
    examples=8_551,
    published="Matthews 52.1",
    rate=3e-5,
    best="matthews",
)
MRPC = glue(
    "mrpc",
    "A pre-trained run on GLUE's MRPC: whether two sentences are paraphrases.",
    examples=3_668,
    published="F1 88.9",
    rate=3e-5,
    epochs=5,
    positive="1",
    best="f1",
)
RTE = glue(
    "rte",
    "A pre-trained run on GLUE's RTE: whether one text follows from another.",
    examples=2_490,
    published="accuracy 66.4",
    rate=3e-5,
    epochs=5,
)
STSB = glue(
    "stsb",
    "A pre-trained run on GLUE's STS-B: how similar two sentences are, from 0 to 5.",
    examples=5_749,
    published="Spearman 85.8",
    rate=3e-5,
    labels="number",
)
MNLI = glue(
    "mnli",
    "A pre-trained run on GLUE's MNLI: entailment, contradiction or neither.",
    examples=392_702,
    published="accuracy 84.6",
)
QQP = glue(
    "qqp",
    "A pre-trained run on GLUE's QQP: whether two questions mean the same.",
    examples=363_846,
    published="F1 71.2",
    data={"faults": "skip"},
    positive="1",
    best="f1",
)
QNLI = glue(
    "qnli",
    "A pre-trained run on GLUE's QNLI: whether a sentence answers a question.",
    examples=104_743,
    published="accuracy 90.5",
)
