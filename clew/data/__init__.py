"""Corpora to batches: one format a file, plans of batches, and the embedded samples. Knows no model."""
