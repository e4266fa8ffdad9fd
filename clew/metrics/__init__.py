"""How good an output is: pure functions of counts that add over processes. Knows no model and no text."""
