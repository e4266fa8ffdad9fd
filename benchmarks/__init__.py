"""Speed side by side with peers: one command runs both sides, interleaved, and prints the ratio of medians."""
