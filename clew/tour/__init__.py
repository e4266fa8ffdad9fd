"""The lineage of sequence models in small experiments, each a function that trains, measures and returns a view."""
