"""How `clew evaluate` scores each kind of task, and the measures that other verbs share with it."""
