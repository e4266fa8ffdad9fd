"""Folders in the format of Hugging Face's `transformers`. ARCHITECTURES lists the known architectures, one file
each."""

from clew.interop.huggingface.architecture import Architecture
from clew.interop.huggingface.bert import BERT
from clew.interop.huggingface.distilbert import DISTILBERT
from clew.interop.huggingface.gpt2 import GPT2
from clew.interop.huggingface.llama import LLAMA
from clew.interop.huggingface.marian import MARIAN
from clew.interop.huggingface.mistral import MISTRAL
from clew.interop.huggingface.roberta import CAMEMBERT, ROBERTA, XLM_ROBERTA

ARCHITECTURES: tuple[Architecture, ...] = (
    BERT,
    ROBERTA,
    XLM_ROBERTA,
    CAMEMBERT,
    DISTILBERT,
    GPT2,
    LLAMA,
    MISTRAL,
    MARIAN,
)
BY_FAMILY: dict[str, Architecture] = {"bert": BERT, "gpt": GPT2, "llama": LLAMA, "transformer": MARIAN}
"""The architecture that each family of clew is exported as, unless the run was imported as another."""
