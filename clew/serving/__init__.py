"""Local servers for runs: the page that looks inside them, and JSON for programs."""
