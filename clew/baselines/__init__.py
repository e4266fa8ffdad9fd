"""What a neural model must beat.

A baseline has learnt next to nothing, or what was known before neural models, of the very examples that the model learnt from. It is a
small value that `fit_*` makes of training examples and that answers as the task's model does, so that one score takes both answers:

    classification   most_frequent, bag_of_words   predict_proba(texts), predict(texts)   accuracy, F1
    tagging          most_frequent                 tag(words)                             accuracy, F1 of spans
    language model   kneser_ney                    log_probs(tokens), likelihood(texts)   perplexity, bits per character
    parsing          branching                     parse(words, tags)                     F1 of brackets
    questions        word_overlap                  answer(question, passage)              exact match, F1
    word vectors     word_vectors                  nearest(word); a table for any run's embedding

`clew.training.baselines` fits them on the training part, scores them on the part that the model was scored on, and puts their scores behind
the model's own: `accuracy 84.10; the most frequent class has accuracy 50.00, naive Bayes has accuracy 76.30`.

Labels of a text are a tuple, as in `clew.data.examples.Labelled`: of one where classes exclude each other, of any number where not.
"""
