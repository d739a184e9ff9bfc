"""The codes that the package raises or warns with, read from its source."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
PAGES = "html"  # a folder where `code` is markup


@dataclass(frozen=True)
class Raised:
    """One code and where it stands; `code` None where the source hides it."""

    code: str | None
    place: str


def raised_in(package: Path) -> list[Raised]:
    """Every code that stands in a call that makes an error, a warning or a finding.

    A call counts where it names `code=`, or calls a function or record of the package that takes
    a `code: str`. A code is a literal, a choice of literals, or a name that such are given to in
    the same function or, for rows of a table, in the same module.
    """
    trees = {
        file: ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(package.rglob("*.py"))
        if PAGES not in file.parts
    }
    takes = dict(_taking(trees.values()))
    return [
        Raised(code, f"{file.relative_to(package.parent)}:{argument.lineno}")
        for file, tree in trees.items()
        for function, argument in _arguments(tree, takes)
        for code in _codes(argument, function, tree)
    ]


def _taking(trees: Iterable[ast.Module]) -> Iterator[tuple[tuple[str, bool], int]]:
    """What takes a code by place: name, whether it is a method; and at which place."""
    for tree in trees:
        for node in ast.walk(tree):
            fields: list[ast.arg | ast.AnnAssign] = []
            is_method = False
            if isinstance(node, Function):
                is_method = [each.arg for each in node.args.args[:1]] in (["self"], ["cls"])
                fields = [*node.args.args[is_method:]]
            elif isinstance(node, ast.ClassDef):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            for place, each in enumerate(fields):
                name = each.arg if isinstance(each, ast.arg) else ast.unparse(each.target)
                if name == "code" and each.annotation and ast.unparse(each.annotation) == "str":
                    yield (node.name, is_method), place


def _arguments(
    tree: ast.AST, takes: dict[tuple[str, bool], int], function: Function | None = None
) -> Iterator[tuple[Function | None, ast.expr]]:
    """Every argument that is a code, with the function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        inner = node if isinstance(node, Function) else function
        if isinstance(node, ast.Call):
            yield from ((inner, each.value) for each in node.keywords if each.arg == "code")
            called = ast.unparse(node.func).rpartition(".")[2]
            is_attribute = isinstance(node.func, ast.Attribute)
            if (called, False) in takes:  # of a module, or by itself
                place = takes[called, False]
                yield from ((inner, each) for each in node.args[place : place + 1])
            elif is_attribute and (called, True) in takes:
                place = takes[called, True]  # other classes may have a method of that name
                known = (ast.Constant, ast.IfExp)
                found = node.args[place : place + 1]
                yield from ((inner, each) for each in found if isinstance(each, known))
        yield from _arguments(node, takes, inner)


def _codes(
    argument: ast.expr, function: Function | None, module: ast.Module
) -> Iterator[str | None]:
    match argument:
        case ast.Constant(value=str(code)):
            yield code
        case ast.IfExp():
            yield from _codes(argument.body, function, module)
            yield from _codes(argument.orelse, function, module)
        case ast.Attribute(attr="code") | ast.Call(func=ast.Name(id="str")):
            return  # handed on from what has one
        case ast.Name(id=name) if function is not None:
            if name in [each.arg for each in [*function.args.args, *function.args.kwonlyargs]]:
                return  # the caller's
            given = list(_given(name, function, module))
            yield from given or [None]
        case _:
            yield None


def _given(name: str, function: Function, module: ast.Module) -> Iterator[str | None]:
    """What is assigned to `name`, by itself or as one of a row of a table that is looped over."""
    values = {
        ast.unparse(node.targets[0]): node.value
        for node in [*module.body, *ast.walk(function)]
        if isinstance(node, ast.Assign)
    }
    if name in values:
        yield from _codes(values[name], function, module)
    for node in ast.walk(function):
        if isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
            targets = [ast.unparse(each) for each in node.target.elts]
            table = values.get(ast.unparse(node.iter), node.iter)
            if name in targets and isinstance(table, ast.Tuple | ast.List):
                for row in table.elts:
                    assert isinstance(row, ast.Tuple)
                    yield from _codes(row.elts[targets.index(name)], function, module)
