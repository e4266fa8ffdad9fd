"""Published checkpoints in, other runtimes out."""
