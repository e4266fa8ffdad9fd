"""What `clew evaluate` does for each way of learning, and measures that other verbs take from it."""
