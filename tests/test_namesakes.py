"""Functions that other modules import have unique names, so that every call is unambiguous to the reader."""

import ast
from collections import defaultdict
from pathlib import Path

import clew

ROOT = Path(clew.__file__).parent


def module_of(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_functions() -> dict[str, set[str]]:
    """The modules that define an imported public function, by the function's name."""
    trees = {module_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    imports = {
        (node.module, alias.name)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    modules = defaultdict(set)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and (module, node.name) in imports:
                modules[node.name].add(module)
    return modules


def test_no_two_imported_functions_share_a_name() -> None:
    functions = imported_functions()
    assert len(functions) > 1000
    assert {name: sorted(modules) for name, modules in functions.items() if len(modules) > 1} == {}
