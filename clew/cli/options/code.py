"""The user's own Python file, which adds entries to the tables. It is imported only because the user named it."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from clew.core.errors import UserError
from clew.core.files import file_hash
from clew.core.wording import argument_name


def load_code(path: Path) -> ModuleType:
    """Import the file, once for the same content; report an error in it with its file and line."""
    if not path.is_file():
        raise UserError(f"no such file: {path}; {argument_name('code')} takes the path of a Python file")
    if path.suffix != ".py":
        raise UserError(f"{path} is not a Python file; --code takes one that ends in .py")
    name = f"clew_user_code_{file_hash(path)[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).resolve() == path.resolve()
        ]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        where = f"{path}:{line}" if line else str(path)
        raise UserError(f"{where}: {type(error).__name__}: {error}") from error
    return module
