"""Baselines that a neural model should beat.

A baseline learns from the same training examples as the model, by counting or by a method that predates neural models.
`fit_*` makes a small value from training examples. It answers in the form of the task's model, so that both are scored
alike:

    classification   most_frequent, bag_of_words   predict_proba(texts), predict(texts)   accuracy, F1
    tagging          most_frequent                 tag(words)                             accuracy, F1 of spans
    language model   kneser_ney                    log_probs(tokens), likelihood(texts)   perplexity, bits per character
    parsing          branching                     parse(words, tags)                     F1 of brackets
    questions        word_overlap                  answer(question, passage)              exact match, F1
    word vectors     word_vectors                  nearest(word); a table for any run's embedding

`clew.training.baselines` fits them on the training part, scores them on the part that the model was scored on, and
appends their scores to the model's: `accuracy 84.10; the most frequent class has accuracy 50.00, naive Bayes has
accuracy 76.30`.

The labels of a text are a tuple, as in `clew.data.examples.Labelled`: of one label if classes exclude each other, else
of any number.
"""

from clew.core.rooms import show_modules

show_modules(__name__)
