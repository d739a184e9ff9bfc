"""The package's source, parsed once for all tests that read it."""

import ast
import gc
from functools import cache
from pathlib import Path
from types import MappingProxyType

import evalkit

PACKAGE = Path(evalkit.__file__).parent
Function = ast.FunctionDef | ast.AsyncFunctionDef
LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop)
KEPT = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@cache
def trees() -> MappingProxyType[Path, ast.Module]:
    """The tree of every file of the package, in the order of their names."""
    was_enabled = gc.isenabled()
    gc.disable()  # counting 650,000 nodes again and again takes longer than making them
    try:
        files = sorted(PACKAGE.rglob("*.py"))
        found = {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()
    return MappingProxyType(found)


def module_of(file: Path) -> str:
    """The dotted name by which a file is imported."""
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(file: Path) -> str:
    """The package that a file's relative imports start from."""
    return module_of(file) if file.name == "__init__.py" else module_of(file).rpartition(".")[0]


def name_of(called: ast.expr) -> str:
    """The last name of `a.b.name`; nothing of what has none."""
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


@cache
def nodes_of(file: Path) -> tuple[tuple[Function | None, ast.AST], ...]:
    """Every import, call, function and class of a file, with the function that it stands in."""
    found: list[tuple[Function | None, ast.AST]] = []
    left: list[tuple[Function | None, ast.AST]] = [(None, trees()[file])]
    while left:
        function, node = left.pop()
        if isinstance(node, KEPT):
            found.append((function, node))
        inner = node if isinstance(node, Function) else function
        for field in node._fields[::-1]:
            value = getattr(node, field)
            left += [
                (inner, child)
                for child in (value[::-1] if isinstance(value, list) else (value,))
                if isinstance(child, ast.AST) and not isinstance(child, LEAVES)
            ]
    return tuple(found)
