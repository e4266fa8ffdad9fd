"""The history of sequence models in small experiments. Each is a function that trains models, measures them and returns
a finding."""
