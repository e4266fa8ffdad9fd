"""`python -m benchmarks [NAME ...] [OPTION ...]`: run files of this folder by name, or else `clew bench`.

A file can be run in this way if its `run()` returns comparisons.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

from clew.cli.main import main


def has_comparisons(name: str) -> bool:
    """Whether `name` is a file of this folder with a `run()`."""
    return (
        name.isidentifier()
        and find_spec(f"benchmarks.{name}") is not None
        and hasattr(import_module(f"benchmarks.{name}"), "run")
    )


if __name__ == "__main__":
    files = [argument for argument in sys.argv[1:] if has_comparisons(argument)]
    for name in files:
        for comparison in import_module(f"benchmarks.{name}").run():
            print(comparison, flush=True)
    rest = [argument for argument in sys.argv[1:] if argument not in files]
    sys.exit(0 if files and not rest else main(["bench", *rest]))
