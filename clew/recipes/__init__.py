"""Named runs. A recipe is a config and the published result it reproduces."""

from clew.recipes import own_text, parsing, ptb, sequences, shakespeare, translation
from clew.recipes.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    "shakespeare-lstm": shakespeare.LSTM,
    "shakespeare-elman": shakespeare.ELMAN,
    "shakespeare-gru": shakespeare.GRU,
    "shakespeare-gpt": shakespeare.GPT,
    "shakespeare-llama": shakespeare.LLAMA,
    "shakespeare-gpt-full": shakespeare.GPT_FULL,
    "ptb-lstm-small": ptb.SMALL,
    "ptb-lstm-medium": ptb.MEDIUM,
    "ptb-lstm-large": ptb.LARGE,
    "ptb-awd-lstm": ptb.AWD,
    "tatoeba-transformer": translation.TATOEBA_TRANSFORMER,
    "tatoeba-lstm": translation.TATOEBA_LSTM,
    "multi30k-transformer": translation.MULTI30K_TRANSFORMER,
    "multi30k-lstm": translation.MULTI30K_LSTM,
    "multi30k-plain": translation.MULTI30K_PLAIN,
    "multi30k-many": translation.MULTI30K_MANY,
    "craft-parser": parsing.CRAFT,
    "craft-parser-full": parsing.CRAFT_FULL,
    "wsj-parser": parsing.WSJ,
    "parse": parsing.OWN,
    "translate": sequences.TRANSLATE,
    "summarise": sequences.SUMMARISE,
    "dialogue": sequences.DIALOGUE,
    "text-to-code": sequences.TEXT_TO_CODE,
    "copy": sequences.COPY,
    "reverse": sequences.REVERSE,
    "sort": sequences.SORT,
    "addition": sequences.ADDITION,
    "recall": sequences.RECALL,
    "text-lstm": own_text.LSTM,
    "text-gpt": own_text.GPT,
}
