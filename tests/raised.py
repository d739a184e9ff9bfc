"""The codes that the package raises or warns with, read from its source."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from parsed import PACKAGE, Function, name_of, nodes_of, trees

PAGES = "html"  # a folder where `code` is markup


@dataclass(frozen=True)
class Raised:
    """One code and where it stands; `code` None where the source hides it."""

    code: str | None
    place: str


def raised() -> list[Raised]:
    """Every code that stands in a call that makes an error, a warning or a finding.

    A call counts where it names `code=`, or calls a function or record of the package that takes
    a `code: str`. A code is a literal, a choice of literals, or a name that such are given to in
    the same function or, for rows of a table, in the same module.
    """
    files = [file for file in trees() if PAGES not in file.parts]
    takes = {taker: place for file in files for taker, place in _taking(file)}
    return [
        Raised(code, f"{file.relative_to(PACKAGE.parent)}:{argument.lineno}")
        for file in files
        for function, argument in _arguments(file, takes)
        for code in _codes(argument, function, trees()[file])
    ]


def _taking(file: Path) -> Iterator[tuple[tuple[str, bool], int]]:
    """What takes a code by place: name, whether it is a method; and at which place."""
    for _, node in nodes_of(file):
        fields: list[tuple[str, ast.expr | None]] = []
        is_method = False
        if isinstance(node, Function):
            given = [(argument.arg, argument.annotation) for argument in node.args.args]
            is_method = bool(given) and given[0][0] in ("self", "cls")
            fields = given[is_method:]
        elif isinstance(node, ast.ClassDef):
            fields = [
                (name_of(field.target), field.annotation)
                for field in node.body
                if isinstance(field, ast.AnnAssign)
            ]
        for place, (name, annotation) in enumerate(fields):
            if name == "code" and annotation and ast.unparse(annotation) == "str":
                yield (node.name, is_method), place


def _arguments(
    file: Path, takes: dict[tuple[str, bool], int]
) -> Iterator[tuple[Function | None, ast.expr]]:
    """Every argument that is a code, with the function that it stands in."""
    for function, call in nodes_of(file):
        if not isinstance(call, ast.Call):
            continue
        yield from ((function, named.value) for named in call.keywords if named.arg == "code")
        called = name_of(call.func)
        if (called, False) in takes:  # of a module, or by itself
            place = takes[called, False]
            yield from ((function, argument) for argument in call.args[place : place + 1])
        elif isinstance(call.func, ast.Attribute) and (called, True) in takes:
            place = takes[called, True]  # other classes may have a method of that name
            known = (ast.Constant, ast.IfExp)
            found = call.args[place : place + 1]
            yield from ((function, argument) for argument in found if isinstance(argument, known))


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
