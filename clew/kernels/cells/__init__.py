"""A cell's step, traced from its Python into expressions, and what runs such a step over a whole sequence."""
