"""`python -m benchmarks [NAME ...] [OPTION ...]`: `clew bench`, or a file of this folder that has a `run()` of
comparisons."""

import sys
from importlib import import_module
from importlib.util import find_spec

from clew.cli.main import main


def own(name: str) -> bool:
    """Whether a file of this folder can be run so."""
    return (
        name.isidentifier()
        and find_spec(f"benchmarks.{name}") is not None
        and hasattr(import_module(f"benchmarks.{name}"), "run")
    )


if __name__ == "__main__":
    files = [word for word in sys.argv[1:] if own(word)]
    for name in files:
        for comparison in import_module(f"benchmarks.{name}").run():
            print(comparison, flush=True)
    rest = [word for word in sys.argv[1:] if word not in files]
    sys.exit(0 if files and not rest else main(["bench", *rest]))
