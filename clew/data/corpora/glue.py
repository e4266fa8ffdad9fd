"""The tasks of GLUE (Wang et al. 2019) as corpora, in the layouts of their downloads below CLEW_DATA/glue.

GLUE's own test parts have no labels. Therefore its dev part is the test part here, which is scored once at the end. A
tenth of its training part, drawn by the seed, is the validation part that selects settings and the best checkpoint.
"""

from clew.data.corpora.contents import LabelTable
from clew.data.corpora.corpus import Corpus

PUBLISHED = "it is published at https://gluebenchmark.com/tasks"
CUT = {"valid": 0.1}


def glue(
    folder: str, content: LabelTable, *, test: str = "dev.tsv", other: Corpus | None = None, train: tuple[str, ...] = ()
) -> Corpus:
    return Corpus(
        tuple(f"glue/{folder}/{name}" for name in train or ("train.tsv",)),
        test=f"glue/{folder}/{test}",
        content=content,
        cut=CUT,
        other=other,
        published=PUBLISHED,
        instead="sentiment-lstm",
    )


COLA = LabelTable(text=4, label=2)
MNLI = LabelTable("sentence1", "gold_label", "sentence2")
STSB = LabelTable(6, 5, 7, ragged=True)  # some lines have two more columns with their source

GLUE = {
    "glue-sst2": glue("SST-2", LabelTable("sentence", "label")),
    # val.tsv is split off GLUE's training part.
    "glue-cola": glue("CoLA", COLA, other=glue("CoLA", COLA, train=("train.tsv", "val.tsv"))),
    "glue-mrpc": glue("MRPC", LabelTable("#1 String", "Quality", "#2 String")),
    "glue-rte": glue("RTE", LabelTable("sentence1", "label", "sentence2")),
    "glue-stsb": glue(
        "STS-B",
        LabelTable("sentence1", "score", "sentence2"),
        other=glue("STS-B", STSB, train=("sts-train.csv",), test="sts-dev.csv"),
    ),
    "glue-mnli": glue("MNLI", MNLI, test="dev_matched.tsv"),
    "glue-mnli-mismatched": glue("MNLI", MNLI, test="dev_mismatched.tsv"),
    "glue-qqp": glue("QQP", LabelTable("question1", "is_duplicate", "question2")),
    "glue-qnli": glue("QNLI", LabelTable("question", "label", "sentence")),
}
