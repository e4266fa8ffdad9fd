"""Output for people, on a terminal, in a pipe or in a notebook: progress bars, tables, colours, help."""
