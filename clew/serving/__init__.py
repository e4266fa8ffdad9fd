"""Runs behind a local server: the page that looks inside them, and JSON for programs."""
