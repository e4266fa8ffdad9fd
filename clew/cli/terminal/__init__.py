"""What a person sees on a terminal, a pipe or in a notebook: bars, tables, colours, help."""
