"""The lineage told by small experiments, each a function that trains, measures and gives a view."""
