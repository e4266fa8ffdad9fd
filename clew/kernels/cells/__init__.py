"""A cell's step, traced from its Python code into expressions, and the kernels that run it over a whole sequence."""
